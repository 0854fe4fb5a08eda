//! Runs a helper program such as `git` under the same supervision as an agent, and keeps what it printed within bounds.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::Path;
use std::time::Duration;

use super::direct::Direct;
use super::keeper::Keeper;
use super::launch::Limits;
use super::result::{Ended, Exit};
use super::run::{Started, Supervision, supervise};
use super::signals::Signals;
use super::spawn::Program;
use super::stage::Owner;
use super::tree::start_tree;
use crate::agents::StopSignal;

/// How much of a tool's standard output is kept: its beginning.
pub const STDOUT_KEPT: u64 = 8 << 20;
/// How much of a tool's standard error is kept: its end.
pub const STDERR_KEPT: u64 = 64 << 10;
/// From the request to end to KILL.
const KILL_GRACE: Duration = Duration::from_secs(2);

/// A program to be run to its end.
#[derive(Clone, Copy, Debug)]
pub struct Tool<'a> {
    /// The program and its arguments. A name without a slash is looked for on the `PATH` in `env`.
    pub argv: &'a [OsString],
    /// Its working directory.
    pub cwd: &'a Path,
    /// Its whole environment; nothing is inherited.
    pub env: &'a BTreeMap<OsString, OsString>,
    /// What it reads on standard input.
    pub stdin: &'a [u8],
    /// How long it may take.
    pub wall: Duration,
}

/// What a tool came to.
#[must_use]
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ToolOutput {
    /// How it ended.
    pub exit: Exit,
    /// The beginning of its standard output, at most [`STDOUT_KEPT`] bytes.
    pub stdout: Vec<u8>,
    /// There was more of it.
    pub stdout_truncated: bool,
    /// The end of its standard error, at most [`STDERR_KEPT`] bytes.
    pub stderr: Vec<u8>,
    /// It was ended since its time was over.
    pub timed_out: bool,
    /// It was ended since this signal arrived meanwhile.
    pub cancelled: Option<i32>,
}

/// A tool that came to nothing.
#[derive(Debug, thiserror::Error)]
pub enum ToolError {
    /// No process came to be.
    #[error("{reason}")]
    CouldNotStart {
        /// What was tried and why it failed, for a person.
        reason: String,
    },
    /// The scratch files for its input and output could not be used.
    #[error("cannot use a scratch file in the folder for temporary files; check TMPDIR and the free space there")]
    Scratch(#[from] io::Error),
}

/// Runs a tool to its end; returns only when nothing it started lives.
///
/// A signal that arrives meanwhile asks it to end. One received before is none of its business, since the commit that follows an
/// interruption is still made; but then the next one is the second, which kills at once.
pub fn run_tool(tool: &Tool<'_>, signals: &Signals) -> Result<ToolOutput, ToolError> {
    let mut stdin = tempfile::tempfile()?;
    stdin.write_all(tool.stdin)?;
    stdin.rewind()?;
    let (mut stdout, mut stderr) = (tempfile::tempfile()?, tempfile::tempfile()?);
    let mut streams = Some((stdin, stdout.try_clone()?, stderr.try_clone()?));
    let mut start = || {
        let (stdin, stdout, stderr) = streams.take().ok_or("the tool was started twice")?;
        let program = Program { argv: tool.argv, cwd: tool.cwd, env: tool.env, stdin, stdout, stderr, control: None };
        let tree = start_tree(program).map_err(|error| error.to_string())?;
        Ok(Started { keeper: Keeper::Own(Box::new(Direct::new(tree))), streams: None })
    };
    let grace = Duration::ZERO;
    let signals_before = signals.count();
    let kill_grace = if signals_before == 0 { KILL_GRACE } else { Duration::ZERO };
    let limits = Limits {
        wall: tool.wall,
        idle_timeout: None,
        exit_grace: grace,
        kill_grace,
        stop: StopSignal::Terminate,
        drain: grace,
    };
    let mut supervision = Supervision { watched: None, signals, signals_before, limits };
    let result = supervise(&mut start, &mut supervision, Owner::Coordinator);
    let exit = match (result.ended, result.exit) {
        (Ended::CouldNotStart { reason }, _) => return Err(ToolError::CouldNotStart { reason }),
        (_, Some(exit)) => exit,
        (_, None) => return Err(ToolError::CouldNotStart { reason: "the tool never started; try again".to_owned() }),
    };
    let written = stdout.metadata()?.len();
    Ok(ToolOutput {
        exit,
        stdout: part(&mut stdout, 0, STDOUT_KEPT)?,
        stdout_truncated: written > STDOUT_KEPT,
        stderr: last(&mut stderr, STDERR_KEPT)?,
        timed_out: result.timed_out,
        cancelled: result.cancelled,
    })
}

fn part(file: &mut File, from: u64, at_most: u64) -> io::Result<Vec<u8>> {
    file.seek(SeekFrom::Start(from))?;
    let mut bytes = Vec::new();
    file.take(at_most).read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// The last bytes of a file.
pub(crate) fn last(file: &mut File, at_most: u64) -> io::Result<Vec<u8>> {
    let length = file.metadata()?.len();
    part(file, length.saturating_sub(at_most), at_most)
}
