//! What one change writes: the intended contents of several files, by root-relative path.
//!
//! Owns where rows and cards lie. Never touches a file (`store`).

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::ids::{StageId, TaskId};
use crate::plan::TaskCard;

use super::row::Row;

/// Intended contents of several files, by root-relative path.
#[derive(Debug, Clone, Default, Serialize, Deserialize, PartialEq, Eq)]
pub struct Batch {
    /// Contents by path; none removes the file.
    pub(super) files: BTreeMap<String, Option<String>>,
    /// The request that asked for this, wherever it lies; it goes with the change, so that it is carried out once.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) request: Option<PathBuf>,
}

impl Batch {
    /// What the request at `path` asks for; none for what nobody had queued.
    pub fn for_request(path: Option<&Path>) -> Self {
        Self { files: BTreeMap::new(), request: path.map(Path::to_owned) }
    }

    /// The root-relative paths of all files.
    pub fn paths(&self) -> impl Iterator<Item = &str> {
        self.files.keys().map(String::as_str)
    }

    /// Adds a row.
    #[must_use]
    pub fn row(mut self, stage: &StageId, task: &TaskId, row: &Row) -> Self {
        self.files.insert(row_path(stage, task), Some(row.to_json()));
        self
    }

    /// Adds a card.
    #[must_use]
    pub fn card(mut self, card: &TaskCard) -> Self {
        self.files.insert(card_path(&card.id), Some(card.to_json()));
        self
    }

    /// Adds a text at a root-relative path.
    #[must_use]
    pub fn text(mut self, path: &str, text: &str) -> Self {
        self.files.insert(path.to_owned(), Some(text.to_owned()));
        self
    }

    /// Removes the card and the row of a task that must not have come into being.
    #[must_use]
    pub fn without_task(mut self, stage: &StageId, task: &TaskId) -> Self {
        self.files.insert(card_path(task), None);
        self.files.insert(row_path(stage, task), None);
        self
    }
}

fn card_path(task: &TaskId) -> String {
    format!("planning/tasks/{task}.json")
}

/// `state/tasks/<STAGE>/<TASK>.json`.
pub fn row_path(stage: &StageId, task: &TaskId) -> String {
    format!("state/tasks/{stage}/{task}.json")
}

/// Whether a path of a batch stays where batches write: below `state/` or `planning/`.
pub(super) fn is_allowed(path: &str) -> bool {
    let mut parts = path.split('/');
    matches!(parts.next(), Some("state" | "planning")) && parts.all(|part| !matches!(part, "" | "." | ".."))
}
