//! The room as a whole on real trees: what a session does and what is seen of it.

#![expect(clippy::disallowed_methods, reason = "the tests do what agents do")]

mod guard;
mod random;

use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustix::fs::{AtFlags, CWD, FileType, Mode, Timespec, Timestamps, mkfifoat, utimensat};

use super::{
    Changes, FindingKind, IndexStat, Options, Scope, Snapshot, Snapshotter, Tracked, TrackedFiles, Why, content,
    folder, violations,
};
use crate::project::GitPlaces;

/// A work tree with a bare-bones git folder.
struct Tree {
    folder: tempfile::TempDir,
    options: Options,
}

impl Tree {
    fn new(files: &[(&str, &str)]) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().canonicalize().unwrap();
        let git = GitPlaces { own: root.join(".git"), common: root.join(".git") };
        fs::create_dir_all(git.common.join("info")).unwrap();
        let options = Options { root, git: Some(git), file_mode: true, ..Options::default() };
        let tree = Self { folder, options };
        for (path, content) in files {
            tree.write(path, content);
        }
        tree
    }

    fn without_git(files: &[(&str, &str)]) -> Self {
        let mut tree = Self::new(files);
        tree.options.git = None;
        tree
    }

    fn path(&self, path: &str) -> PathBuf {
        self.options.root.join(path)
    }

    fn write(&self, path: &str, content: &str) {
        fs::create_dir_all(self.path(path).parent().unwrap()).unwrap();
        fs::write(self.path(path), content).unwrap();
    }

    fn set_mode(&self, path: &str, mode: u32) {
        fs::set_permissions(self.path(path), fs::Permissions::from_mode(mode)).unwrap();
    }

    /// An index that holds these files as they are.
    fn index(&self, paths: &[&str]) -> Arc<TrackedFiles> {
        let mut entries: Vec<_> = paths.iter().map(|path| self.tracked(path)).collect();
        entries.sort_by(|a, b| a.path.cmp(&b.path));
        Arc::new(TrackedFiles { entries, index_mtime: None })
    }

    fn tracked(&self, path: &str) -> Tracked {
        let meta = fs::symlink_metadata(self.path(path)).unwrap();
        let (mode, content) = if meta.is_symlink() {
            (0o120_000, fs::read_link(self.path(path)).unwrap().as_os_str().as_bytes().to_vec())
        } else if meta.is_dir() {
            (0o160_000, Vec::new())
        } else {
            (0o100_644 | (meta.permissions().mode() & 0o111), fs::read(self.path(path)).unwrap())
        };
        Tracked { path: path.into(), mode, oid: content::of_bytes(&content), stat: IndexStat::default() }
    }

    fn snapshotter(&self) -> Snapshotter {
        Snapshotter::new(self.options.clone())
    }

    /// What is seen of `act`, with these files tracked.
    fn changes(&self, tracked: &[&str], act: impl FnOnce(&Self)) -> Changes {
        let mut snapshotter = self.snapshotter();
        let before = snapshotter.take(Some(self.index(tracked))).unwrap();
        act(self);
        snapshotter.changes_since(&before).unwrap()
    }
}

fn names(changes: &Changes) -> Vec<String> {
    changes.changed.iter().map(|change| format!("{} {}", change.path, change.kind)).collect()
}

fn dirty(snapshot: &Snapshot) -> Vec<String> {
    snapshot.dirty().iter().map(|change| format!("{} {}", change.path, change.kind)).collect()
}

#[test]
fn every_kind_of_edit_is_seen() {
    let tree =
        Tree::new(&[("README.md", "a"), ("b/c", "c"), ("gone", "x"), ("old", "same"), ("tool", "t"), ("d/e", "e")]);
    symlink("README.md", tree.path("link")).unwrap();
    symlink("x", tree.path("becomes_file")).unwrap();
    let tracked = ["README.md", "b/c", "gone", "old", "tool", "d/e", "link", "becomes_file"];
    let changes = tree.changes(&tracked, |tree| {
        tree.write("README.md", "b");
        tree.write("b/new", "n");
        fs::remove_file(tree.path("gone")).unwrap();
        fs::rename(tree.path("old"), tree.path("new")).unwrap();
        tree.set_mode("tool", 0o755);
        fs::remove_file(tree.path("link")).unwrap();
        symlink("tool", tree.path("link")).unwrap();
        fs::remove_file(tree.path("becomes_file")).unwrap();
        tree.write("becomes_file", "x");
        // A folder is replaced by a link.
        fs::rename(tree.path("d"), tree.path("moved")).unwrap();
        symlink("moved", tree.path("d")).unwrap();
        // A new folder without files is nothing to git.
        fs::create_dir(tree.path("empty")).unwrap();
    });
    assert_eq!(
        names(&changes),
        [
            "README.md modified",
            "b/new created",
            "becomes_file type changed",
            "d created",
            "d/e deleted",
            "gone deleted",
            "link modified",
            "moved/e created",
            "new created",
            "old deleted",
            "tool mode changed",
        ]
    );
    assert!(changes.changed[3].is_link && !changes.changed[3].leaves_root);
}

