//! The progression of a branch, step by step, with an executor of a few lines in the place of sessions.

use std::cell::{Cell, RefCell};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU32, Ordering};

use super::super::Message;
use super::*;
use crate::observe::{Counters, Event, Group, SessionName, Spent};
use crate::plan::Work;

/// What can go wrong; compared by identity where it matters.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("fault {0}")]
struct Fault(u32);

/// A session's request: what is asked, and how many processes it takes to get an answer.
#[derive(Clone, Copy)]
struct Ask(&'static str, u64);

type Outcomes = Result<Outcome, Halted<String, Fault>>;

/// Carries out requests one at a time and answers with what it was asked.
#[derive(Default)]
struct Machine {
    runs: AtomicU32,
    /// Room for one session, and nobody waits.
    slot: Mutex<()>,
    fault: Option<Fault>,
    prompts: Mutex<Vec<String>>,
}

impl Machine {
    fn execute(&self, request: &Request<'_, Ask>) -> Result<Completed<String>, Fault> {
        let _room = self.slot.try_lock().expect("no other session is at work");
        let number = self.runs.fetch_add(1, Ordering::Relaxed) + 1;
        let history = request.continue_from.as_ref().map(Exchange::history).unwrap_or_default();
        self.prompts.lock().unwrap().push(format!("{history}{}", request.body.0));
        let tell = |event: &Event| request.observer.iter().for_each(|observer| observer(event));
        let parent = request.continue_from.as_ref().map(|source| source.run_id().to_owned());
        let session = name(number, parent);
        (1..=request.body.1).for_each(|attempt| tell(&Event::AttemptStarted { session: session.clone(), attempt }));
        let counters = Counters { attempts: request.body.1, transient_retries: request.body.1 - 1, repair_turns: 0 };
        let spent = Spent { counters, ..Spent::default() };
        let (outcome, good) = (String::new(), self.fault.is_none());
        tell(&Event::SessionEnded { session: session.clone(), outcome, good, limited: false, wall_ms: 1, spent });
        if let Some(fault) = &self.fault {
            return Err(fault.clone());
        }
        let answer = format!("answer to {}", request.body.0);
        let asked = vec![Message::asked(request.body.0)];
        let exchange = request.exchange(&session.run_id(), asked, &answer).expect("it is captured");
        Ok(Completed { exchange, result: format!("result {number}") })
    }
}

fn name(number: u32, parent: Option<String>) -> SessionName {
    SessionName {
        agent: "auto-qa-000102030405".parse().unwrap(),
        number,
        parent,
        task: "S00-001".parse().unwrap(),
        title: String::new(),
        role: "qa".parse().unwrap(),
        work: Work::Claim,
    }
}

fn start() -> Exchange {
    Exchange::begin("start.1", vec![Message::asked("begin")], "begun")
}

fn ask(words: &'static str) -> Request<'static, Ask> {
    Request::new(Ask(words, 1))
}

/// Carries a branch on with this callback; nobody cancels.
fn carried(
    machine: &Machine,
    turns: u32,
    mut next: impl FnMut(Turn<String>) -> Result<Option<Request<'static, Ask>>, Fault>,
) -> Outcomes {
    cancellable(machine, turns, &|| false, &mut next)
}

fn cancellable(
    machine: &Machine,
    additional_turns: u32,
    is_cancelled: &dyn Fn() -> bool,
    next: &mut dyn FnMut(Turn<String>) -> Result<Option<Request<'static, Ask>>, Fault>,
) -> Outcomes {
    let branch = Coordination { start: start(), additional_turns, next, observer: None, is_cancelled };
    coordinate(branch, &mut |request| machine.execute(&request))
}

#[test]
fn the_first_call_has_the_start_no_result_and_all_turns_and_may_stop_at_once() {
    let machine = Machine::default();
    for turns in [0, 3] {
        let outcome = carried(&machine, turns, |turn| {
            assert_eq!((turn.exchange.run_id(), turn.result, turn.remaining_turns), ("start.1", None, turns));
            Ok(None)
        });
        assert!(matches!(outcome, Ok(Outcome::Stopped)));
    }
    assert_eq!(machine.runs.into_inner(), 0);
}

#[test]
fn each_session_is_delivered_once_with_what_is_left_of_the_turns() {
    let (machine, mut seen) = (Machine::default(), Vec::new());
    let outcome = carried(&machine, 2, |turn| {
        seen.push((turn.exchange.final_message().to_owned(), turn.result, turn.remaining_turns));
        if seen.len() < 3 { Ok(Some(ask("more"))) } else { Ok(None) }
    });
    assert!(matches!(outcome, Ok(Outcome::Stopped)), "it stops on the last permitted session");
    let of = |message: &str, result: Option<&str>, left| (message.to_owned(), result.map(str::to_owned), left);
    let wanted =
        [of("begun", None, 2), of("answer to more", Some("result 1"), 1), of("answer to more", Some("result 2"), 0)];
    assert_eq!(seen, wanted);
}

#[test]
fn a_request_beyond_the_turns_is_exhaustion_and_is_never_looked_at() {
    for turns in [0, 2] {
        let machine = Machine::default();
        // A request that the executor could not carry out.
        let outcome = carried(&machine, turns, |turn| match turn.remaining_turns {
            0 => Ok(Some(Request::new(Ask("refused", 0)))),
            _ => Ok(Some(ask("more"))),
        });
        assert!(matches!(outcome, Ok(Outcome::Exhausted)));
        assert_eq!(machine.runs.into_inner(), turns);
        assert!(machine.prompts.into_inner().unwrap().iter().all(|prompt| !prompt.ends_with("refused")));
    }
}

#[test]
fn a_continued_prompt_is_the_history_then_the_new_words() {
    let machine = Machine::default();
    let outcome = carried(&machine, 2, |turn| if turn.remaining_turns == 0 { Ok(None) } else { Ok(Some(ask("more"))) });
    assert!(outcome.is_ok());
    let first = start();
    let second = first.then("auto-qa-000102030405.1", vec![Message::asked("more")], "answer to more");
    let wanted = [&first, &second].map(|source| format!("{}more", source.history()));
    assert_eq!(machine.prompts.into_inner().unwrap(), wanted);
}

#[test]
fn a_session_that_was_judged_badly_is_delivered_and_gone_on_from_like_any_other() {
    let mut delivered = Vec::new();
    let mut next = |turn: Turn<bool>| {
        delivered.push((turn.exchange.final_message().to_owned(), turn.result));
        Ok::<_, Fault>((turn.remaining_turns > 0).then(|| Request::new("again")))
    };
    let branch =
        Coordination { start: start(), additional_turns: 2, next: &mut next, observer: None, is_cancelled: &|| false };
    let outcome = coordinate(branch, &mut |request| {
        let depth = request.continue_from.as_ref().map_or(0, Exchange::message_count);
        let exchange = request.exchange("judged.1", Vec::new(), &format!("bad {depth}")).expect("it is captured");
        Ok(Completed { exchange, result: false })
    });
    assert!(matches!(outcome, Ok(Outcome::Stopped)), "{outcome:?}");
    let of = |message: &str, result| (message.to_owned(), result);
    assert_eq!(delivered, [of("begun", None), of("bad 2", Some(false)), of("bad 3", Some(false))]);
}

#[test]
fn an_error_of_the_callback_ends_the_branch_as_it_is() {
    let machine = Machine::default();
    let outcome =
        carried(&machine, 2, |turn| if turn.result.is_some() { Err(Fault(7)) } else { Ok(Some(ask("more"))) });
    let Err(halted @ Halted::Failed(Fault(7))) = &outcome else { panic!("{outcome:?}") };
    assert_eq!(std::error::Error::source(halted).unwrap().downcast_ref(), Some(&Fault(7)));
    assert_eq!(machine.runs.into_inner(), 1);
}

#[test]
fn an_error_of_a_session_ends_the_branch_as_it_is_and_leaves_the_source_usable() {
    let broken = Machine { fault: Some(Fault(9)), ..Machine::default() };
    let (source, mut calls) = (start(), 0);
    let mut next = |_: Turn<String>| {
        calls += 1;
        Ok(Some(ask("more")))
    };
    let branch = Coordination {
        start: source.clone(),
        additional_turns: 5,
        next: &mut next,
        observer: None,
        is_cancelled: &|| false,
    };
    let outcome = coordinate(branch, &mut |request| broken.execute(&request));
    assert!(matches!(outcome, Err(Halted::Failed(Fault(9)))), "{outcome:?}");
    assert_eq!(calls, 1, "nothing is delivered of a session that failed to operate");
    let sibling = Request { continue_from: Some(source), ..Request::new(Ask("again", 1)) };
    assert_eq!(Machine::default().execute(&sibling).unwrap().exchange.message_count(), 4);
}

#[test]
fn cancelled_before_the_first_call_nothing_is_asked_and_nothing_undelivered() {
    let outcome = cancellable(&Machine::default(), 2, &|| true, &mut |_| unreachable!("it is not called"));
    assert!(matches!(outcome, Err(Halted::Cancelled { undelivered: None })), "{outcome:?}");
}

#[test]
fn cancelled_after_a_session_completed_its_result_is_kept_once_as_undelivered() {
    let machine = Machine::default();
    let (is_cancelled, calls) = (Cell::new(false), Cell::new(0));
    let cancel = |event: &Event| is_cancelled.set(matches!(event, Event::SessionEnded { .. }));
    let mut next = |_: Turn<String>| {
        calls.set(calls.get() + 1);
        Ok(Some(ask("more")))
    };
    let is_cancelled = || is_cancelled.get();
    let branch = Coordination {
        start: start(),
        additional_turns: 5,
        next: &mut next,
        observer: Some(&cancel),
        is_cancelled: &is_cancelled,
    };
    let outcome = coordinate(branch, &mut |request| machine.execute(&request));
    let Err(Halted::Cancelled { undelivered: Some(left) }) = outcome else { panic!("{outcome:?}") };
    assert_eq!((left.result.as_str(), left.exchange.final_message()), ("result 1", "answer to more"));
    assert_eq!((calls.get(), machine.runs.into_inner()), (1, 1));
}

#[test]
fn cancelled_inside_the_callback_outranks_its_decision_and_what_it_was_told_is_delivered() {
    for decision in [Ok(None), Ok(Some(ask("more"))), Err(Fault(1))] {
        let (machine, is_cancelled) = (Machine::default(), Cell::new(false));
        let outcome = cancellable(&machine, 5, &|| is_cancelled.get(), &mut |turn| {
            if turn.result.is_none() {
                return Ok(Some(ask("first")));
            }
            is_cancelled.set(true);
            decision.clone()
        });
        assert!(matches!(outcome, Err(Halted::Cancelled { undelivered: None })), "{outcome:?}");
        assert_eq!(machine.runs.into_inner(), 1, "nothing more is started");
    }
}

#[test]
fn cancellation_is_asked_for_before_and_after_each_call_and_before_each_request() {
    // The call of the question after which the answer is yes, the sessions run until then, and whether one is left.
    for (yes_at, runs, is_left) in
        [(1, 0, false), (2, 0, false), (3, 0, false), (4, 1, true), (5, 1, false), (6, 1, false), (7, 2, true)]
    {
        let (machine, asked) = (Machine::default(), Cell::new(0));
        let is_cancelled = || {
            asked.set(asked.get() + 1);
            asked.get() >= yes_at
        };
        let outcome = cancellable(&machine, 5, &is_cancelled, &mut |_| Ok(Some(ask("more"))));
        let Err(Halted::Cancelled { undelivered }) = outcome else { panic!("{outcome:?}") };
        assert_eq!((machine.runs.into_inner(), undelivered.is_some(), asked.get()), (runs, is_left, yes_at));
    }
}

#[test]
fn exhaustion_is_decided_before_cancellation_is_asked_for_again() {
    let asked = Cell::new(0);
    let is_cancelled = || {
        asked.set(asked.get() + 1);
        asked.get() > 2
    };
    let outcome = cancellable(&Machine::default(), 0, &is_cancelled, &mut |_| Ok(Some(ask("more"))));
    assert!(matches!(outcome, Ok(Outcome::Exhausted)), "{outcome:?}");
}

#[test]
fn a_panic_of_the_callback_goes_on_to_the_caller() {
    let machine = Machine::default();
    let caught = catch_unwind(AssertUnwindSafe(|| carried(&machine, 1, |_| panic!("in the callback"))));
    assert_eq!(caught.unwrap_err().downcast_ref::<&str>(), Some(&"in the callback"));
}

#[test]
fn what_the_callback_does_with_its_values_rewrites_no_history_and_redirects_no_branch() {
    let (machine, mut parents) = (Machine::default(), Vec::new());
    let outcome = carried(&machine, 3, |mut turn| {
        parents.push(turn.exchange.details().parent_run_id);
        turn.exchange = Exchange::begin("elsewhere.1", Vec::new(), "forged");
        turn.result = Some("forged".to_owned());
        let left = turn.remaining_turns;
        turn.remaining_turns = 1000;
        let redirected = Request { continue_from: Some(turn.exchange), ..Request::new(Ask("more", 1)) };
        Ok((left > 0).then_some(redirected))
    });
    assert!(matches!(outcome, Ok(Outcome::Stopped)));
    let run = |number: u32| Some(format!("auto-qa-000102030405.{number}"));
    assert_eq!(parents, [None, Some("start.1".to_owned()), run(1), run(2)]);
    assert!(machine.prompts.into_inner().unwrap().iter().all(|prompt| !prompt.contains("forged")));
}

#[test]
fn the_requests_own_observer_is_told_before_the_branchs_and_nested_calls_are_told_to_neither() {
    let (machine, told) = (Machine::default(), RefCell::new(Vec::new()));
    let note = |who: &'static str| {
        let told = &told;
        move |event: &Event| told.borrow_mut().push((who, event.session().unwrap().run_id()))
    };
    let (own, branch_wide) = (note("own"), note("branch"));
    let mut next = |turn: Turn<String>| {
        if turn.result.is_some() {
            return Ok(None);
        }
        machine.execute(&Request { capture: true, ..Request::new(Ask("nested", 1)) })?;
        Ok(Some(Request { observer: Some(&own), ..Request::new(Ask("more", 1)) }))
    };
    let branch = Coordination {
        start: start(),
        additional_turns: 1,
        next: &mut next,
        observer: Some(&branch_wide),
        is_cancelled: &|| false,
    };
    assert!(coordinate(branch, &mut |request| machine.execute(&request)).is_ok());
    let second = "auto-qa-000102030405.2".to_owned();
    let wanted = ["own", "branch", "own", "branch"].map(|who| (who, second.clone()));
    assert_eq!(*told.borrow(), wanted);
}

#[test]
fn nothing_is_held_while_the_callback_decides() {
    let machine = Machine::default();
    // There is room for one session, and who finds none fails.
    let outcome = carried(&machine, 2, |turn| {
        let check = Request { capture: true, ..Request::new(Ask("check", 1)) };
        let checked = machine.execute(&check)?;
        assert_eq!(checked.exchange.parent_run_id(), None, "a nested call is independent");
        if turn.remaining_turns == 0 { Ok(None) } else { Ok(Some(ask("more"))) }
    });
    assert!(matches!(outcome, Ok(Outcome::Stopped)), "{outcome:?}");
    assert_eq!(machine.runs.into_inner(), 5);
}

#[test]
fn retries_inside_a_session_are_one_delivery_and_one_turn_and_counted_once() {
    let (machine, group, mut deliveries) = (Machine::default(), Group::default(), 0);
    let observe = |event: &Event| group.observe(event);
    let mut next = |turn: Turn<String>| {
        deliveries += u32::from(turn.result.is_some());
        Ok((turn.remaining_turns > 0).then(|| Request::new(Ask("more", 3))))
    };
    let branch = Coordination {
        start: start(),
        additional_turns: 2,
        next: &mut next,
        observer: Some(&observe),
        is_cancelled: &|| false,
    };
    assert!(matches!(coordinate(branch, &mut |request| machine.execute(&request)), Ok(Outcome::Stopped)));
    assert_eq!((deliveries, machine.runs.into_inner()), (2, 2));
    let summary = group.snapshot();
    assert_eq!((summary.members.len(), summary.attempts, summary.transient_retries), (2, 6, 4));
    assert!(summary.members.iter().all(|member| member.run_id != "start.1"), "the starting run is no member");
}

#[test]
fn a_request_is_captured_if_it_asks_for_it_or_goes_on_from_something() {
    let plain = Request::new(());
    assert!(!plain.is_captured() && plain.exchange("a.1", Vec::new(), "x").is_none());
    let captured = Request { capture: true, ..Request::new(()) };
    assert_eq!(captured.exchange("a.1", Vec::new(), "x").unwrap().parent_run_id(), None);
    let continued = Request { continue_from: Some(start()), ..Request::new(()) };
    assert!(continued.is_captured());
    assert_eq!(continued.exchange("a.1", Vec::new(), "x").unwrap().parent_run_id(), Some("start.1"));
}

#[test]
fn overlapping_continuations_of_one_exchange_from_several_threads_do_not_meet() {
    let source = start();
    let before = source.details();
    let group = Group::default();
    std::thread::scope(|scope| {
        for _ in 0..8 {
            let (source, group) = (&source, &group);
            scope.spawn(move || {
                let machine = Machine::default();
                let observe = |event: &Event| group.observe(event);
                let mut last = None;
                let mut next = |turn: Turn<String>| {
                    last = Some(turn.exchange);
                    if turn.remaining_turns == 0 { Ok(None) } else { Ok(Some(ask("more"))) }
                };
                let branch = Coordination {
                    start: source.clone(),
                    additional_turns: 20,
                    next: &mut next,
                    observer: Some(&observe),
                    is_cancelled: &|| false,
                };
                assert!(coordinate(branch, &mut |request| machine.execute(&request)).is_ok());
                assert_eq!(last.unwrap().message_count(), 2 + 2 * 20);
            });
        }
    });
    assert_eq!(source.details(), before);
    assert_eq!(group.snapshot().members.len(), 20, "each thread names its runs alike");
}

#[test]
fn what_is_shown_of_a_branch_holds_no_content() {
    let secret = Exchange::begin("a.1", vec![Message::asked("secret")], "secret");
    let request = Request { continue_from: Some(secret.clone()), ..Request::new("secret") };
    let completed = Completed { exchange: secret.clone(), result: "secret" };
    let turn = Turn { exchange: secret, result: Some("secret"), remaining_turns: 1 };
    let left: Halted<_, Fault> = Halted::Cancelled { undelivered: Some(Box::new(completed.clone())) };
    for shown in [format!("{request:?}"), format!("{completed:?}"), format!("{turn:?}"), format!("{left:?} {left}")] {
        assert!(!shown.contains("secret"), "{shown}");
    }
}
