//! The loop around one process tree: waits in one `poll(2)` for whatever happens next, hands it to the supervisor and carries
//! out what that decides. Decides nothing itself.

use std::any::Any;
use std::time::{Duration, Instant};

use super::launch::{Limits, Watched};
use super::output::{DrainStatus, OutputRecord, Streams};
use super::result::{Ended, ExecutionResult, LeakedProcess, NAMED, RESULT_SCHEMA};
use super::row_watch::RowWatch;
use super::signals::Signals;
use super::slot::Slot;
use super::spawn::{Program, SpawnError, keep_exit_statuses, spawn};
use super::stage::{Owner, Stage};
use super::supervisor::{Action, Actions, Input, Supervisor};
use super::timekeeper::Reading;
use super::tree::{Others, Tree};
use super::wait::wait;

/// How long to wait before looking again where the system cannot tell that something happened.
pub(crate) const FALLBACK: Duration = Duration::from_millis(250);
/// The same for the instant in which a tree that was seen to be empty is not yet confirmed to be.
const CONFIRM: Duration = Duration::from_millis(5);
/// What is gone this soon after the leader was not left behind by it.
const SETTLE: Duration = Duration::from_millis(50);
/// How often processes that ended after their parent are waited for while a session runs, so that they do not pile up.
const HOUSEKEEPING: Duration = Duration::from_secs(30);

/// Whom to ask and whom to listen to while a tree lives.
pub(crate) struct Supervision<'a> {
    pub(crate) watched: Option<&'a mut dyn Watched>,
    pub(crate) signals: &'a Signals,
    /// Signals received before these do not concern the tree.
    pub(crate) signals_before: usize,
    pub(crate) limits: Limits,
}

/// Starts the program as the leader of a tree of its own.
pub(crate) fn start_tree(program: Program<'_>) -> Result<Tree, SpawnError> {
    let others = Others::now();
    spawn(program).map(|leader| Tree::new(leader, others))
}

/// A session's process, and its output if that is to be followed.
pub(crate) struct Started {
    pub(crate) tree: Tree,
    pub(crate) streams: Option<Streams>,
}

/// How a session's process comes to be; `Err` says why it did not, for a person.
pub(crate) type Start<'a> = &'a mut dyn FnMut() -> Result<Started, String>;

