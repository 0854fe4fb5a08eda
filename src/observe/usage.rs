//! What the sessions on record used, added up by what they have in common: the same sums as of a run that is watched.
//!
//! Reads records and writes nothing. What a record does not say is unknown, never zero.

use std::collections::BTreeMap;
use std::path::Path;

use jiff::civil::Date;
use jiff::tz::TimeZone;
use jiff::{Span, Timestamp};
use serde::Serialize;

use super::{Counters, Event, Group, RunCounts, SessionName, Spent, Summary};
use crate::evidence::{RecordStatus, RunRecord, session_folders};
use crate::fs::FileError;
use crate::ids::{StageId, TaskId};
use crate::tokens::{Cost, Tokens};

/// The version of the fields of [`Usage`].
pub const USAGE_SCHEMA: u32 = 1;

/// What sessions are put together by.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum By {
    /// Each for itself.
    Run,
    /// Their task.
    Task,
    /// Their task's stage in the plan.
    Stage,
    /// Their role.
    Role,
    /// Their agent.
    Agent,
}

/// A time that is none.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "{text:?} is no time: give a day (2026-11-30), an instant (2026-11-30T08:00:00Z) or how long ago (7d, 12h, 2 weeks)"
)]
pub struct BadTime {
    text: String,
}

/// The records on disk.
#[derive(Debug, Default)]
pub struct Records {
    /// Those that this version understands.
    pub records: Vec<RunRecord>,
    /// How many sessions have no such record.
    pub unreadable: u64,
}

/// What was used.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Usage {
    /// [`USAGE_SCHEMA`].
    pub schema: u32,
    /// What the rows stand for.
    pub by: By,
    /// One for each, in the order of its key; runs in the order in which they began.
    pub rows: Vec<Row>,
    /// All of them.
    pub total: Row,
    /// How many sessions have no record that this version understands; they are in none of the sums.
    pub unreadable: u64,
}

/// What some sessions used together.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Row {
    /// What they have in common; none for the total, and for tasks that are in the plan no more.
    pub key: Option<String>,
    /// How many they are.
    pub runs: u64,
    /// How many of them have no end on record: they run, or their coordinator was killed. Nothing of them is in the sums.
    pub runs_without_end: u64,
    /// Processes started.
    pub attempts: u64,
    /// How many of them followed a failure that passes.
    pub transient_retries: u64,
    /// Turns that only asked for what an earlier one had left out.
    pub repair_turns: u64,
    /// The five token figures.
    pub tokens: Tokens,
    /// What they cost; left out where no agent stated it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cost: Option<Cost>,
    /// For how many of the runs nothing is known about a figure.
    pub unknown_runs: RunCounts,
}

impl Row {
    fn new(key: Option<String>, summary: &Summary) -> Self {
        let without_end = summary.members.iter().filter(|member| !member.terminal_observed).count();
        let count = |number: usize| u64::try_from(number).unwrap_or(u64::MAX);
        Self {
            key,
            runs: count(summary.members.len()),
            runs_without_end: count(without_end),
            attempts: summary.attempts,
            transient_retries: summary.transient_retries,
            repair_turns: summary.repair_turns,
            tokens: summary.tokens,
            cost: Some(summary.cost).filter(|cost| cost.known && !summary.members.is_empty()),
            unknown_runs: summary.unknown_runs,
        }
    }
}

/// The records of all sessions below `runs`, the folder `state/runs`, the oldest first.
pub fn read(runs: &Path) -> Result<Records, FileError> {
    let mut found = Records::default();
    for folder in session_folders(runs)? {
        match RunRecord::read(&folder)? {
            Some(record) => found.records.push(record),
            None => found.unreadable += 1,
        }
    }
    found.records.sort_by(|a, b| (&a.started_at, &a.run_id).cmp(&(&b.started_at, &b.run_id)));
    Ok(found)
}

/// The earliest moment that `text` means; `now` is what a span is counted back from. Days are those of UTC.
pub fn since(text: &str, now: Timestamp) -> Result<Timestamp, BadTime> {
    let bad = || BadTime { text: text.to_owned() };
    if let Ok(at) = text.parse::<Timestamp>() {
        return Ok(at);
    }
    if let Ok(day) = text.parse::<Date>() {
        return day.to_zoned(TimeZone::UTC).map(|at| at.timestamp()).map_err(|_| bad());
    }
    let span: Span = text.parse().map_err(|_| bad())?;
    let before = now.to_zoned(TimeZone::UTC).checked_sub(span.abs()).map_err(|_| bad())?;
    Ok(before.timestamp())
}

/// Leaves out the records of sessions that began before `at`.
pub fn retain_since(found: &mut Records, at: Timestamp) {
    found.records.retain(|record| record.started_at.parse::<Timestamp>().is_ok_and(|began| began >= at));
}

/// Adds up what the sessions used; `stage_of` knows the stages of the plan's tasks.
pub fn usage(found: &Records, by: By, stage_of: &dyn Fn(&TaskId) -> Option<StageId>) -> Usage {
    let all = Group::default();
    let mut groups: BTreeMap<(usize, Option<String>), Group> = BTreeMap::new();
    for (place, record) in found.records.iter().enumerate() {
        let key = match by {
            By::Run => Some(record.run_id.clone()),
            By::Task => Some(record.task.to_string()),
            By::Stage => stage_of(&record.task).map(String::from),
            By::Role => Some(record.role.to_string()),
            By::Agent => Some(record.agent.to_string()),
        };
        // Runs stay in their order; everything else is sorted by its name.
        let place = if by == By::Run { place } else { 0 };
        let event = told(record);
        all.observe(&event);
        groups.entry((place, key)).or_default().observe(&event);
    }
    Usage {
        schema: USAGE_SCHEMA,
        by,
        rows: groups.into_iter().map(|((_, key), group)| Row::new(key, &group.snapshot())).collect(),
        total: Row::new(None, &all.snapshot()),
        unreadable: found.unreadable,
    }
}

/// What a session used, as its record says.
pub fn spent(record: &RunRecord) -> Spent {
    let has_run = record.execution.as_ref().is_some_and(|execution| execution.pid.is_some());
    // A session after the first of its agent only asks for what the one before left out, and follows no failure.
    let is_further = record.session > 1;
    let counters = Counters {
        attempts: u64::from(has_run),
        transient_retries: u64::from(has_run && !is_further && record.retry > 0),
        repair_turns: u64::from(has_run && is_further),
    };
    Spent { counters, tokens: record.tokens, cost: record.cost }
}

/// The event that the record of a session amounts to: its end, if a coordinator saw it.
fn told(record: &RunRecord) -> Event {
    let session = SessionName {
        agent: record.agent.clone(),
        number: record.session,
        parent: record.parent_run_id.clone(),
        task: record.task.clone(),
        title: String::new(),
        role: record.role.clone(),
        work: record.action,
    };
    match record.status {
        RecordStatus::Finished => Event::SessionEnded {
            session,
            outcome: String::new(),
            good: record.outcome == crate::evidence::Outcome::Succeeded,
            limited: record.is_limited(),
            wall_ms: record.execution.as_ref().map_or(0, |execution| execution.wall_ms),
            spent: spent(record),
        },
        RecordStatus::Running | RecordStatus::Recovered => Event::SessionStarted { session, count: 1 },
    }
}

#[cfg(test)]
mod tests;
