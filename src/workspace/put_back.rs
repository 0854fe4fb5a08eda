//! Puts guarded files back as they were. What a session had made of them is kept first; nothing is discarded.
//!
//! Never writes through a link: before a file is restored every folder on its way is looked at.

use std::collections::BTreeSet;
use std::error::Error;
use std::ffi::OsStr;
use std::fmt;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::change::ChangeKind;
use super::guard::{Area, Entry, Guard, Guarded, GuardedPath, Held, Tampering};
use crate::fs;

/// What became of one guarded file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Kept {
    /// The file.
    pub path: GuardedPath,
    /// Where the session's version of it lies now, if there was one with a content of its own.
    pub copy: Option<PathBuf>,
    /// Why it is not as it was before the session, and what to do; `None` if it is.
    pub failure: Option<String>,
}

impl fmt::Display for Kept {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.path)?;
        if let Some(copy) = &self.copy {
            write!(f, " → {}", copy.display())?;
        }
        match &self.failure {
            Some(failure) => write!(f, " (not put back: {failure})"),
            None => Ok(()),
        }
    }
}

/// A step of putting a file back that failed.
#[derive(Debug, thiserror::Error)]
enum PutBackError {
    #[error("it was never held, being too large or unreadable; restore {} by hand", .0.display())]
    NotHeld(PathBuf),
    #[error("{} is in the way and no folder; take it away and restore {} by hand", .in_the_way.display(), .path.display())]
    Blocked { in_the_way: PathBuf, path: PathBuf },
    #[error("cannot {action} {}; do it by hand", path.display())]
    System { action: &'static str, path: PathBuf, source: io::Error },
    #[error(transparent)]
    File(#[from] fs::FileError),
}

impl Guard {
    /// Puts back the tampered files as they were at `before`; first the session's versions are kept below the folder `keep`.
    ///
    /// Goes on after a failure: each file says for itself whether it is as it was.
    pub fn put_back(&self, before: &Guarded, tampering: &[Tampering], keep: &Path) -> Vec<Kept> {
        // What is in the way of another file goes first: a link where a folder was, a folder where a file was.
        let mut kept: Vec<Kept> = tampering.iter().map(|tampering| self.clear(before, tampering, keep)).collect();
        for (kept, tampering) in kept.iter_mut().zip(tampering).filter(|(kept, _)| kept.failure.is_none()) {
            let (Some(entry), Some(base)) = (before.entry(&kept.path), self.base(kept.path.area)) else { continue };
            if let Err(e) = restore(base, entry, tampering.kind) {
                kept.failure = Some(with_causes(&e));
            }
        }
        kept
    }

    /// Keeps the session's version, and takes away what had no place there before.
    fn clear(&self, before: &Guarded, tampering: &Tampering, keep: &Path) -> Kept {
        let path = tampering.path.clone();
        let mut kept = Kept { path, copy: None, failure: None };
        let Some(base) = self.base(kept.path.area) else { return kept };
        let at = kept.path.path.under(base);
        let has_version = !matches!(tampering.kind, ChangeKind::Deleted | ChangeKind::ModeChanged);
        if !has_version || at.symlink_metadata().is_err() {
            return kept;
        }
        let outcome = set_aside(&at, &kept.path, keep).map(|copy| kept.copy = Some(copy));
        // A file that is still a file is replaced in one step later, and is never missing in between.
        let goes = tampering.kind != ChangeKind::Modified;
        let outcome = outcome.and_then(|()| {
            if goes && at.symlink_metadata().is_ok() {
                fs::remove(&at)?;
            }
            Ok(())
        });
        if let Err(e) = outcome {
            kept.failure = Some(with_causes(&e));
        } else if goes {
            remove_new_folders(base, &kept.path, &before.folders);
        }
        kept
    }
}

/// The error and what caused it, in one line.
fn with_causes(error: &dyn Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        text = format!("{text}: {error}");
        cause = error.source();
    }
    text
}

/// Keeps what lies at `at` under a name of its own in `keep`: a second name for the same file where the file system can,
/// otherwise a copy. A folder that could not be looked into is moved.
fn set_aside(at: &Path, path: &GuardedPath, keep: &Path) -> Result<PathBuf, PutBackError> {
    let area = match path.area {
        Area::Root => "root",
        Area::GitOwn => "git",
        Area::GitCommon => "git-common",
    };
    let wanted = path.path.under(&keep.join(area));
    fs::make_folder(wanted.parent().unwrap_or(keep))?;
    let mut copy = wanted.clone();
    let mut number = 1;
    while copy.symlink_metadata().is_ok() {
        number += 1;
        let mut name = wanted.as_os_str().to_owned();
        name.push(format!(".{number}"));
        copy = name.into();
    }
    let fail = |source| PutBackError::System { action: "keep", path: at.to_owned(), source };
    let kind = at.symlink_metadata().map_err(fail)?.file_type();
    if kind.is_dir() {
        std::fs::set_permissions(at, std::fs::Permissions::from_mode(0o700)).map_err(fail)?;
        rustix::fs::rename(at, &copy).map_err(|e| fail(e.into()))?;
        return Ok(copy);
    }
    let linked = std::fs::hard_link(at, &copy);
    match linked {
        Ok(()) => {}
        Err(_) if kind.is_symlink() => {
            let target = std::fs::read_link(at).map_err(fail)?;
            symlink(target, &copy).map_err(fail)?;
        }
        Err(_) if kind.is_file() => {
            std::fs::copy(at, &copy).map_err(fail)?;
            fs::open_to_read(&copy)?.sync_all().map_err(fail)?;
        }
        Err(e) => return Err(fail(e)),
    }
    Ok(copy)
}

/// Removes the folders above `path` that are empty now and were not there before.
fn remove_new_folders(base: &Path, path: &GuardedPath, before: &BTreeSet<GuardedPath>) {
    let mut folder = path.path.as_path().parent();
    while let Some(here) = folder.filter(|here| !here.as_os_str().is_empty()) {
        let guarded = GuardedPath { area: path.area, path: here.into() };
        if before.contains(&guarded) || std::fs::remove_dir(base.join(here)).is_err() {
            return;
        }
        folder = here.parent();
    }
}

/// Makes the file what it was.
fn restore(base: &Path, entry: &Entry, kind: ChangeKind) -> Result<(), PutBackError> {
    let at = entry.path.path.under(base);
    let fail = |source| PutBackError::System { action: "restore", path: at.clone(), source };
    check_way(base, &entry.path, &at)?;
    match &entry.held {
        _ if kind == ChangeKind::ModeChanged => {}
        Held::Content(content) => fs::replace_with_mode(&at, content, entry.stamp.mode & 0o777)?,
        Held::Link(target) => {
            fs::make_folder(at.parent().unwrap_or(base))?;
            fs::remove(&at)?;
            symlink(OsStr::from_bytes(target), &at).map_err(fail)?;
        }
        Held::Digest(_) | Held::Opaque => return Err(PutBackError::NotHeld(at)),
    }
    if let Some(mode) = entry.permissions() {
        std::fs::set_permissions(&at, std::fs::Permissions::from_mode(mode)).map_err(fail)?;
    }
    Ok(())
}

/// Refuses a way on which something is no folder: the file would be written somewhere else.
fn check_way(base: &Path, path: &GuardedPath, at: &Path) -> Result<(), PutBackError> {
    let folders = path.path.as_path().ancestors().skip(1).filter(|folder| !folder.as_os_str().is_empty());
    for folder in folders {
        let folder = base.join(folder);
        if folder.symlink_metadata().is_ok_and(|meta| !meta.is_dir()) {
            return Err(PutBackError::Blocked { in_the_way: folder, path: at.to_owned() });
        }
    }
    Ok(())
}
