//! Verification: the coordinator's own commands, run on what an executor submitted before anybody reviews it.
//!
//! A failure that was not there before the session sends the work back. Owns which commands are run for whom and what their
//! results mean; running them (`bench`), the workspace around them (`tree`), what failed before (`baseline`) and a kill while they
//! run (`note`, `recovery`) are apart.

mod baseline;
mod bench;
mod note;
mod recovery;
mod tree;

use std::path::Path;

use crate::commit::CommitId;
use crate::config::{CommandError, Config, find_executable};
use crate::evidence::{CommandRecord, Failed, VerificationRecord};
use crate::fs;
use crate::ids::{AgentId, Role, TaskId};
use crate::observe::SessionName;
use crate::plan::{Plan, TaskCard, Work};
use crate::tracker::ready::Board;
use crate::tracker::row::{Row, Status};
use crate::verdict::Verdict;

use super::Run;
use super::aftermath::Aftermath;
use super::claim::Held;
use super::failure::Failure;
use super::ground::Ground;
use super::prepare::Host;

pub(super) use baseline::{Baselines, carry_over};
use bench::{Bench, Ran, shown};
pub(super) use note::{interrupted, path as note_path};
pub(super) use recovery::{How, end_left, put_back_left};
use tree::Before;

/// What verification made of a verdict.
pub(super) struct Verified {
    /// The verdict now.
    pub(super) verdict: Verdict,
    /// What the commands came to.
    ran: Vec<Ran>,
    /// What the session's reviewer gets to read, with its path.
    pub(super) report: Option<(String, String)>,
}

/// The commands for an executor of the card, in order, each once.
fn wanted(config: &Config, role: &Role, card: &TaskCard) -> Vec<Vec<String>> {
    let mut commands: Vec<Vec<String>> = Vec::new();
    for command in config.verify.of(role).chain(&card.verify) {
        if !commands.contains(command) {
            commands.push(command.clone());
        }
    }
    commands
}

/// Refuses commands that cannot be run on this machine, and a reviewer that is the executor's own command where that may not be;
/// asks only about tasks that are not done.
pub(super) fn check(config: &Config, host: &Host, (plan, board): (&Plan, &Board)) -> Result<(), Failure> {
    for command in config.verify.every() {
        check_command(host, command, "runner.local.json")?;
    }
    for card in plan.tasks().iter().filter(|card| board.row(&card.id).status != Status::Done) {
        check_card(host, card)?;
        if config.reviewer_differs && !config.reviewer_differs(&card.role, &card.reviewer_role) {
            let (task, role, reviewer) = (card.id.clone(), card.role.clone(), card.reviewer_role.clone());
            return Err(Failure::SameReviewer { task, role, reviewer });
        }
    }
    Ok(())
}

fn check_card(host: &Host, card: &TaskCard) -> Result<(), Failure> {
    card.verify.iter().try_for_each(|command| check_command(host, command, &format!("planning/tasks/{}.json", card.id)))
}

/// A program below the root may be what a task is to make, so only what lies elsewhere can be missed now.
fn check_command(host: &Host, command: &[String], place: &str) -> Result<(), Failure> {
    let problem = if let Some(argument) = command.iter().find(|argument| argument.contains("REPLACE_")) {
        Some(format!("it still holds {argument:?}"))
    } else {
        let program = command.first().map(String::as_str).unwrap_or_default();
        let is_known = program.starts_with('/') || !program.contains('/');
        let found = find_executable(program, Path::new("/"), host.variable("PATH"));
        found.err().filter(|_| is_known && !program.contains('{')).map(|error| problem_of(&error))
    };
    match problem {
        None => Ok(()),
        Some(problem) => Err(Failure::CannotVerify { place: place.to_owned(), command: shown(command), problem }),
    }
}

/// The error without its advice, which is about `argv`.
fn problem_of(error: &CommandError) -> String {
    let text = error.to_string();
    text.split(';').next().unwrap_or_default().to_owned()
}

