//! The shapes the original's file can have.

use serde_json::json;

use super::*;
use crate::tracker::rules;
use crate::tracker::samples::{agent, card, id, plan, stage};

fn read_value(value: &Value) -> Converted {
    let converted = read(Path::new("state/state.json"), value.to_string().as_bytes()).unwrap();
    for (task, row) in &converted.rows {
        assert_eq!(rules::faults(row), Vec::<String>::new(), "{task}: a converted row has to be readable");
    }
    converted
}

fn row(value: &Value) -> Row {
    read_value(&json!({"schema": 1, "tasks": {"S00-001": value}})).rows.remove(&id("S00-001")).unwrap()
}

#[test]
fn each_status_of_the_original_has_its_row() {
    for (old, status, from, waits) in [
        (json!({"status": "todo"}), Status::Todo, None, false),
        (json!({"status": "review", "owner": "auto-a"}), Status::Review, None, false),
        (json!({"status": "done", "owner": "auto-a", "reviewer": "auto-q"}), Status::Done, None, false),
        (json!({"status": "in_progress", "owner": "ann"}), Status::InProgress, None, false),
        // Nobody could ever end it.
        (json!({"status": "in_progress", "owner": null}), Status::Todo, None, false),
        (json!({"status": "blocked", "blocked_by": ["S00-002"]}), Status::Blocked, Some(Status::Todo), false),
        (json!({"status": "blocked", "external_wait": true}), Status::Blocked, Some(Status::Todo), true),
        (
            json!({"status": "blocked", "blocked_by": ["S00-002"], "external_wait": true}),
            Status::Blocked,
            Some(Status::Todo),
            true,
        ),
        // It names no blocker, so only a person can say how to go on.
        (json!({"status": "blocked", "blocked_by": []}), Status::Blocked, Some(Status::Todo), true),
    ] {
        let row = row(&old);
        assert_eq!((row.status, row.blocked_from, row.external_wait), (status, from, waits), "{old}");
        assert_eq!((row.schema, row.claim), (SCHEMA, None));
    }
}

#[test]
fn all_that_a_row_says_is_kept() {
    let full = row(
        &json!({"status": "blocked", "owner": "auto-a", "reviewer": "auto-q", "attempts": 3, "handoff": "h.md",
        "evidence": "e.md", "blocked_by": ["S00-002"], "external_wait": true, "reason": "why", "role": "dev", "n": [1]}),
    );
    assert_eq!((full.owner, full.reviewer, full.attempts), (Some(agent("auto-a")), Some(agent("auto-q")), 3));
    assert_eq!((full.handoff.as_deref(), full.evidence.as_deref()), (Some("h.md"), Some("e.md")));
    assert_eq!((full.reason.as_deref(), full.blocked_by), (Some("why"), vec![id("S00-002")]));
    let event = full.events.last().unwrap();
    assert_eq!((event.action, event.note.as_deref()), (Action::Other, Some("converted; role: \"dev\"; n: [1]")));
    let done = row(&json!({"status": "done", "blocked_by": ["S00-002"]}));
    assert_eq!(done.blocked_by, vec![]);
    assert_eq!(done.events[0].note.as_deref(), Some("converted; blocked_by: [\"S00-002\"]"));
}

#[test]
fn each_event_keeps_its_place_its_words_and_what_nobody_knows() {
    let event = |action: &str, more: Value| {
        let mut event = json!({"revision": 9, "at": "T", "action": action, "task": "S00-001", "agent": "auto-a",
            "from": "todo", "to": "in_progress"});
        event.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        event
    };
    let known = [
        ("claim", Action::Claim),
        ("submit", Action::Submit),
        ("approve", Action::Approve),
        ("reject", Action::Reject),
        ("escalate", Action::Escalate),
        ("unblock", Action::Unblock),
        ("resolve", Action::Answer),
        ("runner-quarantine", Action::Quarantine),
    ];
    let mut events: Vec<Value> = known.iter().map(|(name, _)| event(name, json!({}))).collect();
    events.push(event("retitle", json!({"title": "new", "from": "never", "agent": 7})));
    events.push(event("claim", json!({"role": "dev"})));
    let mut converted = read_value(&json!({"schema": 1, "tasks": {"S00-001": {"status": "review"}}, "events": events}));
    assert_eq!(converted.rest(), None);
    let row = converted.rows.remove(&id("S00-001")).unwrap();
    assert_eq!(row.events.iter().map(|event| event.seq).collect::<Vec<_>>(), (1..=10).collect::<Vec<_>>());
    for (event, (name, action)) in row.events.iter().zip(known) {
        assert_eq!((event.action, event.note.as_deref()), (action, None), "{name}");
        assert_eq!((event.at.as_str(), event.from, event.to), ("T", Status::Todo, Status::InProgress));
    }
    let other = &row.events[8];
    assert_eq!(other.action, Action::Other);
    assert_eq!(other.note.as_deref(), Some("retitle; agent: 7; from: \"never\"; title: \"new\""));
    assert_eq!(row.events[9].note.as_deref(), Some("role: \"dev\""));
}

#[test]
fn who_worked_on_a_task_stays_barred_from_reviewing_it_and_who_only_answered_does_not() {
    let event = |action: &str, agent: &str| json!({"action": action, "task": "S00-001", "agent": agent});
    let converted = read_value(&json!({
        "tasks": {"S00-001": {"status": "review", "owner": "auto-c", "reviewer": "auto-q"}},
        "events": [event("claim", "auto-a"), event("reject", "auto-q"), event("resolve", "ann"), event("unblock", "tracker"),
            event("note", "bob"), event("note", "auto-r"), event("claim", "not a name")],
        "retired_agents": ["auto-r"],
    }));
    let agents: Vec<_> = converted.rows[&id("S00-001")].agents.iter().map(AgentId::as_str).collect();
    assert_eq!(agents, ["auto-a", "auto-q", "auto-r", "auto-c"]);
}

#[test]
fn what_belongs_to_no_task_is_handed_over_as_it_was() {
    let stray = json!({"revision": 1, "action": "claim", "task": "S00-009", "agent": "auto-a"});
    let bare = json!({"revision": 2, "action": "migrate"});
    let converted =
        read_value(&json!({"schema": 1, "revision": 2, "tasks": {}, "events": [stray, bare], "owner": "me"}));
    let rest: Value = serde_json::from_str(&converted.rest().unwrap()).unwrap();
    assert_eq!(rest, json!({"owner": "me", "events": [stray, bare]}));
}

#[test]
fn a_row_without_a_card_is_named() {
    let plan = plan(&[stage("S00", 1, &[])], &[card("S00-001", &[])]);
    let converted = read_value(&json!({"tasks": {"S00-001": {"status": "done"}, "S00-002": {"status": "done"}}}));
    let error = converted.board(&plan, Path::new("state/state.json")).unwrap_err().to_string();
    assert!(error.contains("S00-002 has no card planning/tasks/S00-002.json"), "{error}");
}

#[test]
fn what_is_no_state_is_refused_with_its_place() {
    for text in ["", "[]", "{}", r#"{"tasks": {"S00-001": {"status": "paused"}}}"#, r#"{"tasks": {"../x": {}}}"#] {
        let error = read(Path::new("state/state.json"), text.as_bytes()).err().unwrap().to_string();
        assert!(error.starts_with("state/state.json:1:"), "{text}: {error}");
    }
}
