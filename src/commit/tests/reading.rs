//! Tracked, staged, really modified, changed below a folder.

use std::os::unix::fs::MetadataExt;

use super::{Sandbox, now, paths};
use crate::relpath::RelPath;

#[test]
fn tracked_files_carry_the_stat_of_the_file_after_a_commit() {
    let sandbox = Sandbox::new();
    sandbox.write("a.txt", "changed\n");
    let mut repository = sandbox.open();
    let prepared = repository.prepare(&sandbox.plan(&["a.txt"])).unwrap();
    repository.finish(&prepared).unwrap();
    for mut repository in [repository, sandbox.open()] {
        let tracked = repository.tracked().unwrap();
        let names: Vec<String> = tracked.entries.iter().map(|entry| entry.path.to_string()).collect();
        assert_eq!(names, ["a.txt", "planning/plan.txt", "src/b.txt", "src/deep/c.txt"]);
        let index = sandbox.path(".git/index").metadata().unwrap();
        assert_eq!(tracked.index_mtime.map(|(seconds, _)| seconds), Some(index.mtime()));
        for entry in &tracked.entries {
            let file = entry.path.under(&sandbox.root()).metadata().unwrap();
            assert_eq!(entry.stat.mtime.0, file.mtime());
            assert_eq!(i64::from(entry.stat.ctime.1), file.ctime_nsec());
            assert_eq!((u64::from(entry.stat.size), entry.mode), (file.size(), 0o100_644));
            let oid = crate::ids::hex(&entry.oid);
            assert_eq!(oid, sandbox.git(&["hash-object", &entry.path.to_string()]));
        }
    }
}

#[test]
fn an_index_written_by_others_is_read_again() {
    let sandbox = Sandbox::new();
    let mut repository = sandbox.open();
    assert_eq!(repository.tracked().unwrap().entries.len(), 4);
    sandbox.write("new.txt", "new\n");
    sandbox.git(&["add", "new.txt"]);
    assert_eq!(repository.tracked().unwrap().entries.len(), 5);
    assert_eq!(repository.staged().unwrap(), paths(&["new.txt"]));
}

#[test]
fn a_file_left_out_by_a_sparse_checkout_is_not_missed() {
    let sandbox = Sandbox::new();
    sandbox.git(&["sparse-checkout", "set", "--no-cone", "/*", "!/src/"]);
    let mut repository = sandbox.open();
    repository.check(now()).unwrap();
    assert_eq!(repository.tracked().unwrap().entries.len(), 2);
    sandbox.write("src/b.txt", "back\n");
    assert_eq!(repository.tracked().unwrap().entries.len(), 3);
}

#[test]
fn modified_is_what_differs_in_content_or_mode_or_is_gone() {
    let sandbox = Sandbox::new();
    sandbox.write("a.txt", "a\n");
    sandbox.write("src/b.txt", "changed\n");
    sandbox.remove("src/deep/c.txt");
    sandbox.write("new.txt", "new\n");
    let names = paths(&["a.txt", "never.txt", "new.txt", "src/b.txt", "src/deep/c.txt"]);
    assert_eq!(sandbox.open().modified(&names).unwrap(), paths(&["new.txt", "src/b.txt", "src/deep/c.txt"]));
    sandbox.script("a.txt", "a\n");
    assert_eq!(sandbox.open().modified(&paths(&["a.txt"])).unwrap(), paths(&["a.txt"]));
}

#[test]
fn changed_in_a_folder_is_seen_whether_staged_or_not_and_ignored_files_are_not() {
    let sandbox = Sandbox::new();
    sandbox.write(".gitignore", "*.log\n");
    sandbox.write("state/new/row.json", "{}");
    sandbox.write("state/x.log", "x");
    sandbox.write("planning/plan.txt", "changed\n");
    sandbox.write("src/b.txt", "changed\n");
    sandbox.write("stately.txt", "x");
    let all = ["state", "planning"];
    let repository = sandbox.open();
    let expected = paths(&["planning/plan.txt", "state/new/row.json"]);
    assert_eq!(repository.changed_in(&all).unwrap(), expected);
    sandbox.git(&["add", "-A"]);
    assert_eq!(repository.changed_in(&all).unwrap(), expected);
    sandbox.remove("planning/plan.txt");
    assert_eq!(repository.changed_in(&["planning"]).unwrap(), paths(&["planning/plan.txt"]));
    assert!(repository.is_ignored(&RelPath::from("state/x.log")).unwrap());
    assert!(!repository.is_ignored(&RelPath::from("state/x.txt")).unwrap());
}

#[test]
fn a_file_is_read_from_the_commit_not_from_the_disk() {
    let sandbox = Sandbox::new();
    sandbox.write("a.txt", "changed\n");
    let repository = sandbox.open();
    assert_eq!(repository.blob_at_head(&RelPath::from("a.txt")).unwrap().as_deref(), Some(&b"a\n"[..]));
    assert_eq!(repository.blob_at_head(&RelPath::from("no/such.txt")).unwrap(), None);
    assert_eq!(repository.blob_at_head(&RelPath::from("src")).unwrap(), None);
    assert_eq!(repository.head().unwrap().as_str(), sandbox.git(&["rev-parse", "HEAD"]));
    assert!(repository.file_mode());
}
