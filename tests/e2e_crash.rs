//! The coordinator is stopped, by a signal it can handle or by one it cannot: nothing outlives it for long, nothing is
//! lost, and the next start goes on.

mod support;

use serde_json::{Value, json};
use support::{Gate, Listener, Project, Running, Signal, assert_says, has_strace};

/// A run whose executor has written in scope, keeps `agent` open, has a descendant in its own session that keeps
/// `stray` open, and waits. The second session of the task is honest.
struct Midway {
    project: Project,
    run: Running,
    agent: Listener,
    stray: Listener,
    _hold: [Gate; 2],
}

fn midway(deed: &str) -> Midway {
    midway_in(Project::new(), deed)
}

/// The same in that project.
fn midway_in(project: Project, deed: &str) -> Midway {
    let hold = [project.gate("hold"), project.gate("hold-stray")];
    let (mut ready, agent, stray) = (project.listener("working"), project.listener("agent"), project.listener("stray"));
    project.pipe("ready");
    let body = format!(
        "if seen first; then honest; else stray stray ready hold-stray; write src/S00-001/half.txt half; {deed}\n\
         exec 9>\"$PIPES/agent\"; echo up >&9; tell working; hold hold; fi"
    );
    project.agent_on(&[("*/claim", &body)]);
    let run = project.spawn(&[]);
    ready.wait();
    Midway { project, run, agent, stray, _hold: hold }
}

/// Ends a run half way with `signal`, in order, and shows that the next start carries on.
fn interrupted(signal: Signal, number: i32) {
    let Midway { project, run, mut agent, mut stray, _hold } = midway("");
    run.signal(signal);
    let finished = run.wait();
    let result = finished.stopped(128 + number, "interrupted");
    agent.assert_ended();
    stray.assert_ended();
    assert_eq!(result["launched"], 1);
    assert_eq!(result["last_commit"], project.head());
    assert_eq!(project.status_of("S00-001"), "todo", "the task is released");
    assert_eq!(project.trailer("HEAD", "Action"), "interrupt");
    assert_eq!(project.trailer("HEAD", "Task"), "S00-001");
    assert_eq!(project.at_head("src/S00-001/half.txt"), "half", "in-scope work is kept");
    project.assert_clean();
    project.run(&[]).complete();
    assert_eq!(project.steps(), ["S00-001/claim", "S00-001/claim", "S00-001/review"]);
    project.assert_clean();
}

#[test]
fn an_interrupt_ends_the_session_keeps_its_work_and_releases_the_task() {
    interrupted(Signal::INT, 2);
}

#[test]
fn a_termination_ends_the_session_keeps_its_work_and_releases_the_task() {
    interrupted(Signal::TERM, 15);
}

#[test]
fn a_hangup_ends_the_session_keeps_its_work_and_releases_the_task() {
    interrupted(Signal::HUP, 1);
}

#[test]
fn an_interrupted_session_that_left_its_scope_is_a_violation_all_the_same() {
    let Midway { project, run, mut agent, mut stray, _hold } = midway("echo more >>README.md");
    let head = project.head();
    run.signal(Signal::TERM);
    let finished = run.wait();
    let result = finished.stopped(128 + 15, "interrupted");
    agent.assert_ended();
    stray.assert_ended();
    assert_says(&format!("{result}{}", project.told("S00-001")), &["README.md"]);
    assert_eq!(project.head(), head, "no commit is made of a violation");
    assert_eq!(project.read("README.md"), "# Sample\nmore\n", "nothing is discarded");
}

#[test]
fn a_second_signal_kills_at_once() {
    let project = Project::new();
    project.config(&json!({"kill_grace_seconds": 600}));
    let _hold = project.gate("hold");
    let (mut ready, mut agent) = (project.listener("working"), project.listener("agent"));
    project.agent("trap '' TERM INT HUP; exec 9>\"$PIPES/agent\"; echo up >&9; tell working; hold hold");
    let run = project.spawn(&[]);
    ready.wait();
    run.signal(Signal::INT);
    run.signal(Signal::TERM);
    let finished = run.wait();
    assert!(matches!(finished.code, Some(130 | 143)), "{finished}");
    assert_eq!(finished.json()["stop"], "interrupted");
    agent.assert_ended();
}

