//! `run.json`: one record per session that says exactly what happened; written as `running` before the process exists.
//!
//! Owns the record's shape. Additive: a field that an older record lacks reads as absent.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::fs::{self, FileError, JsonError};
use crate::ids::{AgentId, Role, TaskId};
use crate::plan::Work;
use crate::session::ExecutionResult;

/// The schema number of `run.json`.
pub const RECORD_SCHEMA: u32 = 2;

/// Whether the session is over.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RecordStatus {
    /// Its process is about to start, runs, or ran when the coordinator died.
    Running,
    /// It is over and judged.
    Finished,
    /// The coordinator died with it; the next start put things in order.
    Recovered,
}

/// The size of one part of the prompt.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PartRecord {
    /// Its heading.
    pub part: String,
    /// In Unicode characters.
    pub characters: usize,
}

/// The record of one session.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RunRecord {
    /// [`RECORD_SCHEMA`] of the version that wrote it.
    pub schema: u32,
    /// `<agent>.<n>`.
    pub run_id: String,
    /// The agent.
    pub agent: AgentId,
    /// The session's number within the agent, from 1.
    pub session: u32,
    /// The task.
    pub task: TaskId,
    /// The role.
    pub role: Role,
    /// What it was to do.
    pub action: Work,
    /// Whether it is over.
    pub status: RecordStatus,
    /// UTC.
    pub started_at: String,
    /// UTC.
    #[serde(default)]
    pub finished_at: Option<String>,
    /// The command with all placeholders replaced.
    pub argv: Vec<String>,
    /// The prompt's length in Unicode characters.
    pub prompt_characters: usize,
    /// Its parts, in order.
    pub prompt_parts: Vec<PartRecord>,
    /// How the process ended.
    #[serde(default)]
    pub execution: Option<ExecutionResult>,
    /// All files changed outside the scope.
    #[serde(default)]
    pub scope_violations: Vec<String>,
    /// All protected files changed.
    #[serde(default)]
    pub tampering: Vec<String>,
    /// What could not be read or was in no way expected in the tree.
    #[serde(default)]
    pub findings: Vec<String>,
    /// What was moved aside, and what could not be put back.
    #[serde(default)]
    pub kept: Vec<String>,
    /// What it came to.
    #[serde(default)]
    pub result: Option<Value>,
    /// The commit made of it.
    #[serde(default)]
    pub commit: Option<String>,
    /// Why there is none.
    #[serde(default)]
    pub commit_error: Option<String>,
}

impl RunRecord {
    /// Replaces the record in the session's folder, readable by the user only.
    pub fn write(&self, folder: &std::path::Path) -> Result<(), JsonError> {
        self.write_with(folder, &[])
    }

    /// As [`RunRecord::write`], together with other files of the session.
    pub fn write_with(&self, folder: &std::path::Path, others: &[(&std::path::Path, &[u8])]) -> Result<(), JsonError> {
        let path = folder.join("run.json");
        let mut text =
            serde_json::to_string_pretty(self).map_err(|source| JsonError::Syntax { path: path.clone(), source })?;
        text.push('\n');
        let own = (path.as_path(), text.as_bytes());
        Ok(fs::replace_private_together(&[others, &[own]].concat())?)
    }

    /// Reads the record of a session, if there is one that this version understands.
    pub fn read(folder: &std::path::Path) -> Result<Option<Self>, FileError> {
        let bytes = fs::read_if_present(&folder.join("run.json"))?;
        Ok(bytes.and_then(|bytes| serde_json::from_slice(&bytes).ok()))
    }
}
