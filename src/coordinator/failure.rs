//! What stops a run before or outside of its sessions, each with what to do about it.

use crate::commit::{CommitError, GitError, Refusal as GitRefusal};
use crate::config::{CommandError, ConfigError};
use crate::fs::{FileError, JsonError};
use crate::ids::{Role, TaskId};
use crate::lock::LockError;
use crate::outcome::{EXIT_FAILURE, EXIT_TRY_LATER};
use crate::plan::PlanError;
use crate::project::ProjectError;
use crate::prompt::PromptFault;
use crate::relpath::RelPath;
use crate::tracker::desk::DeskError;
use crate::tracker::rules::Refusal;
use crate::tracker::store::StoreError;
use crate::verdict::names;
use crate::workspace::lease::{IllegalStep, NoLease};
use crate::workspace::{GuardError, SnapshotError};

/// How many files a message lists.
const LISTED: usize = 20;

/// A failure of a run; its text is for a person.
#[derive(Debug, thiserror::Error)]
#[expect(missing_docs, reason = "each transparent variant is the error of the room it names")]
pub enum Failure {
    #[error(transparent)]
    Project(#[from] ProjectError),
    #[error(transparent)]
    Config(#[from] ConfigError),
    #[error(transparent)]
    Plan(#[from] PlanError),
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error(transparent)]
    Desk(#[from] DeskError),
    #[error(transparent)]
    Command(#[from] CommandError),
    #[error(transparent)]
    Prompt(#[from] PromptFault),
    #[error(transparent)]
    Git(#[from] GitError),
    #[error(transparent)]
    Repository(#[from] GitRefusal),
    #[error(transparent)]
    Commit(#[from] CommitError),
    #[error(transparent)]
    Workspace(#[from] SnapshotError),
    #[error(transparent)]
    Guard(#[from] GuardError),
    #[error(transparent)]
    File(#[from] FileError),
    #[error(transparent)]
    Json(#[from] JsonError),
    #[error(transparent)]
    Lock(#[from] LockError),
    #[error(transparent)]
    Rule(#[from] Refusal),
    #[error(transparent)]
    Lease(#[from] NoLease),
    #[error(transparent)]
    LeaseStep(#[from] IllegalStep),
    #[error(transparent)]
    Sample(#[from] crate::sample::SampleError),
    /// The system refused something basic.
    #[error("cannot {what}")]
    System {
        /// What was being done.
        what: &'static str,
        /// What the system said.
        source: std::io::Error,
    },
    /// The part of the plan that was asked for does not exist.
    #[error("there is no {kind} {name}{nearest}")]
    UnknownPart {
        /// `stage` or `task`.
        kind: &'static str,
        /// The name that was given.
        name: String,
        /// `; did you mean …?`, or nothing.
        nearest: String,
    },
    /// Files differ from the last commit and nobody knows why.
    #[error("the work tree is not clean: {}; commit them, restore them with git, or set them aside with `runner recover`", names(.files, LISTED))]
    Dirty {
        /// The files.
        files: Vec<String>,
    },
    /// An interrupted session left changes that cannot be told apart from somebody else's.
    #[error(
        "the interrupted session of {task} left changes outside its scope, or somebody else made them: {}; \
         commit or restore what is yours, or set all of it aside with `runner recover`",
        names(.files, LISTED)
    )]
    Unattributable {
        /// The interrupted task.
        task: TaskId,
        /// The files.
        files: Vec<String>,
    },
    /// HEAD is not where it was when a verification was killed, so what its commands changed cannot be told from somebody's work.
    #[error(
        "HEAD moved after the verification of {task} was killed, and this is not as it was submitted: {}; what was submitted is \
         kept in {}: put back from there what is wanted, or commit or restore what is yours, then start again; or go on with \
         `runner recover --yes`, which sets aside what differs",
        names(.files, LISTED), .kept.display()
    )]
    MovedSinceKill {
        /// The task.
        task: TaskId,
        /// What differs.
        files: Vec<String>,
        /// Where copies of what was submitted lie.
        kept: std::path::PathBuf,
    },
    /// Processes of an interrupted run could not be ended.
    #[error(
        "processes of an interrupted run could not be ended: {}; nothing is started beside them: end them, then start again",
        names(.processes, LISTED)
    )]
    StillRunning {
        /// Their names and ids.
        processes: Vec<String>,
    },
    /// An ignore line is missing.
    #[error("git does not ignore {path}; add this line to .gitignore and commit it: {line}")]
    NotIgnored {
        /// A path of that kind.
        path: String,
        /// The missing line.
        line: String,
    },
    /// The original coordinator's lock is in the way.
    #[error(
        ".runner.lock is a folder: a Python coordinator runs here or was killed here; make sure that it has ended, then remove \
         the folder"
    )]
    ForeignLock,
    /// A run is on, and what was asked for has to wait for its end.
    #[error("{}", in_the_way(.holder))]
    RunIsOn {
        /// What the coordinator wrote about itself.
        holder: serde_json::Value,
    },
    /// A run was started from inside a session.
    #[error(
        "this is a session of the coordinator (RUNNER_AGENT_ID is set): a session must not start another run; exit instead"
    )]
    Nested,
    /// A path that work trees are to share cannot be.
    #[error("`workspace.share` names {path}, which {why}")]
    Share {
        /// The path.
        path: RelPath,
        /// What is wrong and what to do.
        why: &'static str,
    },
    /// A fresh work tree could not be made usable.
    #[error("`workspace.setup` failed, so no session can work: {command}: {what}")]
    SetUp {
        /// The command.
        command: String,
        /// What it did.
        what: String,
    },
    /// Not even a fresh workspace can be used.
    #[error("no workspace can be made for a session: {reason}; look at it, then start again")]
    NoWorkspace {
        /// What is wrong.
        reason: String,
    },
    /// A session's work could not be brought into the root.
    #[error(
        "{reason}; the session's version is kept as commit {commit} ({reference}): commit your version or take it away, merge \
         that commit where both are wanted, then start again"
    )]
    NotLanded {
        /// Why.
        reason: String,
        /// The commit that holds it.
        commit: String,
        /// The ref that names it.
        reference: String,
    },
    /// A signal arrived before the session could start.
    #[error("stopped by signal {signal} before the session could start")]
    Interrupted {
        /// The signal.
        signal: i32,
    },
    /// A verification command cannot be run on this machine.
    #[error(
        "{place}: the command `{command}` under `verify` cannot be run: {problem}; correct it there, or install the program"
    )]
    CannotVerify {
        /// The file that names it.
        place: String,
        /// The command.
        command: String,
        /// What is the matter with it.
        problem: String,
    },
    /// Verification commands change what they must not.
    #[error(
        "the commands under `verify` changed what only the coordinator may, or what could not be put back: {names}; change the \
         commands so that they write only into files that git ignores"
    )]
    VerifyTouches {
        /// What they changed.
        names: String,
    },
    /// A task would be reviewed by the command that did it.
    #[error(
        "{task} is executed by {role} and reviewed by {reviewer} with the same command, and `reviewer_differs` is set; give {reviewer} \
         another under `commands_by_role` or `agents_by_role` in runner.local.json"
    )]
    SameReviewer {
        /// The task.
        task: TaskId,
        /// Who executes it.
        role: Role,
        /// Who reviews it.
        reviewer: Role,
    },
    /// A verb was used without saying by whom.
    #[error("{what}")]
    Usage {
        /// What is wrong and what to do.
        what: String,
    },
}