#[test]
fn an_index_lock_that_a_killed_runs_session_left_does_not_stop_the_next_start() {
    let Midway { project, run, mut agent, mut stray, _hold } = midway(": >.git/index.lock");
    run.kill_with_guardian();
    assert_eq!(run.wait().signal, Some(9));
    project.run(&[]).complete();
    agent.assert_ended();
    stray.assert_ended();
    project.assert_clean();
}

/// A project whose owner's hook does so, with the pipe `hook` to say so on.
fn with_hook(body: &str) -> (Project, Listener) {
    let project = Project::builder().stage("S00", 1).config(json!({"git_hooks": "run"})).build();
    let pipe = project.outside("pipes/hook");
    project.write(".git/hooks/pre-commit", format!("#!/bin/sh\nexec 9>'{}'\necho up >&9\n{body}\n", pipe.display()));
    project.chmod(".git/hooks/pre-commit", 0o755);
    let listener = project.listener("hook");
    (project, listener)
}

/// The next start makes the commit that the hook kept from being made, and nothing else is done twice.
fn carries_on_without_hook(project: &Project, steps: &[&str], commits: usize) {
    project.remove(".git/hooks/pre-commit");
    project.run(&[]).complete();
    assert_eq!(project.steps(), steps);
    assert_eq!(project.log().len(), commits);
    project.assert_clean();
}

#[test]
fn a_signal_ends_the_hook_that_runs_and_its_commit_stays_pending() {
    let (project, mut hook) = with_hook("exec sleep 600");
    let (head, run) = (project.head(), project.spawn(&[]));
    hook.wait();
    run.signal(Signal::INT);
    let result = run.wait().stopped(128 + 2, "interrupted");
    hook.assert_ended();
    assert_says(result["commit_error"].as_str().unwrap_or_default(), &["pre-commit", "SIGINT arrived", "next start"]);
    assert_eq!(project.head(), head);
    assert_eq!(project.status_of("S00-001"), "review", "the submit stands");
    carries_on_without_hook(&project, &["S00-001/claim", "S00-001/review"], 3);
}

#[test]
fn the_second_signal_kills_the_hook_that_runs_at_once() {
    let (project, mut hook) = with_hook("trap '' TERM; while :; do sleep 600; done");
    let mut working = project.listener("working");
    let _hold = project.gate("hold");
    project.agent_on(&[("*/claim", "if seen first; then honest; else work; tell working; hold hold; fi")]);
    let (head, run) = (project.head(), project.spawn(&[]));
    working.wait();
    run.signal(Signal::TERM);
    // The interrupted session's checkpoint.
    hook.wait();
    run.signal(Signal::INT);
    let result = run.wait().stopped(128 + 15, "interrupted");
    hook.assert_ended();
    assert_says(result["commit_error"].as_str().unwrap_or_default(), &["SIGINT arrived"]);
    assert_eq!(project.head(), head);
    carries_on_without_hook(&project, &["S00-001/claim", "S00-001/claim", "S00-001/review"], 4);
}

#[test]
fn a_submit_before_the_interrupt_counts() {
    let project = Project::new();
    let _hold = project.gate("hold");
    let mut ready = project.listener("working");
    project.agent_on(&[("*/claim", "work; submit; tell working; hold hold")]);
    let run = project.spawn(&[]);
    ready.wait();
    run.signal(Signal::TERM);
    run.wait().stopped(128 + 15, "interrupted");
    project.assert_clean();
    project.run(&[]).complete();
    project.assert_clean();
}

#[test]
fn an_interrupt_of_the_last_allowed_session_is_still_an_interrupt() {
    let project = Project::new();
    let (run, _hold) = project.spawn_held(
        "hold",
        &["--max-sessions", "1"],
        &[("*/claim", "if seen first; then honest; else tell working; hold hold; fi")],
    );
    run.signal(Signal::TERM);
    run.wait().stopped(128 + 15, "interrupted");
    project.run(&[]).complete();
}

