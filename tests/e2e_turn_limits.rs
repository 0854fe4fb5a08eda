//! What bounds the further processes of a session: budgets, what an argument can hold, and being told to stop between two.

mod support;

use runner::conversation::{Exchange, Message};
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

#[test]
fn a_process_that_was_served_and_goes_on_ends_the_row_of_limits() {
    let project = project(&json!({"dialect": "codex", "on_limit": {"action": "wait", "max_wait_seconds": 30}}), "", "");
    let message = "You’ve hit your usage limit. Upgrade to Pro or try again in 1s.";
    let end = json!({"type": "turn.failed", "error": {"message": message}}).to_string();
    let limit = format!("{{ printf '%s\\n' '{end}'; exit 1; }}");
    // A second limit in a row is waited for at least a minute, whatever its service states.
    let body = format!("seen one || {limit}; seen two || {{ work; exit; }}; seen three || {limit}; honest");
    project.agent_on(&[("S00-001/claim", &body)]);
    assert_eq!(project.run(&[]).complete()["launched"], 5);
    let wanted = ["claim", "limit", "claim", "follow_up", "limit", "claim", "submit", "review", "approve"];
    assert_eq!(actions(&project), wanted);
}

/// Gives all prompts as arguments, and has each process note its own.
fn by_argument(project: &Project) {
    let script = project.outside("agent.sh").display().to_string();
    let all =
        String::from_utf8(runner::fs::read(&project.outside("agent.sh")).expect("there is an agent")).expect("text");
    let note = "count=$(wc -l <\"$NOTES/sessions\"); printf %s \"$1\" >\"$NOTES/argument-$count\"";
    project.write_outside("agent.sh", &all.replace("\ncase ", &format!("\n{note}\ncase ")));
    project.config(&json!({"argv": ["/bin/sh", script, "{prompt}"]}));
}

fn argument(project: &Project, place: usize) -> String {
    let text = project.note(&format!("argument-{place}"));
    assert!(!text.is_empty(), "session {place} was given its prompt");
    text
}

#[test]
fn a_history_reaches_an_agent_that_takes_its_prompt_as_an_argument_byte_for_byte() {
    let said = "printf 'I \"wrote\"\\n\\n\\342\\202\\254 {prompt} {root} $HOME it.'";
    let project = project(&json!({}), &format!("work; {said}"), "submit");
    by_argument(&project);
    project.run(&[]).complete();
    assert_eq!(actions(&project), ["claim", "follow_up", "submit", "review", "approve"]);
    let agent = &project.sessions()[0].agent;
    let asked = vec![Message::asked(argument(&project, 1))];
    let said = "I \"wrote\"\n\n\u{20ac} {prompt} {root} $HOME it.";
    let history = Exchange::begin(format!("{agent}.1"), asked, said).history();
    let second = argument(&project, 2);
    let new = second.strip_prefix(&history).expect("the history comes first");
    assert_says(new, &["without submit or escalate"]);
    assert_eq!(second, project.read(&format!("state/runs/{agent}/2/prompt.md")));
    assert_eq!(record(&project, agent, 2)["parent_run_id"], format!("{agent}.1"));
}

#[test]
fn a_history_that_no_argument_can_hold_gives_way_to_a_fresh_prompt_with_a_handoff() {
    // Two bytes a character: within `max_prompt_chars`, but with the history over the 128 KiB of an argument.
    let long = format!("# Agents\n\n{}\n", "\u{e4}".repeat(57_000));
    let project = Project::builder().stage("S00", 1).file("AGENTS.md", long).build();
    project.config(&json!({"follow_up_turns": null}));
    let said = "printf 'x%.0s' $(seq 15000); echo ' the end'";
    project.agent_on(&[("S00-001/claim", &format!("if seen left; then submit; else work; {said}; fi"))]);
    by_argument(&project);
    project.run(&[]).complete();
    let agent = &project.sessions()[0].agent;
    let (first, second) = (argument(&project, 1), argument(&project, 2));
    assert!(first.len() + 15_000 > 128 << 10 && first.len() < 128 << 10, "{} bytes", first.len());
    assert_eq!(record(&project, agent, 2)["parent_run_id"], Value::Null);
    assert!(second.starts_with("You are agent "), "it is a fresh prompt");
    assert_says(&second, &[&format!("## Handoff: state/runs/{agent}/1/stdout.log"), "the end"]);
}

