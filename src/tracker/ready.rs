//! What can run next, and in which order.
//!
//! Pure: a plan and a board in, an order out.

use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;

use crate::ids::{Role, StageId, TaskId};
use crate::plan::views::StageCounts;
use crate::plan::{Plan, TaskCard, Work};

pub use super::outlook::{Outlook, outlook};
use super::row::{Row, Status};

/// All rows of a plan; a task without a row is `todo`.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Board {
    rows: BTreeMap<TaskId, Row>,
    empty: Row,
}

impl Board {
    /// A board of the given rows.
    pub fn new(rows: BTreeMap<TaskId, Row>) -> Self {
        Self { rows, empty: Row::default() }
    }

    /// The row of a task.
    pub fn row(&self, task: &TaskId) -> &Row {
        self.rows.get(task).unwrap_or(&self.empty)
    }

    /// Puts a row in its place.
    pub fn set(&mut self, task: TaskId, row: Row) {
        self.rows.insert(task, row);
    }

    /// All rows that exist.
    pub fn rows(&self) -> impl Iterator<Item = (&TaskId, &Row)> {
        self.rows.iter()
    }

    /// The number of all events.
    pub fn revision(&self) -> u64 {
        self.rows.values().map(|row| row.events.len() as u64).sum()
    }

    pub(super) fn is_done(&self, task: &TaskId) -> bool {
        self.row(task).status == Status::Done
    }

    /// Those of `tasks` that are not done.
    pub fn unfinished<'a>(&self, tasks: impl IntoIterator<Item = &'a TaskId>) -> Vec<TaskId> {
        self.unfinished_of(tasks).cloned().collect()
    }

    /// As [`Board::unfinished`], borrowed.
    pub(super) fn unfinished_of<'a>(
        &self,
        tasks: impl IntoIterator<Item = &'a TaskId>,
    ) -> impl Iterator<Item = &'a TaskId> {
        tasks.into_iter().filter(|task| !self.is_done(task))
    }
}

/// The part of the plan a run is about.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Part {
    /// All of it.
    Everything,
    /// One stage.
    Stage(StageId),
    /// One task and what blocks it.
    Task(TaskId),
}

impl Part {
    /// The tasks that count: the chosen ones and, however far down, the remediations that block them.
    pub fn tasks<'p>(&self, plan: &'p Plan, board: &Board) -> Vec<&'p TaskCard> {
        let chosen: BTreeSet<TaskId> = match self {
            Self::Everything => return plan.tasks().iter().collect(),
            Self::Stage(stage) => plan.tasks().iter().filter(|t| t.stage == *stage).map(|t| t.id.clone()).collect(),
            Self::Task(task) => BTreeSet::from([task.clone()]),
        };
        let mut counted = BTreeSet::new();
        let mut open: Vec<TaskId> = chosen.into_iter().collect();
        while let Some(task) = open.pop() {
            open.extend(board.row(&task).blocked_by.iter().filter(|blocker| !counted.contains(*blocker)).cloned());
            counted.insert(task);
        }
        plan.tasks().iter().filter(|task| counted.contains(&task.id)).collect()
    }
}

/// A session that could start now.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Ready {
    /// The task.
    pub id: TaskId,
    /// The role of the agent it takes.
    pub role: Role,
    /// What is to be done.
    #[serde(rename = "action")]
    pub work: Work,
}

/// How many tasks of each stage stand where.
pub fn counts(plan: &Plan, board: &Board) -> BTreeMap<StageId, StageCounts> {
    let mut counts: BTreeMap<StageId, StageCounts> = BTreeMap::new();
    for task in plan.tasks() {
        let stage = counts.entry(task.stage.clone()).or_default();
        match board.row(&task.id).status {
            Status::Todo => stage.todo += 1,
            Status::InProgress => stage.in_progress += 1,
            Status::Review => stage.review += 1,
            Status::Blocked => stage.blocked += 1,
            Status::Done => stage.done += 1,
        }
    }
    counts
}

