//! The command line: what can be asked for, and the only reader of the process's environment.

mod demo;
mod host;
mod init;
mod recover;
mod run;
mod task;

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand};

use crate::coordinator::failure::Failure;
use crate::report;

/// Carries a plan to completion by starting one fresh agent process after another.
///
/// Without a subcommand the plan is run. What the run came to is one JSON object on standard output; what a person reads
/// while it works goes to standard error.
#[derive(Debug, Parser)]
#[command(name = "runner", version, args_conflicts_with_subcommands = false)]
struct Cli {
    #[command(flatten)]
    place: Place,
    #[command(flatten)]
    run: run::RunArgs,
    #[command(subcommand)]
    command: Option<Command>,
}

/// Which project.
#[derive(Debug, Clone, Args)]
struct Place {
    /// The project's root; otherwise the enclosing git work tree that holds planning/
    #[arg(long, value_name = "DIR", global = true)]
    root: Option<PathBuf>,
    /// The machine's configuration, relative to the root
    #[arg(long, value_name = "FILE", global = true, default_value = "runner.local.json")]
    config: PathBuf,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Lay down a small sample project, make it a git repository and run it with a scripted agent
    Demo(demo::DemoArgs),
    /// Lay down the skeleton of a plan in your repository
    Init(init::InitArgs),
    /// Set changes aside that an interrupted or violating session left, so that a run can go on; discards nothing
    Recover(recover::RecoverArgs),
    /// Guard one session; started by a coordinator only
    #[command(hide = true)]
    Guardian {
        /// The number of the descriptor that the coordinator handed down
        control: i32,
    },
    /// Change or show one task; what agents and people use
    Task(task::TaskArgs),
}

/// Runs the program; the result is the process's exit code.
pub fn main() -> u8 {
    let host = host::host();
    host::arm_fault(&host);
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => return usage(&error),
    };
    let outcome = match &cli.command {
        None => run::run(&cli.place, &cli.run, &host),
        Some(Command::Demo(args)) => demo::run(args, &host),
        Some(Command::Init(args)) => init::run(&cli.place, args, &host),
        Some(Command::Recover(args)) => recover::run(&cli.place, args, &host),
        Some(Command::Guardian { control }) => return guardian(*control),
        Some(Command::Task(args)) => return task::run(&cli.place, args, &host),
    };
    outcome.unwrap_or_else(|failure| failed(&failure))
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
