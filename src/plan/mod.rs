//! The plan: stages and task cards, loaded and checked whole before anything runs.
//!
//! Owns what a card may say and how the generated views of `planning/` look. Knows nothing of states: what has been done
//! is the tracker's.

mod card;
mod check;
mod cycles;
mod load;
mod stage;
pub mod views;

use std::collections::{BTreeSet, HashMap};
use std::fmt;

use serde::{Deserialize, Serialize};

use crate::fs::FileError;
use crate::ids::{StageId, TaskId};
use crate::strict;

pub use crate::strict::Fault;
pub use card::TaskCard;
pub use stage::Stage;

/// What an agent is asked to do with a task.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Work {
    /// To execute it.
    Claim,
    /// To judge what another agent made of it.
    Review,
}

impl fmt::Display for Work {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Work::Claim => "claim",
            Work::Review => "review",
        })
    }
}

/// A plan that cannot be run.
#[derive(Debug, thiserror::Error)]
pub enum PlanError {
    /// A folder of the plan cannot be read.
    #[error(transparent)]
    File(#[from] FileError),
    /// The plan holds faults: all of them, one a line.
    #[error("{}", strict::lines(.0))]
    Faults(Vec<Fault>),
}

/// A whole and consistent plan.
#[derive(Debug, Clone)]
pub struct Plan {
    stages: Vec<Stage>,
    tasks: Vec<TaskCard>,
    task_places: HashMap<TaskId, usize>,
    stage_places: HashMap<StageId, usize>,
    remediations: HashMap<TaskId, Vec<usize>>,
}

impl Plan {
    /// Makes a plan of stages and cards, in any order; the error holds every fault that shows without looking at files.
    pub fn new(stages: Vec<Stage>, tasks: Vec<TaskCard>) -> Result<Self, Vec<Fault>> {
        let mut faults: Vec<Fault> = tasks.iter().flat_map(check::card).collect();
        faults.extend(check::whole(&stages, &tasks, &BTreeSet::new()));
        if faults.is_empty() { Ok(Self::arranged(stages, tasks)) } else { Err(faults) }
    }

    /// This plan with one more card.
    pub fn with(&self, card: TaskCard) -> Result<Self, Vec<Fault>> {
        let mut tasks = self.tasks.clone();
        tasks.push(card);
        Self::new(self.stages.clone(), tasks)
    }

    /// Sorts and indexes what has been checked.
    fn arranged(mut stages: Vec<Stage>, mut tasks: Vec<TaskCard>) -> Self {
        stages.sort_by(|a, b| (a.order, &a.id).cmp(&(b.order, &b.id)));
        let stage_places: HashMap<_, _> =
            stages.iter().enumerate().map(|(place, stage)| (stage.id.clone(), place)).collect();
        tasks.sort_by_cached_key(|task| (stage_places[&task.stage], task.priority, task.id.clone()));
        let mut remediations: HashMap<TaskId, Vec<usize>> = HashMap::new();
        for (place, task) in tasks.iter().enumerate() {
            if let Some(origin) = &task.origin {
                remediations.entry(origin.clone()).or_default().push(place);
            }
        }
        let task_places = tasks.iter().enumerate().map(|(place, task)| (task.id.clone(), place)).collect();
        Self { stages, tasks, task_places, stage_places, remediations }
    }

    /// The stages, by `order`, then id.
    pub fn stages(&self) -> &[Stage] {
        &self.stages
    }

    /// The cards, by their stage's place, then priority, then id.
    pub fn tasks(&self) -> &[TaskCard] {
        &self.tasks
    }

    /// The card of a task.
    pub fn task(&self, id: &TaskId) -> Option<&TaskCard> {
        self.task_places.get(id).map(|place| &self.tasks[*place])
    }

    /// A stage.
    pub fn stage(&self, id: &StageId) -> Option<&Stage> {
        self.stage_places.get(id).map(|place| &self.stages[*place])
    }

    /// The cards made to remove a blocker of `id`, in the order of [`Plan::tasks`].
    pub fn remediations_of(&self, id: &TaskId) -> impl Iterator<Item = &TaskCard> {
        self.remediations.get(id).into_iter().flatten().map(|place| &self.tasks[*place])
    }

    /// How many tasks stand above `id` as its origin, its origin's origin and so on; 0 for a task of the plan itself.
    pub fn depth(&self, id: &TaskId) -> u32 {
        // Ends: origins form no cycle, or the plan would have been refused.
        let origin = |id: &TaskId| self.task(id).and_then(|card| card.origin.as_ref());
        let mut depth = 0;
        let mut at = origin(id);
        while let Some(above) = at {
            depth += 1;
            at = origin(above);
        }
        depth
    }
}
