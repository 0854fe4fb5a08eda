//! Whether a session changed anything in its scope, as its own verb can see it: an early answer for the agent. What counts is
//! what the coordinator finds when the session is over.

use std::path::Path;

use crate::config::Config;
use crate::project::Project;
use crate::session::Signals;
use crate::workspace::Scope;

use super::people_commit::open;
use super::prepare::Host;

/// Whether something in `scope` differs from HEAD in the work tree at `workspace`; none where that cannot be told.
pub fn changes_scope(workspace: &Path, host: &Host, scope: &[String]) -> Option<bool> {
    let project = Project::open(workspace).ok()?;
    project.git()?;
    let git = open(&project, &Config::default(), host, &Signals::none()).ok().flatten()?;
    let scope = Scope::new(scope);
    let (changed, ignored) = git.changed().ok()?;
    if changed.iter().any(|path| scope.contains(path)) {
        return Some(true);
    }
    // The rules that hide it may be the session's own: what counts is what git ignored when the session began.
    let hidden = ignored.iter().any(|path| scope.may_reach(path));
    (!hidden).then_some(false)
}
