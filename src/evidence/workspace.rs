//! What a record says about the place where its session worked.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::workspace::lease::{Contamination, Step};

/// Where a session worked.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum WorkspaceMode {
    /// In the project's root.
    InPlace,
    /// In a linked git work tree.
    Worktree,
}

/// The lease of a session's workspace, from its acquisition to its end.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct WorkspaceRecord {
    /// In the root or in a work tree of its own.
    pub mode: WorkspaceMode,
    /// Where it lay while the session worked.
    pub path: PathBuf,
    /// How many workspaces this run had in that place, with this one.
    pub generation: u32,
    /// The steps of the lease, oldest first. The last is how it ended; while it is held, and after a kill, that is `check`.
    pub steps: Vec<Step>,
    /// Why it could no longer be trusted, the gravest first.
    #[serde(default)]
    pub contamination: Vec<Contamination>,
    /// Where it is kept now, if it was put aside.
    #[serde(default)]
    pub kept_at: Option<PathBuf>,
}
