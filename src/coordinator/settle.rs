//! Carries a verdict out: the rows, reports and cards it makes, written as one change that consumes the claim.

use serde_json::{Value, json};

use crate::commit::Action;
use crate::evidence;
use crate::observe::SessionName;
use crate::plan::{TaskCard, views};
use crate::tracker::desk::{Escalated, handoff_path};
use crate::tracker::ready;
use crate::tracker::remediation::Issue;
use crate::tracker::row::{Row, Status};
use crate::tracker::rules::{self, Actor, Step};
use crate::tracker::store::{Batch, LockedStore};
use crate::verdict::Verdict;
use crate::{fs, plan::Plan, plan::Work};

use super::Run;
use super::aftermath::Aftermath;
use super::claim::Held;
use super::failure::Failure;
use super::memo::Memo;

/// What a verdict makes of the state.
pub(super) struct Settlement {
    /// The task's row, without a claim.
    pub(super) row: Row,
    /// What the commit says was done.
    pub(super) action: Action,
    /// What it came to, for people.
    pub(super) outcome: String,
    /// Whether the agent itself made the transition, so that its own message may describe it.
    pub(super) is_by_agent: bool,
    /// The remediation that was made.
    remediation: Option<TaskCard>,
    batch: Batch,
}

impl Settlement {
    /// Works out what `verdict` makes of the state; writes nothing.
    pub(super) fn of(
        run: &Run<'_>,
        locked: &LockedStore<'_>,
        held: &Held,
        (aftermath, verdict): (&Aftermath, &Verdict),
    ) -> Result<Self, Failure> {
        match verdict {
            Verdict::Stands(status) => Ok(Self::standing(held, aftermath, *status)),
            Verdict::Blocked => Ok(Self::blocked_by_agent(held, aftermath)),
            Verdict::Interrupted => {
                let by = run.signals.first().and_then(crate::session::signal_name).unwrap_or("a signal");
                let note = format!("the run was interrupted by {by}; work in scope is kept as a checkpoint");
                let step = Step::Release { note: note.clone() };
                Self::given_back(run, held, &aftermath.row, (step, Action::Interrupt, &format!("released: {note}")))
            }
            Verdict::Limited { reason, .. } => {
                let note = reason.clone();
                let outcome = format!("limited: {}; the session counts as none", first_line(reason));
                Self::given_back(run, held, &aftermath.row, (Step::Limit { note }, Action::Limit, &outcome))
            }
            Verdict::Retry { reason, .. } => {
                let note = reason.clone();
                let outcome = format!("not served: {}", first_line(reason));
                Self::given_back(run, held, &aftermath.row, (Step::Retry { note }, Action::Retry, &outcome))
            }
            // Without git the files cannot be brought back, and one more try is enough.
            Verdict::Void { reason } if run.git.is_some() && aftermath.row.voided_reviews() == 0 => {
                Self::undone(run, held, aftermath, (Action::Void, reason))
            }
            Verdict::Quarantine { reason, .. } | Verdict::Void { reason } => {
                Self::undone(run, held, aftermath, (Action::Escalate, reason))
            }
            Verdict::SendBack { reason } => Self::sent_back(run, held, &aftermath.row, reason),
            Verdict::Wait { reason } => Self::escalated(run, locked, held, (&aftermath.row, reason, true)),
            Verdict::Escalate { reason } => Self::escalated(run, locked, held, (&aftermath.row, reason, false)),
        }
    }

    fn standing(held: &Held, aftermath: &Aftermath, status: Status) -> Self {
        let (action, outcome) = match (held.name.work, status) {
            (Work::Claim, _) => (Action::Submit, "submitted, waits for review".to_owned()),
            (Work::Review, Status::Done) => (Action::Approve, "approved, done".to_owned()),
            (Work::Review, _) => {
                let reason = aftermath.row.reason.as_deref().unwrap_or_default();
                (Action::Reject, format!("rejected: {}", first_line(reason)))
            }
        };
        Self { is_by_agent: true, ..Self::plain(held, &aftermath.row, (action, outcome)) }
    }

    fn blocked_by_agent(held: &Held, aftermath: &Aftermath) -> Self {
        let reason = first_line(aftermath.row.reason.as_deref().unwrap_or_default()).to_owned();
        let by = aftermath
            .row
            .blocked_by
            .first()
            .map_or("a person has to answer".to_owned(), |id| format!("{id} will remove it"));
        let mut made = Self::plain(held, &aftermath.row, (Action::Escalate, format!("blocked: {reason}; {by}")));
        made.is_by_agent = true;
        made.remediation = aftermath
            .others
            .iter()
            .map(|(card, _)| card)
            .find(|card| card.origin.as_ref() == Some(&held.card.id))
            .cloned();
        made
    }

