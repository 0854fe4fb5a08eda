//! The lease of a workspace: who may work in it, which step may follow which, and what becomes of it afterwards.
//!
//! Pure: whoever makes, resets or moves a workspace asks the table here first. A [`Lease`] is permission to work in one place; it
//! can be neither copied nor used twice, because the call that ends it consumes it.

use std::fmt;
use std::num::NonZeroUsize;

use serde::{Deserialize, Serialize};

/// Where a workspace is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum State {
    /// There is none: it was not made yet, or it was disposed of.
    Vacant,
    /// It is there, and nobody has it.
    Idle,
    /// One session has it; what an earlier one left in it may still be there.
    Acquired,
    /// It was brought to the branch's head.
    Reset,
    /// It was found healthy, and the session may work in it.
    Leased,
    /// It is kept aside for a person; nothing works in it again.
    Quarantined,
}

/// What can be done with a workspace.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Step {
    /// One session takes it.
    Acquire,
    /// It is brought to the branch's head.
    Reset,
    /// It is looked at, and found healthy.
    Check,
    /// It is given back as good as it was.
    Release,
    /// It is kept aside under a name that says why.
    Quarantine,
    /// A new one takes the place of one that is kept aside or gone.
    Replace,
    /// What is left of it is given up: there is nothing in it to keep.
    Dispose,
}

impl State {
    /// The transition table: where `step` leads from here; `None` if it may not be taken.
    #[expect(clippy::match_same_arms, reason = "a table is read line by line")]
    pub const fn after(self, step: Step) -> Option<Self> {
        match (self, step) {
            (Self::Vacant | Self::Quarantined, Step::Replace) => Some(Self::Idle),
            (Self::Idle, Step::Acquire) => Some(Self::Acquired),
            (Self::Acquired, Step::Reset) => Some(Self::Reset),
            (Self::Reset, Step::Check) => Some(Self::Leased),
            (Self::Acquired | Self::Reset | Self::Leased, Step::Release) => Some(Self::Idle),
            (Self::Acquired | Self::Reset | Self::Leased, Step::Quarantine) => Some(Self::Quarantined),
            (Self::Idle | Self::Acquired | Self::Reset | Self::Leased, Step::Dispose) => Some(Self::Vacant),
            _ => None,
        }
    }
}

/// A sign that a workspace can no longer be trusted. That a session ran into its time limit is none.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Contamination {
    /// A process of the session is still alive, and may go on writing.
    SurvivingProcess,
    /// The session changed what it must not touch.
    Tampering,
    /// HEAD, or the branch it names, moved.
    HeadMoved,
    /// Git's configuration, its hooks or its attributes changed.
    ConfigurationChanged,
    /// The session changed files outside its scope.
    ScopeViolation,
    /// A lock file of git was left.
    LockFile,
    /// It could not be brought to the branch's head without losing something.
    FailedReset,
}

impl Contamination {
    /// All of them, the gravest first: the first that applies gives a kept workspace its name.
    pub const ALL: [Self; 7] = [
        Self::SurvivingProcess,
        Self::Tampering,
        Self::HeadMoved,
        Self::ConfigurationChanged,
        Self::ScopeViolation,
        Self::LockFile,
        Self::FailedReset,
    ];

    /// The word in the name of a workspace that is kept for it.
    pub const fn word(self) -> &'static str {
        match self {
            Self::SurvivingProcess => "surviving-process",
            Self::Tampering => "tampering",
            Self::HeadMoved => "head-moved",
            Self::ConfigurationChanged => "configuration-changed",
            Self::ScopeViolation => "scope-violation",
            Self::LockFile => "lock-file",
            Self::FailedReset => "failed-reset",
        }
    }
}

impl fmt::Display for Contamination {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.word())
    }
}

/// How the session that had a workspace ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum End {
    /// By itself.
    Completed,
    /// The coordinator was told to stop.
    Cancelled,
    /// At a limit.
    TimedOut,
    /// The workspace is gone, or cannot be used at all.
    Unrecoverable,
}

/// The step that ends a lease: by what became of the workspace, never by the time a session took.
pub fn ending(end: End, contamination: &[Contamination]) -> Step {
    match end {
        End::Unrecoverable => Step::Dispose,
        End::Completed | End::Cancelled | End::TimedOut if contamination.is_empty() => Step::Release,
        End::Completed | End::Cancelled | End::TimedOut => Step::Quarantine,
    }
}

/// A lease that was not given.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NoLease {
    /// Every workspace is taken.
    #[error("all {capacity} workspaces are taken; wait until one is given back")]
    Exhausted {
        /// How many there may be.
        capacity: usize,
    },
    /// The only places left hold no workspace.
    #[error("no workspace is there; make one in the place of the one that is gone")]
    Vacant,
}

/// A step that the table does not allow.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("a workspace that is {from:?} cannot take the step {step:?}")]
pub struct IllegalStep {
    /// Where it is.
    pub from: State,
    /// What was asked for.
    pub step: Step,
}

