//! Sessions in a linked work tree: work reaches the branch and the root together, a person's edits are never touched, and what
//! is contaminated is kept aside while the run goes on.

#![expect(
    clippy::disallowed_methods,
    clippy::unwrap_used,
    reason = "tests make and read files, and say so by panicking"
)]

mod support;

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use serde_json::{Value, json};
use support::{Builder, Project, Signal, assert_says};

/// The work tree of the sessions.
const TREE: &str = "state/runs/trees/1";

/// A project whose sessions work in a work tree, with that many tasks and files outside every scope.
fn with(tasks: usize, patch: &Value) -> Builder {
    let mut workspace = json!({"mode": "worktree"});
    for (key, value) in patch.as_object().unwrap() {
        workspace[key] = value.clone();
    }
    Project::builder()
        .stage("S00", tasks)
        .file("lib/keep.txt", "keep\n")
        .file("docs/page.md", "page\n")
        .config(json!({"workspace": workspace}))
}

fn project(tasks: usize) -> Project {
    with(tasks, &json!({})).build()
}

/// The names of the work trees that are there, the one in use and those that are kept.
fn trees(project: &Project) -> Vec<String> {
    let Ok(entries) = fs::read_dir(project.path("state/runs/trees")) else { return Vec::new() };
    let mut names: Vec<String> = entries.map(|entry| entry.unwrap().file_name().to_str().unwrap().to_owned()).collect();
    names.sort();
    names
}

/// What the records say of the workspaces: outcome step and contamination, oldest session first.
fn leases(project: &Project) -> Vec<(String, Vec<String>)> {
    let agents: Vec<String> = project.sessions().iter().map(|session| session.agent.clone()).collect();
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    agents
        .iter()
        .map(|agent| {
            let workspace = &project.run_json(agent)["workspace"];
            assert_eq!(workspace["mode"], "worktree", "{workspace:#}");
            let signs = workspace["contamination"].as_array().unwrap().iter().map(text).collect();
            (text(workspace["steps"].as_array().unwrap().last().unwrap()), signs)
        })
        .collect()
}

fn released() -> (String, Vec<String>) {
    ("release".to_owned(), Vec::new())
}

fn quarantined(signs: &[&str]) -> (String, Vec<String>) {
    ("quarantine".to_owned(), signs.iter().map(|sign| (*sign).to_owned()).collect())
}

/// Runs an executor of the first task that works, does `deed` and submits; its work tree must be kept under `why`, the other
/// task must go on, and the first must wait for a person.
#[track_caller]
fn contaminates(project: &Project, deed: &str, why: &str) -> String {
    project.agent_on(&[("S00-001/claim", &format!("work\n{deed}\nsubmit"))]);
    let branch = project.git(&["symbolic-ref", "HEAD"]);
    project.run(&[]).stopped(3, "needs_input");
    assert_eq!(project.steps(), ["S00-001/claim", "S00-002/claim", "S00-002/review"], "the run goes on");
    assert_eq!(project.status_of("S00-002"), "done");
    assert_eq!(trees(project), ["1".to_owned(), format!("1.{why}")], "one is kept and replaced");
    assert_eq!(project.git(&["symbolic-ref", "HEAD"]), branch);
    project.assert_clean();
    let first = &leases(project)[0];
    assert_eq!(first.0, "quarantine");
    assert!(first.1.iter().any(|sign| sign.replace('_', "-") == why), "{first:?}");
    project.waits("S00-001")
}

