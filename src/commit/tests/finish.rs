//! A kill at any step, other hands on the branch, lock files in the way.

use std::io::Write;

use super::{CommitError, CommitId, Refusal, Sandbox, paths};
use crate::commit::{Prepared, Repository};

fn changed() -> Sandbox {
    let sandbox = Sandbox::new();
    sandbox.write("a.txt", "changed\n");
    sandbox.write("new.txt", "new\n");
    sandbox.remove("src/b.txt");
    sandbox
}

const PATHS: [&str; 3] = ["a.txt", "new.txt", "src/b.txt"];

#[test]
fn a_prepared_commit_is_seen_by_nobody_until_it_is_finished() {
    let sandbox = changed();
    let before = (sandbox.git(&["rev-parse", "HEAD"]), sandbox.git(&["ls-files", "-s"]));
    let _prepared = sandbox.open().prepare(&sandbox.plan(&PATHS)).unwrap();
    assert_eq!(before, (sandbox.git(&["rev-parse", "HEAD"]), sandbox.git(&["ls-files", "-s"])));
}

#[test]
fn a_commit_prepared_before_a_kill_is_finished_by_the_next_start() {
    let sandbox = changed();
    let prepared = sandbox.open().prepare(&sandbox.plan(&PATHS)).unwrap();
    let kept = serde_json::to_string(&prepared).unwrap();
    let kept: Prepared = serde_json::from_str(&kept).unwrap();
    assert_eq!(sandbox.open().finish(&kept).unwrap(), prepared.commit);
    sandbox.assert_clean();
}

#[test]
fn a_kill_between_branch_and_index_is_mended_by_the_next_start() {
    let sandbox = changed();
    let prepared = sandbox.open().prepare(&sandbox.plan(&PATHS)).unwrap();
    sandbox.git(&["update-ref", "refs/heads/main", prepared.commit.as_str()]);
    assert_ne!(sandbox.git(&["status", "--porcelain"]), "");
    sandbox.open().finish(&prepared).unwrap();
    sandbox.assert_clean();
}

#[test]
fn finishing_again_changes_nothing() {
    let sandbox = changed();
    let mut repository = sandbox.open();
    let prepared = repository.prepare(&sandbox.plan(&PATHS)).unwrap();
    for _ in 0..2 {
        assert_eq!(repository.finish(&prepared).unwrap(), prepared.commit);
        sandbox.assert_clean();
    }
    assert_eq!(sandbox.git(&["rev-list", "--count", "HEAD"]), "2");
}

#[test]
fn preparing_the_same_plan_again_gives_the_same_commit() {
    let sandbox = changed();
    let plan = sandbox.plan(&PATHS);
    let first = sandbox.open().prepare(&plan).unwrap();
    assert_eq!(sandbox.open().prepare(&plan).unwrap(), first);
}

#[test]
fn a_file_that_changed_after_it_was_prepared_shows_as_changed() {
    let sandbox = changed();
    let mut repository = sandbox.open();
    let prepared = repository.prepare(&sandbox.plan(&PATHS)).unwrap();
    sandbox.write("a.txt", "CHANGED\n");
    repository.finish(&prepared).unwrap();
    assert_eq!(sandbox.git(&["status", "--porcelain"]), " M a.txt");
    assert_eq!(sandbox.git(&["show", "HEAD:a.txt"]), "changed");
}

#[test]
fn a_commit_by_other_hands_is_never_lost() {
    let sandbox = changed();
    let plan = sandbox.plan(&PATHS);
    let mut repository = sandbox.open();
    let prepared = repository.prepare(&plan).unwrap();
    sandbox.git(&["commit", "-q", "--allow-empty", "-m", "By a person"]);
    let head = sandbox.git(&["rev-parse", "HEAD"]);
    for error in [repository.finish(&prepared).unwrap_err(), repository.prepare(&plan).unwrap_err()] {
        assert!(matches!(&error, CommitError::HeadMoved { found, .. } if found.as_str() == head), "{error:?}");
    }
    assert_eq!(sandbox.git(&["rev-parse", "HEAD"]), head);
}

#[test]
fn a_commit_with_others_on_top_counts_as_made() {
    let sandbox = changed();
    let prepared = sandbox.open().prepare(&sandbox.plan(&PATHS)).unwrap();
    sandbox.git(&["reset", "-q", "--hard", prepared.commit.as_str()]);
    sandbox.git(&["commit", "-q", "--allow-empty", "-m", "By a person"]);
    let head = sandbox.git(&["rev-parse", "HEAD"]);
    assert_eq!(sandbox.open().finish(&prepared).unwrap(), prepared.commit);
    assert_eq!(sandbox.git(&["rev-parse", "HEAD"]), head);
    sandbox.assert_clean();
}

#[test]
fn another_branch_is_never_moved() {
    let sandbox = changed();
    let plan = sandbox.plan(&PATHS);
    let prepared = sandbox.open().prepare(&plan).unwrap();
    sandbox.git(&["switch", "-qc", "other"]);
    let mut repository = sandbox.open();
    for error in [repository.finish(&prepared).unwrap_err(), repository.prepare(&plan).unwrap_err()] {
        assert!(matches!(error, CommitError::BranchSwitched { .. }), "{error:?}");
    }
    assert_eq!(sandbox.git(&["rev-list", "--count", "--all"]), "1");
}