#[test]
fn a_tree_left_alone_or_only_touched_has_no_changes() {
    let tree = Tree::new(&[("a", "1"), ("b/c", "2"), ("untracked", "3")]);
    let changes = tree.changes(&["a", "b/c"], |tree| {
        tree.write("a", "1");
        fs::write(tree.path("b/d"), "temporary").unwrap();
        fs::remove_file(tree.path("b/d")).unwrap();
        let copy = fs::read(tree.path("b/c")).unwrap();
        fs::remove_file(tree.path("b/c")).unwrap();
        fs::write(tree.path("b/c"), copy).unwrap();
    });
    assert_eq!(changes, Changes::default());
}

#[test]
fn an_edit_that_puts_back_size_and_time_is_seen_also_when_the_stamp_is_settled() {
    let tree = Tree::new(&[("a", "old"), ("b", "old")]);
    let mut snapshotter = tree.snapshotter();
    wait_until_settled(&tree.path("b"));
    let before = snapshotter.take(None).unwrap();
    let forge = |path: &str| {
        let at = fs::symlink_metadata(tree.path(path)).unwrap();
        tree.write(path, "new");
        let time = Timespec { tv_sec: at.mtime(), tv_nsec: at.mtime_nsec() };
        let times = Timestamps { last_access: time, last_modification: time };
        utimensat(CWD, tree.path(path), &times, AtFlags::empty()).unwrap();
    };
    forge("a");
    assert_eq!(names(&snapshotter.changes_since(&before).unwrap()), ["a modified"]);
    // And at once again, when the stamp of the first look is young.
    let before = snapshotter.take(None).unwrap();
    tree.write("a", "yet");
    assert_eq!(names(&snapshotter.changes_since(&before).unwrap()), ["a modified"]);
}

/// Waits, by the clock that stamps files, until the file's stamp is old enough to be trusted.
fn wait_until_settled(path: &Path) {
    let at = folder::open_root(path.parent().unwrap()).unwrap();
    let (_, stamp) = folder::open_file(std::os::fd::AsFd::as_fd(&at), path.file_name().unwrap().as_ref()).unwrap();
    while stamp.is_young(folder::file_clock()) {
        std::thread::yield_now();
    }
}

#[test]
fn ignore_rules_are_those_of_the_first_moment() {
    let tree = Tree::new(&[(".gitignore", "*.log\nbuild/\n"), ("docs/.gitignore", "!keep.log\n"), ("src/a", "a")]);
    let changes = tree.changes(&[".gitignore", "docs/.gitignore", "src/a"], |tree| {
        tree.write("x.log", "ignored");
        tree.write("docs/keep.log", "watched by the inner rules");
        tree.write("build/out", "ignored");
        tree.write("src/evil", "hidden?");
        tree.write("src/.gitignore", "*\n");
        tree.write(".gitignore", "src/\ndocs/\n");
        tree.write(".git/info/exclude", "*\n");
    });
    assert_eq!(
        names(&changes),
        [".gitignore modified", "docs/keep.log created", "src/.gitignore created", "src/evil created"]
    );
}

#[test]
fn rules_outside_the_tree_count_and_weigh_less() {
    let mut tree =
        Tree::new(&[(".git/info/exclude", "*.tmp\n"), ("general", "*.o\n*.tmp\n"), (".gitignore", "!keep.tmp\n")]);
    tree.options.excludes_file = Some(tree.path("general"));
    let changes = tree.changes(&[".gitignore", "general"], |tree| {
        for path in ["a.tmp", "a.o", "keep.tmp", "a.c"] {
            tree.write(path, "");
        }
    });
    assert_eq!(names(&changes), ["a.c created", "keep.tmp created"]);
}

#[test]
fn a_rule_file_that_is_a_link_counts_for_nothing() {
    let tree = Tree::new(&[("rules", "*.x\n")]);
    symlink("rules", tree.path(".gitignore")).unwrap();
    assert_eq!(names(&tree.changes(&["rules", ".gitignore"], |tree| tree.write("a.x", ""))), ["a.x created"]);
}

