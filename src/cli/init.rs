//! `runner init`: the skeleton of a plan in the user's own repository.

use clap::Args;

use crate::coordinator::failure::Failure;
use crate::coordinator::prepare::Host;
use crate::{report, sample};

use super::{Place, host};

/// Nothing beside the place.
#[derive(Debug, Args)]
pub(super) struct InitArgs {}

/// Lays the skeleton down and says what to edit.
pub(super) fn run(place: &Place, _args: &InitArgs, _from: &Host) -> Result<u8, Failure> {
    let start = host::start_folder()?;
    let top = start.ancestors().find(|folder| folder.join(".git").exists()).map(std::path::Path::to_owned);
    let root = place.root.clone().or(top).unwrap_or(start);
    for laid in sample::lay_down_skeleton(&root)? {
        report::line(&laid.to_string());
    }
    report::line(
        "\nNext:\n  1. describe your work in planning/stages/ and planning/tasks/, and each role in roles/\n  \
         2. cp runner.example.json runner.local.json, and set `argv` to your agent's command\n  \
         3. commit, then look at what would run: runner --dry-run\n  4. run it: runner",
    );
    Ok(0)
}
