//! Who ends a session's tree: a guardian, or this process itself.

use std::os::fd::BorrowedFd;
use std::time::Duration;

use super::direct::{Direct, Found};
use super::guarded::Guarded;
use super::result::{Exit, LeakedProcess};
use super::supervisor::Input;
use super::usage::Usage;
use crate::agents::StopSignal;

/// The hands that carry out what the supervisor decides.
#[derive(Debug)]
pub(crate) enum Keeper {
    /// This process.
    Own(Box<Direct>),
    /// The session's guardian.
    Guardian(Box<Guarded>),
}

/// What a keeper knows in the end.
#[derive(Debug, Default)]
pub(crate) struct Account {
    pub(crate) pid: Option<u32>,
    pub(crate) exit: Option<Exit>,
    /// Some of what lived when the leader ended, and how many there were.
    pub(crate) left_behind: (Vec<LeakedProcess>, usize),
    pub(crate) refused: Vec<LeakedProcess>,
    pub(crate) usage: Option<Usage>,
    pub(crate) refusal: Option<String>,
}

impl Keeper {
    /// The leader's end is news.
    pub(crate) fn leader_has_ended(&mut self) -> bool {
        match self {
            Self::Own(direct) => direct.leader_has_ended(),
            Self::Guardian(guarded) => guarded.leader_has_ended(),
        }
    }

    /// What happened since the last call; `ending` if the end of any process is news.
    pub(crate) fn observe(&mut self, ending: bool) -> Vec<Input> {
        match self {
            Self::Own(direct) => direct.observe(ending).map(Input::from).into_iter().collect(),
            Self::Guardian(guarded) => guarded.observe(ending),
        }
    }

    pub(crate) fn terminate(&mut self, by: StopSignal) {
        match self {
            Self::Own(direct) => direct.tree.terminate(by),
            Self::Guardian(guarded) => guarded.terminate(by),
        }
    }

    pub(crate) fn kill(&mut self) {
        match self {
            Self::Own(direct) => direct.tree.kill(),
            Self::Guardian(guarded) => guarded.kill(),
        }
    }

    /// Readable when something happened.
    pub(crate) fn descriptors(&self, ending: bool) -> Box<dyn Iterator<Item = BorrowedFd<'_>> + '_> {
        match self {
            Self::Own(direct) => Box::new(direct.descriptors(ending)),
            Self::Guardian(guarded) => Box::new(guarded.descriptors(ending)),
        }
    }

    /// When to look again at the latest, although nothing is readable.
    pub(crate) fn look_again(&self, ending: bool) -> Option<Duration> {
        match self {
            Self::Own(direct) => direct.look_again(ending),
            Self::Guardian(guarded) => guarded.look_again(ending),
        }
    }

    /// What it knows once nothing of the tree lives.
    pub(crate) fn account(&mut self) -> Account {
        match self {
            Self::Own(direct) => Account {
                pid: u32::try_from(direct.tree.leader().0).ok(),
                exit: direct.tree.leader_exit(),
                left_behind: (direct.left_behind().to_vec(), direct.left_behind().len()),
                refused: direct.tree.refused().cloned().collect(),
                usage: None,
                refusal: None,
            },
            Self::Guardian(guarded) => Account {
                pid: guarded.leader(),
                exit: guarded.exit(),
                left_behind: guarded.left_behind(),
                refused: guarded.refused(),
                usage: guarded.usage(),
                refusal: Some(guarded.refusal()),
            },
        }
    }
}

impl From<Found> for Input {
    fn from(found: Found) -> Self {
        match found {
            Found::LeaderEnded { survivors } => Self::LeaderEnded { survivors },
            Found::Gone => Self::TreeGone,
        }
    }
}
