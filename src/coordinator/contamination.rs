//! Reads the named signs of contamination off what a session did. Pure but for the look at git's lock files.

use std::collections::BTreeSet;

use crate::session::{Ended, ExecutionResult};
use crate::workspace::lease::{Contamination, End};
use crate::workspace::{Area, Tampering};

use super::Run;

/// What changes of guarded files say.
pub(super) fn of_tampering(found: &[Tampering]) -> BTreeSet<Contamination> {
    let sign = |tampering: &Tampering| {
        let path = &tampering.path.path;
        if tampering.path.area == Area::Root {
            return Contamination::Tampering;
        }
        if path.file_name().ends_with(b".lock") {
            return Contamination::LockFile;
        }
        if ["HEAD", "refs/heads"].iter().any(|place| path.is_in(place)) {
            return Contamination::HeadMoved;
        }
        if ["config", "config.worktree", "hooks", "info"].iter().any(|place| path.is_in(place)) {
            return Contamination::ConfigurationChanged;
        }
        Contamination::Tampering
    };
    found.iter().map(sign).collect()
}

/// What is left of the session, apart from files.
pub(super) fn of_leftovers(run: &Run<'_>, result: Option<&ExecutionResult>) -> BTreeSet<Contamination> {
    let mut signs = BTreeSet::new();
    if result.is_some_and(|result| !result.survivors.is_empty()) {
        signs.insert(Contamination::SurvivingProcess);
    }
    let git = run.site.tree.as_ref().map(|tree| &tree.git).or(run.git.as_ref());
    if git.is_some_and(|git| !git.own_lock_files().is_empty()) {
        signs.insert(Contamination::LockFile);
    }
    signs
}

/// How the session ended, as far as the lease asks.
pub(super) fn end_of(is_gone: bool, result: Option<&ExecutionResult>) -> End {
    match result.map(|result| &result.ended) {
        _ if is_gone => End::Unrecoverable,
        Some(Ended::Interrupted) => End::Cancelled,
        Some(Ended::TimedOut | Ended::IdleTimedOut) => End::TimedOut,
        _ => End::Completed,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workspace::{ChangeKind, GuardedPath};

    #[test]
    fn each_guarded_file_is_a_sign_of_its_own_kind() {
        for (area, path, expected) in [
            (Area::Root, "state/tasks/S00/S00-001.json", Contamination::Tampering),
            (Area::Root, ".git", Contamination::Tampering),
            (Area::GitOwn, "HEAD", Contamination::HeadMoved),
            (Area::GitCommon, "refs/heads/main", Contamination::HeadMoved),
            (Area::GitCommon, "refs/tags/v1", Contamination::Tampering),
            (Area::GitCommon, "packed-refs", Contamination::Tampering),
            (Area::GitCommon, "config", Contamination::ConfigurationChanged),
            (Area::GitCommon, "hooks/pre-commit", Contamination::ConfigurationChanged),
            (Area::GitCommon, "info/exclude", Contamination::ConfigurationChanged),
            (Area::GitCommon, "config.lock", Contamination::LockFile),
            (Area::GitOwn, "HEAD.lock", Contamination::LockFile),
        ] {
            let tampering = Tampering { path: GuardedPath { area, path: path.into() }, kind: ChangeKind::Modified };
            assert_eq!(of_tampering(&[tampering]), BTreeSet::from([expected]), "{path}");
        }
    }

    #[test]
    fn a_session_that_timed_out_or_was_cancelled_says_so_and_a_lost_workspace_outranks_both() {
        let ended = |ended: Ended| ExecutionResult::without_process(ended, None);
        for (result, expected) in [
            (ended(Ended::Exited), End::Completed),
            (ended(Ended::TimedOut), End::TimedOut),
            (ended(Ended::IdleTimedOut), End::TimedOut),
            (ended(Ended::Interrupted), End::Cancelled),
            (ended(Ended::GuardianLost), End::Completed),
        ] {
            assert_eq!(end_of(false, Some(&result)), expected);
            assert_eq!(end_of(true, Some(&result)), End::Unrecoverable);
        }
        assert_eq!(end_of(false, None), End::Completed);
    }
}
