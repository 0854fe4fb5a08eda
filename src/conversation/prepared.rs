//! A session that is prepared and not yet run: its whole prompt, and the digests by which it can be compared with others. Pure.
//!
//! The history comes before the new prompt, is counted in its budget, and only then is anything hashed. Digests are SHA-256.
//! That of the definition covers what a person wrote down to be done; that of the whole prompt every word of it, the
//! history included; neither depends on a run id, nor on whether the conversation is to be captured.

use std::collections::BTreeSet;
use std::fmt;

use serde::{Serialize, Serializer};
use sha2::{Digest as _, Sha256};

use super::coordinate::Completed;
use super::exchange::{Exchange, Message};
use crate::ids::{AgentId, hex};
use crate::prompt::{Assignment, ContextFault, Document, PartSize, Parts, Prompt, PromptFault};

/// A SHA-256 digest; shown and written as 64 lower-case hexadecimal digits.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Digest([u8; 32]);

impl Digest {
    fn of(bytes: &[u8]) -> Self {
        Self(Sha256::digest(bytes).into())
    }
}

impl fmt::Display for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&hex(&self.0))
    }
}

impl fmt::Debug for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl Serialize for Digest {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

/// The digest of one file of the prompt.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct InputDigest {
    /// What it is, with its path, as in the sizes of the prompt's parts.
    pub part: String,
    /// Of its text as it stands in the prompt: with every line ending as LF.
    pub digest: Digest,
}

/// What can be told about a prepared session without running it; a value of its own that outlives it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Details {
    /// Of the card, the role and what is to be done.
    pub definition: Digest,
    /// Of each file that was read for the new prompt, in its order.
    pub inputs: Vec<InputDigest>,
    /// Of the whole prompt, agents of this conversation named by their place in it.
    pub prompt: Digest,
    /// The whole prompt's length in Unicode characters.
    pub prompt_characters: usize,
    /// Its parts, the history first; they add up.
    pub prompt_parts: Vec<PartSize>,
    /// The command, all placeholders replaced.
    pub argv: Vec<String>,
    /// The session whose conversation it goes on from.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub parent_run_id: Option<String>,
}

/// What a session is made of.
pub struct Draft<'a> {
    /// Who is to do what.
    pub assignment: &'a Assignment<'a>,
    /// What was read for the new prompt.
    pub parts: &'a Parts,
    /// The new prompt.
    pub new: Prompt,
    /// The conversation to go on from.
    pub continue_from: Option<&'a Exchange>,
    /// The command, all placeholders replaced.
    pub argv: Vec<String>,
    /// How long the whole prompt may be, in Unicode characters.
    pub max_chars: usize,
}

/// A session that can be run once, which uses it up. Dropping it leaves no trace.
#[must_use = "a prepared session is run, or dropped on purpose"]
pub struct Prepared {
    details: Details,
    prompt: Prompt,
    /// Where the new words begin in the prompt's text.
    new_from: usize,
    source: Option<Exchange>,
}

/// Prepares a session. A whole prompt of more than `max_chars` characters is a fault of the task, which lists every part, the
/// history among them; without the history it may fit.
///
/// ```
/// use std::convert::Infallible;
/// use std::path::Path;
/// use runner::conversation::prepared::{Draft, prepare};
/// use runner::conversation::{Completed, Exchange};
/// use runner::plan::{TaskCard, Work};
/// use runner::prompt::{Assignment, Parts, Prompt, assemble};
///
/// let card = TaskCard::parse(Path::new("S00-001.json"), br#"{"id": "S00-001", "stage": "S00", "title": "Build it",
///     "role": "backend", "reviewer_role": "qa", "scope": ["src/*"], "outcome": "It is there."}"#).expect("a sound card");
/// let agent = "auto-backend-000102030405".parse()?;
/// let assignment =
///     Assignment { agent: &agent, role: &card.role, card: &card, work: Work::Claim, runner_bin: Path::new("/bin/runner") };
/// let prepared = |new: Prompt, continue_from: Option<&Exchange>| {
///     let argv = vec!["agent".to_owned()];
///     prepare(Draft { assignment: &assignment, parts: &Parts::default(), new, continue_from, argv, max_chars: 48_000 })
/// };
///
/// let first = prepared(assemble(&assignment, &Parts::default(), "{}", 48_000)?, None)?;
/// let before = first.details().clone();
/// // Running it uses it up; dropping it instead would leave no trace.
/// let session = |prompt: &Prompt| Ok::<_, Infallible>((prompt.text.len(), "It is built.".to_owned()));
/// let Completed { exchange, result } = first.run("auto-backend-000102030405.1", session)?;
/// assert_eq!(result, before.prompt_characters);
///
/// let again = Prompt { text: "Is it tested?".to_owned(), sizes: Vec::new() };
/// let second = prepared(again, Some(&exchange))?;
/// assert_eq!(second.prompt().text, format!("{}Is it tested?", exchange.history()));
/// assert_eq!(second.details().parent_run_id.as_deref(), Some("auto-backend-000102030405.1"));
/// assert_eq!(second.details().definition, before.definition);
/// assert_ne!(second.details().prompt, before.prompt);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn prepare(draft: Draft<'_>) -> Result<Prepared, PromptFault> {
    let Draft { assignment, parts, new, continue_from, argv, max_chars } = draft;
    let (prompt, new_from) = after_history(new, continue_from);
    let prompt_characters = prompt.sizes.iter().map(|size| size.characters).sum();
    if prompt_characters > max_chars {
        return Err(PromptFault::Task(ContextFault::over_budget(prompt.sizes, max_chars)));
    }
    let details = Details {
        definition: definition(assignment),
        inputs: parts.documents.iter().map(input).collect(),
        prompt: Digest::of(without_identities(&prompt.text, assignment.agent, continue_from).as_bytes()),
        prompt_characters,
        prompt_parts: prompt.sizes.clone(),
        argv,
        parent_run_id: continue_from.map(|source| source.run_id().to_owned()),
    };
    Ok(Prepared { details, prompt, new_from, source: continue_from.cloned() })
}