#[test]
fn a_lock_file_in_the_way_is_named_and_the_commit_can_be_finished_later() {
    let sandbox = changed();
    let prepared = sandbox.open().prepare(&sandbox.plan(&PATHS)).unwrap();
    for lock in [".git/refs/heads/main.lock", ".git/index.lock"] {
        sandbox.write(lock, "");
        let error = sandbox.open().finish(&prepared).unwrap_err();
        assert!(matches!(error, CommitError::Refused(Refusal::LockFile { .. })), "{error:?}");
        assert!(error.to_string().contains(lock), "{error}");
        sandbox.remove(lock);
    }
    sandbox.open().finish(&prepared).unwrap();
    sandbox.assert_clean();
}

#[test]
fn a_linked_work_tree_and_packed_references_take_a_commit() {
    let sandbox = Sandbox::new();
    sandbox.git(&["branch", "side/branch"]);
    sandbox.git(&["pack-refs", "--all"]);
    let tree = sandbox.root().with_file_name("linked");
    sandbox.git(&["worktree", "add", "-q", &tree.to_string_lossy(), "side/branch"]);
    crate::fs::replace(&tree.join("a.txt"), b"changed\n").unwrap();
    let mut repository = sandbox.try_open_at(&tree).unwrap();
    let head = repository.check(super::now()).unwrap();
    assert_eq!(head.branch, "refs/heads/side/branch");
    let mut plan = sandbox.plan(&["a.txt"]);
    plan.branch = head.branch;
    let prepared = repository.prepare(&plan).unwrap();
    repository.finish(&prepared).unwrap();
    assert_eq!(sandbox.git_in(&tree, &["status", "--porcelain"]), "");
    assert_eq!(sandbox.git(&["rev-parse", "side/branch"]), prepared.commit.as_str());
    sandbox.assert_clean();
}

#[test]
fn unstaging_leaves_the_files_and_clears_the_index() {
    let sandbox = changed();
    sandbox.git(&["add", "-A"]);
    sandbox.git(&["rm", "-q", "--cached", "src/deep/c.txt"]);
    let mut repository = sandbox.open();
    let staged = repository.staged().unwrap();
    assert_eq!(staged, paths(&["a.txt", "new.txt", "src/b.txt", "src/deep/c.txt"]));
    repository.unstage(&staged).unwrap();
    assert_eq!(repository.staged().unwrap(), []);
    assert_eq!(sandbox.git(&["status", "--porcelain"]), " M a.txt\n D src/b.txt\n?? new.txt");
}

#[test]
fn what_is_staged_is_seen_also_where_nothing_was_before() {
    let sandbox = changed();
    let mut repository = sandbox.open();
    let committed = |repository: &mut Repository, names: &[&str]| {
        let prepared = repository.prepare(&sandbox.plan(names)).unwrap();
        repository.finish(&prepared).unwrap();
    };
    assert_eq!(repository.staged().unwrap(), []);
    committed(&mut repository, &PATHS);
    assert_eq!((repository.staged().unwrap(), repository.changed_in(&["src"]).unwrap()), (vec![], vec![]));

    sandbox.git(&["rm", "-q", "--cached", "src/deep/c.txt"]);
    assert_eq!(repository.staged().unwrap(), paths(&["src/deep/c.txt"]), "the index was replaced");
    assert_eq!(repository.changed_in(&["src"]).unwrap(), paths(&["src/deep/c.txt"]));
    sandbox.write("a.txt", "again\n");
    committed(&mut repository, &["a.txt"]);
    assert_eq!(repository.staged().unwrap(), paths(&["src/deep/c.txt"]), "what was staged stays staged");

    repository.unstage(&paths(&["src/deep/c.txt"])).unwrap();
    assert_eq!(repository.staged().unwrap(), []);
    let tip = sandbox.git(&["rev-parse", "HEAD"]);
    sandbox.git(&["reset", "-q", "--soft", "HEAD~1"]);
    assert_eq!(repository.staged().unwrap(), paths(&["a.txt"]), "only the branch moved");
    assert_eq!(repository.changed_in(&["src"]).unwrap(), []);

    let index = |to: &str| {
        sandbox.git(&["reset", "-q", "--hard", to]);
        crate::fs::read(&sandbox.path(".git/index")).unwrap()
    };
    let (former, latest) = (index("HEAD"), index(&tip));
    assert_eq!((repository.staged().unwrap(), former.len()), (vec![], latest.len()));
    let place = std::fs::File::options().write(true).open(sandbox.path(".git/index"));
    place.unwrap().write_all(&former).unwrap();
    assert_eq!(repository.staged().unwrap(), paths(&["a.txt"]), "the index was written over in its place");
}

#[test]
fn a_commit_id_is_forty_lower_case_digits() {
    for bad in ["", "abc", &"g".repeat(40), &"A".repeat(40), &"a".repeat(41)] {
        assert!(CommitId::try_from((*bad).to_owned()).is_err(), "{bad}");
    }
}
