//! What a session comes to: one pure function over the row before and after, how the process ended, and what changed.
//!
//! The exit status is evidence, never the verdict: agents exit 0 on errors of their service and non-zero after finished work.
//! Never reads a file and never changes a row; `coordinator/` carries a verdict out.

use crate::ids::AgentId;
use crate::plan::Work;
use crate::session::{Ended, ExecutionResult};
use crate::tracker::row::{Row, Status};

/// How many names a reason lists before it says how many more there are.
const NAMED: usize = 10;

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
    /// How the process ended.
    pub result: &'a ExecutionResult,
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
    /// The session could not start: the task waits for a person.
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
}

/// Decides, in the order in which the reasons outrank each other.
pub fn judge(facts: Facts<'_>) -> Verdict {
    let transition = facts.after.is_settled_by(facts.agent, facts.work);
    if !facts.tampering.is_empty() {
        let reason = format!("the session changed what sessions must not touch: {}", names(facts.tampering));
        return Verdict::Quarantine { reason, tampering: true };
    }
    if !facts.violations.is_empty() {
        let reason = format!("the session changed files outside its scope: {}", names(facts.violations));
        return Verdict::Quarantine { reason, tampering: false };
    }
    if transition {
        return match facts.after.status {
            Status::Blocked => Verdict::Blocked,
            status => Verdict::Stands(status),
        };
    }
    match &facts.result.ended {
        Ended::CouldNotStart { reason } => Verdict::Wait { reason: format!("the agent could not start: {reason}") },
        Ended::Interrupted => Verdict::Interrupted,
        ended => Verdict::Escalate { reason: failure(facts, ended) },
    }
}

/// Why a session without a transition failed.
fn failure(facts: Facts<'_>, ended: &Ended) -> String {
    let missing = match facts.work {
        Work::Claim => "submit or escalate",
        Work::Review => "approve, reject or escalate",
    };
    let clean = facts.result.exit.is_some_and(crate::session::Exit::is_success);
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
        (_, Some(exit)) if !clean => format!("the agent ended with {exit}"),
        _ => "the agent exited".to_owned(),
    };
    let tail = facts.tail.trim();
    if tail.is_empty() {
        format!("{how} without {missing}; it printed nothing")
    } else {
        format!("{how} without {missing}; the end of its output:\n\n{tail}")
    }
}

/// The first ten names, and how many more there are.
fn names(all: &[String]) -> String {
    let shown = all.iter().take(NAMED).map(String::as_str).collect::<Vec<_>>().join(", ");
    match all.len().saturating_sub(NAMED) {
        0 => shown,
        more => format!("{shown} and {more} more"),
    }
}
