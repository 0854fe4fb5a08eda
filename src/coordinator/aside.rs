//! Moves changes out of the work tree into a folder of the run, so that nothing is discarded and others can go on.

use std::path::Path;

use crate::fs;
use crate::relpath::RelPath;

use super::Run;
use super::failure::Failure;

/// Copies each changed path below `keep` and brings the tree back to HEAD there; says what lies where.
pub(super) fn move_out(run: &mut Run<'_>, paths: &[RelPath], keep: &Path) -> Result<Vec<String>, Failure> {
    let root = run.project.root().to_owned();
    let mut kept = Vec::new();
    for path in paths {
        // Behind a link that the session left lies something that is not the project's: to the tree the file is gone.
        let is_there = !fs::is_behind_link(&path.under(&root), &root);
        let copied = is_there && fs::copy_aside(&path.under(&root), &path.under(keep))?;
        kept.push(if copied {
            format!("{path} → {}", path.under(keep).display())
        } else {
            format!("{path} (it was deleted)")
        });
    }
    crate::fault::point("aside:copied");
    if let Some(git) = &mut run.git {
        git.restore(paths)?;
    }
    Ok(kept)
}
