//! One session, from the chosen task to its commit and its record.

use std::path::{Path, PathBuf};

use crate::evidence::{PartRecord, RECORD_SCHEMA, RecordStatus, RunRecord};
use crate::fs;
use crate::lock::Lock;
use crate::observe::{Event, SessionName};
use crate::plan::{TaskCard, Work};
use crate::prompt::{self, Assignment, Prompt, PromptFault, Sources};
use crate::session::{self, ExecutionResult, Launch, LimitAction, Limits, OutputBounds, Watched};
use crate::tracker::ready::Ready;
use crate::tracker::row::{Row, Status};
use crate::tracker::store::Store;
use crate::verdict::{self, Facts, Verdict};

use super::aftermath::{self, Aftermath};
use super::checkpoint::{self, Checkpoint};
use super::claim::{self, Held};
use super::failure::Failure;
use super::ground::{self, Ground};
use super::prepare::{self, Command};
use super::settle::{self, Settlement};
use super::{Run, aside};
use crate::config::{Config, OnViolation, Output};
use crate::workspace::Guarded;

/// How much of each output stream a reason carries, in bytes.
const TAIL: usize = 2000;

/// How long the coordinator waits for the state lock before it ends a session; a pending record makes killing safe.
const HOLD: std::time::Duration = std::time::Duration::from_secs(2);

/// A session that is over, settled and recorded.
pub(super) struct Settled {
    /// Why its commit could not be made.
    pub(super) commit_error: Option<String>,
}

/// Runs one session of the chosen task to its very end.
pub(super) fn run_one(run: &mut Run<'_>, item: &Ready, guarded: Guarded) -> Result<Settled, Failure> {
    let card = run.plan.task(&item.id).cloned().ok_or_else(|| Failure::UnknownPart {
        kind: "task",
        name: item.id.to_string(),
        nearest: String::new(),
    })?;
    let name = SessionName {
        agent: prepare::fresh_agent(&item.role)?,
        number: 1,
        task: card.id.clone(),
        title: card.title.clone(),
        role: item.role.clone(),
        work: item.work,
    };
    let command = prepare::command(run.project, run.config, run.host, &name)?;
    let ground = ground::check(run, guarded)?;
    let gathered = gather(run, &name, &card);
    if let Err(fault @ PromptFault::Configuration(_)) = gathered {
        return Err(fault.into());
    }
    let commit = ground.head.as_ref().map(|head| head.commit.to_string());
    let held = claim::take(run, name, card, commit)?;
    let max = run.config.max_prompt_chars;
    let prompt = gathered.and_then(|parts| {
        prompt::assemble(&assignment(run, &held.name, &held.card), &parts, &packet_row(&held.row), max)
    });
    if run.tally.launched == 0 {
        let (tasks, done) = progress(run);
        (run.observe)(&Event::RunStarted { tasks, done });
    }
    run.tally.launched += 1;
    run.tally.last_session = Some(held.name.agent.clone());
    (run.observe)(&Event::SessionStarted { session: held.name.clone(), count: run.tally.launched });
    let folder = run.project.session(&held.name.agent, held.name.number);
    fs::make_private_folder(&folder)?;
    let mut record = record(run, &held, &command);
    let over = match prompt {
        Ok(prompt) => Over::Ran(Box::new(execute(run, &held, (&command, &prompt), (&folder, &mut record))?)),
        Err(fault) => Over::NoPrompt(fault),
    };
    conclude(run, held, &ground, (over, folder, record))
}

/// How many tasks the chosen part has and how many are done.
fn progress(run: &Run<'_>) -> (usize, usize) {
    let tasks = run.part.tasks(&run.plan, &run.board);
    let done = tasks.iter().filter(|task| run.board.row(&task.id).status == Status::Done).count();
    (tasks.len(), done)
}

/// How the process part of a session ended.
enum Over {
    /// There was a process, or at least a try at one.
    Ran(Box<ExecutionResult>),
    /// The prompt could not be made, so nothing was started.
    NoPrompt(PromptFault),
}

fn assignment<'n>(run: &'n Run<'_>, name: &'n SessionName, card: &'n TaskCard) -> Assignment<'n> {
    Assignment { agent: &name.agent, role: &name.role, card, work: name.work, runner_bin: &run.host.binary }
}

