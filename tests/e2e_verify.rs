//! The coordinator's own commands on what an executor submits: what they find, what they may not do, and what a signal or a kill
//! in the middle of them leaves.

mod support;

use serde_json::{Value, json};
use support::{Gate, Listener, Project, Running, Signal, assert_says};

/// A command that is a shell script.
fn sh(script: &str) -> Value {
    json!(["/bin/sh", "-c", script])
}

/// Finds fault with work that says "bad", and with nothing that is there before.
const NO_BAD: &str = "if grep -rq bad src 2>/dev/null; then echo 'there is a bad word' >&2; exit 3; fi";

/// A project whose work is verified by these scripts.
fn verified(scripts: &[&str]) -> Project {
    let verify: Vec<Value> = scripts.iter().map(|script| sh(script)).collect();
    Project::builder().stage("S00", 1).config(json!({"verify": verify})).build()
}

/// The record of the session that came `place`th.
fn record(project: &Project, place: usize) -> Value {
    project.run_json(&project.sessions()[place].agent)
}

/// What each command of a session's verification came to.
fn failures(record: &Value) -> Vec<Value> {
    let commands = record["verification"]["commands"].as_array().cloned().unwrap_or_default();
    commands.iter().map(|command| command["failed"].clone()).collect()
}

#[test]
fn a_new_failure_sends_the_work_back_with_command_status_and_output() {
    let project = verified(&[NO_BAD]);
    project.agent_on(&[(
        "*/claim",
        "cat >\"$NOTES/prompt-$RUNNER_AGENT_ID\"; if seen first; then write src/S00-001/out.txt good; submit; else write src/S00-001/out.txt bad; submit; fi",
    )]);
    project.run(&[]).complete();
    assert_eq!(project.steps(), ["S00-001/claim", "S00-001/claim", "S00-001/review"], "nobody reviewed what fails");
    let events = project.events("S00-001");
    let reject = events.iter().find(|event| event["action"] == "reject").expect("a rejection");
    assert_eq!(reject["agent"], "coordinator");
    let words = ["verification failed", "grep -rq bad", "exit status 3", "there is a bad word"];
    assert_says(reject["note"].as_str().unwrap(), &words);
    let sessions = project.sessions();
    assert_says(&project.note(&format!("prompt-{}", sessions[1].agent)), &words);
    let rejected = &project.log()[2];
    assert_eq!(project.trailer(rejected, "Action"), "reject");
    assert_eq!(
        project.files_of(rejected).iter().filter(|file| file.starts_with("src/")).count(),
        1,
        "the work is kept"
    );
    let first = record(&project, 0);
    assert_eq!((first["outcome"].as_str(), first["failed_stage"].as_str()), (Some("failed"), Some("judgement")));
    assert_eq!(failures(&first), [json!("new")]);
    assert_eq!(first["verification"]["commands"][0]["ended"], "ended with exit status 3");
    let log = format!("state/runs/{}/1/verify-1.err.log", sessions[0].agent);
    assert_says(&project.read(&log), &["there is a bad word"]);
    assert_eq!(failures(&record(&project, 1)), [Value::Null]);
    project.assert_clean();
}

#[test]
fn a_failure_stays_new_although_the_work_that_brought_it_was_kept() {
    let project = verified(&[NO_BAD]);
    project.agent_on(&[(
        "*/claim",
        "if seen first; then if seen second; then write src/S00-001/out.txt good; submit; else write src/S00-001/more.txt x; submit; fi
         else write src/S00-001/out.txt bad; submit; fi",
    )]);
    project.run(&[]).complete();
    assert_eq!(project.steps(), ["S00-001/claim", "S00-001/claim", "S00-001/claim", "S00-001/review"]);
    assert_eq!(failures(&record(&project, 1)), [json!("new")], "the checkpoint made nothing old");
    project.assert_clean();
}

#[test]
fn an_old_failure_is_stated_and_rejects_nothing() {
    let project = verified(&["echo 'broken since ever'; exit 2", "exit 0"]);
    project.agent_on(&[("*/review", "cat >\"$NOTES/prompt\"; approve")]);
    project.run(&[]).complete();
    assert_eq!(project.steps(), ["S00-001/claim", "S00-001/review"]);
    let prompt = project.note("prompt");
    assert_says(&prompt, &["failed before the session", "exit status 2", "broken since ever", "`: passed"]);
    let verification = &record(&project, 0)["verification"];
    assert_eq!(failures(&record(&project, 0)), [json!("old"), Value::Null]);
    assert_eq!(verification["before"].as_array().map(Vec::len), Some(2), "it was found out before the session");
    assert_eq!(verification["baseline"], project.log()[2].as_str());
    project.assert_clean();
}

