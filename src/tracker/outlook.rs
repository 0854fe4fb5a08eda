//! Why the rest of a plan does not go on: who waits for a person, who for other tasks, and who for ever.
//!
//! Pure, and linear in the size of plan and board.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use crate::ids::{StageId, TaskId};
use crate::plan::{Plan, TaskCard};

use super::ready::{Board, Gates, Part};
use super::row::Status;

/// Why the rest of the chosen part does not go on.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Outlook {
    /// Tasks that wait for a person, each with its reason.
    pub external: BTreeMap<TaskId, String>,
    /// Tasks that can never become ready as things stand, each with what it waits for.
    pub unsatisfiable: BTreeMap<TaskId, String>,
    /// Other unfinished tasks that are held or wait, each with what for.
    pub waiting: BTreeMap<TaskId, String>,
}

/// Says of each unfinished task of the part what it waits for.
pub fn outlook(plan: &Plan, board: &Board, part: &Part) -> Outlook {
    let reachable = reachable(plan, board);
    let gates = Gates::new(plan, board);
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
        let why = waits_for(&gates, board, task);
        if !reachable.contains(&task.id) {
            outlook.unsatisfiable.insert(task.id.clone(), why);
        } else if !why.is_empty() {
            outlook.waiting.insert(task.id.clone(), why);
        }
    }
    outlook
}

fn waits_for(gates: &Gates<'_>, board: &Board, task: &TaskCard) -> String {
    let row = board.row(&task.id);
    let holder = row.claim.as_ref().map(|claim| &claim.agent);
    let holder = holder.or(row.owner.as_ref().filter(|_| row.status == Status::InProgress));
    if let Some(holder) = holder {
        return format!("held by {holder}");
    }
    let mut names: Vec<String> = match row.status {
        Status::Todo => {
            let origin = gates.waiting_origin(task).map(|origin| format!("a person's answer to {origin}"));
            gates.dependencies(task).into_iter().map(String::from).chain(origin).collect()
        }
        Status::Blocked => board.unfinished(&row.blocked_by).into_iter().map(String::from).collect(),
        // What is under review has had its dependencies.
        Status::InProgress | Status::Review | Status::Done => Vec::new(),
    };
    names.extend(gates.stages(task).map(|stage| format!("stage {stage}")));
    if names.is_empty() { String::new() } else { format!("waits for {}", names.join(", ")) }
}

/// The tasks that become done if every session succeeds and every person answers.
fn reachable<'a>(plan: &'a Plan, board: &'a Board) -> BTreeSet<&'a TaskId> {
    let mut waiting = Waiting::default();
    let mut left_in_stage: HashMap<&StageId, usize> = HashMap::new();
    for task in plan.tasks().iter().filter(|task| !board.is_done(&task.id)) {
        *left_in_stage.entry(&task.stage).or_default() += 1;
    }
    let mut reached = BTreeSet::new();
    let mut open: Vec<&TaskCard> = Vec::new();
    for task in plan.tasks() {
        let tasks = board.unfinished_of(task.depends_on.iter().chain(&board.row(&task.id).blocked_by));
        let stages = plan.stage(&task.stage).into_iter().flat_map(|stage| &stage.depends_on);
        let stages = stages.filter(|stage| left_in_stage.contains_key(stage));
        if board.is_done(&task.id) {
            reached.insert(&task.id);
        } else if waiting.add(task, tasks, stages) == 0 {
            open.push(task);
        }
    }
    while let Some(task) = open.pop() {
        reached.insert(&task.id);
        waiting.finished(Node::Task(&task.id), &mut open);
        let left = left_in_stage.entry(&task.stage).or_default();
        *left = left.saturating_sub(1);
        if *left == 0 {
            waiting.finished(Node::Stage(&task.stage), &mut open);
        }
    }
    reached
}

/// What a task can wait for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Node<'a> {
    Task(&'a TaskId),
    Stage(&'a StageId),
}

/// Who waits for what, and for how much each still does.
#[derive(Debug, Default)]
struct Waiting<'a> {
    awaited_by: HashMap<Node<'a>, Vec<&'a TaskCard>>,
    left: HashMap<&'a TaskId, usize>,
}

impl<'a> Waiting<'a> {
    /// Notes what `task` waits for; gives back how much that is.
    fn add(
        &mut self,
        task: &'a TaskCard,
        tasks: impl Iterator<Item = &'a TaskId>,
        stages: impl Iterator<Item = &'a StageId>,
    ) -> usize {
        let mut count = 0;
        for node in tasks.map(Node::Task).chain(stages.map(Node::Stage)) {
            self.awaited_by.entry(node).or_default().push(task);
            count += 1;
        }
        self.left.insert(&task.id, count);
        count
    }

    /// Takes `node` off the lists; who waits for nothing more goes to `open`.
    fn finished(&mut self, node: Node<'a>, open: &mut Vec<&'a TaskCard>) {
        for task in self.awaited_by.remove(&node).unwrap_or_default() {
            let left = self.left.entry(&task.id).or_default();
            *left -= 1;
            if *left == 0 {
                open.push(task);
            }
        }
    }
}