#[test]
fn a_plan_is_carried_out_in_a_work_tree_and_the_reviewer_reads_what_the_executor_made() {
    let project = project(2);
    project.agent_on(&[
        (
            "*/claim",
            "test \"$PWD\" = \"$RUNNER_PROJECT_ROOT\" || exit 8; test \"$PWD\" != \"$RUNNER_STATE_ROOT\" || exit 8; \
             work; chmod +x \"src/$RUNNER_TASK_ID/out.txt\"; ln -s out.txt \"src/$RUNNER_TASK_ID/link\"; \
             write \"state/evidence/$RUNNER_AGENT_ID.md\" \"the evidence\"; \
             submit --evidence \"state/evidence/$RUNNER_AGENT_ID.md\"",
        ),
        (
            "*/review",
            "test \"$(cat \"src/$RUNNER_TASK_ID/link\")\" = \"work of $RUNNER_TASK_ID\" || exit 8; \
             grep -q 'the evidence' \"$RUNNER_PROMPT_FILE\" || exit 8; approve",
        ),
    ]);
    project.run(&[]).complete();
    project.assert_clean();
    for task in ["S00-001", "S00-002"] {
        assert_eq!(project.read(&format!("src/{task}/out.txt")), format!("work of {task}\n"), "the root has the file");
        let mode = fs::metadata(project.path(&format!("src/{task}/out.txt"))).unwrap().permissions().mode();
        assert_eq!(mode & 0o100, 0o100, "executable, as the session made it");
        assert_eq!(fs::read_link(project.path(&format!("src/{task}/link"))).unwrap(), Path::new("out.txt"));
        assert!(project.row(task)["evidence"].as_str().unwrap().starts_with("state/evidence/auto-"));
    }
    assert_eq!(project.log().len(), 1 + 4, "one commit for each session");
    assert_eq!(leases(&project), vec![released(); 4]);
    assert_eq!(trees(&project), ["1"]);
    project.git(&["fsck", "--strict"]);
    for record in project.records() {
        assert_eq!(record["teardown"]["destruction"], "succeeded");
        assert_eq!(record["workspace"]["steps"], json!(["acquire", "reset", "check", "release"]));
    }
}

#[test]
fn a_later_run_uses_the_same_work_tree_and_brings_it_to_the_branchs_head() {
    let project = with(2, &json!({"setup": [["sh", "-c", "echo once >>\"$HOME/setup\""]]})).build();
    project.run(&["--max-sessions", "2"]).stopped(0, "session_limit");
    project.write("lib/new.txt", "from a person\n");
    project.remove("docs/page.md");
    project.commit_all("Change something by hand");
    project.agent_on(&[(
        "*/claim",
        "test \"$(cat lib/new.txt)\" = 'from a person' || exit 8; test ! -e docs/page.md || exit 8; honest",
    )]);
    project.run(&[]).complete();
    assert_eq!(fs::read_to_string(project.outside("home/setup")).unwrap(), "once\n", "it was set up once");
    assert_eq!(leases(&project), vec![released(); 4]);
    project.assert_clean();
}

#[test]
fn a_change_out_of_scope_keeps_the_work_tree_and_the_run_goes_on_in_a_fresh_one() {
    let project = project(2);
    let told = contaminates(&project, "echo more >>docs/page.md; write lib/new.txt x", "scope-violation");
    assert_says(&told, &["docs/page.md", "lib/new.txt"]);
    assert_eq!(project.read("docs/page.md"), "page\n", "the root never saw it");
    assert_eq!(project.read("state/runs/trees/1.scope-violation/docs/page.md"), "page\nmore\n", "nothing is discarded");
    let first = &project.sessions()[0].agent;
    let kept_at = project.run_json(first)["workspace"]["kept_at"].as_str().unwrap().to_owned();
    assert_eq!(kept_at, project.path("state/runs/trees/1.scope-violation").display().to_string());
    // Git still knows it, and a person gets rid of it as of any work tree.
    project.git(&["-C", &kept_at, "status", "--short"]);
    project.git(&["worktree", "remove", "--force", &kept_at]);
    assert_eq!(trees(&project), ["1"]);
}

