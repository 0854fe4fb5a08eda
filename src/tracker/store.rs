//! The durable store of rows, cards and texts: one file per task, atomic over several files, locked by the kernel.
//!
//! A change of several files is written and synced first as one pending record, then applied, then the record is removed;
//! whoever takes the lock next finishes a pending record before anything else. Never decides which change is allowed.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::fault;
use crate::fs::{self, Change, FileError, JsonError, Order};
use crate::ids::{StageId, TaskId};
use crate::lock::{Lock, LockError};
use crate::plan::Plan;
use crate::project::Project;

use super::batch;
use super::convert;
use super::ready::Board;
use super::row::{Row, SCHEMA};
use super::rules;

pub use super::batch::{Batch, row_path};

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

/// What the pending record holds.
#[derive(Debug, Serialize, Deserialize)]
struct Pending {
    schema: u32,
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

    /// One row, without the lock: a pending record is overlaid in memory.
    pub fn read_row(&self, stage: &StageId, task: &TaskId) -> Result<Row> {
        let relative = row_path(stage, task);
        if let Some(text) = self.pending()?.and_then(|mut pending| pending.batch.files.remove(&relative)) {
            let path = self.project.row(stage, task);
            return text.map_or(Ok(Row::default()), |text| parse_row(&path, text.as_bytes()));
        }
        self.row_on_disk(stage, task)
    }

    fn row_on_disk(&self, stage: &StageId, task: &TaskId) -> Result<Row> {
        let path = self.project.row(stage, task);
        if let Some(bytes) = fs::read_if_present(&path)? {
            return parse_row(&path, &bytes);
        }
        if self.is_original()? {
            let path = self.project.state_marker();
            return Ok(convert::read(&path, &fs::read(&path)?)?.rows.remove(task).unwrap_or_default());
        }
        Ok(Row::default())
    }

    /// Takes the state lock, waiting at most `patience`, and finishes a pending record.
    pub fn lock(&self, patience: Duration) -> Result<LockedStore<'_>> {
        let path = self.lock_path();
        let lock = match Lock::take_within(&path, patience) {
            Err(LockError::Held { .. }) => return Err(StoreError::Busy { patience }),
            other => other?,
        };
        let mut locked = LockedStore { store: self, _lock: lock, has_finished: false };
        if let Some(pending) = self.pending()? {
            locked.finish(&pending.batch)?;
            locked.has_finished = true;
        }
        Ok(locked)
    }

    /// What the state lock is on: the folder of git's objects, which no session can do without, else `planning/`.
    pub fn lock_path(&self) -> PathBuf {
        match self.project.git() {
            Some(git) => git.common.join("objects"),
            None => self.project.root().join("planning"),
        }
    }

    fn pending_path(&self) -> PathBuf {
        self.project.private_own().join("pending.json")
    }

    fn pending(&self) -> Result<Option<Pending>> {
        let path = self.pending_path();
        let Some(bytes) = fs::read_if_present(&path)? else { return Ok(None) };
        let marker: Marker = fs::parse_json(&path, &bytes)?;
        check_schema(&path, marker.schema)?;
        let pending: Pending = fs::parse_json(&path, &bytes)?;
        let stray = pending.batch.files.keys().filter(|file| !batch::is_allowed(file));
        let faults: Vec<_> = stray.map(|file| format!("{} writes {file}", path.display())).collect();
        if faults.is_empty() { Ok(Some(pending)) } else { Err(StoreError::Inconsistent { faults }) }
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
            return convert::read(&path, &fs::read(&path)?)?.board(plan, &path);
        }
        let mut loading = Loading { plan, rows: BTreeMap::new(), faults: Vec::new() };
        let stages = fs::list(&self.project.root().join("state/tasks"))?.unwrap_or_default();
        for folder in stages.iter().filter_map(|stage| fs::list(stage).transpose()) {
            for path in folder?.into_iter().filter(|path| is_row_file(path)) {
                if let Some(bytes) = fs::read_if_present(&path)? {
                    loading.add(&path, &bytes)?;
                }
            }
        }
        let overlay = pending.into_iter().flat_map(|pending| &pending.batch.files);
        for (path, text) in overlay.filter(|(path, _)| path.starts_with("state/tasks/")) {
            let path = self.project.root().join(path);
            // A card made by the same record may not be on disk yet, so a row without a card is no fault here.
            match (plan_task(plan, &path), text) {
                (Ok(task), Some(text)) => drop(loading.rows.insert(task, parse_row(&path, text.as_bytes())?)),
                (Ok(task), None) => drop(loading.rows.remove(&task)),
                (Err(_), _) => {}
            }
        }
        let Loading { rows, faults, .. } = loading;
        if faults.is_empty() { Ok(Board::new(rows)) } else { Err(StoreError::Inconsistent { faults }) }
    }
}

/// Rows on their way onto a board, with every fault found so far.
struct Loading<'p> {
    plan: &'p Plan,
    rows: BTreeMap<TaskId, Row>,
    faults: Vec<String>,
}