#[test]
fn what_failed_before_is_found_out_once_and_then_known_from_accepted_work() {
    let project = Project::tasks(3);
    let count = project.outside("notes/count");
    project.config(&json!({"verify": [sh(&format!("echo \"$RUNNER_ACTION\" >>'{}'", count.display()))]}));
    project.run(&["--max-sessions", "3"]).stopped(0, "session_limit");
    project.run(&[]).complete();
    assert_eq!(project.note("count").lines().count(), 1 + 3, "one before all, one for each submit");
    // Somebody else's commit may change anything.
    project.write("src/other.txt", "x");
    project.commit_all("Change something by hand");
    let card = project.write_outside("card.json", &Project::new_card("S00", "S00-009").to_string());
    assert_eq!(project.run(&["task", "add", "--card", &card, "--as", "ada"]).code, Some(0));
    project.run(&[]).complete();
    assert_eq!(project.note("count").lines().count(), 4 + 2);
}

#[test]
fn what_the_commands_change_is_kept_aside_and_put_back() {
    let deed = "if test -e src/S00-001/out.txt; then echo mine >src/S00-001/out.txt; rm -f src/S00-001/gone.txt src/S00-001/link;
        rm -rf lib; ln -s docs lib; echo more >>README.md; mkdir -p new/deep; echo new >new/deep/file; mkfifo new/pipe;
        git add -A; rm -rf src/S00-001/folder; echo file >src/S00-001/folder; echo built >built.o; fi";
    let project = Project::builder()
        .stage("S00", 1)
        .file("lib/keep.txt", "keep\n")
        .file("src/S00-001/old.txt", "old\n")
        .ignore("*.o\n")
        .config(json!({"verify": [sh(deed)]}))
        .build();
    let body = "work; write src/S00-001/gone.txt here; write src/S00-001/folder/x y; ln -s out.txt src/S00-001/link;
        chmod 755 src/S00-001/gone.txt; rm src/S00-001/old.txt; submit";
    project.agent_on(&[("*/claim", body)]);
    let finished = project.run(&[]);
    finished.complete();
    assert_says(
        &finished.stderr,
        &["files changed while commands verified S00-001, by these or by hand", "/1/verify: "],
    );
    assert_eq!(project.read("src/S00-001/out.txt"), "work of S00-001\n");
    assert_eq!(project.at_head("src/S00-001/out.txt"), "work of S00-001");
    assert_eq!(project.at_head("src/S00-001/folder/x"), "y");
    let tree = project.git(&["ls-tree", "-r", "HEAD"]);
    assert!(!tree.contains("old.txt") && !tree.contains("new/"), "{tree}");
    for (mode, name) in [("100755", "src/S00-001/gone.txt"), ("120000", "src/S00-001/link"), ("100644", "lib/keep.txt")]
    {
        assert!(tree.lines().any(|line| line.starts_with(mode) && line.ends_with(name)), "{mode} {name}: {tree}");
    }
    assert_eq!(
        (project.read("lib/keep.txt"), project.read("README.md")),
        ("keep\n".to_owned(), "# Sample\n".to_owned())
    );
    assert!(project.exists("built.o") && !project.exists("new"), "only what git ignores stays");
    let folder = format!("state/runs/{}/1/verify/tree", project.sessions()[0].agent);
    assert_eq!(project.read(&format!("{folder}/src/S00-001/out.txt")), "mine\n");
    assert_eq!(project.read(&format!("{folder}/new/deep/file")), "new\n");
    assert_says(
        &record(&project, 0)["verification"]["changed"].to_string(),
        &["README.md", "new/deep/file", "deleted"],
    );
    project.assert_clean();
}

#[test]
fn commands_that_touch_what_only_the_coordinator_may_fail_by_name() {
    for (deed, name) in [
        ("sed -i 's/review/done/' state/tasks/S00/S00-001.json", "state/tasks/S00/S00-001.json"),
        ("echo '{}' >planning/tasks/S00-001.json", "planning/tasks/S00-001.json"),
        ("git config core.hooksPath /tmp", ".git/config"),
        ("git commit -q --allow-empty -m 'By a test'", ".git/refs/heads/main"),
        ("echo 'Nice words for all of it' >state/commit_messages/$RUNNER_AGENT_ID.txt", "state/commit_messages/"),
    ] {
        let project = verified(&[&format!("test ! -e src/S00-001/touch || {{ {deed}; }}")]);
        project.agent_on(&[(
            "*/claim",
            "if seen first; then rm -f src/S00-001/touch; work; submit; else write src/S00-001/touch x; submit; fi",
        )]);
        let head = project.head();
        project.run(&["--max-sessions", "1"]).stopped(0, "session_limit");
        assert_says(&project.told("S00-001"), &["verification failed", name]);
        assert_eq!(project.status_of("S00-001"), "todo");
        assert_eq!(project.git(&["rev-parse", "HEAD~1"]), head, "one commit, by the coordinator");
        project.assert_clean();
        project.run(&[]).complete();
        project.assert_clean();
    }
}

