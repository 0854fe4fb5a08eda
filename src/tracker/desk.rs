//! The changes that agents, people and the coordinator ask for, each carried out whole: lock, authorise, apply, write.
//!
//! Owns which files one change touches. The rules themselves are in `rules` and `remediation`.

use std::time::Duration;

use crate::clock::Clock;
use crate::fs::{self, FileError};
use crate::ids::{AgentId, TaskId};
use crate::plan::{Fault, Plan, PlanError, TaskCard};
use crate::project::Project;

pub use super::escalation::Escalated;
use super::proof::Token;
use super::row::{Action, Event, Row, Status};
use super::rules::{self, Actor, Refusal, Step};
use super::store::{Batch, LockedStore, Store, StoreError};

/// How long a verb waits for the state lock.
pub const VERB_PATIENCE: Duration = Duration::from_secs(10);

/// A change that was not made; nothing was written.
#[derive(Debug, thiserror::Error)]
pub enum DeskError {
    /// A rule forbids it.
    #[error(transparent)]
    Refused(#[from] Refusal),
    /// The state could not be read or written.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// A file could not be read or written.
    #[error(transparent)]
    File(#[from] FileError),
    /// The task's card is missing.
    #[error("there is no task {task}: planning/tasks/{task}.json does not exist; `runner task list` shows all tasks")]
    Unknown {
        /// The id that was asked for.
        task: TaskId,
    },
    /// The plan is faulty.
    #[error(transparent)]
    Plan(#[from] PlanError),
    /// A card is faulty.
    #[error("{}", .0.iter().map(ToString::to_string).collect::<Vec<_>>().join("; "))]
    Card(Vec<Fault>),
}

pub(super) type Result<T, E = DeskError> = std::result::Result<T, E>;

/// Who asks.
#[derive(Debug, Clone)]
pub struct Caller {
    /// The agent's id or the person's name.
    pub name: AgentId,
    /// The secret of the session the caller runs in; none for a person.
    pub token: Option<Token>,
}

/// What was changed.
#[derive(Debug, Clone)]
pub struct Changed {
    /// The card of the task.
    pub card: TaskCard,
    /// The status before.
    pub from: Status,
    /// The row as it is now.
    pub row: Row,
    /// The remediation that was made.
    pub remediation: Option<TaskId>,
    /// The origin that can go on because its last blocker is done.
    pub unblocked: Option<TaskId>,
}

/// Where changes are asked for.
#[derive(Debug, Clone)]
pub struct Desk<'a> {
    project: &'a Project,
    store: Store,
    pub(super) clock: Clock,
}

impl<'a> Desk<'a> {
    /// The desk of a project.
    pub fn new(project: &'a Project, clock: Clock) -> Self {
        Self { project, store: Store::new(project), clock }
    }

    /// The store behind the desk.
    pub fn store(&self) -> &Store {
        &self.store
    }

    /// The project the desk belongs to.
    pub fn project(&self) -> &'a Project {
        self.project
    }

    /// Now, as events carry it.
    pub fn stamp(&self) -> String {
        self.clock.stamp()
    }

    /// The card of a task, read from its file.
    pub fn card(&self, task: &TaskId) -> Result<TaskCard> {
        let path = self.project.card(task);
        let bytes = fs::read_if_present(&path)?.ok_or_else(|| DeskError::Unknown { task: task.clone() })?;
        TaskCard::parse(&path, &bytes).map_err(DeskError::Card)
    }

    /// Takes the state lock as verbs do.
    pub fn lock(&self) -> Result<LockedStore<'_>> {
        Ok(self.store.lock(VERB_PATIENCE)?)
    }

