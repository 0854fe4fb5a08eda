//! A commit of what a person's verb changed, when asked for at once.

use crate::clock::Clock;
use crate::commit::CommitPlan;
use crate::config::Config;
use crate::project::Project;
use crate::session::Signals;

use super::failure::Failure;
use super::prepare::Host;
use super::start::{Opening, open_git};

/// Commits everything that changed under `state/` and `planning/`.
pub fn commit(project: &Project, config: &Config, host: &Host, subject: &str) -> Result<(), Failure> {
    let clock = Clock::system();
    let opening = Opening {
        project,
        config,
        config_path: project.root().join("runner.local.json"),
        stage: None,
        task: None,
        host,
        clock,
        signals: &Signals::none(),
        observe: &|_| {},
    };
    let Some(mut git) = open_git(&opening)? else { return Ok(()) };
    let head = git.check(clock.now())?;
    let paths = git.changed_in(&["state", "planning"])?;
    let plan = CommitPlan {
        parent: head.commit,
        branch: head.branch,
        message: format!("{subject}\n"),
        paths,
        at: clock.now(),
    };
    let prepared = git.prepare(&plan)?;
    git.finish(&prepared)?;
    Ok(())
}
