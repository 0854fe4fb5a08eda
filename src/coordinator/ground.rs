//! The ground a session starts from: a repository that can take its commit, and a work tree without foreign changes.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::commit::{Head, Repository};
use crate::observe::Event;
use crate::plan::views;
use crate::relpath::RelPath;
use crate::tracker::ready::Board;
use crate::workspace::{Change, ChangeKind, FindingKind, Guarded, Snapshot};

use super::Run;
use super::failure::Failure;

/// The state of everything before a session.
pub(super) struct Ground {
    /// Where HEAD is; none without git.
    pub(super) head: Option<Head>,
    /// The work tree.
    pub(super) snapshot: Snapshot,
    /// What every ref points at; empty without git.
    pub(super) refs: BTreeMap<Vec<u8>, Vec<u8>>,
    /// What sessions must not touch.
    pub(super) guarded: Guarded,
    /// What the session must not touch in a work tree of its own.
    pub(super) tree: Option<Guarded>,
}

/// Looks at repository and work tree; refuses a repository that cannot take a commit and a tree that is not clean.
pub(super) fn check(run: &mut Run<'_>, guarded: Guarded) -> Result<Ground, Failure> {
    run.git.iter().chain(run.site.tree.iter().map(|tree| &tree.git)).for_each(Repository::forget_objects);
    let head = match &run.git {
        Some(git) => Some(git.check(run.clock.now())?),
        None => None,
    };
    let snapshot = look(run)?;
    let files = dirty(run, &snapshot)?;
    if files.is_empty() {
        if run.tally.launched() == 0 {
            for finding in snapshot.findings() {
                (run.observe)(&Event::Warning { text: format!("{finding}; what lies there cannot be watched") });
            }
        }
        let refs = run.git.as_ref().map(Repository::refs).transpose()?.unwrap_or_default();
        let tree = run.site.tree.as_mut().map(|tree| tree.guard.take()).transpose()?;
        return Ok(Ground { head, snapshot, refs, guarded, tree });
    }
    Err(Failure::Dirty { files: files.iter().map(ToString::to_string).collect() })
}

/// The work tree as it is now.
pub(super) fn look(run: &mut Run<'_>) -> Result<Snapshot, Failure> {
    let tracked = match run.workspace_git() {
        Some(git) => Some(git.tracked()?),
        None => None,
    };
    Ok(run.snapshotter.take(tracked.map(Arc::new))?)
}

/// What differs from HEAD outside `state/` and was not put there by the coordinator or a person's verb.
pub(super) fn dirty(run: &mut Run<'_>, snapshot: &Snapshot) -> Result<Vec<RelPath>, Failure> {
    let has_worktrees = run.has_worktrees();
    match &mut run.git {
        // The session's own tree was found clean with its lease, and no commit touches what else a person changed in the root.
        Some(git) if has_worktrees => dirty_in_plan(git, &run.board),
        Some(git) => dirty_in(git, &run.board, snapshot),
        None => Ok(Vec::new()),
    }
}

/// The same for a repository and a board, whoever looks.
pub(super) fn dirty_in(git: &mut Repository, board: &Board, snapshot: &Snapshot) -> Result<Vec<RelPath>, Failure> {
    let mut files = dirty_in_tree(git, snapshot)?;
    // Git knows what lies there, and nobody can tell whether it is as in HEAD.
    let unknown = snapshot.findings().iter().filter(|finding| match finding.kind {
        FindingKind::TooDeep => true,
        FindingKind::Unreadable => snapshot.holds_tracked(&finding.path),
        _ => false,
    });
    files.extend(unknown.map(|finding| finding.path.clone()));
    files.extend(git.staged()?.into_iter().filter(|path| !path.is_in("state") && !path.is_in("planning")));
    files.extend(dirty_in_plan(git, board)?);
    files.sort();
    files.dedup();
    Ok(files)
}

/// What a person changed in the plan: the next commit would take it along.
pub(super) fn dirty_in_plan(git: &Repository, board: &Board) -> Result<Vec<RelPath>, Failure> {
    let mut files = Vec::new();
    for path in git.changed_in(&["planning"])? {
        if !is_ours(git, board, &path)? {
            files.push(path);
        }
    }
    Ok(files)
}

/// What differs from HEAD in the work tree proper; a difference that git's filters take out is none.
fn dirty_in_tree(git: &Repository, snapshot: &Snapshot) -> Result<Vec<RelPath>, Failure> {
    // A watched path that git ignores is never committed, so it is no change of the repository's.
    let of_git = |change: &&Change| snapshot.is_tracked(&change.path) || !snapshot.is_ignored(&change.path);
    let changes = snapshot.dirty().iter().filter(of_git);
    let (doubtful, certain): (Vec<_>, Vec<_>) = changes.partition(|change| change.kind == ChangeKind::Modified);
    let paths = |changes: Vec<&Change>| changes.into_iter().map(|change| change.path.clone()).collect::<Vec<_>>();
    let (doubtful, mut files) = (paths(doubtful), paths(certain));
    if !doubtful.is_empty() {
        files.extend(git.modified(&doubtful)?);
    }
    Ok(files)
}

/// Whether a changed file under `planning/` is a generated view, or a new card whose row says how it came to be.
fn is_ours(git: &Repository, board: &Board, path: &RelPath) -> Result<bool, Failure> {
    let shown = path.to_string();
    if views::PATHS.contains(&shown.as_str()) {
        return Ok(true);
    }
    let task = shown.strip_prefix("planning/tasks/").and_then(|name| name.strip_suffix(".json"));
    let Some(task) = task.and_then(|task| task.parse().ok()) else { return Ok(false) };
    let made_here = board.row(&task).events.first().is_some_and(|e| e.action == crate::tracker::row::Action::Create);
    Ok(made_here && git.blob_at_head(path)?.is_none())
}
