//! The process tree of one session, and how it is ended.
//!
//! A process belongs to it if it descends from the leader, is in the leader's session, or became a child of this process
//! although it is neither one that was there before nor in a session of theirs: then its parent, a process of the tree,
//! ended (this process is child subreaper). Nothing else is ever waited for or signalled.

use std::collections::{BTreeMap, BTreeSet};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::io::Errno;
use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, WaitIdStatus, kill_process_group, waitid};

use super::handle::{Handle, open_pidfd};
use super::membership::{Others, is_torn, members};
use super::process_table::{self, Row};
use super::result::{Exit, LeakedProcess};
use super::spawn::{Program, SpawnError, spawn};
use crate::agents::StopSignal;

/// How often a walk is repeated when a parent that ended meanwhile hides whose child a process is.
const WALKS: usize = 3;
/// How often whatever was forked meanwhile is looked for and stopped before everything stopped is killed.
const STOP_ROUNDS: usize = 16;
/// How often in a row orphans are looked for and killed.
const STRIKES: usize = 256;
/// How many descriptors of members are waited for at once; the rest follow when these have ended.
pub(crate) const WAITED_FOR: usize = 256;

/// The kernel says that this process has no children at all, ended or not.
pub(crate) fn has_no_children() -> bool {
    let look = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
    waitid(WaitId::All, look).is_err_and(|error| error == Errno::CHILD)
}

/// Starts the program as the leader of a tree of its own.
pub(crate) fn start_tree(program: Program<'_>) -> Result<Tree, SpawnError> {
    let others = Others::now();
    spawn(program).map(|leader| Tree::new(leader, others))
}

/// The tree of one session that was started.
#[derive(Debug)]
pub(crate) struct Tree {
    leader: Pid,
    leader_descriptor: Option<OwnedFd>,
    exit: Option<Exit>,
    reaped: bool,
    gone: bool,
    others: Others,
    members: Vec<Handle>,
    refused: BTreeMap<(i32, u64), LeakedProcess>,
}

impl Tree {
    /// The tree of a leader that was just started; `others` is from before its start.
    pub(crate) fn new(leader: Pid, others: Others) -> Self {
        // The leader has not been waited for, so its id is its own.
        let leader_descriptor = open_pidfd(leader).ok();
        Self {
            leader,
            leader_descriptor,
            exit: None,
            reaped: false,
            gone: false,
            others,
            members: Vec::new(),
            refused: BTreeMap::new(),
        }
    }

    /// The tree of a guardian that is gone, whose children became this process's. A leader that is no child of this process
    /// was waited for by the guardian, or never started.
    pub(crate) fn adopt(leader: Option<(i32, u64)>, exit: Option<Exit>, others: Others) -> Self {
        let me = rustix::process::getpid();
        let is_ours = |pid, start| {
            process_table::read(pid).is_none_or(|row| row.parent == me.as_raw_pid() && row.start == start)
                && rustix::process::test_kill_process(Pid::from_raw(pid).unwrap_or(me)).is_ok()
        };
        let known = leader.filter(|(pid, start)| is_ours(*pid, *start)).and_then(|(pid, _)| Pid::from_raw(pid));
        let mut tree = Self::new(known.unwrap_or(me), others);
        if known.is_none() {
            (tree.reaped, tree.leader_descriptor) = (true, None);
            tree.exit = exit.or(Some(Exit::Code(-1)));
        }
        tree
    }

    /// How the leader ended is known, so nothing will tell it.
    pub(crate) fn knows_exit(&self) -> bool {
        self.exit.is_some()
    }

    /// Its leader is, or was, a child of this process.
    pub(crate) fn has_leader(&self) -> bool {
        self.leader != rustix::process::getpid()
    }

    /// The leader's process id and start time.
    pub(crate) fn leader(&self) -> (i32, u64) {
        let pid = self.leader.as_raw_pid();
        (pid, process_table::read(pid).map_or(0, |row| row.start))
    }

