//! Changes that people ask for: at once when no run is on, else queued and applied between two sessions.

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::fs;
use crate::ids::{AgentId, TaskId};
use crate::observe::Event;
use crate::plan::{Plan, TaskCard, views};
use crate::project::Project;
use crate::tracker::desk::{Caller, Desk, created};
use crate::tracker::ready;
use crate::tracker::row::Status;
use crate::tracker::rules::{Refusal, Step};
use crate::tracker::store::Batch;

use super::failure::Failure;
use super::{Run, holder};

/// A change that may wait until the current session has ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "verb", rename_all = "snake_case", deny_unknown_fields)]
pub enum PersonChange {
    /// An external wait is answered; the words become the handoff.
    Answer {
        /// The task.
        task: TaskId,
        /// Who answers.
        name: AgentId,
        /// The answer.
        text: String,
    },
    /// A claim is given back.
    Release {
        /// The task.
        task: TaskId,
        /// Who releases it.
        name: AgentId,
    },
    /// A task is added to the plan.
    Add {
        /// Who adds it.
        name: AgentId,
        /// The card's text.
        card: String,
    },
}

/// What became of a person's change.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Handled {
    /// It is done; the text says what holds now.
    Done(String),
    /// A run is on: it is applied when the current session has ended.
    Queued(PathBuf),
}

/// Applies the change, or queues it while a run is on.
pub fn handle(desk: &Desk<'_>, change: &PersonChange, stamp: &str) -> Result<Handled, Failure> {
    let project = desk.project();
    if let Ok(_no_run_meanwhile) = holder::keep_away(project)? {
        return Ok(Handled::Done(apply(desk, change, None)?));
    }
    let folder = queue(project);
    let taken = fs::list(&folder)?.unwrap_or_default().len();
    let path = folder.join(format!("{}-{taken:04}-{}.json", stamp.replace(':', ""), std::process::id()));
    let text =
        serde_json::to_string_pretty(change).map_err(|source| fs::JsonError::Syntax { path: path.clone(), source })?;
    fs::replace_private(&path, text.as_bytes())?;
    Ok(Handled::Queued(path))
}

/// Applies all queued changes, oldest first, and says whether there were any; one that is refused is reported and put aside.
pub(super) fn apply_queue(run: &mut Run<'_>) -> Result<bool, Failure> {
    let waiting = fs::list(&queue(run.project))?.unwrap_or_default();
    let waiting: Vec<_> = waiting.into_iter().filter(|path| path.extension().is_some_and(|e| e == "json")).collect();
    if waiting.is_empty() {
        return Ok(false);
    }
    super::start::ensure_converted(run)?;
    for path in waiting {
        let outcome = fs::read_json::<PersonChange>(&path)
            .map_err(Failure::from)
            .and_then(|change| apply(&run.desk, &change, Some(&path)));
        match outcome {
            Ok(what) => (run.observe)(&Event::Applied { what }),
            Err(failure) => {
                let aside = path.with_extension("refused");
                fs::copy_aside(&path, &aside)?;
                fs::remove(&path)?;
                let text =
                    format!("a queued change was refused: {}; it is kept in {}", failure.reason(), aside.display());
                (run.observe)(&Event::Warning { text });
            }
        }
    }
    run.read_plan()?;
    run.board = run.desk.store().read(&run.plan)?;
    Ok(true)
}

fn queue(project: &Project) -> PathBuf {
    project.private_own().join("queue")
}

/// Carries the change out; the file it was queued in, if there is one, goes in the same step.
fn apply(desk: &Desk<'_>, change: &PersonChange, queued: Option<&Path>) -> Result<String, Failure> {
    let batch = Batch::for_request(queued);
    match change {
        PersonChange::Answer { task, name, text } => answer(desk, (task, name), text, batch),
        PersonChange::Release { task, name } => {
            let note = format!("released by {name}");
            let caller = Caller { name: name.clone(), token: None };
            let changed = desk.change(task, &caller, |_| Ok((Step::Release { note }, batch)))?;
            Ok(format!("{task} is released and {}", changed.row.status))
        }
        PersonChange::Add { name, card } => add(desk, name, card, batch),
    }
}

fn answer(desk: &Desk<'_>, (task, name): (&TaskId, &AgentId), text: &str, batch: Batch) -> Result<String, Failure> {
    if text.trim().is_empty() {
        return Err(Refusal::new("an answer has words", "say with --text what holds now").into());
    }
    let card = desk.card(task)?;
    let locked = desk.lock()?;
    let row = locked.read_row(&card.stage, task)?;
    let still_blocked = desk.is_blocked(&locked, &row, None)?;
    drop(locked);
    let handoff = format!("state/handoffs/{name}-{task}-answer-{}.md", row.events.len() + 1);
    let waited = row.reason.as_deref().unwrap_or("(no reason recorded)").trim_end();
    let note =
        format!("# Answer for {task}\n\nThe task waited because: {waited}\n\n{name} answers:\n\n{}\n", text.trim_end());
    let caller = Caller { name: name.clone(), token: None };
    let changed = desk.change(task, &caller, |_| {
        let step = Step::Answer { handoff: handoff.clone(), still_blocked };
        Ok((step, batch.text(&handoff, &note)))
    })?;
    Ok(format!("{task} is answered and {}", changed.row.status))
}

fn add(desk: &Desk<'_>, name: &AgentId, text: &str, batch: Batch) -> Result<String, Failure> {
    let project = desk.project();
    let card =
        TaskCard::parse(Path::new("the card"), text.as_bytes()).map_err(crate::tracker::desk::DeskError::Card)?;
    let path = project.card(&card.id);
    if path.exists() {
        return Err(Refusal::new(format!("{} exists already", card.id), "choose another id").into());
    }
    let plan = Plan::load(project)?;
    for role in [&card.role, &card.reviewer_role] {
        if !project.root().join(format!("roles/{role}.md")).is_file() {
            let advice = "write that file, or name a role that has one";
            return Err(Refusal::new(format!("role {role} has no text roles/{role}.md"), advice).into());
        }
    }
    let mut tasks = plan.tasks().to_vec();
    tasks.push(card.clone());
    Plan::new(plan.stages().to_vec(), tasks).map_err(crate::tracker::desk::DeskError::Card)?;
    let row = created(name.as_str(), &desk.stamp(), "added by a person", None);
    let locked = desk.lock()?;
    if locked.needs_conversion()? {
        locked.convert(&plan)?;
    }
    locked.write(&batch.card(&card).row(&card.stage, &card.id, &row))?;
    drop(locked);
    let plan = Plan::load(project)?;
    let board = desk.store().read(&plan)?;
    for (name, text) in views::render(&plan, &ready::counts(&plan, &board)) {
        fs::replace(&project.root().join(name), text.as_bytes())?;
    }
    Ok(format!("{} is added and {}", card.id, Status::Todo))
}
