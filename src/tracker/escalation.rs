//! How a named blocker becomes rows, a report and perhaps a remediation card, written as one change.
//!
//! Owns which files an escalation touches; whether there is a remediation is decided in `remediation`.

use crate::ids::{AgentId, TaskId};
use crate::plan::TaskCard;

use super::desk::{Caller, Changed, Desk, Result, actor, created, handoff_path, sign};
use super::remediation::{self, Escalation, Issue, Origin};
use super::row::Row;
use super::rules::{self, Actor, Blocker, Refusal, Step};
use super::store::{Batch, LockedStore};

impl Desk<'_> {
    /// A session's own escalation.
    pub fn escalate(&self, task: &TaskId, caller: &Caller, issue: &Issue) -> Result<Changed> {
        let card = self.card(task)?;
        for role in issue.role.iter().chain(&issue.reviewer_role) {
            if !self.project().root().join(format!("roles/{role}.md")).is_file() {
                return Err(Refusal::new(
                    format!("the issue's role {role} has no text roles/{role}.md"),
                    "name a role that has one, or leave the key out",
                )
                .into());
            }
        }
        let locked = self.lock_to_write()?;
        let row = locked.read_row(&card.stage, task)?;
        let who = actor(task, &row, caller)?;
        let levels_left = row.claim.as_ref().map_or(0, |claim| claim.remediation_left);
        let planned = self.plan_escalation(&locked, (&card, levels_left), issue)?;
        let made = self.escalated((&row, who), (&card, &caller.name), (issue, planned))?;
        let batch = made.batch(Some(caller));
        locked.write(&batch.0)?;
        Ok(Changed {
            card,
            from: row.status,
            row: batch.1,
            remediation: made.remediation.map(|(card, _)| card.id),
            unblocked: None,
        })
    }

    /// What `issue` of a task with so many levels of remediation left comes to.
    pub fn plan_escalation(
        &self,
        locked: &LockedStore<'_>,
        (card, levels_left): (&TaskCard, u32),
        issue: &Issue,
    ) -> Result<Escalation> {
        let mut taken = Vec::new();
        while let Ok(id) = format!("{}-r{}", card.id, taken.len() + 1).parse::<TaskId>()
            && self.project().card(&id).exists()
        {
            taken.push(id);
        }
        let mut open_causes = Vec::new();
        let mut below = card.clone();
        while let Some(origin) = below.origin.clone() {
            let above = self.card(&origin)?;
            let row = locked.read_row(&above.stage, &origin)?;
            open_causes.push((below.id, row.reason.unwrap_or_default()));
            below = above;
        }
        let origin = Origin { card, levels_left, taken: &taken, open_causes: &open_causes };
        Ok(remediation::escalation(origin, issue)?)
    }

    /// The rows, card and report that a planned escalation of `agent`'s session makes; nothing is written yet.
    pub fn escalated(
        &self,
        (row, who): (&Row, Actor<'_>),
        (card, agent): (&TaskCard, &AgentId),
        (issue, planned): (&Issue, Escalation),
    ) -> Result<Escalated> {
        let at = self.clock.stamp();
        let handoff = handoff_path(agent, &card.id);
        let (reason, blocker) = match &planned {
            Escalation::Remediate(made) => (issue.reason.clone(), Blocker::Task(made.id.clone())),
            Escalation::Wait(None) => (issue.reason.clone(), Blocker::Person),
            Escalation::Wait(Some(why)) => (format!("{} (waits for a person: {why})", issue.reason), Blocker::Person),
        };
        let step = Step::Escalate { reason: reason.clone(), handoff: handoff.clone(), blocker };
        let row = rules::apply(&card.id, row, (who, &at), step)?;
        let remediation = match planned {
            Escalation::Remediate(made) => {
                let row = created(agent.as_str(), &at, &format!("remediates {}", card.id), Some(handoff.clone()));
                Some((*made, row))
            }
            Escalation::Wait(_) => None,
        };
        let next = match &remediation {
            Some((made, _)) => format!("Remediation: {}", made.id),
            None => "Remediation: none; a person has to answer (`runner task answer`)".to_owned(),
        };
        let report = format!(
            "# Blocker of {}\n\nTitle: {}\nAgent: {agent}\n{next}\n\n{}\n",
            card.id,
            issue.title.trim(),
            reason.trim_end()
        );
        Ok(Escalated { card: card.clone(), row, handoff, report, remediation })
    }
}

/// What an escalation makes.
#[derive(Debug, Clone)]
pub struct Escalated {
    card: TaskCard,
    /// The blocked row.
    pub row: Row,
    handoff: String,
    report: String,
    /// The remediation's card and row.
    pub remediation: Option<(TaskCard, Row)>,
}

impl Escalated {
    /// Everything to write, and the blocked row as written; signed if a session asked for it.
    pub fn batch(&self, caller: Option<&Caller>) -> (Batch, Row) {
        let mut row = self.row.clone();
        let mut batch = Batch::default().text(&self.handoff, &self.report);
        if let Some((card, made)) = &self.remediation {
            let mut made = made.clone();
            if let Some(caller) = caller {
                sign(&mut made, caller, &card.to_json());
            }
            batch = batch.card(card).row(&card.stage, &card.id, &made);
        }
        if let Some(caller) = caller {
            sign(&mut row, caller, "");
        }
        (batch.row(&self.card.stage, &self.card.id, &row), row)
    }
}