    /// How the leader ended, if it has. It is not reaped by this, so neither its id nor its group's can be given away.
    pub(crate) fn leader_exit(&mut self) -> Option<Exit> {
        if self.exit.is_none() {
            let look = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
            self.exit = match waitid(WaitId::Pid(self.leader), look) {
                Ok(status) => status.as_ref().and_then(exit_of),
                // Somebody else waited for it, which only a foreign `wait` for any child can do: how it ended is lost.
                Err(_) => Some(Exit::Code(-1)),
            };
        }
        self.exit
    }

    /// Nothing of the tree lives. If so, the leader has been reaped.
    pub(crate) fn is_gone(&mut self) -> bool {
        self.gone = self.gone || self.look_for_end();
        self.gone
    }

    fn look_for_end(&mut self) -> bool {
        if self.leader_exit().is_none() {
            self.survey();
            return false;
        }
        if self.has_orphans() {
            self.survey();
            if !self.members.is_empty() {
                return false;
            }
        }
        self.reap_leader();
        // While anything of the tree lives, so does or waits some child of this process: the kernel's word is the proof.
        has_no_children() || self.has_only_others()
    }

    /// Whether the children the kernel speaks of are explained by others, since only they are seen, again and again.
    fn has_only_others(&mut self) -> bool {
        let clean = (0..WALKS).all(|_| {
            self.survey();
            self.members.is_empty() && !self.has_orphans()
        });
        clean && (has_no_children() || !process_table::children_of_this_process().is_empty())
    }

    /// Whether some child of this process came from the tree; quick where there is nothing to find.
    pub(crate) fn has_orphans(&self) -> bool {
        process_table::children_of_this_process()
            .into_iter()
            .filter(|pid| *pid != self.leader.as_raw_pid())
            .filter_map(process_table::read)
            .any(|row| self.others.is_orphan_of_session(&row) && !self.refused.contains_key(&(row.pid, row.start)))
    }

    /// Waits for processes of the tree that ended after their parent had: nobody else would.
    pub(crate) fn reap_orphans(&self) {
        let children = process_table::children_of_this_process();
        self.reap(&children.into_iter().filter_map(process_table::read).collect::<Vec<_>>());
    }

    fn reap(&self, rows: &[Row]) {
        for row in rows.iter().filter(|row| row.ended && row.pid != self.leader.as_raw_pid()) {
            if self.others.is_orphan_of_session(row)
                && let Some(pid) = Pid::from_raw(row.pid)
            {
                // It has ended, so this does not wait; a failure means that it is no longer there.
                let _status = waitid(WaitId::Pid(pid), WaitIdOptions::EXITED | WaitIdOptions::NOHANG);
            }
        }
    }

    fn reap_leader(&mut self) {
        if !self.reaped {
            // It has ended (`leader_exit`), so this does not wait.
            let _status = waitid(WaitId::Pid(self.leader), WaitIdOptions::EXITED | WaitIdOptions::NOHANG);
            self.reaped = true;
        }
    }

    /// Looks for everything of the tree, the leader aside, that lives.
    fn survey(&mut self) {
        let mut rows: Vec<Row> = process_table::all().collect();
        for _ in 1..WALKS {
            if !is_torn(&rows) {
                break;
            }
            rows = process_table::all().collect();
        }
        self.reap(&rows);
        let leader = self.leader.as_raw_pid();
        let mut known: BTreeMap<(i32, u64), Handle> =
            self.members.drain(..).map(|handle| ((handle.pid.as_raw_pid(), handle.start), handle)).collect();
        for row in members(&rows, (!self.reaped).then_some(leader), &self.others) {
            let id = (row.pid, row.start);
            let is_leader = !self.reaped && row.pid == leader;
            if !row.ended && !is_leader && !self.refused.contains_key(&id) {
                self.members.extend(known.remove(&id).or_else(|| Handle::open(row)));
            }
        }
    }

    /// Asks everything of the tree to end, the leader's group by the signal that was chosen. What is stopped is continued,
    /// since it could not hear otherwise.
    pub(crate) fn terminate(&mut self, by: StopSignal) {
        self.survey();
        // Without its leader nobody in the group cleans up, and who was started in the background ignores INT.
        let cleans_up = by == StopSignal::Interrupt && self.leader_exit().is_none();
        self.signal_group(if cleans_up { Signal::INT } else { Signal::TERM });
        // Looked up after the group was signalled: whoever is still in it has heard, whoever left it may not have.
        let outside: Vec<&Handle> = self.members.iter().filter(|member| self.is_outside_group(member)).collect();
        for signal in [Signal::TERM, Signal::CONT] {
            for member in &outside {
                // What refuses this also refuses KILL, which says so.
                let _sent = member.signal(signal);
            }
        }
        self.signal_group(Signal::CONT);
    }

