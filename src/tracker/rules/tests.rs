//! Each change, from each status, by each kind of actor.

use super::*;
use crate::tracker::samples::{agent, claim_of};

const AT: &str = "2026-11-30T03:05:12Z";

fn task() -> TaskId {
    "S00-001".parse().unwrap()
}

fn apply_as(row: &Row, who: Actor<'_>, step: Step<'_>) -> Result<Row, Refusal> {
    let before = row.clone();
    let made = apply(&task(), row, (who, AT), step);
    assert_eq!(*row, before, "the row before is left as it is");
    if let Ok(made) = &made {
        assert_eq!(faults(made), Vec::<String>::new());
        assert_eq!(made.events.len(), row.events.len() + 1);
        let event = made.last_event().unwrap();
        assert_eq!((event.from, event.to, event.agent.as_str()), (row.status, made.status, who.name()));
    }
    made
}

/// A row that reached a standing the way real ones do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Standing {
    Todo,
    /// `auto-a` executes it.
    InProgress,
    /// `auto-a` has submitted, and its session is not settled yet.
    Submitted,
    Review,
    /// `auto-q` reviews it.
    UnderReview,
    /// `auto-a` named a blocker, `S00-001-r1` removes it.
    Blocked,
    /// A person has to answer.
    Waiting,
    Done,
}

const STANDINGS: [Standing; 8] = [
    Standing::Todo,
    Standing::InProgress,
    Standing::Submitted,
    Standing::Review,
    Standing::UnderReview,
    Standing::Blocked,
    Standing::Waiting,
    Standing::Done,
];

fn row_at(standing: Standing) -> Row {
    let (a, q) = (agent("auto-a"), agent("auto-q"));
    let settled = |row: Row| Row { claim: None, ..row };
    let step = |from: Standing, who, step| apply_as(&row_at(from), who, step).unwrap();
    let escalate = |blocker| Step::Escalate { reason: "stuck".to_owned(), handoff: "h".to_owned(), blocker };
    match standing {
        Standing::Todo => Row::default(),
        Standing::InProgress => {
            let claim = claim_of("auto-a", Work::Claim, Some("hash"));
            step(Standing::Todo, Actor::Session(&a), Step::Claim { claim, waiting_for: &[] })
        }
        Standing::Submitted => {
            step(Standing::InProgress, Actor::Session(&a), Step::Submit { evidence: None, no_change: None })
        }
        Standing::Review => settled(row_at(Standing::Submitted)),
        Standing::UnderReview => {
            let claim = claim_of("auto-q", Work::Review, Some("hash"));
            step(Standing::Review, Actor::Session(&q), Step::Claim { claim, waiting_for: &[] })
        }
        Standing::Blocked => {
            let blocker = Blocker::Task("S00-001-r1".parse().unwrap());
            settled(step(Standing::InProgress, Actor::Session(&a), escalate(blocker)))
        }
        Standing::Waiting => settled(step(Standing::InProgress, Actor::Session(&a), escalate(Blocker::Person))),
        Standing::Done => settled(step(Standing::UnderReview, Actor::Session(&q), Step::Approve { evidence: None })),
    }
}

/// Everybody who could ask: the executor, the reviewer, a fresh agent, a person that is new to the task, the coordinator.
const ASKERS: [&str; 5] = ["auto-a", "auto-q", "auto-new", "ann", "coordinator"];

fn actor(name: &AgentId) -> Actor<'_> {
    match name.as_str() {
        "coordinator" => Actor::Coordinator,
        name_text if name_text.starts_with("auto-") => Actor::Session(name),
        _ => Actor::Person(name),
    }
}

/// All pairs of standing and asker for which the step is made, with the status afterwards.
fn allowed<'s>(step: impl Fn(&AgentId) -> Step<'s>) -> Vec<(Standing, &'static str, Status)> {
    let mut made = Vec::new();
    for standing in STANDINGS {
        for asker in ASKERS {
            let name = agent(asker);
            match apply_as(&row_at(standing), actor(&name), step(&name)) {
                Ok(row) => made.push((standing, asker, row.status)),
                Err(refusal) => {
                    assert!(!refusal.rule.is_empty() && !refusal.advice.is_empty(), "{standing:?} {asker}");
                }
            }
        }
    }
    made
}

