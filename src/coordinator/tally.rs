//! What a run has come to so far: the coordinator's own bookkeeping, an observer that is told after the caller's.
//!
//! Only events write here. Budgets are kept in their own figures; what sessions used together in the agents' is for groups to say.

use std::cell::RefCell;

use crate::budget::Used;
use crate::evidence::ReportTally;
use crate::ids::AgentId;
use crate::observe::{Event, Spent};
use crate::outcome::RunResult;
use crate::tokens::Figure;

/// The books of one run.
#[derive(Debug, Default)]
pub(super) struct Tally(RefCell<Sums>);

#[derive(Debug, Default)]
struct Sums {
    launched: u32,
    last_session: Option<AgentId>,
    last_commit: Option<String>,
    commit_error: Option<String>,
    /// What the sessions that ended used.
    used: Used,
    report: ReportTally,
}

impl Tally {
    /// Takes in one event.
    pub(super) fn hear(&self, event: &Event) {
        let mut sums = self.0.borrow_mut();
        match event {
            Event::SessionStarted { session, count } => {
                sums.launched = *count;
                sums.last_session = Some(session.agent.clone());
            }
            Event::SessionEnded { limited, wall_ms, spent, .. } => {
                sums.used = sums.used.and(used_by(*wall_ms, spent, *limited));
            }
            Event::Committed { commit, .. } => (sums.last_commit, sums.commit_error) = (Some(commit.clone()), None),
            Event::CommitFailed { reason } => sums.commit_error = Some(reason.clone()),
            Event::Reported { reported, .. } => sums.report.add(*reported),
            _ => {}
        }
    }

    /// How many sessions were started.
    pub(super) fn launched(&self) -> u32 {
        self.0.borrow().launched
    }

    /// What those that ended used.
    pub(super) fn used(&self) -> Used {
        self.0.borrow().used
    }

    /// Whether the last commit that was due could not be made.
    pub(super) fn lacks_commit(&self) -> bool {
        self.0.borrow().commit_error.is_some()
    }

    /// Puts all of it into the run's result.
    pub(super) fn write_to(&self, result: &mut RunResult) {
        let sums = self.0.borrow();
        result.used = sums.used;
        result.launched = sums.launched;
        result.last_session.clone_from(&sums.last_session);
        result.last_commit.clone_from(&sums.last_commit);
        result.commit_error.clone_from(&sums.commit_error);
        result.report = sums.report;
    }
}

/// What counts against budgets of a session that ended.
fn used_by(wall_ms: u64, spent: &Spent, is_limited: bool) -> Used {
    let used = Used::session(Figure::whole(wall_ms), &spent.tokens, spent.cost);
    if is_limited { used.with_sessions(0) } else { used }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::observe::{SessionName, compose};
    use crate::plan::Work;
    use crate::tokens::Tokens;

    fn session(agent: &str) -> SessionName {
        SessionName {
            agent: agent.parse().unwrap(),
            number: 1,
            parent: None,
            task: "S00-001".parse().unwrap(),
            title: String::new(),
            role: "qa".parse().unwrap(),
            work: Work::Review,
        }
    }

    fn ended(limited: bool, tokens: u64) -> Event {
        let tokens = Tokens { total: Figure::whole(tokens), ..Tokens::default() };
        let spent = Spent { tokens, ..Spent::default() };
        let (session, outcome) = (session("auto-qa-000102030405"), String::new());
        Event::SessionEnded { session, outcome, good: true, limited, wall_ms: 500, spent }
    }

    #[test]
    fn what_a_run_came_to_is_what_its_events_told() {
        let tally = Tally::default();
        tally.hear(&Event::SessionStarted { session: session("auto-qa-000102030405"), count: 1 });
        assert_eq!((tally.launched(), tally.used()), (1, Used::NOTHING), "nothing is counted before its end");
        tally.hear(&ended(false, 70));
        tally.hear(&Event::SessionStarted { session: session("auto-qa-050403020100"), count: 2 });
        tally.hear(&ended(true, 5));
        let used = tally.used();
        assert_eq!((used.sessions, used.begun), (1, 2), "one that a limit ended is no session");
        assert_eq!((used.tokens, used.wall_ms), (Figure::whole(75), Figure::whole(1000)));
        assert_eq!(used.unknown.cost, 2);
    }

    #[test]
    fn a_commit_that_failed_is_lacking_until_one_is_made() {
        let tally = Tally::default();
        assert!(!tally.lacks_commit());
        tally.hear(&Event::CommitFailed { reason: "a lock".to_owned() });
        assert!(tally.lacks_commit());
        tally.hear(&Event::Committed { commit: "0123".to_owned(), subject: String::new() });
        assert!(!tally.lacks_commit());
    }

    #[test]
    fn the_caller_is_told_before_the_books_are_kept() {
        let tally = Tally::default();
        let first = |_: &Event| assert_eq!(tally.launched(), 0, "the caller's observer comes first");
        let hear = |event: &Event| tally.hear(event);
        let both = compose(&[Some(&first), Some(&hear)]).unwrap();
        both(&Event::SessionStarted { session: session("auto-qa-000102030405"), count: 1 });
        assert_eq!(tally.launched(), 1);
    }
}
