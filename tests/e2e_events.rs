//! The event stream of a whole run, line by line.

mod support;

use serde_json::{Value, json};
use support::{Project, assert_says};

/// Each line as an object.
#[track_caller]
fn lines(text: &str) -> Vec<Value> {
    text.lines()
        .map(|line| match serde_json::from_str(line) {
            Ok(value @ Value::Object(_)) => value,
            other => panic!("no JSON object ({other:?}): {line}"),
        })
        .collect()
}

/// What happened, in order.
fn kinds(events: &[Value]) -> Vec<&str> {
    events.iter().map(|event| event["event"].as_str().unwrap_or_else(|| panic!("no event: {event}"))).collect()
}

fn events_of(project: &Project) -> Vec<Value> {
    let bytes = runner::fs::read(&project.outside("events.jsonl")).expect("the stream is there");
    lines(&String::from_utf8(bytes).expect("JSON is UTF-8"))
}

fn to_file(project: &Project) -> String {
    project.outside("events.jsonl").display().to_string()
}

#[test]
fn each_event_of_a_run_is_a_line_with_its_run_and_the_result_stays_one_object() {
    let project = Project::new();
    let finished = project.run(&["--events", &to_file(&project)]);
    finished.complete();
    let events = events_of(&project);
    let session = ["session_started", "attempt_started", "session_ended", "committed"];
    assert_eq!(kinds(&events), [&["run_started"], &session[..], &session[..]].concat());
    assert!(
        events.iter().all(|event| event["schema"] == 1 && event["at"].as_str().is_some_and(|at| at.ends_with('Z')))
    );
    let runs: Vec<String> = project.sessions().iter().map(|session| format!("{}.1", session.agent)).collect();
    for (part, run) in [&events[1..4], &events[5..8]].into_iter().zip(&runs) {
        for event in part {
            assert_eq!((&event["run_id"], &event["parent_run_id"]), (&json!(run), &Value::Null), "{event}");
            assert_eq!(event["task"], "S00-001");
        }
        assert_eq!(part[1]["attempt"], 1);
        assert_eq!(
            (&part[2]["attempts"], &part[2]["transient_retries"], &part[2]["good"]),
            (&json!(1), &json!(0), &json!(true))
        );
        let unknown = json!({"value": 0, "known": false, "complete": false});
        assert_eq!(part[2]["tokens"]["input"], unknown, "nobody stated any");
        assert_eq!(part[2]["cost"]["known"], false);
    }
    assert_eq!(
        (&events[1]["role"], &events[5]["role"], &events[5]["action"]),
        (&json!("backend"), &json!("qa"), &json!("review"))
    );
    assert_says(&finished.stderr, &["backend works on S00-001"]);
}

#[test]
fn on_standard_output_every_line_is_an_object_and_the_last_is_the_result() {
    let project = Project::new();
    let finished = project.run(&["-q", "--events", "-"]);
    assert_eq!((finished.code, finished.stderr.as_str()), (Some(0), ""), "{finished}");
    let mut all = lines(&finished.stdout);
    let result = all.pop().expect("a result");
    assert_eq!((&result["stop"], result.get("event")), (&json!("complete"), None));
    assert_eq!(kinds(&all).len(), 9);
}

#[test]
fn a_second_run_adds_its_events_to_those_that_are_there() {
    let project = Project::new();
    for _ in 0..2 {
        assert_eq!(project.run(&["--max-sessions", "1", "--events", &to_file(&project)]).code, Some(0));
    }
    let events = events_of(&project);
    assert_eq!(kinds(&events).iter().filter(|kind| **kind == "run_started").count(), 2);
}

#[test]
fn no_event_holds_words_of_a_prompt_or_of_output() {
    let project = Project::builder().stage("S00", 1).file("docs/secret.md", "words-of-a-prompt\n").build();
    project.config(&json!({"max_task_sessions": 1}));
    project.edit_card("S00-001", &json!({"inputs": ["docs/secret.md"], "title": "Words-of-a-title"}));
    project.commit_all("Ask for secrets");
    project.agent("cat; echo words-of-output; echo words-of-output >&2; exit 3");
    let finished = project.run(&["--events", &to_file(&project)]);
    assert_says(&project.told("S00-001"), &["words-of-output"]);
    let events = events_of(&project);
    assert!(kinds(&events).contains(&"waits_for_person"), "{events:#?}\n{finished}");
    let text = Value::from(events).to_string();
    for words in ["words-of-a-prompt", "words-of-output", "Words-of-a-title"] {
        assert!(!text.contains(words), "{words}: {text}");
    }
}