#[test]
fn a_todo_task_is_claimed_under_ones_own_name_only() {
    let step = |name: &AgentId| Step::Claim { claim: claim_of(name.as_str(), Work::Claim, None), waiting_for: &[] };
    let by = ["auto-a", "auto-q", "auto-new", "ann"];
    assert_eq!(allowed(step), by.map(|name| (Standing::Todo, name, Status::InProgress)));
    let other = |_: &AgentId| Step::Claim { claim: claim_of("bob", Work::Claim, None), waiting_for: &[] };
    assert_eq!(allowed(other), []);
}

#[test]
fn a_review_is_claimed_only_by_who_has_not_worked_on_the_task() {
    let step = |name: &AgentId| Step::Claim { claim: claim_of(name.as_str(), Work::Review, None), waiting_for: &[] };
    let by = ["auto-q", "auto-new", "ann"];
    assert_eq!(allowed(step), by.map(|name| (Standing::Review, name, Status::Review)));
}

#[test]
fn a_task_is_not_claimed_before_what_it_depends_on() {
    let waiting_for = ["S00-000".parse().unwrap()];
    let step =
        |name: &AgentId| Step::Claim { claim: claim_of(name.as_str(), Work::Claim, None), waiting_for: &waiting_for };
    assert_eq!(allowed(step), []);
    // What is finished is reviewed, whatever has been reopened meanwhile.
    let step =
        |name: &AgentId| Step::Claim { claim: claim_of(name.as_str(), Work::Review, None), waiting_for: &waiting_for };
    assert_eq!(allowed(step).len(), 3);
}

#[test]
fn only_the_executor_submits_and_only_once() {
    let step = |_: &AgentId| Step::Submit { evidence: Some("e".to_owned()), no_change: None };
    assert_eq!(allowed(step), [(Standing::InProgress, "auto-a", Status::Review)]);
}

#[test]
fn approval_is_by_the_live_reviewer_or_by_a_person_while_no_session_is_live() {
    let step = |_: &AgentId| Step::Approve { evidence: None };
    let expected = [(Standing::Review, "ann", Status::Done), (Standing::UnderReview, "auto-q", Status::Done)];
    assert_eq!(allowed(step), expected);
}

#[test]
fn rejection_is_by_the_live_reviewer_or_by_a_person_while_no_session_is_live() {
    let step = |_: &AgentId| Step::Reject { reason: "unclear".to_owned(), handoff: "h".to_owned() };
    let expected = [(Standing::Review, "ann", Status::Todo), (Standing::UnderReview, "auto-q", Status::Todo)];
    assert_eq!(allowed(step), expected);
}

#[test]
fn only_who_holds_a_task_escalates_it_or_the_coordinator_for_it() {
    for blocker in [Blocker::Person, Blocker::Task("S00-001-r1".parse().unwrap())] {
        let step = |_: &AgentId| Step::Escalate {
            reason: "stuck".to_owned(),
            handoff: "h".to_owned(),
            blocker: blocker.clone(),
        };
        let expected = [
            (Standing::InProgress, "auto-a", Status::Blocked),
            (Standing::InProgress, "coordinator", Status::Blocked),
            (Standing::UnderReview, "auto-q", Status::Blocked),
            (Standing::UnderReview, "coordinator", Status::Blocked),
        ];
        assert_eq!(allowed(step), expected);
    }
}

#[test]
fn a_coordinators_session_is_released_by_the_coordinator_alone() {
    let step = |_: &AgentId| Step::Release { note: "interrupted".to_owned() };
    let expected = [
        (Standing::InProgress, "coordinator", Status::Todo),
        (Standing::Submitted, "coordinator", Status::Todo),
        (Standing::UnderReview, "coordinator", Status::Review),
    ];
    assert_eq!(allowed(step), expected);
}

#[test]
fn only_a_person_answers_and_only_a_task_that_waits_for_one() {
    let open = |_: &AgentId| Step::Answer { handoff: "h".to_owned(), still_blocked: false };
    assert_eq!(allowed(open), [(Standing::Waiting, "ann", Status::Todo)]);
    let blocked = Row { blocked_by: vec!["S00-001-r1".parse().unwrap()], ..row_at(Standing::Waiting) };
    let still = Step::Answer { handoff: "h".to_owned(), still_blocked: true };
    let row = apply_as(&blocked, Actor::Person(&agent("ann")), still).unwrap();
    assert_eq!((row.status, row.external_wait, row.blocked_by), (Status::Blocked, false, blocked.blocked_by));
}

