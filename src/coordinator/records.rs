//! The records of sessions around the loop: what is kept out of them, how they are closed, reported, and how long they stay.

use std::collections::BTreeSet;
use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};

use crate::config::Config;
use crate::evidence::{
    self, Attempt, FailedStage, Outcome, RECORD_SCHEMA, RecordStatus, Redactor, ReportRecord, Reported, RunRecord,
    Teardown,
};
use crate::fs;
use crate::observe::Event;
use crate::session::ExecutionResult;
use crate::tracker::row::Status;
use crate::verdict::Verdict;

use super::aftermath::Aftermath;
use super::failure::Failure;
use super::prepare::Host;
use super::{Run, budget};

/// Knows the secrets of this run: from the coordinator's environment, and from what the configuration adds for agents.
pub(super) fn redactor(config: &Config, host: &Host) -> Redactor {
    let rules = std::iter::once(&config.environment.general).chain(config.environment.by_role.values());
    let set = rules.flat_map(|rules| &rules.set).map(|(name, value)| (name.into(), value.into()));
    let added: Vec<(OsString, OsString)> = set.collect();
    let listed = |name: &OsStr| {
        config
            .report
            .iter()
            .flat_map(|report| report.headers_from_env.values())
            .any(|variable| name == variable.as_str())
    };
    Redactor::new(host.environment.iter().chain(added.iter().map(|(name, value)| (name, value))), listed)
}

/// Takes in what became of the process tree.
pub(super) fn destroyed(teardown: &mut Teardown, result: &ExecutionResult) {
    if result.pid.is_none() {
        return;
    }
    let left: Vec<_> = result.survivors.iter().map(ToString::to_string).collect();
    teardown.destroyed(if left.is_empty() { Ok(()) } else { Err(are_left(&left)) });
}

fn are_left(processes: &[String]) -> String {
    format!("processes are left: {}", processes.join(", "))
}

/// Takes in what became of the temporary folder.
pub(super) fn cleaned(record: &mut RunRecord, removed: Result<(), fs::FileError>) {
    if removed.is_ok() {
        record.temporary = None;
    }
    record.teardown.cleaned(removed.map_err(|error| Failure::from(error).reason()));
}

/// Writes down whether the session as a whole succeeded, and where it failed first.
pub(super) fn weigh(record: &mut RunRecord, verdict: &Verdict, aftermath: &Aftermath) {
    let touched = !aftermath.tampering.is_empty() || !aftermath.violations.is_empty();
    let work = match verdict {
        Verdict::Stands(_) | Verdict::Blocked => None,
        // What else is quarantined has left something behind, which the teardown says.
        Verdict::Quarantine { .. } | Verdict::Void { .. } => touched.then_some(FailedStage::Judgement),
        Verdict::SendBack { .. } => Some(FailedStage::Judgement),
        Verdict::Wait { .. } if !has_run(record) => Some(FailedStage::Launch),
        Verdict::Escalate { .. } if record.execution.is_none() => Some(FailedStage::Prompt),
        Verdict::Wait { .. }
        | Verdict::Escalate { .. }
        | Verdict::Interrupted
        | Verdict::Limited { .. }
        | Verdict::Retry { .. } => Some(FailedStage::Execution),
    };
    let commit = record.commit_error.is_some().then_some(FailedStage::Commit);
    record.failed_stage = record.teardown.failed_stage(work.or(commit));
    record.outcome = Outcome::of(record.failed_stage);
}

/// Whether there was a process.
fn has_run(record: &RunRecord) -> bool {
    record.execution.as_ref().is_some_and(|execution| execution.pid.is_some())
}

/// Sends the final record, if that is configured, and writes down what became of it. Changes nothing else.
pub(super) fn publish(run: &Run<'_>, folder: &Path, record: &RunRecord) {
    let reported = match &run.config.report {
        Some(report) => evidence::send(report, |name| run.host.variable(name), &record.for_report(&run.redactor)),
        None => Reported::default(),
    };
    if reported.outcome != evidence::ReportOutcome::NotRequested {
        (run.observe)(&Event::Reported { run_id: record.run_id.clone(), reported });
    }
    if let (evidence::ReportOutcome::Failed, Some(kind)) = (reported.outcome, reported.kind) {
        let status = reported.status.map_or_else(String::new, |status| format!(" {status}"));
        let kind =
            serde_json::to_value(kind).ok().and_then(|kind| kind.as_str().map(str::to_owned)).unwrap_or_default();
        let text = format!("the report of {} failed ({kind}{status}); it is not sent again", record.run_id);
        (run.observe)(&Event::Warning { text });
    }
    let written = ReportRecord::new(record.run_id.clone(), run.clock.stamp(), reported).write(folder);
    if let Err(error) = written {
        (run.observe)(&Event::Warning { text: Failure::from(error).reason() });
    }
}

/// How a session whose coordinator died had come along.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum End {
    /// Its task had not made its transition; what was left of its processes was ended by this start.
    Interrupted,
    /// Its task had made its transition; what was left of its processes was ended by this start.
    Settled,
    /// Its task was settled and its record was not.
    Recorded,
}

