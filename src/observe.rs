//! Events: the contract between the machinery and whoever shows or counts it. The engine never prints.

use crate::ids::{AgentId, Role, TaskId};
use crate::plan::Work;

/// Which session an event is about.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SessionName {
    /// The agent.
    pub agent: AgentId,
    /// The session's number within the agent, from 1; `<agent>.<n>` is the run id.
    pub number: u32,
    /// The task.
    pub task: TaskId,
    /// The task's title.
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

/// A fact about a run, as it becomes one.
#[derive(Debug, Clone, PartialEq, Eq)]
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
    /// A session's process is about to start.
    SessionStarted {
        /// Which.
        session: SessionName,
        /// Counts the sessions of this run from 1.
        count: u32,
    },
    /// A command of the coordinator's own is about to run in the workspace.
    Verifying {
        /// The command, on one line.
        command: String,
        /// Whether it is run before a session, to know what fails already.
        is_baseline: bool,
    },
    /// A session ended, and this is what it came to.
    SessionEnded {
        /// Which.
        session: SessionName,
        /// What it came to, in a few words.
        outcome: String,
        /// Whether the task went on as planned.
        good: bool,
        /// How long its process ran, in milliseconds.
        wall_ms: u64,
    },
    /// A commit was made.
    Committed {
        /// Its id.
        commit: String,
        /// The first line of its message.
        subject: String,
    },
    /// A task was set aside for a person.
    WaitsForPerson {
        /// The task.
        task: TaskId,
        /// Why.
        reason: String,
    },
    /// Something a person should know.
    Warning {
        /// What.
        text: String,
    },
}

/// Whoever wants to know; called on the coordinator's thread.
pub type Observer<'a> = dyn Fn(&Event) + 'a;
