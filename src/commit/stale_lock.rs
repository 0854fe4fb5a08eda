//! Git's lock files that a killed coordinator or a session's killed git left: told apart from those of other git commands, and
//! removed.
//!
//! Owns the proof. A lock file says nothing about who made it, so all of these must hold: a commit of ours or a session was
//! under way, the file is no older than the record of that, nobody has it open, and no git command works in this tree. The
//! caller holds the run lock, so no other coordinator is at work.

use std::fs::Metadata;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use super::CommitError;
use super::check::look_at_lock;
use super::git::Repository;
use crate::fs;

impl Repository {
    /// Removes the lock files on index and branch that the commit or the session recorded at `record` left when it was killed.
    pub fn clear_own_locks(&self, record: &Path) -> Result<Vec<PathBuf>, CommitError> {
        let Ok(record) = record.symlink_metadata() else { return Ok(Vec::new()) };
        let branch = self.branch()?;
        let candidates = [self.git.path().join("index.lock"), self.git.commondir().join(format!("{branch}.lock"))];
        let mut cleared = Vec::new();
        for path in candidates {
            if is_made_since(&path, &record)
                && look_at_lock(&path, None).is_some_and(|lock| lock.holders.is_empty())
                && !self.has_git_at_work()
            {
                fs::remove(&path)?;
                cleared.push(path);
            }
        }
        Ok(cleared)
    }

    /// Whether a process named `git` has its working folder in this tree (`proc_pid_cwd(5)`).
    fn has_git_at_work(&self) -> bool {
        let processes = fs::list(Path::new("/proc")).ok().flatten().unwrap_or_default();
        processes.iter().any(|process| {
            fs::read(&process.join("comm")).is_ok_and(|name| name.trim_ascii() == b"git")
                && process.join("cwd").read_link().is_ok_and(|folder| folder.starts_with(&self.root))
        })
    }
}

/// Whether the file at `path` was written after the record had got its name.
fn is_made_since(path: &Path, record: &Metadata) -> bool {
    path.symlink_metadata()
        .is_ok_and(|lock| lock.is_file() && (lock.mtime(), lock.mtime_nsec()) >= (record.ctime(), record.ctime_nsec()))
}
