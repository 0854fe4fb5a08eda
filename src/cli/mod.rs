//! The command line: what can be asked for, and the only reader of the process's environment.

mod agents;
mod demo;
mod host;
mod init;
mod recover;
mod run;
mod task;
mod usage;

use std::path::PathBuf;

use clap::error::ErrorKind;
use clap::{Args, CommandFactory, Parser, Subcommand};

use crate::coordinator::failure::Failure;
use crate::report;

/// Carries a plan to completion by starting one fresh agent process after another.
///
/// Without a subcommand the plan is run. What the run came to is one JSON object on standard
/// output; what a person reads while it works goes to standard error.
#[derive(Debug, Parser)]
#[command(name = "runner", version, verbatim_doc_comment, after_help = AFTER_HELP)]
struct Cli {
    #[command(flatten)]
    place: Place,
    #[command(flatten)]
    run: run::RunArgs,
    #[command(subcommand)]
    command: Option<Command>,
}

/// The heading of options that many subcommands share.
const COMMON: &str = "Common options";

const DEFAULT_CONFIG: &str = "runner.local.json";

const AFTER_HELP: &str = "\
Begin with `runner demo`, which shows a whole run, or `runner init`, which begins a plan of your own.

Exit codes:
  0      the plan is done, nothing is ready, or the session limit was reached
  2      usage, configuration, plan or repository is not in order, or a commit failed
  3      a task waits for a person
  4      a budget of the run is used up
  75     another run is at work, or a usage limit was met: try again later
  128+n  stopped by signal n";

/// Which project.
#[derive(Debug, Clone, Args)]
struct Place {
    /// The project's root, if it is not the enclosing git work tree
    #[arg(long, value_name = "DIR", global = true, help_heading = COMMON)]
    root: Option<PathBuf>,
    /// This machine's configuration; a relative path is taken from the root
    #[arg(long, value_name = "FILE", global = true, default_value = DEFAULT_CONFIG, help_heading = COMMON)]
    config: PathBuf,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// List the agents that can be started by their name, what this machine has of them, and their known limits
    Agents(agents::AgentsArgs),
    /// Lay down a small sample project, make it a git repository and run it with a scripted agent
    Demo(demo::DemoArgs),
    /// Lay down the skeleton of a plan in your repository; files that are there stay as they are
    Init(init::InitArgs),
    /// Set aside what a session left outside its scope, so that a run can go on; discards nothing
    Recover(recover::RecoverArgs),
    /// Guard one session; started by a coordinator only
    #[command(hide = true)]
    Guardian {
        /// The number of the descriptor that the coordinator handed down
        control: i32,
    },
    /// Show or move tasks: the commands of agents and of people
    Task(task::TaskArgs),
    /// Add up what the sessions on record used: processes, tokens, and the cost where agents stated it
    Usage(usage::UsageArgs),
}

/// Runs the program; the result is the process's exit code.
pub fn main() -> u8 {
    let host = host::host();
    host::arm_fault(&host);
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => return usage(&error),
    };
    if let Some(error) = misplaced(&cli) {
        return usage(&error);
    }
    let outcome = match &cli.command {
        None => run::run(&cli.place, &cli.run, &host),
        Some(Command::Agents(args)) => agents::run(args, &host),
        Some(Command::Demo(args)) => demo::run(args, &host),
        Some(Command::Init(args)) => init::run(&cli.place, args, &host),
        Some(Command::Recover(args)) => recover::run(&cli.place, args, &host),
        Some(Command::Guardian { control }) => return guardian(*control),
        Some(Command::Usage(args)) => usage::run(&cli.place, args),
        Some(Command::Task(args)) => return task::run(&cli.place, args, &host),
    };
    outcome.unwrap_or_else(|failure| failed(&failure))
}

/// An option that would silently mean nothing for the subcommand.
fn misplaced(cli: &Cli) -> Option<clap::Error> {
    let is_placed = cli.place.root.is_some() || cli.place.config.as_os_str() != DEFAULT_CONFIG;
    let text = match &cli.command {
        Some(_) if cli.run != run::RunArgs::default() => {
            "--stage, --task, --max-sessions, --dry-run, --events and --quiet are for a run of the plan, which has no subcommand"
        }
        Some(Command::Agents(_)) if is_placed => {
            "this lists the agents of the machine, whatever the project; leave --root and --config out"
        }
        Some(Command::Demo(_)) if is_placed => {
            "the demo brings a project and a configuration of its own; name its folder like this: runner demo DIR"
        }
        _ => return None,
    };
    Some(Cli::command().error(ErrorKind::ArgumentConflict, text))
}

/// Guards a session for the coordinator that started this process.
fn guardian(control: i32) -> u8 {
    if crate::session::guardian(control) {
        return 0;
    }
    report::note("`runner guardian` is started by a running coordinator only; start `runner` itself");
    crate::outcome::EXIT_FAILURE
}

fn failed(failure: &Failure) -> u8 {
    report::failure(&failure.reason());
    failure.exit_code()
}

/// Prints help and usage errors as clap words them; help is no error.
fn usage(error: &clap::Error) -> u8 {
    let text = error.render();
    if error.use_stderr() {
        report::note(text.to_string().trim_end());
        crate::outcome::EXIT_FAILURE
    } else {
        report::line(text.to_string().trim_end());
        0
    }
}
