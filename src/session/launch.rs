//! What a session is started with, and the entry that supervises it to its end.

use std::any::Any;
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::guarded::Guarded;
use super::keeper::Keeper;
use super::output::{OutputBounds, Streams};
use super::result::ExecutionResult;
use super::run::{Started, Supervision, supervise};
use super::signals::Signals;
use super::stage::Owner;
use crate::agents::{StopSignal, Stream};
use crate::fs;

/// One agent process to be started.
#[derive(Clone, Debug)]
pub struct Launch {
    /// The program and its arguments. A name without a slash is looked for on the `PATH` in `env`.
    pub argv: Vec<OsString>,
    /// Its working directory.
    pub cwd: PathBuf,
    /// Its whole environment; nothing is inherited.
    pub env: BTreeMap<OsString, OsString>,
    /// The file it reads on standard input. What replaces this file during the session is not seen by it.
    pub stdin: PathBuf,
    /// The folder for what it writes its output into, files without a name; best on a disk, not in memory.
    pub scratch: PathBuf,
    /// A new log for its standard output, mode 0600: the supervisor's own bounded copy.
    pub stdout: PathBuf,
    /// The same for its standard error.
    pub stderr: PathBuf,
    /// How much of its output is kept.
    pub output: OutputBounds,
    /// The `runner` program, which is also the session's guardian.
    pub guardian: PathBuf,
    /// Its time limits.
    pub limits: Limits,
}

/// When and how a session is ended. Time the machine is suspended counts for none of the limits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// From the launch to the request to end.
    pub wall: Duration,
    /// From the last output or file change to the request to end; `None` for as long as the wall limit allows.
    pub idle_timeout: Option<Duration>,
    /// From the transition to the request to end.
    pub exit_grace: Duration,
    /// From the request to end to KILL.
    pub kill_grace: Duration,
    /// By which signal the leader and its group are asked to end; what left the group gets TERM.
    pub stop: StopSignal,
    /// How long the last output may be read once nothing of the tree lives.
    pub drain: Duration,
}

/// The task whose transition ends a session.
pub trait Watched {
    /// The task's row; its folder is watched, since a row is replaced and not written to.
    fn file(&self) -> &Path;
    /// Whether the row shows the session's transition. Asked whenever the row was touched.
    fn reached_transition(&mut self) -> bool;
    /// Takes the state lock, waiting at most two seconds for it, before the tree is ended; the answer is dropped when the tree
    /// is gone. Must start no process.
    fn hold_state(&mut self) -> Box<dyn Any>;
    /// Is shown the session's output as it is read, also what the bounded log leaves out: of each stream all bytes, in order.
    /// Called in this process, between two looks at the tree, so it must not take long.
    fn output(&mut self, _stream: Stream, _bytes: &[u8]) {}
    /// Is told that bytes of a stream are missing here: more was printed than could be read, or the agent cut it off.
    fn output_missed(&mut self, _stream: Stream) {}
}

/// Starts a session and supervises it; returns only when nothing of its process tree lives.
///
/// While it runs, this process is child subreaper (`PR_SET_CHILD_SUBREAPER`), so that whatever the session starts, in
/// whatever process group or session, becomes a child of this process when its parent ends. One tree at a time: a second
/// call waits. Children that this process had before, or that share its own session, are neither waited for nor signalled;
/// what else comes to it as a child meanwhile is taken for the session's. So another thread must not start a process in a
/// session of its own then, and process 1 of a container, to which strangers' orphans come, should not be the caller.
///
/// Out of reach are work handed to a daemon that was there before and processes of another user (named in
/// [`ExecutionResult::survivors`]); one in uninterruptible sleep delays the return until it wakes. On systems other than
/// Linux only the leader's process group is ended.
pub fn run(launch: &Launch, watched: &mut dyn Watched, signals: &Signals) -> ExecutionResult {
    let mut supervision = Supervision { watched: Some(watched), signals, signals_before: 0, limits: launch.limits };
    supervise(&mut || start(launch), &mut supervision, Owner::Guardian)
}

/// As [`run`], for a program that has no task: it ends by itself, at its time limit, or when a signal arrives.
pub fn run_alone(launch: &Launch, signals: &Signals) -> ExecutionResult {
    let mut supervision = Supervision { watched: None, signals, signals_before: 0, limits: launch.limits };
    supervise(&mut || start(launch), &mut supervision, Owner::Guardian)
}

fn start(launch: &Launch) -> Result<Started, String> {
    let (streams, [stdout, stderr]) = Streams::open(&launch.scratch, [&launch.stdout, &launch.stderr], launch.output)
        .map_err(|error| with_causes(&error))?;
    let stdin = fs::open_to_read(&launch.stdin).map_err(|error| with_causes(&error))?;
    let guarded = Guarded::start(launch, [stdin, stdout, stderr])?;
    Ok(Started { keeper: Keeper::Guardian(Box::new(guarded)), streams: Some(streams) })
}

fn with_causes(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(inner) = cause {
        text = format!("{text}: {inner}");
        cause = inner.source();
    }
    text
}