impl Failure {
    /// The process's exit code.
    pub fn exit_code(&self) -> u8 {
        match self {
            Self::RunIsOn { .. }
            | Self::Store(StoreError::Busy { .. })
            | Self::Desk(DeskError::Store(StoreError::Busy { .. })) => EXIT_TRY_LATER,
            _ => EXIT_FAILURE,
        }
    }

    /// Whether the `git` program or a hook could not be run, or did not succeed.
    pub(super) fn is_of_program(&self) -> bool {
        matches!(self, Self::Commit(CommitError::Program { .. }) | Self::Repository(GitRefusal::NoProgram { .. }))
    }

    /// The error and its causes on one line.
    pub fn reason(&self) -> String {
        let mut text = self.to_string();
        let mut cause = std::error::Error::source(self);
        while let Some(error) = cause {
            let next = error.to_string();
            if !text.contains(&next) {
                text = format!("{text}: {next}");
            }
            cause = error.source();
        }
        text
    }
}

fn in_the_way(holder: &serde_json::Value) -> String {
    match holder.get("interrupted") {
        Some(agent) => {
            format!("the run that started {agent} was killed; start `runner`, which puts that in order, then try again")
        }
        None => format!("a run is on (pid {}); try again when it has ended", holder["pid"]),
    }
}
