//! What is staged: the paths at which git's index differs from the commit that is checked out.
//!
//! Owns the memory of an index that was found in step with a commit: the two are compared again only when one of them changed.

use std::os::unix::fs::MetadataExt;

use git2::{DiffOptions, Oid};

use super::git::Repository;
use super::reading::changed_paths;
use super::refusal::{GitError, Refusal};
use crate::relpath::RelPath;

/// An index file and a commit between which nothing was staged.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct InStep {
    commit: Oid,
    /// Device, inode, size, and the times of the last change of content and of anything: git replaces the file to change it.
    index: (u64, u64, u64, (i64, i64), (i64, i64)),
}

impl Repository {
    /// Paths that are staged: the index differs there from the commit that is checked out.
    pub fn staged(&mut self) -> Result<Vec<RelPath>, Refusal> {
        const DOING: &str = "compare git's index with HEAD";
        let head = self.git.head().and_then(|head| head.peel_to_commit()).map_err(GitError::new(DOING))?;
        // Looked at before the index is read: what changes in between is compared again next time.
        let looked = self.index_at(head.id());
        if looked.is_some() && looked == self.in_step {
            return Ok(Vec::new());
        }
        let tree = head.tree().map_err(GitError::new(DOING))?;
        drop(head);
        self.index.read(false).map_err(super::git::index_refusal)?;
        let mut options = DiffOptions::new();
        options.include_typechange(true);
        let diff = self.git.diff_tree_to_index(Some(&tree), Some(&self.index), Some(&mut options));
        let paths = changed_paths(&diff.map_err(GitError::new(DOING))?);
        self.in_step = looked.filter(|_| paths.is_empty());
        Ok(paths)
    }

    /// The index file as it is now, beside a commit.
    pub(super) fn index_at(&self, commit: Oid) -> Option<InStep> {
        let file = self.index.path()?.symlink_metadata().ok()?;
        let times = ((file.mtime(), file.mtime_nsec()), (file.ctime(), file.ctime_nsec()));
        Some(InStep { commit, index: (file.dev(), file.ino(), file.size(), times.0, times.1) })
    }

    /// The commit beside which nothing is known to be staged.
    pub(super) fn known_in_step(&self) -> Option<Oid> {
        let known = self.in_step?;
        (self.index_at(known.commit) == Some(known)).then_some(known.commit)
    }
}
