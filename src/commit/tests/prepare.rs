//! What gets into a commit: exactly the plan's paths, as they lie in the work tree.

use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::PermissionsExt;

use proptest::prelude::*;

use super::{Sandbox, odd_name, paths};
use crate::commit::CommitError;
use crate::relpath::RelPath;

#[test]
fn nothing_but_the_plans_paths_is_committed_whatever_is_staged() {
    let sandbox = Sandbox::new();
    sandbox.write("a.txt", "changed\n");
    sandbox.write("src/b.txt", "changed too\n");
    sandbox.write("new.txt", "new\n");
    sandbox.git(&["rm", "-q", "--cached", "src/deep/c.txt"]);
    sandbox.git(&["add", "-A"]);
    sandbox.commit(&["a.txt"]).unwrap();
    assert_eq!(sandbox.git(&["show", "--name-status", "--format=", "HEAD"]), "M\ta.txt");
    assert_eq!(sandbox.git(&["status", "--porcelain"]), "A  new.txt\nM  src/b.txt");
}

#[test]
fn the_commit_says_who_when_and_what() {
    let sandbox = Sandbox::new();
    sandbox.write("a.txt", "changed\n");
    let commit = sandbox.commit(&["a.txt"]).unwrap();
    assert_eq!(
        sandbox.git(&["log", "-1", "--format=%H|%an <%ae>|%cn <%ce>|%at|%ct|%(trailers:key=Task)|%s"]),
        format!(
            "{commit}|Ada <ada@example.org>|Ada <ada@example.org>|1796007912|1796007912|\
             Task: S00-001\n|Change some of the files"
        )
    );
    let line = format!("{commit}|commit: Change some of the files");
    for reference in ["HEAD", "main"] {
        assert_eq!(sandbox.git(&["reflog", "-1", "--format=%H|%gs", reference]), line);
    }
}

#[test]
fn modes_links_and_odd_names_are_kept() {
    let sandbox = Sandbox::new();
    sandbox.script("src/tool.sh", "#!/bin/sh\n");
    std::fs::set_permissions(sandbox.path("a.txt"), std::fs::Permissions::from_mode(0o755)).unwrap();
    sandbox.link("src/link", "../a.txt");
    sandbox.write(odd_name(), "odd\n");
    sandbox.remove("src/deep/c.txt");
    let mut plan = sandbox.plan(&["src/tool.sh", "a.txt", "src/link", "src/deep/c.txt", "never/was.txt"]);
    plan.paths.push(RelPath::new(odd_name().as_bytes()));
    let mut repository = sandbox.open();
    let prepared = repository.prepare(&plan).unwrap();
    repository.finish(&prepared).unwrap();
    sandbox.assert_clean();
    let listed = sandbox.git(&["ls-tree", "-r", "--format=%(objectmode) %(path)", "HEAD"]);
    assert!(listed.contains("100755 a.txt\n") && listed.contains("100755 src/tool.sh"), "{listed}");
    assert!(listed.contains("120000 src/link") && listed.contains("\\377"), "{listed}");
    assert!(!listed.contains("deep"), "{listed}");
}

#[test]
fn a_file_may_become_a_folder_and_a_folder_a_file_or_a_link() {
    let sandbox = Sandbox::new();
    sandbox.remove("a.txt");
    sandbox.write("a.txt/inner.txt", "inner\n");
    sandbox.remove("src/deep");
    sandbox.write("src/deep", "a file now\n");
    sandbox.commit(&["a.txt", "a.txt/inner.txt", "src/deep", "src/deep/c.txt"]).unwrap();
    sandbox.assert_clean();
    sandbox.remove("a.txt");
    sandbox.link("a.txt", "src");
    // `a.txt/b.txt` can be reached through the link, but it is not there.
    sandbox.commit(&["a.txt", "a.txt/inner.txt", "a.txt/b.txt"]).unwrap();
    sandbox.assert_clean();
    assert_eq!(sandbox.git(&["show", "--name-status", "--format=", "HEAD"]), "A\ta.txt\nD\ta.txt/inner.txt");
}

