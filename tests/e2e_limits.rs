//! Services that do not serve: usage limits, failures that pass, refused logins. None of them burns what a task has.

mod support;

use serde_json::{Value, json};
use support::{Listener, Project, Signal, assert_says};

/// What codex prints at a limit that ends then.
fn limit(when: &str) -> String {
    let message = format!("You’ve hit your usage limit. Upgrade to Pro or try again {when}.");
    says(&json!({"type": "turn.failed", "error": {"message": message}}))
}

/// What codex prints as it fails so.
fn fails(message: &str) -> String {
    says(&json!({"type": "turn.failed", "error": {"message": message}}))
}

const BUSY: &str = "We’re currently experiencing high demand, which may cause temporary errors.";
const REFUSED: &str = "unexpected status 401 Unauthorized: Incorrect API key provided: test-key.";

fn says(line: &Value) -> String {
    format!("printf '%s\\n' '{}'", line.to_string().replace('\'', r"'\''"))
}

/// A project whose agents print what codex does.
fn project(tasks: usize) -> Project {
    let project = Project::tasks(tasks);
    project.config(&json!({"dialect": "codex"}));
    project
}

fn actions(project: &Project, task: &str) -> Vec<String> {
    let name = |event: &Value| event["action"].as_str().expect("an action").to_owned();
    project.events(task).iter().map(name).collect()
}

fn events_to(project: &Project, name: &str) -> (Listener, String) {
    let listener = project.listener(name);
    (listener, project.outside(&format!("pipes/{name}")).display().to_string())
}

#[test]
fn a_limit_stops_the_run_with_its_end_keeps_the_work_and_spends_no_attempt() {
    let project = project(1);
    // One session more than these, and the review could not begin.
    project.config(&json!({"max_task_sessions": 2}));
    project.agent(&format!("seen limit && {{ honest; exit; }}; work; {}; exit 1", limit("in 3h 12m")));
    let result = project.run(&[]).stopped(75, "limited");
    assert_eq!(result["retry_at"], project.records()[0]["agent_fault"]["retry_at"], "{result:#}");
    assert!(result["retry_at"].as_str().is_some_and(|at| at.ends_with('Z')), "{result:#}");
    assert_says(result["reason"].as_str().expect("a reason"), &["at its limit", "hit your usage limit"]);
    assert_eq!((&result["used"]["sessions"], &result["used"]["begun"]), (&json!(0), &json!(1)));
    let row = project.row("S00-001");
    assert_eq!((&row["status"], &row["attempts"], &row["claim"]), (&json!("todo"), &json!(0), &Value::Null));
    assert_eq!(actions(&project, "S00-001"), ["claim", "limit"]);
    assert_eq!(project.trailer("HEAD", "Action"), "limit");
    assert_eq!(project.at_head("src/S00-001/out.txt"), "work of S00-001");
    project.assert_clean();
    let record = &project.records()[0];
    assert_eq!((&record["result"]["verdict"], &record["failed_stage"]), (&json!("limited"), &json!("execution")));
    project.run(&[]).complete();
    assert_eq!(project.row("S00-001")["attempts"], 1);
}

#[test]
fn a_reviewers_limit_leaves_the_review_to_be_done_and_no_end_is_made_up() {
    let project = project(1);
    project.config(&json!({"dialect": "claude", "max_task_sessions": 2}));
    let text = "API Error: Request rejected (429) · This request would exceed your account's rate limit.";
    let end =
        json!({"type": "result", "subtype": "success", "is_error": true, "api_error_status": 429, "result": text});
    let body = format!("seen limit || {{ {}; exit 1; }}; approve", says(&end));
    project.agent_on(&[("S00-001/review", &body)]);
    let result = project.run(&[]).stopped(75, "limited");
    assert_eq!((&result["launched"], result.get("retry_at")), (&json!(2), None));
    let row = project.row("S00-001");
    assert_eq!((&row["status"], &row["attempts"], &row["reviewer"]), (&json!("review"), &json!(1), &Value::Null));
    assert_eq!(actions(&project, "S00-001"), ["claim", "submit", "review", "limit"]);
    project.run(&[]).complete();
}

