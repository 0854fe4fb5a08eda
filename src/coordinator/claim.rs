//! A claim: durable before the session's process exists, and consumed by the one call that settles it.

use crate::ids::TaskId;
use crate::observe::SessionName;
use crate::plan::{TaskCard, Work};
use crate::tracker::proof::Token;
use crate::tracker::row::{Claim, Row};
use crate::tracker::rules::{self, Actor, Step};
use crate::tracker::store::Batch;

use super::Run;
use super::failure::Failure;
use super::memo::Memo;
use super::prepare;

/// A live claim of this coordinator.
#[must_use = "a claim has to be settled"]
pub(super) struct Held {
    /// The session it is for.
    pub(super) name: SessionName,
    /// The task's card as it was at the claim: nothing a session writes can widen its scope.
    pub(super) card: TaskCard,
    /// The row before the claim.
    pub(super) before: Row,
    /// The row with the claim.
    pub(super) row: Row,
    /// The session's secret.
    pub(super) token: Token,
}

/// Takes the task for a session.
pub(super) fn take(
    run: &mut Run<'_>,
    name: SessionName,
    card: TaskCard,
    head: Option<String>,
) -> Result<Held, Failure> {
    let token = prepare::fresh_token()?;
    let depth = run.plan.depth(&card.id);
    let claim = Claim {
        agent: name.agent.clone(),
        work: name.work,
        session: name.number,
        // A review changes nothing.
        scope: if name.work == Work::Claim { card.scope.clone() } else { Vec::new() },
        head,
        remediation_left: run.config.max_remediation_depth.saturating_sub(depth),
        token_hash: Some(token.hash()),
        pid: Some(run.identity.pid),
        boot_id: Some(run.identity.boot_id.clone()),
        start_time: Some(run.identity.start_time),
    };
    let locked = run.desk.lock()?;
    let before = locked.read_row(&card.stage, &card.id)?;
    let waiting_for: Vec<TaskId> = run.board.unfinished(&card.depends_on);
    let step = Step::Claim { claim, waiting_for: &waiting_for };
    let row = rules::apply(&card.id, &before, (Actor::Session(&name.agent), &run.clock.stamp()), step)?;
    Memo::write(run, &card, &token, (&before, &row))?;
    crate::fault::point("claim:noted");
    locked.write(&Batch::default().row(&card.stage, &card.id, &row))?;
    drop(locked);
    crate::fault::point("claim:durable");
    run.board.set(card.id.clone(), row.clone());
    Ok(Held { name, card, before, row, token })
}
