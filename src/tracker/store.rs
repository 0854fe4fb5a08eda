//! The durable store of rows, cards and texts: one file per task, atomic over several files, locked by the kernel.
//!
//! A change of several files is written and synced first as one pending record, then applied, then the record is removed;
//! whoever takes the lock next finishes a pending record before anything else. Never decides which change is allowed.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::fault;
use crate::fs::{self, FileError, JsonError};
use crate::ids::{StageId, TaskId};
use crate::lock::{Lock, LockError};
use crate::plan::{Plan, TaskCard};
use crate::project::Project;

use super::convert;
use super::ready::Board;
use super::row::{Row, SCHEMA};
use super::rules;

/// State that cannot be read or written.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// A file operation failed.
    #[error(transparent)]
    File(#[from] FileError),
    /// A state file is no JSON of the expected shape.
    #[error("{0}; restore the file with git, state changes only through `runner task`")]
    Json(#[from] JsonError),
    /// Another process holds the state lock.
    #[error("the state is locked by another process for longer than {} s; try again", patience.as_secs())]
    Busy {
        /// How long was waited.
        patience: Duration,
    },
    /// The lock could not be taken for another reason.
    #[error(transparent)]
    Lock(#[from] LockError),
    /// The state was written by a newer version.
    #[error("{} has schema {schema}, this version reads up to {SCHEMA}; use a newer runner", path.display())]
    Newer {
        /// The file.
        path: PathBuf,
        /// Its schema number.
        schema: u32,
    },
    /// The state contradicts itself or the plan.
    #[error("the state is inconsistent: {}; restore the files with git, state changes only through `runner task`", faults.join("; "))]
    Inconsistent {
        /// Each fault with its file.
        faults: Vec<String>,
    },
}

type Result<T, E = StoreError> = std::result::Result<T, E>;

/// What `state/state.json` holds.
#[derive(Debug, Deserialize)]
struct Marker {
    #[serde(default = "first_schema")]
    schema: u32,
}

fn first_schema() -> u32 {
    1
}

/// Intended contents of several files, by root-relative path.
#[derive(Debug, Clone, Default, Serialize, Deserialize, PartialEq, Eq)]
pub struct Batch {
    /// Contents by path; none removes the file.
    files: BTreeMap<String, Option<String>>,
}

impl Batch {
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

impl Batch {
    /// The root-relative paths of all files.
    pub fn paths(&self) -> impl Iterator<Item = &str> {
        self.files.keys().map(String::as_str)
    }
}

fn card_path(task: &TaskId) -> String {
    format!("planning/tasks/{task}.json")
}

/// `state/tasks/<STAGE>/<TASK>.json`.
pub fn row_path(stage: &StageId, task: &TaskId) -> String {
    format!("state/tasks/{stage}/{task}.json")
}

/// What the pending record holds.
#[derive(Debug, Serialize, Deserialize)]
struct Pending {
    schema: u32,
    root: PathBuf,
    #[serde(flatten)]
    batch: Batch,
}

/// The state of one project.
#[derive(Debug, Clone)]
pub struct Store {
    project: Project,
}

impl Store {
    /// The store of `project`; reads nothing yet.
    pub fn new(project: &Project) -> Self {
        Self { project: project.clone() }
    }

    /// All rows of the plan, without the lock: a pending record is overlaid in memory.
    pub fn read(&self, plan: &Plan) -> Result<Board> {
        loop {
            let pending = self.pending()?;
            let board = self.load(plan, pending.as_ref())?;
            // A record that came or went meanwhile means that a writer was at work between two of our reads.
            if self.pending()?.map(|p| p.batch) == pending.map(|p| p.batch) {
                return Ok(board);
            }
        }
    }

    /// One row, without the lock.
    pub fn read_row(&self, stage: &StageId, task: &TaskId) -> Result<Row> {
        let path = self.project.row(stage, task);
        match fs::read_if_present(&path)? {
            Some(bytes) => parse_row(&path, &bytes),
            None => Ok(Row::default()),
        }
    }

    /// Takes the state lock, waiting at most `patience`, and finishes a pending record.
    pub fn lock(&self, patience: Duration) -> Result<LockedStore<'_>> {
        let path = self.lock_path();
        if path.is_absolute() && self.project.git().is_none() {
            fs::make_folder(&path)?;
        }
        let lock = match Lock::take_within(&path, patience) {
            Err(LockError::Held { .. }) => return Err(StoreError::Busy { patience }),
            other => other?,
        };
        let locked = LockedStore { store: self, _lock: lock };
        if let Some(pending) = self.pending()? {
            locked.finish(&pending.batch)?;
        }
        Ok(locked)
    }

    /// What the state lock is on: the folder of git's objects, which no session can do without, else the folder of the rows.
    pub fn lock_path(&self) -> PathBuf {
        match self.project.git() {
            Some(git) => git.common.join("objects"),
            None => self.project.root().join("state/tasks"),
        }
    }

    fn pending_path(&self) -> PathBuf {
        self.project.private_own().join("pending.json")
    }

    fn pending(&self) -> Result<Option<Pending>> {
        let path = self.pending_path();
        let Some(bytes) = fs::read_if_present(&path)? else { return Ok(None) };
        Ok(Some(fs::parse_json(&path, &bytes)?))
    }

    /// Whether the state is still the original's single file; checks the schema number.
    fn is_original(&self) -> Result<bool> {
        let path = self.project.state_marker();
        let Some(bytes) = fs::read_if_present(&path)? else { return Ok(false) };
        let marker: Marker = fs::parse_json(&path, &bytes)?;
        check_schema(&path, marker.schema)?;
        Ok(marker.schema < 2)
    }

    fn load(&self, plan: &Plan, pending: Option<&Pending>) -> Result<Board> {
        if self.is_original()? && pending.is_none() {
            let path = self.project.state_marker();
            return convert::board(plan, &path, &fs::read(&path)?);
        }
        let overlay = pending.map(|pending| &pending.batch.files);
        let mut rows = BTreeMap::new();
        let mut faults = Vec::new();
        let stages = fs::list(&self.project.root().join("state/tasks"))?.unwrap_or_default();
        for path in stages.iter().filter_map(|stage| fs::list(stage).transpose()) {
            for path in path?.into_iter().filter(|path| is_row_file(path)) {
                let row = parse_row(&path, &fs::read(&path)?)?;
                match plan_task(plan, &path) {
                    Ok(task) => {
                        faults.extend(
                            rules::faults(&row).into_iter().map(|fault| format!("{}: {fault}", path.display())),
                        );
                        rows.insert(task, row);
                    }
                    Err(fault) => faults.push(fault),
                }
            }
        }
        for (path, text) in overlay.into_iter().flatten().filter(|(path, _)| path.starts_with("state/tasks/")) {
            let path = self.project.root().join(path);
            // A card made by the same record may not be on disk yet, so a row without a card is no fault here.
            match (plan_task(plan, &path), text) {
                (Ok(task), Some(text)) => drop(rows.insert(task, parse_row(&path, text.as_bytes())?)),
                (Ok(task), None) => drop(rows.remove(&task)),
                (Err(_), _) => {}
            }
        }
        if faults.is_empty() { Ok(Board::new(rows)) } else { Err(StoreError::Inconsistent { faults }) }
    }
}

/// The state with its lock held.
#[derive(Debug)]
#[must_use = "the lock is free again as soon as this is dropped"]
pub struct LockedStore<'a> {
    store: &'a Store,
    _lock: Lock,
}

impl LockedStore<'_> {
    /// All rows of the plan.
    pub fn read(&self, plan: &Plan) -> Result<Board> {
        self.store.load(plan, None)
    }

    /// One row.
    pub fn read_row(&self, stage: &StageId, task: &TaskId) -> Result<Row> {
        self.store.read_row(stage, task)
    }

    /// Whether [`LockedStore::convert`] has to come before any write.
    pub fn needs_conversion(&self) -> Result<bool> {
        self.store.is_original()
    }

    /// Converts the original's single file into one file per task, all or nothing.
    pub fn convert(&self, plan: &Plan) -> Result<()> {
        let board = self.store.load(plan, None)?;
        let mut batch = Batch::default();
        for (task, row) in board.rows() {
            if let Some(card) = plan.task(task).filter(|_| *row != Row::default()) {
                batch = batch.row(&card.stage, task, row);
            }
        }
        self.write(&batch.text("state/state.json", &marker_text()))
    }

    /// Writes all files of the batch, or, after a crash, lets the next holder of the lock do so.
    pub fn write(&self, batch: &Batch) -> Result<()> {
        let marker = self.store.project.state_marker();
        let with_marker;
        let batch = if marker.exists() {
            if self.store.is_original()? && !batch.files.contains_key("state/state.json") {
                return Err(StoreError::Inconsistent {
                    faults: vec!["state/state.json is the original's and was not converted yet".to_owned()],
                });
            }
            batch
        } else {
            with_marker = batch.clone().text("state/state.json", &marker_text());
            &with_marker
        };
        if batch.files.len() > 1 {
            let root = self.store.project.root().to_owned();
            let pending = Pending { schema: SCHEMA, root, batch: batch.clone() };
            let text = serde_json::to_string(&pending)
                .map_err(|source| JsonError::Syntax { path: self.store.pending_path(), source })?;
            fs::replace(&self.store.pending_path(), text.as_bytes())?;
            fault::point("state:pending");
        }
        self.finish(batch)
    }

    fn finish(&self, batch: &Batch) -> Result<()> {
        for (path, text) in &batch.files {
            let path = self.store.project.root().join(path);
            match text {
                None => fs::remove(&path)?,
                Some(text) if fs::read_if_present(&path)?.as_deref() == Some(text.as_bytes()) => {}
                Some(text) => fs::replace(&path, text.as_bytes())?,
            }
            fault::point("state:applied");
        }
        let pending = self.store.pending_path();
        if pending.exists() {
            fs::remove(&pending)?;
            fault::point("state:finished");
        }
        Ok(())
    }
}

