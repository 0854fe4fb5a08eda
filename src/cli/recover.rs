//! `runner recover`: changes that nobody can attribute are listed and, with `--yes`, set aside.

use clap::Args;

use crate::clock::Clock;
use crate::config::Config;
use crate::coordinator::failure::Failure;
use crate::coordinator::prepare::Host;
use crate::coordinator::recover::set_aside_all;
use crate::coordinator::start::Opening;
use crate::report::{self, Reporter};
use crate::session::Signals;

use super::{Place, host};

/// Whether to act.
#[derive(Debug, Args)]
pub(super) struct RecoverArgs {
    /// Do it; without this the files are only listed
    #[arg(long)]
    yes: bool,
}

/// Lists the changes, and sets them aside if told to.
pub(super) fn run(place: &Place, args: &RecoverArgs, from: &Host) -> Result<u8, Failure> {
    if host::is_in_session(from) {
        return Err(Failure::Nested);
    }
    let project = host::project(place, None)?;
    let config_path = host::config_path(place, &project);
    let config: Config = host::config_or_default(&config_path)?;
    let reporter = Reporter::new(false);
    let signals = Signals::none();
    let opening = Opening {
        project: &project,
        config: &config,
        config_path,
        stage: None,
        task: None,
        host: from,
        clock: Clock::system(),
        signals: &signals,
        observe: &|event| reporter.show(event),
    };
    let aside = set_aside_all(&opening, args.yes)?;
    for line in aside.put_back.iter().chain(&aside.lines) {
        report::line(line);
    }
    if let Some(patch) = &aside.patch {
        report::line(patch);
    }
    report::line(&match (&aside.folder, aside.lines.is_empty()) {
        (_, true) if aside.has_intended => {
            "nothing is there to set aside but the work of a session whose commit is still to be made; the next start tries it again"
                .to_owned()
        }
        (_, true) if !aside.put_back.is_empty() => "nothing else differs from HEAD outside state/".to_owned(),
        (_, true) => "nothing differs from HEAD outside state/: there is nothing to set aside".to_owned(),
        (Some(folder), _) => format!("set aside in {}; the work tree is at HEAD there again", folder.display()),
        (None, _) => "these would be set aside; do it with: runner recover --yes".to_owned(),
    });
    for tree in &aside.trees {
        let tree = tree.display();
        report::line(&format!(
            "a work tree is kept in {tree}; when nobody needs it: git worktree remove --force {tree}"
        ));
    }
    Ok(0)
}
