//! Ends the processes that a killed run left. Nothing may run on beside the next session, so what cannot be ended stops the start,
//! and the record of its session says so for as long as it is open.

use std::path::Path;

use crate::observe::Event;
use crate::session::{Leftovers, sweep};
use crate::tracker::row::Claim;

use super::Run;
use super::failure::Failure;
use super::records;

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
