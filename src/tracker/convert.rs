//! Reads the single `state/state.json` of the original coordinator.
//!
//! Pure: bytes in, rows out. Nothing that the old file says is lost: what has no counterpart in a row stands in the note of
//! an event, and what belongs to no task of the file is handed over as it was.

use std::collections::BTreeMap;
use std::path::Path;

use serde::Deserialize;
use serde_json::{Map, Value};

use crate::fs;
use crate::ids::{AgentId, TaskId};
use crate::plan::Plan;

use super::ready::Board;
use super::row::{Action, Event, Row, SCHEMA, Status};
use super::store::StoreError;

#[derive(Deserialize)]
struct Original {
    tasks: BTreeMap<TaskId, OriginalRow>,
    #[serde(default)]
    events: Vec<Map<String, Value>>,
    #[serde(default)]
    retired_agents: Vec<String>,
    #[serde(flatten)]
    more: Map<String, Value>,
}

#[derive(Deserialize)]
struct OriginalRow {
    status: Status,
    #[serde(default)]
    owner: Option<AgentId>,
    #[serde(default)]
    reviewer: Option<AgentId>,
    #[serde(default)]
    attempts: u32,
    #[serde(default)]
    handoff: Option<String>,
    #[serde(default)]
    evidence: Option<String>,
    #[serde(default)]
    blocked_by: Vec<TaskId>,
    #[serde(default)]
    external_wait: bool,
    #[serde(default)]
    reason: Option<String>,
    #[serde(flatten)]
    more: Map<String, Value>,
}

/// What the original's file holds.
pub(super) struct Converted {
    /// The rows, by task.
    pub(super) rows: BTreeMap<TaskId, Row>,
    rest: Map<String, Value>,
}

impl Converted {
    /// The rows on a board; those that contradict themselves or have no card are an error.
    pub(super) fn board(self, plan: &Plan, path: &Path) -> Result<Board, StoreError> {
        let strangers = self.rows.keys().filter(|task| plan.task(task).is_none());
        let faults: Vec<String> = strangers
            .map(|task| format!("{}: {task} has no card planning/tasks/{task}.json", path.display()))
            .collect();
        if faults.is_empty() { Ok(Board::new(self.rows)) } else { Err(StoreError::Inconsistent { faults }) }
    }

    /// What belongs to no task: events of tasks that the file does not list, and keys of the file that nobody knows.
    pub(super) fn rest(&self) -> Option<String> {
        if self.rest.is_empty() {
            return None;
        }
        Some(format!("{:#}\n", Value::Object(self.rest.clone())))
    }
}

/// Reads the original's state.
pub(super) fn read(path: &Path, bytes: &[u8]) -> Result<Converted, StoreError> {
    let mut original: Original = fs::parse_json(path, bytes)?;
    let mut events: BTreeMap<String, Vec<Event>> = BTreeMap::new();
    let mut unplaced = Vec::new();
    for event in original.events {
        match text_of(&event, "task").filter(|task| original.tasks.keys().any(|known| known.as_str() == task)) {
            Some(task) => {
                let list = events.entry(task).or_default();
                list.push(converted(list.len() as u64 + 1, event));
            }
            None => unplaced.push(Value::Object(event)),
        }
    }
    let rows = original.tasks.into_iter().map(|(task, row)| {
        let row = row_of(row, events.remove(task.as_str()).unwrap_or_default(), &original.retired_agents);
        (task, row)
    });
    let rows = rows.collect();
    original.more.retain(|key, _| !matches!(key.as_str(), "schema" | "revision"));
    if !unplaced.is_empty() {
        original.more.insert("events".to_owned(), Value::Array(unplaced));
    }
    Ok(Converted { rows, rest: original.more })
}

