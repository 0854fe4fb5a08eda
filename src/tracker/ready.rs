//! What can run next, what waits for whom, and what never will.
//!
//! Pure: a plan and a board in, an order out.

use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;

use crate::ids::{Role, StageId, TaskId};
use crate::plan::views::StageCounts;
use crate::plan::{Plan, TaskCard, Work};

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

    fn is_done(&self, task: &TaskId) -> bool {
        self.row(task).status == Status::Done
    }

    /// Those of `tasks` that are not done.
    pub fn unfinished<'a>(&self, tasks: impl IntoIterator<Item = &'a TaskId>) -> Vec<TaskId> {
        tasks.into_iter().filter(|task| !self.is_done(task)).cloned().collect()
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

/// The stages all of whose tasks are done; a stage without tasks is complete.
fn complete_stages(plan: &Plan, board: &Board) -> BTreeSet<StageId> {
    let mut complete: BTreeSet<StageId> = plan.stages().iter().map(|stage| stage.id.clone()).collect();
    for task in plan.tasks().iter().filter(|task| !board.is_done(&task.id)) {
        complete.remove(&task.stage);
    }
    complete
}

/// All sessions that could start now, in the order in which they would.
///
/// Reviews before claims, remediation before other work, then the plan's own order (stage, priority, id).
pub fn ready(plan: &Plan, board: &Board, part: &Part) -> Vec<Ready> {
    let complete = complete_stages(plan, board);
    let is_open = |task: &TaskCard| {
        plan.stage(&task.stage).is_some_and(|stage| stage.depends_on.iter().all(|other| complete.contains(other)))
    };
    let mut found: Vec<(bool, bool, Ready)> = Vec::new();
    for task in part.tasks(plan, board) {
        let row = board.row(&task.id);
        if row.claim.is_some() || !is_open(task) {
            continue;
        }
        let (work, role) = match row.status {
            Status::Review => (Work::Review, &task.reviewer_role),
            Status::Todo if may_be_claimed(task, board) => (Work::Claim, &task.role),
            _ => continue,
        };
        let item = Ready { id: task.id.clone(), role: role.clone(), work };
        found.push((work == Work::Claim, task.origin.is_none(), item));
    }
    found.sort_by_key(|(is_claim, is_original, _)| (*is_claim, *is_original));
    found.into_iter().map(|(_, _, item)| item).collect()
}

/// Whether everything a `todo` task depends on is done; a remediation also waits while its origin waits for a person.
fn may_be_claimed(task: &TaskCard, board: &Board) -> bool {
    task.depends_on.iter().all(|other| board.is_done(other))
        && task.origin.as_ref().is_none_or(|origin| !board.row(origin).external_wait)
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

/// Why the rest of the chosen part does not go on.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Outlook {
    /// Tasks that wait for a person, each with its reason.
    pub external: BTreeMap<TaskId, String>,
    /// Tasks that can never become ready as things stand, each with what it waits for.
    pub unsatisfiable: BTreeMap<TaskId, String>,
    /// Other unfinished tasks, each with what it waits for.
    pub waiting: BTreeMap<TaskId, String>,
}

/// Says of each unfinished task of the part what it waits for.
pub fn outlook(plan: &Plan, board: &Board, part: &Part) -> Outlook {
    let reachable = reachable(plan, board);
    let complete = complete_stages(plan, board);
    let mut outlook = Outlook::default();
    for task in part.tasks(plan, board) {
        let row = board.row(&task.id);
        if row.status == Status::Done {
            continue;
        }
        if row.external_wait {
            outlook.external.insert(task.id.clone(), row.reason.clone().unwrap_or_default());
            continue;
        }
        let why = waits_for((plan, &complete), board, task);
        if !reachable.contains(&task.id) {
            outlook.unsatisfiable.insert(task.id.clone(), why);
        } else if !why.is_empty() {
            outlook.waiting.insert(task.id.clone(), why);
        }
    }
    outlook
}

fn waits_for((plan, complete): (&Plan, &BTreeSet<StageId>), board: &Board, task: &TaskCard) -> String {
    let row = board.row(&task.id);
    if let Some(claim) = &row.claim {
        return format!("held by {}", claim.agent);
    }
    if row.status == Status::InProgress {
        return row.owner.as_ref().map_or_else(String::new, |owner| format!("held by {owner}"));
    }
    let mut open = board.unfinished(task.depends_on.iter().chain(&row.blocked_by));
    let stage = plan.stage(&task.stage);
    let stages = stage.into_iter().flat_map(|stage| &stage.depends_on).filter(|other| !complete.contains(other));
    let mut names: Vec<String> = open.drain(..).map(String::from).collect();
    names.extend(stages.map(|stage| format!("stage {stage}")));
    if names.is_empty() { String::new() } else { format!("waits for {}", names.join(", ")) }
}

/// The tasks that become done if every session succeeds and every person answers.
fn reachable(plan: &Plan, board: &Board) -> BTreeSet<TaskId> {
    let mut hopes = Hopes::of(plan, board);
    let mut reached = BTreeSet::new();
    let mut open: Vec<&TaskCard> =
        plan.tasks().iter().filter(|task| board.is_done(&task.id) || hopes.is_free(task)).collect();
    let mut next: BTreeSet<&TaskId> = open.iter().map(|task| &task.id).collect();
    while let Some(task) = open.pop() {
        reached.insert(task.id.clone());
        for freed in hopes.finish(task) {
            if next.insert(&freed.id) {
                open.push(freed);
            }
        }
    }
    reached
}

/// What every task still waits for while one after the other is taken for done.
struct Hopes<'p> {
    /// How many tasks and stages a task waits for.
    missing: BTreeMap<&'p TaskId, usize>,
    after_task: BTreeMap<TaskId, Vec<&'p TaskCard>>,
    after_stage: BTreeMap<&'p StageId, Vec<&'p TaskCard>>,
    /// How many tasks of a stage are left.
    left: BTreeMap<&'p StageId, usize>,
}

