//! After a session's process: folders are as they have to be, nothing is staged or locked, and what has to leave the tree leaves it.

use std::path::{Path, PathBuf};

use crate::config::OnViolation;
use crate::evidence::Teardown;
use crate::fs;

use super::aftermath::Aftermath;
use super::failure::Failure;
use super::session::Over;
use super::{Run, aside, memo};

/// Folders of the root that the coordinator writes after a session, those above first.
const OURS: [&str; 8] = [
    "planning",
    "planning/tasks",
    "planning/stages",
    "state/tasks",
    "state/handoffs",
    "state/evidence",
    "state/issues",
    "state/commit_messages",
];

/// The same of git's own folders.
const GITS: [&str; 7] = ["", "objects", "objects/pack", "refs", "refs/heads", "logs", "runner"];

/// Makes sure that the session's folder is one again; says what the session had put in the place of a folder above it.
pub(super) fn reopen(run: &Run<'_>, folder: &Path) -> Result<Option<String>, Failure> {
    let root = run.project.root();
    let above: Vec<&Path> = folder.ancestors().take_while(|above| *above != root).collect();
    let mut displaced = None;
    for place in above.into_iter().rev() {
        if place.symlink_metadata().is_ok_and(|metadata| !metadata.is_dir()) {
            fs::make_way(place, &run.project.private_own().join("displaced"))?;
            displaced = displaced.or_else(|| place.strip_prefix(root).ok().map(|path| path.display().to_string()));
        }
        fs::open_folder_up(place);
    }
    for place in OURS {
        fs::open_folder_up(&root.join(place));
    }
    for stage in run.plan.stages() {
        fs::open_folder_up(&root.join("state/tasks").join(stage.id.as_str()));
    }
    for git in run.project.git().into_iter().flat_map(|git| [&git.own, &git.common]) {
        for place in GITS {
            fs::open_folder_up(&git.join(place));
        }
    }
    fs::make_private_folder(folder)?;
    Ok(displaced)
}

/// Moves out of the tree what has to leave it, if the configuration says so or a reviewer left it; gives the reason why no
/// commit can be made.
pub(super) fn clear_tree(
    run: &mut Run<'_>,
    (aftermath, is_review): (&Aftermath, bool),
    (folder, kept): (&Path, &mut Vec<String>),
) -> Option<String> {
    // A contaminated work tree is kept as a whole, and nothing of it is in the next session's way.
    let reason = aftermath.no_commit_reason().filter(|_| !run.has_worktrees())?;
    let moves = run.config.on_violation == OnViolation::SetAside || (is_review && !aftermath.head_moved);
    if !moves || run.git.is_none() || aftermath.in_submodule {
        return Some(reason);
    }
    let displaced = aftermath.displaced();
    if displaced.is_empty() {
        return None;
    }
    match aside::move_out(run, &displaced, &folder.join("kept")) {
        Ok(done) => {
            kept.extend(done.into_lines());
            None
        }
        // The session is settled all the same: a claim that stays would have to be recovered.
        Err(failure) => Some(format!("{reason}; setting them aside failed: {}", failure.reason())),
    }
}

/// Removes the lock that the session's own git left on the index when it was ended with the rest, and says so.
pub(super) fn clear_left_lock(run: &Run<'_>, over: &Over) -> Result<Vec<String>, Failure> {
    let (Some(git), Over::Ran(result)) = (&run.git, over) else { return Ok(Vec::new()) };
    // A lock on the root's index is a person's while sessions work elsewhere.
    if !result.survivors.is_empty() || run.site.tree.is_some() {
        return Ok(Vec::new());
    }
    let cleared = git.clear_own_locks(&memo::path(run.project))?;
    let said = |lock: PathBuf| format!("the session's own git left {} when it ended; it was removed", lock.display());
    Ok(cleared.into_iter().map(said).collect())
}

/// Takes back what the session staged where it worked: a commit holds exactly the session's files, and the next session starts
/// from HEAD.
pub(super) fn unstage(run: &mut Run<'_>, teardown: &mut Teardown) -> Result<(), Failure> {
    let (git, staged) = match (&mut run.site.tree, &mut run.git) {
        // What is staged in the root while sessions work elsewhere is a person's.
        (Some(tree), _) => match tree.git.staged() {
            Ok(staged) => (&mut tree.git, staged),
            // A work tree that is broken, or gone, is not used again.
            Err(_) => return Ok(()),
        },
        (None, Some(git)) => {
            let staged = git.staged()?;
            (git, staged)
        }
        (None, None) => return Ok(()),
    };
    if !staged.is_empty() {
        // A lock file that the session left is named when the commit meets it.
        let done = git.unstage(&staged).map_err(|error| Failure::from(error).reason());
        teardown.cleaned(done.map_err(|reason| format!("git's index could not be brought back to HEAD: {reason}")));
    }
    Ok(())
}
