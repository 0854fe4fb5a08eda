//! Further processes for a session that left without a transition, and the conversation that a rework goes on from.
//!
//! A further process is a session of its own, with its own number, folder, record and secret. It goes on under the same claim,
//! and nothing is settled or committed in between: the last one is judged by all that changed since before the first.

use crate::config::{Config, Rework};
use crate::conversation::prepared::Prepared;
use crate::conversation::{Completed, Coordination, Exchange, Halted, Outcome, Request, Turn, coordinate};
use crate::evidence::RecordStatus;
use crate::fs;
use crate::observe::{Event, SessionName, usage};
use crate::plan::{TaskCard, Work};
use crate::prompt::{Document, Kind, PartSize, Parts, Prompt, PromptFault};
use crate::session::{self, Ended, ExecutionResult, Exit};
use crate::tracker::row::{Action, Row, Status};
use crate::verdict::Verdict;

use super::failure::Failure;
use super::ground::Ground;
use super::opening::Opening;
use super::planning::{self, Places, Session};
use super::prepare::Command;
use super::session::{Concluded, Judged, Left, Over, Settled};
use super::{Run, budget, claim, limits, records};

/// How much of what the process before printed stands in a handoff, in bytes.
const LAST_WORDS: usize = 4000;

/// Plans the first process of a session. A rework goes on from the conversation of the session that submitted, if it is wanted,
/// known, and within the budget with it; else it is fresh and has its handoff.
pub(super) fn plan_first(
    run: &Run<'_>,
    mut name: SessionName,
    card: &TaskCard,
) -> Result<(SessionName, Command, Result<Prepared, PromptFault>), Failure> {
    let before = run.board.row(&card.id);
    let row = planning::claimed(&name, before, &run.clock.stamp())?;
    let workspace = run.workspace_root();
    let places = Places::of(run, &workspace);
    if let Some(source) = submitted(run, &name, before) {
        name.parent = Some(source.run_id().to_owned());
        let session = Session { name: &name, card, row: &row, left: None };
        if let (command, prompt @ Ok(_)) = planning::plan_session(places, session, Some(source)).into_runnable()? {
            return Ok((name, command, prompt));
        }
        name.parent = None;
    }
    let session = Session { name: &name, card, row: &row, left: None };
    let (command, prompt) = planning::plan_session(places, session, None).into_runnable()?;
    Ok((name, command, prompt))
}

/// The conversation of the session whose work was just rejected.
fn submitted<'r>(run: &'r Run<'_>, name: &SessionName, row: &Row) -> Option<&'r Exchange> {
    let is_rework = name.work == Work::Claim && row.last_event().is_some_and(|event| event.action == Action::Reject);
    run.exchanges.get(&name.task).filter(|_| is_rework && run.config.rework == Rework::Continue)
}

/// Keeps the conversation of an executor whose work can be rejected, for as long as it can be and this run lives; it is written
/// nowhere.
pub(super) fn keep(run: &mut Run<'_>, (session, verdict): (&SessionName, &Verdict), exchange: Option<Exchange>) {
    let is_over = match (session.work, verdict) {
        (Work::Claim, Verdict::Stands(_) | Verdict::SendBack { .. }) if run.config.rework == Rework::Continue => {
            exchange.map(|exchange| run.exchanges.insert(session.task.clone(), exchange)).is_none()
        }
        (Work::Claim, _) | (Work::Review, Verdict::Stands(Status::Done)) => true,
        (Work::Review, _) => false,
    };
    if is_over {
        run.exchanges.remove(&session.task);
    }
}

/// Whether the session left by itself without a transition, and without anything that a further process could not mend.
pub(super) fn is_missing(run: &Run<'_>, judged: &Judged) -> bool {
    let Judged { session: Left { held, over, record, exchange, .. }, aftermath, verdict, .. } = judged;
    let Over::Ran(result) = over else { return false };
    let is_untouched = aftermath.row == held.row
        && aftermath.others.is_empty()
        && aftermath.signs.is_empty()
        && !aftermath.is_gone
        && !aftermath.head_moved;
    matches!(verdict, Verdict::Escalate { .. })
        && run.config.follow_up_turns > 0
        && exchange.is_some()
        && left_by_itself(result)
        // Its service failed, and would fail again.
        && record.agent_fault.is_none()
        && record.teardown.failed_stage(None).is_none()
        && is_untouched
}