/// Waits for its turn, starts a tree and supervises it until nothing of it lives.
pub(crate) fn supervise(start: Start<'_>, supervision: &mut Supervision<'_>) -> ExecutionResult {
    let session = Session {
        supervisor: Supervisor::new(supervision.limits, Owner::Coordinator),
        signals_seen: supervision.signals_before,
        row: None,
        supervision,
        tree: None,
        streams: None,
        output: OutputRecord::default(),
        asked: Reading::now(),
        leader_end_seen: false,
        housekeeping_at: HOUSEKEEPING,
        left_behind: Vec::new(),
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
    tree: Option<Tree>,
    streams: Option<Streams>,
    output: OutputRecord,
    row: Option<RowWatch>,
    asked: Reading,
    leader_end_seen: bool,
    housekeeping_at: Duration,
    left_behind: Vec<LeakedProcess>,
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
                self.tree = Some(started.tree);
                self.streams = started.streams;
                Some(Input::Started)
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
        let leader_ended = !self.leader_end_seen && self.tree.as_mut().is_some_and(|tree| tree.leader_exit().is_some());
        self.look_at_row(leader_ended, &mut inputs);
        if leader_ended {
            self.leader_end_seen = true;
            let survivors = !self.is_gone_soon();
            self.left_behind = self.tree.iter().flat_map(Tree::living).collect();
            inputs.push(Input::LeaderEnded { survivors });
        } else if self.supervisor.is_ending() {
            inputs.extend(self.tree.as_mut().is_none_or(Tree::is_gone).then_some(Input::TreeGone));
        } else if self.elapsed() >= self.housekeeping_at {
            self.housekeeping_at = self.elapsed() + HOUSEKEEPING;
            self.tree.iter().for_each(Tree::reap_orphans);
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
        let followed = streams.follow();
        inputs.extend(followed.grew.then_some(Input::Activity));
        let is_new = followed.over_bound && !self.supervisor.flags().output_limit;
        inputs.extend((is_new && streams.ends_session()).then_some(Input::OutputLimit));
    }

    /// Reads the last of the output, until a window is over that no amount of it can widen.
    fn drain_output(&mut self) {
        let until = Instant::now() + self.supervision.limits.drain;
        if let Some(mut streams) = self.streams.take() {
            self.output = streams.finish(&mut || Instant::now() >= until);
        }
    }

    /// Whether nothing is left, given a moment for what ends together with the leader, as the other end of a pipe does.
    fn is_gone_soon(&mut self) -> bool {
        let Some(tree) = &mut self.tree else { return true };
        let seen = Instant::now();
        loop {
            if tree.is_gone() {
                return true;
            }
            let left = SETTLE.saturating_sub(seen.elapsed());
            if left.is_zero() {
                return false;
            }
            wait(tree.member_descriptors(), Some(left));
        }
    }

    /// Looks at the row if it was touched, and one last time before an end would be called another.
    fn look_at_row(&mut self, leader_ended: bool, inputs: &mut Vec<Input>) {
        if self.supervisor.flags().transition_seen || self.supervisor.stage() != Stage::Running {
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
        match (action, &mut self.tree) {
            (Action::HoldState, _) => {
                self.held = self.supervision.watched.as_mut().map(|watched| watched.hold_state());
                if !self.supervisor.flags().transition_seen && self.reached_transition() {
                    self.supervisor.note_transition();
                }
            }
            (Action::Terminate, Some(tree)) => tree.terminate(),
            (Action::Kill, Some(tree)) => tree.kill(),
            (_, None) => {}
        }
    }

    fn wait(&self, wake_at: Option<Duration>) {
        let (Some(tree), false) = (&self.tree, self.supervisor.stage() == Stage::Draining) else { return };
        let ending = self.supervisor.is_ending();
        let row = self.row.as_ref().filter(|_| !ending && !self.supervisor.flags().transition_seen);
        let now = self.elapsed();
        let mut at_most = wake_at.map(|at| at.saturating_sub(now));
        let mut no_later_than = |limit: Duration| at_most = Some(at_most.map_or(limit, |time| time.min(limit)));
        if ending && self.leader_end_seen && tree.living().len() == 0 {
            no_later_than(CONFIRM);
        }
        let output = self.streams.as_ref();
        let rest = output.map_or(Duration::ZERO, Streams::rest);
        let growth = output.and_then(Streams::descriptor).filter(|_| rest.is_zero());
        if !rest.is_zero() {
            no_later_than(rest);
        }
        let blind = output.is_some_and(|output| output.descriptor().is_none());
        if blind || !tree.can_be_waited_for() || row.is_some_and(|row| row.descriptor().is_none()) {
            no_later_than(FALLBACK);
        }
        if !ending {
            no_later_than(self.housekeeping_at.saturating_sub(now));
        }
        let signals = self.supervision.signals.descriptors();
        let members = tree.member_descriptors().filter(|_| ending);
        let row = row.and_then(RowWatch::descriptor);
        wait(signals.chain(tree.leader_descriptor()).chain(row).chain(growth).chain(members), at_most);
    }

    fn result(mut self) -> ExecutionResult {
        // The window was over before it was begun, or there never was a process.
        self.drain_output();
        let leaked_count = if self.supervisor.left_alone() { self.left_behind.len() } else { 0 };
        self.left_behind.truncate(leaked_count.min(NAMED));
        self.held = None;
        let flags = self.supervisor.flags();
        let ended = match self.supervisor.primary() {
            Ended::CouldNotStart { .. } => Ended::CouldNotStart { reason: self.refusal.unwrap_or_default() },
            other => other,
        };
        let now = Reading::now();
        let wall = self.tree.as_ref().map(|_| now.awake_since(self.asked).saturating_sub(self.supervisor.started()));
        ExecutionResult {
            schema: RESULT_SCHEMA,
            ended,
            exit: self.tree.as_mut().and_then(Tree::leader_exit),
            pid: self.tree.as_ref().map(|tree| tree.leader().as_raw_pid().unsigned_abs()),
            timed_out: flags.timed_out,
            idle_timed_out: flags.idle,
            output_limit: flags.output_limit,
            cancelled: self.supervisor.cancelled(),
            transition_seen: flags.transition_seen,
            ladder: self.supervisor.ladder(),
            leaked: self.left_behind,
            leaked_count,
            survivors: self.tree.iter().flat_map(Tree::refused).take(NAMED).cloned().collect(),
            output: self.output,
            stages: self.supervisor.stages().to_vec(),
            wall_ms: milliseconds(wall.unwrap_or_default()),
            suspended_ms: milliseconds(now.suspended_since(self.asked)),
        }
    }
}

fn milliseconds(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

/// This process is child subreaper for as long as this value lives.
#[derive(Debug)]
struct Adopting {
    #[cfg(target_os = "linux")]
    was_before: bool,
}

#[cfg(target_os = "linux")]
impl Adopting {
    fn begin() -> Self {
        use rustix::process::{child_subreaper, getpid, set_child_subreaper};
        let was_before = child_subreaper().is_ok_and(|setting| setting.is_some());
        // Every kernel since 3.4 knows it, and there is no other reason to refuse (prctl(2)).
        let _set = set_child_subreaper(Some(getpid()));
        Self { was_before }
    }
}

#[cfg(target_os = "linux")]
impl Drop for Adopting {
    fn drop(&mut self) {
        if !self.was_before {
            let _unset = rustix::process::set_child_subreaper(None);
        }
    }
}

#[cfg(not(target_os = "linux"))]
impl Adopting {
    fn begin() -> Self {
        Self {}
    }
}
