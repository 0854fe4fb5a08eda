//! Connects the commit room's wish to run a program with the supervision that every program gets.

use std::time::Duration;

use crate::commit::{Call, Program, ProgramOutput};
use crate::session::{Signals, Tool, run_tool};

/// How long the `git` program or a hook may take before it is ended; a signing program that waits for a person hits it.
const PATIENCE: Duration = Duration::from_mins(2);

/// Runs programs under session supervision.
#[derive(Debug, Clone, Copy)]
pub(super) struct GitProgram;

impl Program for GitProgram {
    fn run(&self, call: &Call<'_>) -> Result<ProgramOutput, String> {
        let tool = Tool { argv: &call.argv, cwd: call.cwd, env: &call.env, stdin: &call.stdin, wall: PATIENCE };
        let output = run_tool(&tool, &Signals::none()).map_err(|error| error.to_string())?;
        let ended = if output.timed_out {
            format!("timed out after {} s", PATIENCE.as_secs())
        } else {
            output.exit.to_string()
        };
        let success = !output.timed_out && output.exit.is_success();
        Ok(ProgramOutput { success, ended, stdout: output.stdout, stderr: output.stderr })
    }
}