fn gather(run: &Run<'_>, name: &SessionName, card: &TaskCard) -> Result<prompt::Parts, PromptFault> {
    let row = run.board.row(&card.id);
    let sources = Sources {
        project: run.project,
        config: run.config,
        handoff: row.handoff.as_deref(),
        evidence: row.evidence.as_deref().filter(|_| name.work == Work::Review),
    };
    prompt::gather(&sources, &assignment(run, name, card))
}

/// The row as an agent sees it: without the claim and without the whole history.
pub(super) fn packet_row(row: &Row) -> String {
    let shown = serde_json::json!({
        "status": row.status, "owner": row.owner, "reviewer": row.reviewer, "attempts": row.attempts,
        "handoff": row.handoff, "evidence": row.evidence, "reason": row.reason,
    });
    serde_json::to_string_pretty(&shown).unwrap_or_default()
}

fn record(run: &Run<'_>, held: &Held, command: &Command) -> RunRecord {
    RunRecord {
        schema: RECORD_SCHEMA,
        run_id: held.name.run_id(),
        agent: held.name.agent.clone(),
        session: held.name.number,
        task: held.name.task.clone(),
        role: held.name.role.clone(),
        action: held.name.work,
        status: RecordStatus::Running,
        started_at: run.clock.stamp(),
        finished_at: None,
        argv: command.argv.clone(),
        prompt_characters: 0,
        prompt_parts: Vec::new(),
        execution: None,
        scope_violations: Vec::new(),
        tampering: Vec::new(),
        findings: Vec::new(),
        kept: Vec::new(),
        result: None,
        commit: None,
        commit_error: None,
    }
}

/// Writes the prompt and the record, then runs the process; returns when nothing of its tree lives.
fn execute(
    run: &Run<'_>,
    held: &Held,
    (command, prompt): (&Command, &Prompt),
    (folder, record): (&Path, &mut RunRecord),
) -> Result<ExecutionResult, Failure> {
    record.prompt_characters = prompt.text.chars().count();
    record.prompt_parts =
        prompt.sizes.iter().map(|size| PartRecord { part: size.part.clone(), characters: size.characters }).collect();
    let prompt_file = folder.join("prompt.md");
    fs::replace_private(&prompt_file, prompt.text.as_bytes())?;
    fs::make_folder(&run.project.root().join("state/commit_messages"))?;
    record.write(folder)?;
    let temporary = fs::temporary_folder(outside(run))?;
    let places = (run.project, run.config, run.host);
    let launch = Launch {
        argv: command.to_exec(),
        cwd: run.project.root().to_owned(),
        env: prepare::environment(places, &held.name, &held.token, temporary.path()),
        stdin: prompt_file,
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
            drain: run.config.drain,
        },
    };
    let mut watch = RowWatch {
        file: run.project.row(&held.card.stage, &held.card.id),
        store: run.desk.store().clone(),
        held,
        lock_path: run.desk.store().lock_path(),
    };
    crate::fault::point("session:launch");
    let result = session::run(&launch, &mut watch, run.signals);
    crate::fault::point("session:over");
    Ok(result)
}

fn output_bounds(config: &Config) -> OutputBounds {
    let Output { stdout, stderr, combined, ends_session } = config.output;
    let action = if ends_session { LimitAction::End } else { LimitAction::Keep };
    OutputBounds { stdout, stderr, combined, action }
}

/// The folder for temporary folders; one inside the root would make a session's scratch files changes of the tree.
fn outside<'r>(run: &'r Run<'_>) -> &'r Path {
    let given = run.host.temporary.as_path();
    let is_inside = given.canonicalize().is_ok_and(|given| given.starts_with(run.project.root()));
    if is_inside { Path::new("/tmp") } else { given }
}

/// Lets the supervisor see the task's transition.
struct RowWatch<'h> {
    file: PathBuf,
    store: Store,
    held: &'h Held,
    lock_path: PathBuf,
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
}