#[test]
fn every_way_to_spoil_the_work_tree_is_named_and_kept() {
    for (deed, why, names) in [
        ("git commit -q --allow-empty -m 'Commit by hand, as told'", "head-moved", "HEAD"),
        ("git checkout -q -b mine", "head-moved", "HEAD"),
        ("git stash -q -u", "tampering", "refs/stash"),
        ("git tag mine", "tampering", "refs/tags/mine"),
        ("git config user.name Eve", "configuration-changed", ".git/config"),
        ("rm .git", "tampering", ".git (deleted) in the session's work tree"),
        ("rm .git; git init -q .", "tampering", ".git"),
        (
            "echo '{}' >planning/tasks/S00-002.json",
            "tampering",
            "planning/tasks/S00-002.json (modified) in the session's",
        ),
        (": >\"$(git rev-parse --git-dir)/index.lock\"", "lock-file", ""),
        ("rm -r \"$(git rev-parse --git-dir)\"", "tampering", "work tree (removed"),
    ] {
        let project = project(2);
        let deed = format!("{deed} >/dev/null 2>&1 || true");
        if why == "lock-file" {
            // The work itself is beyond reproach.
            project.agent_on(&[("S00-001/claim", &format!("work\n{deed}\nsubmit"))]);
            project.run(&[]).complete();
            assert_eq!(leases(&project)[0], quarantined(&["lock_file"]));
            assert_eq!(trees(&project), ["1", "1.lock-file"]);
            continue;
        }
        let told = contaminates(&project, &deed, why);
        assert_says(&told, &[names]);
    }
}

#[test]
fn a_session_that_removes_its_own_work_tree_is_found_out_and_the_next_gets_another() {
    for deed in ["git worktree remove --force \"$PWD\"; cd /", "rm -rf \"$PWD\" 2>/dev/null; cd /"] {
        let project = project(2);
        project.agent_on(&[("S00-001/claim", &format!("work\nsubmit\n{deed}\nexit 0"))]);
        project.run(&[]).stopped(3, "needs_input");
        assert_eq!(project.status_of("S00-002"), "done");
        assert_eq!(leases(&project)[0].0, "dispose");
        assert_eq!(trees(&project), ["1"]);
        assert_says(&project.waits("S00-001"), &["work tree (removed"]);
        project.assert_clean();
    }
}

#[test]
fn git_in_a_work_tree_without_its_pointer_does_not_find_the_root() {
    let project = project(1);
    project.write("lib/keep.txt", "a person's edit\n");
    project.agent_on(&[("*/claim", "rm .git; attempt reset git reset --hard; work; submit")]);
    project.run(&[]).stopped(3, "needs_input");
    assert_ne!(project.note("reset"), "0\n", "git found no repository");
    assert_eq!(project.read("lib/keep.txt"), "a person's edit\n");
}

#[test]
fn a_timeout_is_no_contamination() {
    let project = project(1);
    project.config(&json!({"timeout_seconds": 0.3, "max_remediation_depth": 0}));
    let _hold = project.gate("hold");
    project.agent("write src/S00-001/half.txt half; hold hold");
    project.run(&[]).stopped(3, "needs_input");
    assert_eq!(leases(&project), [released()]);
    assert_eq!(trees(&project), ["1"]);
    let record = &project.records()[0];
    assert_eq!(record["execution"]["timed_out"], true, "{record:#}");
    project.assert_clean();
}

#[test]
fn a_persons_unrelated_edits_in_the_root_do_not_matter_and_stay() {
    let project = project(1);
    project.write("lib/keep.txt", "a person's edit\n");
    project.write("notes.txt", "a person's note\n");
    project.write("docs/staged.md", "staged\n");
    project.git(&["add", "docs/staged.md"]);
    project.agent_on(&[("*/claim", "test ! -e notes.txt || exit 8; honest")]);
    project.run(&[]).complete();
    assert_eq!(project.read("lib/keep.txt"), "a person's edit\n");
    assert_eq!(project.read("notes.txt"), "a person's note\n");
    let status = project.status();
    assert_says(&status, &[" M lib/keep.txt", "?? notes.txt", "A  docs/staged.md"]);
    assert_eq!(status.lines().count(), 3, "{status}");
}

