//! Ends the processes that a killed run left. Nothing may run on beside the next session, so what cannot be ended stops the start,
//! and the record of its session says so for as long as it is open.
//!
//! A session is found by its claim, a verification by its note; the set-up of a work tree, which has neither, by what lies here.

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::fs;
use crate::observe::Event;
use crate::project::Project;
use crate::session::{Leftovers, sweep};
use crate::tracker::proof::Token;
use crate::tracker::row::Claim;

use super::Run;
use super::failure::Failure;
use super::{prepare, records};

/// The version of the fields of [`Marked`].
const SCHEMA: u32 = 1;

/// By what the commands are found that set a work tree up.
#[derive(Debug, Serialize, Deserialize)]
struct Marked {
    schema: u32,
    mark_hash: String,
    boot_id: String,
}

/// Makes durable by what commands will be found that set a work tree up, and says what they have to carry.
pub(super) fn mark(run: &Run<'_>) -> Result<Token, Failure> {
    let mark = prepare::fresh_token()?;
    let marked = Marked { schema: SCHEMA, mark_hash: mark.hash(), boot_id: run.identity.boot_id.clone() };
    let path = path(run.project);
    let text = serde_json::to_vec(&marked).map_err(|source| fs::JsonError::Syntax { path: path.clone(), source })?;
    fs::replace_private(&path, &text)?;
    Ok(mark)
}

/// All of them have come to their end.
pub(super) fn unmark(run: &Run<'_>) -> Result<(), Failure> {
    // If it came back after a power failure, nothing would be found by it.
    Ok(fs::remove_unsynced(&path(run.project))?)
}

/// Ends what is left of the set-up of a work tree.
pub(super) fn end_marked(run: &Run<'_>) -> Result<(), Failure> {
    let path = path(run.project);
    let Some(bytes) = fs::read_if_present(&path)? else { return Ok(()) };
    let Marked { mark_hash, boot_id, .. } = fs::parse_json(&path, &bytes)?;
    none_of(end_of(run, "the set-up of a work tree", &Leftovers { token_hash: &mark_hash, boot_id: &boot_id }))?;
    unmark(run)
}

fn path(project: &Project) -> PathBuf {
    project.private_own().join("set-up.json")
}

/// Ends what is left of the sessions with these claims: the processes that hold their very secrets.
pub(super) fn end(run: &Run<'_>, claims: &[Claim]) -> Result<(), Failure> {
    let mut left = Vec::new();
    for claim in claims {
        let (Some(token_hash), Some(boot_id)) = (&claim.token_hash, &claim.boot_id) else { continue };
        let of = format!("the session of {}", claim.agent);
        let still_there = end_of(run, &of, &Leftovers { token_hash, boot_id });
        records::keep_open(run, &run.project.session(&claim.agent, claim.session), &still_there)?;
        left.extend(still_there);
    }
    none_of(left)
}

/// The same for commands of the coordinator's own that were run on the work of a session with this folder.
pub(super) fn end_commands(
    run: &Run<'_>,
    of: &str,
    (leftovers, folder): (&Leftovers<'_>, &Path),
) -> Result<(), Failure> {
    let left = end_of(run, of, leftovers);
    records::keep_open(run, folder, &left)?;
    none_of(left)
}

fn none_of(left: Vec<String>) -> Result<(), Failure> {
    if left.is_empty() { Ok(()) } else { Err(Failure::StillRunning { processes: left }) }
}

/// Ends what is left of one of them, tells observers, and names what could not be ended.
fn end_of(run: &Run<'_>, of: &str, leftovers: &Leftovers<'_>) -> Vec<String> {
    let swept = sweep(leftovers);
    if !swept.ended.is_empty() {
        let names: Vec<String> = swept.ended.iter().map(ToString::to_string).collect();
        (run.observe)(&Event::Recovered { what: format!("ended what was left of {of}: {}", names.join(", ")) });
    }
    swept.left.iter().map(ToString::to_string).collect()
}
