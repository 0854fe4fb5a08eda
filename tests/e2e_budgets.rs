//! Budgets of tasks and runs: what is counted, that nothing is forgotten, and that the unknown is said.

mod support;

use serde_json::{Value, json};
use support::{Finished, Project, assert_same, assert_says};

const CODEX: &str = r#"{"type":"turn.completed","usage":{"input_tokens":37035,"cached_input_tokens":7035,"output_tokens":2034,"reasoning_output_tokens":270}}"#;
const CLAUDE: &str = r#"{"type":"result","subtype":"success","is_error":false,"result":"Done.","total_cost_usd":0.1437255,"usage":{"input_tokens":37035,"output_tokens":2034},"modelUsage":{}}"#;

/// A project whose honest agents print this line and take a little more than a second, if so.
fn project(tasks: usize, (dialect, line): (&str, &str), is_slow: bool) -> Project {
    let project = Project::tasks(tasks);
    project.config(&json!({"dialect": dialect}));
    let slow = if is_slow { "sleep 1.1; " } else { "" };
    project.agent(&format!("{slow}printf '%s\\n' '{line}'; honest"));
    project
}

/// Each figure that can be bounded: its key, a bound that one session reaches, who prints what, and the figures in words.
const FIGURES: [(&str, &str, (&str, &str), &str); 4] = [
    ("sessions", "1", ("codex", CODEX), "sessions 1 of 1"),
    ("wall_seconds", "1", ("codex", CODEX), "wall time 1 s of 1 s"),
    ("tokens", "30000", ("codex", CODEX), "tokens 39069 of 30000"),
    ("cost", "0.14", ("claude", CLAUDE), "cost 0.143726 of 0.14 dollars"),
];

fn budget(of: &str, key: &str, bound: &str) -> Value {
    let bound: Value = serde_json::from_str(bound).expect("a number");
    json!({"budget": {of: {key: bound}}})
}

fn reason(finished: &Finished, code: i32, stop: &str) -> String {
    finished.stopped(code, stop)["reason"].as_str().expect("a reason").to_owned()
}

#[test]
fn a_task_that_used_its_budget_up_waits_for_a_person_with_the_figures_and_an_answer_gives_it_anew() {
    for (key, bound, agent, words) in FIGURES {
        let project = project(1, agent, key == "wall_seconds");
        project.config(&budget("task", key, bound));
        let result = project.run(&[]).stopped(3, "needs_input");
        assert_eq!(result["launched"], 1, "{key}: checked before the review is claimed");
        let told = result["external_blockers"]["S00-001"].as_str().expect("it waits").to_owned();
        assert!(told.starts_with(&format!("budget: {words};")), "{key}: {told}");
        assert_eq!(project.row("S00-001")["blocked_from"], "review", "{key}");
        project.assert_clean();
        assert_eq!(project.run(&["task", "answer", "S00-001", "--text", "Once more."]).code, Some(0));
        project.run(&[]).complete();
    }
}

#[test]
fn a_dry_run_names_the_tasks_that_would_wait_and_the_budget_and_goes_on_to_the_next() {
    for (patch, words) in [
        (json!({"budget": {"task": {"tokens": 30000}}}), "budget: tokens 39069 of 30000;"),
        (json!({"max_task_sessions": 1}), "used up its 1 sessions (`max_task_sessions`)"),
    ] {
        let project = project(2, ("codex", CODEX), false);
        project.config(&patch);
        project.run(&["--max-sessions", "1"]).stopped(0, "session_limit");
        let before = project.listing();
        let shown = project.run(&["--dry-run"]).json();
        assert_same(&before, &project.listing());
        assert_eq!((&shown["next"]["id"], &shown["next"]["action"]), (&json!("S00-002"), &json!("claim")), "{shown:#}");
        let reason = shown["set_aside"]["S00-001"].as_str().expect("a reason").to_owned();
        assert!(reason.starts_with(words), "{reason}");
        assert_eq!(shown["set_aside"].as_object().map(serde_json::Map::len), Some(1));
        let result = project.run(&["--max-sessions", "1"]).stopped(0, "session_limit");
        assert_eq!(project.steps(), ["S00-001/claim", "S00-002/claim"], "the run does what was said");
        assert_eq!(result["external_blockers"]["S00-001"], reason.as_str());
        let before = project.listing();
        let finished = project.run(&["--dry-run"]);
        let shown = finished.stopped(3, "needs_input");
        assert_same(&before, &project.listing());
        assert!(shown["set_aside"]["S00-002"].as_str().is_some_and(|reason| reason.starts_with(words)), "{shown:#}");
        assert_eq!(shown["external_blockers"]["S00-002"], shown["set_aside"]["S00-002"]);
        assert_eq!(shown["revision"], result["revision"], "nothing happened");
        project.run(&[]).stopped(3, "needs_input");
    }
}