fn left_by_itself(result: &ExecutionResult) -> bool {
    let is_alone = result.survivors.is_empty() && result.cancelled.is_none();
    result.ended == Ended::Exited && matches!(result.exit, Some(Exit::Code(_))) && is_alone
}

/// Why a branch ended early; what is judged by then is settled all the same.
enum Halt {
    /// A failure of the run.
    Failed(Failure),
    /// No further process: there is no prompt for it, or it could not be started.
    NoProcess,
}

/// Where a session stands that left without a transition.
enum Standing {
    /// Judged, not settled.
    Missing(Box<Judged>),
    /// Settled.
    Settled(Settled),
}

/// Gives the session further processes until its task has made its transition or none is left, and settles it once.
pub(super) fn go_on(run: &mut Run<'_>, first: Box<Judged>, ground: &Ground) -> Result<Settled, Failure> {
    let (signals, additional_turns) = (run.signals, run.config.follow_up_turns);
    let Some(start) = first.session.exchange.clone() else {
        return super::session::settle_judged(run, *first, ground);
    };
    let may_go_on = obstacle(run, &first).is_none();
    let mut standing = Some(Standing::Missing(first));
    let outcome = {
        let mut next = |turn: Turn<bool>| Ok::<_, Halt>(turn.result.unwrap_or(may_go_on).then(|| Request::new(())));
        let mut execute = |request: Request<'_, ()>| {
            let (Some(Standing::Missing(judged)), Some(source)) = (standing.take(), request.continue_from) else {
                return Err(Halt::NoProcess);
            };
            let (now, completed) = further(run, (judged, &source), ground)?;
            standing = Some(now);
            completed.ok_or(Halt::NoProcess)
        };
        let (next, is_cancelled) = (&mut next, &|| signals.first().is_some());
        coordinate(Coordination { start, additional_turns, next, observer: None, is_cancelled }, &mut execute)
    };
    match (outcome, standing) {
        (Err(Halted::Failed(Halt::Failed(failure))), _) => Err(failure),
        (_, Some(Standing::Settled(settled))) => Ok(settled),
        (Err(Halted::Cancelled { .. }), Some(Standing::Missing(mut judged))) => {
            // Nobody was asked as often as the configuration says.
            judged.verdict = Verdict::Interrupted;
            super::session::settle_judged(run, *judged, ground)
        }
        (outcome, Some(Standing::Missing(mut judged))) => {
            let stopped = matches!(outcome, Ok(Outcome::Stopped));
            let why = stopped.then(|| obstacle(run, &judged)).flatten();
            judged.aftermath.findings.extend(why.map(|why| not_started(&why)));
            super::session::settle_judged(run, *judged, ground)
        }
        (_, None) => unreachable!("a turn that took the session gave it back or failed"),
    }
}

/// What leaves no room for one more process, if something does: a limit on sessions or a budget, of the task or of the run.
fn obstacle(run: &Run<'_>, judged: &Judged) -> Option<String> {
    let Left { held, record, .. } = &judged.session;
    let Config { max_task_sessions, max_sessions, .. } = *run.config;
    if held.row.sessions() >= max_task_sessions {
        return Some(format!("the task used up its sessions (`max_task_sessions` is {max_task_sessions})"));
    }
    if run.tally.launched() >= max_sessions {
        return Some(format!("the run used up its sessions (`max_sessions` is {max_sessions})"));
    }
    budget::against(run, &held.row, record)
}

/// The finding that says so.
fn not_started(why: &str) -> String {
    format!("no further process was started: {why}")
}

/// Runs one further process: where the session stands then, and what was said, unless there was no process.
fn further(
    run: &mut Run<'_>,
    (mut judged, source): (Box<Judged>, &Exchange),
    ground: &Ground,
) -> Result<(Standing, Option<Completed<bool>>), Halt> {
    let planned = match plan_next(run, &judged, source) {
        Ok(planned) => planned,
        Err(why) => {
            judged.aftermath.findings.push(not_started(&why));
            return Ok((Standing::Missing(judged), None));
        }
    };
    let left = renew(run, *judged, planned).map_err(Halt::Failed)?;
    let exchange = left.exchange.clone();
    let (standing, result) = match super::session::conclude(run, left, ground).map_err(Halt::Failed)? {
        Concluded::Settled(settled) => (Standing::Settled(settled), false),
        Concluded::Missing(judged) => {
            let may = obstacle(run, &judged).is_none();
            (Standing::Missing(judged), may)
        }
    };
    Ok((standing, exchange.map(|exchange| Completed { exchange, result })))
}

