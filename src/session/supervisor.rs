//! Decides what happens to a session next: a pure step from what was observed to what must be done.
//!
//! Owns the order of an ending: exit grace, request to end (TERM), kill grace, KILL. Starts, signals and waits for nothing,
//! and reads no clock: `now` is the time since the launch, without time the machine was suspended.

use std::time::Duration;

use super::launch::Limits;
use super::result::{Ended, Ladder};

/// The same signal sooner than this after the first one is the same request delivered twice, as `timeout(1)` does by
/// signalling both its child and its group.
const REPEAT: Duration = Duration::from_millis(50);

/// What was observed. The order is the order in which simultaneous observations count: cancellation wins a tie, and
/// whoever made the transition made it before ending.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Input {
    /// The coordinator received this signal.
    Signal(i32),
    /// The task's row shows the session's transition.
    Transition,
    /// The leader ended; whether anything else of its tree lives.
    LeaderEnded { survivors: bool },
    /// Nothing of the tree lives.
    TreeGone,
}

/// What must be done now, in the order given.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Action {
    /// Take the state lock, so that no transition is cut in half.
    HoldState,
    /// Ask everything of the tree to end.
    Terminate,
    /// End everything of the tree.
    Kill,
}

/// The answer of one step.
#[must_use]
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Actions {
    /// What to do, in order.
    pub(crate) todo: Vec<Action>,
    /// When to step again at the latest.
    pub(crate) wake_at: Option<Duration>,
    /// Nothing is left to supervise.
    pub(crate) finished: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    Running,
    /// The transition was seen; the agent may still exit by itself.
    Leaving {
        until: Duration,
    },
    /// Everything was asked to end.
    Ending {
        until: Duration,
    },
    Killing,
    Gone,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Leader {
    Alive,
    /// It ended before anybody asked it to.
    EndedByItself,
    EndedMeanwhile,
}

/// The state of one supervised session.
#[derive(Debug)]
pub(crate) struct Supervisor {
    limits: Limits,
    phase: Phase,
    leader: Leader,
    primary: Option<Ended>,
    cancelled: Option<(i32, Duration)>,
    timed_out: bool,
    transition_seen: bool,
    ladder: Ladder,
}

impl Supervisor {
    pub(crate) fn new(limits: Limits) -> Self {
        Self {
            limits,
            phase: Phase::Running,
            leader: Leader::Alive,
            primary: None,
            cancelled: None,
            timed_out: false,
            transition_seen: false,
            ladder: Ladder::NotNeeded,
        }
    }

    /// Takes everything observed in one wake-up, perhaps only that time has passed, at `now` since the launch.
    pub(crate) fn step(&mut self, mut inputs: Vec<Input>, now: Duration) -> Actions {
        let mut todo = Vec::new();
        inputs.sort_unstable();
        for input in inputs {
            self.take(input, now, &mut todo);
        }
        self.check_deadlines(now, &mut todo);
        if self.phase == Phase::Killing && !todo.contains(&Action::Kill) {
            todo.push(Action::Kill);
        }
        Actions { todo, wake_at: self.wake_at(), finished: self.phase == Phase::Gone }
    }

    fn take(&mut self, input: Input, now: Duration, todo: &mut Vec<Action>) {
        match (input, self.cancelled) {
            (Input::Signal(number), None) => {
                self.cancelled = Some((number, now));
                self.end(Ended::Interrupted, now, todo);
            }
            (Input::Signal(number), Some((first, at))) if number != first || now.saturating_sub(at) >= REPEAT => {
                self.kill(todo);
            }
            (Input::Signal(_), Some(_)) => {}
            (Input::Transition, _) => self.transition(now),
            (Input::LeaderEnded { survivors }, _) => self.leader_ended(survivors, now, todo),
            (Input::TreeGone, _) => self.phase = Phase::Gone,
        }
    }

    fn transition(&mut self, now: Duration) {
        self.transition_seen = true;
        self.primary.get_or_insert(Ended::Transition);
        if self.phase == Phase::Running {
            self.phase = Phase::Leaving { until: now.saturating_add(self.limits.exit_grace) };
        }
    }

    fn leader_ended(&mut self, survivors: bool, now: Duration, todo: &mut Vec<Action>) {
        self.leader = match self.phase {
            Phase::Running | Phase::Leaving { .. } => Leader::EndedByItself,
            Phase::Ending { .. } | Phase::Killing | Phase::Gone => Leader::EndedMeanwhile,
        };
        if survivors {
            self.end(Ended::Exited, now, todo);
        } else {
            self.primary.get_or_insert(Ended::Exited);
            self.phase = Phase::Gone;
        }
    }

    fn check_deadlines(&mut self, now: Duration, todo: &mut Vec<Action>) {
        if self.leader == Leader::Alive && self.phase != Phase::Gone && now >= self.limits.wall {
            self.timed_out = true;
            self.end(Ended::TimedOut, now, todo);
        }
        if let Phase::Leaving { until } = self.phase
            && now >= until
        {
            self.end(Ended::Transition, now, todo);
        }
        if let Phase::Ending { until } = self.phase
            && now >= until
        {
            self.kill(todo);
        }
    }

    /// Starts the ladder unless it has been started; the first reason is the one that counts.
    fn end(&mut self, reason: Ended, now: Duration, todo: &mut Vec<Action>) {
        self.primary.get_or_insert(reason);
        if matches!(self.phase, Phase::Running | Phase::Leaving { .. }) {
            self.phase = Phase::Ending { until: now.saturating_add(self.limits.kill_grace) };
            self.ladder = Ladder::Terminated;
            todo.extend([Action::HoldState, Action::Terminate]);
        }
    }

    fn kill(&mut self, todo: &mut Vec<Action>) {
        if matches!(self.phase, Phase::Ending { .. }) {
            self.phase = Phase::Killing;
            self.ladder = Ladder::Killed;
            todo.push(Action::Kill);
        }
    }

    fn wake_at(&self) -> Option<Duration> {
        match self.phase {
            Phase::Running => Some(self.limits.wall),
            Phase::Leaving { until } => Some(until.min(self.limits.wall)),
            Phase::Ending { until } => Some(until),
            Phase::Killing | Phase::Gone => None,
        }
    }

    /// The tree is being ended, so the end of any of its processes is news.
    pub(crate) fn is_ending(&self) -> bool {
        matches!(self.phase, Phase::Ending { .. } | Phase::Killing)
    }

    /// The session's transition has been seen.
    pub(crate) fn transition_seen(&self) -> bool {
        self.transition_seen
    }

    /// A transition that was completed while the tree was being ended is a fact of the session, not its cause of ending.
    pub(crate) fn note_transition(&mut self) {
        self.transition_seen = true;
    }

    /// The leader ended before anybody asked it to, so what lives on was left behind by it.
    pub(crate) fn left_alone(&self) -> bool {
        self.leader == Leader::EndedByItself
    }

    /// Why the session ended: the first observation that ended it.
    pub(crate) fn primary(&self) -> Ended {
        self.primary.clone().unwrap_or(Ended::Exited)
    }

    /// The wall limit passed while the leader ran.
    pub(crate) fn timed_out(&self) -> bool {
        self.timed_out
    }

    /// The first signal received during the session.
    pub(crate) fn cancelled(&self) -> Option<i32> {
        self.cancelled.map(|(number, _)| number)
    }

    /// How far the ending went.
    pub(crate) fn ladder(&self) -> Ladder {
        self.ladder
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::{Action, Actions, Input, Leader, Phase, Supervisor};
    use crate::session::launch::Limits;
    use crate::session::result::{Ended, Ladder};
    use std::time::Duration;

    const LIMITS: Limits = Limits {
        wall: Duration::from_secs(100),
        exit_grace: Duration::from_secs(5),
        kill_grace: Duration::from_secs(3),
    };

    fn at(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    fn run(steps: &[(u64, &[Input])]) -> (Supervisor, Vec<Actions>) {
        let mut supervisor = Supervisor::new(LIMITS);
        let actions = steps.iter().map(|(now, inputs)| supervisor.step(inputs.to_vec(), at(*now))).collect();
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
        let (supervisor, actions) = run(&[
            (4, &[Input::LeaderEnded { survivors: true }]),
            (5, &[]),
            (7, &[]),
            (8, &[]),
            (8, &[Input::TreeGone]),
        ]);
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
        let (supervisor, actions) =
            run(&[(10, &[Input::Transition]), (12, &[Input::LeaderEnded { survivors: false }])]);
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
        assert_eq!((supervisor.primary(), supervisor.timed_out()), (Ended::Transition, true));
    }

    #[test]
    fn the_first_signal_asks_and_the_second_kills_at_once() {
        let (supervisor, actions) = run(&[(3, &[Input::Signal(15)]), (4, &[Input::Signal(2)])]);
        assert_eq!(actions[0].todo, [Action::HoldState, Action::Terminate]);
        assert_eq!(actions[1].todo, [Action::Kill]);
        assert_eq!((supervisor.primary(), supervisor.cancelled()), (Ended::Interrupted, Some(15)));
    }

    #[test]
    fn one_request_delivered_twice_is_one_signal() {
        let mut supervisor = Supervisor::new(LIMITS);
        let first = supervisor.step(vec![Input::Signal(15), Input::Signal(15)], at(3));
        let again = supervisor.step(vec![Input::Signal(15)], at(3) + Duration::from_millis(20));
        assert!(!first.todo.contains(&Action::Kill) && again.todo.is_empty());
    }

    #[test]
    fn cancellation_wins_a_tie_and_the_rest_is_still_told() {
        let (supervisor, _) = run(&[(100, &[Input::Transition, Input::Signal(2)])]);
        assert_eq!(supervisor.primary(), Ended::Interrupted);
        assert!(supervisor.transition_seen() && supervisor.timed_out());
    }

    #[test]
    fn a_transition_wins_over_the_exit_seen_with_it() {
        let (supervisor, _) = run(&[(5, &[Input::LeaderEnded { survivors: false }, Input::Transition])]);
        assert_eq!(supervisor.primary(), Ended::Transition);
    }

    #[test]
    fn an_exit_wins_over_the_wall_limit_seen_with_it() {
        let (supervisor, _) = run(&[(100, &[Input::LeaderEnded { survivors: false }])]);
        assert_eq!((supervisor.primary(), supervisor.timed_out()), (Ended::Exited, false));
    }

    #[test]
    fn the_first_reason_stays_the_reason() {
        let (supervisor, _) = run(&[(100, &[]), (101, &[Input::Signal(2)])]);
        assert_eq!((supervisor.primary(), supervisor.cancelled()), (Ended::TimedOut, Some(2)));
    }

    #[test]
    fn without_a_kill_grace_the_kill_follows_at_once() {
        let mut supervisor = Supervisor::new(Limits { kill_grace: Duration::ZERO, ..LIMITS });
        let actions = supervisor.step(vec![Input::Signal(2)], at(1));
        assert_eq!(actions.todo, [Action::HoldState, Action::Terminate, Action::Kill]);
    }

    fn any_input() -> impl Strategy<Value = Input> {
        prop_oneof![
            Just(Input::Transition),
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
            let mut supervisor = Supervisor::new(LIMITS);
            let mut now = 0;
            let mut done = Vec::new();
            for (passed, inputs) in steps {
                if supervisor.phase == Phase::Gone {
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
            prop_assert!(!ended_late || supervisor.is_ending() && supervisor.timed_out());
        }
    }
}
