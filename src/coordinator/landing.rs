//! A session's work on its way from its own work tree into the root.
//!
//! Its content is in the repository before the task is settled, so that neither a kill nor a later fate of the work tree can lose
//! it; the commit itself then moves branch, files and index together, or nothing.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::commit::{CommitError, CommitId, CommitPlan, Content, Landing};
use crate::fs;
use crate::ids::AgentId;
use crate::relpath::RelPath;

use super::Run;
use super::failure::Failure;

/// What a session made in its own work tree.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct Work {
    /// The commit the session started from.
    base: CommitId,
    /// The files it changed in its scope.
    contents: Vec<Content>,
}

impl Work {
    /// The paths it changed.
    pub(super) fn paths(&self) -> impl Iterator<Item = RelPath> + '_ {
        self.contents.iter().map(|content| content.path.clone())
    }
}

/// Splits what is to be committed: paths of the root, and work that was made elsewhere and is stored now.
pub(super) fn work_of(run: &Run<'_>, paths: Vec<RelPath>) -> Result<(Vec<RelPath>, Option<Work>), Failure> {
    let Some(tree) = run.site.tree.as_ref().filter(|_| !paths.is_empty()) else { return Ok((paths, None)) };
    let contents = tree.git.keep_contents(&paths)?;
    Ok((Vec::new(), Some(Work { base: tree.git.head()?, contents })))
}

/// Where files are on their way into the root.
fn scratch(run: &Run<'_>) -> PathBuf {
    run.project.root().join("state/runs/landing")
}

/// Removes what a killed run had under way, once the branch says that all of it arrived.
pub(super) fn arrived(run: &Run<'_>) -> Result<(), Failure> {
    Ok(fs::remove_folder(&scratch(run))?)
}

/// Makes the commit and brings it into the root; work that cannot go there is kept as a commit of its own.
pub(super) fn land(
    run: &mut Run<'_>,
    plan: &CommitPlan,
    (work, agent): (&Work, &AgentId),
) -> Result<CommitId, Failure> {
    let scratch = scratch(run);
    if scratch.symlink_metadata().is_ok() {
        // What a killed run had under way: most likely what it had replaced already.
        fs::make_way(&scratch, &run.project.root().join("state/runs/recovered"))?;
    }
    let git = run.git.as_mut().expect("an intent is only made with git");
    let name = format!("{agent}/work");
    // A person may have merged what could not be landed: then the branch has it.
    let contents = if git.is_merged(&name) { &[] } else { work.contents.as_slice() };
    let prepared = git.prepare_with(plan, contents)?;
    let landing = Landing { base: &work.base, contents, scratch: &scratch };
    match git.land(&prepared, &landing) {
        Err(error @ (CommitError::Overwrites { .. } | CommitError::Diverged { .. })) => {
            let commit = git.keep_work(&name, (&work.base, contents), (&plan.message, plan.at))?;
            let reference = format!("refs/runner/kept/{name}");
            Err(Failure::NotLanded { reason: error.to_string(), commit: commit.to_string(), reference })
        }
        other => Ok(other?),
    }
}