#[test]
fn commands_that_touch_it_before_any_work_stop_the_run_before_a_claim() {
    let project = verified(&["echo x >>planning/stages/S00.json"]);
    let reason = project.run(&["-q"]).refused();
    assert_says(&reason, &["verify", "planning/stages/S00.json"]);
    assert_eq!((project.row("S00-001"), project.steps()), (Value::Null, Vec::new()));
    project.assert_clean();
}

#[test]
fn a_command_that_is_killed_cannot_start_or_takes_too_long_has_failed() {
    let project = Project::builder()
        .stage("S00", 1)
        .file("src/S00-001/check", "#!/bin/sh\n")
        .config(json!({"timeout_seconds": 20, "verify": [
            sh("test ! -e src/S00-001/out.txt || kill -KILL $$"), ["src/S00-001/check"],
            sh("test ! -e src/S00-001/out.txt || exec sleep 600"),
        ]}))
        .build();
    project.chmod("src/S00-001/check", 0o755);
    project.commit_all("Make it a program");
    project.agent_on(&[("*/claim", "work; rm src/S00-001/check; submit")]);
    project.run(&["--max-sessions", "1"]).stopped(0, "session_limit");
    let told = project.told("S00-001");
    assert_says(&told, &["SIGKILL", "`src/S00-001/check` could not start", "time limit after 20 s"]);
    assert_eq!(failures(&record(&project, 0)), [json!("new"), json!("new"), json!("new")]);
}

#[test]
fn commands_get_the_sessions_environment_without_its_secret_and_leave_no_process() {
    let project = Project::new();
    let (notes, pipe) = (project.outside("notes/env"), project.outside("pipes/stray"));
    let mut stray = project.listener("stray");
    let script = format!(
        "test -e src/S00-001/out.txt || exit 0; env >'{}'; cat >>'{0}'; cat /proc/$PPID/environ >>'{0}' 2>/dev/null
         setsid sh -c 'trap \"\" TERM HUP; exec 9>{}; echo up >&9; echo ready >\"$0\"; exec sleep 600' '{2}' & read -r x <'{2}'",
        notes.display(),
        pipe.display(),
        project.pipe("ready").display()
    );
    project
        .config(&json!({"verify": [sh(&script)], "environment": {"by_role": {"backend": {"set": {"MARK": "yes"}}}}}));
    project.agent_on(&[("*/claim", "note token \"$RUNNER_TOKEN\"; honest")]);
    project.run(&[]).complete();
    let env = project.note("env");
    assert_says(&env, &["RUNNER_TASK_ID=S00-001", "RUNNER_ROLE=backend", "MARK=yes"]);
    assert!(!env.contains(project.note("token").trim()) && !env.contains("RUNNER_TOKEN="), "{env}");
    stray.wait();
    stray.assert_ended();
}

#[test]
fn no_secret_gets_from_the_output_of_a_command_into_handoff_or_commit() {
    let project = verified(&["test ! -e src/S00-001/out.txt || { echo \"key $SERVICE_KEY.\"; exit 1; }"]);
    project.run_with(&["--max-sessions", "1"], &[("SERVICE_KEY", "hush-hush-4711")]).stopped(0, "session_limit");
    assert_says(&project.told("S00-001"), &["key [redacted]."]);
    let committed = project.git(&["log", "-p", "--all"]);
    assert!(!committed.contains("hush-hush-4711") && !record(&project, 0).to_string().contains("hush-hush-4711"));
}

#[test]
fn a_card_and_a_role_have_commands_of_their_own() {
    let project = Project::tasks(2);
    let log = project.outside("notes/ran").display().to_string();
    let say = |word: &str| sh(&format!("echo $RUNNER_TASK_ID {word} >>'{log}'"));
    project
        .config(&json!({"verify": {"all": [say("all")], "by_role": {"frontend": [say("role")], "qa": [say("qa")]}}}));
    project.edit_card("S00-002", &json!({"role": "frontend", "verify": [say("card"), say("all")]}));
    project.commit_all("Give the second task a command");
    project.run(&[]).complete();
    let ran = project.note("ran");
    let of = |task: &str| ran.lines().filter_map(|line| line.strip_prefix(task)).collect::<String>();
    assert_eq!(of("S00-001"), " all all", "once before, once after");
    assert_eq!(of("S00-002"), " role card all role card", "known from accepted work, then each once");
}

/// A run whose verification says `tell working` and waits.
fn held(project: &Project) -> (Running, Gate) {
    let gate = project.gate("hold");
    let mut working = project.listener("working");
    let (said, wait) = (project.outside("pipes/working"), project.outside("pipes/hold"));
    let script = format!(
        "test -e src/S00-001/out.txt || exit 0; test -e '{0}' && exit 0; : >'{0}'; echo up >'{1}'; read -r x <'{2}'",
        project.outside("notes/once").display(),
        said.display(),
        wait.display()
    );
    project.config(&json!({"verify": [sh(&script)]}));
    let run = project.spawn(&[]);
    working.wait();
    (run, gate)
}

