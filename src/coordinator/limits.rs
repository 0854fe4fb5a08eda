//! What the run knows of the services behind its agents: limits that it stops at or waits for, failures after which it pauses,
//! and commands that are refused and not tried again.
//!
//! Decides when the next session may begin, never what becomes of a task.

use std::time::Duration;

use jiff::Timestamp;

use crate::agents::FaultKind;
use crate::config::{AgentCommand, EnvironmentRules, OnLimit};
use crate::evidence::RunRecord;
use crate::ids::{Role, TaskId};
use crate::observe::{Event, SessionName};
use crate::session;
use crate::tracker::ready::{self, Ready};
use crate::verdict::Verdict;

use super::{LoopEnd, Run};

/// How long the run waits at a limit of which it is not stated when it ends; then twice as long, and so on.
const FIRST_WAIT: Duration = Duration::from_mins(1);
/// The longest of these waits.
const LONGEST_WAIT: Duration = Duration::from_mins(30);

/// What is known of the agents' services.
#[derive(Debug, Default)]
pub(super) struct Services {
    /// Why nothing may begin yet.
    hold: Option<Hold>,
    /// Limits in a row, without a session in between that was served.
    limits: Option<Limits>,
    refused: Vec<Refused>,
}

/// Why nothing may begin yet.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Hold {
    Limit { stated: Option<Timestamp>, reason: String },
    Failure { until: Timestamp, reason: String },
}

/// Limits in a row.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Limits {
    count: u32,
    since: Timestamp,
}

impl Limits {
    /// The moment to wait for after the last of them, met at `now`.
    fn until(self, now: Timestamp, stated: Option<Timestamp>) -> Timestamp {
        // A moment that was stated and came is believed once: whoever states one after the other is not asked all the time.
        let doublings = if stated.is_some() { self.count.checked_sub(2) } else { self.count.checked_sub(1) };
        let least = doublings.map_or(Duration::ZERO, |doublings| {
            FIRST_WAIT.saturating_mul(2_u32.saturating_pow(doublings)).min(LONGEST_WAIT)
        });
        let least = now.checked_add(least).unwrap_or(Timestamp::MAX);
        stated.map_or(least, |stated| stated.max(least))
    }

    /// Whether a wait until then is longer than a run is to wait for limits.
    fn is_too_long(self, until: Timestamp, at_most: Duration) -> bool {
        Duration::try_from(until.duration_since(self.since)).is_ok_and(|whole| whole > at_most)
    }
}

/// A command whose service lets nobody in, or does not know its model.
#[derive(Debug)]
struct Refused {
    command: AgentCommand,
    environment: Option<EnvironmentRules>,
    /// The task that waits for a person because of it.
    task: TaskId,
}

impl Services {
    /// The next session whose agent is not refused.
    pub(super) fn next(&self, run: &Run<'_>) -> Option<Ready> {
        let ready = ready::ready(&run.plan, &run.board, &run.part);
        ready.into_iter().find(|item| self.refusal(run, &item.role).is_none())
    }

    /// Tasks that could begin if their agent were not refused, each with what it waits for.
    pub(super) fn refused(&self, run: &Run<'_>) -> Vec<(TaskId, String)> {
        let ready = ready::ready(&run.plan, &run.board, &run.part);
        let waits = ready.into_iter().filter_map(|item| {
            let refused = self.refusal(run, &item.role)?;
            Some((item.id, format!("waits for {}: the same command is refused by its service", refused.task)))
        });
        waits.collect()
    }

    /// The words of the limit that stands in the way.
    pub(super) fn limit(&self) -> Option<String> {
        match &self.hold {
            Some(Hold::Limit { reason, .. }) => Some(reason.clone()),
            Some(Hold::Failure { .. }) | None => None,
        }
    }

    /// Why an agent of this role is not started: until a person has answered for the task that met the refusal.
    fn refusal(&self, run: &Run<'_>, role: &Role) -> Option<&Refused> {
        let (command, environment) = command_of(run, role)?;
        let is_same = |refused: &&Refused| {
            refused.command == command
                && refused.environment == environment
                && run.board.row(&refused.task).external_wait
        };
        self.refused.iter().find(is_same)
    }
}

fn command_of(run: &Run<'_>, role: &Role) -> Option<(AgentCommand, Option<EnvironmentRules>)> {
    let command = run.config.agent_of(role).ok()?;
    Some((command, run.config.environment.by_role.get(role).cloned()))
}

