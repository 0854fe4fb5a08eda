//! A claim: durable before the session's process exists, and consumed by the one call that settles it.

use crate::fs::{Change, Order};
use crate::ids::TaskId;
use crate::observe::SessionName;
use crate::plan::{TaskCard, Work};
use crate::tracker::proof::Token;
use crate::tracker::row::{Claim, Row};
use crate::tracker::rules::{self, Actor, Step};
use crate::tracker::store::Batch;
use crate::workspace::Scope;

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

/// What the session that holds `row` may change: what was in its claim, since nothing it writes can widen that.
pub(super) fn scope(row: &Row, card: &TaskCard) -> Scope {
    match &row.claim {
        Some(claim) if claim.scope.is_empty() => Scope::nothing(),
        Some(claim) => Scope::new(&claim.scope),
        None => Scope::new(&card.scope),
    }
}

/// Takes the task for a session; what `open` makes of the claim is durable with it.
pub(super) fn take<T>(
    run: &mut Run<'_>,
    (name, card, commit): (SessionName, TaskCard, Option<String>),
    open: impl FnOnce(&Run<'_>, &Held) -> Result<(T, Change), Failure>,
) -> Result<(Held, T), Failure> {
    let token = prepare::fresh_token()?;
    run.redactor.begin_session(token.text());
    let depth = run.plan.depth(&card.id);
    let claim = Claim {
        agent: name.agent.clone(),
        work: name.work,
        session: name.number,
        // A review changes nothing.
        scope: if name.work == Work::Claim { card.scope.clone() } else { Vec::new() },
        head: commit,
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
    let held = Held { name, card, before, row, token };
    let (opened, opening) = open(run, &held)?;
    let memo = Memo::change(run, &held)?;
    let batch = Batch::default().row(&held.card.stage, &held.card.id, &held.row);
    // Nothing runs before all of it is on disk; a start after a kill finds the memo wherever it finds the claim.
    locked.write_with(&batch, (&[memo], &[opening]), Order::Together)?;
    drop(locked);
    crate::fault::point("claim:durable");
    run.board.set(held.card.id.clone(), held.row.clone());
    Ok((held, opened))
}

/// Renews the claim of a session that left without a transition, for its next process `name`: with a secret of its own, and
/// durable before that process exists, with what `open` makes of it. `closed` is the final record of the session before.
pub(super) fn renew<T>(
    run: &mut Run<'_>,
    (held, name): (&Held, SessionName),
    closed: Change,
    open: impl FnOnce(&Run<'_>, &Held) -> Result<(T, Change), Failure>,
) -> Result<(Held, T), Failure> {
    let token = prepare::fresh_token()?;
    run.redactor.begin_session(token.text());
    let step = Step::FollowUp { session: name.number, token_hash: token.hash() };
    let locked = run.desk.lock()?;
    let row = rules::apply(&held.card.id, &held.row, (Actor::Coordinator, &run.clock.stamp()), step)?;
    let next = Held { name, card: held.card.clone(), before: held.before.clone(), row, token };
    let (opened, opening) = open(run, &next)?;
    let memo = Memo::renewed(run, &next, &held.row)?;
    let batch = Batch::default().row(&next.card.stage, &next.card.id, &next.row);
    // In turn: a renewed claim without its memo would leave a start after a power failure with the secret of the one before.
    locked.write_with(&batch, (&[memo], &[closed, opening]), Order::InTurn)?;
    drop(locked);
    crate::fault::point("follow-up:durable");
    run.board.set(next.card.id.clone(), next.row.clone());
    Ok((next, opened))
}
