//! The guardian of one session: a small process in a session of its own that starts the agent and ends its tree after every
//! end, also when the coordinator was killed.
//!
//! Does what the coordinator orders; decides only when there is none any more. Reads no configuration and writes no file.

use std::ffi::OsString;
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::{Duration, Instant};

use super::adopting::Adopting;
use super::control::{Assignment, Control, Order, Report};
use super::direct::{Direct, Found};
use super::launch::Limits;
use super::result::NAMED;
use super::spawn::{Program, ignore_signals, inherited_socket, keep_exit_statuses};
use super::stage::Owner;
use super::supervisor::{Action, Actions, Input, Supervisor};
use super::tree::start_tree;
use super::usage;
use super::wait::wait;
use crate::agents::StopSignal;

/// Without its coordinator nobody waits longer than this from TERM to KILL.
pub(crate) const LONGEST_GRACE: Duration = Duration::from_secs(5);

/// Runs as a guardian; `control` is the number of the descriptor that its coordinator handed down. False if there is none.
///
/// Returns when nothing of the session's tree lives.
pub fn guardian(control: i32) -> bool {
    let Some(stream) = inherited_socket(control) else { return false };
    ignore_signals();
    keep_exit_statuses();
    let _adopting = Adopting::begin();
    guard(stream).is_ok()
}

fn guard(stream: UnixStream) -> io::Result<()> {
    let mut control = Control::new(stream)?;
    let mut orders: Vec<Order> = Vec::new();
    while orders.is_empty() {
        if control.is_closed() {
            return Ok(());
        }
        wait(control.descriptor().into_iter(), None);
        orders = control.receive();
    }
    let rest = orders.split_off(1);
    let Some(Order::Start(assignment)) = orders.pop() else { return Ok(()) };
    match start(&assignment) {
        Ok(direct) => {
            let leader = direct.tree.leader();
            control.send(&Report::Started { pid: leader.0, start: leader.1 });
            let grace = Duration::from_millis(assignment.kill_grace_ms).min(LONGEST_GRACE);
            let stop = if assignment.interrupt { StopSignal::Interrupt } else { StopSignal::Terminate };
            Guardian { control, direct, stop, grace, ending: false, killing: false, alone: None }.run(rest);
        }
        Err(reason) => control.send(&Report::CouldNotStart { reason }),
    }
    Ok(())
}

fn start(assignment: &Assignment) -> Result<Direct, String> {
    let stream = |descriptor: BorrowedFd<'_>| {
        descriptor
            .try_clone_to_owned()
            .map(File::from)
            .map_err(|error| format!("cannot use a standard stream: {error}"))
    };
    let env = assignment.env.iter().cloned().collect();
    let program = Program {
        argv: &assignment.argv,
        cwd: Path::new::<OsString>(&assignment.cwd),
        env: &env,
        stdin: stream(io::stdin().as_fd())?,
        stdout: stream(io::stdout().as_fd())?,
        stderr: stream(io::stderr().as_fd())?,
        control: None,
    };
    start_tree(program).map(Direct::new).map_err(|error| error.to_string())
}

struct Guardian {
    control: Control,
    direct: Direct,
    stop: StopSignal,
    grace: Duration,
    /// The tree was ordered to end.
    ending: bool,
    killing: bool,
    /// Takes the coordinator's place once that is gone.
    alone: Option<(Supervisor, Instant)>,
}

impl Guardian {
    fn run(mut self, mut orders: Vec<Order>) {
        loop {
            for order in orders {
                match order {
                    Order::Interrupt => self.carry_out(Action::Interrupt),
                    Order::Terminate => self.carry_out(Action::Terminate),
                    Order::Kill => self.killing = true,
                    Order::Start(_) => {}
                }
            }
            if self.is_over() {
                return;
            }
            let wake = self.step_alone();
            if self.killing {
                self.carry_out(Action::Kill);
            }
            let limits = [wake, self.direct.look_again(self.is_news())];
            let descriptors = self.direct.descriptors(self.is_news());
            wait(self.control.descriptor().into_iter().chain(descriptors), limits.into_iter().flatten().min());
            orders = self.control.receive();
        }
    }

    /// The end of any process is news, not only the leader's.
    fn is_news(&self) -> bool {
        self.ending || self.killing || !self.direct.left_behind().is_empty()
    }

    /// Looks at the tree and tells what there is to tell; whether nothing of it lives.
    fn is_over(&mut self) -> bool {
        let gone = match self.direct.observe(self.is_news()) {
            Some(Found::LeaderEnded { survivors: true }) => {
                let left = self.direct.left_behind();
                let (count, left) = (left.len(), left.iter().take(NAMED).cloned().collect());
                let exit = self.direct.tree.leader_exit();
                self.control.send(&Report::LeaderEnded { exit, left, count });
                false
            }
            Some(Found::LeaderEnded { survivors: false } | Found::Gone) => true,
            None => false,
        };
        if gone {
            let refused = self.direct.tree.refused().take(NAMED).cloned().collect();
            let exit = self.direct.tree.leader_exit();
            self.control.send(&Report::Gone { exit, refused, usage: usage::of_children() });
        }
        gone
    }

    /// Without a coordinator, asks the tree to end, waits the grace, and kills.
    fn step_alone(&mut self) -> Option<Duration> {
        if !self.control.is_closed() {
            return None;
        }
        if self.alone.is_none() {
            let wall = Duration::MAX;
            let (exit_grace, drain) = (Duration::ZERO, Duration::ZERO);
            let limits =
                Limits { wall, idle_timeout: None, exit_grace, kill_grace: self.grace, stop: self.stop, drain };
            let mut supervisor = Supervisor::new(limits, Owner::Guardian);
            let _nothing_to_do = supervisor.step(vec![Input::Acquired, Input::Started], Duration::ZERO);
            self.alone = Some((supervisor, Instant::now()));
        }
        let (supervisor, since) = self.alone.as_mut()?;
        let end = (!supervisor.is_ending()).then_some(Input::Signal(libc::SIGKILL));
        let now = since.elapsed();
        let Actions { todo, wake_at, .. } = supervisor.step(end.into_iter().collect(), now);
        for action in todo {
            self.carry_out(action);
        }
        wake_at.map(|at| at.saturating_sub(now))
    }

    fn carry_out(&mut self, action: Action) {
        match action {
            // Whoever holds a pending record when it is killed leaves it for the next.
            Action::HoldState => {}
            Action::Interrupt => {
                self.ending = true;
                self.direct.tree.terminate(StopSignal::Interrupt);
            }
            Action::Terminate => {
                self.ending = true;
                self.direct.tree.terminate(StopSignal::Terminate);
            }
            Action::Kill => {
                self.ending = true;
                self.direct.tree.kill();
            }
        }
    }
}