/// What has to be over before a session of a task may start.
#[derive(Debug)]
pub struct Gates<'a> {
    plan: &'a Plan,
    board: &'a Board,
    /// The stages with a task that is not done; a stage without tasks is complete.
    unfinished: BTreeSet<&'a StageId>,
}

impl<'a> Gates<'a> {
    /// Looks through the board once.
    pub fn new(plan: &'a Plan, board: &'a Board) -> Self {
        let unfinished = plan.tasks().iter().filter(|task| !board.is_done(&task.id)).map(|task| &task.stage).collect();
        Self { plan, board, unfinished }
    }

    /// The stages that have to be complete before `task` and are not.
    pub fn stages(&self, task: &TaskCard) -> impl Iterator<Item = &'a StageId> {
        let before = self.plan.stage(&task.stage).into_iter().flat_map(|stage| &stage.depends_on);
        before.filter(|stage| self.unfinished.contains(stage))
    }

    /// The tasks that have to be done before `task` is claimed and are not.
    pub fn dependencies(&self, task: &TaskCard) -> Vec<TaskId> {
        self.board.unfinished(&task.depends_on)
    }

    /// The origin of a remediation, while it waits for a person: the answer may make the remediation needless.
    pub fn waiting_origin<'t>(&self, task: &'t TaskCard) -> Option<&'t TaskId> {
        task.origin.as_ref().filter(|origin| self.board.row(origin).external_wait)
    }

    /// Whether a session for this work on `task` may start.
    fn are_open(&self, task: &TaskCard, work: Work) -> bool {
        self.stages(task).next().is_none()
            && (work == Work::Review || (self.dependencies(task).is_empty() && self.waiting_origin(task).is_none()))
    }
}

/// All sessions that could start now, in the order in which they would.
///
/// Reviews before claims, remediation before other work, then the plan's own order (stage, priority, id).
pub fn ready(plan: &Plan, board: &Board, part: &Part) -> Vec<Ready> {
    let gates = Gates::new(plan, board);
    let mut found: Vec<(bool, bool, Ready)> = Vec::new();
    for task in part.tasks(plan, board) {
        let row = board.row(&task.id);
        if row.claim.is_some() {
            continue;
        }
        let (work, role) = match row.status {
            Status::Review => (Work::Review, &task.reviewer_role),
            Status::Todo => (Work::Claim, &task.role),
            Status::InProgress | Status::Blocked | Status::Done => continue,
        };
        if !gates.are_open(task, work) {
            continue;
        }
        let item = Ready { id: task.id.clone(), role: role.clone(), work };
        found.push((work == Work::Claim, task.origin.is_none(), item));
    }
    found.sort_by_key(|(is_claim, is_original, _)| (*is_claim, *is_original));
    found.into_iter().map(|(_, _, item)| item).collect()
}

/// The first `limit` sessions if each one succeeds.
pub fn preview(plan: &Plan, board: &Board, part: &Part, limit: usize) -> Vec<Ready> {
    let mut board = board.clone();
    let mut picks = Vec::new();
    while picks.len() < limit {
        let Some(next) = ready(plan, &board, part).into_iter().next() else { break };
        let mut row = board.row(&next.id).clone();
        row.status = if next.work == Work::Claim { Status::Review } else { Status::Done };
        board.set(next.id.clone(), row);
        if next.work == Work::Review {
            unblock_origin(plan, &mut board, &next.id);
        }
        picks.push(next);
    }
    picks
}

fn unblock_origin(plan: &Plan, board: &mut Board, done: &TaskId) {
    let Some(origin) = plan.task(done).and_then(|card| card.origin.clone()) else { return };
    let mut row = board.row(&origin).clone();
    if row.status == Status::Blocked && !row.external_wait && board.unfinished(&row.blocked_by).is_empty() {
        row.status = row.blocked_from.take().unwrap_or_default();
        row.blocked_by.clear();
        board.set(origin, row);
    }
}

#[cfg(test)]
mod tests;
