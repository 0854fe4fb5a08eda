//! The lease of a session's workspace: acquired before anything is claimed, ended before the record is final.
//!
//! Carries out on disk what the pure lease allows. In the root the workspace is there already, and a contaminated one is what
//! `on_violation` makes of it; a contaminated work tree is kept aside, and the next session gets a fresh one.

use crate::evidence::{RunRecord, WorkspaceMode, WorkspaceRecord};
use crate::observe::Event;
use crate::workspace::lease::{self, Contamination, End, Lease, Step};

use super::Run;
use super::failure::Failure;
use super::site;

/// How many workspaces are tried for one session: the one that is there, and a fresh one.
const TRIES: u32 = 2;

/// A workspace that a session may work in.
#[must_use = "the workspace has to be given back"]
pub(super) struct Granted {
    lease: Lease,
    /// Whether it was made for this session: its set-up may have changed what is guarded.
    pub(super) is_fresh: bool,
}

/// Takes the workspace for a session: reset to the branch's head and found healthy, or a fresh one.
pub(super) fn acquire(run: &mut Run<'_>) -> Result<Granted, Failure> {
    if !run.has_worktrees() {
        // The preflight is the health check of the root, and nothing is reset there: it is a person's too.
        return ready(run, false);
    }
    let git = run.git.as_ref().expect("work trees need git");
    let head = git.check(run.clock.now())?.commit;
    let mut last = String::new();
    for _ in 0..TRIES {
        let is_fresh = !site::adopt(run)?;
        if is_fresh {
            site::make(run, &head)?;
        }
        match site::renew(run, &head) {
            Ok(()) => return ready(run, is_fresh),
            Err((why, text)) => {
                let lease = run.site.pool.acquire()?;
                let kept = site::keep_aside(run, why)?;
                run.site.pool.quarantine(lease)?;
                let place = kept
                    .map_or_else(|| "nothing of it is left".to_owned(), |at| format!("it is kept in {}", at.display()));
                last = format!("the work tree could not be used again ({why}: {text}); {place}");
                (run.observe)(&Event::Warning { text: last.clone() });
            }
        }
    }
    Err(Failure::NoWorkspace { reason: last })
}

/// The lease of a workspace that was reset and found healthy.
fn ready(run: &mut Run<'_>, is_fresh: bool) -> Result<Granted, Failure> {
    let mut lease = run.site.pool.acquire()?;
    run.site.pool.reset(&mut lease)?;
    run.site.pool.check(&mut lease)?;
    Ok(Granted { lease, is_fresh })
}

impl Granted {
    /// What the record says while the session works.
    pub(super) fn record(&self, run: &Run<'_>) -> WorkspaceRecord {
        WorkspaceRecord {
            mode: if run.has_worktrees() { WorkspaceMode::Worktree } else { WorkspaceMode::InPlace },
            path: run.workspace_root(),
            generation: self.lease.generation(),
            steps: self.lease.steps().to_vec(),
            contamination: Vec::new(),
            kept_at: None,
        }
    }
}

/// Ends the lease and writes down how; a workspace that could not be put aside is a failed destruction.
pub(super) fn give_back(
    run: &mut Run<'_>,
    granted: Granted,
    (end, contamination): (End, Vec<Contamination>),
    record: &mut RunRecord,
) {
    let mut written = granted.record(run);
    let done = if run.has_worktrees() {
        give_tree_back(run, granted, (end, &contamination), &mut written)
    } else {
        give_root_back(run, granted, (&contamination, record.commit_error.is_some()), &mut written)
    };
    written.contamination = contamination;
    if run.has_worktrees() {
        let fault = |failure: Failure| format!("the work tree could not be put aside: {}", failure.reason());
        record.teardown.destroyed(done.map_err(fault));
    }
    record.kept.extend(written.kept_at.iter().map(|place| format!("the work tree → {}", place.display())));
    record.workspace = Some(written);
}

fn give_tree_back(
    run: &mut Run<'_>,
    Granted { lease, .. }: Granted,
    (end, contamination): (End, &[Contamination]),
    written: &mut WorkspaceRecord,
) -> Result<(), Failure> {
    let why = contamination.first().copied().unwrap_or(Contamination::FailedReset);
    written.steps = match lease::ending(end, contamination) {
        Step::Release => run.site.pool.release(lease)?,
        Step::Dispose => {
            let steps = run.site.pool.dispose(lease)?;
            written.kept_at = site::keep_aside(run, why)?;
            steps
        }
        _ => {
            let steps = run.site.pool.quarantine(lease)?;
            written.kept_at = site::keep_aside(run, why)?;
            steps
        }
    };
    if let Some(kept) = &written.kept_at {
        let text =
            format!("the session's work tree is kept in {} ({why}); the next session gets a fresh one", kept.display());
        (run.observe)(&Event::Warning { text });
    }
    Ok(())
}

/// The root stays where it is. What was tampered with has been put back and what was out of scope has been moved out, which
/// makes it as good as new; or it is left as it is for a person, and the run stops with it.
fn give_root_back(
    run: &mut Run<'_>,
    Granted { lease, .. }: Granted,
    (contamination, is_left): (&[Contamination], bool),
    written: &mut WorkspaceRecord,
) -> Result<(), Failure> {
    if lease::ending(End::Completed, contamination) == Step::Release {
        written.steps = run.site.pool.release(lease)?;
        return Ok(());
    }
    written.steps = run.site.pool.quarantine(lease)?;
    if !is_left {
        site::fill(&mut run.site.pool);
        written.steps.push(Step::Replace);
    }
    Ok(())
}
