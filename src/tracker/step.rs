//! The words of the transition rules: who asks for which change, and how it is refused.
//!
//! Shapes only; which change is allowed is decided in `rules`.

use crate::ids::{AgentId, TaskId};

use super::row::{Claim, Row};

/// A change that the rules do not allow: which rule, and what to do instead.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{rule}; {advice}")]
pub struct Refusal {
    /// The rule that was broken, with the values at hand.
    pub rule: String,
    /// What to do instead.
    pub advice: String,
}

impl Refusal {
    /// A refusal from its two halves.
    pub fn new(rule: impl Into<String>, advice: impl Into<String>) -> Self {
        Self { rule: rule.into(), advice: advice.into() }
    }
}

/// Who makes a change.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Actor<'a> {
    /// The agent of a live session that proved itself ([`super::rules::authorise`]).
    Session(&'a AgentId),
    /// A person, by a plain name.
    Person(&'a AgentId),
    /// The coordinator itself.
    Coordinator,
}

impl Actor<'_> {
    /// The name events carry.
    pub(super) fn name(&self) -> &str {
        match self {
            Self::Session(agent) | Self::Person(agent) => agent.as_str(),
            Self::Coordinator => "coordinator",
        }
    }
}

/// What a blocked task waits for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Blocker {
    /// A remediation task.
    Task(TaskId),
    /// A person's answer.
    Person,
}

/// One change of a row.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Step<'a> {
    /// A session takes the task; `waiting_for` are the tasks that have to be done first and are not.
    Claim {
        /// The claim to record.
        claim: Claim,
        /// Unfinished dependencies.
        waiting_for: &'a [TaskId],
    },
    /// A session that left without a transition goes on in a further process, as a session of its own.
    FollowUp {
        /// Its number, the next after the claim's.
        session: u32,
        /// The hash of its secret; that of the session before proves nothing any more.
        token_hash: String,
    },
    /// The executor hands its work in.
    Submit {
        /// Root-relative path of its evidence.
        evidence: Option<String>,
        /// Why nothing had to be changed, if it says so.
        no_change: Option<String>,
    },
    /// The reviewer accepts.
    Approve {
        /// Root-relative path of its evidence.
        evidence: Option<String>,
    },
    /// The reviewer sends the work back.
    Reject {
        /// Why.
        reason: String,
        /// Root-relative path of the text for the next executor.
        handoff: String,
    },
    /// The coordinator sends work back that it found wanting itself.
    SendBack {
        /// Why.
        reason: String,
        /// Root-relative path of the text for the next executor.
        handoff: String,
    },
    /// A session ends at a blocker.
    Escalate {
        /// Why.
        reason: String,
        /// Root-relative path of the report.
        handoff: String,
        /// What the task waits for from now on.
        blocker: Blocker,
    },
    /// A claim is given back.
    Release {
        /// Why.
        note: String,
    },
    /// A claim is given back since the agent's service takes nothing for a while; it counts as none.
    Limit {
        /// What the service said.
        note: String,
    },
    /// A claim is given back since the agent's service failed; the task is tried again.
    Retry {
        /// What the service said, and when the task is tried again.
        note: String,
    },
    /// A person answers an external wait.
    Answer {
        /// Root-relative path of the answer's text.
        handoff: String,
        /// Whether a remediation is still open.
        still_blocked: bool,
    },
    /// The last blocker is done.
    Unblock,
    /// The task is set aside for a person without a session.
    Wait {
        /// Why.
        reason: String,
    },
    /// What a reviewer's session did to the row is undone, and the task waits for another review.
    Void {
        /// The row as it was before the session's claim.
        before: &'a Row,
        /// Why.
        reason: String,
        /// Root-relative path of the report.
        handoff: String,
    },
    /// What a session did to the row is undone, and the task waits for a person.
    Quarantine {
        /// The row as it was before the session's claim.
        before: &'a Row,
        /// Why.
        reason: String,
        /// Root-relative path of the report.
        handoff: String,
    },
}
