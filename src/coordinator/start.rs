//! How a run begins: everything is checked before the run lock is taken, and nothing is changed before it is held.

use std::collections::BTreeMap;
use std::path::PathBuf;

use crate::clock::Clock;
use crate::commit::{Repository, Surroundings};
use crate::config::{Config, Hooks};
use crate::fs;
use crate::observe::{Event, Observer};
use crate::outcome::RunResult;
use crate::plan::Plan;
use crate::project::Project;
use crate::relpath::RelPath;
use crate::session::{Signals, identity};
use crate::tracker::desk::Desk;
use crate::tracker::ready::{Board, Part};
use crate::workspace::{Guard, Options, Snapshotter};

use super::checkpoint;
use super::failure::Failure;
use super::holder::{self, RunLock, Taken};
use super::limits::Services;
use super::prepare::Host;
use super::program::GitProgram;
use super::site::{self, Site};
use super::{Run, Tally, memo, records, summary, verify};

/// What a run is asked for.
pub struct Opening<'a> {
    /// The project.
    pub project: &'a Project,
    /// Its configuration, checked.
    pub config: &'a Config,
    /// Where the configuration came from.
    pub config_path: PathBuf,
    /// The stage to run, as given.
    pub stage: Option<String>,
    /// The task to run, as given.
    pub task: Option<String>,
    /// What the process was started with.
    pub host: &'a Host,
    /// The time of day.
    pub clock: Clock,
    /// Signals that stop the run.
    pub signals: &'a Signals,
    /// Who is told what happens.
    pub observe: &'a Observer<'a>,
}

/// Who is told what happens in a run, and its tally, which is told with them if anybody will ask.
pub(super) type Books<'a> = (&'a Observer<'a>, &'a Tally);

/// How a start ended.
pub(super) enum Opened<'a> {
    /// Another coordinator is at work.
    Busy(Box<RunResult>),
    /// The run lock is ours.
    Ours(RunLock, Box<Run<'a>>),
}

/// Checks everything, then takes the run lock.
pub(super) fn open<'a>(opening: &Opening<'a>, books: Books<'a>) -> Result<Opened<'a>, Failure> {
    let plan = Plan::load(opening.project)?;
    let roles = plan.tasks().iter().flat_map(|task| [&task.role, &task.reviewer_role]);
    crate::prompt::check_context(opening.project, opening.config, roles)?;
    let opened = open_to_recover(opening, books)?;
    if let Opened::Ours(_, run) = &opened {
        verify::check(run.config, run.host, (&run.plan, &run.board))?;
    }
    Ok(opened)
}

/// As [`open`], also if texts for prompts are missing: a session may have closed or removed them.
pub(super) fn open_to_recover<'a>(opening: &Opening<'a>, (observe, tally): Books<'a>) -> Result<Opened<'a>, Failure> {
    let (project, config) = (opening.project, opening.config);
    let plan = Plan::load(project)?;
    let part = part_of(&plan, opening)?;
    let git = open_git(opening)?;
    let desk = Desk::new(project, opening.clock);
    let identity = identity();
    let lock = match holder::take(project, &identity, opening.clock)? {
        Taken::Ours(lock) => lock,
        Taken::Theirs(about) => {
            let board = desk.store().read(&plan)?;
            return Ok(Opened::Busy(Box::new(summary::busy(&plan, &board, &part, about))));
        }
    };
    if let Some(git) = &git {
        for record in [checkpoint::intent_path(project), memo::path(project), verify::note_path(project)] {
            git.clear_own_locks(&record)?;
        }
        git.check(opening.clock.now())?;
        check_ignored(project, git, &opening.config_path)?;
        site::check_shares(&config.workspace.share, git)?;
    }
    let (plan, board) = settled_state(project, &desk, plan)?;
    let run = Run {
        project,
        config,
        host: opening.host,
        clock: opening.clock,
        identity,
        signals: opening.signals,
        observe,
        snapshotter: snapshotter(project, config, git.as_ref()),
        guard: Guard::new(project),
        site: Site::new(config.workspace.mode),
        redactor: records::redactor(config, opening.host),
        baselines: verify::Baselines::default(),
        desk,
        plan,
        is_plan_rendered: false,
        board,
        part,
        git,
        exchanges: BTreeMap::new(),
        tally,
        services: Services::default(),
    };
    Ok(Opened::Ours(lock, Box::new(run)))
}

