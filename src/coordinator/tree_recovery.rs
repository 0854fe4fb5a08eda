//! What a killed run's session left in its work tree. Whose it is needs no guess: nobody else works there.
//!
//! Work in scope becomes a checkpoint like any other; whatever else is found puts the work tree aside, and the run goes on.

use crate::config::Mode;
use crate::observe::Event;
use crate::plan::TaskCard;
use crate::relpath::RelPath;
use crate::tracker::row::Claim;
use crate::verdict::names;
use crate::workspace::Scope;
use crate::workspace::lease::Contamination;

use super::Run;
use super::failure::Failure;
use super::memo::is_own;
use super::site;

/// How many paths a reason names.
const NAMED: usize = 10;

/// What the work tree of an interrupted session holds.
#[derive(Debug, Default)]
pub(super) struct Leftover {
    /// What the session changed in its scope.
    pub(super) in_scope: Vec<RelPath>,
    /// Why what it says it has done does not count.
    pub(super) void: Option<String>,
    /// Why the work tree cannot be used again.
    pub(super) why: Option<Contamination>,
}

/// Looks at the work tree that the session with this claim had.
pub(super) fn leftover(run: &mut Run<'_>, card: &TaskCard, claim: Option<&Claim>) -> Result<Leftover, Failure> {
    if run.config.workspace.mode == Mode::InPlace || !run.workspace_root().is_dir() {
        return Ok(Leftover::default());
    }
    let void = |why: Contamination, text: String| Leftover {
        in_scope: Vec::new(),
        void: Some(format!("the run was killed, and {text}; the session's work tree is kept as it is")),
        why: Some(why),
    };
    if !site::adopt(run)? {
        return Ok(void(Contamination::FailedReset, "its session's work tree cannot be opened".to_owned()));
    }
    let shares = run.shares();
    let Some(tree) = &run.site.tree else { return Ok(Leftover::default()) };
    let head = tree.git.detached_head().ok().flatten().map(|head| head.to_string());
    if claim.and_then(|claim| claim.head.as_ref()).is_some_and(|expected| head.as_ref() != Some(expected)) {
        // A claim whose work tree had not been reset when the run was killed has none of its own work there.
        return Ok(void(Contamination::HeadMoved, "HEAD of its session's work tree had moved".to_owned()));
    }
    let scope = match claim {
        Some(claim) if claim.scope.is_empty() => Scope::nothing(),
        Some(claim) => Scope::new(&claim.scope),
        None => Scope::new(&card.scope),
    };
    let mut differing = tree.git.differing_everywhere(&shares)?;
    differing.retain(|path| !claim.is_some_and(|claim| is_own(path, &claim.agent)));
    let unkeepable: Vec<RelPath> = tree.git.unkeepable(&differing).into_iter().map(|found| found.path).collect();
    let (in_scope, strayed): (Vec<RelPath>, Vec<RelPath>) =
        differing.into_iter().partition(|path| scope.contains(path) && !unkeepable.contains(path));
    let lock = tree.git.own_lock_files().into_iter().next().map(|_| Contamination::LockFile);
    if strayed.is_empty() {
        return Ok(Leftover { in_scope, void: None, why: lock });
    }
    let text = format!("its session had changed files outside its scope: {}", names(&strayed, NAMED));
    Ok(Leftover { in_scope, ..void(Contamination::ScopeViolation, text) })
}

/// Puts the work tree aside, if it cannot be used again, and says where it is.
pub(super) fn put_aside(run: &mut Run<'_>, why: Option<Contamination>) -> Result<(), Failure> {
    let Some(why) = why else { return Ok(()) };
    if let Some(kept) = site::keep_aside(run, why)? {
        let what = format!("the work tree of an interrupted session is kept in {} ({why})", kept.display());
        (run.observe)(&Event::Recovered { what });
    }
    // Whatever place it had is empty now; nobody holds a lease before the first session.
    run.site.pool = site::Site::new(Mode::Worktree).pool;
    Ok(())
}