#[test]
fn the_coordinator_alone_unblocks_sets_aside_and_quarantines() {
    assert_eq!(allowed(|_| Step::Unblock), [(Standing::Blocked, "coordinator", Status::Todo)]);
    let expected = [Standing::Todo, Standing::Review].map(|at| (at, "coordinator", Status::Blocked));
    assert_eq!(allowed(|_| Step::Wait { reason: "used up".to_owned() }), expected);
    let before = Row::default();
    let step =
        |_: &AgentId| Step::Quarantine { before: &before, reason: "touched".to_owned(), handoff: "h".to_owned() };
    assert_eq!(allowed(step), STANDINGS.map(|at| (at, "coordinator", Status::Blocked)));
}

#[test]
fn a_session_speaks_only_with_its_own_secret_and_only_while_it_holds_the_task() {
    let manual = {
        let claim = claim_of("ann", Work::Claim, None);
        let ann = agent("ann");
        apply_as(&Row::default(), Actor::Person(&ann), Step::Claim { claim, waiting_for: &[] }).unwrap()
    };
    for (row, name, token_hash, speaks) in [
        (row_at(Standing::InProgress), "auto-a", Some("hash"), true),
        (row_at(Standing::InProgress), "auto-a", Some("another"), false),
        (row_at(Standing::InProgress), "auto-a", None, false),
        (row_at(Standing::InProgress), "auto-b", Some("hash"), false),
        (row_at(Standing::UnderReview), "auto-q", Some("hash"), true),
        // The executor while another reviews: its session has ended.
        (row_at(Standing::UnderReview), "auto-a", Some("hash"), false),
        (row_at(Standing::Todo), "auto-a", Some("hash"), false),
        (row_at(Standing::Review), "auto-a", Some("hash"), false),
        (row_at(Standing::Blocked), "auto-a", Some("hash"), false),
        (row_at(Standing::Done), "auto-q", Some("hash"), false),
        (manual.clone(), "ann", None, true),
        (manual.clone(), "ann", Some("hash"), false),
        (manual, "bob", None, false),
    ] {
        let said = authorise(&task(), &row, &agent(name), token_hash);
        assert_eq!(said.is_ok(), speaks, "{name} {token_hash:?} {:?}: {said:?}", row.status);
    }
}

#[test]
fn a_manual_session_is_over_with_its_transition() {
    let (ann, bob) = (agent("ann"), agent("bob"));
    let claim = |row: &Row, name: &AgentId, work| {
        let claim = claim_of(name.as_str(), work, None);
        apply_as(row, Actor::Person(name), Step::Claim { claim, waiting_for: &[] }).unwrap()
    };
    let held = claim(&Row::default(), &ann, Work::Claim);
    let submit = Step::Submit { evidence: None, no_change: None };
    let submitted = apply_as(&held, Actor::Session(&ann), submit).unwrap();
    assert_eq!((submitted.status, &submitted.claim), (Status::Review, &None));
    let own = apply_as(&submitted, Actor::Person(&ann), Step::Approve { evidence: None }).unwrap_err();
    assert_eq!(own.rule, "ann has worked on S00-001");
    let reviewed = claim(&submitted, &bob, Work::Review);
    let third = apply_as(&reviewed, Actor::Person(&agent("cid")), Step::Approve { evidence: None }).unwrap_err();
    assert_eq!(third.rule, "S00-001 is held by bob");
    for step in [
        Step::Approve { evidence: None },
        Step::Reject { reason: "no".to_owned(), handoff: "h".to_owned() },
        Step::Escalate { reason: "no".to_owned(), handoff: "h".to_owned(), blocker: Blocker::Person },
        Step::Release { note: "no time".to_owned() },
    ] {
        assert_eq!(apply_as(&reviewed, Actor::Session(&bob), step).unwrap().claim, None);
    }
    for releaser in [Actor::Person(&bob), Actor::Session(&ann), Actor::Coordinator] {
        let row = apply_as(&held, releaser, Step::Release { note: "stale".to_owned() }).unwrap();
        assert_eq!((row.status, row.owner, row.claim), (Status::Todo, None, None), "{releaser:?}");
    }
}

