//! `runner`: run the plan, or say what would run.

use std::path::{Path, PathBuf};

use clap::Args;

use crate::clock::Clock;
use crate::config::Config;
use crate::coordinator::failure::Failure;
use crate::coordinator::prepare::Host;
use crate::coordinator::start::Opening;
use crate::coordinator::{self, dry_run};
use crate::observe::{self, Observer};
use crate::project::Project;
use crate::report::{self, EventStream, Reporter};
use crate::session::Signals;

use super::{Place, host};

/// The name of standard output.
const STDOUT: &str = "-";

/// What to run.
#[derive(Debug, Clone, Default, PartialEq, Eq, Args)]
pub(super) struct RunArgs {
    /// Run only the tasks of this stage, and what blocks them
    #[arg(long, value_name = "ID", conflicts_with = "task_id")]
    stage: Option<String>,
    /// Run only this task, and what blocks it
    #[arg(long = "task", value_name = "ID", id = "task_id")]
    task: Option<String>,
    /// Start at most so many sessions; overrides the configuration
    #[arg(long, value_name = "N")]
    max_sessions: Option<i64>,
    /// Say what would run next, with its prompt's size and command, and change nothing
    #[arg(long)]
    dry_run: bool,
    /// Add each event to FILE as one line of JSON; with - all of standard output is such lines, the result last
    #[arg(long, value_name = "FILE", conflicts_with = "dry_run")]
    events: Option<PathBuf>,
    /// Show nothing on standard error while it works
    #[arg(short, long)]
    quiet: bool,
}

/// Runs the plan.
pub(super) fn run(place: &Place, args: &RunArgs, from: &Host) -> Result<u8, Failure> {
    if host::is_in_session(from) && !args.dry_run {
        return Err(Failure::Nested);
    }
    let project = host::project(place, None)?;
    let config_path = host::config_path(place, &project);
    let mut config = if args.dry_run { host::config_or_default(&config_path)? } else { Config::load(&config_path)? };
    if let Some(sessions) = args.max_sessions {
        config.limit_sessions(sessions)?;
    }
    let reporter = Reporter::new(args.quiet);
    let stream = args.events.as_deref().map(|to| stream(to, &project)).transpose()?;
    let show: &Observer<'_> = &|event| reporter.show(event);
    let tell: &Observer<'_> = &|event| stream.iter().for_each(|stream| stream.write(event));
    let all = observe::compose(&[(!args.quiet).then_some(show), stream.is_some().then_some(tell)]);
    let signals = if args.dry_run { Ok(Signals::none()) } else { Signals::install() };
    let signals = signals.map_err(|source| Failure::System { what: "watch for signals", source })?;
    let opening = Opening {
        project: &project,
        config: &config,
        config_path,
        stage: args.stage.clone(),
        task: args.task.clone(),
        host: from,
        clock: Clock::system(),
        signals: &signals,
        observe: all.as_deref().unwrap_or(&|_| {}),
    };
    if args.dry_run {
        let (value, code) = dry_run::preview(&opening)?;
        report::json(&value);
        return Ok(code);
    }
    let result = coordinator::run(&opening)?;
    reporter.close(&result);
    if args.events.as_deref() == Some(Path::new(STDOUT)) {
        report::json_line(&result);
    } else {
        report::json(&result);
    }
    Ok(result.exit_code())
}

/// Where the events go. Within the project a file that grows during a session would pass for the session's work.
fn stream(to: &Path, project: &Project) -> Result<EventStream, Failure> {
    let clock = Clock::system();
    if to == Path::new(STDOUT) {
        return Ok(EventStream::to_stdout(clock));
    }
    let path = host::start_folder()?.join(to);
    let folder = path.parent().and_then(|folder| folder.canonicalize().ok());
    let real = path.canonicalize().ok().or(folder);
    if real.is_some_and(|real| real.starts_with(project.root())) {
        let what = format!("--events {}: events must not go into the project; name a file outside it", to.display());
        return Err(Failure::Usage { what });
    }
    Ok(EventStream::to_file(&path, clock)?)
}