#[test]
fn a_run_that_used_its_budget_up_stops_with_the_figures_and_the_next_has_its_own() {
    for (key, bound, agent, words) in FIGURES {
        let project = project(1, agent, key == "wall_seconds");
        project.config(&budget("run", key, bound));
        let finished = project.run(&[]);
        let reason = reason(&finished, 4, "budget");
        assert_eq!(reason, format!("the budget of the run is used up: {words}"), "{key}");
        assert_says(&finished.stderr, &[&format!("budget: {reason} (1 session)")]);
        let used = &finished.json()["used"];
        assert_eq!((&used["sessions"], &used["begun"]), (&json!(1), &json!(1)), "{key}");
        assert_eq!(project.status_of("S00-001"), "review", "{key}: no task pays for it");
        // Nothing is left to begin, so nothing stops it.
        project.run(&[]).complete();
    }
}

#[test]
fn one_task_without_a_budget_left_does_not_stop_the_others() {
    let project = project(2, ("codex", CODEX), false);
    project.config(&budget("task", "tokens", "39069"));
    let result = project.run(&[]).stopped(3, "needs_input");
    assert_eq!(project.steps(), ["S00-001/claim", "S00-002/claim"]);
    assert_eq!(result["external_blockers"].as_object().map(serde_json::Map::len), Some(2));
}

#[test]
fn a_kill_and_a_start_later_what_a_task_used_is_still_known_and_the_killed_session_is_said_to_be_unknown() {
    let project = Project::new();
    project.config(&json!({"dialect": "codex", "budget": {"task": {"tokens": 70000}}}));
    let uses = format!("printf '%s\\n' '{CODEX}'");
    let review = format!("seen kill || {{ tell working; hold go; }}; {uses}; reject 'Not yet.'");
    let (run, _gate) = project.spawn_held("go", &[], &[("*/claim", &format!("{uses}; honest")), ("*/review", &review)]);
    run.kill_with_guardian();
    drop(run);
    let finished = project.run(&[]);
    finished.stopped(3, "needs_input");
    assert_eq!(project.steps(), ["S00-001/claim", "S00-001/review", "S00-001/review"]);
    assert_says(&project.waits("S00-001"), &["budget: tokens 78138 of 70000 (1 of 3 sessions unknown);"]);
    let records = project.records();
    let last = records.iter().find(|record| record["result"]["verdict"] == "stands" && record["action"] == "review");
    let before = &last.expect("the second review")["spent_before"];
    assert_eq!((&before["task"]["tokens"]["value"], &before["task"]["begun"]), (&json!(39069), &json!(2)));
    assert_eq!((&before["run"]["begun"], &before["task"]["unknown"]["tokens"]), (&json!(0), &json!(1)));
}

#[test]
fn what_was_counted_is_on_disk_before_the_process_is() {
    let project = project(1, ("codex", CODEX), false);
    project.config(&budget("run", "tokens", "1000000"));
    project.run(&["--max-sessions", "1"]).stopped(0, "session_limit");
    let (run, go) = project.spawn_held("go", &[], &[("*/review", "tell working; hold go; honest")]);
    let agent = project.sessions().last().expect("a session").agent.clone();
    let record = project.run_json(&agent);
    assert_eq!(record["status"], "running");
    assert_eq!(record["spent_before"]["task"]["tokens"], json!({"value": 39069, "known": true, "complete": true}));
    assert_eq!(record["spent_before"]["run"]["begun"], 0);
    go.open();
    run.wait().complete();
}

#[test]
fn an_unknown_figure_is_never_zero_and_never_silent() {
    let project = project(1, ("codex", CODEX), false);
    project.config(&json!({"budget": {"task": {"cost": 0.000_001}, "run": {"cost": 1}}}));
    let finished = project.run(&[]);
    let used = &finished.complete()["used"];
    assert_eq!(used["cost"], json!({"micro_dollars": 0, "known": true, "complete": false}), "codex states no cost");
    assert_eq!((&used["unknown"]["cost"], &used["unknown"]["tokens"]), (&json!(2), &json!(0)));
    assert_eq!(finished.stderr.matches("did not state all that a budget counts").count(), 1, "{finished}");
}

#[test]
fn records_that_count_are_kept_and_one_that_is_gone_is_unknown() {
    let project = project(1, ("codex", CODEX), false);
    project.config(&json!({"budget": {"task": {"tokens": 39070, "sessions": 5}}, "retention": {"runs": 1}}));
    project.run(&["--max-sessions", "1"]).stopped(0, "session_limit");
    project.agent(&format!("printf '%s\\n' '{CODEX}'; reject 'Not yet.'"));
    project.run(&[]).stopped(3, "needs_input");
    assert_says(&project.waits("S00-001"), &["budget: tokens 78138 of 39070;"]);
    assert_eq!(project.records().len(), 2, "one more than is kept otherwise");

    let project = self::project(1, ("codex", CODEX), false);
    project.config(&json!({"budget": {"task": {"tokens": 100, "sessions": 1}}}));
    project.run(&["--max-sessions", "1"]).stopped(0, "session_limit");
    project.remove_folder("state/runs");
    project.run(&[]).stopped(3, "needs_input");
    // Without its record the session's tokens stop nothing; that it was one is in the row.
    assert_says(&project.waits("S00-001"), &["budget: sessions 1 of 1;"]);
}