/// Plans the next process: the history and what is missing, or, if that is over the budget or cannot be given to the command, a
/// fresh prompt with a handoff. If not even that can be given, says why.
fn plan_next(run: &Run<'_>, judged: &Judged, source: &Exchange) -> Result<(SessionName, Command, Prepared), String> {
    let Left { held, folder, .. } = &judged.session;
    let workspace = run.workspace_root();
    let places = Places::of(run, &workspace);
    let number = held.name.number.saturating_add(1);
    let mut name = SessionName { number, parent: Some(source.run_id().to_owned()), ..held.name.clone() };
    let sentence = missing(name.work);
    let new = Prompt {
        text: sentence.clone(),
        sizes: vec![PartSize { part: "what is missing".to_owned(), characters: sentence.chars().count() }],
    };
    let session = Session { name: &name, card: &held.card, row: &held.row, left: None };
    let planned = planning::plan_with(places, session, ((Parts::default(), new), Some(source)));
    if let Ok((command, Ok(prepared))) = planned.into_runnable() {
        return Ok((name, command, prepared));
    }
    name.parent = None;
    let printed = session::tail(&folder.join("stdout.log"), LAST_WORDS);
    let left = Document {
        kind: Kind::Handoff,
        path: format!("state/runs/{}/{}/stdout.log", held.name.agent, held.name.number),
        text: format!("{sentence}\nThe end of what the process before printed:\n\n{printed}"),
    };
    let session = Session { name: &name, card: &held.card, row: &held.row, left: Some(&left) };
    match planning::plan_session(places, session, None).into_runnable() {
        Ok((command, Ok(prepared))) => Ok((name, command, prepared)),
        Ok((_, Err(fault))) => Err(fault.to_string()),
        Err(failure) => Err(failure.reason()),
    }
}

/// The one sentence that says what is missing.
fn missing(work: Work) -> String {
    let (verbs, asked) = match work {
        Work::Claim => ("submit or escalate", "finish what is left of the work"),
        Work::Review => ("approve, reject or escalate", "finish what is left of the review"),
    };
    format!(
        "Your process exited without {verbs}, so nothing of the session counts yet: {asked}, then run exactly one of those \
         commands as the first prompt shows them, with this process's own environment, and exit.\n"
    )
}

/// Closes the record of the session that left, renews its claim for the next process, and runs that.
fn renew(
    run: &mut Run<'_>,
    judged: Judged,
    (name, command, prepared): (SessionName, Command, Prepared),
) -> Result<Left, Failure> {
    let Judged { session: Left { held, granted, folder, mut record, .. }, aftermath, verdict, .. } = judged;
    record.status = RecordStatus::Finished;
    record.finished_at = Some(run.clock.stamp());
    record.findings.clone_from(&aftermath.findings);
    record.kept.clone_from(&aftermath.kept);
    let reason = if let Verdict::Escalate { reason } = &verdict { reason.as_str() } else { "" };
    record.result = Some(serde_json::json!({
        "verdict": "goes_on", "status": held.row.status, "reason": reason, "blocked": false, "resolution_tasks": [],
        "external_wait": false,
    }));
    records::weigh(&mut record, &verdict, &aftermath);
    let spent_before = budget::before(run, &held.row, Some(&record));
    let closed = record.change(&folder, &run.redactor)?;
    let temporary = fs::temporary_folder(records::outside(run))?;
    let outcome = format!("left without a transition; goes on as {}", name.run_id());
    let (next, mut opening) = claim::renew(run, (&held, name), closed, |run, next| {
        Opening::of(run, next, (&command, &granted, Ok(prepared), temporary.path()), spent_before)
    })?;
    opening.record.verification.clone_from(&record.verification);
    records::publish(run, &folder, &record);
    let wall_ms = record.execution.as_ref().map_or(0, |execution| execution.wall_ms);
    let spent = usage::spent(&record);
    budget::tell_unknown(run, &record);
    limits::note(run, &held.name, (&record, &verdict));
    let (session, good, limited) = (held.name, false, false);
    (run.observe)(&Event::SessionEnded { session, outcome, good, limited, wall_ms, spent });
    for finding in &aftermath.findings {
        (run.observe)(&Event::Warning { text: finding.clone() });
    }
    Ok(super::session::carry_out(run, (next, granted), (&command, opening, temporary)))
}
