//! The loop around one process tree: waits in one `poll(2)` for whatever happens next, hands it to the supervisor and carries
//! out what that decides. Decides nothing itself.

use std::any::Any;
use std::time::{Duration, Instant};

use super::adopting::Adopting;
use super::direct::FALLBACK;
use super::keeper::Keeper;
use super::launch::{Limits, Watched};
use super::output::{DrainStatus, OutputRecord, Streams, Tap};
use super::result::{Ended, ExecutionResult, NAMED, RESULT_SCHEMA};
use super::row_watch::RowWatch;
use super::signals::Signals;
use super::slot::Slot;
use super::spawn::keep_exit_statuses;
use super::stage::{Owner, Stage};
use super::supervisor::{Action, Actions, Input, Supervisor};
use super::timekeeper::Reading;
use super::wait::wait;
use crate::agents::StopSignal;

/// Whom to ask and whom to listen to while a tree lives.
pub(crate) struct Supervision<'a> {
    pub(crate) watched: Option<&'a mut dyn Watched>,
    pub(crate) signals: &'a Signals,
    /// Signals received before these do not concern the tree.
    pub(crate) signals_before: usize,
    pub(crate) limits: Limits,
}

/// A session's process, and its output if that is to be followed.
pub(crate) struct Started {
    pub(crate) keeper: Keeper,
    pub(crate) streams: Option<Streams>,
}

/// How a session's process comes to be; `Err` says why it did not, for a person.
pub(crate) type Start<'a> = &'a mut dyn FnMut() -> Result<Started, String>;

/// Waits for its turn, starts a tree and supervises it until nothing of it lives.
pub(crate) fn supervise(start: Start<'_>, supervision: &mut Supervision<'_>, owner: Owner) -> ExecutionResult {
    let session = Session {
        supervisor: Supervisor::new(supervision.limits, owner),
        signals_seen: supervision.signals_before,
        row: None,
        supervision,
        keeper: None,
        streams: None,
        output: OutputRecord::default(),
        asked: Reading::now(),
        held: None,
        refusal: None,
        turn: None,
    };
    session.run(start)
}

struct Session<'a, 'b> {
    supervisor: Supervisor,
    signals_seen: usize,
    supervision: &'a mut Supervision<'b>,
    keeper: Option<Keeper>,
    streams: Option<Streams>,
    output: OutputRecord,
    row: Option<RowWatch>,
    asked: Reading,
    held: Option<Box<dyn Any>>,
    refusal: Option<String>,
    /// The last to be dropped: a tree that a panic interrupts is ended before another may begin.
    turn: Option<(Adopting, Slot)>,
}

impl Session<'_, '_> {
    fn run(mut self, start: Start<'_>) -> ExecutionResult {
        self.turn = self.queue().map(|slot| (Adopting::begin(), slot));
        if self.turn.is_none() {
            return self.result();
        }
        keep_exit_statuses();
        let mut inputs = self.new_signals();
        inputs.extend(self.start(start));
        let mut actions = self.step(inputs);
        while !actions.finished {
            self.wait(actions.wake_at);
            let inputs = self.observe();
            actions = self.step(inputs);
        }
        self.result()
    }

    fn step(&mut self, inputs: Vec<Input>) -> Actions {
        let actions = self.supervisor.step(inputs, self.elapsed());
        for action in &actions.todo {
            self.carry_out(*action);
        }
        actions
    }

    /// Waits for the turn; `None` if the session was cancelled before it came.
    fn queue(&mut self) -> Option<Slot> {
        loop {
            let slot = Slot::try_take();
            let mut inputs = self.new_signals();
            // One that was cancelled while it waited has not got its turn.
            inputs.extend((slot.is_some() && inputs.is_empty()).then_some(Input::Acquired));
            let actions = self.step(inputs);
            if actions.finished || slot.is_some() {
                return slot.filter(|_| !actions.finished);
            }
            wait(Slot::descriptor().into_iter().chain(self.supervision.signals.descriptors()), None);
        }
    }