#[test]
fn a_signal_during_verification_accepts_nothing_and_keeps_the_work() {
    let project = Project::new();
    let (run, _gate) = held(&project);
    run.signal(Signal::INT);
    run.wait().stopped(128 + 2, "interrupted");
    assert_eq!(project.status_of("S00-001"), "todo", "nothing was verified, so nothing is for review");
    assert_eq!(project.row("S00-001")["claim"], Value::Null);
    assert_eq!(project.trailer("HEAD", "Action"), "interrupt");
    assert_eq!(project.at_head("src/S00-001/out.txt"), "work of S00-001");
    project.assert_clean();
    project.agent_on(&[("*/claim", "write src/S00-001/more.txt x; submit")]);
    project.run(&[]).complete();
    assert_eq!(project.steps(), ["S00-001/claim", "S00-001/claim", "S00-001/review"]);
    project.assert_clean();
}

#[test]
fn a_kill_during_verification_leaves_a_submit_that_nobody_takes_for_verified() {
    let project = Project::new();
    let (run, _gate) = held(&project);
    run.signal(Signal::KILL);
    assert_eq!(run.wait().signal, Some(9));
    project.agent_on(&[("*/claim", "write src/S00-001/more.txt x; submit")]);
    let finished = project.run(&[]);
    finished.complete();
    assert_says(&finished.stderr, &["recovered", "nobody had verified"]);
    assert_eq!(project.steps(), ["S00-001/claim", "S00-001/claim", "S00-001/review"]);
    assert_eq!(project.trailer(&project.log()[2], "Action"), "recover");
    project.assert_clean();
}

/// A run killed together with the guardian of a verification command, which has done `deed` and left a descendant in a session of
/// its own that ignores TERM; each holds a pipe. The command runs where `is_due`, once.
fn orphaned(project: &Project, (is_due, deed): (&str, &str)) -> ([Listener; 2], Gate) {
    let gate = project.gate("hold");
    let [mut working, command, stray] = ["working", "command", "stray"].map(|name| project.listener(name));
    project.pipe("ready");
    let script = format!(
        "{is_due} || exit 0; P='{pipes}'; test -e '{notes}/once' && exit 0; : >'{notes}/once'
         setsid sh -c 'trap \"\" TERM HUP; exec 9>\"$0/stray\"; echo up >&9; echo ready >\"$0/ready\"; read -r x <\"$0/hold\"' \"$P\" &
         read -r x <\"$P/ready\"; {deed}
         exec 9>\"$P/command\"; echo up >&9; echo up >\"$P/working\"; read -r x <\"$P/hold\"",
        pipes = project.outside("pipes").display(),
        notes = project.outside("notes").display()
    );
    project.config(&json!({"verify": [sh(&script)]}));
    let run = project.spawn(&[]);
    working.wait();
    run.kill_with_guardian();
    assert_eq!(run.wait().signal, Some(9));
    ([command, stray], gate)
}

/// What commands do that write where they please.
const STRAYS: &str = "echo more >>README.md; mkdir -p new/deep; echo new >new/deep/file; echo mine >src/S00-001/out.txt; \
    rm src/S00-001/gone.txt; echo back >src/S00-001/old.txt; echo extra >src/S00-001/extra.txt; rm src/S00-001/link; git add -A";

/// A project with a file that the first session removes.
fn with_old(patch: &Value) -> Project {
    let project = Project::builder().stage("S00", 1).file("src/S00-001/old.txt", "old\n").config(patch.clone()).build();
    project.agent_on(&[(
        "*/claim",
        "if seen first; then write src/S00-001/more.txt x; submit; else work; write src/S00-001/gone.txt here; \
         chmod 755 src/S00-001/gone.txt; ln -s out.txt src/S00-001/link; rm src/S00-001/old.txt; submit; fi",
    )]);
    project
}

/// Everything is as the first session left it, in the commit that put things in order.
#[track_caller]
fn is_as_the_session_left_it(project: &Project) {
    assert_eq!(project.steps(), ["S00-001/claim", "S00-001/claim", "S00-001/review"]);
    let recovered = project.log()[2].clone();
    assert_eq!(project.trailer(&recovered, "Action"), "recover");
    let tree = project.git(&["ls-tree", "-r", &recovered]);
    for (mode, name) in [("100755", "gone.txt"), ("120000", "link"), ("100644", "out.txt")] {
        let is_there = |line: &str| line.starts_with(mode) && line.ends_with(&format!("src/S00-001/{name}"));
        assert!(tree.lines().any(is_there), "{mode} {name}: {tree}");
    }
    assert!(!tree.contains("old.txt") && !tree.contains("extra.txt") && !tree.contains("new/"), "{tree}");
    assert_eq!(project.git(&["show", &format!("{recovered}:src/S00-001/out.txt")]), "work of S00-001");
    assert_eq!(project.read("README.md"), "# Sample\n");
    assert!(
        !project.exists("new") && !project.exists(".git/runner/verify.json") && !project.exists(".git/runner/verify")
    );
    project.assert_clean();
}