impl Loading<'_> {
    fn add(&mut self, path: &Path, bytes: &[u8]) -> Result<()> {
        let task = plan_task(self.plan, path);
        match (parse_row(path, bytes), task) {
            (Ok(row), Ok(task)) => {
                self.faults.extend(rules::faults(&row).iter().map(|fault| format!("{}: {fault}", path.display())));
                self.rows.insert(task, row);
            }
            (Ok(_), Err(fault)) => self.faults.push(fault),
            (Err(StoreError::Json(fault)), _) => self.faults.push(fault.to_string()),
            (Err(error), _) => return Err(error),
        }
        Ok(())
    }
}

/// The state with its lock held.
#[derive(Debug)]
#[must_use = "the lock is free again as soon as this is dropped"]
pub struct LockedStore<'a> {
    store: &'a Store,
    _lock: Lock,
    has_finished: bool,
}

impl LockedStore<'_> {
    /// All rows of the plan.
    pub fn read(&self, plan: &Plan) -> Result<Board> {
        self.store.load(plan, None)
    }

    /// One row.
    pub fn read_row(&self, stage: &StageId, task: &TaskId) -> Result<Row> {
        self.store.row_on_disk(stage, task)
    }

    /// Whether a change that a killed process had begun was finished when the lock was taken.
    pub fn has_finished(&self) -> bool {
        self.has_finished
    }

    /// Whether [`LockedStore::convert`] has to come before any write.
    pub fn needs_conversion(&self) -> Result<bool> {
        self.store.is_original()
    }

    /// Writes the schema marker of a state that has none yet; says whether that was so.
    pub fn mark(&self) -> Result<bool> {
        let is_new = !self.store.project.state_marker().exists();
        if is_new {
            self.write(&Batch::default().text("state/state.json", &marker_text()))?;
        }
        Ok(is_new)
    }

    /// Converts the original's single file into one file per task, all or nothing.
    pub fn convert(&self, plan: &Plan) -> Result<()> {
        let path = self.store.project.state_marker();
        let original = convert::read(&path, &fs::read(&path)?)?;
        let mut batch = Batch::default().text("state/state.json", &marker_text());
        if let Some(text) = original.rest() {
            batch = batch.text("state/original.json", &text);
        }
        for (task, row) in original.board(plan, &path)?.rows() {
            if let Some(card) = plan.task(task).filter(|_| *row != Row::default()) {
                batch = batch.row(&card.stage, task, row);
            }
        }
        self.write(&batch)
    }

    /// Writes all files of the batch, or, after a crash, lets the next holder of the lock do so.
    pub fn write(&self, batch: &Batch) -> Result<()> {
        self.write_with(batch, (&[], &[]), Order::InTurn)
    }

    /// As [`LockedStore::write`], with other files `before` and `after` it that wait for the disk together with it.
    pub fn write_with(&self, batch: &Batch, (before, after): (&[Change], &[Change]), order: Order) -> Result<()> {
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
        self.expect_nothing_newer(batch)?;
        if batch.files.len() > 1 || batch.request.is_some() {
            fs::change(before, Order::InTurn)?;
            let pending = Pending { schema: SCHEMA, batch: batch.clone() };
            let text = serde_json::to_string(&pending)
                .map_err(|source| JsonError::Syntax { path: self.store.pending_path(), source })?;
            fs::replace(&self.store.pending_path(), text.as_bytes())?;
            fault::point("state:pending");
            self.finish(batch)?;
            return Ok(fs::change(after, Order::InTurn)?);
        }
        let own = self.changes(batch)?;
        Ok(fs::change(&[before, &own, after].concat(), order)?)
    }

    /// What is left to do of a batch; what stands in the way of a file is moved aside.
    fn changes(&self, batch: &Batch) -> Result<Vec<Change>> {
        let mut changes = Vec::new();
        for (path, text) in &batch.files {
            let path = self.store.project.root().join(path);
            match text {
                None => changes.push(Change::Remove(path)),
                Some(text)
                    if fs::read_if_present(&path).is_ok_and(|known| known.as_deref() == Some(text.as_bytes())) => {}
                Some(text) => {
                    if path.is_dir() {
                        fs::make_way(&path, &self.store.project.private_own().join("displaced"))?;
                    }
                    changes.push(Change::replace(path, text.clone().into_bytes()));
                }
            }
        }
        Ok(changes)
    }

    /// A row of a newer version is never written over; one that cannot be read at all may be put right.
    fn expect_nothing_newer(&self, batch: &Batch) -> Result<()> {
        for path in batch.files.keys().filter(|path| path.starts_with("state/tasks/")) {
            let path = self.store.project.root().join(path);
            let bytes = fs::read_if_present(&path)?.unwrap_or_default();
            if let Ok(marker) = fs::parse_json::<Marker>(&path, &bytes) {
                check_schema(&path, marker.schema)?;
            }
        }
        Ok(())
    }

    fn finish(&self, batch: &Batch) -> Result<()> {
        let mut changes = self.changes(batch)?;
        changes.extend(batch.request.clone().map(Change::Remove));
        changes.push(Change::Remove(self.store.pending_path()));
        Ok(fs::change(&changes, Order::InTurn)?)
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

#[cfg(test)]
mod tests;
