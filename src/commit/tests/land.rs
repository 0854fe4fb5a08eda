//! A linked work tree from its founding to the landing of what was made there.

use super::{CommitError, CommitId, Sandbox, now, odd_name, paths};
use crate::commit::{Landing, Prepared, Repository, linked};
use crate::project::Project;
use crate::relpath::RelPath;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;

/// A sandbox with a linked work tree at HEAD.
struct Pair {
    sandbox: Sandbox,
    tree: PathBuf,
    own: PathBuf,
}

impl Pair {
    fn of(sandbox: Sandbox) -> Self {
        let tree = sandbox.root().parent().unwrap().join("tree");
        let head = CommitId::try_from(sandbox.git(&["rev-parse", "HEAD"])).unwrap();
        let own = sandbox.open().found_tree(&tree, &head).unwrap();
        let pair = Self { sandbox, tree, own };
        pair.open().bring_to(&head).unwrap();
        pair
    }

    fn new() -> Self {
        Self::of(Sandbox::new())
    }

    /// The repository as seen from the work tree.
    fn open(&self) -> Repository {
        let project = Project::open(&self.sandbox.root()).unwrap().linked(self.tree.clone(), self.own.clone()).unwrap();
        let surroundings =
            super::Surroundings { env: self.sandbox.env.clone(), program: Box::new(super::Direct), run_hooks: false };
        Repository::open(&project, surroundings).unwrap()
    }

    fn write(&self, name: &str, content: impl AsRef<[u8]>) {
        crate::fs::replace(&self.tree.join(name), content.as_ref()).unwrap();
    }

    /// Prepares a commit of these paths as the work tree has them, without landing it.
    fn prepare(&self, names: &[RelPath]) -> (Repository, Prepared, Vec<crate::commit::Content>) {
        let contents = self.open().keep_contents(names).unwrap();
        let mut repository = self.sandbox.open();
        let prepared = repository.prepare_with(&self.sandbox.plan(&[]), &contents).unwrap();
        (repository, prepared, contents)
    }

    fn land(&self, names: &[&str]) -> Result<CommitId, CommitError> {
        let (mut repository, prepared, contents) = self.prepare(&paths(names));
        let scratch = self.sandbox.path("../scratch");
        let landed =
            repository.land(&prepared, &Landing { base: &prepared.parent, contents: &contents, scratch: &scratch });
        assert!(!scratch.exists(), "nothing is left on the way");
        landed
    }
}

#[test]
fn a_linked_work_tree_is_one_that_git_knows_and_finds_clean() {
    let pair = Pair::new();
    assert_eq!(pair.sandbox.git_in(&pair.tree, &["status", "--porcelain"]), "");
    assert_eq!(pair.sandbox.git_in(&pair.tree, &["rev-parse", "HEAD"]), pair.sandbox.git(&["rev-parse", "HEAD"]));
    assert!(pair.sandbox.git(&["worktree", "list"]).contains("detached HEAD"));
    let common = pair.sandbox.path(".git");
    assert_eq!(linked::own_folder_of(&common, &pair.tree).unwrap(), Some(pair.own.clone()));
    assert!(linked::is_linked(&common, &pair.tree, &pair.own));
    crate::fs::replace(&pair.tree.join(".git"), b"gitdir: /elsewhere\n").unwrap();
    assert!(!linked::is_linked(&common, &pair.tree, &pair.own));
    linked::relink(&pair.tree, &pair.own).unwrap();
    assert!(linked::is_linked(&common, &pair.tree, &pair.own));
    pair.sandbox.git(&["fsck", "--strict"]);
}

#[test]
fn work_lands_with_branch_files_and_index_together() {
    let pair = Pair::new();
    pair.write("a.txt", "changed\n");
    pair.write("new/deep/n.bin", [0, 0xff, 1]);
    crate::fs::remove(&pair.tree.join("src/b.txt")).unwrap();
    crate::fs::remove_folder(&pair.tree.join("src/deep")).unwrap();
    pair.write("src/deep", "a file now\n");
    crate::fs::make_link(&pair.tree.join("link"), "a.txt".as_ref()).unwrap();
    let names = ["a.txt", "new/deep/n.bin", "src/b.txt", "src/deep/c.txt", "src/deep", "link"];
    pair.land(&names).unwrap();
    pair.sandbox.assert_clean();
    assert_eq!(pair.sandbox.read("a.txt"), "changed\n");
    assert_eq!(pair.sandbox.read("src/deep"), "a file now\n");
    assert_eq!(crate::fs::read(&pair.sandbox.path("new/deep/n.bin")).unwrap(), [0, 0xff, 1]);
    assert_eq!(pair.sandbox.path("link").read_link().unwrap(), PathBuf::from("a.txt"));
    assert!(!pair.sandbox.path("src/b.txt").exists());
}

