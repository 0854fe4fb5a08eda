//! Changes that survive a power failure: one file, or several whose waits for the disk are shared.
//!
//! A file is replaced atomically: temporary file in the same folder, sync, rename, sync of the folder (`fsync(2)`: "calling
//! `fsync()` does not necessarily ensure that the entry in the directory containing the file has also reached disk").

use std::fs::File;
use std::io::{self, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use super::{FileError, Result, folder_of, make_folder, open_folder_up};

/// How the name of a file begins that is to replace another; six letters and digits and [`TEMPORARY_END`] follow.
pub(super) const TEMPORARY_START: &str = ".runner-";

/// How the name of a file ends that is to replace another.
pub(super) const TEMPORARY_END: &str = ".tmp";

/// A change of one file.
#[derive(Debug, Clone)]
pub enum Change {
    /// The file gets this content and, less the umask, this mode. Missing parents are made.
    Replace {
        /// The file.
        path: PathBuf,
        /// All of its content.
        content: Vec<u8>,
        /// Permission bits.
        mode: u32,
    },
    /// The file goes, if it is there; if it went before without a sync, that is on disk now too.
    Remove(PathBuf),
    /// The file, if it is there, has reached the disk as it is before anything is changed.
    Sync(PathBuf),
}

/// When each of several changes is on disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Order {
    /// All of them when the call returns. A kill leaves the first so many; a power failure may leave any of them.
    Together,
    /// Each before the next is begun.
    InTurn,
}

impl Change {
    /// A file that anybody may read (mode 0644 less the umask).
    pub fn replace(path: PathBuf, content: Vec<u8>) -> Self {
        Self::Replace { path, content, mode: 0o644 }
    }

    /// A file that only the user may read (mode 0600).
    pub fn replace_private(path: PathBuf, content: Vec<u8>) -> Self {
        Self::Replace { path, content, mode: 0o600 }
    }

    /// Brings to the disk what has to be there before the first file changes.
    fn stage(&self) -> Result<Option<Staged>> {
        match self {
            Self::Replace { path, content, mode } => {
                let staged = Staged::write(path, content, *mode)?;
                staged.sync()?;
                Ok(Some(staged))
            }
            Self::Sync(path) => match super::open_to_read(path) {
                Ok(file) => file.sync_all().map(|()| None).map_err(|e| FileError::new("sync", path, e)),
                Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(None),
                Err(e) => Err(e),
            },
            Self::Remove(_) => Ok(None),
        }
    }

    /// The file.
    pub fn path(&self) -> &Path {
        match self {
            Self::Replace { path, .. } | Self::Remove(path) | Self::Sync(path) => path,
        }
    }
}

/// Replaces the file at `path` atomically and durably: missing parents are made, mode 0644 less the umask.
pub fn replace(path: &Path, content: &[u8]) -> Result<()> {
    replace_with_mode(path, content, 0o644)
}

/// As [`replace`], readable by the user only (mode 0600).
pub fn replace_private(path: &Path, content: &[u8]) -> Result<()> {
    replace_with_mode(path, content, 0o600)
}

/// As [`replace`], with the given mode less the umask.
pub fn replace_with_mode(path: &Path, content: &[u8], mode: u32) -> Result<()> {
    let staged = Staged::write(path, content, mode)?;
    staged.sync()?;
    staged.put()?;
    sync_folder(folder_of(path))
}

/// Replaces the file at `path` atomically, with the given mode less the umask; after a power failure it may
/// be the old one, empty or missing. For what can be made again, or tells only of a process that such a failure ends too.
pub fn replace_unsynced(path: &Path, content: &[u8], mode: u32) -> Result<()> {
    Staged::write(path, content, mode)?.put()
}

/// Removes a file if it is there; after a power failure it may be back.
pub fn remove_unsynced(path: &Path) -> Result<()> {
    unlink(path).map(drop)
}

/// Removes a file if it is there, and syncs its folder.
pub fn remove(path: &Path) -> Result<()> {
    if unlink(path)? { sync_folder(folder_of(path)) } else { Ok(()) }
}

/// Makes several changes. New contents are on disk before the first file gets its own; nothing is changed if one cannot be
/// written.
pub fn change(changes: &[Change], order: Order) -> Result<()> {
    let with_content: Vec<&Change> = changes.iter().filter(|change| !matches!(change, Change::Remove(_))).collect();
    let mut staged = at_once(&with_content, |change| change.stage())?.into_iter().flatten();
    let mut folders: Vec<&Path> = Vec::new();
    for change in changes {
        let folder = folder_of(change.path());
        match change {
            Change::Replace { .. } => staged.next().map_or(Ok(()), Staged::put)?,
            Change::Remove(path) if unlink(path)? || folder.is_dir() => {}
            Change::Remove(_) | Change::Sync(_) => continue,
        }
        if order == Order::InTurn {
            sync_folder(folder)?;
        } else if !folders.contains(&folder) {
            folders.push(folder);
        }
    }
    at_once(&folders, |folder| sync_folder(folder)).map(drop)
}

/// How many syncs wait at the same time: they share one journal commit and one flush of the disk, which each of several, one
/// after the other, has for its own.
const SYNCS_AT_ONCE: usize = 16;

