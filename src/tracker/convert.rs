//! Reads the single `state/state.json` of the original coordinator.
//!
//! Pure: bytes in, a board out. Nothing that the old file says about a task of the plan is lost: an event that has no
//! counterpart keeps its name and its further keys in the note.

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
}

/// The board that the original's state stands for.
pub(super) fn board(plan: &Plan, path: &Path, bytes: &[u8]) -> Result<Board, StoreError> {
    let original: Original = fs::parse_json(path, bytes)?;
    let strangers: Vec<String> = original
        .tasks
        .keys()
        .filter(|task| plan.task(task).is_none())
        .map(|task| format!("{}: {task} has no card planning/tasks/{task}.json", path.display()))
        .collect();
    if !strangers.is_empty() {
        return Err(StoreError::Inconsistent { faults: strangers });
    }
    let mut events: BTreeMap<String, Vec<Event>> = BTreeMap::new();
    for event in original.events {
        let task = text_of(&event, "task").unwrap_or_default();
        let list = events.entry(task).or_default();
        let seq = list.len() as u64 + 1;
        list.push(converted(seq, event));
    }
    let rows = original.tasks.into_iter().map(|(task, row)| {
        let row = row_of(row, events.remove(task.as_str()).unwrap_or_default(), &original.retired_agents);
        (task, row)
    });
    Ok(Board::new(rows.collect()))
}

fn row_of(old: OriginalRow, events: Vec<Event>, retired: &[String]) -> Row {
    let blocked = old.status == Status::Blocked;
    // In the original a blocked task may wait for a person behind a remediation, or name no blocker at all.
    let external_wait = blocked && (old.external_wait || old.blocked_by.is_empty());
    let mut agents: Vec<AgentId> = Vec::new();
    let named =
        events.iter().filter(|e| e.action != Action::Other || retired.contains(&e.agent)).map(|e| e.agent.parse().ok());
    for agent in named.chain([old.owner.clone(), old.reviewer.clone()]).flatten() {
        if agent.as_str() != "tracker" && !agents.contains(&agent) {
            agents.push(agent);
        }
    }
    Row {
        schema: SCHEMA,
        status: old.status,
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

fn text_of(event: &Map<String, Value>, key: &str) -> Option<String> {
    event.get(key).and_then(Value::as_str).map(str::to_owned)
}

fn status_of(event: &Map<String, Value>, key: &str) -> Status {
    event.get(key).cloned().and_then(|value| serde_json::from_value(value).ok()).unwrap_or_default()
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
    let at = text_of(&old, "at").unwrap_or_default();
    let agent = text_of(&old, "agent").unwrap_or_default();
    for known in ["revision", "at", "action", "task", "agent", "from", "to"] {
        old.remove(known);
    }
    let mut note = if action == Action::Other { vec![name] } else { Vec::new() };
    note.extend(old.iter().map(|(key, value)| format!("{key}: {value}")));
    Event { seq, at, action, agent, from, to, note: (!note.is_empty()).then(|| note.join("; ")), code: None }
}
