//! Sessions driven by hand: no process, no clock.

use proptest::prelude::*;

use super::{Action, Actions, Input, Leader, Phase, Supervisor};
use crate::agents::StopSignal;
use crate::session::launch::Limits;
use crate::session::result::{Ended, Ladder};
use crate::session::stage::{Cause, Owner, Stage};
use crate::session::timekeeper::Reading;
use std::time::Duration;

const LIMITS: Limits = Limits {
    wall: Duration::from_secs(100),
    idle_timeout: None,
    exit_grace: Duration::from_secs(5),
    kill_grace: Duration::from_secs(3),
    stop: StopSignal::Terminate,
    drain: Duration::from_secs(2),
};

fn at(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

/// A session whose agent was started at once.
fn running(limits: Limits) -> Supervisor {
    let mut supervisor = Supervisor::new(limits, Owner::Guardian);
    let actions = supervisor.step(vec![Input::Acquired, Input::Started], at(0));
    assert!(actions.todo.is_empty() && supervisor.stage() == Stage::Running);
    supervisor
}

/// One step; where nothing lives any more, the output is read at once.
fn step_and_read(supervisor: &mut Supervisor, inputs: &[Input], now: Duration) -> Actions {
    let mut actions = supervisor.step(inputs.to_vec(), now);
    if supervisor.stage() == Stage::Draining {
        let last = supervisor.step(vec![Input::Drained], now);
        actions.todo.extend(last.todo);
        (actions.wake_at, actions.finished) = (last.wake_at, last.finished);
    }
    actions
}

fn run(steps: &[(u64, &[Input])]) -> (Supervisor, Vec<Actions>) {
    let mut supervisor = running(LIMITS);
    let actions = steps.iter().map(|(now, inputs)| step_and_read(&mut supervisor, inputs, at(*now))).collect();
    (supervisor, actions)
}

#[test]
fn an_agent_that_exits_and_leaves_nothing_needs_no_ending() {
    let (supervisor, actions) = run(&[(0, &[]), (4, &[Input::LeaderEnded { survivors: false }])]);
    assert_eq!(actions[0], Actions { todo: vec![], wake_at: Some(at(100)), finished: false });
    assert_eq!(actions[1], Actions { todo: vec![], wake_at: None, finished: true });
    assert_eq!((supervisor.primary(), supervisor.ladder()), (Ended::Exited, Ladder::NotNeeded));
}

#[test]
fn what_an_agent_leaves_behind_is_asked_then_killed() {
    let (supervisor, actions) =
        run(&[(4, &[Input::LeaderEnded { survivors: true }]), (5, &[]), (7, &[]), (8, &[]), (8, &[Input::TreeGone])]);
    assert_eq!(actions[0].todo, [Action::HoldState, Action::Terminate]);
    assert_eq!(actions[0].wake_at, Some(at(7)));
    assert_eq!(actions[1].todo, []);
    assert_eq!(actions[2].todo, [Action::Kill]);
    assert_eq!(actions[3].todo, [Action::Kill], "whatever was forked meanwhile is killed too");
    assert!(actions[4].finished && actions[4].todo.is_empty());
    assert!(supervisor.left_alone());
    assert_eq!((supervisor.primary(), supervisor.ladder()), (Ended::Exited, Ladder::Killed));
}

#[test]
fn an_agent_may_exit_by_itself_within_the_exit_grace() {
    let (supervisor, actions) = run(&[(10, &[Input::Transition]), (12, &[Input::LeaderEnded { survivors: false }])]);
    assert_eq!(actions[0], Actions { todo: vec![], wake_at: Some(at(15)), finished: false });
    assert!(actions[1].finished);
    assert_eq!((supervisor.primary(), supervisor.ladder()), (Ended::Transition, Ladder::NotNeeded));
}

#[test]
fn an_agent_that_lingers_after_its_transition_is_ended() {
    let (supervisor, actions) =
        run(&[(10, &[Input::Transition]), (15, &[]), (16, &[Input::LeaderEnded { survivors: false }])]);
    assert_eq!(actions[1].todo, [Action::HoldState, Action::Terminate]);
    assert_eq!((supervisor.primary(), supervisor.ladder()), (Ended::Transition, Ladder::Terminated));
    assert!(!supervisor.left_alone());
}

#[test]
fn the_wall_limit_also_ends_the_exit_grace_and_both_are_told() {
    let (supervisor, actions) = run(&[(98, &[Input::Transition]), (100, &[])]);
    assert_eq!(actions[0].wake_at, Some(at(100)));
    assert_eq!(actions[1].todo, [Action::HoldState, Action::Terminate]);
    assert_eq!((supervisor.primary(), supervisor.flags().timed_out), (Ended::Transition, true));
}

#[test]
fn the_first_signal_asks_and_the_second_kills_at_once() {
    let (supervisor, actions) = run(&[(3, &[Input::Signal(15)]), (4, &[Input::Signal(2)])]);
    assert_eq!(actions[0].todo, [Action::HoldState, Action::Terminate]);
    assert_eq!(actions[1].todo, [Action::Kill]);
    assert_eq!((supervisor.primary(), supervisor.cancelled()), (Ended::Interrupted, Some(15)));
}

#[test]
fn an_agent_that_cleans_up_on_int_is_asked_so_while_it_lives_and_killed_all_the_same() {
    use Action::{HoldState, Interrupt, Kill, Terminate};
    let ended: &[Input] = &[Input::LeaderEnded { survivors: true }];
    for (stop, input, wanted) in [
        (StopSignal::Interrupt, &[Input::Signal(15)][..], Interrupt),
        (StopSignal::Interrupt, &[Input::OutputLimit], Interrupt),
        (StopSignal::Interrupt, ended, Terminate),
        (StopSignal::Terminate, &[Input::Signal(15)], Terminate),
        (StopSignal::Terminate, ended, Terminate),
    ] {
        let mut supervisor = running(Limits { stop, ..LIMITS });
        let asked = supervisor.step(input.to_vec(), at(1));
        assert_eq!(asked.todo, [HoldState, wanted], "{stop:?} {input:?}");
        assert_eq!(supervisor.step(vec![], at(4)).todo, [Kill], "the grace is the same");
    }
    let mut timed_out = running(Limits { stop: StopSignal::Interrupt, ..LIMITS });
    assert_eq!(timed_out.step(vec![], at(100)).todo, [HoldState, Interrupt]);
}

#[test]
fn of_two_signals_seen_at_once_the_one_that_came_first_is_told() {
    let (supervisor, actions) = run(&[(3, &[Input::Signal(2), Input::Signal(1)])]);
    assert_eq!(supervisor.cancelled(), Some(2));
    assert!(actions[0].todo.contains(&Action::Kill));
}

#[test]
fn cancellation_wins_a_tie_and_the_rest_is_still_told() {
    let (supervisor, _) = run(&[(100, &[Input::Transition, Input::Signal(2)])]);
    assert_eq!(supervisor.primary(), Ended::Interrupted);
    assert!(supervisor.flags().transition_seen && supervisor.flags().timed_out);
}

#[test]
fn a_transition_wins_over_the_exit_seen_with_it() {
    let (supervisor, _) = run(&[(5, &[Input::LeaderEnded { survivors: false }, Input::Transition])]);
    assert_eq!(supervisor.primary(), Ended::Transition);
}

#[test]
fn a_session_of_which_everything_is_seen_in_one_wake_up_has_made_its_transition() {
    let mut supervisor = Supervisor::new(LIMITS, Owner::Guardian);
    let _acquired = supervisor.step(vec![Input::Acquired], at(0));
    let ended = Input::LeaderEnded { survivors: false };
    let actions = step_and_read(&mut supervisor, &[ended, Input::Transition, Input::Started], at(1));
    assert!(actions.finished && supervisor.flags().transition_seen);
    assert_eq!((supervisor.primary(), supervisor.ladder()), (Ended::Transition, Ladder::NotNeeded));
}

#[test]
fn an_exit_wins_over_the_wall_limit_seen_with_it() {
    let (supervisor, _) = run(&[(100, &[Input::LeaderEnded { survivors: false }])]);
    assert_eq!((supervisor.primary(), supervisor.flags().timed_out), (Ended::Exited, false));
}

#[test]
fn the_first_reason_stays_the_reason() {
    let (supervisor, _) = run(&[(100, &[]), (101, &[Input::Signal(2)])]);
    assert_eq!((supervisor.primary(), supervisor.cancelled()), (Ended::TimedOut, Some(2)));
}

#[test]
fn without_a_kill_grace_the_kill_follows_at_once() {
    let mut supervisor = running(Limits { kill_grace: Duration::ZERO, ..LIMITS });
    let actions = supervisor.step(vec![Input::Signal(2)], at(1));
    assert_eq!(actions.todo, [Action::HoldState, Action::Terminate, Action::Kill]);
}

fn causes(supervisor: &Supervisor) -> Vec<(Stage, Option<Cause>)> {
    supervisor.stages().iter().map(|record| (record.stage, record.ended_by)).collect()
}

#[test]
fn a_session_that_is_cancelled_while_it_waits_for_its_turn_never_starts() {
    let mut supervisor = Supervisor::new(LIMITS, Owner::Guardian);
    let waiting = supervisor.step(vec![], at(50));
    assert_eq!(waiting, Actions { todo: vec![], wake_at: None, finished: false });
    let actions = supervisor.step(vec![Input::Signal(15)], at(60));
    assert!(actions.finished && actions.todo.is_empty());
    assert_eq!((supervisor.primary(), supervisor.cancelled()), (Ended::Interrupted, Some(15)));
    assert_eq!(causes(&supervisor), [(Stage::Queued, Some(Cause::Cancelled)), (Stage::Completed, None)]);
}

#[test]
fn a_session_that_is_cancelled_while_its_agent_is_started_is_ended_and_nothing_is_held() {
    let mut supervisor = Supervisor::new(LIMITS, Owner::Guardian);
    let acquired = supervisor.step(vec![Input::Acquired], at(1));
    assert_eq!(acquired.wake_at, Some(at(31)), "a start has its limit");
    let actions = supervisor.step(vec![Input::Signal(2)], at(2));
    assert_eq!((actions.todo.as_slice(), actions.wake_at), (&[Action::Terminate][..], Some(at(5))));
    assert_eq!(supervisor.step(vec![], at(5)).todo, [Action::Kill]);
    assert!(step_and_read(&mut supervisor, &[Input::TreeGone], at(6)).finished);
    assert_eq!(supervisor.primary(), Ended::Interrupted);
    let stages = [Stage::Queued, Stage::Acquired, Stage::Terminating, Stage::Draining, Stage::Completed];
    assert_eq!(supervisor.stages().iter().map(|record| record.stage).collect::<Vec<_>>(), stages);
}

#[test]
fn an_agent_that_came_to_be_while_its_start_was_cancelled_is_ended() {
    let mut supervisor = Supervisor::new(LIMITS, Owner::Guardian);
    let actions = supervisor.step(vec![Input::Started, Input::Acquired, Input::Signal(2)], at(2));
    assert_eq!(actions.todo, [Action::Terminate]);
    assert_eq!((supervisor.ladder(), supervisor.stage()), (Ladder::Terminated, Stage::Terminating));
}

#[test]
fn a_session_that_is_cancelled_while_it_runs_tells_who_owned_what_and_when() {
    let (supervisor, _) = run(&[(3, &[Input::Signal(15)]), (4, &[Input::TreeGone])]);
    let told: Vec<_> = supervisor
        .stages()
        .iter()
        .map(|record| (record.stage, record.owner, record.began_ms, record.ended_by))
        .collect();
    let expected = [
        (Stage::Queued, Owner::Coordinator, 0, Some(Cause::TurnCame)),
        (Stage::Acquired, Owner::Coordinator, 0, Some(Cause::Started)),
        (Stage::Running, Owner::Guardian, 0, Some(Cause::Cancelled)),
        (Stage::Terminating, Owner::Guardian, 3000, Some(Cause::NothingLeft)),
        (Stage::Draining, Owner::Coordinator, 4000, Some(Cause::OutputRead)),
        (Stage::Completed, Owner::Coordinator, 4000, None),
    ];
    assert_eq!(told, expected);
}

#[test]
fn a_cancellation_while_the_tree_is_ended_for_another_reason_is_told_and_a_second_kills() {
    let (supervisor, actions) = run(&[(100, &[]), (101, &[Input::Signal(2)]), (102, &[Input::Signal(2)])]);
    assert!(actions[1].todo.is_empty(), "it is being ended already");
    assert_eq!(actions[2].todo, [Action::Kill]);
    assert_eq!((supervisor.primary(), supervisor.cancelled()), (Ended::TimedOut, Some(2)));
    assert!(supervisor.flags().timed_out);
}

#[test]
fn a_cancellation_while_output_is_read_is_told_and_the_window_stays_as_it_was() {
    let mut supervisor = running(LIMITS);
    let draining = supervisor.step(vec![Input::LeaderEnded { survivors: false }], at(4));
    assert_eq!((draining.wake_at, supervisor.stage()), (Some(at(6)), Stage::Draining));
    let cancelled = supervisor.step(vec![Input::Signal(15)], at(5));
    assert_eq!(cancelled, Actions { todo: vec![], wake_at: Some(at(6)), finished: false });
    assert!(supervisor.step(vec![], at(6)).finished);
    assert_eq!((supervisor.primary(), supervisor.cancelled()), (Ended::Exited, Some(15)));
    let over = &supervisor.stages()[supervisor.stages().len() - 2];
    assert_eq!((over.stage, over.ended_by), (Stage::Draining, Some(Cause::DrainWindow)));
}

#[test]
fn without_a_drain_window_the_session_is_over_with_its_tree() {
    let mut supervisor = running(Limits { drain: Duration::ZERO, ..LIMITS });
    assert!(supervisor.step(vec![Input::LeaderEnded { survivors: false }], at(4)).finished);
}

const IDLE: Limits = Limits { idle_timeout: Some(Duration::from_secs(10)), ..LIMITS };

#[test]
fn an_idle_session_is_ended_and_activity_puts_it_off() {
    let mut supervisor = running(IDLE);
    assert_eq!(supervisor.step(vec![], at(0)).wake_at, Some(at(10)));
    assert_eq!(supervisor.step(vec![Input::Activity], at(9)).wake_at, Some(at(19)));
    assert_eq!(supervisor.step(vec![], at(18)).todo, []);
    assert_eq!(supervisor.step(vec![], at(19)).todo, [Action::HoldState, Action::Terminate]);
    assert_eq!((supervisor.primary(), supervisor.flags().idle), (Ended::IdleTimedOut, true));
    assert!(!supervisor.flags().timed_out);
}

#[test]
fn of_two_limits_that_passed_in_one_sleep_the_earlier_is_primary_and_both_are_told() {
    let mut supervisor = running(IDLE);
    let _late = supervisor.step(vec![], at(200));
    assert_eq!(supervisor.primary(), Ended::IdleTimedOut);
    let mut busy = running(IDLE);
    let _busy = busy.step(vec![Input::Activity], at(95));
    let _late = busy.step(vec![], at(200));
    assert_eq!(busy.primary(), Ended::TimedOut);
    for flags in [supervisor.flags(), busy.flags()] {
        assert!(flags.timed_out && flags.idle);
    }
}

#[test]
fn cancellation_wins_a_tie_with_both_limits_and_all_is_told() {
    let mut supervisor = running(IDLE);
    let _all = supervisor.step(vec![Input::Signal(2)], at(200));
    assert_eq!((supervisor.primary(), supervisor.cancelled()), (Ended::Interrupted, Some(2)));
    assert!(supervisor.flags().timed_out);
}

#[test]
fn time_the_machine_was_suspended_counts_for_no_limit() {
    let start = Reading::of(7, 7);
    let woken = Reading::of(7 + 9, 7 + 9 + 8 * 3600);
    let mut supervisor = running(IDLE);
    assert!(supervisor.step(vec![], woken.awake_since(start)).todo.is_empty());
    assert_eq!(woken.suspended_since(start), Duration::from_hours(8));
}

#[test]
fn a_bound_on_the_output_can_end_a_session() {
    let (supervisor, actions) = run(&[(3, &[Input::OutputLimit, Input::Activity])]);
    assert_eq!(actions[0].todo, [Action::HoldState, Action::Terminate]);
    assert!(supervisor.primary() == Ended::OutputLimit && supervisor.flags().output_limit);
}

#[test]
fn the_coordinator_takes_over_what_a_lost_guardian_leaves() {
    let (supervisor, actions) = run(&[(3, &[Input::GuardianLost]), (4, &[Input::TreeGone])]);
    assert_eq!(actions[0].todo, [Action::HoldState, Action::Terminate]);
    assert_eq!(supervisor.primary(), Ended::GuardianLost);
    let ending = &supervisor.stages()[3];
    assert_eq!((ending.stage, ending.owner), (Stage::Terminating, Owner::Coordinator));
}

#[test]
fn a_guardian_that_is_lost_or_silent_before_its_agent_runs_could_not_start_it() {
    for inputs in [&[Input::GuardianLost][..], &[]] {
        let mut supervisor = Supervisor::new(LIMITS, Owner::Guardian);
        let _acquired = supervisor.step(vec![Input::Acquired], at(0));
        assert_eq!(supervisor.step(inputs.to_vec(), at(30)).todo, [Action::Terminate]);
        assert!(matches!(supervisor.primary(), Ended::CouldNotStart { .. }));
    }
}

fn any_input() -> impl Strategy<Value = Input> {
    prop_oneof![
        Just(Input::Transition),
        Just(Input::Activity),
        Just(Input::OutputLimit),
        Just(Input::GuardianLost),
        Just(Input::TreeGone),
        Just(Input::Drained),
        any::<bool>().prop_map(|survivors| Input::LeaderEnded { survivors }),
        (1..16_i32).prop_map(Input::Signal),
    ]
}

proptest! {
    /// Whatever is observed in whatever order: the state is held and the tree asked exactly once and before any kill,
    /// a finished session stays finished, and a live one always has a next wake-up or is being killed.
    #[test]
    fn every_history_is_ended_in_order(
        steps in prop::collection::vec((0..30_u64, prop::collection::vec(any_input(), 0..3)), 1..40)
    ) {
        let mut supervisor = running(LIMITS);
        let mut now = 0;
        let mut done = Vec::new();
        for (passed, inputs) in steps {
            if supervisor.phase == Phase::Completed {
                break;
            }
            now += passed;
            let actions = supervisor.step(inputs, at(now));
            prop_assert!(actions.finished || actions.wake_at.is_some() || supervisor.phase == Phase::Killing);
            if let Some(wake_at) = actions.wake_at {
                prop_assert!(wake_at > at(now), "a deadline that has passed was acted upon");
            }
            done.extend(actions.todo);
        }
        let asked: Vec<usize> = (0..done.len()).filter(|at| done[*at] == Action::Terminate).collect();
        prop_assert!(asked.len() <= 1);
        let first_kill = done.iter().position(|action| *action == Action::Kill);
        if let Some(kill) = first_kill {
            prop_assert!(asked.first().is_some_and(|asked| *asked < kill));
        }
        prop_assert_eq!(done.iter().filter(|action| **action == Action::HoldState).count(), asked.len());
        prop_assert_eq!(supervisor.ladder() == Ladder::Killed, first_kill.is_some());
        let ended_late = now >= 100 && supervisor.leader == Leader::Alive;
        prop_assert!(!ended_late || supervisor.flags().timed_out || supervisor.stage() > Stage::Terminating);
        for pair in supervisor.stages().windows(2) {
            prop_assert!(pair[0].stage.next().contains(&pair[1].stage) && pair[0].ended_by.is_some());
        }
    }
}
