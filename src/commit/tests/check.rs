//! Every state in which no commit can be made, by name.

use super::{Refusal, Sandbox, now};

fn refusal(sandbox: &Sandbox) -> Refusal {
    match sandbox.try_open() {
        Ok(repository) => repository.check(now()).unwrap_err(),
        Err(refusal) => refusal,
    }
}

#[test]
fn a_plain_repository_is_accepted_with_its_branch() {
    let sandbox = Sandbox::new();
    let head = sandbox.open().check(now()).unwrap();
    assert_eq!(
        (head.branch.as_str(), head.commit.as_str()),
        ("refs/heads/main", &*sandbox.git(&["rev-parse", "HEAD"]))
    );
}

#[test]
fn a_folder_that_is_no_repository_or_not_its_top_is_refused() {
    assert!(matches!(refusal(&Sandbox::bare_folder()), Refusal::NoRepository { .. }));
    let sandbox = Sandbox::new();
    sandbox.write("inner/planning/x", "");
    assert!(matches!(sandbox.try_open_at(&sandbox.path("inner")).err(), Some(Refusal::NoRepository { .. })));
    sandbox.write("../elsewhere/x", "");
    let elsewhere = sandbox.root().with_file_name("elsewhere");
    sandbox.git(&["config", "core.worktree", &elsewhere.to_string_lossy()]);
    assert!(matches!(refusal(&sandbox), Refusal::NotTheTop { .. }));
}

#[test]
fn a_bare_repository_is_refused() {
    let sandbox = Sandbox::new();
    sandbox.git(&["config", "core.bare", "true"]);
    assert!(matches!(refusal(&sandbox), Refusal::Bare { .. }));
}

#[test]
fn a_detached_or_unborn_head_is_refused() {
    let sandbox = Sandbox::new();
    sandbox.git(&["checkout", "-q", "--detach"]);
    assert!(matches!(refusal(&sandbox), Refusal::Detached { .. }));
    sandbox.git(&["switch", "-q", "--orphan", "fresh"]);
    sandbox.write("planning/plan.txt", "plan\n");
    let found = refusal(&sandbox);
    assert!(matches!(&found, Refusal::Unborn { branch } if branch == "fresh"), "{found:?}");
}

#[test]
fn an_operation_in_progress_is_refused_with_the_way_out() {
    let sandbox = Sandbox::new();
    sandbox.git(&["switch", "-qc", "other"]);
    sandbox.write("a.txt", "theirs\n");
    sandbox.git(&["commit", "-qam", "Theirs"]);
    sandbox.git(&["switch", "-q", "main"]);
    sandbox.write("a.txt", "ours\n");
    sandbox.git(&["commit", "-qam", "Ours"]);
    for (begin, abort) in [
        (vec!["merge", "other"], "git merge --abort"),
        (vec!["cherry-pick", "other"], "git cherry-pick --abort"),
        (vec!["rebase", "other"], "git rebase --abort"),
        (vec!["bisect", "start"], "git bisect reset"),
    ] {
        sandbox.try_git(&sandbox.root(), &begin);
        let found = refusal(&sandbox);
        assert!(matches!(&found, Refusal::InProgress { abort: way, .. } if *way == abort), "{begin:?}: {found:?}");
        let way: Vec<&str> = abort.split(' ').skip(1).collect();
        sandbox.git(&way);
        sandbox.open().check(now()).unwrap();
    }
}

#[test]
fn paths_in_conflict_are_named() {
    let sandbox = Sandbox::new();
    sandbox.write("a.txt", "stashed\n");
    sandbox.git(&["stash", "-q"]);
    sandbox.write("a.txt", "other\n");
    sandbox.git(&["commit", "-qam", "Other"]);
    sandbox.try_git(&sandbox.root(), &["stash", "pop"]);
    let found = refusal(&sandbox);
    assert_eq!(found.to_string(), "1 path is not merged: a.txt; resolve the conflicts and commit");
}

