//! Moves changes out of the work tree into a folder of the run, as files and as a patch, so that nothing is discarded and others
//! can go on.

use std::path::Path;

use crate::fs;
use crate::relpath::RelPath;
use crate::verdict::names;

use super::Run;
use super::failure::Failure;

/// The patch's name beside the files.
const PATCH: &str = "changes.patch";

/// How many paths a line names.
const NAMED: usize = 10;

/// What was moved out.
pub(super) struct Moved {
    /// One line a file: what lies where.
    pub(super) lines: Vec<String>,
    /// Where the patch lies, and what it does not hold.
    pub(super) patch: Option<String>,
}

impl Moved {
    /// Everything in lines, the patch last.
    pub(super) fn into_lines(self) -> impl Iterator<Item = String> {
        self.lines.into_iter().chain(self.patch)
    }
}

/// Copies each changed path below `keep`, writes the changes as a patch beside them, and brings the tree back to HEAD there.
pub(super) fn move_out(run: &mut Run<'_>, paths: &[RelPath], keep: &Path) -> Result<Moved, Failure> {
    let root = run.project.root().to_owned();
    // The files say all that the patch would: that there is none is no reason to leave them where they are.
    let patch = write_patch(run, paths, keep)
        .unwrap_or_else(|failure| Some(format!("there is no patch of them: {}", failure.reason())));
    let keep = keep.join("tree");
    let mut lines = Vec::new();
    let mut folders: Vec<&RelPath> = Vec::new();
    for path in paths {
        if folders.iter().any(|folder| path.is_in(&folder.to_string())) {
            continue;
        }
        if path.under(&root).symlink_metadata().is_ok_and(|metadata| metadata.is_dir()) {
            folders.push(path);
        }
        // Behind a link that the session left lies something that is not the project's: to the tree the file is gone.
        let is_there = !fs::is_behind_link(&path.under(&root), &root);
        let copied = is_there && fs::copy_aside(&path.under(&root), &path.under(&keep))?;
        lines.push(if copied {
            format!("{path} → {}", path.under(&keep).display())
        } else {
            format!("{path} (it was deleted)")
        });
    }
    crate::fault::point("aside:copied");
    if let Some(git) = &mut run.git {
        git.restore(paths)?;
    }
    Ok(Moved { lines, patch })
}

/// Writes the changes as a patch for `git apply`; says where, and names what no patch can hold.
fn write_patch(run: &Run<'_>, paths: &[RelPath], keep: &Path) -> Result<Option<String>, Failure> {
    let Some(git) = &run.git else { return Ok(None) };
    let patch = git.patch(paths)?;
    let file = keep.join(PATCH);
    if !patch.bytes.is_empty() {
        fs::replace_private(&file, &patch.bytes)?;
    }
    let without = names(&patch.without, NAMED);
    Ok(match (patch.bytes.is_empty(), without.is_empty()) {
        (true, true) => None,
        (false, true) => Some(format!("as a patch → {}", file.display())),
        (false, false) => Some(format!("as a patch → {}, without {without}", file.display())),
        (true, false) => Some(format!("no patch can hold {without}")),
    })
}