    /// As [`Desk::lock`], and converts the original's state: before the first write, and not before that.
    pub(super) fn lock_to_write(&self) -> Result<LockedStore<'_>> {
        let locked = self.lock()?;
        if locked.needs_conversion()? {
            locked.convert(&Plan::load(self.project)?)?;
        }
        Ok(locked)
    }

    /// Carries out one step of `caller` on `task`; `step` is made from the row under the lock, with further texts to write.
    pub fn change<'r>(
        &self,
        task: &TaskId,
        caller: &Caller,
        step: impl FnOnce(&Row) -> Result<(Step<'r>, Batch)>,
    ) -> Result<Changed> {
        let card = self.card(task)?;
        let locked = self.lock_to_write()?;
        let row = locked.read_row(&card.stage, task)?;
        let who = actor(task, &row, caller)?;
        let (step, batch) = step(&row)?;
        let mut next = rules::apply(task, &row, (who, &self.clock.stamp()), step)?;
        sign(&mut next, caller, "");
        let mut batch = batch.row(&card.stage, task, &next);
        let mut unblocked = None;
        if next.status == Status::Done
            && let Some((origin, mut freed)) = self.freed_origin(&locked, &card)?
        {
            sign(&mut freed, caller, "");
            batch = batch.row(&origin.stage, &origin.id, &freed);
            unblocked = Some(origin.id);
        }
        locked.write(&batch)?;
        Ok(Changed { from: row.status, row: next, card, remediation: None, unblocked })
    }

    /// The origin of `done` with its row unblocked, if `done` was the last thing it waited for.
    fn freed_origin(&self, locked: &LockedStore<'_>, done: &TaskCard) -> Result<Option<(TaskCard, Row)>> {
        let Some(origin) = &done.origin else { return Ok(None) };
        let card = self.card(origin)?;
        let row = locked.read_row(&card.stage, origin)?;
        if row.status != Status::Blocked || row.external_wait || self.is_blocked(locked, &row, Some(&done.id))? {
            return Ok(None);
        }
        let freed = rules::apply(origin, &row, (Actor::Coordinator, &self.clock.stamp()), Step::Unblock)?;
        Ok(Some((card, freed)))
    }

    /// Whether a blocker of `row` other than `done` is unfinished.
    pub fn is_blocked(&self, locked: &LockedStore<'_>, row: &Row, done: Option<&TaskId>) -> Result<bool> {
        for blocker in row.blocked_by.iter().filter(|blocker| Some(*blocker) != done) {
            let card = self.card(blocker)?;
            if locked.read_row(&card.stage, blocker)?.status != Status::Done {
                return Ok(true);
            }
        }
        Ok(false)
    }
}

/// `state/handoffs/<agent>-<task>.md`.
pub fn handoff_path(agent: &AgentId, task: &TaskId) -> String {
    format!("state/handoffs/{agent}-{task}.md")
}

/// The first row of a task that came into being while the plan runs.
pub fn created(by: &str, at: &str, note: &str, handoff: Option<String>) -> Row {
    let event = Event {
        seq: 1,
        at: at.to_owned(),
        action: Action::Create,
        agent: by.to_owned(),
        from: Status::Todo,
        to: Status::Todo,
        note: Some(note.to_owned()),
        code: None,
    };
    Row { handoff, events: vec![event], ..Row::default() }
}

pub(super) fn sign(row: &mut Row, caller: &Caller, extra: &str) {
    if let Some(token) = &caller.token {
        token.sign(row, extra);
    }
}

/// Whether the caller speaks for the row's live session or as a person.
pub(super) fn actor<'c>(task: &TaskId, row: &Row, caller: &'c Caller) -> Result<Actor<'c>> {
    let holds = row.claim.as_ref().is_some_and(|claim| claim.agent == caller.name);
    if caller.token.is_some() || caller.name.is_automatic() || holds {
        rules::authorise(task, row, &caller.name, caller.token.as_ref().map(Token::hash).as_deref())?;
        return Ok(Actor::Session(&caller.name));
    }
    Ok(Actor::Person(&caller.name))
}

#[cfg(test)]
mod tests;
