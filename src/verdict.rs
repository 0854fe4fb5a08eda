//! What a session comes to: one pure function over the row before and after, how the process ended, and what changed.
//!
//! The exit status is evidence, never the verdict: agents exit 0 on errors of their service and non-zero after finished work.
//! Never reads a file and never changes a row; `coordinator/` carries a verdict out.

use std::time::Duration;

use jiff::Timestamp;

use crate::agents::{AgentFault, FaultKind};
use crate::ids::AgentId;
use crate::plan::Work;
use crate::session::{Ended, ExecutionResult};
use crate::tracker::row::{Row, Status};

/// How many names a reason lists before it says how many more there are.
const NAMED: usize = 10;

/// Why a submit that changed nothing is no submit.
pub const NOTHING_CHANGED: &str = "nothing in the task's scope was changed, and the submit did not say that nothing had to be; change \
                                   what the task asks for, or submit with --no-change WHY";

/// How long the run waits before a task is tried again whose agent's service failed, the first time, the second, and so on;
/// after that the session has failed. Agents try again by themselves before they give up.
pub const RETRY_PAUSES: [Duration; 3] = [Duration::from_secs(2), Duration::from_secs(30), Duration::from_mins(5)];

/// Everything a verdict rests on.
#[derive(Debug, Clone, Copy)]
pub struct Facts<'a> {
    /// Whose session it was.
    pub agent: &'a AgentId,
    /// What it was to do.
    pub work: Work,
    /// The row now, as the rules and the session's secret explain it.
    pub after: &'a Row,
    /// What the session changed that sessions must not touch, by name.
    pub tampering: &'a [String],
    /// What it changed outside its scope, by name.
    pub violations: &'a [String],
    /// Whether it changed anything in its scope.
    pub changed: bool,
    /// How the process ended.
    pub result: &'a ExecutionResult,
    /// The error in which its output ended.
    pub fault: Option<&'a AgentFault>,
    /// A bounded tail of what it printed.
    pub tail: &'a str,
}

/// What happens to the task.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verdict {
    /// The transition that the session made stands.
    Stands(Status),
    /// The session named a blocker.
    Blocked,
    /// What the session did to the row is undone; the task waits for a person.
    Quarantine {
        /// Why, naming what was touched.
        reason: String,
        /// Whether it was protected files rather than files out of scope.
        tampering: bool,
    },
    /// What a reviewer's session did to the row is undone since it changed files; the task is reviewed again.
    Void {
        /// Why, naming what was touched.
        reason: String,
    },
    /// The coordinator rejects what the session submitted.
    SendBack {
        /// Why.
        reason: String,
    },
    /// The session could not start, or its service does not let it in: the task waits for a person.
    Wait {
        /// Why.
        reason: String,
    },
    /// The session failed: the coordinator names the blocker for it.
    Escalate {
        /// Why, with a bounded tail of its output.
        reason: String,
    },
    /// The coordinator was told to stop: the claim is released.
    Interrupted,
    /// The agent's service takes nothing for a while: the claim is given back and counts as none.
    Limited {
        /// Why, as the service said it.
        reason: String,
        /// When it takes something again, where that was stated.
        retry_at: Option<Timestamp>,
    },
    /// The agent's service failed: the claim is given back, and the task is tried again.
    Retry {
        /// Why, as the service said it.
        reason: String,
        /// After how long.
        pause: Duration,
    },
}

impl Verdict {
    /// The same verdict, its reason in other words.
    #[must_use]
    pub fn with_reason(self, change: impl FnOnce(&str) -> String) -> Self {
        match self {
            Self::Quarantine { reason, tampering } => Self::Quarantine { reason: change(&reason), tampering },
            Self::Void { reason } => Self::Void { reason: change(&reason) },
            Self::SendBack { reason } => Self::SendBack { reason: change(&reason) },
            Self::Wait { reason } => Self::Wait { reason: change(&reason) },
            Self::Escalate { reason } => Self::Escalate { reason: change(&reason) },
            Self::Limited { reason, retry_at } => Self::Limited { reason: change(&reason), retry_at },
            Self::Retry { reason, pause } => Self::Retry { reason: change(&reason), pause },
            Self::Stands(_) | Self::Blocked | Self::Interrupted => self,
        }
    }
}