    /// Starts the tree, and says what came of it.
    fn start(&mut self, start: Start<'_>) -> Option<Input> {
        self.row = self.supervision.watched.as_ref().map(|watched| RowWatch::new(watched.file()));
        match start() {
            Ok(started) => {
                let is_running = matches!(started.keeper, Keeper::Own(_));
                (self.keeper, self.streams) = (Some(started.keeper), started.streams);
                // A guardian tells it when it is so.
                is_running.then_some(Input::Started)
            }
            Err(reason) => {
                self.refusal = Some(reason);
                Some(Input::CouldNotStart)
            }
        }
    }

    fn elapsed(&self) -> Duration {
        Reading::now().awake_since(self.asked)
    }

    fn new_signals(&mut self) -> Vec<Input> {
        let signals = self.supervision.signals.after(self.signals_seen);
        self.signals_seen += signals.len();
        signals.into_iter().map(Input::Signal).collect()
    }

    fn observe(&mut self) -> Vec<Input> {
        let mut inputs = self.new_signals();
        let leader_ended = self.keeper.as_mut().is_some_and(Keeper::leader_has_ended);
        self.look_at_row(leader_ended, &mut inputs);
        let ending = self.supervisor.is_ending();
        match &mut self.keeper {
            Some(keeper) => inputs.extend(keeper.observe(ending)),
            None => inputs.extend(ending.then_some(Input::TreeGone)),
        }
        if self.supervisor.stage() == Stage::Draining {
            self.drain_output();
            // What is not read in time is told by the window's end.
            inputs.extend((self.output.drain != DrainStatus::WindowOver).then_some(Input::Drained));
        } else if !inputs.iter().any(|input| matches!(input, Input::TreeGone | Input::LeaderEnded { survivors: false }))
        {
            self.follow_output(&mut inputs);
        }
        inputs
    }

    fn follow_output(&mut self, inputs: &mut Vec<Input>) {
        let Some(streams) = &mut self.streams else { return };
        let followed = streams.follow(&mut tap(&mut self.supervision.watched, None));
        inputs.extend(followed.grew.then_some(Input::Activity));
        let is_new = followed.over_bound && !self.supervisor.flags().output_limit;
        inputs.extend((is_new && streams.ends_session()).then_some(Input::OutputLimit));
    }

    /// Reads the last of the output, until a window is over that no amount of it can widen.
    fn drain_output(&mut self) {
        let until = Instant::now() + self.supervision.limits.drain;
        if let Some(mut streams) = self.streams.take() {
            let half = until.checked_sub(self.supervision.limits.drain / 2);
            let mut tap = tap(&mut self.supervision.watched, half);
            self.output = streams.finish(&mut tap, &mut || Instant::now() >= until);
        }
    }

    /// Looks at the row if it was touched, and one last time before an end would be called another.
    fn look_at_row(&mut self, leader_ended: bool, inputs: &mut Vec<Input>) {
        // On a busy machine the news that the agent runs and that it has ended may come together.
        let has_run = match self.supervisor.stage() {
            Stage::Running => true,
            Stage::Acquired => leader_ended,
            _ => false,
        };
        if self.supervisor.flags().transition_seen || !has_run {
            return;
        }
        let touched = self.row.as_mut().is_some_and(RowWatch::was_touched);
        let is_watched = self.row.as_ref().is_some_and(|row| row.descriptor().is_some());
        let last_look = leader_ended || self.supervisor.is_limit_due(self.elapsed());
        if (touched || last_look) && self.reached_transition() {
            inputs.push(Input::Transition);
        }
        inputs.extend((touched && is_watched).then_some(Input::Activity));
    }

    fn reached_transition(&mut self) -> bool {
        self.supervision.watched.as_mut().is_some_and(|watched| watched.reached_transition())
    }

