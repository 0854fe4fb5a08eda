//! The run lock, and `.runner.lock` that tells people who holds it.
//!
//! The kernel holds the lock, in a place that a session cannot sweep away; the file is information only.

use std::path::PathBuf;
use std::time::Duration;

use serde_json::{Value, json};

use crate::clock::Clock;
use crate::fs;
use crate::lock::{Lock, LockError};
use crate::project::Project;
use crate::session::ProcessIdentity;

use super::failure::Failure;

/// The held run lock; the information file goes when it is dropped.
#[derive(Debug)]
#[must_use = "the run lock is free again as soon as this is dropped"]
pub struct RunLock {
    _lock: Lock,
    file: PathBuf,
}

/// What trying to take the run lock came to.
#[derive(Debug)]
pub enum Taken {
    /// It is ours.
    Ours(RunLock),
    /// Somebody else holds it; what they wrote about themselves.
    Theirs(Value),
}

/// How long a start waits for the run lock: a person's verb holds it for the moment that its change takes.
const PATIENCE: Duration = Duration::from_millis(500);

/// Takes the run lock and writes who holds it.
pub fn take(project: &Project, identity: &ProcessIdentity, clock: Clock) -> Result<Taken, Failure> {
    let file = project.holder_file();
    if file.is_dir() {
        return Err(Failure::ForeignLock);
    }
    let lock = match Lock::take_within(&lock_path(project)?, PATIENCE) {
        Ok(lock) => lock,
        Err(LockError::Held { .. }) => return Ok(Taken::Theirs(holder(project))),
        Err(error) => return Err(error.into()),
    };
    let about = json!({
        "pid": identity.pid, "start_time": identity.start_time, "host": identity.host, "since": clock.stamp(),
    });
    fs::replace(&file, format!("{about}\n").as_bytes())?;
    Ok(Taken::Ours(RunLock { _lock: lock, file }))
}

/// Keeps runs away while a person's change is made; the error is what a coordinator that runs wrote about itself.
pub fn keep_away(project: &Project) -> Result<Result<Lock, Value>, Failure> {
    match Lock::try_take(&lock_path(project)?) {
        Ok(lock) => Ok(Ok(lock)),
        Err(LockError::Held { .. }) => Ok(Err(holder(project))),
        Err(error) => Err(error.into()),
    }
}

fn holder(project: &Project) -> Value {
    let text = fs::read_if_present(&project.holder_file()).ok().flatten().unwrap_or_default();
    serde_json::from_slice(&text).unwrap_or_else(|_| json!({ "pid": null }))
}

/// What the run lock is on: the git folder that all work trees share, which no session can do without, else `state/`.
fn lock_path(project: &Project) -> Result<PathBuf, Failure> {
    if let Some(git) = project.git() {
        return Ok(git.common.clone());
    }
    let state = project.root().join("state");
    fs::make_folder(&state)?;
    Ok(state)
}

impl Drop for RunLock {
    fn drop(&mut self) {
        // The file is information only: if it cannot be removed, the next holder replaces it.
        drop(fs::remove(&self.file));
    }
}