#[test]
fn a_file_becomes_a_folder_and_a_name_that_is_no_utf_8_lands() {
    let pair = Pair::new();
    crate::fs::remove(&pair.tree.join("a.txt")).unwrap();
    pair.write("a.txt/inner", "inner\n");
    crate::fs::replace(&pair.tree.join(odd_name()), b"odd\n").unwrap();
    let mut names = paths(&["a.txt", "a.txt/inner"]);
    names.push(RelPath::new(odd_name().as_bytes()));
    let (mut repository, prepared, contents) = pair.prepare(&names);
    let scratch = pair.sandbox.path("../scratch");
    repository.land(&prepared, &Landing { base: &prepared.parent, contents: &contents, scratch: &scratch }).unwrap();
    pair.sandbox.assert_clean();
    assert_eq!(pair.sandbox.read("a.txt/inner"), "inner\n");
    assert!(
        pair.sandbox
            .path("src")
            .join(odd_name().as_bytes().strip_prefix(b"src/").map(std::ffi::OsStr::from_bytes).unwrap())
            .exists()
    );
}

#[test]
fn an_edit_a_staged_version_or_an_untracked_file_in_the_way_stops_everything() {
    type Deed = fn(&Sandbox);
    let deeds: [(Deed, &str); 6] = [
        (|sandbox| sandbox.write("a.txt", "a person's\n"), "a.txt"),
        (|sandbox| sandbox.remove("a.txt"), "a.txt"),
        (|sandbox| sandbox.write("new.txt", "a person's\n"), "new.txt"),
        (|sandbox| sandbox.write("src/b.txt/inner", "a person's\n"), "src/b.txt"),
        (
            |sandbox| {
                sandbox.write("a.txt", "staged\n");
                sandbox.git(&["add", "a.txt"]);
                sandbox.write("a.txt", "a\n");
            },
            "a.txt",
        ),
        (
            |sandbox| {
                sandbox.remove("src");
                sandbox.link("src", "/nowhere");
            },
            "src/b.txt",
        ),
    ];
    for (deed, name) in deeds {
        let pair = Pair::new();
        for file in ["a.txt", "new.txt", "src/b.txt", "z.txt"] {
            pair.write(file, "session's\n");
        }
        if name == "src/b.txt" {
            pair.sandbox.remove("src/b.txt");
        }
        deed(&pair.sandbox);
        let before = (pair.sandbox.git(&["rev-parse", "HEAD"]), pair.sandbox.git(&["status", "--porcelain"]));
        let error = pair.land(&["a.txt", "new.txt", "src/b.txt", "z.txt"]).unwrap_err();
        let CommitError::Overwrites { paths: named } = &error else { panic!("{error}") };
        assert!(named.contains(&name.into()), "{error}");
        let after = (pair.sandbox.git(&["rev-parse", "HEAD"]), pair.sandbox.git(&["status", "--porcelain"]));
        assert_eq!(before, after, "nothing moved");
    }
}

#[test]
fn a_branch_that_went_on_takes_the_work_unless_it_touched_the_same_file() {
    let pair = Pair::new();
    let base = CommitId::try_from(pair.sandbox.git(&["rev-parse", "HEAD"])).unwrap();
    pair.write("a.txt", "session's\n");
    let contents = pair.open().keep_contents(&paths(&["a.txt"])).unwrap();
    let land = |sandbox: &Sandbox| {
        let mut repository = sandbox.open();
        let prepared = repository.prepare_with(&sandbox.plan(&[]), &contents).unwrap();
        let scratch = sandbox.path("../scratch");
        repository.land(&prepared, &Landing { base: &base, contents: &contents, scratch: &scratch })
    };
    pair.sandbox.write("a.txt", "a person's\n");
    pair.sandbox.commit(&["a.txt"]).unwrap();
    assert!(matches!(land(&pair.sandbox), Err(CommitError::Diverged { .. })));
    assert_eq!(pair.sandbox.read("a.txt"), "a person's\n");
    pair.sandbox.git(&["reset", "-q", "--hard", base.as_str()]);
    pair.sandbox.write("other.txt", "a person's\n");
    pair.sandbox.commit(&["other.txt"]).unwrap();
    land(&pair.sandbox).unwrap();
    pair.sandbox.assert_clean();
    assert_eq!(
        (pair.sandbox.read("a.txt"), pair.sandbox.read("other.txt")),
        ("session's\n".to_owned(), "a person's\n".to_owned())
    );
}