impl Prepared {
    /// What can be told about it.
    pub fn details(&self) -> &Details {
        &self.details
    }

    /// The whole prompt.
    pub fn prompt(&self) -> &Prompt {
        &self.prompt
    }

    /// Runs it, once: `execute` carries a session with this prompt to its very end, and says what came of it and what its agent
    /// said last, word for word.
    ///
    /// A session that was judged badly has completed all the same. One that failed to operate is an error: it gives no
    /// conversation, and the one it went on from is as usable as before.
    pub fn run<T, E>(
        self,
        run_id: &str,
        execute: impl FnOnce(&Prompt) -> Result<(T, String), E>,
    ) -> Result<Completed<T>, E> {
        let (result, answer) = execute(&self.prompt)?;
        Ok(Completed { exchange: self.into_exchange(run_id, &answer), result })
    }

    /// The conversation once its session has completed with this last message.
    fn into_exchange(self, run_id: &str, answer: &str) -> Exchange {
        let asked = vec![Message::asked(&self.prompt.text[self.new_from..])];
        match &self.source {
            Some(source) => source.then(run_id, asked, answer),
            None => Exchange::begin(run_id, asked, answer),
        }
    }
}

/// Shows sizes and digests, no content.
impl fmt::Debug for Prepared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Prepared").field("prompt", &self.details.prompt).finish_non_exhaustive()
    }
}

/// The whole prompt, and where the new one begins in it.
fn after_history(new: Prompt, source: Option<&Exchange>) -> (Prompt, usize) {
    let Some(source) = source else { return (new, 0) };
    let mut text = source.history();
    let new_from = text.len();
    let mut sizes = vec![PartSize { part: "history".to_owned(), characters: text.chars().count() }];
    text.push_str(&new.text);
    sizes.extend(new.sizes);
    (Prompt { text, sizes }, new_from)
}

fn definition(assignment: &Assignment<'_>) -> Digest {
    let card = assignment.card.to_json();
    Digest::of(format!("{}\n{}\n{card}", assignment.role, assignment.work).as_bytes())
}

fn input(document: &Document) -> InputDigest {
    InputDigest { part: document.name(), digest: Digest::of(document.text.as_bytes()) }
}

/// The prompt with its own agent and those of the sessions it goes on from named by their place, the newest first: their ids
/// are drawn at random for each run.
fn without_identities(text: &str, agent: &AgentId, source: Option<&Exchange>) -> String {
    let earlier = source.into_iter().flat_map(Exchange::run_ids).filter_map(|run_id| Some(run_id.rsplit_once('.')?.0));
    let drawn = earlier.filter(|agent| agent.parse::<AgentId>().is_ok_and(|agent| agent.is_automatic()));
    let mut seen = BTreeSet::new();
    let mut text = text.to_owned();
    for (place, agent) in std::iter::once(agent.as_str()).chain(drawn).filter(|agent| seen.insert(*agent)).enumerate() {
        text = text.replace(agent, &format!("{{agent-{place}}}"));
    }
    text
}

#[cfg(test)]
mod tests;
