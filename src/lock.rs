//! Kernel locks on open files: gone with their process, whatever ends it (`flock(2)`).
//!
//! Owns taking and waiting. Never decides what a lock protects.

use std::fs::{File, TryLockError};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::mpsc;
use std::time::Duration;

use crate::fs::{self, FileError};

/// A lock that could not be taken.
#[derive(Debug, thiserror::Error)]
pub enum LockError {
    /// Another process holds it.
    #[error("{} is held by another process", path.display())]
    Held {
        /// The locked file.
        path: PathBuf,
    },
    /// The lock file could not be opened.
    #[error(transparent)]
    File(#[from] FileError),
    /// The kernel refused.
    #[error("cannot lock {}", path.display())]
    Kernel {
        /// The file to lock.
        path: PathBuf,
        /// What the kernel said.
        source: std::io::Error,
    },
}

/// A held exclusive lock; dropping it, or the end of the process, frees it.
#[derive(Debug)]
#[must_use = "the lock is free again as soon as this is dropped"]
pub struct Lock {
    _file: File,
}

impl Lock {
    /// Takes the lock on `path` (a file, made if missing, or a folder) without waiting.
    pub fn try_take(path: &Path) -> Result<Self, LockError> {
        loop {
            let file = fs::open_for_lock(path)?;
            match file.try_lock() {
                Ok(()) if is_still_at(&file, path) => return Ok(Self { _file: file }),
                // Somebody replaced the file between open and lock: the lock on the old one protects nothing.
                Ok(()) => {}
                Err(TryLockError::WouldBlock) => return Err(LockError::Held { path: path.to_owned() }),
                Err(TryLockError::Error(source)) => return Err(LockError::Kernel { path: path.to_owned(), source }),
            }
        }
    }

    /// Takes the lock on `path`, waiting at most `patience` for another holder.
    pub fn take_within(path: &Path, patience: Duration) -> Result<Self, LockError> {
        match Self::try_take(path) {
            Err(LockError::Held { .. }) => {}
            other => return other,
        }
        let (sender, receiver) = mpsc::sync_channel(1);
        let file = fs::open_for_lock(path)?;
        // flock(2) has no time limit, so a thread waits in the kernel; if nobody listens any more, what it gets is dropped.
        let waits = move || {
            let outcome = file.lock().map(|()| file);
            drop(sender.send(outcome));
        };
        // A session may have used up what processes and threads this user can have.
        let started = std::thread::Builder::new().spawn(waits);
        started.map_err(|source| LockError::Kernel { path: path.to_owned(), source })?;
        match receiver.recv_timeout(patience) {
            Ok(Ok(file)) if is_still_at(&file, path) => Ok(Self { _file: file }),
            Ok(Ok(_replaced)) => Self::try_take(path),
            Ok(Err(source)) => Err(LockError::Kernel { path: path.to_owned(), source }),
            Err(_) => Err(LockError::Held { path: path.to_owned() }),
        }
    }
}

/// Whether the open file is the one that now lies at `path`.
fn is_still_at(file: &File, path: &Path) -> bool {
    match (file.metadata(), path.metadata()) {
        (Ok(open), Ok(there)) => (open.dev(), open.ino()) == (there.dev(), there.ino()),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_second_taker_is_told_and_a_dropped_lock_is_free() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("deep/run.lock");
        let first = Lock::try_take(&path).unwrap();
        assert!(matches!(Lock::try_take(&path), Err(LockError::Held { .. })));
        assert!(matches!(Lock::take_within(&path, Duration::from_millis(1)), Err(LockError::Held { .. })));
        drop(first);
        // The waiter that gave up above still gets the lock for a moment, and lets go of it at once.
        let _again = Lock::take_within(&path, Duration::from_mins(1)).unwrap();
    }

    #[test]
    fn a_waiter_gets_the_lock_when_its_holder_lets_go() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("state.lock");
        let first = Lock::try_take(&path).unwrap();
        std::thread::scope(|scope| {
            let waiter = scope.spawn(|| Lock::take_within(&path, Duration::from_mins(1)).is_ok());
            drop(first);
            assert!(waiter.join().unwrap());
        });
    }

    #[test]
    fn a_folder_can_be_locked() {
        let folder = tempfile::tempdir().unwrap();
        let _held = Lock::try_take(folder.path()).unwrap();
        assert!(matches!(Lock::try_take(folder.path()), Err(LockError::Held { .. })));
    }
}