/// Does the work on all of the items, some of them at the same time; the results have their order, an error is one of those met.
pub fn at_once<T: Sync, R: Send, E: Send>(
    items: &[T],
    work: impl Fn(&T) -> std::result::Result<R, E> + Sync,
) -> std::result::Result<Vec<R>, E> {
    let share = items.len().div_ceil(SYNCS_AT_ONCE).max(1);
    let all = |part: &[T]| part.iter().map(&work).collect::<std::result::Result<Vec<R>, E>>();
    let mut parts = items.chunks(share);
    let Some(first) = parts.next() else { return Ok(Vec::new()) };
    std::thread::scope(|scope| {
        // A machine that is out of threads only makes it slower.
        let helped = |part| std::thread::Builder::new().spawn_scoped(scope, move || all(part)).map_err(|_| part);
        let others: Vec<_> = parts.map(helped).collect();
        let mut done = vec![all(first)];
        done.extend(others.into_iter().map(|other| match other {
            Ok(thread) => thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)),
            Err(part) => all(part),
        }));
        let done: std::result::Result<Vec<_>, E> = done.into_iter().collect();
        done.map(|parts| parts.into_iter().flatten().collect())
    })
}

/// New content beside the file it is for.
#[derive(Debug)]
struct Staged {
    temporary: tempfile::NamedTempFile,
    path: PathBuf,
}

impl Staged {
    /// Writes a temporary file into the folder of `path`, which is made if missing.
    fn write(path: &Path, content: &[u8], mode: u32) -> Result<Self> {
        let fail = |e| FileError::new("write", path, e);
        let folder = folder_of(path);
        make_durable_folder(folder)?;
        let mut builder = tempfile::Builder::new();
        let permissions = std::fs::Permissions::from_mode(mode);
        builder.prefix(TEMPORARY_START).suffix(TEMPORARY_END).permissions(permissions);
        let mut temporary = match builder.tempfile_in(folder) {
            // A session can have closed the folder to its own user.
            Err(e) if e.kind() == io::ErrorKind::PermissionDenied => {
                open_folder_up(folder);
                builder.tempfile_in(folder).map_err(fail)?
            }
            other => other.map_err(fail)?,
        };
        temporary.write_all(content).map_err(fail)?;
        crate::fault::point("replace:written");
        Ok(Self { temporary, path: path.to_owned() })
    }

    fn sync(&self) -> Result<()> {
        self.temporary.as_file().sync_all().map_err(|e| FileError::new("write", &self.path, e))
    }

    /// Gives the file its content.
    fn put(self) -> Result<()> {
        self.temporary.persist(&self.path).map_err(|e| FileError::new("write", &self.path, e.error))?;
        crate::fault::point("replace:renamed");
        Ok(())
    }
}

/// Removes a file; false if there is none.
fn unlink(path: &Path) -> Result<bool> {
    match std::fs::remove_file(path) {
        Ok(()) => {
            crate::fault::point("remove:unlinked");
            Ok(true)
        }
        Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(false),
        Err(e) => Err(FileError::new("remove", path, e)),
    }
}

/// As [`make_folder`], and the new names are on disk when this returns.
fn make_durable_folder(path: &Path) -> Result<()> {
    if path.is_dir() {
        return Ok(());
    }
    let above = folder_of(path);
    make_durable_folder(above)?;
    make_folder(path)?;
    sync_folder(above)
}

/// Makes renames and removals in `folder` durable.
pub(super) fn sync_folder(folder: &Path) -> Result<()> {
    File::open(folder).and_then(|file| file.sync_all()).map_err(|e| FileError::new("sync the folder", folder, e))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_changed_if_one_of_several_cannot_be_written() {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name);
        replace(&path("kept"), b"old").unwrap();
        let changes = [
            Change::replace(path("kept"), b"new".to_vec()),
            Change::replace(path("kept/below-a-file"), b"new".to_vec()),
        ];
        change(&changes, Order::Together).unwrap_err();
        assert_eq!(super::super::read(&path("kept")).unwrap(), b"old");
        assert_eq!(super::super::list(folder.path()).unwrap().unwrap(), [path("kept")], "no temporary file is left");
    }

    #[test]
    fn work_done_at_once_keeps_its_order_and_its_errors() {
        let items: Vec<usize> = (0..100).collect();
        let doubled: Vec<usize> = items.iter().map(|item| 2 * item).collect();
        assert_eq!(at_once(&items, |item| Ok::<_, ()>(2 * item)), Ok(doubled));
        assert_eq!(at_once(&items, |item| if *item == 73 { Err(*item) } else { Ok(()) }), Err(73));
        assert_eq!(at_once(&items[..0], |item| Err::<(), _>(*item)), Ok(Vec::new()));
    }

    #[test]
    fn a_file_that_is_only_to_reach_the_disk_may_be_missing_and_stays_as_it_is() {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name);
        replace_unsynced(&path("there"), b"written by others", 0o644).unwrap();
        let changes = [Change::Sync(path("there")), Change::Sync(path("never-there")), Change::Remove(path("gone"))];
        change(&changes, Order::InTurn).unwrap();
        assert_eq!(super::super::read(&path("there")).unwrap(), b"written by others");
        assert_eq!(super::super::list(folder.path()).unwrap().unwrap(), [path("there")]);
    }

    #[test]
    fn several_changes_are_made_in_their_order() {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name);
        for order in [Order::Together, Order::InTurn] {
            let changes = [
                Change::replace(path("file"), b"first".to_vec()),
                Change::replace_private(path("new/file"), b"private".to_vec()),
                Change::Remove(path("file")),
                Change::Remove(path("never-there")),
            ];
            change(&changes, order).unwrap();
            assert!(!path("file").exists());
            let mode = path("new/file").metadata().unwrap().permissions().mode();
            assert_eq!(mode & 0o777, 0o600);
        }
    }
}