    /// The row as it stands, its claim consumed.
    fn plain(held: &Held, row: &Row, (action, outcome): (Action, String)) -> Self {
        let row = Row { claim: None, ..row.clone() };
        let batch = Batch::default().row(&held.card.stage, &held.card.id, &row);
        Self { row, action, outcome, is_by_agent: false, remediation: None, batch }
    }

    /// The claim given back without a result.
    fn given_back(
        run: &Run<'_>,
        held: &Held,
        row: &Row,
        (step, action, outcome): (Step<'_>, Action, &str),
    ) -> Result<Self, Failure> {
        let row = rules::apply(&held.card.id, row, (Actor::Coordinator, &run.clock.stamp()), step)?;
        Ok(Self::plain(held, &row, (action, outcome.to_owned())))
    }

    /// The row as before the session, and every other row its transition had changed too; the task waits for another review, or
    /// for a person.
    fn undone(
        run: &Run<'_>,
        held: &Held,
        aftermath: &Aftermath,
        (action, reason): (Action, &str),
    ) -> Result<Self, Failure> {
        let handoff = handoff_path(&held.name.agent, &held.card.id);
        let (before, reason) = (&held.before, reason.to_owned());
        let is_void = action == Action::Void;
        let (title, next, outcome) = if is_void {
            ("Voided review", "Another session reviews the task.".to_owned(), format!("review voided: {reason}"))
        } else {
            let next = format!("A person has to answer (`runner task answer {}`).", held.card.id);
            ("Quarantine", next, format!("quarantined: {reason}"))
        };
        let report = format!(
            "# {title} of {}\n\nAgent: {}\n\nWhat the session did to the task is undone: {reason}\n\nWhat it left is kept in \
             state/runs/{}/{}/. {next}\n",
            held.card.id, held.name.agent, held.name.agent, held.name.number
        );
        let step = if is_void {
            Step::Void { before, reason, handoff: handoff.clone() }
        } else {
            Step::Quarantine { before, reason, handoff: handoff.clone() }
        };
        let row = rules::apply(&held.card.id, &aftermath.row, (Actor::Coordinator, &run.clock.stamp()), step)?;
        let mut made = Self::plain(held, &row, (action, outcome));
        made.batch = std::mem::take(&mut made.batch).text(&handoff, &report);
        for (card, _) in &aftermath.others {
            made.batch = match run.plan.task(&card.id) {
                Some(known) => std::mem::take(&mut made.batch).row(&known.stage, &known.id, run.board.row(&known.id)),
                None => std::mem::take(&mut made.batch).without_task(&card.stage, &card.id),
            };
        }
        Ok(made)
    }

    /// The work goes back to the next executor with the coordinator's reason.
    fn sent_back(run: &Run<'_>, held: &Held, row: &Row, reason: &str) -> Result<Self, Failure> {
        let id = &held.card.id;
        let handoff = handoff_path(&held.name.agent, id);
        let report = format!("# {id} was rejected\n\nReviewer: coordinator\n\n{}\n", reason.trim_end());
        let step = Step::SendBack { reason: reason.to_owned(), handoff: handoff.clone() };
        let row = rules::apply(id, row, (Actor::Coordinator, &run.clock.stamp()), step)?;
        let mut made = Self::plain(held, &row, (Action::Reject, format!("rejected: {}", first_line(reason))));
        made.batch = std::mem::take(&mut made.batch).text(&handoff, &report);
        Ok(made)
    }

    /// The coordinator names the blocker for a session that did not.
    fn escalated(
        run: &Run<'_>,
        locked: &LockedStore<'_>,
        held: &Held,
        (row, reason, needs_person): (&Row, &str, bool),
    ) -> Result<Self, Failure> {
        let issue = Issue {
            title: format!("Remove what interrupted {}", root_of(&run.plan, &held.card)),
            reason: reason.to_owned(),
            role: None,
            reviewer_role: None,
            scope: Vec::new(),
            outcome: None,
            steps: Vec::new(),
            acceptance: Vec::new(),
            checks: Vec::new(),
            requirements: Vec::new(),
            requires_user_input: needs_person,
        };
        let levels = held.row.claim.as_ref().map_or(0, |claim| claim.remediation_left);
        let planned = run.desk.plan_escalation(locked, (&held.card, levels), &issue)?;
        let made: Escalated =
            run.desk.escalated((row, Actor::Coordinator), (&held.card, &held.name.agent), (&issue, planned))?;
        let (batch, row) = made.batch(None);
        let row = Row { claim: None, ..row };
        let batch = batch.row(&held.card.stage, &held.card.id, &row);
        let by = made
            .remediation
            .as_ref()
            .map_or("a person has to answer".to_owned(), |(card, _)| format!("{} will look into it", card.id));
        let outcome = format!("failed: {}; {by}", first_line(reason));
        Ok(Self {
            row,
            action: Action::Escalate,
            outcome,
            is_by_agent: false,
            remediation: made.remediation.map(|(card, _)| card),
            batch,
        })
    }

    /// The same with one more text to be written, if there is one: its path and content.
    pub(super) fn with_text(mut self, text: Option<&(String, String)>) -> Self {
        if let Some((path, text)) = text {
            self.batch = std::mem::take(&mut self.batch).text(path, text);
        }
        self
    }

    /// The files that are written with it.
    pub(super) fn paths(&self) -> impl Iterator<Item = &str> {
        self.batch.paths()
    }

    /// The result as the record of the session holds it.
    pub(super) fn describe(&self, verdict: &Verdict) -> Value {
        let kind = match verdict {
            Verdict::Stands(_) => "stands",
            Verdict::Blocked => "blocked",
            Verdict::Quarantine { .. } => "quarantined",
            Verdict::Void { .. } => "voided",
            Verdict::SendBack { .. } => "rejected",
            Verdict::Wait { .. } => "waits",
            Verdict::Escalate { .. } => "escalated",
            Verdict::Interrupted => "interrupted",
            Verdict::Limited { .. } => evidence::LIMITED,
            Verdict::Retry { .. } => "retried",
        };
        json!({
            "verdict": kind, "status": self.row.status, "reason": self.row.reason,
            "blocked": self.row.status == Status::Blocked, "resolution_tasks": self.row.blocked_by,
            "external_wait": self.row.external_wait,
        })
    }
}

/// Writes the settlement, after the `intent` of its commit, and takes it over into memory; the claim is consumed, and what is
/// left of it is the session's name.
pub(super) fn write(
    run: &mut Run<'_>,
    locked: &LockedStore<'_>,
    held: Held,
    (intent, made): (&[fs::Change], &Settlement),
) -> Result<SessionName, Failure> {
    let Held { name, card, .. } = held;
    crate::fault::point("settle:before");
    locked.write_with(&made.batch, (intent, &[]), fs::Order::InTurn)?;
    crate::fault::point("settle:durable");
    Memo::remove(run.project)?;
    if made.remediation.is_some() {
        run.read_plan()?;
        run.board = locked.read(&run.plan)?;
        return Ok(name);
    }
    run.board.set(card.id.clone(), made.row.clone());
    if let Some(origin) = card.origin.as_ref().and_then(|origin| run.plan.task(origin)) {
        let row = locked.read_row(&origin.stage, &origin.id)?;
        run.board.set(origin.id.clone(), row);
    }
    Ok(name)
}

/// Writes those generated views whose content changed, and names them. What comes from the plan alone is rendered again only
/// after the plan was read.
pub(super) fn render_views(run: &mut Run<'_>) -> Result<Vec<&'static str>, Failure> {
    let counts = ready::counts(&run.plan, &run.board);
    let pages = if run.is_plan_rendered {
        vec![views::render_counts(&run.plan, &counts)]
    } else {
        views::render(&run.plan, &counts)
    };
    let mut written = Vec::new();
    for (name, text) in pages {
        let path = run.project.root().join(name);
        if fs::read_if_present(&path)?.as_deref() != Some(text.as_bytes()) {
            // The commit keeps its content durably, and a lost one is rendered again by the next start.
            fs::replace_unsynced(&path, text.as_bytes(), 0o644)?;
            written.push(name);
        }
    }
    run.is_plan_rendered = true;
    crate::fault::point("views:rendered");
    Ok(written)
}

/// The task at the top of a chain of remediations, so that titles do not nest.
fn root_of(plan: &Plan, card: &TaskCard) -> crate::ids::TaskId {
    let mut top = card;
    while let Some(origin) = top.origin.as_ref().and_then(|origin| plan.task(origin)) {
        top = origin;
    }
    top.id.clone()
}

fn first_line(text: &str) -> &str {
    text.lines().next().unwrap_or_default().trim()
}
