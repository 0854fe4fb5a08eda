//! What a row must hold to whoever wrote it: the tracker, a merge of two branches, or an editor.

use crate::plan::Work;
use crate::tracker::row::{Row, Status};

/// What is inconsistent within one row; empty for every row that [`super::apply`] makes.
pub fn faults(row: &Row) -> Vec<String> {
    let mut faults = Vec::new();
    let mut check = |holds: bool, text: &str| {
        if !holds {
            faults.push(text.to_owned());
        }
    };
    let blocked = row.status == Status::Blocked;
    check(blocked == row.blocked_from.is_some(), "`blocked_from` is set exactly while the status is blocked");
    check(
        !matches!(row.blocked_from, Some(Status::Blocked | Status::InProgress | Status::Done)),
        "`blocked_from` is todo or review",
    );
    check(
        blocked || (row.blocked_by.is_empty() && !row.external_wait),
        "only a blocked task has blockers or waits for a person",
    );
    check(
        !blocked || row.external_wait || !row.blocked_by.is_empty(),
        "a blocked task names a blocker or waits for a person",
    );
    check(row.status != Status::InProgress || row.owner.is_some(), "a task in progress has an owner");
    let claim = row.claim.as_ref();
    check(claim.is_none_or(|claim| row.agents.contains(&claim.agent)), "who claims a task is one of its `agents`");
    check(
        row.status != Status::InProgress
            || claim.is_none_or(|claim| claim.work == Work::Claim && row.owner.as_ref() == Some(&claim.agent)),
        "a task in progress is claimed by its owner, to execute it",
    );
    check(row.events.windows(2).all(|pair| pair[0].seq < pair[1].seq), "events are in the order of `seq`");
    faults
}
