//! What one session came to: one record with stable fields, whatever happened.
//!
//! Says what was observed and never what it means for the task.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::output::OutputRecord;
use super::stage::StageRecord;
use super::usage::Usage;

/// The version of [`ExecutionResult`]'s fields.
pub const RESULT_SCHEMA: u32 = 2;

/// How many processes a result names; the rest are only counted.
pub(crate) const NAMED: usize = 64;

/// Why a session ended: the first observation that ended it. Whatever was observed later has its own field.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Ended {
    /// The agent exited, or was killed by somebody else, before anything else happened.
    Exited,
    /// Its task made its transition.
    Transition,
    /// The wall limit passed.
    TimedOut,
    /// The idle limit passed: no output and no file change.
    IdleTimedOut,
    /// A bound on its output was reached, and that was to end it.
    OutputLimit,
    /// The coordinator was told to stop.
    Interrupted,
    /// Its guardian was killed; the coordinator ended the tree.
    GuardianLost,
    /// No process came to be.
    CouldNotStart {
        /// What was tried and why it failed, for a person.
        reason: String,
    },
}

/// How a process ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Exit {
    /// It exited with this status, 0 to 255.
    Code(i32),
    /// This signal ended it.
    Signal(i32),
}

impl Exit {
    /// Exit status 0.
    pub fn is_success(self) -> bool {
        self == Self::Code(0)
    }
}

impl fmt::Display for Exit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::Code(code) => write!(f, "exit status {code}"),
            Self::Signal(number) => match signal_name(number) {
                Some(name) => write!(f, "signal {name} ({number})"),
                None => write!(f, "signal {number}"),
            },
        }
    }
}

/// The name of a signal on this platform, such as `SIGTERM`.
pub fn signal_name(number: i32) -> Option<&'static str> {
    const NAMES: [(i32, &str); 18] = [
        (libc::SIGHUP, "SIGHUP"),
        (libc::SIGINT, "SIGINT"),
        (libc::SIGQUIT, "SIGQUIT"),
        (libc::SIGILL, "SIGILL"),
        (libc::SIGTRAP, "SIGTRAP"),
        (libc::SIGABRT, "SIGABRT"),
        (libc::SIGBUS, "SIGBUS"),
        (libc::SIGFPE, "SIGFPE"),
        (libc::SIGKILL, "SIGKILL"),
        (libc::SIGUSR1, "SIGUSR1"),
        (libc::SIGSEGV, "SIGSEGV"),
        (libc::SIGUSR2, "SIGUSR2"),
        (libc::SIGPIPE, "SIGPIPE"),
        (libc::SIGALRM, "SIGALRM"),
        (libc::SIGTERM, "SIGTERM"),
        (libc::SIGXCPU, "SIGXCPU"),
        (libc::SIGXFSZ, "SIGXFSZ"),
        (libc::SIGSYS, "SIGSYS"),
    ];
    NAMES.iter().find(|(known, _)| *known == number).map(|(_, name)| *name)
}

/// How far the ending of the tree had to go.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Ladder {
    /// Nothing had to be ended.
    NotNeeded,
    /// The tree was asked to end (TERM), and did.
    Terminated,
    /// Something was left when the kill grace was over, or a second signal cut it short.
    Killed,
}

/// A process of a session that lived longer than it should.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LeakedProcess {
    /// Its process id.
    pub pid: u32,
    /// Its name as the kernel knows it: at most 15 bytes.
    pub name: String,
}

impl fmt::Display for LeakedProcess {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({})", self.name, self.pid)
    }
}