#[test]
fn after_a_kill_of_coordinator_and_guardian_during_verification_its_processes_are_ended_and_its_changes_put_back() {
    let project = with_old(&json!({}));
    let ([mut command, mut stray], _gate) = orphaned(&project, ("test -e src/S00-001/out.txt", STRAYS));
    let told = project.run(&["recover"]);
    assert_says(&told.stdout, &["README.md", "new/deep/file", "gone.txt", "by its commands or by hand", "a start"]);
    assert_says(&told.stdout, &["kept/verify.1", "nothing else differs"]);
    assert_eq!(project.read("README.md"), "# Sample\nmore\n", "what is only listed stays");
    for listener in [&mut command, &mut stray] {
        listener.assert_ended();
    }
    let finished = project.run(&[]);
    finished.complete();
    let words =
        ["put the workspace back as it was when the killed verification of S00-001 began", "nobody had verified"];
    assert_says(&finished.stderr, &words);
    assert_says(&finished.stderr, &["by its commands or by hand: README.md, ", " more; kept in ", "kept/verify.1"]);
    is_as_the_session_left_it(&project);
    let kept = format!("state/runs/{}/1/kept/verify.1/tree", project.sessions()[0].agent);
    assert_eq!(project.read(&format!("{kept}/README.md")), "# Sample\nmore\n", "nothing is discarded");
    assert_eq!(project.read(&format!("{kept}/new/deep/file")), "new\n");
    assert_eq!(project.read(&format!("{kept}/src/S00-001/out.txt")), "mine\n");
    let record = record(&project, 0);
    assert_says(&record["verification"]["changed"].to_string(), &["README.md → ", "gone.txt (it was deleted)"]);
    assert_eq!((&record["status"], &record["teardown"]["destruction"]), (&json!("recovered"), &json!("succeeded")));
}

#[test]
fn after_such_a_kill_plan_and_state_are_put_back_too_and_the_submit_is_still_the_sessions() {
    let project = with_old(&json!({}));
    let deed = "sed -i s/in_progress/done/ state/tasks/S00/S00-001.json; sed -i 's/A sample/New/' planning/stages/S00.json; \
        for file in state/tasks/S00 planning/tasks; do sed s/S00-001/S00-009/g $file/S00-001.json >$file/S00-009.json; done; echo x >state/evidence/stray.md";
    let ([mut command, mut stray], _gate) = orphaned(&project, ("test -e src/S00-001/out.txt", deed));
    project.run(&[]).complete();
    command.assert_ended();
    stray.assert_ended();
    is_as_the_session_left_it(&project);
    let tree = project.git(&["ls-tree", "-r", "HEAD"]);
    assert!(!tree.contains("S00-009") && !tree.contains("stray.md"), "{tree}");
    assert_says(&project.read("planning/stages/S00.json"), &["A sample."]);
    let actions: Vec<Value> = project.events("S00-001").iter().map(|event| event["action"].clone()).collect();
    assert_eq!(actions[..3], [json!("claim"), json!("submit"), json!("release")]);
}

#[test]
fn after_such_a_kill_in_work_tree_mode_the_work_tree_is_put_back_and_used_again() {
    let project = with_old(&json!({"workspace": {"mode": "worktree"}}));
    let deed = format!("{STRAYS}; echo '{{}}' >planning/tasks/S00-001.json");
    let ([mut command, mut stray], _gate) = orphaned(&project, ("test -e src/S00-001/out.txt", &deed));
    let finished = project.run(&[]);
    finished.complete();
    command.assert_ended();
    stray.assert_ended();
    assert_says(&finished.stderr, &["put the workspace back as it was when the killed verification of S00-001 began"]);
    is_as_the_session_left_it(&project);
    let kept = format!("state/runs/{}/1/kept/verify.1/work-tree", project.sessions()[0].agent);
    assert_eq!(project.read(&format!("{kept}/planning/tasks/S00-001.json")), "{}\n");
    assert_eq!(project.listing().keys().filter(|path| path.starts_with("state/runs/trees/1.")).count(), 0);
}

/// What is like [`STRAYS`] without a trace in the index, so that a person's commit takes nothing of it.
const UNSTAGED: &str = "echo more >>README.md; echo mine >src/S00-001/out.txt; rm src/S00-001/gone.txt";