#[test]
fn an_interrupted_review_leaves_the_task_under_review() {
    let project = Project::new();
    let (run, _hold) = project.spawn_held(
        "hold",
        &[],
        &[("*/review", "if seen review; then approve; else tell working; hold hold; fi")],
    );
    run.signal(Signal::INT);
    run.wait().stopped(130, "interrupted");
    assert_eq!(project.status_of("S00-001"), "review");
    project.run(&[]).complete();
    assert_eq!(
        project.steps(),
        ["S00-001/claim", "S00-001/review", "S00-001/review"],
        "finished work is not done again"
    );
    project.assert_clean();
}

#[test]
fn after_a_kill_the_next_start_ends_leftovers_keeps_the_work_and_goes_on() {
    let Midway { project, run, mut agent, mut stray, _hold } = midway("");
    run.signal(Signal::KILL);
    let killed = run.wait();
    assert_eq!(killed.signal, Some(9), "{killed}");
    let result = project.run(&[]).complete();
    agent.assert_ended();
    stray.assert_ended();
    assert_eq!(project.steps(), ["S00-001/claim", "S00-001/claim", "S00-001/review"]);
    assert_eq!(result["launched"], 2);
    let log = project.log();
    assert_eq!(log.len(), 1 + 1 + 2);
    assert_eq!(project.trailer(&log[2], "Action"), "recover");
    assert_eq!(project.trailer(&log[2], "Task"), "S00-001");
    assert!(project.files_of(&log[2]).contains(&"src/S00-001/half.txt".to_owned()));
    let actions: Vec<Value> = project.events("S00-001").iter().map(|event| event["action"].clone()).collect();
    assert_eq!(actions.first(), Some(&json!("claim")));
    assert_eq!(actions.iter().filter(|action| **action == "claim").count(), 2, "{actions:?}");
    assert!(actions.len() >= 5, "the release is an event of its own: {actions:?}");
    project.assert_clean();
}

/// A descendant that cleared its environment, ignores TERM and keeps `stray` open: nobody but its guardian can find it.
const NAMELESS: &str = "env -i PATH=\"$PATH\" setsid sh -c 'trap \"\" TERM HUP; exec 9>\"$1\"; echo up >&9; echo ready >\"$2\"; read -r answer <\"$3\"' \
    nameless \"$PIPES/stray\" \"$PIPES/ready\" \"$PIPES/hold-stray\" & read -r answer <\"$PIPES/ready\"";

#[test]
fn the_next_start_lets_a_guardian_that_is_still_at_work_end_what_only_it_can_find() {
    let project = Project::new();
    let _hold = [project.gate("hold"), project.gate("hold-stray")];
    let (mut ready, mut stray) = (project.listener("working"), project.listener("stray"));
    project.pipe("ready");
    let body = format!("if seen first; then honest; else {NAMELESS}; tell working; hold hold; fi");
    project.agent_on(&[("*/claim", &body)]);
    let run = project.spawn(&[]);
    ready.wait();
    // It is stopped, so it has done nothing yet when the next start comes, which must tell it to go on and wait for it.
    let _guardian = run.kill_with_stopped_guardian();
    let killed = run.wait();
    assert_eq!(killed.signal, Some(9), "{killed}");
    let agent = project.sessions()[0].agent.clone();
    project.run(&[]).complete();
    stray.assert_ended();
    let record = project.run_json(&agent);
    assert_eq!(record["status"], "recovered");
    assert_eq!(record["teardown"]["destruction"], "succeeded", "{record:#}");
    assert_eq!(project.steps(), ["S00-001/claim", "S00-001/claim", "S00-001/review"]);
    project.assert_clean();
}

