//! stub
use crate::ids::*;
use serde::{Deserialize, Serialize};
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Work {
    Claim,
    Review,
}
#[derive(Debug, Clone)]
pub struct Stage {
    pub id: StageId,
    pub title: String,
    pub goal: String,
    pub order: i64,
    pub depends_on: Vec<StageId>,
}
#[derive(Debug, Clone, PartialEq)]
pub struct TaskCard {
    pub id: TaskId,
    pub stage: StageId,
    pub title: String,
    pub role: Role,
    pub reviewer_role: Role,
    pub scope: Vec<String>,
    pub inputs: Vec<String>,
    pub outcome: String,
    pub steps: Vec<String>,
    pub acceptance: Vec<String>,
    pub checks: Vec<String>,
    pub requirements: Vec<String>,
    pub depends_on: Vec<TaskId>,
    pub priority: i64,
    pub origin: Option<TaskId>,
}
impl TaskCard {
    pub fn to_json(&self) -> String {
        String::new()
    }
    pub fn parse(_p: &std::path::Path, _b: &[u8]) -> Result<TaskCard, Vec<Fault>> {
        Err(vec![])
    }
}
#[derive(Debug)]
pub struct Fault;
#[derive(Debug, Clone, Default)]
pub struct StageCounts {
    pub todo: usize,
    pub in_progress: usize,
    pub review: usize,
    pub blocked: usize,
    pub done: usize,
}
#[derive(Debug)]
pub struct Plan {
    stages: Vec<Stage>,
    tasks: Vec<TaskCard>,
}
impl Plan {
    pub fn new(stages: Vec<Stage>, tasks: Vec<TaskCard>) -> Result<Plan, Vec<Fault>> {
        Ok(Plan { stages, tasks })
    }
    pub fn stages(&self) -> &[Stage] {
        &self.stages
    }
    pub fn tasks(&self) -> &[TaskCard] {
        &self.tasks
    }
    pub fn task(&self, id: &TaskId) -> Option<&TaskCard> {
        self.tasks.iter().find(|t| &t.id == id)
    }
    pub fn stage(&self, id: &StageId) -> Option<&Stage> {
        self.stages.iter().find(|t| &t.id == id)
    }
    pub fn remediations_of<'a>(&'a self, id: &'a TaskId) -> impl Iterator<Item = &'a TaskCard> {
        self.tasks.iter().filter(move |t| t.origin.as_ref() == Some(id))
    }
    pub fn depth(&self, _id: &TaskId) -> u32 {
        0
    }
}
impl std::fmt::Display for Fault { fn fmt(&self,f:&mut std::fmt::Formatter<'_>)->std::fmt::Result{ write!(f,"x") } }
