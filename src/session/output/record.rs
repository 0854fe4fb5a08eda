//! The bounds on what is kept of a session's output, and the figures of what was.

use serde::{Deserialize, Serialize};

/// What happens when more was printed than is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LimitAction {
    /// The middle is left out and the session goes on.
    Keep,
    /// The session is ended.
    End,
}

/// How much of a session's output is kept, in bytes: the sizes its finished logs may have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OutputBounds {
    /// Of standard output.
    pub stdout: u64,
    /// Of standard error.
    pub stderr: u64,
    /// Of both together.
    pub combined: u64,
    /// What happens when there is more.
    pub action: LimitAction,
}

impl Default for OutputBounds {
    fn default() -> Self {
        Self { stdout: 8 << 20, stderr: 2 << 20, combined: 8 << 20, action: LimitAction::Keep }
    }
}

/// The figures of one stream, in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct StreamRecord {
    /// What the agent was seen to have written.
    pub written: u64,
    /// What of it the log holds.
    pub kept: u64,
    /// What was left out between the log's head and its end.
    pub left_out: u64,
    /// The agent cut its own output off: it truncated the file behind the stream. What was seen before is kept.
    pub truncated_by_agent: bool,
}

/// How the last read of the output ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum DrainStatus {
    /// There was nothing to read: no process came to be.
    #[default]
    NotNeeded,
    /// All was read.
    Complete,
    /// The drain window was over before all was read.
    WindowOver,
    /// The output could not be read or kept, for example since the disk was full.
    Failed,
}

/// What became of a session's output.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct OutputRecord {
    /// Standard output.
    pub stdout: StreamRecord,
    /// Standard error.
    pub stderr: StreamRecord,
    /// How the last read ended.
    pub drain: DrainStatus,
    /// What was not read, in bytes.
    pub unread: u64,
    /// Why the output could not be read or kept.
    #[serde(default)]
    pub error: Option<String>,
}
