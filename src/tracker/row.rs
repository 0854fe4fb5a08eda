//! What is recorded about one task: its row, the claim of a live session, and its events.
//!
//! Owns the shapes of the state files. Never decides which change is allowed (`rules`) and never touches a file (`store`).

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::ids::{AgentId, TaskId};
use crate::plan::Work;

/// The schema number that this version writes into `state/state.json` and every row.
pub const SCHEMA: u32 = 2;

/// How the note of a submit begins that declares that nothing had to be changed.
pub(super) const NO_CHANGE: &str = "no change: ";

/// Where a task stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Status {
    /// May be claimed when everything it depends on is done.
    #[default]
    Todo,
    /// One agent owns it.
    InProgress,
    /// Waits for, or is under, independent review.
    Review,
    /// Waits for remediation tasks or for a person.
    Blocked,
    /// Finished.
    Done,
}

impl Status {
    /// The name in the state files.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Todo => "todo",
            Self::InProgress => "in_progress",
            Self::Review => "review",
            Self::Blocked => "blocked",
            Self::Done => "done",
        }
    }
}

impl fmt::Display for Status {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// What was done in an event.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Action {
    /// The task came into being as a remediation or through `runner task add`.
    Create,
    /// An executor's session took the task.
    Claim,
    /// A reviewer's session took the task.
    Review,
    /// A session that left without a transition got a further process.
    FollowUp,
    /// An executor handed its work in.
    Submit,
    /// A reviewer accepted the work.
    Approve,
    /// A reviewer sent the work back.
    Reject,
    /// A session, or the coordinator for it, named a blocker.
    Escalate,
    /// A claim was given back without a result.
    Release,
    /// A person answered an external wait.
    Answer,
    /// All blockers are done.
    Unblock,
    /// The coordinator set the task aside for a person without a session.
    Wait,
    /// The coordinator undid what a session did to the row.
    Quarantine,
    /// The coordinator undid a review whose session had changed files.
    Void,
    /// A claim was given back since the agent's service takes nothing for a while: the session counts as none.
    Limit,
    /// A claim was given back since the agent's service failed: the task is tried again.
    Retry,
    /// An event of an older schema that has no counterpart; its name is in the note.
    Other,
}

impl Action {
    /// Whether a session ends with it.
    pub fn ends_a_session(self) -> bool {
        matches!(self, Self::Submit | Self::Approve | Self::Reject | Self::Escalate)
    }
}

/// One event of a task.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Event {
    /// Counts from 1 within the task.
    pub seq: u64,
    /// UTC, whole seconds.
    pub at: String,
    /// What was done.
    pub action: Action,
    /// Who did it: an agent, `coordinator`, or a person's name.
    pub agent: String,
    /// The status before.
    pub from: Status,
    /// The status after.
    pub to: Status,
    /// Words for people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
    /// For events written inside a session: ties the row as it was written to the session's secret (`proof`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub code: Option<String>,
}

/// The claim of a live session; durable before the session's process exists.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Claim {
    /// Whose session it is.
    pub agent: AgentId,
    /// What the session is to do.
    pub work: Work,
    /// The session's number within the agent's run folder, from 1.
    pub session: u32,
    /// The globs the session may change, frozen at the claim; empty for a review.
    pub scope: Vec<String>,
    /// The commit HEAD was at; none without git.
    #[serde(default)]
    pub head: Option<String>,
    /// How many levels of remediation may still be made below this task.
    #[serde(default)]
    pub remediation_left: u32,
    /// SHA-256 of the session's secret in lower-case hex; none for a person's manual session.
    #[serde(default)]
    pub token_hash: Option<String>,
    /// The coordinator's process id; none for a manual session.
    #[serde(default)]
    pub pid: Option<u32>,
    /// The machine's boot id at the claim.
    #[serde(default)]
    pub boot_id: Option<String>,
    /// The coordinator's start time in clock ticks after boot.
    #[serde(default)]
    pub start_time: Option<u64>,
}

impl Claim {
    /// Whether a person made it with `runner task claim`; recovery never releases such a claim.
    pub fn is_manual(&self) -> bool {
        self.token_hash.is_none()
    }
}

/// Everything recorded about one task.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Row {
    /// [`SCHEMA`] of the version that wrote the row.
    pub schema: u32,
    /// Where the task stands.
    pub status: Status,
    /// The agent that executes it or executed it last.
    pub owner: Option<AgentId>,
    /// The agent that reviewed it last.
    pub reviewer: Option<AgentId>,
    /// All agents that worked on it.
    pub agents: Vec<AgentId>,
    /// How often an executor claimed it, less the sessions that a usage limit ended.
    pub attempts: u32,
    /// Root-relative path of the text the next session is handed.
    pub handoff: Option<String>,
    /// Root-relative path of the executor's or reviewer's evidence.
    pub evidence: Option<String>,
    /// Remediation tasks that must be done first.
    pub blocked_by: Vec<TaskId>,
    /// The status a blocked task goes back to.
    pub blocked_from: Option<Status>,
    /// Whether a person has to answer first.
    pub external_wait: bool,
    /// Why the task was blocked or rejected.
    pub reason: Option<String>,
    /// The live session, if any.
    pub claim: Option<Claim>,
    /// What happened, oldest first.
    pub events: Vec<Event>,
}

