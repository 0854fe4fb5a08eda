//! How a run ended, and the one match that gives exit codes.
//!
//! Outcomes (what a run came to) and failures (what stopped it before or outside of that) are different types. Never prints.

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde::Serialize;

use crate::budget::Used;
use crate::evidence::ReportTally;
use crate::ids::{AgentId, TaskId};

/// Why a run stopped.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Stop {
    /// Every task of the plan is done.
    Complete,
    /// Nothing is ready and nothing waits for a person.
    Idle,
    /// The number of sessions asked for was reached.
    SessionLimit,
    /// A task waits for a person, or one can never become ready.
    NeedsInput,
    /// A commit could not be made.
    GitError,
    /// A budget of the run is used up.
    Budget,
    /// Another coordinator holds the run lock.
    Busy,
    /// The service of an agent takes nothing for a while.
    Limited,
    /// A signal ended the run.
    Interrupted,
    /// Bad configuration, plan or repository, found after the first session.
    #[serde(rename = "configuration_or_workflow_error")]
    Failed,
}

impl Stop {
    /// All of them, in the order of the table in `docs/exit-codes.md`.
    pub const ALL: [Self; 10] = [
        Self::Complete,
        Self::Idle,
        Self::SessionLimit,
        Self::Failed,
        Self::GitError,
        Self::NeedsInput,
        Self::Budget,
        Self::Busy,
        Self::Limited,
        Self::Interrupted,
    ];

    /// The exit code; `signal` is the one that interrupted the run.
    pub fn exit_code(self, signal: i32) -> u8 {
        match self {
            Self::Complete | Self::Idle | Self::SessionLimit => 0,
            Self::GitError | Self::Failed => EXIT_FAILURE,
            Self::NeedsInput => 3,
            Self::Budget => 4,
            Self::Busy | Self::Limited => EXIT_TRY_LATER,
            Self::Interrupted => 128u8.saturating_add(u8::try_from(signal).unwrap_or(0)),
        }
    }
}

/// Bad usage, configuration, plan or repository.
pub const EXIT_FAILURE: u8 = 2;

/// Somebody else holds a lock, or a service is at its limit: try again later (`EX_TEMPFAIL` of `sysexits.h`).
pub const EXIT_TRY_LATER: u8 = 75;

/// What a run came to: one JSON object on standard output.
#[derive(Debug, Clone, Serialize)]
pub struct RunResult {
    /// Why it stopped.
    pub stop: Stop,
    /// How many sessions it started.
    pub launched: u32,
    /// The number of all events of the state.
    pub revision: u64,
    /// Tasks of the whole plan that wait for a person, each with its reason.
    pub external_blockers: BTreeMap<TaskId, String>,
    /// How many tasks of the whole plan are not done.
    pub unfinished: usize,
    /// The agent of the last session.
    pub last_session: Option<AgentId>,
    /// The last commit.
    pub last_commit: Option<String>,
    /// Why the last commit could not be made.
    pub commit_error: Option<String>,
    /// What its sessions used, as far as that was stated.
    pub used: Used,
    /// What became of the reports of its sessions; it changes nothing else.
    pub report: ReportTally,
    /// Whether every task of the chosen part is done.
    pub stage_complete: bool,
    /// Unfinished tasks of the chosen part, each with what it waits for.
    pub waiting: BTreeMap<TaskId, String>,
    /// Tasks of the chosen part that can never become ready as things stand, each with what it waits for.
    pub unsatisfiable: BTreeMap<TaskId, String>,
    /// The signal that interrupted the run.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub signal: Option<i32>,
    /// What stopped the run, when `stop` is `configuration_or_workflow_error`, `limited` or `budget`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// When the service takes something again, when `stop` is `limited` and that was stated.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub retry_at: Option<Timestamp>,
    /// Who holds the run lock, when `stop` is `busy`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub holder: Option<serde_json::Value>,
}

impl RunResult {
    /// The process's exit code.
    pub fn exit_code(&self) -> u8 {
        self.stop.exit_code(self.signal.unwrap_or(0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The rows of the table in `docs/exit-codes.md`: code and stop.
    fn documented() -> Vec<(String, String)> {
        let page = include_str!("../docs/exit-codes.md");
        let rows = page.lines().filter_map(|line| line.strip_prefix('|')?.strip_suffix('|'));
        let cells = rows.map(|row| row.split('|').map(|cell| cell.trim().trim_matches('`')).collect::<Vec<_>>());
        let mut table: Vec<(String, String)> =
            cells.filter(|cells| cells.len() == 3).map(|cells| (cells[0].to_owned(), cells[2].to_owned())).collect();
        assert_eq!(table.remove(0), ("code".to_owned(), "stop".to_owned()));
        assert_eq!(table.remove(0), ("---".to_owned(), "---".to_owned()));
        table
    }

    #[test]
    fn the_documented_exit_codes_are_those_of_the_program() {
        let code = |stop: Stop| match stop {
            Stop::Interrupted => "128+n".to_owned(),
            other => other.exit_code(0).to_string(),
        };
        let name = |stop: Stop| serde_json::to_value(stop).unwrap().as_str().unwrap().to_owned();
        let table = documented();
        let known: Vec<_> = Stop::ALL.iter().map(|&stop| (code(stop), name(stop))).collect();
        assert_eq!(table, known, "docs/exit-codes.md and `Stop::ALL` say the same, in the same order");
    }

    #[test]
    fn all_stops_are_in_the_list_of_all_stops() {
        for stop in Stop::ALL {
            // A new stop has to be added here, to the list and to the table.
            match stop {
                Stop::Complete
                | Stop::Idle
                | Stop::SessionLimit
                | Stop::GitError
                | Stop::NeedsInput
                | Stop::Budget
                | Stop::Busy
                | Stop::Limited
                | Stop::Interrupted
                | Stop::Failed => {}
            }
            assert_eq!(Stop::ALL.iter().filter(|&&other| other == stop).count(), 1);
        }
    }

    #[test]
    fn a_signal_gives_its_own_exit_code() {
        for (signal, code) in [(1, 129), (2, 130), (15, 143), (0, 128), (-1, 128), (300, 128), (200, 255)] {
            assert_eq!(Stop::Interrupted.exit_code(signal), code);
        }
    }
}