fn row_of(old: OriginalRow, mut events: Vec<Event>, retired: &[String]) -> Row {
    let blocked = old.status == Status::Blocked;
    // In the original a blocked task may wait for a person behind a remediation, or name no blocker at all.
    let external_wait = blocked && (old.external_wait || old.blocked_by.is_empty());
    let agents = agents_of(&old, &events, retired);
    // A task that nobody has in hand can only be taken up again.
    let lost = old.status == Status::InProgress && old.owner.is_none();
    let status = if lost { Status::Todo } else { old.status };
    let mut more = old.more;
    if !blocked && !old.blocked_by.is_empty() {
        more.insert("blocked_by".to_owned(), old.blocked_by.iter().map(TaskId::as_str).collect());
    }
    if !more.is_empty() {
        events.push(Event {
            seq: events.len() as u64 + 1,
            at: events.last().map_or_else(String::new, |event| event.at.clone()),
            action: Action::Other,
            agent: "coordinator".to_owned(),
            from: old.status,
            to: status,
            note: Some(format!("converted; {}", listed(&more))),
            code: None,
        });
    }
    Row {
        schema: SCHEMA,
        status,
        owner: old.owner,
        reviewer: old.reviewer,
        agents,
        attempts: old.attempts,
        handoff: old.handoff,
        evidence: old.evidence,
        blocked_by: if blocked { old.blocked_by } else { Vec::new() },
        blocked_from: blocked.then_some(Status::Todo),
        external_wait,
        reason: old.reason,
        claim: None,
        events,
    }
}

/// Who worked on the task: whoever made an event of a session, retired agents whatever they did, its owner and its reviewer.
fn agents_of(old: &OriginalRow, events: &[Event], retired: &[String]) -> Vec<AgentId> {
    let is_work = |action| !matches!(action, Action::Answer | Action::Unblock | Action::Other);
    let named = events.iter().filter(|e| is_work(e.action) || retired.contains(&e.agent)).map(|e| e.agent.parse().ok());
    let mut agents: Vec<AgentId> = Vec::new();
    for agent in named.chain([old.owner.clone(), old.reviewer.clone()]).flatten() {
        if agent.as_str() != "tracker" && !agents.contains(&agent) {
            agents.push(agent);
        }
    }
    agents
}

fn text_of(event: &Map<String, Value>, key: &str) -> Option<String> {
    event.get(key).and_then(Value::as_str).map(str::to_owned)
}

fn status_of(event: &Map<String, Value>, key: &str) -> Option<Status> {
    event.get(key).cloned().and_then(|value| serde_json::from_value(value).ok())
}

/// The keys that have no place in our shapes, as words.
fn listed(keys: &Map<String, Value>) -> String {
    keys.iter().map(|(key, value)| format!("{key}: {value}")).collect::<Vec<_>>().join("; ")
}

fn converted(seq: u64, mut old: Map<String, Value>) -> Event {
    let name = text_of(&old, "action").unwrap_or_default();
    let action = match name.as_str() {
        "claim" => Action::Claim,
        "submit" => Action::Submit,
        "approve" => Action::Approve,
        "reject" => Action::Reject,
        "escalate" => Action::Escalate,
        "unblock" => Action::Unblock,
        "resolve" => Action::Answer,
        "runner-quarantine" => Action::Quarantine,
        _ => Action::Other,
    };
    let (from, to) = (status_of(&old, "from"), status_of(&old, "to"));
    let at = text_of(&old, "at");
    let agent = text_of(&old, "agent");
    // What could not be read stays with the keys that nobody knows.
    let read = [
        ("revision", true),
        ("task", true),
        ("action", old.get("action").is_some_and(Value::is_string)),
        ("at", at.is_some()),
        ("agent", agent.is_some()),
        ("from", from.is_some()),
        ("to", to.is_some()),
    ];
    old.retain(|key, _| !read.contains(&(key, true)));
    let mut note = if action == Action::Other { vec![name] } else { Vec::new() };
    if !old.is_empty() {
        note.push(listed(&old));
    }
    Event {
        seq,
        at: at.unwrap_or_default(),
        action,
        agent: agent.unwrap_or_default(),
        from: from.unwrap_or_default(),
        to: to.unwrap_or_default(),
        note: (!note.is_empty()).then(|| note.join("; ")),
        code: None,
    }
}

#[cfg(test)]
mod tests;