#[test]
fn an_unknown_identity_is_refused_and_the_environment_can_supply_it() {
    let mut sandbox = Sandbox::new();
    sandbox.git(&["config", "--unset", "user.name"]);
    assert!(matches!(refusal(&sandbox), Refusal::NoIdentity { missing: "user.name" }));
    for name in ["GIT_AUTHOR_NAME", "GIT_COMMITTER_NAME"] {
        sandbox.env.insert(name.into(), "Grace <>\n".into());
    }
    sandbox.open().check(now()).unwrap();
    sandbox.write("a.txt", "x\n");
    sandbox.commit(&["a.txt"]).unwrap();
    assert_eq!(sandbox.git(&["log", "-1", "--format=%an <%ae>"]), "Grace <ada@example.org>");
}

#[test]
fn the_configuration_is_where_the_environment_says() {
    let mut sandbox = Sandbox::new();
    sandbox.git(&["config", "--unset", "user.name"]);
    sandbox.write("../global.ini", "[user]\nname = Global\n[core]\nexcludesFile = /there/ignore\n");
    sandbox.env.insert("GIT_CONFIG_GLOBAL".into(), sandbox.root().with_file_name("global.ini").into());
    let repository = sandbox.open();
    repository.check(now()).unwrap();
    assert_eq!(repository.excludes_file(), Some("/there/ignore".into()));
}

#[test]
fn a_lock_file_is_named_with_age_and_holder() {
    let sandbox = Sandbox::new();
    sandbox.write(".git/index.lock", "");
    let path = sandbox.path(".git/index.lock");
    let mtime = std::os::unix::fs::MetadataExt::mtime(&path.metadata().unwrap());
    let later = jiff::Timestamp::from_second(mtime + 600).unwrap();
    let found = sandbox.open().check(later).unwrap_err();
    assert_eq!(
        found.to_string(),
        format!(
            "git's lock file {} is 10 min old and no process that can be seen has it open; if no git command is running, \
             remove the file and start again",
            path.display()
        )
    );
    let _held = crate::fs::open_to_read(&path).unwrap();
    let found = sandbox.open().check(later).unwrap_err().to_string();
    assert!(cfg!(not(target_os = "linux")) || found.contains(&format!("({})", std::process::id())), "{found}");
}

#[test]
fn formats_that_cannot_be_written_are_named() {
    let sandbox = Sandbox::new();
    sandbox.git(&["sparse-checkout", "set", "--cone", "--sparse-index", "planning"]);
    let found = refusal(&sandbox).to_string();
    assert!(found.contains("a sparse index") && found.contains("git sparse-checkout"), "{found}");
    sandbox.git(&["sparse-checkout", "reapply", "--no-sparse-index"]);
    sandbox.open().check(now()).unwrap();
    sandbox.git(&["update-index", "--split-index"]);
    let found = refusal(&sandbox).to_string();
    assert!(found.contains("a split index"), "{found}");
    sandbox.git(&["update-index", "--no-split-index"]);
    sandbox.open().check(now()).unwrap();
    for (key, value, named) in [
        ("extensions.refStorage", "reftable", "reftable"),
        ("extensions.objectFormat", "sha256", "sha256"),
        ("extensions.partialClone", "origin", "partial clone"),
        ("extensions.surprise", "true", "surprise"),
    ] {
        sandbox.git(&["config", "core.repositoryFormatVersion", "1"]);
        sandbox.git(&["config", key, value]);
        let found = refusal(&sandbox).to_string();
        assert!(found.contains(named), "{found}");
        let config = sandbox.read(".git/config");
        let kept: Vec<&str> = config.split("[extensions]").collect();
        sandbox.write(".git/config", kept[0]);
    }
}

#[test]
fn a_founded_repository_takes_commits_at_once() {
    let sandbox = Sandbox::bare_folder();
    sandbox.write(".gitignore", "*.log\n");
    sandbox.write("x.log", "x\n");
    let first = crate::commit::found(&sandbox.root(), "Begin the demonstration").unwrap();
    // Where the machine knows an identity none is written; this sandbox does not look there.
    sandbox.git(&["config", "user.name", "Ada"]);
    sandbox.git(&["config", "user.email", "ada@example.org"]);
    assert_eq!(sandbox.open().check(now()).unwrap().commit, first);
    sandbox.assert_clean();
    assert_eq!(sandbox.git(&["ls-files"]), ".gitignore\nplanning/plan.txt");
}
