//! A tree that this process itself ends: a tool's, a guardian's own, or one whose guardian was killed.

use std::os::fd::BorrowedFd;
use std::time::{Duration, Instant};

use super::result::LeakedProcess;
use super::tree::Tree;
use super::wait::wait;

/// How long to wait before looking again where the system cannot tell that something happened.
pub(crate) const FALLBACK: Duration = Duration::from_millis(250);
/// The same for the instant in which a tree that was seen to be empty is not yet confirmed to be.
const CONFIRM: Duration = Duration::from_millis(5);
/// What is gone this soon after the leader was not left behind by it.
const SETTLE: Duration = Duration::from_millis(50);
/// How often processes that ended after their parent are waited for while a session runs, so that they do not pile up.
const HOUSEKEEPING: Duration = Duration::from_secs(30);

/// What was found in the tree.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Found {
    /// The leader ended; whether anything else lives.
    LeaderEnded { survivors: bool },
    /// Nothing lives.
    Gone,
}

/// A tree and what is known of its end.
#[derive(Debug)]
pub(crate) struct Direct {
    pub(crate) tree: Tree,
    leader_end_seen: bool,
    left_behind: Vec<LeakedProcess>,
    housekeeping_at: Instant,
}

impl Direct {
    pub(crate) fn new(tree: Tree) -> Self {
        let housekeeping_at = Instant::now() + HOUSEKEEPING;
        Self { tree, leader_end_seen: false, left_behind: Vec::new(), housekeeping_at }
    }

    /// The leader's end is news.
    pub(crate) fn leader_has_ended(&mut self) -> bool {
        !self.leader_end_seen && self.tree.leader_exit().is_some()
    }

    /// Looks at the tree; `ending` if the end of any of its processes is news.
    pub(crate) fn observe(&mut self, ending: bool) -> Option<Found> {
        if self.leader_has_ended() {
            self.leader_end_seen = true;
            let survivors = !self.is_gone_soon();
            self.left_behind = self.tree.living().collect();
            return Some(Found::LeaderEnded { survivors });
        }
        if ending {
            return self.tree.is_gone().then_some(Found::Gone);
        }
        if Instant::now() >= self.housekeeping_at {
            self.housekeeping_at = Instant::now() + HOUSEKEEPING;
            self.tree.reap_orphans();
        }
        None
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

    /// What lived when the leader ended.
    pub(crate) fn left_behind(&self) -> &[LeakedProcess] {
        &self.left_behind
    }

    /// Readable when something happened.
    pub(crate) fn descriptors(&self, ending: bool) -> impl Iterator<Item = BorrowedFd<'_>> {
        self.tree.leader_descriptor().into_iter().chain(self.tree.member_descriptors().filter(move |_| ending))
    }

    /// When to look again at the latest, although nothing is readable.
    pub(crate) fn look_again(&self, ending: bool) -> Option<Duration> {
        if !self.leader_end_seen && self.tree.knows_exit() {
            return Some(Duration::ZERO);
        }
        if ending && self.leader_end_seen && self.tree.living().len() == 0 {
            return Some(CONFIRM);
        }
        if !self.tree.can_be_waited_for() {
            return Some(FALLBACK);
        }
        (!ending).then(|| self.housekeeping_at.saturating_duration_since(Instant::now()))
    }
}