#[test]
fn tracked_files_in_ignored_folders_are_watched_and_so_is_what_watch_names() {
    let mut tree = Tree::new(&[
        (".gitignore", "dist/\nout/\n"),
        ("dist/kept", "1"),
        ("out/deep/named", "1"),
        ("out/whole/x", "1"),
    ]);
    tree.options.watch = vec!["out/deep/named".into(), "out/whole/".into()];
    let changes = tree.changes(&[".gitignore", "dist/kept"], |tree| {
        for path in
            ["dist/kept", "dist/other", "out/deep/named", "out/deep/other", "out/whole/x", "out/whole/y", "out/z"]
        {
            tree.write(path, "two");
        }
    });
    assert_eq!(
        names(&changes),
        ["dist/kept modified", "out/deep/named modified", "out/whole/x modified", "out/whole/y created"]
    );
}

#[test]
fn an_excluded_name_that_git_does_not_ignore_is_watched_and_without_git_the_name_decides() {
    let act = |tree: &Tree| {
        tree.write("src/dist/c.js", "");
        tree.write("coverage", "a file, not a folder");
    };
    let mut tree = Tree::new(&[("src/a", "")]);
    tree.options.exclude = vec!["dist".into(), "coverage".into()];
    assert_eq!(names(&tree.changes(&["src/a"], act)), ["coverage created", "src/dist/c.js created"]);

    let mut tree = Tree::without_git(&[("src/a", ""), (".gitignore", "*\n")]);
    tree.options.exclude = vec!["dist".into(), "coverage".into()];
    let mut snapshotter = tree.snapshotter();
    let before = snapshotter.take(None).unwrap();
    assert!(before.dirty().is_empty());
    act(&tree);
    assert_eq!(names(&snapshotter.changes_since(&before).unwrap()), ["coverage created"]);
}

#[test]
fn what_belongs_to_the_coordinator_is_no_part_of_the_tree() {
    let tree = Tree::new(&[("a", "")]);
    let changes = tree.changes(&["a"], |tree| {
        for path in ["state/x", "planning/x", ".git/x", "runner.local.json", ".runner.lock", "sub/state/x"] {
            tree.write(path, "");
        }
    });
    assert_eq!(names(&changes), ["sub/state/x created"]);
}

#[test]
fn a_name_that_is_no_utf_8_is_seen_and_shown_escaped() {
    let tree = Tree::new(&[]);
    let changes = tree.changes(&[], |tree| {
        fs::write(tree.options.root.join(OsStr::from_bytes(b"bad_\xff.txt")), "").unwrap();
    });
    assert_eq!(names(&changes), ["bad_\\xff.txt created"]);
    assert!(violations(&changes, &Scope::new(&["bad_?.txt".into()])).is_empty());
}

#[test]
fn a_link_out_of_the_root_is_flagged_when_it_appears_and_never_followed() {
    let outside = tempfile::tempdir().unwrap();
    fs::write(outside.path().join("secret"), "").unwrap();
    let tree = Tree::new(&[("src/a", "")]);
    symlink("/etc", tree.path("old")).unwrap();
    let changes = tree.changes(&["src/a", "old"], |tree| {
        symlink(outside.path(), tree.path("src/out")).unwrap();
        symlink("a", tree.path("src/in")).unwrap();
    });
    assert_eq!(names(&changes), ["src/in created", "src/out created"]);
    let found = violations(&changes, &Scope::new(&["src/*".into()]));
    assert_eq!(
        found.iter().map(|v| (v.path.to_string(), v.why)).collect::<Vec<_>>(),
        [("src/out".to_owned(), Why::LeavesRoot)]
    );
}

#[test]
fn special_files_and_repositories_inside_are_findings_only_when_new() {
    let tree = Tree::new(&[("a", ""), ("old/.git/HEAD", ""), ("old/x", "")]);
    let fifo = |path: &str| mkfifoat(CWD, tree.path(path), Mode::RUSR | Mode::WUSR).unwrap();
    fifo("old_fifo");
    let mut snapshotter = tree.snapshotter();
    let before = snapshotter.take(Some(tree.index(&["a"]))).unwrap();
    assert_eq!(before.findings().len(), 2);
    fifo("fifo");
    tree.write("new/.git/HEAD", "");
    tree.write("new/x", "");
    tree.write("old/x", "2");
    let changes = snapshotter.changes_since(&before).unwrap();
    assert_eq!(names(&changes), ["new/x created", "old/x modified"]);
    let kinds: Vec<_> = changes.findings.iter().map(|f| (f.path.to_string(), f.kind)).collect();
    assert_eq!(kinds, [("fifo".into(), FindingKind::SpecialFile), ("new".into(), FindingKind::NestedRepository)]);
    assert_eq!(
        FileType::from_raw_mode(fs::metadata(tree.path("fifo")).map(|m| m.permissions().mode()).unwrap()),
        FileType::Fifo
    );
}