#[test]
fn a_task_the_original_left_in_progress_is_ended_by_its_owner() {
    let row =
        Row { status: Status::InProgress, owner: Some(agent("ann")), agents: vec![agent("ann")], ..Row::default() };
    let submit = || Step::Submit { evidence: None, no_change: None };
    assert!(apply_as(&row, Actor::Person(&agent("bob")), submit()).is_err());
    assert_eq!(apply_as(&row, Actor::Person(&agent("ann")), submit()).unwrap().status, Status::Review);
    let release = Step::Release { note: "stale".to_owned() };
    assert_eq!(apply_as(&row, Actor::Person(&agent("bob")), release).unwrap().status, Status::Todo);
}

#[test]
fn nobody_who_worked_on_a_task_comes_back_to_it_in_any_part() {
    let q = agent("auto-q");
    let reject = Step::Reject { reason: "no".to_owned(), handoff: "h".to_owned() };
    let mut row = apply_as(&row_at(Standing::UnderReview), Actor::Session(&q), reject).unwrap();
    row.claim = None;
    for name in ["auto-a", "auto-q"] {
        let claim = claim_of(name, Work::Claim, Some("new"));
        let step = Step::Claim { claim, waiting_for: &[] };
        let refusal = apply_as(&row, Actor::Session(&agent(name)), step).unwrap_err();
        assert_eq!(refusal.rule, format!("{name} has already worked on S00-001"));
    }
}

#[test]
fn a_reject_carries_its_reason_and_becomes_the_handoff() {
    let row = row_at(Standing::Review);
    let ann = agent("ann");
    let empty = Step::Reject { reason: " \n".to_owned(), handoff: "h".to_owned() };
    assert_eq!(apply_as(&row, Actor::Person(&ann), empty).unwrap_err().rule, "a reject carries its reason");
    let step = Step::Reject { reason: "unclear".to_owned(), handoff: "state/handoffs/ann.md".to_owned() };
    let row = apply_as(&row, Actor::Person(&ann), step).unwrap();
    assert_eq!(row.handoff.as_deref(), Some("state/handoffs/ann.md"));
    assert_eq!(row.reason.as_deref(), Some("unclear"));
    assert_eq!((row.owner, row.reviewer), (None, Some(ann)));
}

#[test]
fn a_blocked_task_goes_back_to_where_it_was() {
    for (standing, back) in [(Standing::InProgress, Status::Todo), (Standing::UnderReview, Status::Review)] {
        let blocker = Blocker::Task("S00-001-r1".parse().unwrap());
        let step = Step::Escalate { reason: "stuck".to_owned(), handoff: "h".to_owned(), blocker };
        let stuck = apply_as(&row_at(standing), Actor::Coordinator, step).unwrap();
        assert_eq!(stuck.blocked_from, Some(back));
        let row = apply_as(&stuck, Actor::Coordinator, Step::Unblock).unwrap();
        assert_eq!((row.status, row.blocked_from, row.blocked_by), (back, None, vec![]));
        assert_eq!(row.owner.is_some(), back == Status::Review);
        assert_eq!(row.handoff.as_deref(), Some("h"), "the next session is told");
    }
}

#[test]
fn quarantine_puts_the_row_back_and_keeps_its_history() {
    let before = row_at(Standing::Review);
    let reviewed = row_at(Standing::UnderReview);
    let done = apply_as(&reviewed, Actor::Session(&agent("auto-q")), Step::Approve { evidence: None }).unwrap();
    let step = Step::Quarantine { before: &before, reason: "touched a.txt".to_owned(), handoff: "h".to_owned() };
    let row = apply_as(&done, Actor::Coordinator, step).unwrap();
    assert_eq!((row.status, row.blocked_from, row.external_wait), (Status::Blocked, Some(Status::Review), true));
    assert_eq!((row.reviewer, row.claim, row.owner), (None, None, before.owner));
    assert_eq!(row.agents, [agent("auto-a"), agent("auto-q")], "who worked on it stays known");
    assert_eq!(row.events[..done.events.len()], done.events[..]);
    let event = row.events.last().unwrap();
    assert_eq!((event.action, event.note.as_deref()), (Action::Quarantine, Some("touched a.txt")));
}