fn marker_text() -> String {
    format!("{{\n  \"schema\": {SCHEMA}\n}}\n")
}

fn is_row_file(path: &Path) -> bool {
    path.extension().is_some_and(|extension| extension == "json")
}

/// The task a row file is for, by its name and folder.
fn plan_task(plan: &Plan, path: &Path) -> std::result::Result<TaskId, String> {
    let part = |name: Option<&std::ffi::OsStr>| name.and_then(|name| name.to_str()).map(str::to_owned);
    let stage = part(path.parent().and_then(Path::file_name)).unwrap_or_default();
    let task = part(path.file_stem()).unwrap_or_default();
    let card = task.parse().ok().and_then(|id: TaskId| plan.task(&id).map(|card| (id, card)));
    match card {
        None => Err(format!("{} has no card planning/tasks/{task}.json", path.display())),
        Some((_, card)) if card.stage.as_str() != stage => {
            Err(format!("{} lies in the folder of another stage than {}", path.display(), card.stage))
        }
        Some((id, _)) => Ok(id),
    }
}

/// Parses one row; a newer schema is refused by name.
pub fn parse_row(path: &Path, bytes: &[u8]) -> Result<Row> {
    let marker: Marker = fs::parse_json(path, bytes)?;
    check_schema(path, marker.schema)?;
    Ok(fs::parse_json(path, bytes)?)
}

fn check_schema(path: &Path, schema: u32) -> Result<()> {
    if schema > SCHEMA {
        return Err(StoreError::Newer { path: path.to_owned(), schema });
    }
    Ok(())
}
