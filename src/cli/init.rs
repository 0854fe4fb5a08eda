//! `runner init`: the skeleton of a plan in the user's own repository.

use clap::Args;

use crate::coordinator::failure::Failure;
use crate::coordinator::prepare::Host;
use crate::{report, sample};

use super::{Place, host};

/// The order of the README's "your own plan in five minutes".
const NEXT: &str = "  \
  1. cp runner.example.json runner.local.json, and make `argv` in it your agent's command
  2. say in AGENTS.md and roles/ what agents have to know
  3. write your stages and tasks in planning/stages/ and planning/tasks/
  4. git add -A && git commit -m \"Add a plan\", because a run begins with a clean work tree
  5. runner --dry-run    says what would run
     runner              runs it";

/// Nothing beside the place.
#[derive(Debug, Args)]
pub(super) struct InitArgs {}

/// Lays the skeleton down and says what to edit.
pub(super) fn run(place: &Place, _args: &InitArgs, _from: &Host) -> Result<u8, Failure> {
    let start = host::start_folder()?;
    let top = start.ancestors().find(|folder| folder.join(".git").exists()).map(std::path::Path::to_owned);
    let root = place.root.clone().or(top).unwrap_or(start);
    report::line(&format!("In {}:", root.display()));
    for laid in sample::lay_down_skeleton(&root)? {
        report::line(&format!("  {laid}"));
    }
    let first = if root.join(".git").exists() { "" } else { "  0. git init, because each session becomes a commit\n" };
    report::line(&format!("\nNext:\n{first}{NEXT}"));
    Ok(0)
}