impl<'p> Hopes<'p> {
    fn of(plan: &'p Plan, board: &Board) -> Self {
        let mut hopes = Self {
            missing: BTreeMap::new(),
            after_task: BTreeMap::new(),
            after_stage: BTreeMap::new(),
            left: BTreeMap::new(),
        };
        for task in plan.tasks() {
            *hopes.left.entry(&task.stage).or_default() += 1;
        }
        for task in plan.tasks() {
            let mut missing = 0;
            for other in task.depends_on.iter().chain(&board.row(&task.id).blocked_by) {
                hopes.after_task.entry(other.clone()).or_default().push(task);
                missing += 1;
            }
            // A stage without tasks is complete.
            let stages = plan.stage(&task.stage).into_iter().flat_map(|stage| &stage.depends_on);
            for other in stages.filter(|other| hopes.left.contains_key(other)) {
                hopes.after_stage.entry(other).or_default().push(task);
                missing += 1;
            }
            hopes.missing.insert(&task.id, missing);
        }
        hopes
    }

    fn is_free(&self, task: &TaskCard) -> bool {
        self.missing.get(&task.id) == Some(&0)
    }

    /// Takes a task for done; gives back those that wait for nothing any more.
    fn finish(&mut self, task: &'p TaskCard) -> Vec<&'p TaskCard> {
        let mut waited = self.after_task.remove(&task.id).unwrap_or_default();
        if let Some(left) = self.left.get_mut(&task.stage) {
            *left -= 1;
            if *left == 0 {
                waited.extend(self.after_stage.remove(&task.stage).unwrap_or_default());
            }
        }
        let is_freed = |task: &&'p TaskCard| {
            self.missing.get_mut(&task.id).is_some_and(|missing| {
                *missing -= 1;
                *missing == 0
            })
        };
        waited.into_iter().filter(is_freed).collect()
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::path::Path;

    use serde_json::json;

    use super::{Board, Part, outlook};
    use crate::plan::{Plan, Stage, TaskCard};
    use crate::tracker::row::{Row, Status};

    fn stage(id: &str, depends_on: &[&str]) -> Stage {
        let depends_on = depends_on.iter().map(|id| id.parse().unwrap()).collect();
        Stage { id: id.parse().unwrap(), title: "Stage".into(), goal: "Goal".into(), order: 0, depends_on }
    }

    fn card(id: &str, depends_on: &[String]) -> TaskCard {
        let value = json!({
            "id": id, "stage": &id[..3], "title": "Task", "role": "backend", "reviewer_role": "qa",
            "scope": ["src/*"], "outcome": "Something.", "depends_on": depends_on,
        });
        TaskCard::parse(Path::new("card"), value.to_string().as_bytes()).unwrap()
    }

    fn waiting(plan: &Plan, rows: &[(&str, Row)]) -> (Vec<String>, Vec<String>) {
        let rows: BTreeMap<_, _> = rows.iter().map(|(id, row)| (id.parse().unwrap(), row.clone())).collect();
        let outlook = outlook(plan, &Board::new(rows), &Part::Everything);
        let names = |tasks: BTreeMap<crate::ids::TaskId, String>| tasks.into_keys().map(String::from).collect();
        (names(outlook.waiting), names(outlook.unsatisfiable))
    }

    #[test]
    fn what_waits_for_a_task_that_is_not_there_can_never_be_done_and_neither_can_the_stages_after_it() {
        let tasks = vec![card("S00-001", &[]), card("S00-002", &["S00-001".into()]), card("S01-001", &[])];
        let plan = Plan::new(vec![stage("S00", &[]), stage("S01", &["S00"])], tasks).unwrap();
        let (waiting_now, never) = waiting(&plan, &[]);
        assert_eq!((waiting_now, never), (vec!["S00-002".to_owned(), "S01-001".to_owned()], vec![]));

        let blocked = Row { status: Status::Blocked, blocked_by: vec!["S00-900".parse().unwrap()], ..Row::default() };
        let (waiting_now, never) = waiting(&plan, &[("S00-002", blocked)]);
        assert_eq!((waiting_now, never), (vec![], vec!["S00-002".to_owned(), "S01-001".to_owned()]));
    }

    #[test]
    fn a_finished_task_frees_what_waits_for_it_whatever_it_once_waited_for() {
        let tasks =
            vec![card("S00-001", &[]), card("S00-002", &["S00-001".into()]), card("S00-003", &["S00-002".into()])];
        let plan = Plan::new(vec![stage("S00", &[])], tasks).unwrap();
        let done = Row { status: Status::Done, blocked_by: vec!["S00-900".parse().unwrap()], ..Row::default() };
        assert_eq!(waiting(&plan, &[("S00-002", done)]), (vec![], vec![]));
    }

    #[test]
    fn a_long_chain_in_reverse_order_is_looked_through_in_one_pass() {
        let id = |number: usize| format!("S00-{number:05}");
        let last = 3_000;
        let tasks = (1..=last).map(|n| card(&id(n), &if n < last { vec![id(n + 1)] } else { vec![] })).collect();
        let plan = Plan::new(vec![stage("S00", &[])], tasks).unwrap();
        let (waiting_now, never) = waiting(&plan, &[]);
        assert_eq!((waiting_now.len(), never.len()), (last - 1, 0));
    }
}