/// Before a session of `name` is claimed: finds out what fails in the clean workspace, unless that is known.
pub(super) fn find_baseline(
    run: &mut Run<'_>,
    (name, card): (&SessionName, &TaskCard),
    ground: &Ground,
) -> Result<Option<VerificationRecord>, Failure> {
    let commands = wanted(run.config, &name.role, card);
    let Some(head) = ground.head.as_ref().filter(|_| name.work == Work::Claim && !commands.is_empty()) else {
        return Ok(None);
    };
    check_card(run.host, card)?;
    let known = baseline::at(run, &head.commit)?;
    let is_missing = |argv: &Vec<String>| known.as_ref().is_none_or(|known| known.fails(argv).is_none());
    let missing: Vec<Vec<String>> = commands.into_iter().filter(is_missing).collect();
    if missing.is_empty() {
        return Ok(None);
    }
    let folder = run.project.session(&name.agent, name.number);
    let before = Before::of(run, (name, true), ground, &[])?;
    let (mark, temporary) = (before.mark(), before.temporary());
    let ran = Bench { name, folder: &folder, is_baseline: true, mark, temporary }.all(run, &missing)?;
    let put_back = before.put_back(run, ground, &folder)?;
    let Some(ran) = ran else {
        fs::remove_folder(&folder)?;
        return Err(Failure::Interrupted { signal: run.signals.first().unwrap_or_default() });
    };
    if !put_back.faults.is_empty() {
        return Err(Failure::VerifyTouches { names: put_back.faults.join(", ") });
    }
    baseline::found(run, &head.commit, &ran)?;
    let before = ran.into_iter().map(|ran| ran.record).collect();
    Ok(Some(VerificationRecord { before, changed: put_back.changed, ..VerificationRecord::default() }))
}

/// After a session that `verdict` is good of: runs the commands on what it submitted, and puts the workspace back as the session
/// left it.
pub(super) fn submitted(
    run: &mut Run<'_>,
    (held, ground): (&Held, &Ground),
    (aftermath, verdict): (&Aftermath, Verdict),
    (folder, record): (&Path, &mut Option<VerificationRecord>),
) -> Result<Verified, Failure> {
    let commands = wanted(run.config, &held.name.role, &held.card);
    if verdict != Verdict::Stands(Status::Review) || held.name.work != Work::Claim || commands.is_empty() {
        return Ok(Verified { verdict, ran: Vec::new(), report: None });
    }
    let known = match &ground.head {
        Some(place) => baseline::at(run, &place.commit)?,
        None => None,
    };
    let before = Before::of(run, (&held.name, false), ground, &aftermath.in_scope)?;
    let (mark, temporary) = (before.mark(), before.temporary());
    let ran = Bench { name: &held.name, folder, is_baseline: false, mark, temporary }.all(run, &commands)?;
    let put_back = before.put_back(run, ground, folder)?;
    let record = record.get_or_insert_default();
    record.changed.extend(put_back.changed);
    record.faults = put_back.faults;
    record.baseline = known.as_ref().map(|known| known.commit.to_string());
    let Some(mut ran) = ran else {
        return Ok(Verified { verdict: Verdict::Interrupted, ran: Vec::new(), report: None });
    };
    for ran in &mut ran {
        let is_old = known.as_ref().is_some_and(|known| known.fails(&ran.record.argv) == Some(true));
        ran.record.failed = ran.record.failed.map(|_| if is_old { Failed::Old } else { Failed::New });
    }
    record.commands = ran.iter().map(|ran| ran.record.clone()).collect();
    let report = (report_path(&held.name.agent, &held.card.id), report(held, record, &ran));
    let verdict = match refusal(&ran, &record.faults) {
        Some(reason) => Verdict::SendBack { reason },
        None => verdict,
    };
    Ok(Verified { verdict, ran, report: Some(report) })
}