#[test]
fn the_last_file_takes_its_folders_with_it() {
    let sandbox = Sandbox::new();
    sandbox.remove("a.txt");
    sandbox.remove("src");
    sandbox.commit(&["a.txt", "src/b.txt", "src/deep/c.txt", "planning/plan.txt"]).unwrap();
    assert_eq!(sandbox.git(&["ls-tree", "--name-only", "HEAD"]), "planning");
    let all = sandbox.path("planning/plan.txt");
    crate::fs::remove(&all).unwrap();
    sandbox.commit(&["planning/plan.txt"]).unwrap();
    assert_eq!(sandbox.git(&["ls-tree", "-r", "HEAD"]), "");
    sandbox.assert_clean();
}

#[test]
fn an_ignored_file_is_committed_when_the_plan_names_it() {
    let sandbox = Sandbox::new();
    sandbox.write(".gitignore", "*.log\n");
    sandbox.write("x.log", "x\n");
    sandbox.commit(&[".gitignore", "x.log"]).unwrap();
    sandbox.assert_clean();
    assert!(sandbox.git(&["ls-files"]).contains("x.log"));
}

#[test]
fn the_executable_bit_does_not_count_where_the_file_system_has_none() {
    let sandbox = Sandbox::new();
    sandbox.script("tool.sh", "one\n");
    sandbox.commit(&["tool.sh"]).unwrap();
    sandbox.git(&["config", "core.fileMode", "false"]);
    sandbox.write("tool.sh", "two\n");
    sandbox.script("new.sh", "new\n");
    sandbox.commit(&["tool.sh", "new.sh"]).unwrap();
    assert_eq!(
        sandbox.git(&["ls-tree", "--format=%(objectmode) %(path)", "HEAD", "new.sh", "tool.sh"]),
        "100644 new.sh\n100755 tool.sh"
    );
    sandbox.assert_clean();
}

#[test]
fn line_ends_are_converted_as_git_converts_them() {
    let sandbox = Sandbox::new();
    sandbox.write(".gitattributes", "* text=auto\n*.bin -text\n*.id ident\n");
    sandbox.write("crlf.txt", "one\r\ntwo\r\n");
    sandbox.write("raw.bin", "one\r\ntwo\r\n");
    sandbox.write("version.id", "$Id: 0123 $\n");
    sandbox.commit(&[".gitattributes", "crlf.txt", "raw.bin", "version.id"]).unwrap();
    sandbox.assert_clean();
    assert_eq!(sandbox.git(&["cat-file", "-s", "HEAD:crlf.txt"]), "8");
    assert_eq!(sandbox.git(&["cat-file", "-s", "HEAD:raw.bin"]), "10");
    assert_eq!(sandbox.git(&["cat-file", "-p", "HEAD:version.id"]), "$Id$");
    let names = ["crlf.txt", "raw.bin", "version.id"];
    assert_eq!(sandbox.open().modified(&paths(&names)).unwrap(), []);
}

#[test]
fn what_git_cannot_keep_is_refused_by_name_and_nothing_moves() {
    let sandbox = Sandbox::new();
    let head = sandbox.git(&["rev-parse", "HEAD"]);
    sandbox.write("nested/inner.txt", "x\n");
    sandbox.git_in(&sandbox.path("nested"), &["init", "-q"]);
    rustix::fs::mknodat(
        rustix::fs::CWD,
        sandbox.path("pipe"),
        rustix::fs::FileType::Fifo,
        rustix::fs::Mode::from_raw_mode(0o600),
        0,
    )
    .unwrap();
    sandbox.write("x/.git", "gitdir: nowhere\n");
    let error = |path: &str| sandbox.commit(&["a.txt", path]).unwrap_err();
    assert!(matches!(error("nested/inner.txt"), CommitError::NestedRepository { .. }));
    assert!(matches!(error("nested"), CommitError::NestedRepository { .. }));
    assert!(matches!(error("pipe"), CommitError::SpecialFile { .. }));
    for path in ["x/.git", ".git/config", "../project/a.txt", "./a.txt", "src/.GIT", "/a.txt", "", "a\0b", "src//b.txt"]
    {
        assert!(matches!(error(path), CommitError::BadPath { .. }), "{path}: {:?}", error(path));
    }
    assert_eq!(sandbox.git(&["rev-parse", "HEAD"]), head);
    let odd = paths(&["nested/inner.txt", "pipe"]);
    assert_eq!(sandbox.open().modified(&odd).unwrap(), odd);
}

