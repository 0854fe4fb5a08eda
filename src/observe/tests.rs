//! What events hold, and in which order observers hear of them.

use std::cell::RefCell;
use std::panic::{AssertUnwindSafe, catch_unwind};

use serde_json::json;

use super::*;

/// A session of an agent of this number.
pub(super) fn session(number: u32) -> SessionName {
    SessionName {
        agent: "auto-qa-000102030405".parse().unwrap(),
        number,
        parent: None,
        task: "S00-001".parse().unwrap(),
        title: "Words of the prompt".to_owned(),
        role: "qa".parse().unwrap(),
        work: Work::Review,
    }
}

/// The end of that session.
pub(super) fn ended(number: u32, spent: Spent) -> Event {
    let (session, outcome) = (session(number), "approved".to_owned());
    Event::SessionEnded { session, outcome, good: true, limited: false, wall_ms: 7, spent }
}

#[test]
fn composed_observers_are_told_in_the_order_they_stand_in_and_as_often() {
    let told = RefCell::new(Vec::new());
    let note = |name: &'static str| {
        let told = &told;
        move |_: &Event| told.borrow_mut().push(name)
    };
    let (first, second) = (note("first"), note("second"));
    let all = compose(&[Some(&second), None, Some(&first), Some(&first)]).unwrap();
    all(&Event::Converted);
    assert_eq!(*told.borrow(), ["second", "first", "first"]);
}

#[test]
fn composing_nobody_gives_nobody() {
    assert!(compose(&[]).is_none() && compose(&[None, None]).is_none());
}

#[test]
fn what_the_caller_does_to_its_list_afterwards_changes_nothing() {
    let told = RefCell::new(0);
    let count = |_: &Event| *told.borrow_mut() += 1;
    let mut list: Vec<Option<&Observer<'_>>> = vec![Some(&count)];
    let composed = compose(&list).unwrap();
    list[0] = None;
    composed(&Event::Converted);
    assert_eq!(*told.borrow(), 1);
}

#[test]
fn a_panic_goes_on_to_the_caller_and_later_observers_are_not_told() {
    let told = RefCell::new(Vec::new());
    let before = |_: &Event| told.borrow_mut().push("before");
    let broken = |_: &Event| panic!("broken observer");
    let after = |_: &Event| told.borrow_mut().push("after");
    let all = compose(&[Some(&before), Some(&broken), Some(&after)]).unwrap();
    let caught = catch_unwind(AssertUnwindSafe(|| all(&Event::Converted))).unwrap_err();
    assert_eq!(caught.downcast_ref::<&str>(), Some(&"broken observer"));
    assert_eq!(*told.borrow(), ["before"]);
}

#[test]
fn independent_threads_compose_and_tell_at_the_same_time() {
    let group = Group::default();
    std::thread::scope(|scope| {
        for number in 1..=8 {
            let group = &group;
            scope.spawn(move || {
                let own = RefCell::new(0);
                let count = |_: &Event| *own.borrow_mut() += 1;
                let add = |event: &Event| group.observe(event);
                let both = compose(&[Some(&count), Some(&add)]).unwrap();
                both(&Event::AttemptStarted { session: session(number), attempt: 1 });
                both(&ended(number, Spent::default()));
                assert_eq!(*own.borrow(), 2);
            });
        }
    });
    assert_eq!(group.snapshot().members.len(), 8);
}

#[test]
fn an_event_names_its_run_its_parent_and_what_happened_and_no_words_of_the_prompt() {
    let mut continued = session(2);
    continued.parent = Some("auto-qa-000102030405.1".to_owned());
    let event = Event::RetryDelayed { session: continued, attempt: 3, delay_ms: 250 };
    let wanted = json!({
        "event": "retry_delayed", "run_id": "auto-qa-000102030405.2", "parent_run_id": "auto-qa-000102030405.1",
        "agent": "auto-qa-000102030405", "session": 2, "task": "S00-001", "role": "qa", "action": "review",
        "attempt": 3, "delay_ms": 250,
    });
    assert_eq!(serde_json::to_value(&event).unwrap(), wanted);
    let last = serde_json::to_value(ended(1, Spent::default())).unwrap();
    let unknown = json!({"value": 0, "known": false, "complete": false});
    assert_eq!((&last["attempts"], &last["tokens"]["total"]), (&json!(0), &unknown));
    assert_eq!(last["cost"], json!({"micro_dollars": 0, "known": false, "complete": false}));
    assert!(!last.to_string().contains("Words of the prompt"), "{last}");
}

#[test]
fn of_a_reason_only_the_first_line_is_told_since_output_may_follow() {
    let event = Event::waits_for_person("S00-001".parse().unwrap(), " it left without a word:\n\nsecret output");
    let Event::WaitsForPerson { reason, .. } = event else { panic!("{event:?}") };
    assert_eq!(reason, "it left without a word:");
}

#[test]
fn of_a_commit_that_failed_the_first_line_is_written_since_what_a_hook_printed_may_follow() {
    let reason = "exit status 1\nsecret output; the next start tries again".to_owned();
    let written = serde_json::to_value(Event::CommitFailed { reason }).unwrap();
    assert_eq!(written, json!({"event": "commit_failed", "reason": "exit status 1"}));
}

#[test]
fn a_report_is_no_event_of_its_session_whose_end_may_be_told_already_or_never() {
    let event = Event::Reported { run_id: session(1).run_id(), reported: Reported::default() };
    assert!(event.session().is_none());
    let wanted = json!({"event": "reported", "run_id": "auto-qa-000102030405.1", "outcome": "not_requested"});
    assert_eq!(serde_json::to_value(event).unwrap(), wanted);
}
