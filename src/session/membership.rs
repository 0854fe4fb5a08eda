//! Who belongs to a session's tree, told from a walk of the process table. Pure, but for the look at what was there before.

use std::collections::{BTreeMap, BTreeSet};

use super::process_table::{self, Row};
use super::tree::has_no_children;

/// Who is no part of the session: this process, its session, and everything that descended from it before the launch.
#[derive(Debug, Default)]
pub(crate) struct Others {
    me: i32,
    known: BTreeSet<(i32, u64)>,
    sessions: BTreeSet<i32>,
}

impl Others {
    /// As it is now, right before a launch.
    pub(crate) fn now() -> Self {
        let me = rustix::process::getpid().as_raw_pid();
        let own_session = process_table::read(me).map_or(0, |row| row.session);
        let mut others = Self { me, known: BTreeSet::new(), sessions: BTreeSet::from([own_session]) };
        if !has_no_children() {
            let rows: Vec<Row> = process_table::all().collect();
            for row in descendants(&rows, |row| row.parent == me) {
                others.known.insert((row.pid, row.start));
                others.sessions.insert(row.session);
            }
        }
        others
    }

    /// Whether a child of this process came to it from the session's tree.
    pub(crate) fn is_orphan_of_session(&self, row: &Row) -> bool {
        row.parent == self.me && !self.sessions.contains(&row.session) && !self.known.contains(&(row.pid, row.start))
    }
}

/// Rows that match, and all that descend from them, in any order of the table.
fn descendants(rows: &[Row], is_root: impl Fn(&Row) -> bool) -> Vec<&Row> {
    let mut children: BTreeMap<i32, Vec<&Row>> = BTreeMap::new();
    for row in rows {
        children.entry(row.parent).or_default().push(row);
    }
    let mut found: Vec<&Row> = rows.iter().filter(|row| is_root(row)).collect();
    let mut seen: BTreeSet<i32> = found.iter().map(|row| row.pid).collect();
    let mut next = 0;
    while let Some(row) = found.get(next) {
        let offspring = children.get(&row.pid).into_iter().flatten();
        found.extend(offspring.filter(|child| seen.insert(child.pid)).copied().collect::<Vec<_>>());
        next += 1;
    }
    found
}

/// The processes of a session's tree in a table. `leader` is `None` once the leader was reaped and its id may be somebody
/// else's. This process is never among them.
pub(crate) fn members<'a>(rows: &'a [Row], leader: Option<i32>, others: &Others) -> Vec<&'a Row> {
    let in_tree = |row: &Row| {
        let of_leader = leader.is_some_and(|leader| row.pid == leader || row.session == leader);
        of_leader || others.is_orphan_of_session(row)
    };
    let mut found = descendants(rows, in_tree);
    found.retain(|row| row.pid != others.me);
    found
}

/// Whether the parent of some process was gone before the walk got to it, so that its descent is not known.
pub(crate) fn is_torn(rows: &[Row]) -> bool {
    let pids: BTreeSet<i32> = rows.iter().map(|row| row.pid).collect();
    rows.iter().any(|row| row.parent != 0 && !pids.contains(&row.parent))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::{Others, Row, is_torn, members};

    fn row(pid: i32, parent: i32, session: i32) -> Row {
        Row { pid, parent, group: session, session, start: 10, ended: false, name: String::new() }
    }

    /// This process is 100 in session 90; it had the child 200, which made the session 200, before the launch of 300.
    fn others() -> Others {
        Others { me: 100, known: BTreeSet::from([(200, 10), (201, 10)]), sessions: BTreeSet::from([90, 200]) }
    }

    fn found(rows: &[Row], leader: Option<i32>) -> Vec<i32> {
        let mut pids: Vec<i32> = members(rows, leader, &others()).iter().map(|row| row.pid).collect();
        pids.sort_unstable();
        pids
    }

    #[test]
    fn descendants_in_any_session_belong_to_the_tree() {
        let rows = [row(302, 301, 302), row(301, 300, 300), row(300, 100, 300), row(100, 1, 90), row(1, 0, 1)];
        assert_eq!(found(&rows, Some(300)), [300, 301, 302]);
    }

    #[test]
    fn an_orphan_that_came_to_this_process_belongs_to_the_tree_with_its_children() {
        let rows = [row(100, 1, 90), row(400, 100, 399), row(401, 400, 401)];
        assert_eq!(found(&rows, None), [400, 401]);
    }

    #[test]
    fn what_was_there_before_or_shares_its_session_is_nobody_of_the_tree() {
        let rows = [row(100, 1, 90), row(90, 1, 90), row(200, 100, 200), row(201, 200, 200), row(202, 100, 200)];
        let forked_by_another_thread = row(203, 100, 90);
        let strangers = [row(1, 0, 1), row(500, 1, 500), row(501, 500, 500)];
        let table: Vec<Row> = rows.into_iter().chain([forked_by_another_thread]).chain(strangers).collect();
        assert_eq!(found(&table, Some(300)), [] as [i32; 0]);
    }

    #[test]
    fn a_reused_id_is_another_process() {
        let mut reused = row(201, 100, 777);
        reused.start = 11;
        assert_eq!(found(&[row(100, 1, 90), reused], None), [201]);
        let reused_leader = row(300, 1, 300);
        assert_eq!(found(&[row(100, 1, 90), reused_leader], None), [] as [i32; 0]);
    }

    #[test]
    fn a_member_of_the_leaders_session_belongs_to_the_tree_even_if_its_parent_was_not_seen() {
        let rows = [row(100, 1, 90), row(300, 100, 300), row(305, 304, 300)];
        assert_eq!(found(&rows, Some(300)), [300, 305]);
        assert!(is_torn(&rows));
    }

    #[test]
    fn this_process_is_never_part_of_a_tree() {
        assert_eq!(found(&[row(100, 100, 90), row(100, 300, 300), row(300, 100, 300)], Some(300)), [300]);
    }
}
