//! How a run ended, and the one match that gives exit codes.
//!
//! Outcomes (what a run came to) and failures (what stopped it before or outside of that) are different types. Never prints.

use std::collections::BTreeMap;

use serde::Serialize;

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
    /// Another coordinator holds the run lock.
    Busy,
    /// A signal ended the run.
    Interrupted,
}

impl Stop {
    /// All of them, in the order of the table in `docs/exit-codes.md`.
    pub const ALL: [Self; 7] = [
        Self::Complete,
        Self::Idle,
        Self::SessionLimit,
        Self::GitError,
        Self::NeedsInput,
        Self::Busy,
        Self::Interrupted,
    ];

    /// The exit code; `signal` is the one that interrupted the run.
    pub fn exit_code(self, signal: i32) -> u8 {
        match self {
            Self::Complete | Self::Idle | Self::SessionLimit => 0,
            Self::GitError => EXIT_FAILURE,
            Self::NeedsInput => 3,
            Self::Busy => EXIT_TRY_LATER,
            Self::Interrupted => 128u8.saturating_add(u8::try_from(signal).unwrap_or(0)),
        }
    }
}

/// Bad usage, configuration, plan or repository.
pub const EXIT_FAILURE: u8 = 2;

/// Somebody else holds a lock: try again later (`EX_TEMPFAIL` of `sysexits.h`).
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
