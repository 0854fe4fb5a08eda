//! The one place that says which change of a task's row is allowed, and what the row is afterwards.
//!
//! Pure: rows in, rows out. Never touches a file, a clock or the environment.

mod faults;
mod guards;

use crate::ids::{AgentId, TaskId};
use crate::plan::Work;

use super::row::{Action, Claim, Event, NO_CHANGE, Row, SCHEMA, Status};

pub use super::step::{Actor, Blocker, Refusal, Step};
pub use faults::faults;

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
pub fn apply(task: &TaskId, row: &Row, (who, at): (Actor<'_>, &str), step: Step<'_>) -> Result<Row, Refusal> {
    let mut next = row.clone();
    next.schema = SCHEMA;
    let done = Change { task, row, who }.make(&mut next, step)?;
    // A coordinator's session is over when its process is; a manual one is over with its transition.
    if done.action.ends_a_session() && next.claim.as_ref().is_some_and(Claim::is_manual) {
        next.claim = None;
    }
    next.events.push(Event {
        seq: next.events.last().map_or(0, |event| event.seq) + 1,
        at: at.to_owned(),
        action: done.action,
        agent: who.name().to_owned(),
        from: row.status,
        to: next.status,
        note: done.note,
        code: None,
    });
    Ok(next)
}

/// What an event says of a change that was made.
struct Done {
    action: Action,
    note: Option<String>,
}

impl Done {
    fn new(action: Action, note: impl Into<Option<String>>) -> Self {
        Self { action, note: note.into() }
    }
}

/// A change that is asked for: of which row, and by whom.
struct Change<'a> {
    task: &'a TaskId,
    row: &'a Row,
    who: Actor<'a>,
}