#[test]
fn an_attempt_is_an_executors_claim_and_a_session_is_any_claim_since_the_last_answer() {
    let row = row_at(Standing::UnderReview);
    assert_eq!((row.attempts, row.sessions()), (1, 2));
    let step = Step::Escalate { reason: "r".to_owned(), handoff: "h".to_owned(), blocker: Blocker::Person };
    let row = Row { claim: None, ..apply_as(&row, Actor::Coordinator, step).unwrap() };
    let step = Step::Answer { handoff: "h".to_owned(), still_blocked: false };
    let row = apply_as(&row, Actor::Person(&agent("ann")), step).unwrap();
    assert_eq!((row.attempts, row.sessions()), (1, 0));
}

#[test]
fn a_claim_is_given_back_by_the_coordinator_alone_where_the_service_does_not_serve() {
    let expected =
        [(Standing::InProgress, "coordinator", Status::Todo), (Standing::UnderReview, "coordinator", Status::Review)];
    assert_eq!(allowed(|_| Step::Limit { note: "until noon".to_owned() }), expected);
    assert_eq!(allowed(|_| Step::Retry { note: "it failed".to_owned() }), expected);
}

#[test]
fn a_limit_spends_neither_attempt_nor_session_and_a_retry_both() {
    let limit = || Step::Limit { note: "until noon".to_owned() };
    let retry = || Step::Retry { note: "it failed".to_owned() };
    for (standing, step, attempts, sessions) in [
        (Standing::InProgress, limit(), 0, 0),
        (Standing::UnderReview, limit(), 1, 1),
        (Standing::InProgress, retry(), 1, 1),
        (Standing::UnderReview, retry(), 1, 2),
    ] {
        let row = apply_as(&row_at(standing), Actor::Coordinator, step.clone()).unwrap();
        assert_eq!((row.attempts, row.sessions()), (attempts, sessions), "{standing:?} {step:?}");
        assert_eq!((&row.claim, row.owner.is_some()), (&None, standing == Standing::UnderReview), "{step:?}");
        assert!(row.session_agents().any(|name| name == "auto-a"), "what it used is counted all the same");
    }
}

#[test]
fn only_failures_of_the_service_in_a_row_count_as_retries() {
    let a_session_ends = |row: &Row, name: &str, step: Step<'_>| {
        let claim = claim_of(name, Work::Claim, Some("hash"));
        let agent = agent(name);
        let held = apply_as(row, Actor::Session(&agent), Step::Claim { claim, waiting_for: &[] }).unwrap();
        Row { claim: None, ..apply_as(&held, Actor::Coordinator, step).unwrap() }
    };
    let note = || "it failed".to_owned();
    let mut row = Row::default();
    for (name, step, retries) in [
        ("auto-b", Step::Retry { note: note() }, 1),
        ("auto-c", Step::Limit { note: note() }, 1),
        ("auto-d", Step::Release { note: note() }, 1),
        ("auto-e", Step::Retry { note: note() }, 2),
        ("auto-f", Step::Escalate { reason: note(), handoff: "h".to_owned(), blocker: Blocker::Person }, 0),
    ] {
        row = a_session_ends(&row, name, step);
        assert_eq!(row.retries(), retries, "{name}");
    }
    let answer = Step::Answer { handoff: "h".to_owned(), still_blocked: false };
    row = apply_as(&row, Actor::Person(&agent("ann")), answer).unwrap();
    assert_eq!(a_session_ends(&row, "auto-g", Step::Retry { note: note() }).retries(), 1);
}

#[test]
fn a_session_is_settled_by_its_own_transition_only() {
    let (a, q) = (agent("auto-a"), agent("auto-q"));
    let escalate = |standing, who| {
        let step = Step::Escalate { reason: "r".to_owned(), handoff: "h".to_owned(), blocker: Blocker::Person };
        apply_as(&row_at(standing), who, step).unwrap()
    };
    let reject = Step::Reject { reason: "r".to_owned(), handoff: "h".to_owned() };
    let rejected = apply_as(&row_at(Standing::UnderReview), Actor::Session(&q), reject).unwrap();
    for (row, name, work, settled) in [
        (row_at(Standing::InProgress), &a, Work::Claim, false),
        (row_at(Standing::Submitted), &a, Work::Claim, true),
        (row_at(Standing::Submitted), &q, Work::Claim, false),
        (row_at(Standing::UnderReview), &q, Work::Review, false),
        (row_at(Standing::Done), &q, Work::Review, true),
        (row_at(Standing::Done), &a, Work::Review, false),
        (row_at(Standing::Todo), &q, Work::Review, false),
        (rejected, &q, Work::Review, true),
        (escalate(Standing::InProgress, Actor::Session(&a)), &a, Work::Claim, true),
        (escalate(Standing::InProgress, Actor::Coordinator), &a, Work::Claim, false),
        (escalate(Standing::UnderReview, Actor::Session(&q)), &q, Work::Review, true),
        (escalate(Standing::UnderReview, Actor::Session(&q)), &a, Work::Review, false),
    ] {
        assert_eq!(row.is_settled_by(name, work), settled, "{name} {work} {:?}", row.status);
    }
}

