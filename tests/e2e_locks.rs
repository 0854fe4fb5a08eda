//! One coordinator at a time: the kernel holds the lock, nothing on disk can free it or keep it.

mod support;

use serde_json::Value;
use support::{Gate, Project, Running, Signal, assert_same, assert_says};

/// A project whose only executor runs until the gate is opened.
fn held(before: &str) -> (Project, Running, Gate) {
    let project = Project::new();
    let (run, go) = project.spawn_held("go", &[], &[("*/claim", &format!("{before}\ntell working; hold go; honest"))]);
    (project, run, go)
}

#[test]
fn a_second_start_is_told_who_runs_and_to_try_later() {
    let (project, run, go) = held("");
    let before = project.listing();
    let second = project.run(&[]);
    let result = second.stopped(75, "busy");
    assert_says(&result.to_string(), &[&run.pid().to_string()]);
    assert_same(&before, &project.listing());
    go.open();
    run.wait().complete();
}

#[test]
fn the_lock_file_tells_who_runs() {
    let (project, run, go) = held("");
    assert_says(&project.read(".runner.lock"), &[&run.pid().to_string()]);
    go.open();
    run.wait().complete();
}

#[test]
fn a_dry_run_and_reading_verbs_work_while_another_runs() {
    let (project, run, go) = held("");
    let before = project.listing();
    let dry = project.run(&["--dry-run"]);
    assert_eq!(dry.code, Some(0), "{dry}");
    for verb in ["list", "next"] {
        let finished = project.run(&["task", verb]);
        assert_eq!(finished.code, Some(0), "{finished}");
    }
    assert_same(&before, &project.listing());
    go.open();
    run.wait().complete();
}

#[test]
fn sweeping_the_tree_inside_a_session_frees_no_lock() {
    let (project, run, go) = held("git clean -fdxq");
    let second = project.run(&["task", "list"]);
    assert_eq!(second.code, Some(0), "{second}");
    // The configuration was swept away with the rest: hand the second start one of its own.
    let config = project.write_outside("second.json", "{\"argv\": [\"/bin/sh\", \"-c\", \"exit 0\"]}");
    let second = project.run(&["--config", &config]);
    second.stopped(75, "busy");
    go.open();
    let finished = run.wait();
    finished.json();
    assert!(project.exists("runner.local.json"), "what the session swept away is put back");
}

#[test]
fn removing_the_lock_file_inside_a_session_changes_nothing() {
    let (project, run, go) = held("rm -rf .runner.lock");
    project.run(&[]).stopped(75, "busy");
    go.open();
    run.wait().complete();
    project.assert_clean();
}

#[test]
fn removing_what_the_coordinator_keeps_under_git_frees_no_lock() {
    let (project, run, go) = held("find .git/runner -type f -name '*lock*' -delete 2>/dev/null || :");
    let second = project.run(&[]);
    let finished_alone = second.code == Some(75);
    go.open();
    let first = run.wait();
    assert!(finished_alone, "two coordinators ran at once: {second}\n{first}");
}

#[test]
fn a_foreign_file_in_the_lock_files_place_costs_no_result() {
    let (project, run, go) = held("rm -f .runner.lock; mkdir .runner.lock; echo x >.runner.lock/note");
    go.open();
    let finished = run.wait();
    let result = finished.json();
    assert!(result["stop"].is_string(), "{finished}");
    assert_eq!(project.status_of("S00-001"), "done", "{finished}");
}

#[test]
fn a_stale_lock_file_stops_nobody() {
    let project = Project::new();
    project.write(".runner.lock", "{\"pid\": 1, \"host\": \"elsewhere\", \"since\": \"2026-01-01T00:00:00Z\"}\n");
    project.run(&[]).complete();
}

#[test]
fn a_folder_in_the_lock_files_place_is_the_original_coordinator() {
    let project = Project::new();
    project.write(".runner.lock/owner.json", "{\"pid\": 1, \"at\": \"2026-01-01T00:00:00Z\"}\n");
    let before = project.public_listing();
    let finished = project.run(&[]);
    assert!(matches!(finished.code, Some(2 | 75)), "{finished}");
    assert_says(&format!("{finished}"), &[".runner.lock"]);
    assert_same(&before, &project.public_listing());
    assert!(project.steps().is_empty());
}

#[test]
fn a_killed_coordinator_leaves_no_lock() {
    let (project, run, _go) = held("if seen first; then honest; exit; fi");
    run.signal(Signal::KILL);
    let killed = run.wait();
    assert_eq!(killed.signal, Some(9), "{killed}");
    project.run(&[]).complete();
}

#[test]
fn an_agent_that_takes_over_the_lock_file_cannot_pass_for_the_coordinator() {
    let (project, run, go) = held("echo '{\"pid\": 1}' >.runner.lock");
    project.run(&[]).stopped(75, "busy");
    go.open();
    run.wait().complete();
}

#[test]
fn ending_a_session_at_its_transition_never_leaves_a_lock_behind() {
    // No grace at all: each session is ended in the instant its transition is seen, while its verb may still be at work.
    let project = Project::tasks(6);
    project.config(&serde_json::json!({"exit_grace_seconds": 0, "kill_grace_seconds": 0}));
    let _hold = project.gate("hold");
    project.agent("honest; hold hold");
    project.run(&[]).complete();
    assert_eq!(project.steps().len(), 12);
    let list = project.run(&["task", "list", "--json"]);
    assert_eq!(list.code, Some(0), "{list}");
    let _: Value = list.json();
    project.assert_clean();
}

#[test]
fn a_stale_lock_folder_of_the_originals_state_is_no_lock() {
    let project = Project::builder().stage("S00", 1).ignore(".state.lock/\n").build();
    project.write(".state.lock/owner", "x");
    project.run(&[]).complete();
}

#[test]
fn two_starts_at_once_never_both_run() {
    let project = Project::tasks(3);
    let runs = [project.spawn(&[]), project.spawn(&[])];
    let codes = runs.map(|run| run.wait().code);
    assert!(codes.contains(&Some(0)), "{codes:?}");
    assert!(codes.iter().all(|code| matches!(code, Some(0 | 75))), "{codes:?}");
    assert_eq!(project.steps().len(), 6, "no session ran twice");
    assert_eq!(project.log().len(), 7);
    project.assert_clean();
}