#[test]
fn a_run_that_is_refused_before_a_claim_is_silent() {
    let project = Project::new();
    project.config(&json!({"argv": ["no-such-program-anywhere"]}));
    project.refuses(&["--events", &to_file(&project)], &["no-such-program-anywhere"]);
    assert_eq!(events_of(&project), Vec::<Value>::new());
}

#[test]
fn a_stream_inside_the_project_is_refused_however_it_is_named() {
    let project = Project::new();
    std::os::unix::fs::symlink(project.path("state"), project.outside("link")).expect("a link can be made");
    let link = project.outside("link/events.jsonl").display().to_string();
    for name in ["events.jsonl", "./planning/events.jsonl", "AGENTS.md", &link] {
        project.refuses(&["--events", name], &["outside", "--events"]);
    }
    assert!(project.run(&["--events", "/nonexistent/folder/events"]).refused().contains("/nonexistent/folder/events"));
}

#[test]
fn a_commit_that_failed_and_a_report_are_events_without_what_was_printed() {
    let project = Project::new();
    // Nobody listens on the first port.
    project.config(&json!({"git_hooks": "run", "report": {"url": "http://127.0.0.1:1/"}}));
    project.write(".git/hooks/pre-commit", "#!/bin/sh\necho words-of-a-hook\nexit 1\n");
    project.chmod(".git/hooks/pre-commit", 0o755);
    let finished = project.run(&["--events", &to_file(&project)]);
    let result = finished.stopped(2, "git_error");
    assert_says(result["commit_error"].as_str().expect("a reason"), &["words-of-a-hook"]);
    assert_eq!(result["report"], json!({"outcome": "failed", "kind": "connect", "accepted": 0, "failed": 1}));
    let events = events_of(&project);
    let kinds = kinds(&events);
    assert_eq!(
        kinds,
        ["run_started", "session_started", "attempt_started", "reported", "warning", "session_ended", "commit_failed"]
    );
    let run = format!("{}.1", project.sessions()[0].agent);
    assert_eq!(
        (&events[3]["run_id"], &events[3]["outcome"], &events[3]["kind"]),
        (&json!(run), &json!("failed"), &json!("connect"))
    );
    let reason = events[6]["reason"].as_str().expect("a reason");
    assert!(result["commit_error"].as_str().is_some_and(|whole| whole.starts_with(reason)), "{reason}");
    assert!(!Value::from(events.clone()).to_string().contains("words-of-a-hook"), "{events:#?}");
}

#[test]
fn a_further_process_is_a_run_of_its_own_with_its_parent_and_ends_after_it() {
    let project = Project::new();
    project.config(&json!({"follow_up_turns": null}));
    project.agent_on(&[("*/claim", "if seen left; then submit; else work; fi")]);
    project.run(&["--max-sessions", "2", "--events", &to_file(&project)]).stopped(0, "session_limit");
    let events = events_of(&project);
    let session = ["session_started", "attempt_started", "session_ended"];
    assert_eq!(kinds(&events), [&["run_started"], &session[..], &session[..], &["committed"]].concat());
    let agent = &project.sessions()[0].agent;
    let (first, second) = (format!("{agent}.1"), format!("{agent}.2"));
    for (events, run, parent) in [(&events[1..4], &first, Value::Null), (&events[4..7], &second, json!(first))] {
        for event in events {
            assert_eq!((&event["run_id"], &event["parent_run_id"]), (&json!(run), &parent), "{event}");
        }
    }
    let counted = |event: &Value| ["count", "attempts", "repair_turns", "good"].map(|key| event[key].clone());
    assert_eq!(counted(&events[4])[0], 2);
    assert_eq!(counted(&events[3])[1..], [json!(1), json!(0), json!(false)]);
    assert_eq!(counted(&events[6])[1..], [json!(1), json!(1), json!(true)]);
}
