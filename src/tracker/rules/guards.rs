//! Who may make a change, and from which status: what the transition rules ask before they change anything.

use crate::ids::AgentId;
use crate::plan::Work;

use super::Change;
use crate::tracker::row::Status;
use crate::tracker::step::{Actor, Refusal};

const SEE_LIST: &str = "`runner task list` shows what can be done with each task";

impl Change<'_> {
    /// Who reviews: the live review session's agent, or a person while no session is live.
    pub(super) fn reviewer(&self, what: &str) -> Result<AgentId, Refusal> {
        self.expect_status(Status::Review, what)?;
        let (task, row) = (self.task, self.row);
        match (self.who, &row.claim) {
            (Actor::Session(agent), Some(live)) if live.work == Work::Review && live.agent == *agent => {
                Ok(agent.clone())
            }
            (Actor::Session(agent), _) => Err(Refusal::new(
                format!("{agent} is not the reviewer of {task}"),
                "an executor's session ends with submit: exit now",
            )),
            (Actor::Coordinator, _) => Err(Refusal::new("the coordinator reviews nothing", "start a review session")),
            (Actor::Person(_), Some(live)) => Err(Refusal::new(
                format!("{task} is held by {}", live.agent),
                "wait until that session has ended, or release it",
            )),
            (Actor::Person(name), None) if row.agents.contains(name) => Err(Refusal::new(
                format!("{name} has worked on {task}"),
                "the reviewer is no agent that worked on the task: let somebody else review it",
            )),
            (Actor::Person(name), None) => Ok(name.clone()),
        }
    }

    /// The status a held task goes back to: `todo` for an executor's, `review` for a reviewer's.
    pub(super) fn held_status(&self, what: &str) -> Result<Status, Refusal> {
        let row = self.row;
        if row.is_held() {
            return Ok(if row.status == Status::InProgress { Status::Todo } else { Status::Review });
        }
        let rule = format!("{} is {} and no session holds it, so it cannot {what}", self.task, row.status);
        Err(Refusal::new(rule, SEE_LIST))
    }

    /// Only who holds the task may end a session of it: the claim's agent, or, where the original left a task in progress
    /// without a claim, its owner. The coordinator acts for a session that has ended.
    pub(super) fn expect_holder(&self, verb: &str) -> Result<(), Refusal> {
        let holds = match (self.who, &self.row.claim) {
            (Actor::Coordinator, _) => true,
            (Actor::Session(agent), Some(claim)) => claim.agent == *agent,
            (Actor::Person(name), None) => self.row.owner.as_ref() == Some(name),
            (Actor::Session(_), None) | (Actor::Person(_), Some(_)) => false,
        };
        if holds {
            return Ok(());
        }
        Err(Refusal::new(
            format!("{} does not hold {} and cannot {verb} it", self.who.name(), self.task),
            "take it first with `runner task claim`",
        ))
    }

    pub(super) fn expect_coordinator(&self, verb: &str) -> Result<(), Refusal> {
        if self.who == Actor::Coordinator {
            return Ok(());
        }
        let rule = format!("{} cannot {verb} {}", self.who.name(), self.task);
        Err(Refusal::new(rule, "only the coordinator does that"))
    }

    pub(super) fn expect_status(&self, wanted: Status, what: &str) -> Result<(), Refusal> {
        if self.row.status == wanted {
            return Ok(());
        }
        let rule = format!("{} is {}; only a task in {wanted} can be {what}", self.task, self.row.status);
        Err(Refusal::new(rule, SEE_LIST))
    }
}