#[test]
fn a_persons_edit_of_a_file_that_the_session_made_is_never_overwritten() {
    let project = project(1);
    // Written while the session is at work: there was nothing of that name before.
    project.agent_on(&[("*/claim", "work; write \"$RUNNER_STATE_ROOT/src/S00-001/out.txt\" \"a person's\"; submit")]);
    let head = project.head();
    let result = project.run(&[]).stopped(2, "git_error");
    assert_says(result["commit_error"].as_str().unwrap(), &["src/S00-001/out.txt", "refs/runner/kept/", "start again"]);
    assert_eq!(project.head(), head, "nothing moved");
    assert_eq!(project.read("src/S00-001/out.txt"), "a person's\n");
    let agent = &project.sessions()[0].agent;
    let kept = project.git(&["show", &format!("refs/runner/kept/{agent}/work:src/S00-001/out.txt")]);
    assert_eq!(kept, "work of S00-001", "the session's version is kept");
    // As long as it is in the way, nothing changes.
    project.run(&[]).stopped(2, "git_error");
    assert_eq!(project.read("src/S00-001/out.txt"), "a person's\n");
    // Once it is away, the work lands and the plan goes on.
    project.remove("src/S00-001/out.txt");
    project.run(&[]).complete();
    assert_eq!(project.read("src/S00-001/out.txt"), "work of S00-001\n");
    assert_eq!(project.steps(), ["S00-001/claim", "S00-001/review"]);
    project.assert_clean();
}

#[test]
fn one_edited_file_keeps_all_others_from_moving() {
    let project = with(1, &json!({}))
        .card("S00-001", json!({"scope": ["src/*"]}))
        .file("src/a.txt", "a\n")
        .file("src/b.txt", "b\n")
        .file("src/old/c.txt", "c\n")
        .build();
    project.write("src/b.txt", "a person's\n");
    project.agent_on(&[(
        "*/claim",
        "for f in a b; do echo new >>src/$f.txt; done; rm -r src/old; write src/old d; submit",
    )]);
    project.run(&[]).stopped(2, "git_error");
    assert_eq!(project.status().lines().filter(|line| line.contains("src/")).collect::<Vec<_>>(), [" M src/b.txt"]);
    assert_eq!(project.read("src/a.txt"), "a\n");
    assert_eq!(project.read("src/old/c.txt"), "c\n");
    // The person commits; the branch now has a version that the session never saw, so its work is merged by hand.
    project.git(&["commit", "-q", "-m", "Edit by hand", "src/b.txt"]);
    let result = project.run(&[]).stopped(2, "git_error");
    assert_says(result["commit_error"].as_str().unwrap(), &["another version of src/b.txt"]);
    let agent = &project.sessions()[0].agent;
    project.git(&["merge", "-q", "-X", "ours", "-m", "Merge both", &format!("refs/runner/kept/{agent}/work")]);
    project.run(&[]).complete();
    assert_eq!(project.read("src/b.txt"), "a person's\n");
    assert_eq!((project.read("src/a.txt"), project.read("src/old")), ("a\nnew\n".to_owned(), "d\n".to_owned()));
    project.assert_clean();
}

#[test]
fn shared_paths_are_links_and_no_part_of_the_comparison() {
    let project = with(1, &json!({"share": ["node_modules", "web/cache", "absent"]}))
        .ignore("node_modules/\ncache/\nabsent\n")
        .file("web/index.html", "x\n")
        .build();
    project.write("node_modules/a/index.js", "shared\n");
    project.write("web/cache/c", "cached\n");
    project.agent_on(&[(
        "*/claim",
        "test \"$(cat node_modules/a/index.js)\" = shared || exit 8; test \"$(cat web/cache/c)\" = cached || exit 8; \
         test ! -e absent || exit 8; echo built >node_modules/built; rm web/cache; honest",
    )]);
    project.run(&[]).complete();
    assert_eq!(project.read("node_modules/built"), "built\n", "it is the root's own");
    assert_eq!(fs::read_link(project.path(&format!("{TREE}/web/cache"))).unwrap(), project.path("web/cache"));
    assert_eq!(leases(&project), vec![released(); 2]);
    project.assert_clean();
}

#[test]
fn a_share_that_git_does_not_ignore_is_refused_by_name() {
    for (share, words) in [("lib", "git tracks"), ("elsewhere", "not ignored by git")] {
        let project = with(1, &json!({"share": [share]})).build();
        assert_says(&project.run(&[]).refused(), &["workspace.share", share, words]);
        assert!(project.steps().is_empty());
    }
}

