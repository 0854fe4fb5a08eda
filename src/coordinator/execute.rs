//! The process of one session, from its prompt to the end of its tree, and what it printed last.

use std::path::{Path, PathBuf};

use crate::agents::WORDS_KEPT;
use crate::config::{Config, Output};
use crate::conversation::prepared::Prepared;
use crate::conversation::{Completed, Exchange};
use crate::evidence::RunRecord;
use crate::lock::Lock;
use crate::observe::Event;
use crate::prompt::Prompt;
use crate::session::{self, ExecutionResult, Launch, LimitAction, Limits, OutputBounds, Stream, Watched};
use crate::tracker::store::Store;

use super::claim::Held;
use super::prepare::{self, Command};
use super::reading::Listener;
use super::{Run, opening, records};

/// How much of each output stream a reason carries, in bytes.
const TAIL: usize = 2000;

/// How much more of it is looked through for secrets, so that none is cut in two.
const LEAD: usize = 8000;

/// How long the coordinator waits for the state lock before it ends a session; a pending record makes killing safe.
const HOLD: std::time::Duration = std::time::Duration::from_secs(2);

/// Runs the process of a prepared session, once; returns when nothing of its tree lives. With it comes the conversation, if there
/// was a process that could have said something.
pub(super) fn run_prepared(
    run: &Run<'_>,
    held: &Held,
    prepared: Prepared,
    (places, record): ((&Command, &Path, &Path), &mut RunRecord),
) -> (Box<ExecutionResult>, Option<Exchange>) {
    let completed = prepared.run(&held.name.run_id(), |prompt| {
        let (result, said) = execute(run, held, prompt, (places, record));
        // Nobody could have said anything who never was.
        if result.pid.is_some() { Ok((result, said)) } else { Err(result) }
    });
    match completed {
        Ok(Completed { exchange, result }) => (result, Some(exchange)),
        Err(result) => (result, None),
    }
}

/// What the process of a session is started with.
fn launch(
    run: &Run<'_>,
    held: &Held,
    prompt: &Prompt,
    (command, temporary, folder): (&Command, &Path, &Path),
) -> Launch {
    let places = (run.project, run.config, run.host);
    Launch {
        argv: command.to_exec(&prompt.text),
        cwd: run.workspace_root(),
        env: prepare::environment(places, (&held.name, command), &held.token, temporary),
        stdin: opening::prompt_file(folder),
        scratch: folder.to_owned(),
        stdout: folder.join("stdout.log"),
        stderr: folder.join("stderr.log"),
        output: output_bounds(run.config),
        guardian: run.host.binary.clone(),
        limits: Limits {
            wall: run.config.timeout,
            idle_timeout: run.config.idle_timeout,
            exit_grace: run.config.exit_grace,
            kill_grace: run.config.kill_grace,
            stop: command.agent.stop_signal(),
            drain: run.config.drain,
        },
    }
}

/// Runs the process of a session to its end, and gives what its agent said last.
fn execute(
    run: &Run<'_>,
    held: &Held,
    prompt: &Prompt,
    (places, record): ((&Command, &Path, &Path), &mut RunRecord),
) -> (Box<ExecutionResult>, String) {
    let (command, _, _) = places;
    let launch = launch(run, held, prompt, places);
    let mut watch = RowWatch {
        file: run.project.row(&held.card.stage, &held.card.id),
        store: run.desk.store().clone(),
        held,
        lock_path: run.desk.store().lock_path(),
        listener: Listener::new(command),
    };
    crate::fault::point("session:launch");
    (run.observe)(&Event::AttemptStarted { session: held.name.clone(), attempt: 1 });
    let result = Box::new(session::run(&launch, &mut watch, run.signals));
    crate::fault::point("session:over");
    records::destroyed(&mut record.teardown, &result);
    let said = watch.listener.note(record, &result, &run.clock.local());
    (result, said.unwrap_or_else(|| session::tail(&launch.stdout, WORDS_KEPT)))
}

/// How much of a program's output is kept.
pub(super) fn output_bounds(config: &Config) -> OutputBounds {
    let Output { stdout, stderr, combined, ends_session } = config.output;
    let action = if ends_session { LimitAction::End } else { LimitAction::Keep };
    OutputBounds { stdout, stderr, combined, action }
}

/// Lets the supervisor see the task's transition, and the agent's dialect its output.
struct RowWatch<'h> {
    file: PathBuf,
    store: Store,
    held: &'h Held,
    lock_path: PathBuf,
    listener: Listener,
}

impl Watched for RowWatch<'_> {
    fn file(&self) -> &Path {
        &self.file
    }

    fn reached_transition(&mut self) -> bool {
        // A row that cannot be read right now is no transition; the look after the session says what became of it.
        self.store
            .read_row(&self.held.card.stage, &self.held.card.id)
            .is_ok_and(|row| row.is_settled_by(&self.held.name.agent, self.held.name.work))
    }

    fn hold_state(&mut self) -> Box<dyn std::any::Any> {
        Box::new(Lock::take_within(&self.lock_path, HOLD).ok())
    }

    fn output(&mut self, stream: Stream, bytes: &[u8]) {
        self.listener.hear(stream, bytes);
    }

    fn output_missed(&mut self, stream: Stream) {
        self.listener.miss(stream);
    }
}

/// The ends of both output streams without secrets, standard error last.
pub(super) fn tails(run: &Run<'_>, logs: [PathBuf; 2]) -> String {
    let parts = logs.map(|log| {
        let tail = session::tail(&log, TAIL + LEAD);
        last_bytes(&run.redactor.text(&tail), TAIL).to_owned()
    });
    parts.iter().map(|part| part.trim_end()).filter(|part| !part.is_empty()).collect::<Vec<_>>().join("\n")
}

/// The last bytes of a text, at most `max`, from the beginning of a character.
fn last_bytes(text: &str, max: usize) -> &str {
    let from = text.len().saturating_sub(max);
    let from = (from..=text.len()).find(|at| text.is_char_boundary(*at)).unwrap_or(text.len());
    &text[from..]
}
