//! What counts, once, and what is known of it.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use super::*;
use crate::observe::tests::{ended, session};
use crate::observe::{Observer, SessionName, compose};

/// A session that used this much, all figures known.
fn used(attempts: u64, retries: u64, tokens: u64) -> Spent {
    let figure = Figure::whole(tokens);
    Spent {
        counters: Counters { attempts, transient_retries: retries, repair_turns: 1 },
        tokens: Tokens { input: figure, cached_input: figure, output: figure, reasoning: figure, total: figure },
        cost: money(tokens),
    }
}

fn money(micro_dollars: u64) -> Cost {
    Cost { micro_dollars, known: true, complete: true }
}

fn started(number: u32) -> Event {
    Event::SessionStarted { session: session(number), count: number }
}

fn fed(events: &[Event]) -> Summary {
    let group = Group::default();
    for event in events {
        group.observe(event);
    }
    group.snapshot()
}

#[test]
fn an_empty_group_is_a_known_complete_zero() {
    let empty = fed(&[]);
    assert!(empty.members.is_empty() && empty.terminal_coverage_complete);
    assert_eq!((empty.tokens, empty.cost, empty.attempts), (Tokens::NOTHING, Cost::NOTHING, 0));
    assert_eq!(empty.unknown_runs, RunCounts::default());
}

#[test]
fn any_event_of_a_session_makes_it_a_member_and_others_make_none() {
    for event in [
        started(1),
        Event::AttemptStarted { session: session(1), attempt: 1 },
        Event::RetryDelayed { session: session(1), attempt: 1, delay_ms: 5 },
    ] {
        let summary = fed(&[event]);
        assert_eq!(summary.members, [Member { run_id: session(1).run_id(), terminal_observed: false }]);
        assert!(!summary.terminal_coverage_complete);
    }
    let others = [Event::Converted, Event::RunStarted { tasks: 1, done: 0 }];
    assert!(fed(&others).members.is_empty());
}

#[test]
fn members_without_an_end_keep_the_coverage_incomplete_and_count_nothing() {
    let pending = fed(&[started(1)]);
    assert_eq!((pending.tokens, pending.cost), (Tokens::default(), Cost::UNKNOWN));
    assert_eq!((pending.attempts, pending.unknown_runs.input), (0, 1));
    let mixed = fed(&[started(1), ended(2, used(3, 2, 10))]);
    assert!(!mixed.terminal_coverage_complete);
    assert_eq!((mixed.attempts, mixed.transient_retries, mixed.repair_turns), (3, 2, 1));
    // What was received is whole; that somebody is missing is said apart.
    assert_eq!((mixed.tokens.input, mixed.unknown_runs.input), (Figure::whole(10), 1));
}

#[test]
fn the_first_end_of_a_session_counts_once_whatever_is_told_again() {
    let alone = fed(&[ended(1, used(1, 0, 10))]);
    assert!(alone.terminal_coverage_complete);
    let repeated = fed(&[ended(1, used(1, 0, 10)), started(1), ended(1, used(5, 5, 99)), started(1)]);
    assert_eq!(repeated, alone);
    assert_eq!((alone.attempts, alone.tokens.total, alone.cost), (1, Figure::whole(10), money(10)));
}

#[test]
fn the_five_figures_are_summed_with_what_is_known_of_each() {
    let mut partly = used(1, 0, 7);
    partly.tokens.cached_input = Figure::UNKNOWN;
    partly.tokens.reasoning = Figure::part(2);
    partly.tokens.total = Figure::whole(0);
    partly.cost = Cost::UNKNOWN;
    let sum = fed(&[ended(1, used(1, 0, 10)), ended(2, partly)]);
    assert_eq!(sum.tokens.input, Figure::whole(17));
    assert_eq!(sum.tokens.cached_input, Figure::part(10));
    assert_eq!(sum.tokens.output, Figure::whole(17));
    assert_eq!(sum.tokens.reasoning, Figure::part(12));
    assert_eq!(sum.tokens.total, Figure::whole(10), "a stated zero is known");
    assert_eq!(sum.cost, money(10).as_part());
    let unknown = RunCounts { cached_input: 1, cost: 1, ..RunCounts::default() };
    assert_eq!(sum.unknown_runs, unknown);
}

