//! The coordinator's side of a guardian: starts it, orders, listens, and takes its tree over if it is killed.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs::File;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::{Duration, Instant};

use rustix::process::{Signal, WaitId, WaitIdOptions, waitid};
use sha2::{Digest, Sha256};

use super::control::{Assignment, Control, Order, Report};
use super::direct::{Direct, FALLBACK};
use super::handle::Handle;
use super::launch::Launch;
use super::membership::Others;
use super::process_table;
use super::result::{Exit, LeakedProcess};
use super::spawn::{Program, spawn};
use super::supervisor::Input;
use super::sweep::{GUARDIAN_VARIABLE, found_by};
use super::tree::Tree;
use super::usage::Usage;
use crate::agents::StopSignal;
use crate::ids::hex;

/// How often a guardian that may have been stopped is told to go on.
const NUDGE: Duration = Duration::from_secs(5);
/// A guardian that was told to kill and is not done after this is killed itself.
const STUCK: Duration = Duration::from_secs(10);

/// A session's tree in the hands of a guardian.
#[derive(Debug)]
pub(crate) struct Guarded {
    guardian: Handle,
    control: Control,
    others: Others,
    leader: Option<(i32, u64)>,
    exit: Option<Exit>,
    left_behind: (Vec<LeakedProcess>, usize),
    refused: Vec<LeakedProcess>,
    usage: Option<Usage>,
    refusal: Option<String>,
    news: Vec<Input>,
    nudge_at: Instant,
    kill_ordered: Option<Instant>,
    /// Nothing of the tree lives, or none ever did.
    over: bool,
    /// The tree, once the guardian is lost.
    taken: Option<Direct>,
}

impl Guarded {
    /// Starts the guardian and gives it its assignment. That the agent runs is told later.
    pub(crate) fn start(launch: &Launch, [stdin, stdout, stderr]: [File; 3]) -> Result<Self, String> {
        let others = Others::now();
        let broken = |error: std::io::Error| format!("cannot talk to a guardian process: {error}; try again later");
        let (near, far) = UnixStream::pair().map_err(broken)?;
        let far = OwnedFd::from(far);
        let number = std::os::fd::AsRawFd::as_raw_fd(&far);
        let argv = [launch.guardian.clone().into_os_string(), "guardian".into(), number.to_string().into()];
        let program = Program {
            argv: &argv,
            cwd: Path::new("/"),
            env: &marker(&launch.env),
            stdin,
            stdout,
            stderr,
            control: Some(far),
        };
        let pid = spawn(program).map_err(|error| format!("the guardian of the session: {error}"))?;
        // It has not been waited for, so its id is its own.
        let guardian = process_table::read(pid.as_raw_pid()).and_then(|row| Handle::open(&row));
        let guardian = guardian.unwrap_or_else(|| Handle::of_child(pid));
        let mut control = Control::new(near).map_err(broken)?;
        control.send(&Order::Start(Assignment {
            argv: launch.argv.clone(),
            cwd: launch.cwd.clone().into_os_string(),
            env: launch.env.clone().into_iter().collect(),
            interrupt: launch.limits.stop == StopSignal::Interrupt,
            kill_grace_ms: u64::try_from(launch.limits.kill_grace.as_millis()).unwrap_or(u64::MAX),
        }));
        Ok(Self {
            guardian,
            control,
            others,
            leader: None,
            exit: None,
            left_behind: (Vec::new(), 0),
            refused: Vec::new(),
            usage: None,
            refusal: None,
            news: Vec::new(),
            nudge_at: Instant::now() + NUDGE,
            kill_ordered: None,
            over: false,
            taken: None,
        })
    }

    /// Takes in what the guardian has said.
    fn listen(&mut self) {
        if self.taken.is_some() || self.over {
            return;
        }
        for report in self.control.receive() {
            self.note(report);
        }
        let is_stuck = self.kill_ordered.is_some_and(|at| at.elapsed() >= STUCK);
        if !self.over && (self.control.is_closed() || is_stuck) {
            self.take_over();
        }
        if Instant::now() >= self.nudge_at {
            self.nudge();
        }
    }

    fn note(&mut self, report: Report) {
        let input = match report {
            Report::Started { pid, start } => {
                self.leader = Some((pid, start));
                Input::Started
            }
            Report::CouldNotStart { reason } => {
                (self.refusal, self.over) = (Some(reason), true);
                self.news.push(Input::CouldNotStart);
                Input::TreeGone
            }
            Report::LeaderEnded { exit, left, count } => {
                (self.exit, self.left_behind) = (exit, (left, count));
                Input::LeaderEnded { survivors: true }
            }
            Report::Gone { exit, refused, usage } => {
                let is_news = self.exit.is_none();
                (self.exit, self.refused, self.usage, self.over) = (exit, refused, usage, true);
                if is_news { Input::LeaderEnded { survivors: false } } else { Input::TreeGone }
            }
        };
        self.news.push(input);
    }

    /// A guardian that was stopped goes on; for one that runs this is nothing.
    fn nudge(&mut self) {
        self.nudge_at = Instant::now() + NUDGE;
        // One that is gone needs none.
        let _sent = self.guardian.signal(Signal::CONT);
    }