#[test]
fn a_failing_set_up_is_a_named_error_before_any_claim_and_leaves_nothing() {
    for (setup, words) in [
        (json!([["sh", "-c", "echo no such registry >&2; exit 7"]]), "no such registry"),
        (json!([["true"], ["runner-no-such-program"]]), "runner-no-such-program"),
        (json!([["sh", "-c", "echo x >>docs/page.md"]]), "docs/page.md"),
    ] {
        let project = with(1, &json!({"setup": setup})).build();
        assert_says(&project.run(&[]).refused(), &["workspace.setup", words]);
        assert!(project.steps().is_empty());
        assert_eq!(project.events("S00-001"), [] as [Value; 0]);
        assert_eq!(trees(&project), [] as [String; 0]);
        assert_eq!(project.git(&["worktree", "list"]).lines().count(), 1);
        project.config(&json!({"workspace": {"mode": "worktree"}}));
        project.run(&[]).complete();
    }
}

#[test]
fn an_interrupt_during_set_up_is_an_interrupt_and_leaves_no_work_tree() {
    let project = project(1);
    let _hold = project.gate("hold");
    let mut ready = project.listener("setting-up");
    let pipes = project.outside("pipes");
    let command = format!("echo up >'{0}/setting-up'; read -r answer <'{0}/hold'", pipes.display());
    project.config(&json!({"workspace": {"mode": "worktree", "setup": [["sh", "-c", command]]}}));
    let run = project.spawn(&[]);
    ready.wait();
    run.signal(Signal::TERM);
    run.wait().stopped(128 + 15, "interrupted");
    assert!(project.steps().is_empty());
    assert_eq!(trees(&project), [] as [String; 0]);
    project.config(&json!({"workspace": {"mode": "worktree"}}));
    project.run(&[]).complete();
}

#[test]
fn a_kill_during_set_up_leaves_no_process_beside_the_next_session() {
    let project = project(1);
    let _hold = project.gate("hold");
    let [mut ready, mut command, mut stray] = ["ready", "command", "stray"].map(|name| project.listener(name));
    project.pipe("stray-is-up");
    let script = format!(
        "cd '{}'; setsid sh -c 'trap \"\" TERM HUP; exec 9>stray; echo up >&9; echo up >stray-is-up; read -r x <hold' &
         read -r x <stray-is-up; exec 9>command; echo up >&9; echo up >ready; read -r x <hold",
        project.outside("pipes").display()
    );
    project.config(&json!({"workspace": {"mode": "worktree", "setup": [["sh", "-c", script]]}}));
    let run = project.spawn(&[]);
    ready.wait();
    run.signal(Signal::KILL);
    assert_eq!(run.wait().signal, Some(9));
    project.config(&json!({"workspace": {"mode": "worktree", "setup": [["sh", "-c", "test -n \"$RUNNER_MARK\""]]}}));
    let finished = project.run(&[]);
    finished.complete();
    assert_says(&finished.stderr, &["ended what was left of the set-up of a work tree", "sh ("]);
    command.assert_ended();
    stray.assert_ended();
    assert!(!project.exists(".git/runner/set-up.json"));
    project.assert_clean();
}

#[test]
fn a_set_up_that_takes_too_long_is_ended_by_name() {
    let project = with(1, &json!({"setup": [["sh", "-c", "while :; do :; done"]]})).build();
    project.config(&json!({"timeout_seconds": 0.2}));
    assert_says(&project.run(&[]).refused(), &["workspace.setup", "timeout_seconds"]);
}

#[test]
fn a_link_in_the_place_of_the_folder_of_work_trees_is_refused_and_not_followed() {
    let project = project(2);
    let deed = "mv \"$RUNNER_STATE_ROOT/state/runs/trees\" \"$NOTES/trees\"; \
                ln -s \"$NOTES/trees\" \"$RUNNER_STATE_ROOT/state/runs/trees\"";
    project.agent_on(&[("S00-001/claim", &format!("work; submit; {deed}"))]);
    let finished = project.run(&[]);
    assert_eq!(finished.code, Some(2), "{finished}");
    assert_says(&format!("{finished}"), &["state/runs/trees", "is a link"]);
    assert_eq!(project.steps(), ["S00-001/claim"]);
    project.waits("S00-001");
}

