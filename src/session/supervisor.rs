//! Decides what happens to a session next: a pure step from what was observed to what must be done.
//!
//! Owns the stages and the order of an ending: exit grace, request to end (TERM, or INT), kill grace, KILL, drain window. Starts,
//! signals and waits for nothing, and reads no clock: `now` is the time since the session was asked for, without time the
//! machine was suspended.

use std::time::Duration;

use super::launch::Limits;
use super::result::{Ended, Ladder};
use super::stage::{Cause, Lifecycle, Owner, Stage, StageRecord};
use crate::agents::StopSignal;

/// How long the start of an agent may take: a guardian that does not answer within it is broken.
const START: Duration = Duration::from_secs(30);

/// What was observed. The order is the order in which simultaneous observations count: cancellation wins a tie, and
/// whoever made the transition made it before ending.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Input {
    /// No other tree is supervised any more.
    Acquired,
    /// The coordinator received this signal.
    Signal(i32),
    /// The agent's process came to be.
    Started,
    /// No process came to be.
    CouldNotStart,
    /// The guardian ended although nobody told it to.
    GuardianLost,
    /// The task's row shows the session's transition.
    Transition,
    /// The output grew, or a file was changed.
    Activity,
    /// A bound on the output was reached, and that is to end the session.
    OutputLimit,
    /// The leader ended; whether anything else of its tree lives.
    LeaderEnded { survivors: bool },
    /// Nothing of the tree lives.
    TreeGone,
    /// All output was read.
    Drained,
}

/// What must be done now, in the order given.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Action {
    /// Take the state lock, so that no transition is cut in half.
    HoldState,
    /// Ask the leader to end in the way it cleans up on (INT), and everything outside its group to end.
    Interrupt,
    /// Ask everything of the tree to end (TERM).
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
    Queued,
    Acquired {
        until: Duration,
    },
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
    Draining {
        until: Duration,
    },
    Completed,
}

