//! What well-known agents print: one streaming reader for each, and how each is started.
//!
//! ```text
//! bytes as they come ─→ lines ─→ codex │ claude │ gemini │ opencode │ prose ─→ Reading
//!                                                fault, reset: what went wrong, and until when
//! ```
//!
//! Pure: takes bytes and the time, gives values. Never judges a session by what it reads here: an agent's word says what
//! was used and why a service refused, never whether the work is done.

mod claude;
mod codex;
mod fault;
mod gemini;
mod lines;
mod message;
mod opencode;
mod preset;
mod prose;
mod reader;
mod record;
mod reset;

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

pub use fault::{AgentFault, FAULT_TEXT_KEPT, FaultKind};
pub use lines::LINE_READ;
pub use message::{FinalMessage, MESSAGE_KEPT, WORDS_KEPT};
pub use preset::{Needs, PROMPT_ARGUMENT, Preset, PromptWay, StopSignal, Variables};
pub use reader::{Reader, Reading};

/// Whose output it is.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Dialect {
    /// `codex exec --json`.
    Codex,
    /// `claude -p --output-format stream-json --verbose`.
    Claude,
    /// `gemini --output-format stream-json`.
    Gemini,
    /// `opencode run --format json`.
    Opencode,
    /// `qwen --output-format stream-json`.
    Qwen,
    /// `aider --no-pretty`: text for people.
    Aider,
    /// `mini`: text for people.
    Mini,
    /// Nothing is known of it: its final message is its standard output, its figures are unknown.
    #[default]
    Plain,
}

impl Dialect {
    /// All of them.
    pub const ALL: [Self; 8] =
        [Self::Codex, Self::Claude, Self::Gemini, Self::Opencode, Self::Qwen, Self::Aider, Self::Mini, Self::Plain];

    /// Its name in the configuration and in records.
    pub fn name(self) -> &'static str {
        match self {
            Self::Codex => "codex",
            Self::Claude => "claude",
            Self::Gemini => "gemini",
            Self::Opencode => "opencode",
            Self::Qwen => "qwen",
            Self::Aider => "aider",
            Self::Mini => "mini",
            Self::Plain => "plain",
        }
    }
}

impl fmt::Display for Dialect {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// A word that names no dialect or no preset.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("must be one of {}, not {given:?}{}", known.join(", "), nearest.map(|name| format!("; did you mean {name:?}?")).unwrap_or_default())]
pub struct UnknownName {
    given: String,
    known: Vec<&'static str>,
    nearest: Option<&'static str>,
}

impl UnknownName {
    fn new(given: &str, known: impl Iterator<Item = &'static str>) -> Self {
        let known: Vec<&'static str> = known.collect();
        let distance = |name: &str| strsim::osa_distance(&given.to_lowercase(), name);
        let nearest = known.iter().map(|name| (distance(name), *name)).min();
        let nearest = nearest.filter(|(distance, name)| *distance <= (name.len() / 3).max(2)).map(|(_, name)| name);
        Self { given: given.chars().take(40).collect(), known, nearest }
    }
}

impl FromStr for Dialect {
    type Err = UnknownName;

    fn from_str(text: &str) -> Result<Self, UnknownName> {
        let found = Self::ALL.into_iter().find(|dialect| dialect.name() == text);
        found.ok_or_else(|| UnknownName::new(text, Self::ALL.into_iter().map(Self::name)))
    }
}

/// Which of an agent's two output streams.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stream {
    /// Standard output.
    Stdout,
    /// Standard error.
    Stderr,
}

#[cfg(test)]
mod tests;
