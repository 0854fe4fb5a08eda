//! The circuit breaker: a task that keeps failing for the same cause waits for a person instead of costing another session.
//!
//! Pure. Reads a task's history since a person last answered for it; decides nothing else.

use super::remediation::normalised;
use super::row::{Action, Event, Row};

/// How many failures in a row for one cause are enough.
pub const SAME_CAUSE: usize = 3;

/// How many rejections in a row are enough, whatever their causes.
pub const REJECTIONS: usize = 5;

/// Why the task should wait for a person before it costs another session, if it should.
pub fn tripped(row: &Row) -> Option<String> {
    let since_answer = row.events.iter().rev().take_while(|event| event.action != Action::Answer);
    let failures: Vec<&Event> = since_answer
        .filter(|event| matches!(event.action, Action::Escalate | Action::Reject | Action::Void | Action::Quarantine))
        .collect();
    let (last, cause) = failures.first().map(|event| (event, cause(event)))?;
    let same = failures.iter().take_while(|event| event.action == last.action && self::cause(event) == cause).count();
    if same >= SAME_CAUSE {
        let what = match last.action {
            Action::Reject => "was rejected",
            Action::Void => "had its review voided",
            _ => "failed",
        };
        let words = last.note.as_deref().unwrap_or_default().lines().next().unwrap_or_default();
        return Some(format!("{what} {same} times in a row for the same cause ({words}); a person has to look at it"));
    }
    let rejections = failures.iter().take_while(|event| event.action == Action::Reject).count();
    (rejections >= REJECTIONS).then(|| format!("was rejected {rejections} times in a row; a person has to look at it"))
}

/// What an event says went wrong, without what varies from time to time.
fn cause(event: &Event) -> String {
    normalised(event.note.as_deref().unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tracker::row::Status;

    /// A row whose history is these actions with their notes, each failure between other events as it would be.
    fn row(history: &[(Action, &str)]) -> Row {
        let event = |(at, (action, note)): (usize, &(Action, &str))| Event {
            seq: u64::try_from(at).unwrap() + 1,
            at: "T".to_owned(),
            action: *action,
            agent: "coordinator".to_owned(),
            from: Status::Todo,
            to: Status::Todo,
            note: Some((*note).to_owned()),
            code: None,
        };
        Row { events: history.iter().enumerate().map(event).collect(), ..Row::default() }
    }

    #[test]
    fn three_failures_for_the_same_cause_are_enough_and_numbers_do_not_make_a_cause() {
        let failed = |n: u32| (Action::Escalate, format!("the agent ended with exit status {n}"));
        let notes: Vec<_> = (1..=3).map(failed).collect();
        let mut history = Vec::new();
        for (action, note) in &notes {
            history.extend([(Action::Claim, ""), (*action, note.as_str()), (Action::Unblock, "")]);
        }
        assert!(tripped(&row(&history[..6])).is_none(), "two are not");
        let reason = tripped(&row(&history)).unwrap();
        assert!(reason.contains("failed 3 times in a row") && reason.contains("exit status 3"), "{reason}");
    }

    #[test]
    fn another_cause_in_between_starts_the_count_again() {
        let history = [
            (Action::Escalate, "no key"),
            (Action::Escalate, "no key"),
            (Action::Escalate, "no disk"),
            (Action::Escalate, "no key"),
        ];
        assert_eq!(tripped(&row(&history)), None);
    }

    #[test]
    fn a_rejection_ping_pong_is_bounded_whatever_the_causes() {
        let causes = ["no tests", "no docs", "no names", "no order", "no sense"];
        let all: Vec<_> = causes.iter().map(|cause| (Action::Reject, *cause)).collect();
        assert_eq!(tripped(&row(&all[..REJECTIONS - 1])), None);
        assert!(tripped(&row(&all)).unwrap().contains("rejected 5 times"), "{:?}", tripped(&row(&all)));
        let same = [(Action::Reject, "no tests"); SAME_CAUSE];
        assert!(tripped(&row(&same)).unwrap().contains("no tests"));
    }

    #[test]
    fn an_answer_of_a_person_starts_the_count_again() {
        let mut history = vec![(Action::Reject, "no tests"); SAME_CAUSE];
        history.push((Action::Answer, ""));
        assert_eq!(tripped(&row(&history)), None);
        assert_eq!(tripped(&Row::default()), None);
    }
}