impl Phase {
    fn stage(self) -> Stage {
        match self {
            Self::Queued => Stage::Queued,
            Self::Acquired { .. } => Stage::Acquired,
            Self::Running | Self::Leaving { .. } => Stage::Running,
            Self::Ending { .. } | Self::Killing => Stage::Terminating,
            Self::Draining { .. } => Stage::Draining,
            Self::Completed => Stage::Completed,
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Leader {
    /// It has not been started.
    Absent,
    Alive,
    /// It ended before anybody asked it to.
    EndedByItself,
    EndedMeanwhile,
}

/// What was observed besides the reason that ended the session.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[expect(clippy::struct_excessive_bools, reason = "each is one observation that may come with any other")]
pub(crate) struct Flags {
    /// The wall limit passed while the leader ran.
    pub(crate) timed_out: bool,
    /// The idle limit passed while the leader ran.
    pub(crate) idle: bool,
    /// A bound on the output was reached that ends the session.
    pub(crate) output_limit: bool,
    /// The task's transition was seen.
    pub(crate) transition_seen: bool,
    /// The guardian was killed, and the coordinator finished its job.
    pub(crate) guardian_lost: bool,
}

/// The state of one supervised session.
#[derive(Debug)]
pub(crate) struct Supervisor {
    limits: Limits,
    keeper: Owner,
    lifecycle: Lifecycle,
    phase: Phase,
    leader: Leader,
    started: Duration,
    active: Duration,
    primary: Option<Ended>,
    cancelled: Option<i32>,
    flags: Flags,
    ladder: Ladder,
}

impl Supervisor {
    /// A session that was just asked for; `keeper` is who will end its tree.
    pub(crate) fn new(limits: Limits, keeper: Owner) -> Self {
        Self {
            limits,
            keeper,
            lifecycle: Lifecycle::queued(),
            phase: Phase::Queued,
            leader: Leader::Absent,
            started: Duration::ZERO,
            active: Duration::ZERO,
            primary: None,
            cancelled: None,
            flags: Flags::default(),
            ladder: Ladder::NotNeeded,
        }
    }

    /// Takes everything observed in one wake-up, perhaps only that time has passed, at `now`.
    pub(crate) fn step(&mut self, mut inputs: Vec<Input>, now: Duration) -> Actions {
        let mut todo = Vec::new();
        // Stable, and without the numbers: signals stay in the order in which they came.
        inputs.sort_by_key(|input| if matches!(input, Input::Signal(_)) { Input::Signal(0) } else { *input });
        for input in inputs {
            self.take(input, now, &mut todo);
        }
        self.check_deadlines(now, &mut todo);
        if self.phase == Phase::Killing && !todo.contains(&Action::Kill) {
            todo.push(Action::Kill);
        }
        Actions { todo, wake_at: self.wake_at(), finished: self.phase == Phase::Completed }
    }

    fn take(&mut self, input: Input, now: Duration, todo: &mut Vec<Action>) {
        match input {
            Input::Acquired => self.enter(Phase::Acquired { until: now.saturating_add(START) }, now, Cause::TurnCame),
            Input::Signal(number) => self.signal(number, now, todo),
            Input::Started => self.begin(now),
            Input::CouldNotStart => self.could_not_start(now),
            Input::GuardianLost => self.guardian_lost(now, todo),
            Input::Transition => self.transition(now),
            Input::Activity => self.active = now,
            Input::OutputLimit => {
                self.flags.output_limit = true;
                self.end((Ended::OutputLimit, Cause::OutputLimit), now, todo);
            }
            Input::LeaderEnded { survivors } => self.leader_ended(survivors, now, todo),
            Input::TreeGone => self.drain(now),
            Input::Drained => self.enter(Phase::Completed, now, Cause::OutputRead),
        }
    }

    /// Every change of phase goes through here; one that the table of stages does not hold does not happen.
    fn enter(&mut self, phase: Phase, now: Duration, why: Cause) {
        let stage = phase.stage();
        let owner = match stage {
            Stage::Running | Stage::Terminating => self.keeper,
            _ => Owner::Coordinator,
        };
        if stage == self.phase.stage() || self.lifecycle.enter(stage, owner, (now, why)) {
            self.phase = phase;
        }
    }

    fn signal(&mut self, number: i32, now: Duration, todo: &mut Vec<Action>) {
        match self.cancelled {
            None => {
                self.cancelled = Some(number);
                if self.phase == Phase::Queued {
                    self.primary.get_or_insert(Ended::Interrupted);
                    self.enter(Phase::Completed, now, Cause::Cancelled);
                }
                self.end((Ended::Interrupted, Cause::Cancelled), now, todo);
            }
            Some(_) => self.kill(todo),
        }
    }

    fn begin(&mut self, now: Duration) {
        self.leader = Leader::Alive;
        (self.started, self.active) = (now, now);
        if matches!(self.phase, Phase::Acquired { .. }) {
            self.enter(Phase::Running, now, Cause::Started);
        } else if self.is_ending() {
            self.ladder = self.ladder.max(Ladder::Terminated);
        }
    }

    fn could_not_start(&mut self, now: Duration) {
        self.primary.get_or_insert(Ended::CouldNotStart { reason: String::new() });
        if matches!(self.phase, Phase::Acquired { .. }) {
            self.enter(Phase::Completed, now, Cause::CouldNotStart);
        }
    }

    /// The tree came to the coordinator. What the agent would do unguarded is not waited for.
    fn guardian_lost(&mut self, now: Duration, todo: &mut Vec<Action>) {
        self.flags.guardian_lost = true;
        self.keeper = Owner::Coordinator;
        if self.leader == Leader::Absent {
            self.primary.get_or_insert(Ended::CouldNotStart { reason: String::new() });
        }
        self.end((Ended::GuardianLost, Cause::GuardianLost), now, todo);
    }

    fn transition(&mut self, now: Duration) {
        self.flags.transition_seen = true;
        self.active = now;
        self.primary.get_or_insert(Ended::Transition);
        if self.phase == Phase::Running {
            self.phase = Phase::Leaving { until: now.saturating_add(self.limits.exit_grace) };
        }
    }

    fn leader_ended(&mut self, survivors: bool, now: Duration, todo: &mut Vec<Action>) {
        self.leader = match self.phase.stage() {
            Stage::Running => Leader::EndedByItself,
            _ => Leader::EndedMeanwhile,
        };
        self.primary.get_or_insert(Ended::Exited);
        if survivors {
            self.end((Ended::Exited, Cause::LeftBehind), now, todo);
        } else {
            self.drain(now);
        }
    }

    fn drain(&mut self, now: Duration) {
        self.enter(Phase::Draining { until: now.saturating_add(self.limits.drain) }, now, Cause::NothingLeft);
    }

    fn check_deadlines(&mut self, now: Duration, todo: &mut Vec<Action>) {
        let is_over = matches!(self.phase, Phase::Draining { .. } | Phase::Completed);
        let wall = (self.leader == Leader::Alive && !is_over && now >= self.wall_at()).then(|| self.wall_at());
        let idle = self.idle_at().filter(|at| now >= *at);
        self.flags.timed_out |= wall.is_some();
        self.flags.idle |= idle.is_some();
        let is_idle_first = idle.is_some_and(|idle| wall.is_none_or(|wall| idle < wall));
        if is_idle_first {
            self.end((Ended::IdleTimedOut, Cause::IdleLimit), now, todo);
        } else if wall.is_some() {
            self.end((Ended::TimedOut, Cause::WallLimit), now, todo);
        }
        match self.phase {
            Phase::Acquired { until } if now >= until => {
                self.primary.get_or_insert(Ended::CouldNotStart { reason: String::new() });
                self.end((Ended::GuardianLost, Cause::CouldNotStart), now, todo);
            }
            Phase::Leaving { until } if now >= until => {
                self.end((Ended::Transition, Cause::GraceOver), now, todo);
            }
            Phase::Draining { until } if now >= until => self.enter(Phase::Completed, now, Cause::DrainWindow),
            _ => {}
        }
        if let Phase::Ending { until } = self.phase
            && now >= until
        {
            self.kill(todo);
        }
    }

    /// Starts the ladder unless it has been started; the first reason is the one that counts.
    fn end(&mut self, (reason, why): (Ended, Cause), now: Duration, todo: &mut Vec<Action>) {
        if !matches!(self.phase.stage(), Stage::Acquired | Stage::Running) {
            return;
        }
        self.primary.get_or_insert(reason);
        if self.leader != Leader::Absent {
            self.ladder = Ladder::Terminated;
            todo.push(Action::HoldState);
        }
        let may_clean_up = self.limits.stop == StopSignal::Interrupt && self.leader == Leader::Alive;
        todo.push(if may_clean_up { Action::Interrupt } else { Action::Terminate });
        self.enter(Phase::Ending { until: now.saturating_add(self.limits.kill_grace) }, now, why);
    }

    fn kill(&mut self, todo: &mut Vec<Action>) {
        if matches!(self.phase, Phase::Ending { .. }) {
            self.phase = Phase::Killing;
            self.ladder = Ladder::Killed;
            todo.push(Action::Kill);
        }
    }

    fn wall_at(&self) -> Duration {
        self.started.saturating_add(self.limits.wall)
    }

    /// When the session has been idle for too long, as far as is known now.
    fn idle_at(&self) -> Option<Duration> {
        let waits = self.leader == Leader::Alive && self.phase.stage() == Stage::Running;
        self.limits.idle_timeout.filter(|_| waits).map(|limit| self.active.saturating_add(limit))
    }

    fn wake_at(&self) -> Option<Duration> {
        let limit = self.idle_at().map_or(self.wall_at(), |idle| idle.min(self.wall_at()));
        match self.phase {
            Phase::Running => Some(limit),
            Phase::Leaving { until } => Some(until.min(limit)),
            Phase::Acquired { until } | Phase::Ending { until } | Phase::Draining { until } => Some(until),
            Phase::Queued | Phase::Killing | Phase::Completed => None,
        }
    }

    /// Where the session is.
    pub(crate) fn stage(&self) -> Stage {
        self.phase.stage()
    }

    /// The stages it went through.
    pub(crate) fn stages(&self) -> &[StageRecord] {
        self.lifecycle.records()
    }

    /// The tree is being ended, so the end of any of its processes is news.
    pub(crate) fn is_ending(&self) -> bool {
        self.stage() == Stage::Terminating
    }

    /// A limit of time passes at `now`, so what would count against it must be looked for before.
    pub(crate) fn is_limit_due(&self, now: Duration) -> bool {
        self.stage() == Stage::Running && self.wake_at().is_some_and(|at| now >= at)
    }

    /// A transition that was completed while the tree was being ended is a fact of the session, not its cause of ending.
    pub(crate) fn note_transition(&mut self) {
        self.flags.transition_seen = true;
    }

    /// The leader ended before anybody asked it to, so what lives on was left behind by it.
    pub(crate) fn left_alone(&self) -> bool {
        self.leader == Leader::EndedByItself
    }

    /// Why the session ended: the first observation that ended it.
    pub(crate) fn primary(&self) -> Ended {
        self.primary.clone().unwrap_or(Ended::Exited)
    }

    /// What else was observed.
    pub(crate) fn flags(&self) -> Flags {
        self.flags
    }

    /// The first signal received during the session.
    pub(crate) fn cancelled(&self) -> Option<i32> {
        self.cancelled
    }

    /// How far the ending went.
    pub(crate) fn ladder(&self) -> Ladder {
        self.ladder
    }

    /// When the agent's process came to be.
    pub(crate) fn started(&self) -> Duration {
        self.started
    }
}

#[cfg(test)]
mod tests;