#[test]
fn a_dry_run_after_a_kill_says_what_a_start_does_first_and_advises_nothing_that_loses_work() {
    let Midway { project, run, mut agent, mut stray, _hold } = midway_in(Project::tasks(2), "");
    run.kill_with_guardian();
    assert_eq!(run.wait().signal, Some(9));
    let shown = project.run(&["--dry-run"]).json();
    assert_says(shown["recovery"].as_str().unwrap_or_default(), &["S00-001", "in order first"]);
    assert_eq!(shown["next"]["id"], "S00-002", "{shown:#}");
    assert_eq!(shown["preflight_error"], json!(null), "the half-done work is the session's: {shown:#}");
    project.run(&[]).complete();
    agent.assert_ended();
    stray.assert_ended();
    let shown = project.run(&["--dry-run"]).json();
    assert_eq!((&shown["recovery"], &shown["stop"]), (&json!(null), &json!("complete")));
}

#[test]
#[cfg(target_os = "linux")]
fn what_a_start_cannot_end_stops_it_and_stands_in_the_record_until_a_later_start_has_ended_it() {
    if !has_strace() {
        return;
    }
    let Midway { project, run, mut agent, mut stray, _hold } = midway("");
    run.kill_with_guardian();
    assert_eq!(run.wait().signal, Some(9));
    let trace = project.outside("logs/trace").display().to_string();
    let (calls, injection) = ("trace=pidfd_send_signal", "inject=pidfd_send_signal:error=EPERM");
    // The kernel keeps every process from this start.
    let wrapper = ["strace", "-f", "-qq", "-o", &trace, "-e", "signal=none", "-e", calls, "-e", injection];
    let first = &project.sessions()[0].agent.clone();
    for args in [&["-q"][..], &["recover", "--yes"]] {
        let refused = project.spawn_under(&wrapper, args, &[]).wait().refused();
        assert_says(&refused, &["could not be ended", "sh (", "start again"]);
        let record = project.run_json(first);
        assert_eq!((&record["status"], &record["teardown"]["destruction"]), (&json!("running"), &json!("failed")));
        assert_says(&record["teardown"]["faults"].to_string(), &["processes are left: ", "sh ("]);
        assert_eq!(project.row("S00-001")["claim"]["agent"], first.as_str(), "the claim stays");
    }
    assert_eq!(project.steps(), ["S00-001/claim"], "nothing was started beside it");
    project.run(&[]).complete();
    agent.assert_ended();
    stray.assert_ended();
    let record = project.run_json(first);
    assert_eq!((&record["status"], &record["teardown"]["destruction"]), (&json!("recovered"), &json!("succeeded")));
    assert_says(&record["teardown"]["faults"].to_string(), &["processes are left: "]);
    assert_eq!(project.steps(), ["S00-001/claim", "S00-001/claim", "S00-001/review"]);
    project.assert_clean();
}

#[test]
fn a_submit_of_an_orphan_never_enters_another_tasks_commit() {
    let project = Project::tasks(2);
    let (go, mut ready) = (project.gate("go"), project.listener("working"));
    let mut tried = project.listener("tried");
    let body = "if seen first; then honest; else tell working; hold go; work; attempt orphan submit; tell tried; fi";
    project.agent_on(&[("S00-001/claim", body)]);
    let run = project.spawn(&[]);
    ready.wait();
    run.kill_with_guardian();
    let killed = run.wait();
    assert_eq!(killed.signal, Some(9), "{killed}");
    // The orphan finishes while nobody coordinates.
    go.open();
    tried.wait();
    project.run(&[]).complete();
    for commit in project.log() {
        let task = project.trailer(&commit, "Task");
        for file in
            project.files_of(&commit).iter().filter(|_| !task.is_empty()).filter(|file| file.starts_with("src/"))
        {
            assert!(file.starts_with(&format!("src/{task}/")), "{file} is in a commit of {task}");
        }
    }
    project.assert_clean();
}