/// The record of a session whose coordinator died, if nobody has closed it.
fn open_record(folder: &Path) -> Result<Option<RunRecord>, Failure> {
    Ok(RunRecord::read(folder)?.filter(|record| record.status == RecordStatus::Running))
}

/// Writes something down in the record of an interrupted session, which stays open.
pub(super) fn amend(run: &Run<'_>, folder: &Path, change: impl FnOnce(&mut RunRecord)) -> Result<(), Failure> {
    let Some(mut record) = open_record(folder)? else { return Ok(()) };
    record.schema = RECORD_SCHEMA;
    change(&mut record);
    Ok(record.write(folder, &run.redactor)?)
}

/// Says in the record of an interrupted session what of it could not be ended, if anything.
pub(super) fn keep_open(run: &Run<'_>, folder: &Path, left: &[String]) -> Result<(), Failure> {
    if left.is_empty() {
        return Ok(());
    }
    amend(run, folder, |record| {
        record.teardown = Teardown::not_attempted();
        record.teardown.destroyed(Err(are_left(left)));
    })
}

/// Closes the record of a session whose coordinator died, and reports it.
pub(super) fn close(run: &mut Run<'_>, folder: &Path, end: End) -> Result<(), Failure> {
    let Some(mut record) = open_record(folder)? else { return Ok(()) };
    record.schema = RECORD_SCHEMA;
    record.status = RecordStatus::Recovered;
    record.finished_at = Some(run.clock.stamp());
    // That an earlier start could not end all of it is not hidden by this one.
    let faults = std::mem::take(&mut record.teardown.faults);
    record.teardown = Teardown { faults, ..Teardown::default() };
    if end != End::Recorded {
        record.teardown.cleanup = Attempt::NotAttempted;
        record.teardown.destruction = Attempt::Succeeded;
    }
    if let Some(left) = record.temporary.clone().filter(|path| is_temporary(run, path)) {
        cleaned(&mut record, fs::remove_stubborn_folder(&left));
    }
    // Whether a session succeeded whose transition was not judged is not known.
    record.failed_stage = record.teardown.failed_stage((end == End::Interrupted).then_some(FailedStage::Execution));
    record.outcome = if record.failed_stage.is_some() { Outcome::Failed } else { Outcome::Unknown };
    record.write(folder, &run.redactor)?;
    publish(run, folder, &record);
    Ok(())
}

/// Whether this is a temporary folder of a session. The record lay where the session could write, so its word is not enough.
pub(super) fn is_temporary(run: &Run<'_>, path: &Path) -> bool {
    let named = path.file_name().and_then(OsStr::to_str).is_some_and(|name| name.starts_with("runner-"));
    named && path.parent() == Some(outside(run)) && path.symlink_metadata().is_ok_and(|metadata| metadata.is_dir())
}

/// The folder for temporary folders; one inside the root would make a session's scratch files changes of the tree.
pub(super) fn outside<'r>(run: &'r Run<'_>) -> &'r Path {
    let given = run.host.temporary.as_path();
    let is_inside = given.canonicalize().is_ok_and(|given| given.starts_with(run.project.root()));
    if is_inside { Path::new("/tmp") } else { given }
}

/// Closes records that a killed coordinator left open although it had settled their tasks.
pub(super) fn close_left_open(run: &mut Run<'_>) {
    let claimed = claimed(run);
    let folders = evidence::session_folders(&runs(run)).unwrap_or_default();
    for folder in folders.iter().filter(|folder| !claimed.contains(*folder)) {
        // It is no reason to stop a run that an old record cannot be closed.
        if let Err(failure) = close(run, folder, End::Recorded) {
            (run.observe)(&Event::Warning { text: failure.reason() });
        }
    }
}

/// Removes the oldest sessions that are over the configured limits.
pub(super) fn retain(run: &Run<'_>) {
    let claimed = claimed(run);
    let counted = budget::counted(run);
    let protected = |folder: &Path| {
        claimed.contains(folder)
            || folder.parent().is_some_and(|agent| counted.contains(agent))
            || holds_unfinished_work(run, folder)
    };
    let now = std::time::SystemTime::from(run.clock.now());
    // It is no reason to stop a run that old records cannot be removed.
    if let Err(error) = evidence::apply_retention(&runs(run), &run.config.retention, now, &protected) {
        (run.observe)(&Event::Warning { text: Failure::from(error).reason() });
    }
}

fn runs(run: &Run<'_>) -> PathBuf {
    run.project.root().join("state/runs")
}

/// The folders of sessions whose claim is live or was interrupted.
fn claimed(run: &Run<'_>) -> BTreeSet<PathBuf> {
    let claims = run.plan.tasks().iter().filter_map(|card| run.board.row(&card.id).claim.as_ref());
    claims.map(|claim| run.project.session(&claim.agent, claim.session)).collect()
}

/// Whether something of an unfinished task was set aside there, which a person may still want.
fn holds_unfinished_work(run: &Run<'_>, folder: &Path) -> bool {
    if folder.join("kept").symlink_metadata().is_err() {
        return false;
    }
    let record = RunRecord::read(folder).ok().flatten();
    record.is_some_and(|record| {
        run.plan.task(&record.task).is_some() && run.board.row(&record.task).status != Status::Done
    })
}
