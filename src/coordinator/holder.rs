//! The run lock, and `.runner.lock` that tells people who holds it.
//!
//! The kernel holds the lock, in a place that a session cannot sweep away; the file is information only.

use std::path::PathBuf;
use std::time::Duration;

use serde_json::{Value, json};

use crate::clock::Clock;
use crate::fs;
use crate::ids::AgentId;
use crate::lock::{Lock, LockError};
use crate::project::Project;
use crate::session::{ProcessIdentity, is_ancestor};

use super::failure::Failure;
use super::memo::Memo;
use super::verify;

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
    let lock = match Lock::take_within(&lock_path(project), PATIENCE) {
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

/// Keeps runs away while a person's change is made; the error says who is in the way: a coordinator that runs, by what it
/// wrote about itself, or a killed run that has to be put in order first.
pub fn keep_away(project: &Project) -> Result<Result<Lock, Value>, Failure> {
    match Lock::try_take(&lock_path(project)) {
        Ok(lock) => match interrupted(project)? {
            None => Ok(Ok(lock)),
            Some(agent) => Ok(Err(json!({ "pid": null, "interrupted": agent }))),
        },
        Err(LockError::Held { .. }) => Ok(Err(holder(project))),
        Err(error) => Err(error.into()),
    }
}

/// Whose session a killed run left, or was about to begin.
fn interrupted(project: &Project) -> Result<Option<AgentId>, Failure> {
    let memo = Memo::read(project)?;
    memo.map_or_else(|| verify::interrupted(project), |memo| Ok(Some(memo.agent)))
}

/// Whether the coordinator that wrote this about itself is an ancestor of this process: then this is one of its sessions,
/// whatever became of the environment.
pub fn is_above_us(about: &Value) -> bool {
    let number = |key: &str| about.get(key).and_then(Value::as_u64);
    let pid = number("pid").and_then(|pid| u32::try_from(pid).ok());
    pid.zip(number("start_time")).is_some_and(|(pid, start)| is_ancestor(pid, start))
}

fn holder(project: &Project) -> Value {
    let text = fs::read_if_present(&project.holder_file()).ok().flatten().unwrap_or_default();
    serde_json::from_slice(&text).unwrap_or_else(|_| json!({ "pid": null }))
}

/// What the run lock is on: the git folder that all work trees share, which no session can do without, else the root itself.
fn lock_path(project: &Project) -> PathBuf {
    project.git().map_or_else(|| project.root().to_owned(), |git| git.common.clone())
}

impl Drop for RunLock {
    fn drop(&mut self) {
        // The file is information only: if it cannot be removed, the next holder replaces it.
        drop(fs::remove(&self.file));
    }
}