/// Decides, in the order in which the reasons outrank each other.
pub fn judge(facts: Facts<'_>) -> Verdict {
    if !facts.tampering.is_empty() {
        let reason = format!("the session changed what sessions must not touch: {}", names(facts.tampering, NAMED));
        return Verdict::Quarantine { reason, tampering: true };
    }
    if !facts.violations.is_empty() && facts.work == Work::Review {
        let reason = format!("the reviewer changed files, so its verdict is void: {}", names(facts.violations, NAMED));
        return Verdict::Void { reason };
    }
    if !facts.violations.is_empty() {
        let reason = format!("the session changed files outside its scope: {}", names(facts.violations, NAMED));
        return Verdict::Quarantine { reason, tampering: false };
    }
    if facts.after.is_settled_by(facts.agent, facts.work) {
        return match facts.after.status {
            Status::Blocked => Verdict::Blocked,
            // Whoever still lives may go on changing what was just judged.
            _ if !facts.result.survivors.is_empty() => {
                let left: Vec<_> = facts.result.survivors.iter().map(ToString::to_string).collect();
                let reason = format!("processes of the session could not be ended: {}", names(&left, NAMED));
                Verdict::Quarantine { reason, tampering: false }
            }
            Status::Review if !facts.changed && facts.after.declared_no_change().is_none() => {
                Verdict::SendBack { reason: NOTHING_CHANGED.to_owned() }
            }
            status => Verdict::Stands(status),
        };
    }
    match &facts.result.ended {
        Ended::CouldNotStart { reason } => Verdict::Wait { reason: format!("the agent could not start: {reason}") },
        Ended::Interrupted => Verdict::Interrupted,
        ended => unserved(facts).unwrap_or_else(|| Verdict::Escalate { reason: failure(facts, ended) }),
    }
}

/// What a session without a transition comes to whose agent was not served, so that it is no failure of its work.
fn unserved(facts: Facts<'_>) -> Option<Verdict> {
    let AgentFault { kind, text } = facts.fault?;
    let text = text.trim();
    let waits = |what: &str| Some(Verdict::Wait { reason: format!("{what}: {text}") });
    match *kind {
        FaultKind::Limit { retry_at } => {
            Some(Verdict::Limited { reason: format!("the agent's service is at its limit: {text}"), retry_at })
        }
        FaultKind::Authentication => waits("the agent's service does not let it in; log in, or pay"),
        FaultKind::UnknownModel => waits("the agent's service does not know the model"),
        FaultKind::UnknownCommand => waits("the agent took the prompt for one of its own commands"),
        FaultKind::Transient => {
            let earlier = facts.after.retries();
            let pause = *RETRY_PAUSES.get(earlier)?;
            let (attempt, most) = (earlier + 1, RETRY_PAUSES.len() + 1);
            let reason = format!(
                "the agent's service failed (attempt {attempt} of {most}, the next one in {} s): {text}",
                pause.as_secs()
            );
            Some(Verdict::Retry { reason, pause })
        }
        FaultKind::Other => None,
    }
}

/// Why a session without a transition failed.
fn failure(facts: Facts<'_>, ended: &Ended) -> String {
    let missing = match facts.work {
        Work::Claim => "submit or escalate",
        Work::Review => "approve, reject or escalate",
    };
    let how = match (ended, facts.result.exit) {
        (Ended::TimedOut, _) => {
            format!("the session was ended at its time limit after {} s", facts.result.wall_ms / 1000)
        }
        (Ended::IdleTimedOut, _) => {
            format!("the session was ended at its idle limit after {} s", facts.result.wall_ms / 1000)
        }
        (Ended::OutputLimit, _) => {
            "the session was ended since it printed more than the bound on its output".to_owned()
        }
        (Ended::GuardianLost, _) => "the session was ended since its guardian process was killed".to_owned(),
        (_, Some(exit)) if !exit.is_success() => format!("the agent ended with {exit}"),
        _ => "the agent exited".to_owned(),
    };
    let how = match facts.fault {
        Some(AgentFault { kind: FaultKind::Transient, text }) => {
            format!("{how}, its service having failed {} times in a row ({}),", facts.after.retries() + 1, text.trim())
        }
        _ => how,
    };
    let tail = facts.tail.trim();
    if tail.is_empty() {
        format!("{how} without {missing}; it printed nothing")
    } else {
        format!("{how} without {missing}; the end of its output:\n\n{tail}")
    }
}