#[test]
fn figures_that_no_agent_stated_stay_unknown_in_the_sum() {
    let sum = fed(&[ended(1, Spent::default()), ended(2, Spent::default())]);
    assert!(sum.terminal_coverage_complete);
    assert_eq!((sum.tokens, sum.unknown_runs.total), (Tokens::default(), 2));
}

#[test]
fn a_session_that_failed_brings_what_it_had_used_before() {
    let Event::SessionEnded { session, outcome, wall_ms, .. } = ended(1, Spent::default()) else { unreachable!() };
    let failed = Event::SessionEnded { session, outcome, good: false, limited: false, wall_ms, spent: used(2, 1, 30) };
    assert_eq!(fed(&[failed]).tokens.total, Figure::whole(30));
}

#[test]
fn groups_that_overlap_each_count_what_they_were_told_of() {
    let (all, reviews) = (Group::default(), Group::default());
    let (to_all, to_reviews) = (|event: &Event| all.observe(event), |event: &Event| reviews.observe(event));
    let both = compose(&[Some(&to_all), Some(&to_reviews)]).unwrap();
    to_all(&ended(1, used(1, 0, 10)));
    both(&ended(2, used(1, 1, 20)));
    let (all, reviews) = (all.snapshot(), reviews.snapshot());
    assert_eq!((all.tokens.total, reviews.tokens.total), (Figure::whole(30), Figure::whole(20)));
    assert_eq!((all.transient_retries, reviews.transient_retries), (1, 1));
}

#[test]
fn branches_retries_repairs_and_failures_count_once_each_in_every_group_that_chose_them() {
    let (conversation, checks, all) = (Group::default(), Group::default(), Group::default());
    let in_all = |event: &Event| all.observe(event);
    let (in_conversation, in_checks) =
        (|event: &Event| conversation.observe(event), |event: &Event| checks.observe(event));
    let tell_conversation = compose(&[Some(&in_conversation), Some(&in_all)]).unwrap();
    let tell_checks = compose(&[Some(&in_checks), Some(&in_all)]).unwrap();
    let child = |number: u32, event: fn(SessionName) -> Event| {
        let mut child = session(number);
        child.parent = Some(session(1).run_id());
        event(child)
    };
    let spent = |attempts, transient_retries, repair_turns, total| Spent {
        counters: Counters { attempts, transient_retries, repair_turns },
        tokens: Tokens { total: Figure::whole(total), ..Tokens::default() },
        ..Spent::default()
    };
    // A first session that was tried again, two branches of it, one of which repairs and one of which fails after it was
    // served, and somebody's check in between. What is told twice counts once.
    for _ in 0..2 {
        tell_conversation(&Event::RetryDelayed { session: session(1), attempt: 1, delay_ms: 5 });
        tell_conversation(&ended(1, spent(2, 1, 0, 100)));
        tell_checks(&ended(9, spent(1, 0, 0, 7)));
        tell_conversation(&child(2, |session| Event::AttemptStarted { session, attempt: 1 }));
        tell_conversation(&ended(2, spent(1, 0, 1, 130)));
        tell_conversation(&child(3, |session| Event::SessionStarted { session, count: 3 }));
        let Event::SessionEnded { session, outcome, wall_ms, .. } = ended(3, Spent::default()) else { unreachable!() };
        let spent = spent(1, 0, 0, 20);
        tell_conversation(&Event::SessionEnded { session, outcome, good: false, limited: false, wall_ms, spent });
    }
    for (group, members, counters, total) in
        [(&conversation, 3, (4, 1, 1), 250), (&checks, 1, (1, 0, 0), 7), (&all, 4, (5, 1, 1), 257)]
    {
        let seen = group.snapshot();
        assert_eq!((seen.members.len(), seen.terminal_coverage_complete), (members, true));
        assert_eq!((seen.attempts, seen.transient_retries, seen.repair_turns), counters);
        assert_eq!((seen.tokens.total, seen.unknown_runs.input), (Figure::whole(total), members as u64));
    }
}

