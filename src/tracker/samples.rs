//! Small plans and rows for the tests of this room.

use crate::ids::{AgentId, TaskId};
use crate::plan::{Plan, Stage, TaskCard, Work};

use super::row::Claim;

pub(super) fn id(text: &str) -> TaskId {
    text.parse().unwrap()
}

pub(super) fn agent(name: &str) -> AgentId {
    name.parse().unwrap()
}

pub(super) fn claim_of(name: &str, work: Work, token_hash: Option<&str>) -> Claim {
    Claim {
        agent: agent(name),
        work,
        session: 1,
        scope: Vec::new(),
        head: None,
        remediation_left: 2,
        token_hash: token_hash.map(str::to_owned),
        pid: None,
        boot_id: None,
        start_time: None,
    }
}

pub(super) fn stage(name: &str, order: i64, depends_on: &[&str]) -> Stage {
    Stage {
        id: name.parse().unwrap(),
        title: name.to_owned(),
        goal: String::new(),
        order,
        depends_on: depends_on.iter().map(|name| name.parse().unwrap()).collect(),
    }
}

/// A card whose stage is what stands before the first `-` of its id, and whose origin what stands before its last `-r`.
pub(super) fn card(name: &str, depends_on: &[&str]) -> TaskCard {
    TaskCard {
        id: id(name),
        stage: name.split('-').next().unwrap_or_default().parse().unwrap(),
        title: format!("Build {name}"),
        role: "backend".parse().unwrap(),
        reviewer_role: "qa".parse().unwrap(),
        scope: vec!["src/*".to_owned()],
        inputs: Vec::new(),
        depends_on: depends_on.iter().map(|name| id(name)).collect(),
        outcome: "It is there.".to_owned(),
        steps: Vec::new(),
        acceptance: Vec::new(),
        checks: Vec::new(),
        requirements: Vec::new(),
        priority: 0,
        verify: Vec::new(),
        origin: name.rsplit_once("-r").map(|(origin, _)| id(origin)),
    }
}

pub(super) fn plan(stages: &[Stage], tasks: &[TaskCard]) -> Plan {
    Plan::new(stages.to_vec(), tasks.to_vec()).unwrap()
}
