//! The machine's configuration, `runner.local.json`: a checked [`Config`], and the agent's command made from it.
//!
//! Owns the keys, their ranges and their defaults (one table in `read.rs`). Never starts a program and never reads the
//! process's environment: what it needs of that is handed in.

mod agent;
mod command;
mod environment;
mod read;
mod records;
mod spending;
mod verify;
mod workspace;

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use crate::agents::Dialect;
use crate::budget::Budgets;
use crate::fs::{self, FileError};
use crate::ids::Role;
use crate::strict::{self, Fault};

pub use agent::{AgentCommand, ChosenAgent};
pub use command::{CommandError, Placeholders, expand, find_executable};
pub use environment::{Environment, EnvironmentRules};
pub use records::{Report, Retention};
pub use spending::OnLimit;
pub use verify::Verify;
pub use workspace::{Mode, Workspace};

/// A configuration that cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    /// There is no such file.
    #[error("{} does not exist; copy runner.example.json there and set `agent` to your agent's name or `argv` to its command", path.display())]
    Missing {
        /// The file that was asked for.
        path: std::path::PathBuf,
    },
    /// The file cannot be read.
    #[error(transparent)]
    File(#[from] FileError),
    /// The file is no JSON or holds faults: all of them, one a line.
    #[error("{}", strict::lines(.0))]
    Faults(Vec<Fault>),
}

/// Whether the repository's hooks run when the coordinator commits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Hooks {
    /// They do not: a hook in the tree is code an agent could have written.
    Off,
    /// They run, and a failing hook fails the commit.
    Run,
}

/// How much of a session's output is kept, in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Output {
    /// Of standard output.
    pub stdout: u64,
    /// Of standard error.
    pub stderr: u64,
    /// Of both together.
    pub combined: u64,
    /// Whether printing more ends the session.
    pub ends_session: bool,
}

/// What becomes of changes outside a session's scope.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OnViolation {
    /// They stay where they are and the run stops.
    Stop,
    /// They are moved into the run's folder and other tasks go on.
    SetAside,
}

/// What an executor is given that takes a rejected task up again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Rework {
    /// The handoff, as any session.
    Fresh,
    /// The conversation of the session that submitted, and the handoff.
    Continue,
}

/// Everything the machine's configuration says.
#[derive(Debug, Clone, PartialEq)]
pub struct Config {
    /// The agent's command.
    pub argv: Option<Vec<String>>,
    /// Commands used instead of `argv` for some roles.
    pub commands_by_role: BTreeMap<Role, Vec<String>>,
    /// The agent that is started by its name, where there is no `argv`.
    pub agent: Option<ChosenAgent>,
    /// Agents used instead for some roles.
    pub agents_by_role: BTreeMap<Role, ChosenAgent>,
    /// How the output of commands that are written out is read.
    pub dialect: Dialect,
    /// How many sessions a run may launch.
    pub max_sessions: u32,
    /// How many sessions a task may use over all roles.
    pub max_task_sessions: u32,
    /// How deep remediation of remediation may go.
    pub max_remediation_depth: u32,
    /// The wall limit of a session.
    pub timeout: Duration,
    /// How long a session may be silent: no output and no file change. `None` for as long as the wall limit allows.
    pub idle_timeout: Option<Duration>,
    /// How long an agent may go on after its transition.
    pub exit_grace: Duration,
    /// From TERM to KILL.
    pub kill_grace: Duration,
    /// How long the last of a session's output may be read.
    pub drain: Duration,
    /// How much of a session's output is kept.
    pub output: Output,
    /// The longest prompt, in Unicode characters.
    pub max_prompt_chars: usize,
    /// The files every prompt begins with, `{role}` standing for the role; `None` means the default list.
    pub context_files: Option<Vec<String>>,
    /// Names of folders that are not looked into if git ignores them.
    pub exclude: Vec<String>,
    /// Git-ignored paths that are watched all the same.
    pub watch: Vec<String>,
    /// What the agent's environment adds to and drops from the coordinator's.
    pub environment: Environment,
    /// Whether each session ends in a commit.
    pub git_commits: bool,
    /// Whether hooks run on those commits.
    pub git_hooks: Hooks,
    /// What becomes of changes outside a session's scope.
    pub on_violation: OnViolation,
    /// How many further processes a session gets that left without a transition.
    pub follow_up_turns: u32,
    /// What a rework goes on from.
    pub rework: Rework,
    /// What a run does when an agent's service takes nothing for a while.
    pub on_limit: OnLimit,
    /// What each task and a run may use.
    pub budget: Budgets,
    /// Where sessions work.
    pub workspace: Workspace,
    /// The coordinator's own commands after a submit.
    pub verify: Verify,
    /// Whether reviews need another command than the work they judge.
    pub reviewer_differs: bool,
    /// How much of `state/runs` is kept.
    pub retention: Retention,
    /// Where each session's final evidence is sent; nowhere if `None`.
    pub report: Option<Report>,
}

impl Config {
    /// Reads the configuration; the error holds all faults of the file.
    pub fn load(path: &Path) -> Result<Self, ConfigError> {
        let bytes = fs::read_if_present(path)?.ok_or_else(|| ConfigError::Missing { path: path.to_owned() })?;
        Self::parse(path, &bytes)
    }

    /// Parses bytes that came from `path`; the error holds all faults.
    pub fn parse(path: &Path, bytes: &[u8]) -> Result<Self, ConfigError> {
        read::parse(path, bytes)
    }

    /// Takes the session limit of the command line instead of the file's; a number outside the key's range is a fault.
    pub fn limit_sessions(&mut self, sessions: i64) -> Result<(), ConfigError> {
        self.max_sessions = read::max_sessions(sessions).map_err(|fault| ConfigError::Faults(vec![fault]))?;
        Ok(())
    }
}

impl Default for Config {
    fn default() -> Self {
        read::defaults()
    }
}

/// What a text is read as, for the tests of its parts; its faults as lines, without the file.
#[cfg(test)]
fn parsed(json: &str) -> Result<Config, String> {
    Config::parse(Path::new("x.json"), json.as_bytes()).map_err(|error| match error {
        ConfigError::Faults(faults) => faults.iter().map(|fault| fault.text.clone()).collect::<Vec<_>>().join("\n"),
        other => other.to_string(),
    })
}