#[test]
fn where_not_even_a_fresh_prompt_fits_the_argument_there_is_no_further_process_and_it_is_said() {
    let long = format!("# Agents\n\n{}\n", "\u{e4}".repeat(62_000));
    let project = Project::builder().stage("S00", 1).file("AGENTS.md", long).build();
    project.config(&json!({"follow_up_turns": null}));
    // What was printed is repeated in the handoff.
    let said = "printf '\\342\\202\\254%.0s' $(seq 1500)";
    project.agent_on(&[("S00-001/claim", &format!("work; {said}"))]);
    by_argument(&project);
    let finished = project.run(&["--max-sessions", "2"]);
    let first = argument(&project, 1);
    assert!(first.len() < 128 << 10 && first.len() + 4000 > 128 << 10, "{} bytes", first.len());
    assert_eq!(actions(&project)[..2], ["claim", "escalate"]);
    assert_says(&finished.stderr, &["no further process was started", "as an argument", "131071"]);
}

#[test]
fn a_rework_whose_history_is_over_the_budget_is_fresh_and_has_its_handoff() {
    let long = format!("# Agents\n\n{}", "Work small.\n".repeat(5_000));
    let project = Project::builder().stage("S00", 1).file("AGENTS.md", long).build();
    project.config(&json!({"rework": "continue"}));
    project.agent_on(&[
        ("*/claim", "cat >\"$NOTES/prompt-$(wc -l <\"$NOTES/sessions\")\"; honest"),
        ("*/review", "if seen rejected; then approve; else reject 'take the long way'; fi"),
    ]);
    project.run(&[]).complete();
    assert_eq!(project.steps(), ["S00-001/claim", "S00-001/review", "S00-001/claim", "S00-001/review"]);
    let prompt = project.note("prompt-3");
    assert!(prompt.starts_with("You are agent "), "it is a fresh prompt");
    assert_says(&prompt, &["## Handoff", "take the long way"]);
    assert_eq!(record(&project, &project.sessions()[2].agent, 1)["parent_run_id"], Value::Null);
}

/// A run that is sent a signal when it gets to `place` for the `nth` time; its executor forgets to submit.
fn told_to_stop((place, nth): (&str, u32), number: i32) -> (Project, Value) {
    let project = project(&json!({"environment": {"remove": ["RUNNER_FAULT"]}}), "work", "submit");
    let run = project.spawn_with(&[], &[("RUNNER_FAULT", &format!("{place}#{nth}#{number}"))]);
    let result = run.wait().stopped(128 + number, "interrupted");
    (project, result)
}

#[test]
fn a_run_told_to_stop_between_two_processes_starts_no_other_keeps_the_work_and_releases_the_task() {
    for number in [2, 15] {
        let (project, result) = told_to_stop(("session:over", 1), number);
        assert_eq!(project.steps(), ["S00-001/claim"], "no second process");
        assert_eq!(actions(&project), ["claim", "release"]);
        assert_eq!((&result["launched"], &result["commit_error"]), (&json!(1), &Value::Null));
        assert_eq!(project.status_of("S00-001"), "todo");
        assert_eq!(project.trailer("HEAD", "Action"), "interrupt");
        assert_eq!(project.at_head("src/S00-001/out.txt"), "work of S00-001");
        let record = record(&project, &project.sessions()[0].agent, 1);
        assert_eq!((&record["status"], &record["result"]["verdict"]), (&json!("finished"), &json!("interrupted")));
        project.assert_clean();
        project.agent("honest");
        project.run(&[]).complete();
    }
}

#[test]
fn a_run_told_to_stop_when_the_next_process_was_about_to_start_releases_the_task_too() {
    for place in [("follow-up:durable", 1), ("session:launch", 2)] {
        let (project, _) = told_to_stop(place, 15);
        assert_eq!(project.steps(), ["S00-001/claim"], "{place:?}");
        assert_eq!(actions(&project), ["claim", "follow_up", "release"], "{place:?}");
        assert_eq!(project.trailer("HEAD", "Action"), "interrupt", "{place:?}");
        assert_eq!(project.at_head("src/S00-001/out.txt"), "work of S00-001", "{place:?}");
        project.assert_clean();
        project.agent("honest");
        project.run(&[]).complete();
    }
}
