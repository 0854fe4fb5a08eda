//! One session, from the chosen task to its commit and its record.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use crate::agents::{AgentFault, Dialect};
use crate::conversation::prepared::Prepared;
use crate::conversation::{Completed, Exchange};
use crate::evidence::{RecordStatus, RunRecord, Teardown};
use crate::fs;
use crate::lock::Lock;
use crate::observe::{Event, SessionName, usage};
use crate::plan::Work;
use crate::prompt::{Prompt, PromptFault};
use crate::session::{self, ExecutionResult, Launch, LimitAction, Limits, OutputBounds, Stream, Watched};
use crate::tracker::ready::Ready;
use crate::tracker::row::Status;
use crate::tracker::store::{LockedStore, Store, row_path};
use crate::verdict::{self, Facts, Verdict};

use super::aftermath::{self, Aftermath};
use super::checkpoint::{self, Checkpoint};
use super::claim::{self, Held};
use super::failure::Failure;
use super::ground::{self, Ground};
use super::leasing::{self, Granted};
use super::opening::{self, Opening};
use super::prepare::{self, Command};
use super::reading::{self, Listener};
use super::settle::{self, Settlement};
use super::{Run, aside, budget, limits, memo, records, tree_look, turns, verify};
use crate::config::{Config, OnViolation, Output};
use crate::workspace::{Area, Guarded, GuardedPath};

/// How much of each output stream a reason carries, in bytes.
const TAIL: usize = 2000;

/// How much of its standard output counts as what an agent said last, in bytes, where no dialect tells.
const LAST_WORDS: usize = 16_000;

/// How much more of it is looked through for secrets, so that none is cut in two.
const LEAD: usize = 8000;

/// How long the coordinator waits for the state lock before it ends a session; a pending record makes killing safe.
const HOLD: std::time::Duration = std::time::Duration::from_secs(2);

/// Folders of the root that the coordinator writes after a session, those above first.
const OURS: [&str; 8] = [
    "planning",
    "planning/tasks",
    "planning/stages",
    "state/tasks",
    "state/handoffs",
    "state/evidence",
    "state/issues",
    "state/commit_messages",
];

/// The same of git's own folders.
const GITS: [&str; 7] = ["", "objects", "objects/pack", "refs", "refs/heads", "logs", "runner"];

/// A session that is over, settled and recorded.
pub(super) struct Settled {
    looks: Looks,
}

/// What sessions must not touch, as it was around a session, and what the coordinator wrote there after it.
struct Looks {
    before: Guarded,
    after: Guarded,
    written: BTreeSet<String>,
}

impl Settled {
    /// Files of plan and state that neither the session nor the coordinator changed, but differ `now`.
    pub(super) fn foreign_changes(&self, now: &Guarded) -> Vec<String> {
        let Looks { before, after, written } = &self.looks;
        let since_after = now.differences(after);
        if since_after.is_empty() {
            return Vec::new();
        }
        // What was put back differs from what the session left, but not from what was there before it.
        let since_before: BTreeSet<GuardedPath> = now.differences(before).into_iter().map(|found| found.path).collect();
        let is_plan_or_state = |path: &GuardedPath| {
            path.area == Area::Root && ["planning", "state/tasks"].iter().any(|folder| path.path.is_in(folder))
        };
        let paths = since_after.into_iter().map(|found| found.path);
        paths
            .filter(|path| is_plan_or_state(path) && since_before.contains(path))
            .map(|path| path.to_string())
            .filter(|name| !written.contains(name))
            .collect()
    }
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
        parent: None,
        task: card.id.clone(),
        title: card.title.clone(),
        role: item.role.clone(),
        work: item.work,
    };
    let granted = leasing::acquire(run)?;
    let (name, command, prompt) = turns::plan_first(run, name, &card)?;
    let temporary = fs::temporary_folder(records::outside(run))?;
    let guarded = if granted.is_fresh { run.guard.take()? } else { guarded };
    let ground = ground::check(run, guarded)?;
    let baseline = verify::find_baseline(run, (&name, &card), &ground)?;
    let commit = ground.head.as_ref().map(|head| head.commit.to_string());
    let (held, mut opening) = claim::take(run, (name, card, commit), |run, held| {
        let spent_before = budget::before(run, &held.before, None);
        Opening::of(run, held, (&command, &granted, prompt, temporary.path()), spent_before)
    })?;
    opening.record.verification = baseline;
    if run.tally.launched() == 0 {
        let (tasks, done) = progress(run);
        (run.observe)(&Event::RunStarted { tasks, done });
    }
    let left = carry_out(run, (held, granted), (&command, opening, temporary));
    match conclude(run, left, &ground)? {
        Concluded::Settled(settled) => Ok(settled),
        Concluded::Missing(judged) => turns::go_on(run, judged, &ground),
    }
}