    /// Ends everything of the tree: all is stopped first, so that nothing can fork away, then killed.
    pub(crate) fn kill(&mut self) {
        self.signal_group(Signal::STOP);
        self.kill_orphans();
        let mut stopped = BTreeSet::new();
        for _ in 0..STOP_ROUNDS {
            self.survey();
            let fresh: Vec<&Handle> =
                self.members.iter().filter(|member| stopped.insert((member.pid.as_raw_pid(), member.start))).collect();
            if fresh.is_empty() {
                break;
            }
            for member in fresh {
                let _sent = member.signal(Signal::STOP);
            }
        }
        self.signal_group(Signal::KILL);
        for member in &self.members {
            if member.signal(Signal::KILL).is_err() {
                self.refused.insert((member.pid.as_raw_pid(), member.start), member.named());
            }
        }
    }

    /// Kills what came to this process, each as soon as it is seen, until nothing more comes. A walk of the whole table takes
    /// longer than a process lives that forks its successor and ends; what is killed hands its children to this process.
    fn kill_orphans(&self) {
        for _ in 0..STRIKES {
            let children: Vec<i32> = process_table::children_of_this_process();
            let mut struck = false;
            for row in children.into_iter().filter_map(process_table::read) {
                if row.ended {
                    self.reap(&[row]);
                } else if row.pid != self.leader.as_raw_pid()
                    && self.others.is_orphan_of_session(&row)
                    && let Some(handle) = Handle::open(&row)
                {
                    struck |= handle.signal(Signal::KILL).is_ok();
                }
            }
            if !struck {
                break;
            }
        }
    }

    fn is_outside_group(&self, member: &Handle) -> bool {
        self.reaped || member.group() != Some(self.leader.as_raw_pid())
    }

    /// Signals the leader's process group in one go, unless its id may already be somebody else's.
    fn signal_group(&self, signal: Signal) {
        if !self.reaped {
            // A group without a process that may be signalled is one where nothing is left to do.
            let _sent = kill_process_group(self.leader, signal);
        }
    }

    /// What lives besides the leader, as of the last look.
    pub(crate) fn living(&self) -> impl ExactSizeIterator<Item = LeakedProcess> + '_ {
        self.members.iter().map(Handle::named)
    }

    /// What could not be ended since the kernel refused.
    pub(crate) fn refused(&self) -> impl Iterator<Item = &LeakedProcess> {
        self.refused.values()
    }

    /// Readable when the leader ends; `None` when it has, or where there is no such descriptor.
    pub(crate) fn leader_descriptor(&self) -> Option<BorrowedFd<'_>> {
        self.leader_descriptor.as_ref().filter(|_| self.exit.is_none()).map(AsFd::as_fd)
    }

    /// Readable when one of the others ends.
    pub(crate) fn member_descriptors(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        self.members.iter().filter_map(Handle::descriptor).take(WAITED_FOR)
    }

    /// Whether the end of everything that was seen can be waited for with descriptors.
    pub(crate) fn can_be_waited_for(&self) -> bool {
        (self.exit.is_some() || self.leader_descriptor.is_some())
            && self.members.iter().all(|member| member.descriptor().is_some())
    }
}

impl Drop for Tree {
    /// A panic while the tree is supervised must not leave it running.
    fn drop(&mut self) {
        while !self.is_gone() {
            self.kill();
            let descriptors = self.leader_descriptor().into_iter().chain(self.member_descriptors());
            super::wait::wait(descriptors, Some(super::direct::FALLBACK));
        }
    }
}

fn exit_of(status: &WaitIdStatus) -> Option<Exit> {
    status.exit_status().map(Exit::Code).or_else(|| status.terminating_signal().map(Exit::Signal))
}