#[test]
fn a_run_that_is_to_wait_goes_on_by_itself_when_the_limit_is_over() {
    let project = project(1);
    project.config(&json!({"on_limit": "wait", "max_task_sessions": 2}));
    project.agent(&format!("seen limit && {{ honest; exit; }}; {}; exit 1", limit("in 1s")));
    let events = project.outside("events.jsonl").display().to_string();
    let finished = project.run(&["--events", &events]);
    assert_eq!(finished.complete()["launched"], 3);
    assert_says(&finished.stderr, &["limited: the agent's service is at its limit", "nothing is started before 20"]);
    let bytes = runner::fs::read(&project.outside("events.jsonl")).expect("the stream is there");
    let stream = String::from_utf8(bytes).expect("JSON is UTF-8");
    let waiting: Vec<&str> = stream.lines().filter(|line| line.contains(r#""event":"waiting""#)).collect();
    let [waiting] = waiting[..] else { panic!("one wait, not {waiting:?}") };
    let waiting: Value = serde_json::from_str(waiting).expect("a line is JSON");
    assert!(waiting["until"].as_str().is_some_and(|until| until.ends_with('Z')), "{waiting}");
    assert_eq!(waiting["seconds"], 1, "{waiting}");
    assert_eq!(actions(&project, "S00-001"), ["claim", "limit", "claim", "submit", "review", "approve"]);
    assert_eq!(project.row("S00-001")["attempts"], 1);
}

#[test]
fn a_signal_ends_the_wait_at_once() {
    let project = project(1);
    project.config(&json!({"on_limit": "wait"}));
    project.agent(&format!("{}; exit 1", limit("in 5h")));
    let (mut events, pipe) = events_to(&project, "events");
    let run = project.spawn(&["--events", &pipe]);
    events.wait_for(r#""event":"waiting""#);
    run.signal(Signal::INT);
    // Five hours are longer than the test waits.
    let result = run.wait().stopped(130, "interrupted");
    assert_eq!((&result["launched"], &result["signal"]), (&json!(1), &json!(2)));
    assert_eq!((project.status_of("S00-001").as_str(), actions(&project, "S00-001").len()), ("todo", 2));
    project.assert_clean();
}

#[test]
fn a_limit_that_ends_later_than_a_run_may_wait_stops_it() {
    let project = project(1);
    project.config(&json!({"on_limit": {"action": "wait", "max_wait_seconds": 3600}}));
    project.agent(&format!("{}; exit 1", limit("in 3h")));
    let result = project.run(&[]).stopped(75, "limited");
    assert_eq!(result["launched"], 1);
    assert!(result["retry_at"].is_string(), "{result:#}");
}

#[test]
fn a_limit_after_a_transition_changes_nothing_of_it_and_stops_before_the_next_claim() {
    let project = project(1);
    project.agent(&format!("honest; {}; exit 1", limit("in 3h")));
    assert_eq!(project.run(&[]).stopped(75, "limited")["launched"], 1);
    assert_eq!(actions(&project, "S00-001"), ["claim", "submit"]);
    assert_eq!(project.records()[0]["result"]["verdict"], "stands");
    // After the last transition there is nothing to stop.
    project.run(&[]).complete();
}

#[test]
fn a_refused_login_waits_for_a_person_and_is_not_tried_with_other_tasks() {
    let project = project(2);
    project.agent(&format!("seen login && {{ honest; exit; }}; {}; exit 1", fails(REFUSED)));
    let result = project.run(&[]).stopped(3, "needs_input");
    assert_eq!(result["launched"], 1, "the other task would have met the same");
    assert_says(&project.waits("S00-001"), &["does not let it in", "401 Unauthorized"]);
    let waits = result["waiting"]["S00-002"].as_str().expect("it says what for");
    assert_says(waits, &["waits for S00-001", "the same command is refused"]);
    assert!(!project.exists("planning/tasks/S00-001-r1.json"), "no task could remedy it");
    assert_eq!(project.records()[0]["failed_stage"], "execution");
    project.assert_clean();
    assert_eq!(project.run(&["task", "answer", "S00-001", "--text", "Logged in."]).code, Some(0));
    project.run(&[]).complete();
}

#[test]
fn an_answer_during_the_run_lets_the_refused_command_try_again() {
    let project = project(2);
    let gate = project.gate("go");
    let mut working = project.listener("working");
    let script =
        project.write_outside("refused.sh", &format!("test -e \"$1\" || {{ {}; exit 1; }}\n. \"$2\"", fails(REFUSED)));
    project.agent_on(&[("S00-002/claim", "tell working; hold go; honest")]);
    let login = project.outside("login").display().to_string();
    let agent = project.outside("agent.sh").display().to_string();
    // Only reviews are refused.
    project.config(&json!({"commands_by_role": {"qa": ["/bin/sh", script, login, agent]}}));
    let run = project.spawn(&[]);
    working.wait();
    assert_eq!(project.row("S00-001")["external_wait"], true, "its review was refused, and another role goes on");
    project.write_outside("login", "");
    assert_eq!(project.run(&["task", "answer", "S00-001", "--text", "Logged in."]).code, Some(0));
    gate.open();
    run.wait().complete();
}

#[test]
fn a_failing_service_is_tried_again_after_a_pause() {
    let project = project(1);
    project.agent(&format!("seen failure && {{ honest; exit; }}; work; {}; exit 1", fails(BUSY)));
    let events = project.outside("events.jsonl").display().to_string();
    assert_eq!(project.run(&["--events", &events]).complete()["launched"], 3);
    assert_eq!(actions(&project, "S00-001"), ["claim", "retry", "claim", "submit", "review", "approve"]);
    assert_eq!(project.row("S00-001")["attempts"], 2, "it cost a session");
    let bytes = runner::fs::read(&project.outside("events.jsonl")).expect("the stream is there");
    let stream = String::from_utf8(bytes).expect("JSON is UTF-8");
    let events: Vec<Value> = stream.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
    let of = |kind: &str| events.iter().filter(|event| event["event"] == kind).collect::<Vec<_>>();
    let delayed = of("retry_delayed");
    assert_eq!((delayed.len(), &delayed[0]["attempt"], &delayed[0]["delay_ms"]), (1, &json!(1), &json!(2000)));
    let retries: Vec<&Value> = of("session_ended").into_iter().map(|event| &event["transient_retries"]).collect();
    assert_eq!(retries, [&json!(0), &json!(1), &json!(0)]);
    assert_eq!(of("waiting").len(), 1);
}

#[test]
fn a_service_that_goes_on_failing_is_escalated_after_a_bounded_number_of_tries() {
    let project = project(1);
    project.config(&json!({"max_remediation_depth": 0}));
    project.agent(&format!("{}; exit 1", fails(BUSY)));
    // A start of its own for each, since a person does not wait for the pauses of an earlier run.
    for tries in 1..=3 {
        project.run(&["--max-sessions", "1"]).stopped(0, "session_limit");
        let events = project.events("S00-001");
        let note = events.last().expect("an event")["note"].as_str().expect("a note").to_owned();
        assert_says(&note, &[&format!("attempt {tries} of 4"), "high demand"]);
    }
    project.run(&[]).stopped(3, "needs_input");
    assert_says(&project.waits("S00-001"), &["its service having failed 4 times in a row", "high demand"]);
    assert_eq!(
        actions(&project, "S00-001"),
        ["claim", "retry", "claim", "retry", "claim", "retry", "claim", "escalate"]
    );
}