/// Looks at what the session did, judges, settles, commits and records.
fn conclude(
    run: &mut Run<'_>,
    held: Held,
    ground: &Ground,
    (over, folder, mut record): (Over, PathBuf, RunRecord),
) -> Result<Settled, Failure> {
    let store = run.desk.store().clone();
    let locked = store.lock(crate::tracker::desk::VERB_PATIENCE)?;
    let aftermath = aftermath::examine(run, &locked, &held, (ground, &folder))?;
    unstage(run)?;
    let verdict = judge(&held, &aftermath, &over, &folder);
    if let Over::Ran(result) = &over {
        record.execution = Some((**result).clone());
    }
    let mut kept = aftermath.kept.clone();
    let keeps_tree_clean = run.config.on_violation == OnViolation::SetAside;
    let displaced = aftermath.displaced();
    if keeps_tree_clean && !displaced.is_empty() {
        kept.extend(aside::move_out(run, &displaced, &folder.join("kept"))?);
    }
    let blocked_commit = aftermath.no_commit_reason().filter(|_| !keeps_tree_clean);
    let settlement = Settlement::of(run, &locked, &held, (&aftermath, &verdict))?;
    let checkpoint = checkpoint::plan(run, &held, (&settlement, &aftermath), blocked_commit)?;
    let session = settle::write(run, &locked, held, &settlement)?;
    drop(locked);
    settle::render_views(run)?;
    let committed = checkpoint::make(run, checkpoint);
    finish(run, &session, (&settlement, &aftermath, &verdict), (&committed, &folder, kept, record))
}

/// Takes back what the session staged: a commit holds exactly the session's files, and the next session starts from HEAD.
fn unstage(run: &mut Run<'_>) -> Result<(), Failure> {
    let Some(git) = &mut run.git else { return Ok(()) };
    let staged = git.staged()?;
    // A lock file that the session left is named when the commit meets it.
    if !staged.is_empty() && git.unstage(&staged).is_err() {
        (run.observe)(&Event::Warning { text: "git's index could not be brought back to HEAD".to_owned() });
    }
    Ok(())
}

fn judge(held: &Held, aftermath: &Aftermath, over: &Over, folder: &Path) -> Verdict {
    let result = match over {
        Over::Ran(result) => result,
        Over::NoPrompt(fault) => return Verdict::Escalate { reason: format!("the prompt could not be made: {fault}") },
    };
    let tail = tails(folder);
    verdict::judge(Facts {
        agent: &held.name.agent,
        work: held.name.work,
        after: &aftermath.row,
        tampering: &aftermath.tampering,
        violations: &aftermath.violations,
        result,
        tail: &tail,
    })
}

/// The ends of both output streams, standard error last.
fn tails(folder: &Path) -> String {
    let parts = ["stdout.log", "stderr.log"].map(|name| session::tail(&folder.join(name), TAIL));
    parts.iter().map(|part| part.trim_end()).filter(|part| !part.is_empty()).collect::<Vec<_>>().join("\n")
}

/// Writes the final record and tells observers what it came to.
fn finish(
    run: &mut Run<'_>,
    session: &SessionName,
    (settlement, aftermath, verdict): (&Settlement, &Aftermath, &Verdict),
    (committed, folder, kept, mut record): (&Checkpoint, &Path, Vec<String>, RunRecord),
) -> Result<Settled, Failure> {
    record.status = RecordStatus::Finished;
    record.finished_at = Some(run.clock.stamp());
    record.scope_violations.clone_from(&aftermath.violations);
    record.tampering.clone_from(&aftermath.tampering);
    record.findings.clone_from(&aftermath.findings);
    record.kept = kept;
    record.result = Some(settlement.describe(verdict));
    record.commit.clone_from(&committed.commit);
    record.commit_error.clone_from(&committed.error);
    record.write(folder)?;
    let wall_ms = record.execution.as_ref().map_or(0, |execution| execution.wall_ms);
    let good = matches!(verdict, Verdict::Stands(_));
    let outcome = settlement.outcome.clone();
    (run.observe)(&Event::SessionEnded { session: session.clone(), outcome, good, wall_ms });
    for finding in &aftermath.findings {
        (run.observe)(&Event::Warning { text: finding.clone() });
    }
    if settlement.row.external_wait {
        let reason = settlement.row.reason.clone().unwrap_or_default();
        (run.observe)(&Event::WaitsForPerson { task: session.task.clone(), reason });
    }
    run.tally.commit_error.clone_from(&committed.error);
    if let Some(commit) = &committed.commit {
        run.tally.last_commit = Some(commit.clone());
        (run.observe)(&Event::Committed { commit: commit.clone(), subject: committed.subject.clone() });
    }
    Ok(Settled { commit_error: committed.error.clone() })
}
