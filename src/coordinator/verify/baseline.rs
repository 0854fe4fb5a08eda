//! What fails in accepted work already: known once for what a commit holds outside plan and state, and handed on from commit to
//! commit, so that only new failures count against a session.
//!
//! Read once in a run, before its first session; from then on what is in memory counts, whatever a session wrote into the file.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::commit::CommitId;
use crate::fs;
use crate::project::Project;

use super::super::Run;
use super::super::failure::Failure;
use super::bench::Ran;

/// The version of the file's fields.
const SCHEMA: u32 = 1;

/// What is known, if anything is.
#[derive(Debug, Default)]
pub(in super::super) struct Baselines {
    known: Option<Baseline>,
    is_read: bool,
}

/// What commands came to in the files of a commit.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Baseline {
    schema: u32,
    /// The digest of what the commit holds outside plan and state.
    content: String,
    /// The commit in which the commands were run, or accepted work was verified.
    pub(super) commit: CommitId,
    commands: Vec<Known>,
}

/// One command there.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Known {
    argv: Vec<String>,
    fails: bool,
}

impl Baseline {
    /// Whether the command failed; none if nobody knows.
    pub(super) fn fails(&self, argv: &[String]) -> Option<bool> {
        self.commands.iter().find(|known| known.argv == argv).map(|known| known.fails)
    }

    /// The same with what was found now; of one command the newer counts.
    fn with(mut self, ran: &[Ran]) -> Self {
        for ran in ran {
            let argv = ran.record.argv.clone();
            self.commands.retain(|known| known.argv != argv);
            self.commands.push(Known { argv, fails: ran.record.failed.is_some() });
        }
        self
    }
}

/// What is known of the files of `commit`.
pub(super) fn at(run: &mut Run<'_>, commit: &CommitId) -> Result<Option<Baseline>, Failure> {
    read(run);
    let Some(known) = run.baselines.known.clone() else { return Ok(None) };
    Ok((content(run, commit)? == known.content).then_some(known))
}

/// The commands were run in the files of `commit`, all of whose work was accepted before.
pub(super) fn found(run: &mut Run<'_>, commit: &CommitId, ran: &[Ran]) -> Result<(), Failure> {
    let known = match at(run, commit)? {
        Some(known) => known,
        None => {
            Baseline { schema: SCHEMA, content: content(run, commit)?, commit: commit.clone(), commands: Vec::new() }
        }
    };
    keep(run, known.with(ran))
}

/// A session's work was taken for good in `commit`, on top of `parent`: what was run on it is what is known now. Of other
/// commands nothing is known any more, unless it changed nothing.
pub(super) fn accepted(
    run: &mut Run<'_>,
    (parent, commit): (&CommitId, &CommitId),
    ran: &[Ran],
) -> Result<(), Failure> {
    read(run);
    if run.baselines.known.is_none() && ran.is_empty() {
        return Ok(());
    }
    let (before, now) = (content(run, parent)?, content(run, commit)?);
    if before == now {
        return if ran.is_empty() { Ok(()) } else { found(run, commit, ran) };
    }
    let none = Baseline { schema: SCHEMA, content: now, commit: commit.clone(), commands: Vec::new() };
    keep(run, none.with(ran))
}

/// The coordinator made `commit` on top of `parent`: what failed in accepted work is the same, whatever unaccepted work the
/// commit preserves. So a failure that a session brought does not become an old one by its checkpoint.
pub(in super::super) fn carry_over(run: &mut Run<'_>, parent: &CommitId, commit: &CommitId) -> Result<(), Failure> {
    let Some(known) = at(run, parent)? else { return Ok(()) };
    let content = content(run, commit)?;
    if content == known.content {
        return Ok(());
    }
    keep(run, Baseline { content, ..known })
}

fn content(run: &Run<'_>, commit: &CommitId) -> Result<String, Failure> {
    let git = run.git.as_ref().expect("a baseline is only asked for with git");
    Ok(git.content_key(commit)?)
}

fn keep(run: &mut Run<'_>, known: Baseline) -> Result<(), Failure> {
    let file = path(run.project);
    let text = serde_json::to_vec(&known).map_err(|source| fs::JsonError::Syntax { path: file.clone(), source })?;
    run.baselines.known = Some(known);
    Ok(fs::replace_private(&file, &text)?)
}

fn read(run: &mut Run<'_>) {
    if run.baselines.is_read {
        return;
    }
    run.baselines.is_read = true;
    // What cannot be read is found out again.
    let bytes = fs::read_if_present(&path(run.project)).ok().flatten();
    let known = bytes.and_then(|bytes| serde_json::from_slice::<Baseline>(&bytes).ok());
    run.baselines.known = known.filter(|known| known.schema == SCHEMA);
}

fn path(project: &Project) -> PathBuf {
    project.private_own().join("baseline.json")
}
