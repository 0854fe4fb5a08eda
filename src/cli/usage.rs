//! `runner usage`: what the sessions on record used.

use clap::{Args, ValueEnum};

use crate::clock::Clock;
use crate::coordinator::failure::Failure;
use crate::observe::usage::{self, By};
use crate::plan::Plan;
use crate::report;

use super::{Place, host};

/// Which sessions, and how to put them together.
#[derive(Debug, Args)]
pub(super) struct UsageArgs {
    /// One row for each run, task, stage, role or agent
    #[arg(long, value_name = "WHAT", value_enum, default_value_t = ByArg::Task)]
    by: ByArg,
    /// Only sessions that began since then: a day, an instant, or how long ago (7d, 12h)
    #[arg(long, value_name = "WHEN")]
    since: Option<String>,
    /// Answer with one JSON object
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum ByArg {
    Run,
    Task,
    Stage,
    Role,
    Agent,
}

impl From<ByArg> for By {
    fn from(by: ByArg) -> Self {
        match by {
            ByArg::Run => Self::Run,
            ByArg::Task => Self::Task,
            ByArg::Stage => Self::Stage,
            ByArg::Role => Self::Role,
            ByArg::Agent => Self::Agent,
        }
    }
}

/// Adds up the records and shows the sums. Reads only, so it works during a run too.
pub(super) fn run(place: &Place, args: &UsageArgs) -> Result<u8, Failure> {
    let since = args.since.as_deref().map(|text| usage::since(text, Clock::system().now()));
    let since = since.transpose().map_err(|error| Failure::Usage { what: format!("--since: {error}") })?;
    let project = host::project(place, None)?;
    let mut found = usage::read(&project.root().join("state/runs"))?;
    if let Some(at) = since {
        usage::retain_since(&mut found, at);
    }
    let by = By::from(args.by);
    // Only stages need the plan, and a plan with a fault must not hide what was used.
    let plan = if by == By::Stage { Some(Plan::load(&project)?) } else { None };
    let stage_of = |task: &_| plan.as_ref().and_then(|plan| plan.task(task)).map(|card| card.stage.clone());
    let used = usage::usage(&found, by, &stage_of);
    if args.json {
        report::json(&used);
    } else {
        report::usage(&used);
    }
    Ok(0)
}
