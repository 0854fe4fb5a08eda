//! The one place that says which change of a task's row is allowed, and what the row is afterwards.
//!
//! Pure: rows in, rows out. Never touches a file, a clock or the environment.

use crate::ids::{AgentId, TaskId};
use crate::plan::Work;

use super::row::{Action, Claim, Event, Row, SCHEMA, Status};

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
    /// The agent of a live session that proved itself ([`authorise`]).
    Session(&'a AgentId),
    /// A person, by a plain name.
    Person(&'a AgentId),
    /// The coordinator itself.
    Coordinator,
}

impl Actor<'_> {
    /// The name events carry.
    fn name(&self) -> &str {
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

/// Checks that `agent` speaks for the live session of `row`: `token_hash` is the hash of the secret it showed, if any.
pub fn authorise(task: &TaskId, row: &Row, agent: &AgentId, token_hash: Option<&str>) -> Result<(), Refusal> {
    let Some(claim) = row.claim.as_ref().filter(|claim| claim.agent == *agent) else {
        return Err(Refusal::new(
            format!("{agent} has no live session on {task} (status {})", row.status),
            "an agent works only on the task it was started for, and only until its session has ended: exit now",
        ));
    };
    if claim.token_hash.as_deref() == token_hash {
        return Ok(());
    }
    Err(Refusal::new(
        format!("the session of {agent} on {task} must prove itself with its own RUNNER_TOKEN"),
        "run the verb from inside the session, with the environment the coordinator gave it",
    ))
}

/// The row after `step` by `who` at the time `at`; the row before is left as it is.
pub fn apply(task: &TaskId, row: &Row, who: Actor<'_>, step: Step<'_>, at: &str) -> Result<Row, Refusal> {
    let mut next = row.clone();
    next.schema = SCHEMA;
    let (action, note) = match step {
        Step::Claim { claim, waiting_for } => claimed(task, &mut next, claim, waiting_for)?,
        Step::Submit { evidence, no_change } => submitted(task, &mut next, evidence, no_change)?,
        Step::Approve { evidence } => approved(task, &mut next, who, evidence)?,
        Step::Reject { reason, handoff } => rejected(task, &mut next, who, (reason, handoff))?,
        Step::Escalate { reason, handoff, blocker } => {
            let from = held_status(task, row, "be escalated")?;
            block(&mut next, from, reason.clone(), blocker);
            next.handoff = Some(handoff);
            (Action::Escalate, Some(reason))
        }
        Step::Release { note } => {
            next.status = held_status(task, row, "be released")?;
            if next.status == Status::Todo {
                next.owner = None;
            }
            next.claim = None;
            (Action::Release, Some(note))
        }
        Step::Answer { handoff, still_blocked } => answered(task, &mut next, handoff, still_blocked)?,
        Step::Unblock => {
            if row.status != Status::Blocked || row.external_wait {
                return Err(Refusal::new(format!("{task} does not wait for other tasks alone"), "answer it first"));
            }
            unblock(&mut next);
            (Action::Unblock, None)
        }
        Step::Wait { reason } => {
            if !matches!(row.status, Status::Todo | Status::Review) || row.claim.is_some() {
                return Err(Refusal::new(
                    format!("{task} is {} and cannot be set aside", row.status),
                    "end its session first",
                ));
            }
            block(&mut next, row.status, reason.clone(), Blocker::Person);
            (Action::Wait, Some(reason))
        }
        Step::Quarantine { before, reason, handoff } => {
            next = quarantined(row, before, &reason, handoff);
            (Action::Quarantine, Some(reason))
        }
    };
    let seq = next.events.last().map_or(0, |event| event.seq) + 1;
    let (from, to) = (row.status, next.status);
    let agent = who.name().to_owned();
    next.events.push(Event { seq, at: at.to_owned(), action, agent, from, to, note, code: None });
    Ok(next)
}

type Done = Result<(Action, Option<String>), Refusal>;

fn claimed(task: &TaskId, next: &mut Row, claim: Claim, waiting_for: &[TaskId]) -> Done {
    if let Some(live) = &next.claim {
        return Err(Refusal::new(
            format!("{task} is claimed by {}", live.agent),
            "wait until that session has ended, or release it",
        ));
    }
    if next.agents.contains(&claim.agent) {
        return Err(Refusal::new(
            format!("{} has already worked on {task}", claim.agent),
            "a task is reviewed and taken up again only by an agent that has not worked on it: use another name",
        ));
    }
    match claim.work {
        Work::Claim => {
            expect_status(task, next, Status::Todo, "claimed")?;
            if !waiting_for.is_empty() {
                let names: Vec<_> = waiting_for.iter().map(TaskId::as_str).collect();
                return Err(Refusal::new(
                    format!("{task} depends on {}", names.join(", ")),
                    "those tasks have to be done first",
                ));
            }
            next.status = Status::InProgress;
            next.owner = Some(claim.agent.clone());
            next.reviewer = None;
            next.attempts += 1;
        }
        Work::Review => expect_status(task, next, Status::Review, "reviewed")?,
    }
    next.agents.push(claim.agent.clone());
    let action = if claim.work == Work::Claim { Action::Claim } else { Action::Review };
    next.claim = Some(claim);
    Ok((action, None))
}

fn submitted(task: &TaskId, next: &mut Row, evidence: Option<String>, no_change: Option<String>) -> Done {
    expect_status(task, next, Status::InProgress, "submitted")?;
    next.status = Status::Review;
    next.reason = None;
    next.evidence = evidence.or(next.evidence.take());
    Ok((Action::Submit, no_change.map(|why| format!("no change: {why}"))))
}

fn approved(task: &TaskId, next: &mut Row, who: Actor<'_>, evidence: Option<String>) -> Done {
    next.reviewer = Some(reviewer(task, next, who, "approved")?);
    next.status = Status::Done;
    next.reason = None;
    next.handoff = None;
    next.evidence = evidence.or(next.evidence.take());
    Ok((Action::Approve, None))
}

fn rejected(task: &TaskId, next: &mut Row, who: Actor<'_>, (reason, handoff): (String, String)) -> Done {
    if reason.trim().is_empty() {
        return Err(Refusal::new("a reject carries its reason", "say with --reason what has to change"));
    }
    next.reviewer = Some(reviewer(task, next, who, "rejected")?);
    next.status = Status::Todo;
    next.owner = None;
    next.reason = Some(reason.clone());
    next.handoff = Some(handoff);
    Ok((Action::Reject, Some(reason)))
}

fn answered(task: &TaskId, next: &mut Row, handoff: String, still_blocked: bool) -> Done {
    if next.status != Status::Blocked || !next.external_wait {
        return Err(Refusal::new(
            format!("{task} does not wait for a person (status {})", next.status),
            "`runner task list` shows which tasks do",
        ));
    }
    next.external_wait = false;
    next.handoff = Some(handoff);
    if !still_blocked {
        unblock(next);
    }
    Ok((Action::Answer, None))
}

/// Who reviews: the live review session's agent, or a person while no session is live.
fn reviewer(task: &TaskId, row: &Row, who: Actor<'_>, what: &str) -> Result<AgentId, Refusal> {
    expect_status(task, row, Status::Review, what)?;
    let name = match who {
        Actor::Session(agent) => {
            let reviews = row.claim.as_ref().is_some_and(|c| c.work == Work::Review && c.agent == *agent);
            return if reviews {
                Ok(agent.clone())
            } else {
                Err(Refusal::new(
                    format!("{agent} is not the reviewer of {task}"),
                    "an executor's session ends with submit: exit now",
                ))
            };
        }
        Actor::Person(name) => name,
        Actor::Coordinator => {
            return Err(Refusal::new("the coordinator reviews nothing", "start a review session"));
        }
    };
    if let Some(live) = &row.claim {
        return Err(Refusal::new(
            format!("{task} is under review by {}", live.agent),
            "wait until that session has ended",
        ));
    }
    if row.agents.contains(name) {
        return Err(Refusal::new(
            format!("{name} has worked on {task}"),
            "the reviewer is no agent that worked on the task: let somebody else review it",
        ));
    }
    Ok(name.clone())
}

/// The status a held task goes back to: `todo` for an executor's, `review` for a reviewer's.
fn held_status(task: &TaskId, row: &Row, what: &str) -> Result<Status, Refusal> {
    match (row.status, &row.claim) {
        (Status::InProgress, _) => Ok(Status::Todo),
        (Status::Review, Some(claim)) if claim.work == Work::Review => Ok(Status::Review),
        (status, _) => Err(Refusal::new(
            format!("{task} is {status} and no session holds it, so it cannot {what}"),
            "`runner task list` shows what can be done with each task",
        )),
    }
}

fn block(next: &mut Row, from: Status, reason: String, blocker: Blocker) {
    next.status = Status::Blocked;
    next.blocked_from = Some(from);
    next.reason = Some(reason);
    match blocker {
        Blocker::Task(id) => next.blocked_by = vec![id],
        Blocker::Person => next.external_wait = true,
    }
}

fn unblock(next: &mut Row) {
    next.status = next.blocked_from.take().unwrap_or_default();
    next.blocked_by.clear();
    next.external_wait = false;
    if next.status == Status::Todo {
        next.owner = None;
    }
}

/// The row as it was before the session, with all that happened since kept in its history, waiting for a person.
fn quarantined(row: &Row, before: &Row, reason: &str, handoff: String) -> Row {
    let mut next = before.clone();
    next.schema = SCHEMA;
    next.events.clone_from(&row.events);
    next.agents.clone_from(&row.agents);
    next.attempts = row.attempts;
    next.claim = None;
    let from = match before.status {
        Status::Review => Status::Review,
        Status::Blocked => before.blocked_from.unwrap_or_default(),
        _ => Status::Todo,
    };
    let still = std::mem::take(&mut next.blocked_by);
    block(&mut next, from, reason.to_owned(), Blocker::Person);
    next.blocked_by = still;
    next.handoff = Some(handoff);
    next
}

fn expect_status(task: &TaskId, row: &Row, wanted: Status, what: &str) -> Result<(), Refusal> {
    if row.status == wanted {
        return Ok(());
    }
    Err(Refusal::new(
        format!("{task} is {}; only a task in {wanted} can be {what}", row.status),
        "`runner task list` shows what can be done with each task",
    ))
}

/// What is inconsistent within one row; empty for every row that [`apply`] makes.
pub fn faults(row: &Row) -> Vec<String> {
    let mut faults = Vec::new();
    let mut check = |holds: bool, text: &str| {
        if !holds {
            faults.push(text.to_owned());
        }
    };
    let blocked = row.status == Status::Blocked;
    check(blocked == row.blocked_from.is_some(), "`blocked_from` is set exactly while the status is blocked");
    check(
        !matches!(row.blocked_from, Some(Status::Blocked | Status::InProgress | Status::Done)),
        "`blocked_from` is todo or review",
    );
    check(
        blocked || (row.blocked_by.is_empty() && !row.external_wait),
        "only a blocked task has blockers or waits for a person",
    );
    check(
        !blocked || row.external_wait || !row.blocked_by.is_empty(),
        "a blocked task names a blocker or waits for a person",
    );
    check(row.status != Status::InProgress || row.owner.is_some(), "a task in progress has an owner");
    check(row.events.windows(2).all(|pair| pair[0].seq < pair[1].seq), "events are in the order of `seq`");
    faults
}
