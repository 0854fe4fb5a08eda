//! What a run came to, from its tally and the board.

use std::collections::BTreeMap;

use serde_json::Value;

use crate::budget::Used;
use crate::evidence::ReportTally;
use crate::outcome::{RunResult, Stop};
use crate::plan::Plan;
use crate::tracker::ready::{self, Board, Part};
use crate::tracker::row::Status;

use super::failure::Failure;
use super::{LoopEnd, Run, budget};

/// The result of a run that ended so.
pub(super) fn of(run: &Run<'_>, end: LoopEnd) -> RunResult {
    let mut result = standing(&run.plan, &run.board, &run.part);
    let waits = !result.unsatisfiable.is_empty() || waits_for_person(run);
    result.stop = match end {
        LoopEnd::Interrupted(_) | LoopEnd::CommitFailed => end.stop(waits),
        _ if result.unfinished == 0 => Stop::Complete,
        _ => end.stop(waits),
    };
    match end {
        LoopEnd::Interrupted(signal) => result.signal = Some(signal),
        LoopEnd::Limited(retry_at) if result.stop == Stop::Limited => {
            (result.retry_at, result.reason) = (retry_at, run.services.limit());
        }
        LoopEnd::Budget if result.stop == Stop::Budget => result.reason = budget::of_run(run),
        _ => {}
    }
    result.waiting.extend(run.services.refused(run));
    run.tally.write_to(&mut result);
    result
}

/// The result of a run that something stopped after its first session: what it had come to is said all the same.
pub(super) fn failed(run: &Run<'_>, failure: &Failure) -> RunResult {
    let mut result = of(run, LoopEnd::SessionLimit);
    result.stop = Stop::Failed;
    result.reason = Some(failure.reason());
    result
}

/// Whether something in the chosen part waits for a person.
fn waits_for_person(run: &Run<'_>) -> bool {
    run.part.tasks(&run.plan, &run.board).iter().any(|task| run.board.row(&task.id).external_wait)
}

/// How plan and board stand, as a result that launched nothing.
pub(super) fn standing(plan: &Plan, board: &Board, part: &Part) -> RunResult {
    let outlook = ready::outlook(plan, board, part);
    let everything = plan.tasks().iter().map(|task| (&task.id, board.row(&task.id)));
    let external: BTreeMap<_, _> = everything
        .clone()
        .filter(|(_, row)| row.external_wait)
        .map(|(id, row)| (id.clone(), row.reason.clone().unwrap_or_default()))
        .collect();
    RunResult {
        stop: Stop::Idle,
        launched: 0,
        revision: board.revision(),
        external_blockers: external,
        unfinished: everything.filter(|(_, row)| row.status != Status::Done).count(),
        last_session: None,
        last_commit: None,
        commit_error: None,
        used: Used::NOTHING,
        report: ReportTally::default(),
        stage_complete: part.tasks(plan, board).iter().all(|task| board.row(&task.id).status == Status::Done),
        waiting: outlook.waiting,
        unsatisfiable: outlook.unsatisfiable,
        signal: None,
        reason: None,
        retry_at: None,
        holder: None,
    }
}

/// The result of a start that found another coordinator at work.
pub(super) fn busy(plan: &Plan, board: &Board, part: &Part, holder: Value) -> RunResult {
    let mut result = standing(plan, board, part);
    result.stop = Stop::Busy;
    result.holder = Some(holder);
    result
}
