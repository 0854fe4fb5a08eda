//! Changes of the work tree as a patch that `git apply` takes, binary files included.

use git2::{Delta, DiffFormat, DiffOptions};

use super::git::Repository;
use super::refusal::GitError;
use crate::relpath::RelPath;

/// A larger file, in bytes, is in no patch: the whole patch is made in memory.
const LARGEST: u64 = 16 << 20;

/// Changes as a patch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Patch {
    /// The patch; empty if nothing of the changes can be held by one.
    pub bytes: Vec<u8>,
    /// The paths that a patch cannot hold: special files, other repositories, empty folders, what git ignores, what is too large.
    pub without: Vec<RelPath>,
}

impl Repository {
    /// How the work tree differs from HEAD at `paths` and below them.
    pub fn patch(&self, paths: &[RelPath]) -> Result<Patch, GitError> {
        const DOING: &str = "write the changes as a patch";
        let mut options = DiffOptions::new();
        options
            .disable_pathspec_match(true)
            .include_untracked(true)
            .recurse_untracked_dirs(true)
            .show_untracked_content(true)
            .include_typechange(true)
            .ignore_submodules(true)
            .show_binary(true)
            .context_lines(3);
        let is_large =
            |path: &&RelPath| path.under(&self.root).symlink_metadata().is_ok_and(|file| file.len() > LARGEST);
        let fitting: Vec<&RelPath> = paths.iter().filter(|path| !is_large(path)).collect();
        for path in &fitting {
            options.pathspec(path.as_bytes());
        }
        let tree = self.git.head().and_then(|head| head.peel_to_tree()).map_err(GitError::new(DOING))?;
        let mut bytes = Vec::new();
        let mut held: Vec<RelPath> = Vec::new();
        if !fitting.is_empty() {
            let diff = self.git.diff_tree_to_workdir(Some(&tree), Some(&mut options)).map_err(GitError::new(DOING))?;
            let holds = |delta: &git2::DiffDelta<'_>| {
                matches!(
                    delta.status(),
                    Delta::Added | Delta::Deleted | Delta::Modified | Delta::Typechange | Delta::Untracked
                )
            };
            let path = |delta: git2::DiffDelta<'_>| {
                let path = delta.new_file().path_bytes().or(delta.old_file().path_bytes()).unwrap_or_default();
                RelPath::new(path)
            };
            // A name that ends in `/` is a folder that git does not look into.
            held.extend(diff.deltas().filter(holds).map(path).filter(|path| !path.as_bytes().ends_with(b"/")));
            diff.print(DiffFormat::Patch, |_, _, line| {
                if matches!(line.origin(), '+' | '-' | ' ') {
                    bytes.push(u8::try_from(line.origin()).unwrap_or(b' '));
                }
                bytes.extend_from_slice(line.content());
                true
            })
            .map_err(GitError::new(DOING))?;
        }
        let is_held = |path: &&RelPath| held.iter().any(|held| held.is_in(&path.to_string()) || held == *path);
        let without = paths.iter().filter(|path| !is_held(path)).cloned().collect();
        Ok(Patch { bytes, without })
    }
}