#[test]
fn a_path_in_a_submodule_is_refused_by_name() {
    let other = Sandbox::new();
    let sandbox = Sandbox::new();
    let source = other.root().to_string_lossy().into_owned();
    sandbox.git(&["-c", "protocol.file.allow=always", "submodule", "--quiet", "add", &source, "sub"]);
    sandbox.git(&["commit", "-qm", "Add a submodule"]);
    sandbox.write("sub/a.txt", "changed\n");
    for path in ["sub", "sub/a.txt"] {
        let error = sandbox.commit(&[path]).unwrap_err();
        assert!(matches!(error, CommitError::Submodule { .. }), "{error:?}");
    }
    assert_eq!(sandbox.open().modified(&paths(&["sub", "a.txt"])).unwrap(), paths(&["sub"]));
    sandbox.remove("sub");
    assert!(matches!(sandbox.commit(&["sub/a.txt"]).unwrap_err(), CommitError::Submodule { .. }));
    sandbox.write("a.txt", "changed\n");
    sandbox.commit(&["a.txt"]).unwrap();
}

/// One random edit of the work tree: a name, and what it becomes.
#[derive(Debug, Clone)]
enum Edit {
    Write(&'static str, u8),
    Tool(&'static str),
    Link(&'static str),
    Remove(&'static str),
}

fn edit() -> impl Strategy<Value = Edit> {
    let name = prop::sample::select(vec!["d", "d/a", "d/b", "d/b/c", "d-x", "d.x/y", "e", "e/f/g", "d/b-", "d/b.c"]);
    (name, 0..6u8).prop_map(|(name, what)| match what {
        0..3 => Edit::Write(name, what),
        3 => Edit::Tool(name),
        4 => Edit::Link(name),
        _ => Edit::Remove(name),
    })
}

fn carry_out(sandbox: &Sandbox, edit: &Edit) {
    let (Edit::Write(name, _) | Edit::Tool(name) | Edit::Link(name) | Edit::Remove(name)) = edit;
    // Whatever stands in the way, a folder or a file where a folder is needed, is removed.
    for (end, _) in name.match_indices('/') {
        if sandbox.path(&name[..end]).symlink_metadata().is_ok_and(|way| !way.is_dir()) {
            sandbox.remove(&name[..end]);
        }
    }
    if sandbox.path(name).symlink_metadata().is_ok() {
        sandbox.remove(name);
    }
    match edit {
        Edit::Write(name, content) => sandbox.write(name, [*content]),
        Edit::Tool(name) => sandbox.script(name, "tool"),
        Edit::Link(name) => {
            crate::fs::make_folder(sandbox.path(name).parent().unwrap()).unwrap();
            sandbox.link(name, "a.txt");
        }
        Edit::Remove(_) => {}
    }
}

/// All files and links below `d*` and `e`, tracked or not.
fn everything(sandbox: &Sandbox) -> Vec<String> {
    let mut names: Vec<String> = sandbox.git(&["ls-files", "-co"]).lines().map(str::to_owned).collect();
    names.sort();
    names.dedup();
    names
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(12))]
    #[test]
    fn a_commit_of_all_that_changed_leaves_a_clean_tree(rounds in prop::collection::vec(prop::collection::vec(edit(), 1..7), 1..4)) {
        let sandbox = Sandbox::new();
        let mut repository = sandbox.open();
        for edits in rounds {
            for edit in &edits {
                carry_out(&sandbox, edit);
            }
            let names = everything(&sandbox);
            let names: Vec<&str> = names.iter().map(String::as_str).collect();
            let prepared = repository.prepare(&sandbox.plan(&names)).unwrap();
            repository.finish(&prepared).unwrap();
            prop_assert_eq!(sandbox.git(&["status", "--porcelain"]), "");
            prop_assert_eq!(sandbox.git(&["write-tree"]), sandbox.git(&["rev-parse", "HEAD^{tree}"]));
            prop_assert_eq!(sandbox.git(&["diff-files"]), "");
        }
        sandbox.assert_clean();
    }
}