impl Verified {
    /// The session's commit was made: if its work was taken, what was found out about it holds for the commit.
    pub(super) fn committed(&self, run: &mut Run<'_>, ground: &Ground, commit: Option<&String>) -> Result<(), Failure> {
        let commit = commit.and_then(|commit| CommitId::try_from(commit.clone()).ok());
        match (&self.verdict, &ground.head, commit) {
            (Verdict::Stands(Status::Review), Some(head), Some(commit)) => {
                baseline::accepted(run, (&head.commit, &commit), &self.ran)
            }
            _ => Ok(()),
        }
    }
}

/// Whether the row was submitted by a session that was interrupted before its work was verified.
pub(super) fn is_due(config: &Config, card: &TaskCard, row: &Row) -> bool {
    row.is_submit_unsettled() && !wanted(config, &card.role, card).is_empty()
}

/// What a reviewer gets to read of the verification; none if there was none or it is not there.
pub(super) fn report_of(config: &Config, (root, card): (&Path, &TaskCard), row: &Row) -> Option<String> {
    let owner = row.owner.as_ref().filter(|_| !wanted(config, &card.role, card).is_empty())?;
    let path = report_path(owner, &card.id);
    // Whoever else writes there is overwritten by each verification.
    root.join(&path).symlink_metadata().is_ok_and(|metadata| metadata.is_file()).then_some(path)
}

fn report_path(agent: &AgentId, task: &TaskId) -> String {
    format!("state/evidence/{agent}-{task}-verification.md")
}

/// Why the work goes back, if it does: what failed now and did not before, with the ends of its output.
fn refusal(ran: &[Ran], faults: &[String]) -> Option<String> {
    let failed: Vec<&Ran> = ran.iter().filter(|ran| ran.record.failed == Some(Failed::New)).collect();
    let mut summary: Vec<String> = failed.iter().map(|ran| format!("`{}` {}", ran.shown(), ran.record.ended)).collect();
    if !faults.is_empty() {
        summary.push(format!("the commands changed what they must not: {}", faults.join(", ")));
    }
    if summary.is_empty() {
        return None;
    }
    let tails = failed.iter().map(|ran| ended_in(ran)).collect::<String>();
    Some(format!("verification failed: {}{tails}", summary.join("; ")))
}

/// The end of a command's output under a line that says so.
fn ended_in(ran: &Ran) -> String {
    match ran.tail.trim() {
        "" => format!("\n\n`{}` printed nothing.", ran.shown()),
        tail => format!("\n\nThe end of the output of `{}`:\n\n{tail}", ran.shown()),
    }
}

/// What the reviewer gets to read.
fn report(held: &Held, record: &VerificationRecord, ran: &[Ran]) -> String {
    let before = record.baseline.as_ref().map_or_else(
        || "What failed before the session is not known.".to_owned(),
        |commit| format!("What failed before the session was found out at {commit}."),
    );
    let line = |record: &CommandRecord| {
        let since = match record.failed {
            None => ": passed",
            Some(Failed::Old) => ", as it failed before the session; this does not count against it",
            Some(Failed::New) => ", which it did not before the session",
        };
        #[expect(clippy::cast_precision_loss, reason = "a command's milliseconds are far below 2^52")]
        let seconds = record.wall_ms as f64 / 1000.0;
        let ended = if record.failed.is_some() { format!(" {}", record.ended) } else { String::new() };
        format!("- `{}`{ended}{since} ({seconds:.1} s)\n", shown(&record.argv))
    };
    let lines: String = record.commands.iter().map(line).collect();
    let tails: String = ran.iter().filter(|ran| ran.record.failed.is_some()).map(ended_in).collect();
    format!(
        "# Verification of {}\n\nThe coordinator ran these commands after {} had submitted. {before}\n\n{lines}{tails}\n",
        held.card.id, held.name.agent
    )
}
