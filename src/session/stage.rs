//! The stages of a session, in one table: which follows which, who owns each, when it began and why it ended.
//!
//! Pure. Whoever moves a session asks the table; a move that it does not hold is refused.

use std::time::Duration;

use serde::{Deserialize, Serialize};

/// Where a session is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Stage {
    /// It waits until no other tree is supervised by this process.
    Queued,
    /// It is the one whose tree is supervised; its files are opened and its agent is started.
    Acquired,
    /// Its agent runs.
    Running,
    /// Whatever lives of its tree is being ended.
    Terminating,
    /// Nothing of it lives; the last of its output is read.
    Draining,
    /// It is over.
    Completed,
}

impl Stage {
    /// The transition table: what may follow this stage.
    pub const fn next(self) -> &'static [Self] {
        match self {
            Self::Queued => &[Self::Acquired, Self::Completed],
            Self::Acquired => &[Self::Running, Self::Terminating, Self::Completed],
            Self::Running => &[Self::Terminating, Self::Draining],
            Self::Terminating => &[Self::Draining],
            Self::Draining => &[Self::Completed],
            Self::Completed => &[],
        }
    }
}

/// Whose a stage is: who ends what there is to be ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Owner {
    /// The process that runs the plan.
    Coordinator,
    /// The session's own small process.
    Guardian,
}

/// Why a stage ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Cause {
    /// No other tree was supervised any more.
    TurnCame,
    /// The agent's process came to be.
    Started,
    /// No process came to be.
    CouldNotStart,
    /// The coordinator was told to stop.
    Cancelled,
    /// The agent ended, and left something running.
    LeftBehind,
    /// The agent did not exit within the grace after its task's transition.
    GraceOver,
    /// The wall limit passed.
    WallLimit,
    /// The idle limit passed.
    IdleLimit,
    /// A bound on the output was reached, and that is to end the session.
    OutputLimit,
    /// The guardian was killed.
    GuardianLost,
    /// Nothing of the tree lived.
    NothingLeft,
    /// All output was read.
    OutputRead,
    /// The drain window was over before all output was read.
    DrainWindow,
}

/// One stage of one session.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct StageRecord {
    /// Which.
    pub stage: Stage,
    /// Whose it was when it began.
    pub owner: Owner,
    /// When it began, in milliseconds after the session was asked for, without time the machine was suspended.
    pub began_ms: u64,
    /// Why it ended; nothing for the last.
    pub ended_by: Option<Cause>,
}

/// The stages a session has gone through; the last is where it is.
#[derive(Debug)]
pub(crate) struct Lifecycle {
    records: Vec<StageRecord>,
}

impl Lifecycle {
    /// A session that was just asked for.
    pub(crate) fn queued() -> Self {
        let first = StageRecord { stage: Stage::Queued, owner: Owner::Coordinator, began_ms: 0, ended_by: None };
        Self { records: vec![first] }
    }

    #[cfg(test)]
    fn stage(&self) -> Stage {
        self.records.last().map_or(Stage::Completed, |record| record.stage)
    }

    /// Moves on if the table allows it; says whether it did.
    pub(crate) fn enter(&mut self, stage: Stage, owner: Owner, (now, why): (Duration, Cause)) -> bool {
        let Some(last) = self.records.last_mut().filter(|last| last.stage.next().contains(&stage)) else {
            return false;
        };
        last.ended_by = Some(why);
        let began_ms = u64::try_from(now.as_millis()).unwrap_or(u64::MAX);
        self.records.push(StageRecord { stage, owner, began_ms, ended_by: None });
        true
    }

    /// What happened, for the record.
    pub(crate) fn records(&self) -> &[StageRecord] {
        &self.records
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::{Cause, Lifecycle, Owner, Stage};

    const ALL: [Stage; 6] =
        [Stage::Queued, Stage::Acquired, Stage::Running, Stage::Terminating, Stage::Draining, Stage::Completed];

    /// A lifecycle that was brought to `stage` by the shortest way.
    fn at(stage: Stage) -> Lifecycle {
        let mut lifecycle = Lifecycle::queued();
        for next in ALL {
            if lifecycle.stage() != stage {
                let moved = lifecycle.enter(next, Owner::Coordinator, (Duration::ZERO, Cause::NothingLeft));
                assert_eq!(moved, next != Stage::Queued);
            }
        }
        lifecycle
    }

    #[test]
    fn a_stage_is_only_followed_by_what_the_table_names() {
        for from in ALL {
            for to in ALL {
                let mut lifecycle = at(from);
                let before = lifecycle.records().to_vec();
                let moved = lifecycle.enter(to, Owner::Guardian, (Duration::from_secs(2), Cause::Cancelled));
                assert_eq!(moved, from.next().contains(&to), "{from:?} → {to:?}");
                if moved {
                    assert_eq!(lifecycle.records()[before.len() - 1].ended_by, Some(Cause::Cancelled));
                    assert_eq!((lifecycle.stage(), lifecycle.records()[before.len()].began_ms), (to, 2000));
                } else {
                    assert_eq!(lifecycle.records(), before, "a refused move changes nothing");
                }
            }
        }
    }

    #[test]
    fn no_stage_comes_back_and_every_session_can_complete() {
        for from in ALL {
            assert!(from.next().iter().all(|next| *next > from));
            assert_eq!(from.next().is_empty(), from == Stage::Completed);
        }
    }
}