/// Runs the process of a session that is claimed and opened, if it has a prompt.
pub(super) fn carry_out(
    run: &mut Run<'_>,
    (held, granted): (Held, Granted),
    (command, opening, temporary): (&Command, Opening, tempfile::TempDir),
) -> Left {
    let count = run.tally.launched() + 1;
    (run.observe)(&Event::SessionStarted { session: held.name.clone(), count });
    let Opening { folder, mut record, prompt } = opening;
    let (over, exchange) = match prompt {
        Ok(prepared) => {
            let places = (command, temporary.path(), folder.as_path());
            let (result, exchange) = run_prepared(run, &held, prepared, (places, &mut record));
            records::cleaned(&mut record, fs::remove_temporary(temporary));
            (Over::Ran(result), exchange)
        }
        Err(fault) => {
            reading::nothing_ran(&mut record);
            (Over::NoPrompt(fault), None)
        }
    };
    Left { held, granted, over, folder, record, exchange }
}

/// How many tasks the chosen part has and how many are done.
fn progress(run: &Run<'_>) -> (usize, usize) {
    let tasks = run.part.tasks(&run.plan, &run.board);
    let done = tasks.iter().filter(|task| run.board.row(&task.id).status == Status::Done).count();
    (tasks.len(), done)
}

/// A session whose process is over, and of whose work nothing is known yet.
pub(super) struct Left {
    /// The claim.
    pub(super) held: Held,
    /// The workspace.
    pub(super) granted: Granted,
    /// How the process ended.
    pub(super) over: Over,
    /// Where what is known of it is written.
    pub(super) folder: PathBuf,
    /// Its record so far.
    pub(super) record: RunRecord,
    /// The conversation up to what it said last; none if no process came to be.
    pub(super) exchange: Option<Exchange>,
}

/// How the process part of a session ended.
pub(super) enum Over {
    /// There was a process, or at least a try at one.
    Ran(Box<ExecutionResult>),
    /// The prompt could not be made, so nothing was started.
    NoPrompt(PromptFault),
}