    /// Ends the guardian, if it still lives, and becomes what it was: its children are this process's now.
    fn take_over(&mut self) {
        self.dismiss();
        let tree = Tree::adopt(self.leader, self.exit, std::mem::take(&mut self.others));
        // It can have been killed between the agent's start and its word of that.
        self.news.extend((self.leader.is_none() && tree.has_orphans()).then_some(Input::Started));
        self.taken = Some(Direct::new(tree));
        self.news.push(Input::GuardianLost);
    }

    /// Waits for the guardian, which has nothing left to do or is lost.
    fn dismiss(&self) {
        // One that has ended by itself does not hear it.
        let _sent = self.guardian.signal(Signal::KILL);
        let interrupted = |error| error == rustix::io::Errno::INTR;
        while waitid(WaitId::Pid(self.guardian.pid), WaitIdOptions::EXITED).is_err_and(interrupted) {}
    }

    /// The leader's end is news.
    pub(crate) fn leader_has_ended(&mut self) -> bool {
        self.listen();
        self.news.iter().any(|input| matches!(input, Input::LeaderEnded { .. } | Input::GuardianLost))
            || self.taken.as_mut().is_some_and(Direct::leader_has_ended)
    }

    /// What happened since the last call.
    pub(crate) fn observe(&mut self, ending: bool) -> Vec<Input> {
        self.listen();
        let mut news = std::mem::take(&mut self.news);
        let seen = self.taken.as_mut().filter(|_| news.is_empty()).and_then(|direct| direct.observe(ending));
        news.extend(seen.map(Input::from));
        news
    }

    pub(crate) fn terminate(&mut self, by: StopSignal) {
        if let Some(direct) = &mut self.taken {
            direct.tree.terminate(by);
        } else {
            self.nudge();
            self.control.send(match by {
                StopSignal::Interrupt => &Order::Interrupt,
                StopSignal::Terminate => &Order::Terminate,
            });
        }
    }

    pub(crate) fn kill(&mut self) {
        if let Some(direct) = &mut self.taken {
            direct.tree.kill();
        } else if self.leader.is_none() && !self.over {
            // It has not even started the agent in time.
            self.take_over();
        } else if self.kill_ordered.is_none() {
            self.kill_ordered = Some(Instant::now());
            self.nudge();
            self.control.send(&Order::Kill);
        }
    }

    /// Readable when something happened.
    pub(crate) fn descriptors(&self, ending: bool) -> impl Iterator<Item = BorrowedFd<'_>> {
        let taken = self.taken.iter().flat_map(move |direct| direct.descriptors(ending));
        self.control.descriptor().filter(|_| self.taken.is_none()).into_iter().chain(taken)
    }

    /// When to look again at the latest, although nothing is readable.
    pub(crate) fn look_again(&self, ending: bool) -> Option<Duration> {
        match &self.taken {
            _ if !self.news.is_empty() => Some(Duration::ZERO),
            Some(direct) => direct.look_again(ending),
            None if self.control.is_closed() => Some(Duration::ZERO),
            None if self.kill_ordered.is_some() => Some(FALLBACK),
            None => Some(self.nudge_at.saturating_duration_since(Instant::now())),
        }
    }

    /// The agent's process id.
    pub(crate) fn leader(&self) -> Option<u32> {
        self.leader.and_then(|(pid, _)| u32::try_from(pid).ok())
    }

    /// How the agent ended.
    pub(crate) fn exit(&mut self) -> Option<Exit> {
        let taken = self.taken.as_mut().filter(|direct| direct.tree.has_leader());
        self.exit.or_else(|| taken.and_then(|direct| direct.tree.leader_exit()))
    }

    /// What lived when the agent ended: some of it, and how many there were.
    pub(crate) fn left_behind(&self) -> (Vec<LeakedProcess>, usize) {
        match &self.taken {
            Some(direct) if self.left_behind.1 == 0 => (direct.left_behind().to_vec(), direct.left_behind().len()),
            _ => self.left_behind.clone(),
        }
    }

    /// What could not be ended.
    pub(crate) fn refused(&self) -> Vec<LeakedProcess> {
        let taken = self.taken.iter().flat_map(|direct| direct.tree.refused());
        self.refused.iter().chain(taken).cloned().collect()
    }

    /// What the tree used, if its guardian lived to tell.
    pub(crate) fn usage(&self) -> Option<Usage> {
        self.usage
    }

    /// Why no agent came to be.
    pub(crate) fn refusal(&self) -> String {
        let silent = "its guardian process did not start it; check that the runner program can be run by hand";
        self.refusal.clone().unwrap_or_else(|| silent.to_owned())
    }
}

impl Drop for Guarded {
    /// A panic while the tree is supervised must not leave it running; dropping a tree ends it.
    fn drop(&mut self) {
        if self.taken.is_none() {
            if self.over {
                self.dismiss();
            } else {
                self.take_over();
            }
        }
    }
}

/// By which the next start finds a guardian that is still at work: the digest of what its tree is found by, not that itself.
fn marker(env: &BTreeMap<OsString, OsString>) -> BTreeMap<OsString, OsString> {
    let digest = found_by(env).map(|secret| hex(&Sha256::digest(secret.as_encoded_bytes())));
    digest.map(|digest| (GUARDIAN_VARIABLE.into(), digest.into())).into_iter().collect()
}
