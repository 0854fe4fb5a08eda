//! Events: the contract between the machinery and whoever shows or counts it. The engine never prints.
//!
//! An event is a value: ids, numbers and a few words about what a session came to. None holds a prompt, what a session printed, its
//! command, a variable or a secret. An observer is a plain function, called on the thread of whoever observes, one after another;
//! what it does not return from, nobody after it hears of.
//!
//! ```
//! use std::cell::RefCell;
//! use runner::observe::{Event, compose};
//!
//! let (shown, counted) = (RefCell::new(Vec::new()), RefCell::new(0));
//! let show = |event: &Event| shown.borrow_mut().push(event.clone());
//! let count = |_: &Event| *counted.borrow_mut() += 1;
//! let both = compose(&[Some(&show), None, Some(&count)]).expect("two are present");
//! both(&Event::Converted);
//! assert_eq!(*shown.borrow(), [Event::Converted]);
//! assert_eq!(*counted.borrow(), 1);
//! assert!(compose(&[None, None]).is_none());
//! ```

mod group;
pub mod usage;

use serde::ser::SerializeStruct;
use serde::{Serialize, Serializer};

use crate::evidence::Reported;
use crate::ids::{AgentId, Role, TaskId};
use crate::plan::Work;
use crate::tokens::{Cost, Tokens};

pub use group::{Group, Member, RunCounts, Summary};

/// Which session an event is about.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SessionName {
    /// The agent.
    pub agent: AgentId,
    /// The session's number within the agent, from 1; `<agent>.<n>` is the run id.
    pub number: u32,
    /// The run id of the session whose conversation this one continues.
    pub parent: Option<String>,
    /// The task.
    pub task: TaskId,
    /// The task's title; not part of what is serialised, since it is also a part of the prompt.
    pub title: String,
    /// The agent's role.
    pub role: Role,
    /// What it is to do.
    pub work: Work,
}

impl SessionName {
    /// `<agent>.<n>`.
    pub fn run_id(&self) -> String {
        format!("{}.{}", self.agent, self.number)
    }
}

impl Serialize for SessionName {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut shown = serializer.serialize_struct("SessionName", 7)?;
        shown.serialize_field("run_id", &self.run_id())?;
        shown.serialize_field("parent_run_id", &self.parent)?;
        shown.serialize_field("agent", &self.agent)?;
        shown.serialize_field("session", &self.number)?;
        shown.serialize_field("task", &self.task)?;
        shown.serialize_field("role", &self.role)?;
        shown.serialize_field("action", &self.work)?;
        shown.end()
    }
}

/// What a session did until its end, counted.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct Counters {
    /// How many processes were started for it.
    pub attempts: u64,
    /// How many of them followed one that had failed for a reason that passes.
    pub transient_retries: u64,
    /// How many turns only asked for what an earlier turn of it had left out.
    pub repair_turns: u64,
}

impl Counters {
    /// The sums with another session's.
    #[must_use]
    pub fn and(self, other: Self) -> Self {
        Self {
            attempts: self.attempts.saturating_add(other.attempts),
            transient_retries: self.transient_retries.saturating_add(other.transient_retries),
            repair_turns: self.repair_turns.saturating_add(other.repair_turns),
        }
    }
}

/// What a session used, as far as its agent stated it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct Spent {
    /// What was counted.
    #[serde(flatten)]
    pub counters: Counters,
    /// The five token figures.
    pub tokens: Tokens,
    /// What it cost.
    pub cost: Cost,
}