#[test]
fn files_go_back_when_the_branch_cannot_move() {
    let pair = Pair::new();
    pair.write("a.txt", "session's\n");
    pair.write("new/n.txt", "new\n");
    crate::fs::remove(&pair.tree.join("src/b.txt")).unwrap();
    let (mut repository, mut prepared, contents) = pair.prepare(&paths(&["a.txt", "new/n.txt", "src/b.txt"]));
    // An object that does not exist fails after the files have moved.
    let missing = CommitId::try_from("1".repeat(40)).unwrap();
    let real = std::mem::replace(&mut prepared.commit, missing);
    let scratch = pair.sandbox.path("../scratch");
    let landing = Landing { base: &prepared.parent, contents: &contents, scratch: &scratch };
    assert!(repository.land(&prepared, &landing).is_err());
    pair.sandbox.assert_clean();
    assert!(!pair.sandbox.path("new").exists());
    assert_eq!(pair.sandbox.read("src/b.txt"), "b\n");
    let prepared = Prepared { commit: real, ..prepared.clone() };
    repository.land(&prepared, &Landing { base: &prepared.parent, contents: &contents, scratch: &scratch }).unwrap();
    pair.sandbox.assert_clean();
}

#[test]
fn line_ends_and_filters_are_those_of_a_checkout_on_both_sides() {
    let sandbox = Sandbox::new();
    sandbox.git(&["config", "filter.up.clean", "tr a-z A-Z"]);
    sandbox.git(&["config", "filter.up.smudge", "tr A-Z a-z"]);
    sandbox.write(".gitattributes", "*.up filter=up\n*.crlf text eol=crlf\n");
    sandbox.write("x.up", "word\n");
    sandbox.write("x.crlf", "one\r\n");
    sandbox.commit(&[".gitattributes", "x.up", "x.crlf"]).unwrap();
    let pair = Pair::of(sandbox);
    assert_eq!(crate::fs::read(&pair.tree.join("x.up")).unwrap(), b"word\n");
    assert_eq!(crate::fs::read(&pair.tree.join("x.crlf")).unwrap(), b"one\r\n");
    assert_eq!(pair.open().differing_everywhere(&[]).unwrap(), []);
    pair.write("x.up", "words\n");
    pair.write("x.crlf", "one\r\ntwo\r\n");
    pair.land(&["x.up", "x.crlf"]).unwrap();
    pair.sandbox.assert_clean();
    assert_eq!(pair.sandbox.read("x.up"), "words\n");
    assert_eq!(pair.sandbox.read("x.crlf"), "one\r\ntwo\r\n");
    assert_eq!(pair.sandbox.git(&["cat-file", "-p", "HEAD:x.up"]), "WORDS");
    let head = CommitId::try_from(pair.sandbox.git(&["rev-parse", "HEAD"])).unwrap();
    let mut tree = pair.open();
    let differing = tree.differing_everywhere(&[]).unwrap();
    assert_eq!(tree.unsaved(&head, &differing).unwrap(), []);
    tree.bring_to(&head).unwrap();
    assert_eq!(tree.differing_everywhere(&[]).unwrap(), []);
    assert_eq!(crate::fs::read(&pair.tree.join("x.up")).unwrap(), b"words\n");
}

#[test]
fn a_reset_sees_what_it_would_lose() {
    let pair = Pair::new();
    let first = CommitId::try_from(pair.sandbox.git(&["rev-parse", "HEAD"])).unwrap();
    pair.write("a.txt", "changed\n");
    pair.land(&["a.txt"]).unwrap();
    let second = CommitId::try_from(pair.sandbox.git(&["rev-parse", "HEAD"])).unwrap();
    let unsaved = |pair: &Pair, commit: &CommitId| {
        let tree = pair.open();
        tree.unsaved(commit, &tree.differing_everywhere(&[]).unwrap()).unwrap()
    };
    assert_eq!(unsaved(&pair, &second), [], "what the branch has is not lost");
    assert_eq!(unsaved(&pair, &first), paths(&["a.txt"]), "on another commit it would be");
    pair.write("left.txt", "nobody's\n");
    crate::fs::remove(&pair.tree.join("src/b.txt")).unwrap();
    assert_eq!(unsaved(&pair, &second), paths(&["left.txt", "src/b.txt"]));
    assert_eq!(pair.open().differing_everywhere(&paths(&["left.txt"])).unwrap(), paths(&["a.txt", "src/b.txt"]));
}

#[test]
fn work_that_is_kept_can_be_merged_by_a_person() {
    let pair = Pair::new();
    let base = CommitId::try_from(pair.sandbox.git(&["rev-parse", "HEAD"])).unwrap();
    pair.write("a.txt", "session's\n");
    let contents = pair.open().keep_contents(&paths(&["a.txt"])).unwrap();
    let repository = pair.sandbox.open();
    assert!(!repository.is_merged("auto-a/work"));
    let kept = repository.keep_work("auto-a/work", (&base, &contents), ("Keep work\n", now())).unwrap();
    assert_eq!(pair.sandbox.git(&["show", "refs/runner/kept/auto-a/work:a.txt"]), "session's");
    assert!(!repository.is_merged("auto-a/work"));
    pair.sandbox.git(&["merge", "-q", "--no-ff", "-m", "Merge", kept.as_str()]);
    assert!(pair.sandbox.open().is_merged("auto-a/work"));
    pair.sandbox.assert_clean();
}
