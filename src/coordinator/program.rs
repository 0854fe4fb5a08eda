//! Connects the commit room's wish to run a program with the supervision that every program gets.

use std::time::Duration;

use crate::commit::{Call, Program, ProgramOutput};
use crate::session::{Signals, Tool, run_tool, signal_name};

/// How long the `git` program or a hook may take before it is ended; a signing program that waits for a person hits it.
const PATIENCE: Duration = Duration::from_mins(2);

/// The same once a signal asked the coordinator to end: whoever sent it waits.
const HURRY: Duration = Duration::from_secs(30);

/// Runs programs under session supervision. The first signal asks a running one to end, the second ends it at once, and after
/// that none is started.
#[derive(Debug, Clone)]
pub(super) struct GitProgram {
    /// The signals that stop the coordinator.
    pub(super) signals: Signals,
}

impl Program for GitProgram {
    fn run(&self, call: &Call<'_>) -> Result<ProgramOutput, String> {
        let wall = match self.signals.count() {
            0 => PATIENCE,
            1 => HURRY,
            _ => return Err("not started, since a second signal asked to end at once".to_owned()),
        };
        let tool = Tool { argv: &call.argv, cwd: call.cwd, env: &call.env, stdin: &call.stdin, wall };
        let output = run_tool(&tool, &self.signals).map_err(|error| error.to_string())?;
        let ended = match output.cancelled {
            Some(signal) => format!("ended, since {} arrived", signal_name(signal).unwrap_or("a signal")),
            None if output.timed_out => format!("timed out after {} s", wall.as_secs()),
            None => output.exit.to_string(),
        };
        let success = !output.timed_out && output.exit.is_success();
        Ok(ProgramOutput { success, ended, stdout: output.stdout, stderr: output.stderr })
    }
}
