//! The prompt of one session: what is read for it, and how it becomes one bounded text.
//!
//! Reading (`gather.rs`) and putting together (`assemble.rs`, pure) are separate steps, so that a dry run and a session
//! make the same text. Nothing is ever cut to fit: what is too long is a fault that lists every part with its size.

mod assemble;
mod assignment;
mod gather;

use std::path::Path;

use crate::config::Config;
use crate::ids::{AgentId, Role};
use crate::plan::{TaskCard, Work};
use crate::project::Project;

pub use assemble::assemble;
pub use gather::{check_context, gather};

/// Who is to do what.
#[derive(Debug, Clone, Copy)]
pub struct Assignment<'a> {
    /// The agent.
    pub agent: &'a AgentId,
    /// Its role.
    pub role: &'a Role,
    /// Its task.
    pub card: &'a TaskCard,
    /// Whether it executes or reviews.
    pub work: Work,
    /// The `runner` program, absolute: some agents start their tools with a PATH of their own.
    pub runner_bin: &'a Path,
}

/// Where the parts of a prompt come from.
#[derive(Debug, Clone, Copy)]
pub struct Sources<'a> {
    /// The project.
    pub project: &'a Project,
    /// The folder the session works in: everything but state and plan is read there.
    pub workspace: &'a Path,
    /// The machine's configuration.
    pub config: &'a Config,
    /// The handoff the task's row names, from the root.
    pub handoff: Option<&'a str>,
    /// The evidence the task's row names, from the root; read for a review only.
    pub evidence: Option<&'a str>,
    /// What the coordinator's own commands said of the submit, from the root; read for a review only.
    pub verification: Option<&'a str>,
}

/// Why a file is in the prompt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// A context file: in the prompt of every session of the role.
    Context,
    /// An input of the task.
    Input,
    /// What the previous session on the task left for the next.
    Handoff,
    /// What the executor says for its work.
    Evidence,
}

impl Kind {
    /// Whether an earlier session wrote it: a person cannot be asked to mend it before the next session can start.
    fn is_left_by_a_session(self) -> bool {
        matches!(self, Kind::Handoff | Kind::Evidence)
    }

    fn name(self) -> &'static str {
        match self {
            Kind::Context => "context file",
            Kind::Input => "input",
            Kind::Handoff => "handoff",
            Kind::Evidence => "evidence",
        }
    }
}

/// A file that was read for the prompt.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Document {
    /// Why it is there.
    pub kind: Kind,
    /// Its path from the root, as it was asked for.
    pub path: String,
    /// Its text with every line ending as LF.
    pub text: String,
}

/// A file that was asked for and is not there; the prompt says so.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Absent {
    /// Why it was asked for.
    pub kind: Kind,
    /// Its path from the root.
    pub path: String,
    /// What is the matter with it.
    pub why: &'static str,
}

/// Everything that was read for a prompt, in its order, each file once.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Parts {
    /// The files.
    pub documents: Vec<Document>,
    /// What is not there.
    pub absent: Vec<Absent>,
}

/// A prompt within its budget.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Prompt {
    /// The whole text.
    pub text: String,
    /// Its parts in their order; the sizes add up to the text's.
    pub sizes: Vec<PartSize>,
}

/// How much of a prompt a part takes.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub struct PartSize {
    /// What it is, with the file's path.
    pub part: String,
    /// Its length in Unicode characters.
    pub characters: usize,
}

/// A prompt that cannot be made.
#[derive(Debug, thiserror::Error)]
pub enum PromptFault {
    /// The context every session needs is at fault: nothing may be claimed.
    #[error(transparent)]
    Configuration(ContextFault),
    /// What this one task brings is at fault: the task is escalated, other tasks can go on.
    #[error(transparent)]
    Task(ContextFault),
}

/// What is wrong with a file of a prompt, or with all of them together.
#[derive(Debug, thiserror::Error)]
pub enum ContextFault {
    /// The agent takes the prompt as an argument, and it cannot be one.
    #[error(
        "the prompt {why}, and {program} takes it as an argument; shorten what the task brings into it, or choose an agent that reads standard input"
    )]
    NoArgument {
        /// The agent's program, as configured.
        program: String,
        /// What is the matter with it.
        why: String,
    },
    /// A required file does not exist.
    #[error("{} {path} {why}; write it, or name other `context_files` in runner.local.json", kind.name())]
    Missing {
        /// Why it is needed.
        kind: Kind,
        /// Its path from the root.
        path: String,
        /// What is the matter with it.
        why: &'static str,
    },
    /// A file holds no UTF-8 text.
    #[error("{} {path} is not UTF-8 text (line {line}); convert it or take it out", kind.name())]
    NotText {
        /// Why it was read.
        kind: Kind,
        /// Its path from the root.
        path: String,
        /// The first line with a fault, from 1.
        line: usize,
    },
    /// A path leads out of the project.
    #[error("{} {path} leads out of the project's root; name a file below it that is no link to the outside", kind.name())]
    Outside {
        /// Why it was asked for.
        kind: Kind,
        /// Its path as it was written.
        path: String,
    },
    /// A path leads to what no agent should see.
    #[error("{} {path} lies where this machine keeps its configuration or git its own files; take it out", kind.name())]
    Private {
        /// Why it was asked for.
        kind: Kind,
        /// Its path as it was written.
        path: String,
    },
    /// A file that no prompt could hold.
    #[error("{} {path} has {bytes} bytes, far more than any prompt may have; shorten it or take it out", kind.name())]
    TooLarge {
        /// Why it was asked for.
        kind: Kind,
        /// Its path from the root.
        path: String,
        /// Its size.
        bytes: u64,
    },
    /// A file could not be read.
    #[error("{} {path} cannot be read; make it readable or take it out", kind.name())]
    Unreadable {
        /// Why it was asked for.
        kind: Kind,
        /// Its path from the root.
        path: String,
        /// What the system said.
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// The whole is longer than allowed; the parts are listed, largest first.
    #[error(
        "the prompt has {total} characters, `max_prompt_chars` allows {limit}; shorten or split the largest of its parts: {}",
        listed(parts)
    )]
    OverBudget {
        /// The whole length in Unicode characters.
        total: usize,
        /// The length allowed.
        limit: usize,
        /// Every part, largest first.
        parts: Vec<PartSize>,
    },
}

fn listed(parts: &[PartSize]) -> String {
    parts.iter().map(|part| format!("{} {}", part.part, part.characters)).collect::<Vec<_>>().join(", ")
}

impl ContextFault {
    /// The fault of a prompt whose parts are too long together.
    pub(crate) fn over_budget(mut parts: Vec<PartSize>, limit: usize) -> Self {
        let total = parts.iter().map(|part| part.characters).sum();
        // Stable: parts of one size keep the order of the prompt.
        parts.sort_by_key(|part| std::cmp::Reverse(part.characters));
        Self::OverBudget { total, limit, parts }
    }
}
