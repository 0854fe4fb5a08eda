//! The commit of an ended session: its intent is durable before the task is settled, so that a later start can finish it.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::commit::{self, AgentMessage, CommitId, CommitPlan, MessageFault, Prepared, Trailers, Words};
use crate::fs::{self, Change, Order};
use crate::ids::{AgentId, TaskId};
use crate::observe::Event;
use crate::plan::TaskCard;
use crate::project::Project;
use crate::relpath::RelPath;
use crate::tracker::row::Row;
use crate::tracker::store::Batch;

use super::Run;
use super::aftermath::Aftermath;
use super::claim::Held;
use super::failure::Failure;
use super::landing::{self, Work};
use super::memo::path as memo_path;
use super::settle::{self, Settlement};
use super::verify;

/// The version of the intent's fields.
const SCHEMA: u32 = 1;

/// A commit that is to be made: message and paths, durable until it is.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct Intent {
    schema: u32,
    agent: AgentId,
    task: TaskId,
    parent: CommitId,
    branch: String,
    message: String,
    /// Files in the session's scope; what changed under `state/` and `planning/` is added when the commit is made.
    paths: Vec<RelPath>,
    at: jiff::Timestamp,
    /// How many events the task has once it is settled.
    #[serde(default)]
    events: usize,
    /// What a session made in a work tree of its own.
    #[serde(default)]
    work: Option<Work>,
}

/// What is to become of a session's changes.
pub(super) enum Planned {
    /// Nothing: there is no git.
    Nothing,
    /// They stay in the tree, and this is why.
    Refused(String),
    /// A commit.
    Commit(Box<Intent>),
}

/// What became of a session's changes.
#[derive(Debug, Default)]
pub(super) struct Checkpoint {
    /// The commit.
    pub(super) commit: Option<String>,
    /// Why there is none although there should be.
    pub(super) error: Option<String>,
    /// The first line of its message.
    pub(super) subject: String,
    /// The branch's file, if it may not have reached the disk.
    branch: Option<PathBuf>,
}

impl Checkpoint {
    /// What is still to be written: the claim's memo is over, and so is the intent of a commit that was made.
    pub(super) fn closing(&self, project: &Project) -> Vec<Change> {
        let branch = self.branch.iter().cloned().map(Change::Sync);
        let intent = self.commit.iter().map(|_| intent_path(project));
        branch.chain(std::iter::once(memo_path(project)).chain(intent).map(Change::Remove)).collect()
    }

    /// Tells whether there is a commit, or why not.
    pub(super) fn tell(&self, run: &Run<'_>) {
        if let Some(commit) = &self.commit {
            (run.observe)(&Event::Committed { commit: commit.clone(), subject: self.subject.clone() });
        }
        if let Some(reason) = &self.error {
            (run.observe)(&Event::CommitFailed { reason: reason.clone() });
        }
    }
}

/// Composes the message, and the intent that has to be durable before the task is settled.
pub(super) fn plan(
    run: &Run<'_>,
    held: &Held,
    (settlement, aftermath): (&Settlement, &Aftermath),
    refused: Option<String>,
) -> Result<(Planned, Vec<Change>), Failure> {
    if let Some(reason) = refused.filter(|_| run.git.is_some()) {
        return Ok((Planned::Refused(reason), Vec::new()));
    }
    let paths = if aftermath.head_moved { Vec::new() } else { aftermath.in_scope.clone() };
    let message = message(run, held, settlement)?;
    intend(run, (&held.name.agent, &held.card.id, &settlement.row), &message, paths)
}

/// The intent of a commit on top of HEAD, of the task with the row it will have, and the writing of it.
pub(super) fn intend(
    run: &Run<'_>,
    (agent, task, row): (&AgentId, &TaskId, &Row),
    message: &str,
    paths: Vec<RelPath>,
) -> Result<(Planned, Vec<Change>), Failure> {
    let Some(git) = &run.git else { return Ok((Planned::Nothing, Vec::new())) };
    let head = git.place()?;
    let (paths, work) = landing::work_of(run, paths)?;
    let intent = Intent {
        schema: SCHEMA,
        agent: agent.clone(),
        task: task.clone(),
        parent: head.commit,
        branch: head.branch,
        message: redacted(run, message),
        paths,
        at: run.clock.now(),
        events: row.events.len(),
        work,
    };
    let change = change(run, &intent)?;
    Ok((Planned::Commit(Box::new(intent)), vec![change]))
}

