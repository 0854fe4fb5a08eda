//! Whether a session changed anything in its scope, as its own verb can see it: an early answer for the agent. What counts is
//! what the coordinator finds when the session is over.

use std::path::Path;

use crate::commit::Repository;
use crate::config::Config;
use crate::project::Project;
use crate::relpath::RelPath;
use crate::session::Signals;
use crate::workspace::Scope;

use super::people_commit::open;
use super::prepare::Host;

/// Whether something in `scope` differs from HEAD in the work tree at `workspace`; none where that cannot be told.
pub fn changes_scope(workspace: &Path, host: &Host, scope: &[String]) -> Option<bool> {
    let project = Project::open(workspace).ok()?;
    project.git()?;
    let git: Repository = open(&project, &Config::default(), host, &Signals::none()).ok().flatten()?;
    let scope = Scope::new(scope);
    if git.changed().ok()?.iter().any(|path| scope.contains(path)) {
        return Some(true);
    }
    let has_own_rules = |path: &RelPath| {
        let rules = path.child(b".gitignore");
        let is_there = path.file_name() == b".gitignore" || rules.under(workspace).symlink_metadata().is_ok();
        is_there && (scope.contains(path) || scope.contains(&rules))
    };
    // A file of ignore rules that ignores itself hides work from git, and not from the coordinator.
    (!git.ignored().ok()?.iter().any(has_own_rules)).then_some(false)
}
