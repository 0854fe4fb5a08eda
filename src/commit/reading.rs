//! What the repository says about files: the tracked ones, those that really differ.
//!
//! Only reads; the work tree is compared by content where git's own stat data leaves a doubt.

use std::io::ErrorKind;
use std::os::unix::fs::MetadataExt;

use git2::{Delta, IndexEntryExtendedFlag, StatusOptions, StatusShow};

use super::content::{Looker, SUBMODULE, plain_id};
use super::git::Repository;
use super::refusal::{CommitError, GitError, Refusal};
use crate::relpath::RelPath;
use crate::workspace::{IndexStat, Tracked, TrackedFiles};

/// The bits of an entry's flags that hold its stage in a merge (`gitformat-index(5)`).
const STAGE: u16 = 0x3000;

impl Repository {
    /// All tracked files as the index lists them, read again only if the index changed.
    ///
    /// A file that a sparse checkout left out is not listed unless it is there all the same.
    pub fn tracked(&mut self) -> Result<TrackedFiles, Refusal> {
        // Taken before the index is read: too old an age only makes somebody look twice.
        let index_mtime = self.index.path().and_then(|path| path.metadata().ok());
        let index_mtime = index_mtime.map(|file| (file.mtime(), u32::try_from(file.mtime_nsec()).unwrap_or(0)));
        self.refresh_index()?;
        let mut entries = Vec::with_capacity(self.index.len());
        for entry in self.index.iter().filter(|entry| entry.flags & STAGE == 0) {
            let oid = <[u8; 20]>::try_from(entry.id.as_bytes()).unwrap_or_default();
            let left_out = entry.flags_extended & IndexEntryExtendedFlag::SKIP_WORKTREE.bits() != 0;
            let stat = IndexStat {
                ctime: (entry.ctime.seconds().into(), entry.ctime.nanoseconds()),
                mtime: (entry.mtime.seconds().into(), entry.mtime.nanoseconds()),
                dev: entry.dev,
                ino: entry.ino,
                size: entry.file_size,
            };
            let path = RelPath::new(entry.path);
            if !left_out || path.under(&self.root).symlink_metadata().is_ok() {
                entries.push(Tracked { path, mode: entry.mode, oid, stat });
            }
        }
        Ok(TrackedFiles { entries, index_mtime })
    }

    /// Those of `paths` whose content or mode is not what the index has, after git's filters; also what is gone or not tracked.
    pub fn modified(&self, paths: &[RelPath]) -> Result<Vec<RelPath>, CommitError> {
        let mut looker = Looker::new(self);
        let mut modified = Vec::new();
        let mut doubtful = Vec::new();
        for path in paths {
            let entry = self.index.get_path(path.as_path(), 0);
            if entry.as_ref().is_some_and(|entry| entry.mode == SUBMODULE) {
                if self.submodule_differs(path)? {
                    modified.push(path.clone());
                }
                continue;
            }
            let found = match looker.look(path) {
                Err(CommitError::File(error)) if error.kind() != ErrorKind::PermissionDenied => {
                    return Err(error.into());
                }
                Err(_) => {
                    // What git cannot keep at all certainly differs from what it has.
                    modified.push(path.clone());
                    continue;
                }
                Ok(found) => found,
            };
            match (entry, found) {
                (None, None) => {}
                (Some(entry), Some(found)) if entry.mode == found.mode => {
                    if plain_id(&found.bytes)? != entry.id {
                        doubtful.push((path.clone(), found, entry.id));
                    }
                }
                _ => modified.push(path.clone()),
            }
        }
        let same = self.same_after_conversion(&doubtful)?;
        modified.extend(doubtful.into_iter().zip(same).filter(|(_, same)| !same).map(|((path, ..), _)| path));
        modified.sort();
        Ok(modified)
    }

    /// Whether a submodule is at another commit than the index says, or holds changes of its own.
    fn submodule_differs(&self, path: &RelPath) -> Result<bool, GitError> {
        let mut options = StatusOptions::new();
        options.show(StatusShow::Workdir).disable_pathspec_match(true).pathspec(path.as_bytes());
        let statuses = self.git.statuses(Some(&mut options)).map_err(GitError::new("look at a submodule"))?;
        Ok(!statuses.is_empty())
    }

    /// Whatever below these folders is not as in the commit that is checked out: changed, gone, staged, or new and not ignored.
    pub fn changed_in(&self, folders: &[&str]) -> Result<Vec<RelPath>, GitError> {
        let mut options = status_options();
        for folder in folders {
            options.pathspec(*folder);
        }
        let mut paths = self.unlike_head(&mut options)?.0;
        paths.retain(|path| folders.iter().any(|folder| path.is_in(folder)));
        Ok(paths)
    }

    /// The same for the whole work tree, and beside it what git ignores now; a folder of which all is ignored as one path.
    pub fn changed(&self) -> Result<(Vec<RelPath>, Vec<RelPath>), GitError> {
        self.unlike_head(status_options().include_ignored(true).recurse_ignored_dirs(false))
    }

    fn unlike_head(&self, options: &mut StatusOptions) -> Result<(Vec<RelPath>, Vec<RelPath>), GitError> {
        // Where nothing is staged, what is not as in the index is not as in the commit.
        let head = self.git.head().ok().and_then(|head| head.target());
        if head.is_some() && head == self.known_in_step() {
            options.show(StatusShow::Workdir);
        }
        let statuses = self.git.statuses(Some(options)).map_err(GitError::new("compare the work tree with HEAD"))?;
        let (mut changed, mut ignored) = (Vec::new(), Vec::new());
        for entry in statuses.iter() {
            let path = entry.path_bytes();
            let path = RelPath::new(path.strip_suffix(b"/").unwrap_or(path));
            let paths = if entry.status().is_ignored() { &mut ignored } else { &mut changed };
            paths.push(path);
        }
        changed.retain(|path| !is_leftover(path));
        changed.sort();
        changed.dedup();
        Ok((changed, ignored))
    }
}

fn status_options() -> StatusOptions {
    let mut options = StatusOptions::new();
    options
        .show(StatusShow::IndexAndWorkdir)
        .include_untracked(true)
        .recurse_untracked_dirs(true)
        .disable_pathspec_match(true);
    options
}

/// Whether the path is an unfinished replacement of a killed process.
fn is_leftover(path: &RelPath) -> bool {
    path.as_bytes().rsplit(|byte| *byte == b'/').next().is_some_and(crate::fs::is_leftover)
}

/// The paths of a diff, sorted.
pub(super) fn changed_paths(diff: &git2::Diff<'_>) -> Vec<RelPath> {
    let mut paths: Vec<RelPath> = diff
        .deltas()
        .filter(|delta| delta.status() != Delta::Unmodified)
        .filter_map(|delta| delta.new_file().path_bytes().or(delta.old_file().path_bytes()).map(<[u8]>::to_owned))
        .map(RelPath::new)
        .collect();
    paths.sort();
    paths.dedup();
    paths
}