    fn carry_out(&mut self, action: Action) {
        match (action, &mut self.keeper) {
            (Action::HoldState, _) => {
                self.held = self.supervision.watched.as_mut().map(|watched| watched.hold_state());
                if !self.supervisor.flags().transition_seen && self.reached_transition() {
                    self.supervisor.note_transition();
                }
            }
            (Action::Interrupt, Some(keeper)) => keeper.terminate(StopSignal::Interrupt),
            (Action::Terminate, Some(keeper)) => keeper.terminate(StopSignal::Terminate),
            (Action::Kill, Some(keeper)) => keeper.kill(),
            (_, None) => {}
        }
    }

    fn wait(&self, wake_at: Option<Duration>) {
        let (Some(keeper), false) = (&self.keeper, self.supervisor.stage() == Stage::Draining) else { return };
        let ending = self.supervisor.is_ending();
        // Only while the agent runs is the row looked at, and what nobody reads would end every wait at once.
        let looks_at_row = self.supervisor.stage() == Stage::Running && !self.supervisor.flags().transition_seen;
        let row = self.row.as_ref().filter(|_| looks_at_row);
        let output = self.streams.as_ref();
        let rest = output.map(Streams::rest).filter(|rest| !rest.is_zero());
        let is_blind = output.is_some_and(|output| output.descriptor().is_none())
            || row.is_some_and(|row| row.descriptor().is_none());
        let wake_in = wake_at.map(|at| at.saturating_sub(self.elapsed()));
        let limits = [wake_in, rest, is_blind.then_some(FALLBACK), keeper.look_again(ending)];
        let signals = self.supervision.signals.descriptors();
        let growth = output.and_then(Streams::descriptor).filter(|_| rest.is_none());
        let row = row.and_then(RowWatch::descriptor);
        let descriptors = signals.chain(row).chain(growth).chain(keeper.descriptors(ending));
        wait(descriptors, limits.into_iter().flatten().min());
    }

    fn result(mut self) -> ExecutionResult {
        // The window was over before it was begun, or there never was a process.
        self.drain_output();
        self.held = None;
        let flags = self.supervisor.flags();
        let keeper = self.keeper.as_mut();
        let mut kept = keeper.map(Keeper::account).unwrap_or_default();
        if !self.supervisor.left_alone() {
            kept.left_behind = (Vec::new(), 0);
        }
        kept.left_behind.0.truncate(NAMED);
        kept.refused.truncate(NAMED);
        let ended = match self.supervisor.primary() {
            Ended::CouldNotStart { .. } => {
                Ended::CouldNotStart { reason: self.refusal.or(kept.refusal).unwrap_or_default() }
            }
            other => other,
        };
        let now = Reading::now();
        let wall = kept.pid.map(|_| now.awake_since(self.asked).saturating_sub(self.supervisor.started()));
        ExecutionResult {
            schema: RESULT_SCHEMA,
            ended,
            exit: kept.exit,
            pid: kept.pid,
            timed_out: flags.timed_out,
            idle_timed_out: flags.idle,
            output_limit: flags.output_limit,
            guardian_lost: flags.guardian_lost,
            cancelled: self.supervisor.cancelled(),
            transition_seen: flags.transition_seen,
            ladder: self.supervisor.ladder(),
            leaked: kept.left_behind.0,
            leaked_count: kept.left_behind.1,
            survivors: kept.refused,
            output: self.output,
            usage: kept.usage,
            stages: self.supervisor.stages().to_vec(),
            wall_ms: milliseconds(wall.unwrap_or_default()),
            suspended_ms: milliseconds(now.suspended_since(self.asked)),
        }
    }
}

fn tap<'t>(watched: &'t mut Option<&mut dyn Watched>, until: Option<Instant>) -> Tap<'t> {
    Tap::new(watched.as_mut().map(|watched| &mut **watched as &mut dyn Watched), until)
}

fn milliseconds(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}