/// Takes in what a session that is over says of its agent's service.
pub(super) fn note(run: &mut Run<'_>, session: &SessionName, (record, verdict): (&RunRecord, &Verdict)) {
    let now = run.clock.now();
    let fault = record.agent_fault.as_ref();
    match (verdict, fault.map(|fault| fault.kind)) {
        (Verdict::Interrupted, _) => {}
        (Verdict::Retry { reason, pause }, _) => {
            let until = now.checked_add(*pause).unwrap_or(now);
            run.services.hold = Some(Hold::Failure { until, reason: first_line(reason) });
            let delay_ms = u64::try_from(pause.as_millis()).unwrap_or(u64::MAX);
            let attempt = u64::try_from(record.retry + 1).unwrap_or(u64::MAX);
            (run.observe)(&Event::RetryDelayed { session: session.clone(), attempt, delay_ms });
        }
        // Also after a transition, which stands: the next session would meet it.
        (_, Some(FaultKind::Limit { retry_at })) => {
            let served = !matches!(verdict, Verdict::Limited { .. });
            let earlier = run.services.limits.filter(|_| !served);
            let next = |limits: Limits| Limits { count: limits.count.saturating_add(1), ..limits };
            run.services.limits = Some(earlier.map_or(Limits { count: 1, since: now }, next));
            let text = fault.map(|fault| fault.text.as_str()).unwrap_or_default();
            let reason = format!("the agent's service is at its limit: {}", first_line(&run.redactor.text(text)));
            run.services.hold = Some(Hold::Limit { stated: retry_at, reason });
        }
        (Verdict::Wait { .. }, Some(FaultKind::Authentication | FaultKind::UnknownModel)) => {
            if let Some((command, environment)) = command_of(run, &session.role) {
                run.services.refused.push(Refused { command, environment, task: session.task.clone() });
            }
        }
        _ => run.services.limits = None,
    }
}

/// The end of the run, if it is not to wait for the limit that stands in the way.
pub(super) fn stop(run: &Run<'_>) -> Option<LoopEnd> {
    let (Some(Hold::Limit { stated, .. }), Some(limits)) = (&run.services.hold, run.services.limits) else {
        return None;
    };
    let is_too_long = match run.config.on_limit {
        OnLimit::Stop => true,
        OnLimit::Wait { at_most } => limits.is_too_long(limits.until(run.clock.now(), *stated), at_most),
    };
    is_too_long.then_some(LoopEnd::Limited(*stated))
}

/// Waits for what stands in the way, if anything does; a signal ends the wait.
pub(super) fn wait(run: &mut Run<'_>) {
    let now = run.clock.now();
    let (until, why) = match (run.services.hold.take(), run.services.limits) {
        (Some(Hold::Limit { stated, reason }), Some(limits)) => (limits.until(now, stated), reason),
        (Some(Hold::Failure { until, reason }), _) => (until, reason),
        _ => return,
    };
    let Some(left) = Duration::try_from(until.duration_since(now)).ok().filter(|left| !left.is_zero()) else { return };
    let seconds = left.as_secs() + u64::from(left.subsec_nanos() > 0);
    (run.observe)(&Event::Waiting { until: stamp(until), seconds, why });
    session::pause(run.signals, run.clock, until);
}

/// A moment in whole seconds, none too early.
fn stamp(at: Timestamp) -> String {
    let rounded = Timestamp::from_second(at.as_second() + i64::from(at.subsec_nanosecond() > 0));
    rounded.unwrap_or(at).to_string()
}

fn first_line(text: &str) -> String {
    text.lines().next().unwrap_or_default().trim().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    #[test]
    fn a_stated_end_is_believed_once_and_an_unstated_one_is_waited_for_longer_and_longer() {
        let now = at(10_000);
        for (count, stated, wanted) in [
            // As stated, also if it is over already.
            (1, Some(10_007), 10_007),
            (1, Some(9_999), 10_000),
            // Then at least a minute, two, and so on.
            (2, Some(10_007), 10_060),
            (2, Some(10_500), 10_500),
            (3, Some(10_007), 10_120),
            (1, None, 10_060),
            (2, None, 10_120),
            (5, None, 10_960),
            (6, None, 11_800),
            (u32::MAX, None, 11_800),
        ] {
            let until = Limits { count, since: now }.until(now, stated.map(at));
            assert_eq!(until, at(wanted), "{count} {stated:?}");
        }
    }

    #[test]
    fn what_all_the_waits_in_a_row_come_to_is_bounded() {
        let limits = Limits { count: 3, since: at(10_000) };
        let at_most = Duration::from_mins(10);
        assert!(!limits.is_too_long(at(10_600), at_most));
        assert!(limits.is_too_long(at(10_601), at_most));
        assert!(!limits.is_too_long(at(9_000), at_most), "over already");
    }

    #[test]
    fn a_moment_is_shown_in_whole_seconds_and_none_too_early() {
        let late = Timestamp::from_millisecond(5_001).unwrap();
        assert_eq!((stamp(late), stamp(at(5))), ("1970-01-01T00:00:06Z".to_owned(), "1970-01-01T00:00:05Z".to_owned()));
    }
}
