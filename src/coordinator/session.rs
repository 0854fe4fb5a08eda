//! One session, from the chosen task to its commit and its record.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use crate::agents::AgentFault;
use crate::conversation::Exchange;
use crate::evidence::{RecordStatus, RunRecord};
use crate::fs;
use crate::observe::{Event, SessionName, usage};
use crate::plan::Work;
use crate::prompt::PromptFault;
use crate::session::ExecutionResult;
use crate::tracker::ready::Ready;
use crate::tracker::row::Status;
use crate::tracker::store::{LockedStore, row_path};
use crate::verdict::{self, Facts, Verdict};

use super::aftermath::{self, Aftermath};
use super::checkpoint::{self, Checkpoint};
use super::claim::{self, Held};
use super::failure::Failure;
use super::ground::{self, Ground};
use super::leasing::{self, Granted};
use super::opening::Opening;
use super::prepare::{self, Command};
use super::reading;
use super::settle::{self, Settlement};
use super::{Run, budget, execute, limits, records, tidy, tree_look, turns, verify};
use crate::workspace::{Area, Guarded, GuardedPath};

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
            let (result, exchange) = execute::run_prepared(run, &held, prepared, (places, &mut record));
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
    let displaced = tidy::reopen(run, &left.folder)?;
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
    aftermath.findings.extend(tidy::clear_left_lock(run, &session.over)?);
    tidy::unstage(run, &mut session.record.teardown)?;
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
    let blocked_commit = tidy::clear_tree(run, (&aftermath, is_review), (&folder, &mut kept));
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
    let tail = execute::tails(run, ["stdout.log", "stderr.log"].map(|name| folder.join(name)));
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
    let verified = record.verification.as_ref().and_then(|verified| changed_meanwhile(&verified.changed, session));
    for finding in aftermath.findings.iter().chain(&record.teardown.faults).chain(&verified) {
        (run.observe)(&Event::Warning { text: finding.clone() });
    }
    if settlement.row.external_wait {
        let reason = settlement.row.reason.as_deref().unwrap_or_default();
        (run.observe)(&Event::waits_for_person(session.task.clone(), reason));
    }
    committed.tell(run);
    Ok(())
}

/// What a person should hear of files that differed after the commands of a verification: they may be a person's own edits.
fn changed_meanwhile(changed: &[String], session: &SessionName) -> Option<String> {
    const NAMED: usize = 5;
    let SessionName { agent, number, .. } = session;
    (!changed.is_empty()).then(|| {
        format!(
            "files changed while commands verified {}, by these or by hand; they were put back, and what they held is kept below \
             state/runs/{agent}/{number}/verify: {}",
            session.task,
            verdict::names(changed, NAMED)
        )
    })
}
