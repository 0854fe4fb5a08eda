//! Execution groups: what any chosen set of sessions used together, each counted once, however often it is told of.
//!
//! Keeps sums and a mark for each run id, no events. Calls nobody while it holds its lock.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use serde::Serialize;

use super::{Counters, Event, Spent};
use crate::tokens::{Cost, Figure, Tokens};

/// Adds up the sessions that it observes; ready for use as it is made, from any thread.
///
/// A session belongs to every group that observes any event of it, and to no other; totals of groups that overlap do not add
/// up. The first end of a session counts, all others and their order do not.
///
/// ```
/// use runner::observe::{Counters, Event, Group, SessionName, Spent};
/// use runner::plan::Work;
/// use runner::tokens::{Figure, Tokens};
///
/// let group = Group::default();
/// assert_eq!(group.snapshot().tokens, Tokens::NOTHING);
/// let session = SessionName {
///     agent: "auto-qa-000102030405".parse()?,
///     number: 1,
///     parent: None,
///     task: "S00-001".parse()?,
///     title: String::new(),
///     role: "qa".parse()?,
///     work: Work::Review,
/// };
/// group.observe(&Event::AttemptStarted { session: session.clone(), attempt: 1 });
/// assert!(!group.snapshot().terminal_coverage_complete);
///
/// let spent = Spent { tokens: Tokens { input: Figure::whole(70), ..Tokens::default() }, ..Spent::default() };
/// let ended = Event::SessionEnded { session, outcome: "approved".to_owned(), good: true, limited: false, wall_ms: 5, spent };
/// group.observe(&ended);
/// group.observe(&ended);
/// let summary = group.snapshot();
/// assert_eq!(summary.members.len(), 1);
/// assert_eq!(summary.tokens.input, Figure::whole(70));
/// assert_eq!(summary.unknown_runs.output, 1);
/// # Ok::<(), runner::ids::BadName>(())
/// ```
#[derive(Debug, Default)]
pub struct Group {
    sums: Mutex<Sums>,
}

#[derive(Debug, Default)]
struct Sums {
    /// Each run id, and whether its end was observed.
    members: BTreeMap<String, bool>,
    ended: u64,
    /// What those that ended used; nothing before the first.
    spent: Option<Spent>,
    /// Of how many that ended each figure is known.
    known: RunCounts,
}

/// One session of a group.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Member {
    /// Its run id.
    pub run_id: String,
    /// Whether its end was observed.
    pub terminal_observed: bool,
}

/// A number of runs for each figure.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct RunCounts {
    /// What the model read.
    pub input: u64,
    /// The part of it from a cache.
    pub cached_input: u64,
    /// What the model wrote.
    pub output: u64,
    /// The part of it that is not shown.
    pub reasoning: u64,
    /// Input and output.
    pub total: u64,
    /// The cost.
    pub cost: u64,
}

impl RunCounts {
    fn known_in(spent: &Spent) -> Self {
        let one = |figure: Figure| u64::from(figure.known);
        let Tokens { input, cached_input, output, reasoning, total } = spent.tokens;
        Self {
            input: one(input),
            cached_input: one(cached_input),
            output: one(output),
            reasoning: one(reasoning),
            total: one(total),
            cost: u64::from(spent.cost.known),
        }
    }

    /// This, figure by figure with the other.
    fn with(self, other: Self, join: fn(u64, u64) -> u64) -> Self {
        Self {
            input: join(self.input, other.input),
            cached_input: join(self.cached_input, other.cached_input),
            output: join(self.output, other.output),
            reasoning: join(self.reasoning, other.reasoning),
            total: join(self.total, other.total),
            cost: join(self.cost, other.cost),
        }
    }

    fn all(runs: u64) -> Self {
        Self { input: runs, cached_input: runs, output: runs, reasoning: runs, total: runs, cost: runs }
    }
}

/// What a group had seen at one moment; a value of its own.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Summary {
    /// The sessions, in no order that is promised.
    pub members: Vec<Member>,
    /// Whether the end of each of them was observed; says nothing about sessions to come.
    pub terminal_coverage_complete: bool,
    /// Processes started by those that ended.
    pub attempts: u64,
    /// Of these, how many followed a failure that passes.
    pub transient_retries: u64,
    /// Turns that only asked for what an earlier one had left out.
    pub repair_turns: u64,
    /// What those that ended used; `complete` says nothing about those whose end was not observed.
    pub tokens: Tokens,
    /// What it cost.
    pub cost: Cost,
    /// For how many members nothing is known about a figure, those whose end was not observed included.
    pub unknown_runs: RunCounts,
}

impl Group {
    /// Takes in one event; one that is about no session is nothing to it.
    pub fn observe(&self, event: &Event) {
        let Some(session) = event.session() else { return };
        let mut sums = self.lock();
        let ended = sums.members.entry(session.run_id()).or_default();
        let Event::SessionEnded { spent, .. } = event else { return };
        if std::mem::replace(ended, true) {
            return;
        }
        sums.ended += 1;
        sums.spent = Some(sums.spent.map_or(*spent, |so_far| so_far.and(spent)));
        sums.known = sums.known.with(RunCounts::known_in(spent), u64::saturating_add);
    }

    /// What it has seen up to now.
    pub fn snapshot(&self) -> Summary {
        let sums = self.lock();
        let members: Vec<Member> = sums
            .members
            .iter()
            .map(|(run_id, &terminal_observed)| Member { run_id: run_id.clone(), terminal_observed })
            .collect();
        let nothing = Spent { counters: Counters::default(), tokens: Tokens::NOTHING, cost: Cost::NOTHING };
        let if_none_ended = if members.is_empty() { nothing } else { Spent::default() };
        let Spent { counters, tokens, cost } = sums.spent.unwrap_or(if_none_ended);
        let count = u64::try_from(members.len()).unwrap_or(u64::MAX);
        Summary {
            terminal_coverage_complete: sums.ended == count,
            attempts: counters.attempts,
            transient_retries: counters.transient_retries,
            repair_turns: counters.repair_turns,
            tokens,
            cost,
            unknown_runs: RunCounts::all(count).with(sums.known, u64::saturating_sub),
            members,
        }
    }

    /// The sums are whole whoever panicked, since nobody else's code runs under the lock.
    fn lock(&self) -> MutexGuard<'_, Sums> {
        self.sums.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Spent {
    /// The sums with another session's.
    #[must_use]
    pub fn and(self, other: &Self) -> Self {
        Self {
            counters: self.counters.and(other.counters),
            tokens: self.tokens.and(&other.tokens),
            cost: self.cost.and(other.cost),
        }
    }
}

#[cfg(test)]
mod tests;
