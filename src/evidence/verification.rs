//! What the coordinator's own commands said of a submit.

use serde::{Deserialize, Serialize};

/// Whether a failure counts against the session.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Failed {
    /// The command passed before the session, or nobody knows.
    New,
    /// The command failed before the session already.
    Old,
}

/// One command and what it came to.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CommandRecord {
    /// The command as configured.
    pub argv: Vec<String>,
    /// How it ended, in words: `exit status 0`.
    pub ended: String,
    /// Whether it failed, and since when; nothing if it passed.
    pub failed: Option<Failed>,
    /// How long it ran, in milliseconds.
    pub wall_ms: u64,
    /// The log of its standard output in the session's folder; that of its standard error lies beside it.
    pub log: String,
}

/// The verification of one session's submit.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct VerificationRecord {
    /// The commit whose failures are old; nothing if none is known.
    pub baseline: Option<String>,
    /// The commands that were run before the session, to know what fails there.
    pub before: Vec<CommandRecord>,
    /// The commands that were run on what it submitted.
    pub commands: Vec<CommandRecord>,
    /// What they changed in the tree, and where it lies now; all of it was put back.
    pub changed: Vec<String>,
    /// What they changed that nobody may, or that could not be put back.
    pub faults: Vec<String>,
}
