//! A stage of the plan, `planning/stages/<STAGE>.json`.

use std::path::Path;

use serde::Serialize;

use crate::ids::StageId;
use crate::strict::{Document, Fault, Fields};

/// A part of the plan that is done when all its tasks are.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Stage {
    /// Its id, which is also its file's name.
    pub id: StageId,
    /// What it is called.
    pub title: String,
    /// What it is for; may be empty.
    pub goal: String,
    /// Its place among the stages, smaller first.
    pub order: i64,
    /// The stages that must be complete before a task of this one may be claimed.
    pub depends_on: Vec<StageId>,
}

impl Stage {
    /// Parses bytes that came from `path`; the error holds all faults.
    pub fn parse(path: &Path, bytes: &[u8]) -> Result<Self, Vec<Fault>> {
        let document = Document::parse(path, bytes).map_err(|fault| vec![fault])?;
        let (stage, faults) = document.read(read);
        match stage.flatten() {
            Some(stage) if faults.is_empty() => Ok(stage),
            _ => Err(faults),
        }
    }
}

fn read(fields: &mut Fields<'_>) -> Option<Stage> {
    fields.value("$schema");
    let id = fields.required_name("id");
    let order = fields.required_integer("order");
    let title = fields.required_text("title");
    let goal = fields.text("goal").unwrap_or_default().to_owned();
    let depends_on = fields.names("depends_on");
    fields.finish();
    Some(Stage { id: id?, title: title?.to_owned(), goal, order: order?, depends_on })
}
