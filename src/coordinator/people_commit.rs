//! A commit of what a person's verb changed, when asked for at once: that and nothing else the person has under way.

use std::collections::BTreeMap;

use crate::clock::Clock;
use crate::commit::{CommitPlan, Repository};
use crate::config::Config;
use crate::fs;
use crate::project::Project;
use crate::relpath::RelPath;
use crate::session::Signals;

use super::failure::Failure;
use super::holder;
use super::prepare::Host;
use super::start::{Opening, open_git};

/// What differs from HEAD in a folder of the plan or the state, with its content; none if it is gone or no file.
type Changed = BTreeMap<RelPath, Option<Vec<u8>>>;

/// A commit to come of what a verb is about to change.
#[must_use = "nothing is committed before it is made"]
pub struct PeopleCommit<'a> {
    project: &'a Project,
    config: &'a Config,
    host: &'a Host,
    before: Changed,
}

impl<'a> PeopleCommit<'a> {
    /// Looks before the verb, and refuses where no commit could be made after it. None if no commit of its own is to be made:
    /// without git, and while a run is on.
    pub fn begin(project: &'a Project, config: &'a Config, host: &'a Host) -> Result<Option<Self>, Failure> {
        if holder::keep_away(project)?.is_err() {
            return Ok(None);
        }
        let Some(git) = open(project, config, host, &Signals::none())? else { return Ok(None) };
        git.check(Clock::system().now())?;
        Ok(Some(Self { project, config, host, before: changed(project, &git)? }))
    }

    /// Commits what changed since, and the file that the change refers to; false if a run has begun meanwhile, whose next
    /// commit then holds it.
    pub fn make(self, subject: &str, named: Option<&str>) -> Result<bool, Failure> {
        let Ok(_no_run_meanwhile) = holder::keep_away(self.project)? else { return Ok(false) };
        let signals = Signals::install().map_err(|source| Failure::System { what: "watch for signals", source })?;
        let Some(mut git) = open(self.project, self.config, self.host, &signals)? else { return Ok(true) };
        let at = Clock::system().now();
        let head = git.check(at)?;
        let is_named = |path: &RelPath| named.is_some_and(|named| path.as_bytes() == named.as_bytes());
        let now = changed(self.project, &git)?.into_iter();
        let new = now.filter(|(path, content)| self.before.get(path) != Some(content) || is_named(path));
        let plan = CommitPlan {
            parent: head.commit,
            branch: head.branch,
            message: format!("{subject}\n"),
            paths: new.map(|(path, _)| path).collect(),
            at,
        };
        let prepared = git.prepare(&plan)?;
        git.finish(&prepared)?;
        Ok(true)
    }
}

/// The repository of a project, for a verb.
pub(super) fn open(
    project: &Project,
    config: &Config,
    host: &Host,
    signals: &Signals,
) -> Result<Option<Repository>, Failure> {
    open_git(&Opening {
        project,
        config,
        config_path: project.root().join("runner.local.json"),
        stage: None,
        task: None,
        host,
        clock: Clock::system(),
        signals,
        observe: &|_| {},
    })
}

fn changed(project: &Project, git: &Repository) -> Result<Changed, Failure> {
    let paths = git.changed_in(&["state", "planning"])?.into_iter();
    // What cannot be read was not written by the verb.
    let content = |path: &RelPath| fs::read_if_present(&path.under(project.root())).ok().flatten();
    Ok(paths.map(|path| (path.clone(), content(&path))).collect())
}