impl Default for Row {
    fn default() -> Self {
        Self {
            schema: SCHEMA,
            status: Status::Todo,
            owner: None,
            reviewer: None,
            agents: Vec::new(),
            attempts: 0,
            handoff: None,
            evidence: None,
            blocked_by: Vec::new(),
            blocked_from: None,
            external_wait: false,
            reason: None,
            claim: None,
            events: Vec::new(),
        }
    }
}

impl Row {
    /// The row as its file holds it: indented JSON with a final newline.
    ///
    /// # Panics
    /// Never: a row has nothing that JSON cannot hold.
    pub fn to_json(&self) -> String {
        let mut text = serde_json::to_string_pretty(self).expect("a row is plain data");
        text.push('\n');
        text
    }

    /// How many sessions the task used since a person last answered for it, over all roles; one that a usage limit ended is
    /// none.
    pub fn sessions(&self) -> u32 {
        let count = |wanted: fn(Action) -> bool| self.since_answer().filter(|event| wanted(event.action)).count();
        let begun = count(|action| matches!(action, Action::Claim | Action::Review | Action::FollowUp));
        // A limit's event follows the claim that it gives back, and no answer comes between them.
        let ended_by_limit = count(|action| action == Action::Limit);
        u32::try_from(begun.saturating_sub(ended_by_limit)).unwrap_or(u32::MAX)
    }

    /// Whose sessions began since a person last answered, the last one first; those that a usage limit ended too.
    pub fn session_agents(&self) -> impl Iterator<Item = &str> {
        let begins = |event: &&Event| matches!(event.action, Action::Claim | Action::Review);
        self.since_answer().filter(begins).map(|event| event.agent.as_str())
    }

    /// How many sessions in a row, up to the last one that is over, ended because the agent's service failed.
    pub fn retries(&self) -> usize {
        let goes_on = |event: &&Event| {
            matches!(
                event.action,
                Action::Claim | Action::Review | Action::FollowUp | Action::Release | Action::Limit | Action::Retry
            )
        };
        self.events.iter().rev().take_while(goes_on).filter(|event| event.action == Action::Retry).count()
    }

    /// What happened since a person last answered, the last first.
    fn since_answer(&self) -> impl Iterator<Item = &Event> {
        self.events.iter().rev().take_while(|event| event.action != Action::Answer)
    }

    /// How many reviews of what was last submitted were undone since a person last answered.
    pub fn voided_reviews(&self) -> usize {
        let ends = |event: &&Event| !matches!(event.action, Action::Submit | Action::Answer);
        self.events.iter().rev().take_while(ends).filter(|event| event.action == Action::Void).count()
    }

    /// Why the executor says that nothing had to be changed, if it said so when it submitted last.
    pub fn declared_no_change(&self) -> Option<&str> {
        let submit = self.events.iter().rev().find(|event| event.action == Action::Submit)?;
        submit.note.as_deref()?.strip_prefix(NO_CHANGE)
    }

    /// The last event, if there is one.
    pub fn last_event(&self) -> Option<&Event> {
        self.events.last()
    }

    /// Whether a session has the task in hand: it is executed or under review.
    pub fn is_held(&self) -> bool {
        let is_reviewed = self.claim.as_ref().is_some_and(|claim| claim.work == Work::Review);
        self.status == Status::InProgress || (self.status == Status::Review && is_reviewed)
    }

    /// Whether an executor's session has submitted and the coordinator has not yet taken that for good.
    pub fn is_submit_unsettled(&self) -> bool {
        self.status == Status::Review && self.claim.as_ref().is_some_and(|claim| claim.work == Work::Claim)
    }

    /// Whether `agent`, sent to do `work`, has brought the task where its session ends.
    pub fn is_settled_by(&self, agent: &AgentId, work: Work) -> bool {
        match self.status {
            Status::Blocked => {
                self.last_event().is_some_and(|e| e.action == Action::Escalate && e.agent == agent.as_str())
            }
            Status::Review => work == Work::Claim && self.owner.as_ref() == Some(agent),
            Status::Done | Status::Todo => work == Work::Review && self.reviewer.as_ref() == Some(agent),
            Status::InProgress => false,
        }
    }
}