/// Permission to work in one workspace; ended by exactly one of the calls of the [`Pool`] that take it.
#[derive(Debug, PartialEq, Eq)]
#[must_use = "a lease takes up a workspace until it is released, quarantined or disposed of"]
pub struct Lease {
    place: usize,
    generation: u32,
    steps: Vec<Step>,
}

impl Lease {
    /// The number of its place, from 1.
    pub fn place(&self) -> usize {
        self.place + 1
    }

    /// How many workspaces were made in this place, with this one.
    pub fn generation(&self) -> u32 {
        self.generation
    }

    /// What was done with it so far.
    pub fn steps(&self) -> &[Step] {
        &self.steps
    }
}

/// An empty place, to be filled by [`Pool::replace`].
#[derive(Debug, PartialEq, Eq)]
#[must_use = "a place stays empty until a workspace is made in it"]
pub struct Vacancy(usize);

impl Vacancy {
    /// The number of the place, from 1.
    pub fn place(&self) -> usize {
        self.0 + 1
    }
}

#[derive(Debug, Clone, Copy)]
struct Place {
    state: State,
    generation: u32,
}

/// All workspaces of a run: never more than its capacity are taken at a time.
#[derive(Debug)]
pub struct Pool(Vec<Place>);

impl Pool {
    /// Places for `capacity` workspaces, all empty.
    pub fn with_capacity(capacity: NonZeroUsize) -> Self {
        Self(vec![Place { state: State::Vacant, generation: 0 }; capacity.get()])
    }

    /// How many workspaces there may be.
    pub fn capacity(&self) -> usize {
        self.0.len()
    }

    /// How many of them a session has.
    pub fn taken(&self) -> usize {
        self.0.iter().filter(|place| matches!(place.state, State::Acquired | State::Reset | State::Leased)).count()
    }

    /// The state of the place with this number.
    pub fn state(&self, place: usize) -> Option<State> {
        self.0.get(place.checked_sub(1)?).map(|place| place.state)
    }

    /// The first place without a usable workspace.
    pub fn vacancy(&self) -> Option<Vacancy> {
        self.0.iter().position(|place| place.state.after(Step::Replace).is_some()).map(Vacancy)
    }

    /// A workspace was made in an empty place.
    #[expect(clippy::needless_pass_by_value, reason = "a vacancy is filled once: the call consumes it")]
    pub fn replace(&mut self, vacancy: Vacancy) -> Result<(), IllegalStep> {
        let Vacancy(place) = vacancy;
        self.advance(place, Step::Replace)?;
        self.0[place].generation += 1;
        Ok(())
    }

    /// Takes the first workspace that nobody has.
    pub fn acquire(&mut self) -> Result<Lease, NoLease> {
        let Some(place) = self.0.iter().position(|place| place.state == State::Idle) else {
            let is_full = self.taken() == self.capacity();
            return Err(if is_full { NoLease::Exhausted { capacity: self.capacity() } } else { NoLease::Vacant });
        };
        self.0[place].state = State::Acquired;
        Ok(Lease { place, generation: self.0[place].generation, steps: vec![Step::Acquire] })
    }

    /// The workspace was brought to the branch's head.
    pub fn reset(&mut self, lease: &mut Lease) -> Result<(), IllegalStep> {
        self.advance(lease.place, Step::Reset)?;
        lease.steps.push(Step::Reset);
        Ok(())
    }

    /// The workspace was found healthy.
    pub fn check(&mut self, lease: &mut Lease) -> Result<(), IllegalStep> {
        self.advance(lease.place, Step::Check)?;
        lease.steps.push(Step::Check);
        Ok(())
    }

    /// Gives the workspace back; says all that was done with it.
    pub fn release(&mut self, lease: Lease) -> Result<Vec<Step>, IllegalStep> {
        self.end(lease, Step::Release)
    }

    /// The workspace is kept aside: its place can be filled again.
    pub fn quarantine(&mut self, lease: Lease) -> Result<Vec<Step>, IllegalStep> {
        self.end(lease, Step::Quarantine)
    }

    /// The workspace is given up: its place is empty.
    pub fn dispose(&mut self, lease: Lease) -> Result<Vec<Step>, IllegalStep> {
        self.end(lease, Step::Dispose)
    }

    fn end(&mut self, lease: Lease, step: Step) -> Result<Vec<Step>, IllegalStep> {
        let Lease { place, mut steps, .. } = lease;
        self.advance(place, step)?;
        steps.push(step);
        Ok(steps)
    }

    fn advance(&mut self, place: usize, step: Step) -> Result<(), IllegalStep> {
        let from = self.0[place].state;
        self.0[place].state = from.after(step).ok_or(IllegalStep { from, step })?;
        Ok(())
    }
}

#[cfg(test)]
mod tests;
