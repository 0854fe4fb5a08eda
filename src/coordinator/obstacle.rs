//! What keeps a task that is ready from another session until a person has looked at it. A run and a dry run ask the same.

use crate::config::Config;
use crate::project::Project;
use crate::tracker::breaker;
use crate::tracker::row::Row;

use super::budget;

/// Why the task of `row` waits for a person instead of getting a session, if it does: the bound on its sessions, failures for one
/// and the same cause, its budget.
pub(super) fn before(places: (&Config, &Project), row: &Row) -> Option<String> {
    let used = row.sessions();
    let used_up = (used >= places.0.max_task_sessions)
        .then(|| format!("used up its {used} sessions (`max_task_sessions`); a person has to look at it"));
    used_up.or_else(|| breaker::tripped(row)).or_else(|| budget::of_task(places, row))
}