#[test]
fn a_work_tree_that_cannot_be_reset_without_loss_is_kept_and_replaced() {
    let project = project(2);
    project.run(&["--max-sessions", "2"]).stopped(0, "session_limit");
    project.write(&format!("{TREE}/docs/page.md"), "nobody's work\n");
    let result = project.run(&[]);
    result.complete();
    assert_says(&result.stderr, &["failed-reset", "docs/page.md"]);
    assert_eq!(trees(&project), ["1", "1.failed-reset"]);
    assert_eq!(project.read("state/runs/trees/1.failed-reset/docs/page.md"), "nobody's work\n");
    assert_eq!(leases(&project), vec![released(); 4]);
    project.assert_clean();
}

#[test]
fn what_a_session_or_a_verification_staged_is_taken_back_and_the_work_tree_is_used_again() {
    let project = project(2);
    project.config(&json!({"verify": [["sh", "-c", "echo x >junk.txt && git add junk.txt"]]}));
    project.agent_on(&[("*/claim", "work; echo x >staged.txt; git add staged.txt; rm staged.txt; submit")]);
    project.run(&[]).complete();
    assert_eq!(trees(&project), ["1"]);
    assert_eq!(leases(&project), vec![released(); 4]);
    project.assert_clean();
}

#[test]
fn old_records_go_but_a_kept_work_tree_does_not() {
    let project = project(2);
    project.config(&json!({"retention": {"runs": 1, "bytes": 1}}));
    contaminates_then_rests(&project);
    assert!(project.exists("state/runs/trees/1.scope-violation/lib/new.txt"));
    let told = project.run(&["recover"]);
    assert_says(&told.stdout, &["1.scope-violation", "git worktree remove --force"]);
}

fn contaminates_then_rests(project: &Project) {
    project.agent_on(&[("S00-001/claim", "work; write lib/new.txt x; submit")]);
    project.run(&[]).stopped(3, "needs_input");
    project.run(&[]).stopped(3, "needs_input");
}

#[test]
fn a_kill_during_a_session_loses_nothing_and_the_next_start_goes_on() {
    let project = project(2);
    let (hold, mut ready) = (project.gate("hold"), project.listener("working"));
    let body = "if seen first; then honest; else write src/S00-001/half.txt half; \
                write state/evidence/$RUNNER_AGENT_ID.md note; tell working; hold hold; fi";
    project.agent_on(&[("S00-001/claim", body)]);
    let run = project.spawn(&[]);
    ready.wait();
    run.signal(Signal::KILL);
    assert_eq!(run.wait().signal, Some(9));
    drop(hold);
    project.run(&[]).complete();
    let log = project.log();
    let recovered = &log[log.len() - 2];
    assert_eq!(project.trailer(recovered, "Action"), "recover");
    let files = project.files_of(recovered);
    assert!(files.contains(&"src/S00-001/half.txt".to_owned()), "{files:?}");
    assert!(files.iter().any(|file| file.starts_with("state/evidence/auto-")), "{files:?}");
    assert_eq!(project.read("src/S00-001/half.txt"), "half\n");
    assert_eq!(trees(&project), ["1"]);
    project.assert_clean();
}

#[test]
fn after_a_kill_strays_keep_the_work_tree_and_the_run_goes_on_with_other_tasks() {
    let project = project(2);
    let (hold, mut ready) = (project.gate("hold"), project.listener("working"));
    let body = "work; echo more >>docs/page.md; submit; tell working; hold hold";
    project.agent_on(&[("S00-001/claim", body)]);
    let run = project.spawn(&[]);
    ready.wait();
    run.signal(Signal::KILL);
    assert_eq!(run.wait().signal, Some(9));
    drop(hold);
    project.write("lib/keep.txt", "a person's edit\n");
    project.run(&[]).stopped(3, "needs_input");
    assert_eq!(project.status_of("S00-002"), "done");
    assert_says(&project.waits("S00-001"), &["docs/page.md"]);
    assert_eq!(trees(&project), ["1", "1.scope-violation"]);
    assert_eq!(project.read("state/runs/trees/1.scope-violation/docs/page.md"), "page\nmore\n");
    assert_eq!(project.read("src/S00-001/out.txt"), "work of S00-001\n", "work in scope is a checkpoint");
    assert_eq!(project.status(), " M lib/keep.txt");
}