/// A project whose HEAD a person moved after a kill during verification, and where the start keeps what was submitted.
fn with_moved_head() -> (Project, Gate, String) {
    let project = with_old(&json!({}));
    let ([mut command, mut stray], gate) = orphaned(&project, ("test -e src/S00-001/out.txt", UNSTAGED));
    project.git(&["commit", "-q", "--allow-empty", "-m", "Note something by hand"]);
    let (head, row) = (project.head(), project.row("S00-001"));
    let reason = project.run(&["-q"]).refused();
    command.assert_ended();
    stray.assert_ended();
    let kept = format!("state/runs/{}/1/kept/verify.1/submitted", agent_of(&row));
    assert_says(&reason, &["HEAD moved", "S00-001", &kept, "runner recover --yes"]);
    assert_says(&reason, &["README.md", "src/S00-001/out.txt", "src/S00-001/gone.txt"]);
    assert!(!reason.contains("link"), "what is as it was submitted is not named: {reason}");
    assert_eq!((project.head(), project.row("S00-001")), (head, row), "nothing is committed or settled");
    assert_eq!(project.read(&format!("{kept}/src/S00-001/out.txt")), "work of S00-001\n");
    assert_eq!(project.read(&format!("{kept}/src/S00-001/gone.txt")), "here\n");
    assert_eq!(project.read("src/S00-001/out.txt"), "mine\n", "nothing is put back");
    (project, gate, kept)
}

fn agent_of(row: &Value) -> String {
    row["claim"]["agent"].as_str().expect("the session is still claimed").to_owned()
}

#[test]
fn after_such_a_kill_a_moved_head_stops_each_start_until_a_person_put_back_what_was_submitted() {
    let (project, _gate, kept) = with_moved_head();
    let reason = project.run(&["-q"]).refused();
    assert_says(&reason, &["HEAD moved", &kept, "README.md", "src/S00-001/out.txt", "src/S00-001/gone.txt"]);
    project.git(&["checkout", "-q", "README.md"]);
    for name in ["out.txt", "gone.txt"] {
        let (from, to) =
            (project.path(&format!("{kept}/src/S00-001/{name}")), project.path(&format!("src/S00-001/{name}")));
        std::fs::copy(from, to).unwrap();
    }
    project.run(&[]).complete();
    is_as_the_session_left_it(&project);
    assert!(project.exists(&format!("{kept}/src/S00-001/gone.txt")), "nothing is discarded");
}

#[test]
fn after_such_a_kill_with_a_moved_head_recover_sets_aside_what_differs_and_the_run_goes_on() {
    let (project, _gate, kept) = with_moved_head();
    let told = project.run(&["recover"]);
    assert_says(&told.stdout, &["README.md", "src/S00-001/gone.txt", "runner recover --yes", "nothing else differs"]);
    assert_eq!(project.read("README.md"), "# Sample\nmore\n", "what is only listed stays");
    let done = project.run(&["recover", "--yes"]);
    assert_says(
        &done.stdout,
        &["README.md", "put back what lay there; kept in ", "kept/verify.2", &kept, "nothing else"],
    );
    assert_eq!(project.read("README.md"), "# Sample\n");
    let aside = kept.replace("verify.1/submitted", "verify.2/tree");
    assert_eq!(project.read(&format!("{aside}/src/S00-001/out.txt")), "mine\n");
    project.run(&[]).complete();
    assert_eq!(project.read(&format!("{kept}/src/S00-001/out.txt")), "work of S00-001\n");
    assert!(!project.exists(".git/runner/verify.json") && !project.exists(".git/runner/verify"));
    project.assert_clean();
}

#[test]
fn after_such_a_kill_a_commit_in_the_root_is_no_matter_to_a_work_tree() {
    let project = with_old(&json!({"workspace": {"mode": "worktree"}}));
    let ([mut command, mut stray], _gate) = orphaned(&project, ("test -e src/S00-001/out.txt", STRAYS));
    project.git(&["commit", "-q", "--allow-empty", "-m", "Note something by hand"]);
    project.run(&[]).complete();
    command.assert_ended();
    stray.assert_ended();
    is_as_the_session_left_it(&project);
}

#[test]
fn after_such_a_kill_a_work_tree_whose_head_was_moved_is_kept_and_so_is_what_was_submitted() {
    let project = with_old(&json!({"workspace": {"mode": "worktree"}}));
    let deed = format!("{UNSTAGED}; git add -A src; git -c user.name=x -c user.email=x@y commit -qm 'By a test'");
    let (_listeners, _gate) = orphaned(&project, ("test -e src/S00-001/out.txt", &deed));
    let agent = agent_of(&project.row("S00-001"));
    let finished = project.run(&[]);
    finished.stopped(3, "needs_input");
    let kept = format!("state/runs/{agent}/1/kept/verify.1/submitted");
    assert_says(&finished.stderr, &["not all that was submitted of S00-001 is in its place", &kept]);
    assert_eq!(project.read(&format!("{kept}/src/S00-001/gone.txt")), "here\n");
    assert_eq!(project.read("state/runs/trees/1.head-moved/src/S00-001/out.txt"), "mine\n");
    assert!(!project.git(&["ls-tree", "-r", "HEAD"]).contains("out.txt"), "nothing of it is committed");
    project.assert_clean();
}