#[test]
fn an_unreadable_folder_or_file_is_a_finding_and_what_it_held_is_not_called_deleted() {
    let tree = Tree::new(&[("closed/a", "a"), ("secret", "s"), ("open", "o")]);
    let changes = tree.changes(&["closed/a", "secret", "open"], |tree| {
        tree.set_mode("closed", 0o000);
        tree.set_mode("secret", 0o000);
    });
    tree.set_mode("closed", 0o755);
    // To root nothing is unreadable.
    if rustix::process::geteuid().is_root() {
        assert_eq!(changes, Changes::default());
        return;
    }
    assert!(changes.findings.iter().all(|finding| finding.kind == FindingKind::Unreadable));
    assert_eq!(changes.findings.iter().map(|f| f.path.to_string()).collect::<Vec<_>>(), ["closed", "secret"]);
    assert_eq!(names(&changes), ["secret modified"]);
}

#[test]
fn a_submodule_is_watched_file_by_file() {
    let tree = Tree::new(&[("sub/.git", "gitdir: x"), ("sub/a", "a"), ("sub-b", "b")]);
    let mut snapshotter = tree.snapshotter();
    let before = snapshotter.take(Some(tree.index(&["sub", "sub-b"]))).unwrap();
    assert_eq!((dirty(&before), before.findings().len()), (vec![], 0));
    tree.write("sub/a", "b");
    tree.write("sub/new", "b");
    assert_eq!(names(&snapshotter.changes_since(&before).unwrap()), ["sub/a modified", "sub/new created"]);
    fs::remove_dir_all(tree.path("sub")).unwrap();
    assert_eq!(names(&snapshotter.changes_since(&before).unwrap()), ["sub deleted", "sub/a deleted"]);
}

#[test]
fn what_differs_from_the_index_is_dirty() {
    let tree = Tree::new(&[("a", "1"), ("b", "1"), ("c", "1"), ("d", "1"), ("e/f", "1"), (".gitignore", "*.log")]);
    let index = tree.index(&["a", "b", "c", "d", "e/f", ".gitignore"]);
    tree.write("a", "2");
    fs::remove_file(tree.path("b")).unwrap();
    tree.set_mode("c", 0o755);
    fs::remove_file(tree.path("d")).unwrap();
    symlink("c", tree.path("d")).unwrap();
    tree.write("new", "");
    tree.write("new.log", "");
    tree.write("state/tasks/x", "");
    let expected = ["a modified", "b deleted", "c mode changed", "d type changed", "new created"];
    assert_eq!(dirty(&tree.snapshotter().take(Some(Arc::clone(&index))).unwrap()), expected);

    let options = Options { file_mode: false, ..tree.options.clone() };
    let without_modes = Snapshotter::new(options).take(Some(index)).unwrap();
    assert_eq!(dirty(&without_modes), ["a modified", "b deleted", "d type changed", "new created"]);
}

#[test]
fn a_folder_nested_without_end_is_a_finding_not_a_crash() {
    let tree = Tree::new(&[]);
    let changes = tree.changes(&[], |tree| {
        fs::create_dir_all(tree.path(&vec!["d"; 300].join("/"))).unwrap();
        fs::write(tree.path(&(vec!["d"; 300].join("/") + "/f")), "").unwrap();
    });
    assert_eq!(changes.findings.len(), 1);
    assert_eq!(changes.findings[0].kind, FindingKind::TooDeep);
}

#[test]
fn many_files_are_walked_and_read_by_two_threads_to_the_same_end() {
    let tree = Tree::new(&[]);
    for number in 0..1200 {
        tree.write(&format!("d{}/f{number}", number % 37), &number.to_string());
    }
    let mut snapshotter = tree.snapshotter();
    // The first look knows no sizes and uses one thread, the second two.
    let first = snapshotter.take(None).unwrap();
    assert_eq!(snapshotter.changes_since(&first).unwrap(), Changes::default());
    tree.write("d7/f7", "8");
    assert_eq!(names(&snapshotter.changes_since(&first).unwrap()), ["d7/f7 modified"]);
}