/// At most so many names, and how many more there are.
pub(crate) fn names<T: ToString>(all: &[T], most: usize) -> String {
    let shown = all.iter().take(most).map(ToString::to_string).collect::<Vec<_>>().join(", ");
    match all.len().saturating_sub(most) {
        0 => shown,
        more => format!("{shown} and {more} more"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::session::Exit;
    use crate::tracker::row::{Action, Event};

    /// A row on which `agent` made `action` last.
    fn row(status: Status, (agent, action): (&str, Action)) -> Row {
        let name: AgentId = agent.parse().unwrap();
        let event = Event {
            seq: 1,
            at: "T".to_owned(),
            action,
            agent: agent.to_owned(),
            from: Status::Todo,
            to: status,
            note: None,
            code: None,
        };
        let (owner, reviewer) = if agent == "auto-q" { (None, Some(name)) } else { (Some(name), None) };
        Row { status, owner, reviewer, events: vec![event], ..Row::default() }
    }

    fn in_progress() -> Row {
        row(Status::InProgress, ("auto-a", Action::Claim))
    }

    fn submitted() -> Row {
        row(Status::Review, ("auto-a", Action::Submit))
    }

    fn blocked() -> Row {
        row(Status::Blocked, ("auto-a", Action::Escalate))
    }

    fn ran(ended: Ended, exit: Option<Exit>) -> ExecutionResult {
        let mut result = ExecutionResult::without_process(ended, None);
        (result.exit, result.wall_ms) = (exit, 2_900);
        result
    }

    fn exited(code: i32) -> ExecutionResult {
        ran(Ended::Exited, Some(Exit::Code(code)))
    }

    /// The verdict on the executor `auto-a`, with what it touched of what it must not and outside its scope.
    fn verdict(after: &Row, result: &ExecutionResult, (tampering, violations): (&[&str], &[&str])) -> Verdict {
        let texts = |names: &[&str]| names.iter().map(|&name| name.to_owned()).collect::<Vec<_>>();
        judge(Facts {
            agent: &"auto-a".parse().unwrap(),
            work: Work::Claim,
            after,
            tampering: &texts(tampering),
            violations: &texts(violations),
            changed: true,
            result,
            fault: None,
            tail: "the last words\n",
        })
    }

    fn quarantine(reason: &str, tampering: bool) -> Verdict {
        Verdict::Quarantine { reason: reason.to_owned(), tampering }
    }

    fn escalate(how: &str) -> Verdict {
        let reason = format!("{how} without submit or escalate; the end of its output:\n\nthe last words");
        Verdict::Escalate { reason }
    }

    /// One row for each line of the order, then each neighbouring pair of reasons: the earlier line outranks the later.
    #[test]
    fn the_reasons_outrank_each_other_in_this_order() {
        let touched: (&[&str], &[&str]) = (&["state/tasks/S00/S00-001.json"], &[]);
        let strayed: (&[&str], &[&str]) = (&[], &["a.txt"]);
        let clean: (&[&str], &[&str]) = (&[], &[]);
        let tampered =
            || quarantine("the session changed what sessions must not touch: state/tasks/S00/S00-001.json", true);
        let violated = || quarantine("the session changed files outside its scope: a.txt", false);
        let no_start = || ran(Ended::CouldNotStart { reason: "no such file".to_owned() }, None);
        let waits = Verdict::Wait { reason: "the agent could not start: no such file".to_owned() };
        let timed_out = || ran(Ended::TimedOut, Some(Exit::Signal(15)));
        let interrupted = || ran(Ended::Interrupted, Some(Exit::Signal(15)));
        for (what, after, result, marks, expected) in vec![
            ("tampering", in_progress(), exited(0), touched, tampered()),
            ("a scope violation", in_progress(), exited(0), strayed, violated()),
            ("blocked by this agent", blocked(), exited(0), clean, Verdict::Blocked),
            ("could not start", in_progress(), no_start(), clean, waits),
            ("interrupted", in_progress(), interrupted(), clean, Verdict::Interrupted),
            ("failed", in_progress(), exited(3), clean, escalate("the agent ended with exit status 3")),
            (
                "killed",
                in_progress(),
                ran(Ended::Exited, Some(Exit::Signal(9))),
                clean,
                escalate("the agent ended with signal SIGKILL (9)"),
            ),
            (
                "timed out",
                in_progress(),
                timed_out(),
                clean,
                escalate("the session was ended at its time limit after 2 s"),
            ),
            ("left without a transition", in_progress(), exited(0), clean, escalate("the agent exited")),
            ("the status stands", submitted(), exited(0), clean, Verdict::Stands(Status::Review)),
            // Pairs.
            ("tampering before violation", in_progress(), exited(0), (touched.0, strayed.1), tampered()),
            ("tampering before blocked", blocked(), exited(0), touched, tampered()),
            ("tampering before could not start", in_progress(), no_start(), touched, tampered()),
            ("tampering before interrupted", in_progress(), interrupted(), touched, tampered()),
            ("tampering before a good submit", submitted(), exited(0), touched, tampered()),
            ("violation before blocked", blocked(), exited(0), strayed, violated()),
            ("violation before could not start", in_progress(), no_start(), strayed, violated()),
            ("violation before interrupted", in_progress(), interrupted(), strayed, violated()),
            ("violation before failed", in_progress(), exited(3), strayed, violated()),
            ("violation before a good submit", submitted(), exited(0), strayed, violated()),
            ("blocked before interrupted", blocked(), interrupted(), clean, Verdict::Blocked),
            ("blocked before failed", blocked(), exited(3), clean, Verdict::Blocked),
            ("blocked before timed out", blocked(), timed_out(), clean, Verdict::Blocked),
            // A transition is proved by the session's secret; how the process ended is evidence only.
            ("submit before failed", submitted(), exited(1), clean, Verdict::Stands(Status::Review)),
            ("submit before timed out", submitted(), timed_out(), clean, Verdict::Stands(Status::Review)),
            ("submit before interrupted", submitted(), interrupted(), clean, Verdict::Stands(Status::Review)),
        ] {
            assert_eq!(verdict(&after, &result, marks), expected, "{what}");
        }
    }

    #[test]
    fn only_the_sessions_own_transition_counts() {
        for (what, after) in [
            ("blocked by the coordinator", row(Status::Blocked, ("coordinator", Action::Escalate))),
            ("blocked by another", row(Status::Blocked, ("auto-b", Action::Escalate))),
            ("submitted by another", row(Status::Review, ("auto-b", Action::Submit))),
            ("done", row(Status::Done, ("auto-q", Action::Approve))),
            ("todo", Row::default()),
        ] {
            assert_eq!(verdict(&after, &exited(0), (&[], &[])), escalate("the agent exited"), "{what}");
        }
    }

    #[test]
    fn a_review_ends_with_a_verdict_of_its_own_reviewer() {
        let judged = |after: &Row, tail: &str| {
            judge(Facts {
                agent: &"auto-q".parse().unwrap(),
                work: Work::Review,
                after,
                tampering: &[],
                violations: &[],
                changed: false,
                result: &exited(1),
                fault: None,
                tail,
            })
        };
        for status in [Status::Done, Status::Todo] {
            assert_eq!(judged(&row(status, ("auto-q", Action::Approve)), ""), Verdict::Stands(status));
        }
        assert_eq!(judged(&row(Status::Blocked, ("auto-q", Action::Escalate)), ""), Verdict::Blocked);
        let without = "the agent ended with exit status 1 without approve, reject or escalate; it printed nothing";
        assert_eq!(judged(&submitted(), " \n"), Verdict::Escalate { reason: without.to_owned() });
    }

    #[test]
    fn a_submit_that_changed_nothing_stands_only_if_it_says_so() {
        let judged = |after: &Row, changed: bool| {
            judge(Facts {
                agent: &"auto-a".parse().unwrap(),
                work: Work::Claim,
                after,
                tampering: &[],
                violations: &[],
                changed,
                result: &exited(0),
                fault: None,
                tail: "",
            })
        };
        let refused = Verdict::SendBack { reason: NOTHING_CHANGED.to_owned() };
        assert_eq!(judged(&submitted(), false), refused);
        assert_eq!(judged(&submitted(), true), Verdict::Stands(Status::Review));
        let mut declared = submitted();
        declared.events[0].note = Some("no change: it was there already".to_owned());
        assert_eq!(judged(&declared, false), Verdict::Stands(Status::Review));
        assert_eq!(judged(&blocked(), false), Verdict::Blocked, "a blocker needs no change");
    }

    #[test]
    fn a_reviewer_that_changed_files_has_no_verdict_and_tampering_is_worse() {
        let judged = |after: &Row, tampering: &[String]| {
            judge(Facts {
                agent: &"auto-q".parse().unwrap(),
                work: Work::Review,
                after,
                tampering,
                violations: &["src/a.rs".to_owned()],
                changed: false,
                result: &exited(0),
                fault: None,
                tail: "",
            })
        };
        let reason = "the reviewer changed files, so its verdict is void: src/a.rs".to_owned();
        for after in [row(Status::Done, ("auto-q", Action::Approve)), submitted()] {
            assert_eq!(judged(&after, &[]), Verdict::Void { reason: reason.clone() });
        }
        let tampered = judged(&submitted(), &["planning/x".to_owned()]);
        assert!(matches!(tampered, Verdict::Quarantine { tampering: true, .. }), "{tampered:?}");
    }

    /// The verdict on `work` by `auto-a` or `auto-q`, whose output ended in an error of this kind.
    fn faulty(after: &Row, (work, kind): (Work, FaultKind), result: &ExecutionResult) -> Verdict {
        let name = if work == Work::Claim { "auto-a" } else { "auto-q" };
        judge(Facts {
            agent: &name.parse().unwrap(),
            work,
            after,
            tampering: &[],
            violations: &[],
            changed: true,
            result,
            fault: Some(&AgentFault { kind, text: "it said so\n".to_owned() }),
            tail: "the last words\n",
        })
    }

    const LIMIT: FaultKind = FaultKind::Limit { retry_at: Some(Timestamp::UNIX_EPOCH) };

    #[test]
    fn a_session_that_was_not_served_has_not_failed_whatever_its_exit_status() {
        let limited = || Verdict::Limited {
            reason: "the agent's service is at its limit: it said so".to_owned(),
            retry_at: Some(Timestamp::UNIX_EPOCH),
        };
        let waits = |what: &str| Verdict::Wait { reason: format!("{what}: it said so") };
        let retry = || Verdict::Retry {
            reason: "the agent's service failed (attempt 1 of 4, the next one in 2 s): it said so".to_owned(),
            pause: Duration::from_secs(2),
        };
        for (kind, expected) in [
            (LIMIT, limited()),
            (FaultKind::Authentication, waits("the agent's service does not let it in; log in, or pay")),
            (FaultKind::UnknownModel, waits("the agent's service does not know the model")),
            (FaultKind::UnknownCommand, waits("the agent took the prompt for one of its own commands")),
            (FaultKind::Transient, retry()),
        ] {
            for result in [exited(0), exited(1), exited(173), ran(Ended::TimedOut, Some(Exit::Signal(15)))] {
                assert_eq!(faulty(&in_progress(), (Work::Claim, kind), &result), expected, "{kind:?} {result:?}");
                assert_eq!(faulty(&submitted(), (Work::Review, kind), &result), expected, "{kind:?} {result:?}");
            }
        }
        assert_eq!(faulty(&in_progress(), (Work::Claim, FaultKind::Other), &exited(0)), escalate("the agent exited"));
    }

    #[test]
    fn what_an_agent_says_of_its_service_changes_no_transition_and_outranks_nothing() {
        let interrupted = ran(Ended::Interrupted, Some(Exit::Signal(15)));
        let no_start = ran(Ended::CouldNotStart { reason: "no such file".to_owned() }, None);
        for kind in [LIMIT, FaultKind::Transient, FaultKind::Authentication, FaultKind::UnknownModel] {
            let executor = |after: &Row, result: &ExecutionResult| faulty(after, (Work::Claim, kind), result);
            assert_eq!(executor(&submitted(), &exited(1)), Verdict::Stands(Status::Review), "{kind:?}");
            assert_eq!(executor(&blocked(), &exited(1)), Verdict::Blocked, "{kind:?}");
            assert_eq!(executor(&in_progress(), &interrupted), Verdict::Interrupted, "{kind:?}");
            let waits = Verdict::Wait { reason: "the agent could not start: no such file".to_owned() };
            assert_eq!(executor(&in_progress(), &no_start), waits, "{kind:?}");
            let done = row(Status::Done, ("auto-q", Action::Approve));
            let reviewed = faulty(&done, (Work::Review, kind), &exited(1));
            assert_eq!(reviewed, Verdict::Stands(Status::Done), "{kind:?}");
        }
    }

    #[test]
    fn a_service_that_goes_on_failing_is_tried_again_a_bounded_number_of_times() {
        let mut after = in_progress();
        for (number, pause) in RETRY_PAUSES.iter().enumerate() {
            let made = faulty(&after, (Work::Claim, FaultKind::Transient), &exited(1));
            assert!(
                matches!(&made, Verdict::Retry { pause: given, reason }
                if given == pause && reason.contains(&format!("attempt {} of 4", number + 1))),
                "{made:?}"
            );
            let mut retried = row(Status::Todo, ("coordinator", Action::Retry)).events.remove(0);
            retried.seq = after.events.len() as u64 + 1;
            after.events.push(retried);
        }
        let made = faulty(&after, (Work::Claim, FaultKind::Transient), &exited(1));
        let how = "the agent ended with exit status 1, its service having failed 4 times in a row (it said so),";
        assert_eq!(made, escalate(how));
    }

    #[test]
    fn the_first_ten_names_are_given_and_the_rest_counted() {
        let all: Vec<String> = (1..=12).map(|number| format!("f{number}")).collect();
        assert_eq!(names(&all[..10], NAMED), "f1, f2, f3, f4, f5, f6, f7, f8, f9, f10");
        assert_eq!(names(&all, NAMED), "f1, f2, f3, f4, f5, f6, f7, f8, f9, f10 and 2 more");
    }

    #[test]
    fn a_good_session_that_left_processes_behind_has_failed_and_an_earlier_failure_keeps_its_own_reason() {
        let judged = |status: Status, survivors: &[&str]| {
            let agent: AgentId = "auto-qa-000102030405".parse().unwrap();
            let after = Row { status, owner: Some(agent.clone()), ..Row::default() };
            let mut result = ExecutionResult::without_process(Ended::Exited, None);
            result.exit = Some(Exit::Code(3));
            let named = |name: &&str| crate::session::LeakedProcess { pid: 7, name: (*name).to_owned() };
            result.survivors = survivors.iter().map(named).collect();
            let (tampering, violations, tail) = (&[], &[], "");
            judge(Facts {
                agent: &agent,
                work: Work::Claim,
                after: &after,
                tampering,
                violations,
                changed: true,
                result: &result,
                fault: None,
                tail,
            })
        };
        assert_eq!(judged(Status::Review, &[]), Verdict::Stands(Status::Review));
        let reason = "processes of the session could not be ended: one (7), two (7)".to_owned();
        assert_eq!(judged(Status::Review, &["one", "two"]), Verdict::Quarantine { reason, tampering: false });
        assert_eq!(judged(Status::InProgress, &["one"]), judged(Status::InProgress, &[]));
    }
}
