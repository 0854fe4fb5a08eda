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
    /// When the session began, in UTC.
    pub started_at: String,
    /// When it was judged, in UTC.
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
        let path = folder.join("run.json");
        let mut text =
            serde_json::to_string_pretty(self).map_err(|source| JsonError::Syntax { path: path.clone(), source })?;
        text.push('\n');
        Ok(fs::replace_private(&path, text.as_bytes())?)
    }

    /// Reads the record of a session, if there is one that this version understands.
    pub fn read(folder: &std::path::Path) -> Result<Option<Self>, FileError> {
        let bytes = fs::read_if_present(&folder.join("run.json"))?;
        let record: Option<Self> = bytes.and_then(|bytes| serde_json::from_slice(&bytes).ok());
        Ok(record.filter(|record| record.schema <= RECORD_SCHEMA))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::session::Ended;

    fn running() -> RunRecord {
        RunRecord {
            schema: RECORD_SCHEMA,
            run_id: "auto-qa-000000000000.1".to_owned(),
            agent: "auto-qa-000000000000".parse().unwrap(),
            session: 1,
            task: "S00-001".parse().unwrap(),
            role: "qa".parse().unwrap(),
            action: Work::Review,
            status: RecordStatus::Running,
            started_at: "2026-11-30T03:05:12Z".to_owned(),
            finished_at: None,
            argv: vec!["agent".to_owned()],
            prompt_characters: 7,
            prompt_parts: vec![PartRecord { part: "assignment".to_owned(), characters: 7 }],
            execution: Some(ExecutionResult::without_process(Ended::Exited, None)),
            scope_violations: vec!["a.txt".to_owned()],
            tampering: Vec::new(),
            findings: Vec::new(),
            kept: Vec::new(),
            result: Some(serde_json::json!({"verdict": "stands"})),
            commit: None,
            commit_error: None,
        }
    }

    #[test]
    fn a_written_record_reads_back_the_same_and_is_the_users_own() {
        use std::os::unix::fs::PermissionsExt;
        let folder = tempfile::tempdir().unwrap();
        assert_eq!(RunRecord::read(folder.path()).unwrap(), None);
        running().write(folder.path()).unwrap();
        assert_eq!(RunRecord::read(folder.path()).unwrap(), Some(running()));
        let mode = folder.path().join("run.json").metadata().unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
    }

    #[test]
    fn an_older_record_reads_without_what_it_lacks_and_a_newer_or_broken_one_not_at_all() {
        let folder = tempfile::tempdir().unwrap();
        let mut old = serde_json::to_value(running()).unwrap();
        let keys = old.as_object_mut().unwrap();
        keys.insert("schema".to_owned(), 1.into());
        for later in ["finished_at", "execution", "scope_violations", "tampering", "findings", "kept", "result"] {
            keys.remove(later).unwrap();
        }
        let put = |text: &str| fs::replace(&folder.path().join("run.json"), text.as_bytes()).unwrap();
        put(&old.to_string());
        let read = RunRecord::read(folder.path()).unwrap().unwrap();
        assert_eq!((read.schema, read.execution, read.result), (1, None, None));
        old["schema"] = (RECORD_SCHEMA + 1).into();
        put(&old.to_string());
        assert_eq!(RunRecord::read(folder.path()).unwrap(), None);
        put("{");
        assert_eq!(RunRecord::read(folder.path()).unwrap(), None);
    }
}
