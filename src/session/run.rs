//! The loop around one process tree: waits in one `poll(2)` for whatever happens next, hands it to the supervisor and carries
//! out what that decides. Decides nothing itself.

use std::any::Any;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use super::launch::{Limits, Watched};
use super::result::{Ended, ExecutionResult, LeakedProcess, NAMED, RESULT_SCHEMA};
use super::row_watch::RowWatch;
use super::signals::Signals;
use super::spawn::{Program, keep_exit_statuses, spawn};
use super::supervisor::{Action, Input, Supervisor};
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

/// The one tree this process has at a time: orphans of two could not be told apart.
static ONE_TREE: Mutex<()> = Mutex::new(());

/// Whom to ask and whom to listen to while a tree lives.
pub(crate) struct Supervision<'a> {
    pub(crate) watched: Option<&'a mut dyn Watched>,
    pub(crate) signals: &'a Signals,
    /// Signals received before these do not concern the tree.
    pub(crate) signals_before: usize,
    pub(crate) limits: Limits,
}

/// Starts the program and supervises it until nothing of its tree lives.
pub(crate) fn supervise(program: Program<'_>, supervision: &mut Supervision<'_>) -> ExecutionResult {
    let _one_tree = ONE_TREE.lock().unwrap_or_else(PoisonError::into_inner);
    keep_exit_statuses();
    let _adopting = Adopting::begin();
    let row = supervision.watched.as_ref().map(|watched| RowWatch::new(watched.file()));
    let others = Others::now();
    let started = Instant::now();
    let tree = match spawn(program) {
        Ok(leader) => Tree::new(leader, others),
        Err(error) => {
            return ExecutionResult::without_process(Ended::CouldNotStart { reason: error.to_string() }, None);
        }
    };
    let session = Session {
        supervisor: Supervisor::new(supervision.limits),
        signals_seen: supervision.signals_before,
        supervision,
        tree,
        row,
        started,
        leader_end_seen: false,
        housekeeping_at: HOUSEKEEPING,
        left_behind: Vec::new(),
        held: None,
    };
    session.run()
}

struct Session<'a, 'b> {
    supervisor: Supervisor,
    signals_seen: usize,
    supervision: &'a mut Supervision<'b>,
    tree: Tree,
    row: Option<RowWatch>,
    started: Instant,
    leader_end_seen: bool,
    housekeeping_at: Duration,
    left_behind: Vec<LeakedProcess>,
    held: Option<Box<dyn Any>>,
}

impl Session<'_, '_> {
    fn run(mut self) -> ExecutionResult {
        loop {
            let inputs = self.observe();
            let actions = self.supervisor.step(inputs, self.started.elapsed());
            for action in &actions.todo {
                self.carry_out(*action);
            }
            if actions.finished {
                return self.result();
            }
            self.wait(actions.wake_at);
        }
    }

    fn observe(&mut self) -> Vec<Input> {
        let signals = self.supervision.signals.after(self.signals_seen);
        self.signals_seen += signals.len();
        let mut inputs: Vec<Input> = signals.into_iter().map(Input::Signal).collect();
        let leader_ended = !self.leader_end_seen && self.tree.leader_exit().is_some();
        if self.may_have_made_transition(leader_ended) {
            inputs.push(Input::Transition);
        }
        if leader_ended {
            self.leader_end_seen = true;
            let survivors = !self.is_gone_soon();
            self.left_behind = self.tree.living().collect();
            inputs.push(Input::LeaderEnded { survivors });
        } else if self.supervisor.is_ending() {
            inputs.extend(self.tree.is_gone().then_some(Input::TreeGone));
        } else if self.started.elapsed() >= self.housekeeping_at {
            self.housekeeping_at = self.started.elapsed() + HOUSEKEEPING;
            self.tree.reap_orphans();
        }
        inputs
    }

    /// Whether nothing is left, given a moment for what ends together with the leader, as the other end of a pipe does.
    fn is_gone_soon(&mut self) -> bool {
        let seen = Instant::now();
        loop {
            if self.tree.is_gone() {
                return true;
            }
            let left = SETTLE.saturating_sub(seen.elapsed());
            if left.is_zero() {
                return false;
            }
            wait(self.tree.member_descriptors(), Some(left));
        }
    }

    /// Looks at the row if it was touched, and one last time before an end would be called another.
    fn may_have_made_transition(&mut self, leader_ended: bool) -> bool {
        if self.supervisor.transition_seen() || self.supervisor.is_ending() {
            return false;
        }
        let touched = self.row.as_mut().is_some_and(RowWatch::was_touched);
        let last_look = leader_ended || self.started.elapsed() >= self.supervision.limits.wall;
        (touched || last_look) && self.reached_transition()
    }

    fn reached_transition(&mut self) -> bool {
        self.supervision.watched.as_mut().is_some_and(|watched| watched.reached_transition())
    }

    fn carry_out(&mut self, action: Action) {
        match action {
            Action::HoldState => {
                self.held = self.supervision.watched.as_mut().map(|watched| watched.hold_state());
                if !self.supervisor.transition_seen() && self.reached_transition() {
                    self.supervisor.note_transition();
                }
            }
            Action::Terminate => self.tree.terminate(),
            Action::Kill => self.tree.kill(),
        }
    }

    fn wait(&self, wake_at: Option<Duration>) {
        let ending = self.supervisor.is_ending();
        let row = self.row.as_ref().filter(|_| !ending && !self.supervisor.transition_seen());
        let mut at_most = wake_at.map(|at| at.saturating_sub(self.started.elapsed()));
        let mut no_later_than = |limit: Duration| at_most = Some(at_most.map_or(limit, |time| time.min(limit)));
        if ending && self.leader_end_seen && self.tree.living().len() == 0 {
            no_later_than(CONFIRM);
        }
        if !self.tree.can_be_waited_for() || row.is_some_and(|row| row.descriptor().is_none()) {
            no_later_than(FALLBACK);
        }
        if !ending {
            no_later_than(self.housekeeping_at.saturating_sub(self.started.elapsed()));
        }
        let signals = self.supervision.signals.descriptors();
        let members = self.tree.member_descriptors().filter(|_| ending);
        let row = row.and_then(RowWatch::descriptor);
        wait(signals.chain(self.tree.leader_descriptor()).chain(row).chain(members), at_most);
    }

    fn result(mut self) -> ExecutionResult {
        let leaked_count = if self.supervisor.left_alone() { self.left_behind.len() } else { 0 };
        self.left_behind.truncate(leaked_count.min(NAMED));
        self.held = None;
        ExecutionResult {
            schema: RESULT_SCHEMA,
            ended: self.supervisor.primary(),
            exit: self.tree.leader_exit(),
            pid: Some(self.tree.leader().as_raw_pid().unsigned_abs()),
            timed_out: self.supervisor.timed_out(),
            cancelled: self.supervisor.cancelled(),
            transition_seen: self.supervisor.transition_seen(),
            ladder: self.supervisor.ladder(),
            leaked: self.left_behind,
            leaked_count,
            survivors: self.tree.refused().take(NAMED).cloned().collect(),
            wall_ms: u64::try_from(self.started.elapsed().as_millis()).unwrap_or(u64::MAX),
        }
    }
}

/// This process is child subreaper for as long as this value lives.
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