/// A fact about a run, as it becomes one.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(tag = "event", rename_all = "snake_case")]
pub enum Event {
    /// The run lock is held and the plan is sound.
    RunStarted {
        /// How many tasks the chosen part has.
        tasks: usize,
        /// How many of them are done.
        done: usize,
    },
    /// The state of the original coordinator was converted.
    Converted,
    /// Something that an earlier, interrupted run left was put in order.
    Recovered {
        /// What was done.
        what: String,
    },
    /// A person's queued change was applied.
    Applied {
        /// What was done.
        what: String,
    },
    /// A command of the coordinator's own is about to run in the workspace.
    Verifying {
        /// The command, on one line.
        command: String,
        /// Whether it is run before a session, to know what fails already.
        is_baseline: bool,
    },
    /// A session's task is claimed, and its process is about to start.
    SessionStarted {
        /// Which.
        #[serde(flatten)]
        session: SessionName,
        /// Counts the sessions of this run from 1.
        count: u32,
    },
    /// A process is started for a session.
    AttemptStarted {
        /// Which.
        #[serde(flatten)]
        session: SessionName,
        /// Counts the processes of this session from 1.
        attempt: u64,
    },
    /// A session's process failed for a reason that passes; the next one waits.
    RetryDelayed {
        /// Which.
        #[serde(flatten)]
        session: SessionName,
        /// The process that failed, from 1.
        attempt: u64,
        /// How long the next one waits, in milliseconds.
        delay_ms: u64,
    },
    /// A session ended, and this is what it came to. The last event of its run id, and the only one with totals.
    SessionEnded {
        /// Which.
        #[serde(flatten)]
        session: SessionName,
        /// What it came to, in a few words.
        outcome: String,
        /// Whether the task went on as planned.
        good: bool,
        /// Whether a usage limit ended it; then it counts as none of the sessions of its task and of the run.
        limited: bool,
        /// How long its process ran, in milliseconds.
        wall_ms: u64,
        /// What it used over all its attempts, failed ones included.
        #[serde(flatten)]
        spent: Spent,
    },
    /// The final evidence of a session was sent, or could not be.
    Reported {
        /// The session; it may be one of an earlier run.
        run_id: String,
        /// What became of it.
        #[serde(flatten)]
        reported: Reported,
    },
    /// Nothing is started before a moment.
    Waiting {
        /// The moment, in UTC.
        until: String,
        /// How long that is, in seconds.
        seconds: u64,
        /// What for, in one line.
        why: String,
    },
    /// A commit was made.
    Committed {
        /// Its id.
        commit: String,
        /// The first line of its message.
        subject: String,
    },
    /// A commit could not be made.
    CommitFailed {
        /// Why. Only the first line is serialised, since the end of what git or a hook printed may follow.
        #[serde(serialize_with = "first_line")]
        reason: String,
    },
    /// A task was set aside for a person.
    WaitsForPerson {
        /// The task.
        task: TaskId,
        /// Why, in one line.
        reason: String,
    },
    /// Something a person should know.
    Warning {
        /// What.
        text: String,
    },
}

impl Event {
    /// A task was set aside; of the reason only the first line is told, since the end of what a process printed may follow.
    pub fn waits_for_person(task: TaskId, reason: &str) -> Self {
        Self::WaitsForPerson { task, reason: first_line_of(reason).to_owned() }
    }

    /// The session that the event is about, if it is about one.
    pub fn session(&self) -> Option<&SessionName> {
        match self {
            Self::SessionStarted { session, .. }
            | Self::AttemptStarted { session, .. }
            | Self::RetryDelayed { session, .. }
            | Self::SessionEnded { session, .. } => Some(session),
            Self::RunStarted { .. }
            | Self::Converted
            | Self::Recovered { .. }
            | Self::Applied { .. }
            | Self::Reported { .. }
            | Self::Waiting { .. }
            | Self::Verifying { .. }
            | Self::Committed { .. }
            | Self::CommitFailed { .. }
            | Self::WaitsForPerson { .. }
            | Self::Warning { .. } => None,
        }
    }
}

fn first_line_of(text: &str) -> &str {
    text.lines().next().unwrap_or_default().trim()
}

fn first_line<S: Serializer>(text: &str, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(first_line_of(text))
}

/// Whoever wants to know; called on the thread of whoever it observes.
pub type Observer<'a> = dyn Fn(&Event) + 'a;

/// One observer out of those that are present, told in this order; none if none is.
///
/// One that is named twice is told twice. Nothing is caught: a panic goes on to the caller, and the later ones are not told.
pub fn compose<'a>(observers: &[Option<&'a Observer<'a>>]) -> Option<Box<Observer<'a>>> {
    let present: Vec<&'a Observer<'a>> = observers.iter().copied().flatten().collect();
    if present.is_empty() {
        return None;
    }
    Some(Box::new(move |event| present.iter().for_each(|observer| observer(event))))
}

#[cfg(test)]
mod tests;