/// Writes a row that the coordinator changed without a session, and commits it.
pub(super) fn record(run: &mut Run<'_>, card: &TaskCard, row: &Row) -> Result<(), Failure> {
    let agent: AgentId = "coordinator".parse().expect("a plain name");
    let reason = row.reason.clone().unwrap_or_default();
    let trailers = Trailers {
        task: &card.id,
        agent: &agent,
        role: &card.role,
        action: commit::Action::Escalate,
        status: row.status.as_str(),
        title: &card.title,
    };
    let message = commit::compose(&Words::Blocked { reason: &reason }, &trailers);
    let (planned, intent) = intend(run, (&agent, &card.id, row), &message, Vec::new())?;
    let locked = run.desk.lock()?;
    locked.write_with(&Batch::default().row(&card.stage, &card.id, row), (&intent, &[]), Order::InTurn)?;
    drop(locked);
    run.board.set(card.id.clone(), row.clone());
    settle::render_views(run)?;
    let made = make(run, planned);
    fs::change(&made.closing(run.project), Order::InTurn)?;
    made.tell(run);
    Ok(())
}

/// Makes the planned commit; a failure keeps the intent for the next start.
pub(super) fn make(run: &mut Run<'_>, planned: Planned) -> Checkpoint {
    match planned {
        Planned::Nothing => Checkpoint::default(),
        Planned::Refused(error) => Checkpoint { error: Some(redacted(run, &error)), ..Checkpoint::default() },
        Planned::Commit(intent) => {
            let subject = intent.message.lines().next().unwrap_or_default().to_owned();
            match commit(run, &intent) {
                Ok((commit, branch)) => Checkpoint { commit: Some(commit.to_string()), error: None, subject, branch },
                Err(failure) => {
                    let kept = "the work is kept, and the next start tries the commit again";
                    // A hook's or git's own words may quote anything.
                    let error = redacted(run, &format!("{}; {kept}", failure.reason()));
                    Checkpoint { error: Some(error), subject, ..Checkpoint::default() }
                }
            }
        }
    }
}

fn redacted(run: &Run<'_>, text: &str) -> String {
    run.redactor.text(text).into_owned()
}

/// Makes the commit; gives the branch's file too if that may not have reached the disk.
fn commit(run: &mut Run<'_>, intent: &Intent) -> Result<(CommitId, Option<PathBuf>), Failure> {
    let git = run.git.as_mut().expect("an intent is only made with git");
    let mut paths = git.changed_in(&["state", "planning"])?;
    paths.extend(intent.paths.iter().cloned());
    paths.sort();
    paths.dedup();
    let plan = CommitPlan {
        parent: intent.parent.clone(),
        branch: intent.branch.clone(),
        message: intent.message.clone(),
        paths,
        at: intent.at,
    };
    let (commit, branch) = if let Some(work) = &intent.work {
        (landing::land(run, &plan, (work, &intent.agent))?, None)
    } else {
        let prepared = git.prepare(&plan)?;
        let (commit, branch) = git.finish_unsynced(&prepared)?;
        (commit, Some(branch))
    };
    verify::carry_over(run, &intent.parent, &commit)?;
    Ok((commit, branch))
}

/// Whether a commit that an earlier run intended is still to be made.
pub(super) fn is_intended(project: &Project) -> bool {
    intent_path(project).symlink_metadata().is_ok()
}

/// The files of the commit that an earlier run intended and that is still to be made: whose they are is known.
pub(super) fn intended(project: &Project) -> Result<Vec<RelPath>, Failure> {
    let path = intent_path(project);
    let Some(bytes) = fs::read_if_present(&path)? else { return Ok(Vec::new()) };
    Ok(fs::parse_json::<Intent>(&path, &bytes)?.paths)
}