#[test]
fn an_interrupt_keeps_the_work_as_a_checkpoint() {
    let project = project(1);
    let (hold, mut ready) = (project.gate("hold"), project.listener("working"));
    let body = "if seen first; then honest; else write src/S00-001/half.txt half; tell working; hold hold; fi";
    project.agent_on(&[("*/claim", body)]);
    let run = project.spawn(&[]);
    ready.wait();
    run.signal(Signal::TERM);
    run.wait().stopped(128 + 15, "interrupted");
    drop(hold);
    assert_eq!(project.trailer("HEAD", "Action"), "interrupt");
    assert_eq!(project.read("src/S00-001/half.txt"), "half\n");
    assert_eq!(leases(&project), [released()]);
    project.assert_clean();
    project.run(&[]).complete();
    project.assert_clean();
}

/// Kills a run where its first session gets to each of `points`, with a person's edit in the root; the next start must finish.
#[track_caller]
fn killed_at(points: &[&str]) {
    for point in points {
        let project = with(1, &json!({}))
            .card("S00-001", json!({"scope": ["src/*"]}))
            .file("src/a.txt", "a\n")
            .file("src/old/b.txt", "b\n")
            .file("src/old/deep/c.txt", "c\n")
            .build();
        let claim = "work; echo new >>src/a.txt; rm -r src/old; write src/old c; submit";
        project.agent_on(&[("*/claim", &format!("if test -e src/old/b.txt; then {claim}; else submit; fi"))]);
        project.config(&json!({"environment": {"remove": ["RUNNER_FAULT"]}}));
        project.write("lib/keep.txt", "a person's edit\n");
        let killed = project.run_with(&["--max-sessions", "1"], &[("RUNNER_FAULT", point)]);
        assert_eq!(killed.signal, Some(9), "{point} is never reached: {killed}");
        let again = project.run(&[]);
        assert_eq!(again.code, Some(0), "{point}: {again}");
        again.complete();
        assert_eq!(project.status(), " M lib/keep.txt", "{point}: {again}");
        assert_eq!(project.read("src/a.txt"), "a\nnew\n", "{point}");
        assert_eq!(project.read("src/old"), "c\n", "{point}");
        assert_eq!(project.read("lib/keep.txt"), "a person's edit\n");
        assert!(!project.exists("state/runs/landing"), "{point}");
        project.git(&["fsck", "--strict"]);
    }
}

#[test]
fn a_kill_while_the_work_tree_is_made_or_the_task_is_claimed_is_made_good() {
    killed_at(&["tree:founded#1", "claim:durable#1", "session:launch#1"]);
}

#[test]
fn a_kill_between_the_session_and_its_commit_is_made_good() {
    killed_at(&["session:over#1", "settle:before#1", "settle:durable#1", "views:rendered#1"]);
}

#[test]
fn a_kill_while_the_files_land_is_made_good() {
    killed_at(&["commit:stored#1", "commit:prepared#1", "commit:locked#1", "land:file#1", "land:file#2"]);
}

#[test]
fn a_kill_while_branch_and_index_move_is_made_good() {
    killed_at(&["land:files#1", "commit:renamed#1", "commit:moved#1", "commit:index#1", "commit:indexed#1"]);
}

#[test]
fn a_kill_while_a_contaminated_work_tree_is_put_aside_loses_nothing() {
    let project = project(2);
    project.agent_on(&[("S00-001/claim", "work; write lib/new.txt x; submit")]);
    project.config(&json!({"environment": {"remove": ["RUNNER_FAULT"]}}));
    let killed = project.run_with(&[], &[("RUNNER_FAULT", "tree:kept#1")]);
    assert_eq!(killed.signal, Some(9), "{killed}");
    project.run(&[]).stopped(3, "needs_input");
    assert_eq!(trees(&project), ["1", "1.scope-violation"]);
    assert_eq!(project.read("state/runs/trees/1.scope-violation/lib/new.txt"), "x\n");
    assert_eq!(project.read("src/S00-001/out.txt"), "work of S00-001\n");
    assert_eq!(project.status_of("S00-002"), "done");
    project.assert_clean();
}
