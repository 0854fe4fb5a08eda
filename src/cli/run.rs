//! `runner`: run the plan, or say what would run.

use clap::Args;

use crate::clock::Clock;
use crate::config::Config;
use crate::coordinator::failure::Failure;
use crate::coordinator::prepare::Host;
use crate::coordinator::start::Opening;
use crate::coordinator::{self, dry_run};
use crate::report::{self, Reporter};
use crate::session::Signals;

use super::{Place, host};

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
    let signals = if args.dry_run { Ok(Signals::none()) } else { Signals::install() };
    let signals = signals.map_err(|source| Failure::System { what: "watch for signals", source })?;
    let opening = Opening {
        project: &project,
        config: &config,
        config_path,
        stage: args.stage.clone().filter(|stage| !stage.is_empty()),
        task: args.task.clone(),
        host: from,
        clock: Clock::system(),
        signals: &signals,
        observe: &|event| reporter.show(event),
    };
    if args.dry_run {
        let (value, code) = dry_run::preview(&opening)?;
        report::json(&value);
        return Ok(code);
    }
    let result = coordinator::run(&opening)?;
    reporter.close(&result);
    report::json(&result);
    Ok(result.exit_code())
}