#[test]
fn after_a_kill_leftovers_that_cannot_be_attributed_stop_the_start_with_their_list() {
    let Midway { project, run, mut agent, mut stray, _hold } = midway("echo more >>README.md; write lib/new.txt x");
    run.signal(Signal::KILL);
    let killed = run.wait();
    assert_eq!(killed.signal, Some(9), "{killed}");
    let finished = project.run(&[]);
    assert_eq!(finished.code, Some(2), "{finished}");
    assert_says(&format!("{finished}"), &["README.md", "lib/new.txt", "runner recover"]);
    agent.assert_ended();
    stray.assert_ended();
    assert_eq!(project.read("README.md"), "# Sample\nmore\n", "nothing is discarded");
    // When a person has put it in order, the night goes on.
    project.git(&["checkout", "-q", "README.md"]);
    project.remove("lib/new.txt");
    project.run(&[]).complete();
    project.assert_clean();
}

#[test]
fn a_kill_in_every_session_still_ends_in_a_finished_plan() {
    let project = Project::tasks(2);
    let _hold = project.gate("hold");
    let mut ready = project.listener("working");
    project.agent("if seen \"$RUNNER_TASK_ID-$RUNNER_ACTION\"; then honest; else tell working; hold hold; fi");
    for _ in 0..4 {
        let run = project.spawn(&[]);
        ready.wait();
        run.signal(Signal::KILL);
        let killed = run.wait();
        assert_eq!(killed.signal, Some(9), "{killed}");
    }
    project.run(&[]).complete();
    assert_eq!(project.steps().len(), 8);
    project.assert_clean();
}

#[test]
fn an_interrupt_between_sessions_leaves_nothing_half_done() {
    let project = Project::tasks(3);
    let mut ready = project.listener("working");
    let go = project.gate("go");
    // The signal comes while the session is over but for its last breath.
    project.agent_on(&[("S00-002/review", "approve; tell working; hold go")]);
    let run = project.spawn(&[]);
    ready.wait();
    run.signal(Signal::INT);
    go.open();
    run.wait().stopped(130, "interrupted");
    assert_eq!(project.status_of("S00-002"), "done");
    project.assert_clean();
    project.run(&[]).complete();
    project.assert_clean();
}

/// Kills a run whose session has done `deed`, and shows that no start believes it before `runner recover` has set it aside.
#[track_caller]
fn disbelieved(deed: &str, named: &str) -> Project {
    let Midway { project, run, mut agent, mut stray, _hold } = midway(deed);
    run.signal(Signal::KILL);
    assert_eq!(run.wait().signal, Some(9));
    for _ in 0..2 {
        let finished = project.run(&[]);
        assert_says(&finished.refused(), &[named, "runner recover"]);
    }
    agent.assert_ended();
    stray.assert_ended();
    let recovered = project.run(&["recover", "--yes"]);
    assert_eq!(recovered.code, Some(0), "{recovered}");
    assert_says(&recovered.stdout, &[named]);
    project.run(&[]).stopped(3, "needs_input");
    project.waits("S00-001");
    project.assert_clean();
    project
}

#[test]
fn a_killed_runs_hand_edited_row_of_another_task_is_not_believed() {
    let project = disbelieved(
        "sed -e 's/S00-001/S00-002/g' -e 's/in_progress/done/' state/tasks/S00/S00-001.json >state/tasks/S00/S00-002.json; \
         cp planning/tasks/S00-001.json \"$NOTES/card\"; sed 's/S00-001/S00-002/g' \"$NOTES/card\" >planning/tasks/S00-002.json",
        "S00-002",
    );
    assert!(!project.exists("planning/tasks/S00-002.json"));
}

#[test]
fn a_killed_runs_hand_edited_own_row_is_not_believed() {
    disbelieved("sed -i 's/\"in_progress\"/\"done\"/' state/tasks/S00/S00-001.json", "state/tasks/S00/S00-001.json");
}

#[test]
fn a_killed_runs_submit_is_void_when_its_strays_are_set_aside() {
    let project = disbelieved("echo more >>README.md; submit", "README.md");
    assert_eq!(project.read("README.md"), "# Sample\n");
    assert_eq!(project.row("S00-001")["blocked_from"], "todo", "the submit does not count");
}