#[test]
fn after_such_a_kill_special_files_and_nested_repositories_go_as_without_one() {
    for mode in ["in_place", "worktree"] {
        let project = with_old(&json!({"workspace": {"mode": mode}}));
        let deed =
            "mkfifo pipe src/S00-001/pipe; git init -q sub; echo a >sub/x; mkdir -p deep/er; mkfifo deep/er/pipe";
        let (_listeners, _gate) = orphaned(&project, ("test -e src/S00-001/out.txt", deed));
        let finished = project.run(&[]);
        finished.complete();
        assert_says(&finished.stderr, &["pipe", "sub"]);
        let top = if mode == "worktree" { "state/runs/trees/1/" } else { "" };
        for name in ["pipe", "src/S00-001/pipe", "sub", "deep"] {
            assert!(!project.exists(&format!("{top}{name}")), "{mode} {name}");
        }
        is_as_the_session_left_it(&project);
    }
}

#[test]
fn after_such_a_kill_recover_says_what_was_put_back_and_where_the_rest_is_kept() {
    let project = with_old(&json!({}));
    let (_listeners, _gate) = orphaned(&project, ("test -e src/S00-001/out.txt", STRAYS));
    let done = project.run(&["recover", "--yes"]);
    assert_says(&done.stdout, &["README.md", "new/deep/file", "put back what lay there; kept in ", "kept/verify.1"]);
    assert_says(&done.stdout, &["nothing else differs"]);
    project.run(&[]).complete();
    is_as_the_session_left_it(&project);
}

#[test]
fn after_such_a_kill_the_temporary_folder_of_the_commands_is_gone_and_what_they_displaced_stays_for_good() {
    let project = with_old(&json!({}));
    let deed =
        format!("echo \"$TMPDIR\" >'{}'; echo big >\"$TMPDIR/big\"; {STRAYS}", project.outside("notes/tmp").display());
    let (_listeners, _gate) = orphaned(&project, ("test -e src/S00-001/out.txt", &deed));
    let temporary = std::path::PathBuf::from(project.note("tmp").trim());
    assert!(temporary.join("big").exists());
    project.run(&[]).complete();
    assert!(!temporary.exists(), "{}", temporary.display());
    project.config(&json!({"retention": {"runs": 1}}));
    project.run(&[]).complete();
    let sessions = project.sessions();
    assert!(!project.exists(&format!("state/runs/{}/1", sessions[1].agent)), "old sessions go");
    assert_eq!(project.read(&format!("state/runs/{}/1/kept/verify.1/tree/new/deep/file", sessions[0].agent)), "new\n");
}

#[test]
fn after_such_a_kill_before_the_first_session_the_run_begins_as_if_for_the_first_time() {
    let project = with_old(&json!({}));
    let ([mut command, mut stray], _gate) = orphaned(&project, ("true", "echo more >>README.md; echo x >stray"));
    assert_eq!((project.row("S00-001"), project.steps()), (Value::Null, Vec::new()));
    // What a person asks for now waits until it is put in order.
    let card = project.write_outside("card.json", &Project::new_card("S00", "S00-009").to_string());
    let queued = project.run(&["task", "add", "--card", &card, "--as", "ann"]);
    assert_says(&queued.stdout, &["queued"]);
    assert!(!project.exists("planning/tasks/S00-009.json"));
    project.run(&["--task", "S00-001"]).stopped(0, "idle");
    command.assert_ended();
    stray.assert_ended();
    assert_eq!(project.steps(), ["S00-001/claim", "S00-001/review"]);
    assert_eq!(project.read("README.md"), "# Sample\n");
    let listing = project.listing();
    let is_kept = |path: &&String| path.starts_with("state/runs/recovered/") && path.ends_with("tree/README.md");
    assert_eq!(listing.keys().filter(is_kept).count(), 1, "nothing is discarded");
    assert!(!project.exists("stray") && !project.exists(".git/runner/verify.json"));
    assert!(project.exists("planning/tasks/S00-009.json"), "what was asked for is done now");
    project.assert_clean();
}

#[test]
fn a_mark_opens_nothing_and_is_of_one_verification_alone() {
    let project = Project::new();
    let notes = project.outside("notes").display().to_string();
    let script = format!(
        "echo \"$RUNNER_MARK\" >>'{notes}/marks'; test -e src/S00-001/out.txt || exit 0
         RUNNER_TOKEN=$RUNNER_MARK \"$RUNNER_BIN\" task reject S00-001 --reason x >'{notes}/said' 2>&1; echo $? >'{notes}/status'"
    );
    project.config(&json!({"verify": [sh(&script), sh(&format!("echo \"$RUNNER_MARK\" >>'{notes}/marks'"))]}));
    project.agent_on(&[("*", "note agent \"mark:$RUNNER_MARK\"; honest")]);
    project.run(&[]).complete();
    assert_eq!(project.note("status"), "2\n", "{}", project.note("said"));
    let marks = project.note("marks");
    let marks: Vec<&str> = marks.lines().collect();
    assert!(marks.len() == 4 && marks[0].len() == 64 && marks[0] == marks[1] && marks[2] == marks[3], "{marks:?}");
    assert_ne!(marks[0], marks[2]);
    assert_eq!(project.note("agent"), "mark:\nmark:\n", "agents have none");
}

