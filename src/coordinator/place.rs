//! Where sessions work: the one place that says so.

use std::path::PathBuf;

use crate::commit::Repository;

use super::Run;

impl Run<'_> {
    /// The folder the next session works in.
    pub(super) fn workspace_root(&self) -> PathBuf {
        self.project.root().to_owned()
    }

    /// The repository as seen from where sessions work.
    pub(super) fn workspace_git(&mut self) -> Option<&mut Repository> {
        self.git.as_mut()
    }
}
