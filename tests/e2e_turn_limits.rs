//! What bounds the further processes of a session.

mod support;

use serde_json::{Value, json};
use support::{Project, assert_says};

const CODEX: &str = r#"{"type":"turn.completed","usage":{"input_tokens":37035,"cached_input_tokens":7035,"output_tokens":2034,"reasoning_output_tokens":270}}"#;

/// A remediation's work lies in the scope of its origin.
const FIX: (&str, &str) = ("S00-001-r1/claim", "write src/S00-001/fix.txt fixed; submit");

/// A project with the default number of further processes, whose executor does `first` in its first process and `then` in each
/// later one; everybody else is honest.
fn project(config: &Value, first: &str, then: &str) -> Project {
    let project = Project::new();
    project.config(&json!({"follow_up_turns": null}));
    project.config(config);
    project.agent_on(&[("S00-001/claim", &format!("if seen left; then {then}; else {first}; fi"))]);
    project
}

/// The same, whose agents state what they used.
fn counted(budget: &Value, first: &str, then: &str) -> Project {
    let config = json!({"dialect": "codex", "budget": budget});
    let states = |deed: &str| format!("printf '%s\\n' '{CODEX}'; {deed}");
    project(&config, &states(first), &states(then))
}

/// The record of an agent's session by its number.
fn record(project: &Project, agent: &str, number: u32) -> Value {
    let name = format!("state/runs/{agent}/{number}/run.json");
    serde_json::from_str(&project.read(&name)).expect("a record is JSON")
}

fn actions(project: &Project) -> Vec<String> {
    project.events("S00-001").iter().map(|event| event["action"].as_str().unwrap_or_default().to_owned()).collect()
}

/// Fails unless the first process was the only one of the task, and says why on record and to whoever watches.
#[track_caller]
fn assert_alone(project: &Project, stderr: &str, why: &str) {
    let steps = project.steps();
    assert_eq!(steps.iter().filter(|step| *step == "S00-001/claim").count(), 1, "{steps:?}");
    assert_eq!(actions(project)[..2], ["claim", "escalate"]);
    let why = format!("no further process was started: {why}");
    assert_says(stderr, &[&why]);
    assert_eq!(record(project, &project.sessions()[0].agent, 1)["findings"], json!([why]));
}

#[test]
fn a_first_process_that_used_the_runs_budget_up_is_followed_by_none_and_the_stop_says_so() {
    let project = counted(&json!({"run": {"tokens": 39069}}), "work", "submit");
    let finished = project.run(&[]);
    let used_up = "the budget of the run is used up: tokens 39069 of 39069";
    assert_eq!(finished.stopped(4, "budget")["reason"], used_up);
    assert_alone(&project, &finished.stderr, used_up);
    project.assert_clean();
}

#[test]
fn a_first_process_that_used_the_tasks_budget_up_is_followed_by_none_and_the_task_is_not_tried_again() {
    let project = counted(&json!({"task": {"tokens": 39069}}), "work", "submit");
    let uses = format!("printf '%s\\n' '{CODEX}'");
    project.agent_on(&[("S00-001/claim", &format!("{uses}; work")), FIX]);
    let finished = project.run(&[]);
    finished.stopped(3, "needs_input");
    let figures = "tokens 39069 of 39069";
    assert_alone(&project, &finished.stderr, &format!("the budget of the task is used up: {figures}"));
    assert_eq!(project.steps(), ["S00-001/claim", "S00-001-r1/claim", "S00-001-r1/review"]);
    assert_says(&project.waits("S00-001"), &[&format!("budget: {figures};")]);
}

#[test]
fn a_budget_with_room_left_is_shared_by_all_processes_of_a_session_and_counts_each_once() {
    let room = json!({"task": {"tokens": 39070, "sessions": 9}, "run": {"tokens": 1_000_000}});
    let project = counted(&room, "work", "submit");
    let result = project.run(&[]).stopped(3, "needs_input");
    assert_eq!(actions(&project)[..3], ["claim", "follow_up", "submit"]);
    assert_says(&project.waits("S00-001"), &["budget: tokens 78138 of 39070;"]);
    assert_eq!((&result["launched"], &result["used"]["begun"]), (&json!(2), &json!(2)));
    assert_eq!(result["used"]["tokens"], json!({"value": 78138, "known": true, "complete": true}));
    let agent = &project.sessions()[0].agent;
    let before = &record(&project, agent, 2)["spent_before"];
    for of in ["task", "run"] {
        let used = &before[of];
        assert_eq!((&used["sessions"], &used["begun"]), (&json!(1), &json!(1)), "{of}: the first process");
        assert_eq!(used["tokens"], json!({"value": 39069, "known": true, "complete": true}), "{of}");
        assert_eq!(used["unknown"]["tokens"], 0, "{of}");
    }
    assert_eq!(record(&project, agent, 1)["spent_before"]["task"]["begun"], 0);
}

#[test]
fn a_limit_on_sessions_that_leaves_room_for_no_further_process_is_named() {
    for (config, why) in [
        (json!({"max_task_sessions": 1}), "the task used up its sessions (`max_task_sessions` is 1)"),
        (json!({"max_sessions": 1}), "the run used up its sessions (`max_sessions` is 1)"),
        (json!({"budget": {"task": {"sessions": 1}}}), "the budget of the task is used up: sessions 1 of 1"),
        (json!({"budget": {"run": {"sessions": 1}}}), "the budget of the run is used up: sessions 1 of 1"),
    ] {
        let project = project(&config, "work", "submit");
        project.agent_on(&[("S00-001/claim", "work"), FIX]);
        let finished = project.run(&[]);
        assert_alone(&project, &finished.stderr, why);
    }
}