#[test]
fn each_inconsistency_of_a_row_is_named() {
    let event = row_at(Standing::InProgress).events[0].clone();
    let changed = |standing, change: fn(&mut Row)| {
        let mut row = row_at(standing);
        change(&mut row);
        faults(&row)
    };
    for (found, wanted) in [
        (changed(Standing::Todo, |row| row.blocked_from = Some(Status::Todo)), "exactly while the status is blocked"),
        (changed(Standing::Blocked, |row| row.blocked_from = None), "exactly while the status is blocked"),
        (changed(Standing::Blocked, |row| row.blocked_from = Some(Status::Done)), "is todo or review"),
        (changed(Standing::Done, |row| row.external_wait = true), "only a blocked task"),
        (changed(Standing::Blocked, |row| row.blocked_by.clear()), "names a blocker or waits for a person"),
        (changed(Standing::InProgress, |row| row.owner = None), "has an owner"),
        (changed(Standing::UnderReview, |row| row.agents.clear()), "one of its `agents`"),
        (changed(Standing::UnderReview, |row| row.status = Status::InProgress), "claimed by its owner, to execute it"),
    ] {
        assert!(found.iter().any(|fault| fault.contains(wanted)), "{wanted}: {found:?}");
    }
    let twice = Row { events: vec![event.clone(), event], ..Row::default() };
    assert_eq!(faults(&twice), ["events are in the order of `seq`"]);
}

#[test]
fn a_follow_up_renews_number_and_secret_of_a_live_claim_and_counts_as_a_session() {
    let task = task();
    for (standing, sessions) in [(Standing::InProgress, 1), (Standing::UnderReview, 2)] {
        let (name, work) =
            if standing == Standing::InProgress { ("auto-a", Work::Claim) } else { ("auto-q", Work::Review) };
        let mut row = row_at(standing);
        row.claim = Some(claim_of(name, work, Some("old")));
        let step = |session, hash: &str| Step::FollowUp { session, token_hash: hash.to_owned() };
        let made = apply_as(&row, Actor::Coordinator, step(2, "new")).unwrap();
        let claim = made.claim.clone().unwrap();
        assert_eq!((claim.session, claim.token_hash.as_deref()), (2, Some("new")));
        let renewed = Claim { session: 1, token_hash: Some("old".to_owned()), ..claim };
        let back = Row { claim: Some(renewed), events: row.events.clone(), ..made.clone() };
        assert_eq!(back, row, "nothing else is changed");
        assert_eq!((row.sessions(), made.sessions()), (sessions, sessions + 1));
        assert!(authorise(&task, &made, &agent(name), Some("new")).is_ok());
        assert!(authorise(&task, &made, &agent(name), Some("old")).is_err(), "the old secret is void");
        for (session, hash) in [(1, "new"), (3, "new"), (2, "old")] {
            assert!(apply_as(&row, Actor::Coordinator, step(session, hash)).is_err(), "{session} {hash}");
        }
        assert!(apply_as(&row, Actor::Session(&agent(name)), step(2, "new")).is_err(), "no agent gives itself one");
        row.claim = Some(claim_of(name, work, None));
        assert!(apply_as(&row, Actor::Coordinator, step(2, "new")).is_err(), "a manual session is a person's");
    }
    for standing in STANDINGS {
        if !matches!(standing, Standing::InProgress | Standing::UnderReview) {
            let step = Step::FollowUp { session: 2, token_hash: "new".to_owned() };
            assert!(apply_as(&row_at(standing), Actor::Coordinator, step).is_err(), "{standing:?}");
        }
    }
}