#[test]
fn a_parent_is_no_member_because_its_child_is() {
    let mut child = session(2);
    child.parent = Some(session(1).run_id());
    let summary = fed(&[Event::AttemptStarted { session: child.clone(), attempt: 1 }]);
    assert_eq!(summary.members, [Member { run_id: child.run_id(), terminal_observed: false }]);
}

#[test]
fn a_snapshot_is_a_value_of_its_own() {
    let group = Group::default();
    group.observe(&ended(1, used(1, 0, 10)));
    let mut first = group.snapshot();
    first.members.clear();
    first.tokens = Tokens::default();
    let second = group.snapshot();
    assert_eq!((second.members.len(), second.tokens.input), (1, Figure::whole(10)));
    group.observe(&started(2));
    assert_eq!(second.members.len(), 1);
}

#[test]
fn every_snapshot_agrees_with_itself_while_many_threads_are_told_of_sessions() {
    let (group, over) = (Group::default(), AtomicBool::new(false));
    let (group, over) = (&group, &over);
    thread::scope(|scope| {
        let reader = scope.spawn(move || {
            let mut last = 0;
            while !over.load(Ordering::Acquire) {
                let seen = group.snapshot();
                let ended = seen.members.iter().filter(|member| member.terminal_observed).count();
                assert_eq!(seen.attempts, ended as u64);
                assert_eq!(seen.terminal_coverage_complete, ended == seen.members.len());
                let tokens = if seen.members.is_empty() { Figure::NOTHING } else { seen.tokens.total };
                assert_eq!(tokens.value, 10 * ended as u64);
                assert_eq!(seen.unknown_runs.total, (seen.members.len() - ended) as u64);
                assert!(ended >= last, "an end is not taken back");
                last = ended;
            }
        });
        let writers = [0, 1, 2, 3].map(|writer| {
            scope.spawn(move || {
                for number in 0..200 {
                    // Neighbours tell of the same sessions.
                    let number = (writer / 2) * 1000 + number;
                    group.observe(&started(number));
                    group.observe(&ended(number, used(1, 0, 10)));
                }
            })
        });
        for writer in writers {
            writer.join().unwrap();
        }
        over.store(true, Ordering::Release);
        reader.join().unwrap();
    });
    let last = group.snapshot();
    assert_eq!((last.members.len(), last.attempts, last.tokens.total), (400, 400, Figure::whole(4000)));
}

#[test]
fn a_group_is_of_use_after_another_observer_panicked() {
    let group = Group::default();
    let observe = |event: &Event| group.observe(event);
    let broken: &Observer<'_> = &|event| {
        let Event::SessionEnded { .. } = event else { return };
        panic!("broken observer");
    };
    let both = compose(&[Some(broken), Some(&observe)]).unwrap();
    both(&started(1));
    assert!(catch_unwind(AssertUnwindSafe(|| both(&ended(1, used(1, 0, 10))))).is_err());
    let summary = group.snapshot();
    assert_eq!((summary.members.len(), summary.terminal_coverage_complete), (1, false), "no end is made up");
}

#[test]
fn a_group_is_of_use_after_a_thread_died_with_its_lock() {
    let group = Group::default();
    group.observe(&ended(1, used(1, 0, 10)));
    let died = catch_unwind(AssertUnwindSafe(|| {
        let _held = group.sums.lock();
        panic!("while it is locked");
    }));
    assert!(died.is_err() && group.sums.is_poisoned());
    group.observe(&ended(2, used(1, 0, 5)));
    assert_eq!(group.snapshot().tokens.total, Figure::whole(15));
}

#[test]
fn a_snapshot_can_be_taken_inside_an_observer() {
    let group = Group::default();
    let observe = |event: &Event| group.observe(event);
    let look = |_: &Event| assert!(group.snapshot().terminal_coverage_complete);
    compose(&[Some(&observe), Some(&look)]).unwrap()(&ended(1, Spent::default()));
}