impl Change<'_> {
    /// Carries `step` out on `next`, which is a copy of the row.
    fn make(&self, next: &mut Row, step: Step<'_>) -> Result<Done, Refusal> {
        match step {
            Step::Claim { claim, waiting_for } => self.claim(next, claim, waiting_for),
            Step::FollowUp { session, token_hash } => self.follow_up(next, session, token_hash),
            Step::Submit { evidence, no_change } => self.submit(next, evidence, no_change),
            Step::Approve { evidence } => self.approve(next, evidence),
            Step::Reject { reason, handoff } => self.reject(next, reason, handoff),
            Step::SendBack { reason, handoff } => self.send_back(next, reason, handoff),
            Step::Escalate { reason, handoff, blocker } => {
                let from = self.held_status("be escalated")?;
                self.expect_holder("escalate")?;
                next.handoff = Some(handoff);
                block(next, from, reason.clone(), blocker);
                Ok(Done::new(Action::Escalate, reason))
            }
            Step::Release { note } => self.release(next, note),
            Step::Limit { note } => self.give_back(next, Done::new(Action::Limit, note)),
            Step::Retry { note } => self.give_back(next, Done::new(Action::Retry, note)),
            Step::Answer { handoff, still_blocked } => self.answer(next, handoff, still_blocked),
            Step::Unblock => self.unblock(next),
            Step::Wait { reason } => self.set_aside(next, reason),
            Step::Quarantine { before, reason, handoff } => {
                self.expect_coordinator("quarantine")?;
                *next = quarantined(self.row, before, &reason, handoff);
                Ok(Done::new(Action::Quarantine, reason))
            }
            Step::Void { before, reason, handoff } => {
                self.expect_coordinator("void a review of")?;
                *next = restored(self.row, before, handoff);
                Ok(Done::new(Action::Void, reason))
            }
        }
    }

    fn claim(&self, next: &mut Row, claim: Claim, waiting_for: &[TaskId]) -> Result<Done, Refusal> {
        let task = self.task;
        if self.who.name() != claim.agent.as_str() || self.who == Actor::Coordinator {
            return Err(Refusal::new(
                format!("{} cannot claim {task} for {}", self.who.name(), claim.agent),
                "claim it under your own name",
            ));
        }
        if let Some(live) = &self.row.claim {
            return Err(Refusal::new(
                format!("{task} is claimed by {}", live.agent),
                "wait until that session has ended, or release it",
            ));
        }
        if self.row.agents.contains(&claim.agent) {
            return Err(Refusal::new(
                format!("{} has already worked on {task}", claim.agent),
                "a task is reviewed and taken up again only by an agent that has not worked on it: use another name",
            ));
        }
        let action = match claim.work {
            Work::Claim => {
                self.expect_status(Status::Todo, "claimed")?;
                if !waiting_for.is_empty() {
                    let names: Vec<_> = waiting_for.iter().map(TaskId::as_str).collect();
                    let rule = format!("{task} depends on {}", names.join(", "));
                    return Err(Refusal::new(rule, "those tasks have to be done first"));
                }
                next.status = Status::InProgress;
                next.owner = Some(claim.agent.clone());
                next.reviewer = None;
                next.attempts += 1;
                Action::Claim
            }
            Work::Review => {
                self.expect_status(Status::Review, "reviewed")?;
                Action::Review
            }
        };
        next.agents.push(claim.agent.clone());
        next.claim = Some(claim);
        Ok(Done::new(action, None))
    }

    fn follow_up(&self, next: &mut Row, session: u32, token_hash: String) -> Result<Done, Refusal> {
        self.expect_coordinator("give a further process to the session of")?;
        self.held_status("be gone on with")?;
        let Some(claim) = next.claim.as_mut().filter(|claim| !claim.is_manual()) else {
            let rule = format!("no session of the coordinator holds {}", self.task);
            return Err(Refusal::new(rule, "a person goes on by themselves"));
        };
        if claim.session.checked_add(1) != Some(session) || claim.token_hash.as_ref() == Some(&token_hash) {
            let rule = format!("session {session} of {} does not follow session {}", claim.agent, claim.session);
            return Err(Refusal::new(rule, "each process has the next number and a secret of its own"));
        }
        claim.session = session;
        claim.token_hash = Some(token_hash);
        let note = format!("session {session} of {}: the one before left without a transition", claim.agent);
        Ok(Done::new(Action::FollowUp, note))
    }

    fn submit(&self, next: &mut Row, evidence: Option<String>, no_change: Option<String>) -> Result<Done, Refusal> {
        self.expect_status(Status::InProgress, "submitted")?;
        if self.who == Actor::Coordinator {
            return Err(Refusal::new("the coordinator submits nothing", "start a session"));
        }
        self.expect_holder("submit")?;
        next.status = Status::Review;
        next.reason = None;
        next.evidence = evidence.or(next.evidence.take());
        Ok(Done::new(Action::Submit, no_change.map(|why| format!("{NO_CHANGE}{why}"))))
    }

    fn approve(&self, next: &mut Row, evidence: Option<String>) -> Result<Done, Refusal> {
        next.reviewer = Some(self.reviewer("approved")?);
        next.status = Status::Done;
        next.reason = None;
        next.handoff = None;
        next.evidence = evidence.or(next.evidence.take());
        Ok(Done::new(Action::Approve, None))
    }

    fn reject(&self, next: &mut Row, reason: String, handoff: String) -> Result<Done, Refusal> {
        next.reviewer = Some(self.reviewer("rejected")?);
        if reason.trim().is_empty() {
            return Err(Refusal::new("a reject carries its reason", "say with --reason what has to change"));
        }
        next.status = Status::Todo;
        next.owner = None;
        next.handoff = Some(handoff);
        next.reason = Some(reason.clone());
        Ok(Done::new(Action::Reject, reason))
    }

    fn send_back(&self, next: &mut Row, reason: String, handoff: String) -> Result<Done, Refusal> {
        self.expect_coordinator("send back")?;
        self.expect_status(Status::Review, "sent back")?;
        next.status = Status::Todo;
        next.owner = None;
        next.handoff = Some(handoff);
        next.reason = Some(reason.clone());
        Ok(Done::new(Action::Reject, reason))
    }

    fn release(&self, next: &mut Row, note: String) -> Result<Done, Refusal> {
        // What an executor submitted is in the coordinator's hand until its claim is gone.
        let is_undone = self.who == Actor::Coordinator && self.row.is_submit_unsettled();
        next.status = if is_undone { Status::Todo } else { self.held_status("be released")? };
        let claim = self.row.claim.as_ref();
        match (self.who, claim) {
            (Actor::Session(agent), _) if claim.is_none_or(|claim| !claim.is_manual() || claim.agent != *agent) => {
                return Err(Refusal::new(
                    format!("{agent} cannot release {}", self.task),
                    "a session ends with submit, approve, reject or escalate",
                ));
            }
            (Actor::Person(_), Some(live)) if !live.is_manual() => {
                return Err(Refusal::new(
                    format!("{} is held by {}, whose session may be alive", self.task, live.agent),
                    "start `runner`: it ends what is left of that session, keeps its work and releases the task",
                ));
            }
            _ => {}
        }
        if next.status == Status::Todo {
            next.owner = None;
        }
        next.claim = None;
        Ok(Done::new(Action::Release, note))
    }

    /// The coordinator gives back a claim whose agent's service did not serve.
    fn give_back(&self, next: &mut Row, done: Done) -> Result<Done, Refusal> {
        self.expect_coordinator("give back")?;
        next.status = self.held_status("be given back")?;
        if next.status == Status::Todo {
            next.owner = None;
            if done.action == Action::Limit {
                next.attempts = next.attempts.saturating_sub(1);
            }
        }
        next.claim = None;
        Ok(done)
    }

    fn answer(&self, next: &mut Row, handoff: String, still_blocked: bool) -> Result<Done, Refusal> {
        if !matches!(self.who, Actor::Person(_)) {
            let rule = format!("{} cannot answer for a person", self.who.name());
            return Err(Refusal::new(rule, "a person answers with `runner task answer`"));
        }
        if self.row.status != Status::Blocked || !self.row.external_wait {
            let rule = format!("{} does not wait for a person (status {})", self.task, self.row.status);
            return Err(Refusal::new(rule, "`runner task list` shows which tasks do"));
        }
        if let Some(live) = &self.row.claim {
            let rule = format!("the session of {} on {} is not settled yet", live.agent, self.task);
            return Err(Refusal::new(rule, "start `runner`: it puts an interrupted session in order; then answer"));
        }
        next.external_wait = false;
        next.handoff = Some(handoff);
        if !still_blocked {
            go_on(next);
        }
        Ok(Done::new(Action::Answer, None))
    }

    fn unblock(&self, next: &mut Row) -> Result<Done, Refusal> {
        self.expect_coordinator("unblock")?;
        if self.row.status != Status::Blocked || self.row.external_wait {
            let rule = format!("{} does not wait for other tasks alone", self.task);
            return Err(Refusal::new(rule, "answer it first"));
        }
        go_on(next);
        Ok(Done::new(Action::Unblock, None))
    }

    fn set_aside(&self, next: &mut Row, reason: String) -> Result<Done, Refusal> {
        self.expect_coordinator("set aside")?;
        if !matches!(self.row.status, Status::Todo | Status::Review) || self.row.claim.is_some() {
            let rule = format!("{} is {} and cannot be set aside", self.task, self.row.status);
            return Err(Refusal::new(rule, "end its session first"));
        }
        block(next, self.row.status, reason.clone(), Blocker::Person);
        Ok(Done::new(Action::Wait, reason))
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

/// A blocked task goes back to where it was.
fn go_on(next: &mut Row) {
    next.status = next.blocked_from.take().unwrap_or_default();
    next.blocked_by.clear();
    next.external_wait = false;
    if next.status == Status::Todo {
        next.owner = None;
    }
}

/// The row as it was before the session, with all that happened since kept in its history, waiting for a person.
fn quarantined(row: &Row, before: &Row, reason: &str, handoff: String) -> Row {
    let mut next = restored(row, before, handoff);
    let from = match before.status {
        Status::Review => Status::Review,
        Status::Blocked => before.blocked_from.unwrap_or_default(),
        Status::Todo | Status::InProgress | Status::Done => Status::Todo,
    };
    block(&mut next, from, reason.to_owned(), Blocker::Person);
    next
}

/// The row as it was before the session, with all that happened since kept in its history.
fn restored(row: &Row, before: &Row, handoff: String) -> Row {
    Row {
        schema: SCHEMA,
        events: row.events.clone(),
        agents: row.agents.clone(),
        attempts: row.attempts,
        claim: None,
        handoff: Some(handoff),
        ..before.clone()
    }
}

#[cfg(test)]
mod tests;