/// Plan and rows after a change that a killed process had begun was finished, and what it left half written is gone.
fn settled_state(project: &Project, desk: &Desk<'_>, plan: Plan) -> Result<(Plan, Board), Failure> {
    let locked = desk.lock()?;
    // The change may have brought a card.
    let plan = if locked.has_finished() { Plan::load(project)? } else { plan };
    let folders = [("", 0), ("planning", 1), ("state", 0), ("state/tasks", 1)];
    for (folder, levels) in folders {
        fs::remove_leftovers(&project.root().join(folder), levels)?;
    }
    for folder in ["commit_messages", "evidence", "handoffs", "issues"] {
        fs::remove_leftovers(&project.root().join("state").join(folder), 0)?;
    }
    for folder in [project.private(), project.private_own()] {
        fs::remove_leftovers(&folder, 1)?;
    }
    let board = locked.read(&plan)?;
    Ok((plan, board))
}

/// The repository, unless the configuration does without commits.
pub(super) fn open_git(opening: &Opening<'_>) -> Result<Option<Repository>, Failure> {
    if !opening.config.git_commits {
        return Ok(None);
    }
    let surroundings = surroundings(opening.host, opening.config, opening.signals);
    Ok(Some(Repository::open(opening.project, surroundings)?))
}

/// What git needs from outside.
pub(super) fn surroundings(host: &Host, config: &Config, signals: &Signals) -> Surroundings {
    Surroundings {
        env: host.environment.clone(),
        program: Box::new(GitProgram { signals: signals.clone() }),
        run_hooks: config.git_hooks == Hooks::Run,
    }
}

/// Looks at the work tree the way this configuration asks for.
pub(super) fn snapshotter(project: &Project, config: &Config, git: Option<&Repository>) -> Snapshotter {
    Snapshotter::new(Options {
        root: project.root().to_owned(),
        exclude: config.exclude.clone(),
        watch: config.watch.clone(),
        share: config.workspace.share.clone(),
        git: project.git().cloned().filter(|_| git.is_some()),
        excludes_file: git.and_then(Repository::excludes_file),
        file_mode: git.is_none_or(Repository::file_mode),
        filters: git.is_some_and(Repository::filters),
    })
}

/// The part of the plan that was asked for.
pub(super) fn part_of(plan: &Plan, opening: &Opening<'_>) -> Result<Part, Failure> {
    if let Some(name) = &opening.task {
        let found = plan.tasks().iter().find(|task| task.id.as_str() == name).map(|task| task.id.clone());
        return found.map(Part::Task).ok_or_else(|| unknown("task", name, plan.tasks().iter().map(|t| t.id.as_str())));
    }
    if let Some(name) = &opening.stage {
        let found = plan.stages().iter().find(|stage| stage.id.as_str() == name).map(|stage| stage.id.clone());
        return found
            .map(Part::Stage)
            .ok_or_else(|| unknown("stage", name, plan.stages().iter().map(|s| s.id.as_str())));
    }
    Ok(Part::Everything)
}

fn unknown<'n>(kind: &'static str, name: &str, known: impl Iterator<Item = &'n str>) -> Failure {
    let nearest = known.min_by_key(|known| strsim::damerau_levenshtein(known, name));
    let nearest = nearest.map_or_else(String::new, |known| format!("; did you mean {known}?"));
    Failure::UnknownPart { kind, name: name.to_owned(), nearest }
}

/// Refuses a repository in which what the coordinator leaves would show up as a change.
pub(super) fn check_ignored(project: &Project, git: &Repository, config_path: &std::path::Path) -> Result<(), Failure> {
    let mut needed = vec![
        (RelPath::from("state/runs/any"), "state/runs/".to_owned()),
        (RelPath::from("state/commit_messages/any"), "state/commit_messages/".to_owned()),
    ];
    if let Ok(inside) = config_path.strip_prefix(project.root()) {
        needed.push((RelPath::from(inside), inside.display().to_string()));
    }
    for (path, line) in needed {
        if !git.is_ignored(&path)? {
            return Err(Failure::NotIgnored { path: line.clone(), line });
        }
    }
    Ok(())
}

/// Converts the state of the original coordinator, and marks a new one, before the first session; says whether anything was
/// written.
pub(super) fn ensure_converted(run: &mut Run<'_>) -> Result<bool, Failure> {
    let locked = run.desk.lock()?;
    let is_needed = locked.needs_conversion()?;
    if is_needed {
        locked.convert(&run.plan)?;
        run.board = locked.read(&run.plan)?;
        (run.observe)(&Event::Converted);
    }
    Ok(locked.mark()? || is_needed)
}