/// Runs the process of a prepared session, once; returns when nothing of its tree lives. With it comes the conversation, if there
/// was a process that could have said something.
fn run_prepared(
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
    let said = match said {
        // Without a dialect it is all that was printed.
        Some(said) if command.agent.dialect == Dialect::Plain => last_bytes(&said, LAST_WORDS).to_owned(),
        Some(said) => said,
        None => session::tail(&launch.stdout, LAST_WORDS),
    };
    (result, said)
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

/// A session that was looked at and judged.
pub(super) struct Judged {
    /// The session.
    pub(super) session: Left,
    /// What it did.
    pub(super) aftermath: Aftermath,
    /// What it comes to.
    pub(super) verdict: Verdict,
    verified: verify::Verified,
    after: Guarded,
}

/// What became of a session that was looked at.
pub(super) enum Concluded {
    /// It is settled.
    Settled(Settled),
    /// It left without a transition and may get a further process; nothing of it is settled, and nothing of its tree lives.
    Missing(Box<Judged>),
}

/// Looks at what the session did and judges it; settles it, unless it may go on in a further process.
pub(super) fn conclude(run: &mut Run<'_>, left: Left, ground: &Ground) -> Result<Concluded, Failure> {
    let store = run.desk.store().clone();
    let displaced = reopen(run, &left.folder)?;
    tree_look::collect(run, &left.held.name.agent)?;
    let locked = store.lock(crate::tracker::desk::VERB_PATIENCE)?;
    let judged = look(run, locked, left, (ground, displaced))?;
    if turns::is_missing(run, &judged) {
        return Ok(Concluded::Missing(Box::new(judged)));
    }
    settle_judged(run, judged, ground).map(Concluded::Settled)
}

/// Looks at everything the session could have changed since `ground`, and judges; verifies what it submitted.
fn look(
    run: &mut Run<'_>,
    locked: LockedStore<'_>,
    mut session: Left,
    (ground, displaced): (&Ground, Option<String>),
) -> Result<Judged, Failure> {
    let mut aftermath = aftermath::examine(run, &locked, &session.held, (ground, &session.folder))?;
    aftermath.tampering.extend(displaced);
    let after = run.guard.last();
    aftermath.findings.extend(clear_left_lock(run, &session.over)?);
    unstage(run, &mut session.record.teardown)?;
    // Verification may take as long as a session, and people wait for the lock.
    drop(locked);
    let Left { held, over, folder, record, .. } = &mut session;
    let judged = judge(run, held, (&aftermath, over, folder), record.agent_fault.as_ref());
    let verified = verify::submitted(run, (held, ground), (&aftermath, judged), (folder, &mut record.verification))?;
    let verdict = verified.verdict.clone();
    if let Over::Ran(result) = over {
        record.execution = Some((**result).clone());
    }
    Ok(Judged { session, aftermath, verdict, verified, after })
}

/// Settles, commits and records what was judged.
pub(super) fn settle_judged(run: &mut Run<'_>, judged: Judged, ground: &Ground) -> Result<Settled, Failure> {
    let store = run.desk.store().clone();
    let locked = store.lock(crate::tracker::desk::VERB_PATIENCE)?;
    let Judged { session, aftermath, verdict, verified, after } = judged;
    let Left { held, granted, over: _, folder, mut record, exchange } = session;
    let mut kept = aftermath.kept.clone();
    let is_review = held.name.work == Work::Review;
    let blocked_commit = clear_tree(run, (&aftermath, is_review), (&folder, &mut kept));
    let settlement = Settlement::of(run, &locked, &held, (&aftermath, &verdict))?.with_text(verified.report.as_ref());
    let (checkpoint, intent) = checkpoint::plan(run, &held, (&settlement, &aftermath), blocked_commit)?;
    let own_path = row_path(&held.card.stage, &held.card.id);
    let session = settle::write(run, &locked, held, (&intent, &settlement))?;
    drop(locked);
    turns::keep(run, (&session, &verdict), exchange);
    let pages = settle::render_views(run)?;
    let committed = checkpoint::make(run, checkpoint);
    verified.committed(run, ground, committed.commit.as_ref())?;
    record.commit_error.clone_from(&committed.error);
    leasing::give_back(run, granted, aftermath.for_lease(run, record.execution.as_ref()), &mut record);
    kept.append(&mut record.kept);
    let mut written: BTreeSet<String> = settlement.paths().map(str::to_owned).collect();
    written.extend(pages.into_iter().map(str::to_owned));
    written.insert(own_path);
    let looks = Looks { before: ground.guarded.clone(), after, written };
    finish(run, &session, (&settlement, &aftermath, &verdict), (&committed, &folder, kept, record))?;
    Ok(Settled { looks })
}

/// Makes sure that the session's folder is one again; says what the session had put in the place of a folder above it.
pub(super) fn reopen(run: &Run<'_>, folder: &Path) -> Result<Option<String>, Failure> {
    let root = run.project.root();
    let above: Vec<&Path> = folder.ancestors().take_while(|above| *above != root).collect();
    let mut displaced = None;
    for place in above.into_iter().rev() {
        if place.symlink_metadata().is_ok_and(|metadata| !metadata.is_dir()) {
            fs::make_way(place, &run.project.private_own().join("displaced"))?;
            displaced = displaced.or_else(|| place.strip_prefix(root).ok().map(|path| path.display().to_string()));
        }
        fs::open_folder_up(place);
    }
    for place in OURS {
        fs::open_folder_up(&root.join(place));
    }
    for stage in run.plan.stages() {
        fs::open_folder_up(&root.join("state/tasks").join(stage.id.as_str()));
    }
    for git in run.project.git().into_iter().flat_map(|git| [&git.own, &git.common]) {
        for place in GITS {
            fs::open_folder_up(&git.join(place));
        }
    }
    fs::make_private_folder(folder)?;
    Ok(displaced)
}

/// Moves out of the tree what has to leave it, if the configuration says so or a reviewer left it; gives the reason why no
/// commit can be made.
fn clear_tree(
    run: &mut Run<'_>,
    (aftermath, is_review): (&Aftermath, bool),
    (folder, kept): (&Path, &mut Vec<String>),
) -> Option<String> {
    // A contaminated work tree is kept as a whole, and nothing of it is in the next session's way.
    let reason = aftermath.no_commit_reason().filter(|_| !run.has_worktrees())?;
    let moves = run.config.on_violation == OnViolation::SetAside || (is_review && !aftermath.head_moved);
    if !moves || run.git.is_none() || aftermath.in_submodule {
        return Some(reason);
    }
    let displaced = aftermath.displaced();
    if displaced.is_empty() {
        return None;
    }
    match aside::move_out(run, &displaced, &folder.join("kept")) {
        Ok(done) => {
            kept.extend(done.into_lines());
            None
        }
        // The session is settled all the same: a claim that stays would have to be recovered.
        Err(failure) => Some(format!("{reason}; setting them aside failed: {}", failure.reason())),
    }
}

/// Removes the lock that the session's own git left on the index when it was ended with the rest, and says so.
fn clear_left_lock(run: &Run<'_>, over: &Over) -> Result<Vec<String>, Failure> {
    let (Some(git), Over::Ran(result)) = (&run.git, over) else { return Ok(Vec::new()) };
    // A lock on the root's index is a person's while sessions work elsewhere.
    if !result.survivors.is_empty() || run.site.tree.is_some() {
        return Ok(Vec::new());
    }
    let cleared = git.clear_own_locks(&memo::path(run.project))?;
    let said = |lock: PathBuf| format!("the session's own git left {} when it ended; it was removed", lock.display());
    Ok(cleared.into_iter().map(said).collect())
}

/// Takes back what the session staged: a commit holds exactly the session's files, and the next session starts from HEAD.
pub(super) fn unstage(run: &mut Run<'_>, teardown: &mut Teardown) -> Result<(), Failure> {
    // What is staged in the root while sessions work elsewhere is a person's.
    let Some(git) = run.git.as_mut().filter(|_| run.site.tree.is_none()) else { return Ok(()) };
    let staged = git.staged()?;
    if !staged.is_empty() {
        // A lock file that the session left is named when the commit meets it.
        let done = git.unstage(&staged).map_err(|error| Failure::from(error).reason());
        teardown.cleaned(done.map_err(|reason| format!("git's index could not be brought back to HEAD: {reason}")));
    }
    Ok(())
}

fn judge(
    run: &Run<'_>,
    held: &Held,
    (aftermath, over, folder): (&Aftermath, &Over, &Path),
    fault: Option<&AgentFault>,
) -> Verdict {
    let result = match over {
        Over::Ran(result) => result,
        Over::NoPrompt(fault) => return Verdict::Escalate { reason: format!("the prompt could not be made: {fault}") },
    };
    let tail = tails(run, ["stdout.log", "stderr.log"].map(|name| folder.join(name)));
    let verdict = verdict::judge(Facts {
        agent: &held.name.agent,
        work: held.name.work,
        after: &aftermath.row,
        tampering: &aftermath.tampering,
        violations: &aftermath.violations,
        changed: !aftermath.in_scope.is_empty(),
        result,
        fault,
        tail: &tail,
    });
    verdict.with_reason(|reason| run.redactor.text(reason).into_owned())
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

/// Writes the final record and tells observers what it came to.
fn finish(
    run: &mut Run<'_>,
    session: &SessionName,
    (settlement, aftermath, verdict): (&Settlement, &Aftermath, &Verdict),
    (committed, folder, kept, mut record): (&Checkpoint, &Path, Vec<String>, RunRecord),
) -> Result<(), Failure> {
    record.status = RecordStatus::Finished;
    record.finished_at = Some(run.clock.stamp());
    record.scope_violations.clone_from(&aftermath.violations);
    record.tampering.clone_from(&aftermath.tampering);
    record.findings.clone_from(&aftermath.findings);
    record.kept = kept;
    record.result = Some(settlement.describe(verdict));
    record.commit.clone_from(&committed.commit);
    record.commit_error.clone_from(&committed.error);
    records::weigh(&mut record, verdict, aftermath);
    let mut last = committed.closing(run.project);
    last.push(record.change(folder, &run.redactor)?);
    fs::change(&last, fs::Order::Together)?;
    records::publish(run, folder, &record);
    let wall_ms = record.execution.as_ref().map_or(0, |execution| execution.wall_ms);
    let good = matches!(verdict, Verdict::Stands(_)) && record.teardown.failed_stage(None).is_none();
    let (outcome, limited) = (settlement.outcome.clone(), record.is_limited());
    budget::tell_unknown(run, &record);
    limits::note(run, session, (&record, verdict));
    let spent = usage::spent(&record);
    (run.observe)(&Event::SessionEnded { session: session.clone(), outcome, good, limited, wall_ms, spent });
    for finding in aftermath.findings.iter().chain(&record.teardown.faults) {
        (run.observe)(&Event::Warning { text: finding.clone() });
    }
    if settlement.row.external_wait {
        let reason = settlement.row.reason.as_deref().unwrap_or_default();
        (run.observe)(&Event::waits_for_person(session.task.clone(), reason));
    }
    committed.tell(run);
    Ok(())
}