/// Finishes the commit that an earlier run intended, if there is one.
pub(super) fn resume(run: &mut Run<'_>) -> Result<Option<Checkpoint>, Failure> {
    let path = intent_path(run.project);
    let (Some(bytes), true) = (fs::read_if_present(&path)?, run.git.is_some()) else { return Ok(None) };
    let mut intent: Intent = fs::parse_json(&path, &bytes)?;
    let row = run.board.row(&intent.task);
    let claimed = row.claim.as_ref().is_some_and(|claim| claim.agent == intent.agent);
    if claimed || row.events.len() < intent.events {
        // The task was not settled yet: what has to be recovered is the interrupted claim, if there is one.
        fs::remove(&path)?;
        return Ok(None);
    }
    settle::render_views(run)?;
    let git = run.git.as_mut().expect("checked above");
    let head = git.place()?;
    if head.commit != intent.parent {
        if git.is_commit_of(&head.commit, &intent.parent, &intent.message)? {
            let mut paths = git.changed_in(&["state", "planning"])?;
            paths.extend(intent.paths.iter().cloned());
            paths.extend(intent.work.iter().flat_map(Work::paths));
            let Prepared { commit, .. } = git.complete_index(head, &intent.parent, paths)?;
            verify::carry_over(run, &intent.parent, &commit)?;
            landing::arrived(run)?;
            fs::remove(&path)?;
            let subject = intent.message.lines().next().unwrap_or_default().to_owned();
            return Ok(Some(Checkpoint { commit: Some(commit.to_string()), subject, ..Checkpoint::default() }));
        }
        intent.parent = head.commit;
        intent.branch = head.branch;
        fs::change(&[change(run, &intent)?], Order::InTurn)?;
    }
    let made = make(run, Planned::Commit(Box::new(intent)));
    fs::change(&made.closing(run.project), Order::InTurn)?;
    Ok(Some(made))
}

/// The writing of an intent.
fn change(run: &Run<'_>, intent: &Intent) -> Result<Change, Failure> {
    let path = intent_path(run.project);
    let text = serde_json::to_vec(intent).map_err(|source| fs::JsonError::Syntax { path: path.clone(), source })?;
    Ok(Change::replace_private(path, text))
}

/// Where the intended commit is recorded.
pub(super) fn intent_path(project: &Project) -> PathBuf {
    project.private_own().join("commit.json")
}

/// The whole message: the agent's words where they keep the rules and its transition stands, else the coordinator's.
fn message(run: &Run<'_>, held: &Held, settlement: &Settlement) -> Result<String, Failure> {
    let left = format!("state/commit_messages/{}.txt", held.name.agent);
    let own = agent_message(&run.project.root().join(&left))?;
    let noted = settlement.row.last_event().and_then(|event| event.note.clone()).unwrap_or_default();
    let reason = settlement.row.reason.clone().unwrap_or_else(|| noted.clone());
    let by = run.signals.first().and_then(crate::session::signal_name).unwrap_or("a signal");
    let words = match (&own, settlement.action) {
        (_, commit::Action::Interrupt) => Words::Interrupted { by },
        (_, commit::Action::Limit | commit::Action::Retry) => Words::Unserved { reason: &noted },
        (_, commit::Action::Void | commit::Action::Reject) if !settlement.is_by_agent => {
            Words::Refused { reason: &reason }
        }
        (Some(Ok(message)), action) if action != commit::Action::Escalate || settlement.is_by_agent => {
            Words::Agent(message)
        }
        (_, commit::Action::Escalate) => Words::Blocked { reason: &reason },
        (Some(Err(fault)), _) => Words::Broken { fault, kept_at: &left },
        (Some(Ok(message)), _) => Words::Agent(message),
        (None, _) => Words::Missing,
    };
    Ok(commit::compose(&words, &trailers(held, settlement)))
}

fn trailers<'a>(held: &'a Held, settlement: &'a Settlement) -> Trailers<'a> {
    Trailers {
        task: &held.card.id,
        agent: &held.name.agent,
        role: &held.name.role,
        action: settlement.action,
        status: settlement.row.status.as_str(),
        title: &held.card.title,
    }
}

/// The message the agent left, if it left one.
fn agent_message(path: &std::path::Path) -> Result<Option<Result<AgentMessage, MessageFault>>, Failure> {
    // A link could lead anywhere; only a file that the agent wrote here counts.
    if path.symlink_metadata().is_ok_and(|metadata| !metadata.is_file()) {
        return Ok(None);
    }
    Ok(fs::read_if_present(path)?.map(|bytes| commit::parse_bytes(&bytes)))
}