#[test]
fn a_signal_before_the_first_session_ends_the_run_without_a_claim() {
    let project = Project::new();
    let _gate = project.gate("hold");
    let mut working = project.listener("working");
    let (said, wait) = (project.outside("pipes/working"), project.outside("pipes/hold"));
    project
        .config(&json!({"verify": [sh(&format!("echo up >'{}'; read -r x <'{}'", said.display(), wait.display()))]}));
    let run = project.spawn(&[]);
    working.wait();
    run.signal(Signal::TERM);
    run.wait().stopped(128 + 15, "interrupted");
    assert_eq!((project.row("S00-001"), project.steps()), (Value::Null, Vec::new()));
    assert_eq!(project.records().len(), 0);
    project.assert_clean();
}

#[test]
fn what_cannot_be_run_here_is_refused_before_any_claim() {
    for (patch, words) in [
        (json!({"verify": [["no-such-program-4711", "x"]]}), ["runner.local.json", "no-such-program-4711"]),
        (json!({"verify": [["/nonexistent/tool"]]}), ["runner.local.json", "/nonexistent/tool"]),
        (json!({"verify": {"by_role": {"qa": [["make", "REPLACE_ME"]]}}}), ["runner.local.json", "REPLACE_ME"]),
        (json!({"verify": ["make test"]}), ["key `verify`", "list of commands"]),
    ] {
        let project = Project::new();
        project.config(&patch);
        project.refuses(&[], &words);
    }
    let project = Project::builder().stage("S00", 1).card("S00-001", json!({"verify": [["no-such-program"]]})).build();
    project.refuses(&[], &["planning/tasks/S00-001.json", "no-such-program"]);
    assert_says(&project.run(&["--dry-run"]).json()["configuration_error"].to_string(), &["no-such-program"]);
}

#[test]
fn the_same_command_for_work_and_review_is_refused_by_both_roles_where_it_may_not_be() {
    let project = Project::builder().stage("S00", 1).config(json!({"reviewer_differs": true})).build();
    project.refuses(&[], &["S00-001", "backend", "qa", "reviewer_differs"]);
    let argv = serde_json::from_str::<Value>(&project.read("runner.local.json")).unwrap()["argv"].clone();
    let other: Vec<Value> = argv.as_array().unwrap().iter().cloned().chain([json!("critic")]).collect();
    project.config(&json!({"commands_by_role": {"qa": other}}));
    project.run(&[]).complete();
}

#[test]
fn in_a_work_tree_of_its_own_the_work_is_verified_and_put_back_there() {
    let deed = format!(
        "{NO_BAD}; test ! -e src/S00-001/out.txt || {{ echo mine >src/S00-001/out.txt; echo x >>README.md; echo x >stray; }}"
    );
    let project = verified(&[&deed]);
    project.config(&json!({"workspace": {"mode": "worktree"}}));
    project.agent_on(&[(
        "*/claim",
        "if seen first; then write src/S00-001/out.txt good; submit; else write src/S00-001/out.txt bad; submit; fi",
    )]);
    project.run(&[]).complete();
    assert_eq!(project.steps(), ["S00-001/claim", "S00-001/claim", "S00-001/review"]);
    assert_eq!(project.at_head("src/S00-001/out.txt"), "good");
    assert!(!project.git(&["ls-tree", "-r", "HEAD"]).contains("stray"));
    assert_says(&record(&project, 1)["verification"]["changed"].to_string(), &["README.md", "stray"]);
    project.assert_clean();
}

#[test]
fn verification_that_always_fails_waits_for_a_person_like_any_other_rejection() {
    let project = verified(&[NO_BAD]);
    project.agent_on(&[("*/claim", "write \"src/S00-001/$RUNNER_AGENT_ID\" bad; submit")]);
    assert_eq!(project.run(&[]).stopped(3, "needs_input")["launched"], 3);
    assert_says(&project.waits("S00-001"), &["was rejected 3 times in a row", "verification failed"]);
}

#[test]
fn without_git_every_failure_counts_and_the_sessions_work_is_put_back() {
    let project = Project::builder().stage("S00", 1).config(json!({"verify": [sh(NO_BAD)]})).without_git().build();
    project.agent_on(&[(
        "*/claim",
        "if seen first; then write src/S00-001/out.txt good; submit; else write src/S00-001/out.txt bad; submit; fi",
    )]);
    project.run(&[]).complete();
    assert_eq!(project.steps(), ["S00-001/claim", "S00-001/claim", "S00-001/review"]);
}