/// Everything observed about one session, from its launch until nothing of its tree lived.
#[must_use]
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[expect(clippy::struct_excessive_bools, reason = "each is one observation that may come with any other")]
pub struct ExecutionResult {
    /// The version of these fields.
    pub schema: u32,
    /// Why it ended.
    pub ended: Ended,
    /// How the leader ended; nothing if it never started.
    pub exit: Option<Exit>,
    /// The leader's process id.
    pub pid: Option<u32>,
    /// The wall limit passed while the leader ran.
    pub timed_out: bool,
    /// The idle limit passed while the leader ran.
    #[serde(default)]
    pub idle_timed_out: bool,
    /// A bound on the output was reached that ends the session.
    #[serde(default)]
    pub output_limit: bool,
    /// The session's guardian was killed, or did not do its work, and the coordinator did it.
    #[serde(default)]
    pub guardian_lost: bool,
    /// The first signal the coordinator received during the session.
    pub cancelled: Option<i32>,
    /// The task's transition was seen.
    pub transition_seen: bool,
    /// How far the ending went.
    pub ladder: Ladder,
    /// What lived on after the leader had ended by itself; all of it was ended. At most 64 are named.
    pub leaked: Vec<LeakedProcess>,
    /// How many lived on.
    pub leaked_count: usize,
    /// What could not be ended since it belongs to another user.
    pub survivors: Vec<LeakedProcess>,
    /// What became of its output.
    #[serde(default)]
    pub output: OutputRecord,
    /// What the tree used; nothing if its guardian could not tell.
    #[serde(default)]
    pub usage: Option<Usage>,
    /// The stages it went through, in order.
    #[serde(default)]
    pub stages: Vec<StageRecord>,
    /// From the launch to the end of the tree, in milliseconds, without time the machine was suspended.
    pub wall_ms: u64,
    /// The time the machine was suspended meanwhile, in milliseconds; no limit counts it.
    #[serde(default)]
    pub suspended_ms: u64,
}

#[cfg(test)]
impl ExecutionResult {
    /// What there is to say of a session without a process, for the tables of other rooms.
    pub(crate) fn without_process(ended: Ended, cancelled: Option<i32>) -> Self {
        Self {
            schema: RESULT_SCHEMA,
            ended,
            exit: None,
            pid: None,
            timed_out: false,
            idle_timed_out: false,
            output_limit: false,
            guardian_lost: false,
            cancelled,
            transition_seen: false,
            ladder: Ladder::NotNeeded,
            leaked: Vec::new(),
            leaked_count: 0,
            survivors: Vec::new(),
            output: OutputRecord::default(),
            usage: None,
            stages: Vec::new(),
            wall_ms: 0,
            suspended_ms: 0,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Ended, ExecutionResult, Exit, RESULT_SCHEMA};

    #[test]
    fn an_exit_reads_as_a_person_says_it() {
        assert_eq!(Exit::Code(3).to_string(), "exit status 3");
        assert_eq!(Exit::Signal(9).to_string(), "signal SIGKILL (9)");
        assert_eq!(Exit::Signal(40).to_string(), "signal 40");
    }

    /// What schema 2 holds, in its order. Another list needs another number.
    const FIELDS: [&str; 19] = [
        "schema",
        "ended",
        "exit",
        "pid",
        "timed_out",
        "idle_timed_out",
        "output_limit",
        "guardian_lost",
        "cancelled",
        "transition_seen",
        "ladder",
        "leaked",
        "leaked_count",
        "survivors",
        "output",
        "usage",
        "stages",
        "wall_ms",
        "suspended_ms",
    ];

    #[test]
    fn a_result_has_the_same_fields_whatever_happened() {
        assert_eq!(RESULT_SCHEMA, 2);
        let endings = [
            Ended::Exited,
            Ended::Transition,
            Ended::TimedOut,
            Ended::IdleTimedOut,
            Ended::OutputLimit,
            Ended::Interrupted,
            Ended::GuardianLost,
            Ended::CouldNotStart { reason: "no such file".into() },
        ];
        for ended in endings {
            let value = serde_json::to_value(ExecutionResult::without_process(ended, None)).unwrap();
            let fields: Vec<&String> = value.as_object().unwrap().keys().collect();
            assert_eq!(fields, FIELDS, "{value}");
        }
    }

    /// A result as version 1 wrote it.
    const FIRST: &str = r#"{"schema":1,"ended":{"could_not_start":{"reason":"no such file"}},"exit":null,"pid":null,
        "timed_out":false,"cancelled":2,"transition_seen":false,"ladder":"not_needed","leaked":[],"leaked_count":0,
        "survivors":[],"wall_ms":0}"#;

    #[test]
    fn a_result_survives_its_own_json_and_an_older_one_is_read() {
        let old: ExecutionResult = serde_json::from_str(FIRST).unwrap();
        assert_eq!(old.ended, Ended::CouldNotStart { reason: "no such file".into() });
        assert!(old.stages.is_empty() && !old.idle_timed_out);
        let text = serde_json::to_string(&old).unwrap();
        assert_eq!(serde_json::from_str::<ExecutionResult>(&text).unwrap(), old);
        assert_eq!(serde_json::to_string(&Exit::Signal(9)).unwrap(), r#"{"signal":9}"#);
    }
}
