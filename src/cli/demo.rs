//! `runner demo`: the sample project, made a git repository and run to its end while the person watches.

use std::path::PathBuf;

use clap::Args;

use crate::commit;
use crate::coordinator::failure::Failure;
use crate::coordinator::prepare::Host;
use crate::{fs, report, sample};

use super::{Place, host, run};

/// Where to lay the sample down.
#[derive(Debug, Args)]
pub(super) struct DemoArgs {
    /// A folder that does not exist or is empty; a fresh one in the temporary folder if not given
    dir: Option<PathBuf>,
}

/// Lays the sample down and runs it.
pub(super) fn run(args: &DemoArgs, from: &Host) -> Result<u8, Failure> {
    if host::is_in_session(from) {
        return Err(Failure::Nested);
    }
    let dir = match &args.dir {
        Some(dir) => dir.clone(),
        None => fs::temporary_folder(&from.temporary)?.keep(),
    };
    sample::lay_down_demo(&dir)?;
    commit::found(&dir, "Lay down the sample project")?;
    report::note(&format!(
        "The sample project lies in {}. A script plays every agent; each session below becomes a commit.\n",
        dir.display()
    ));
    let place = Place { root: Some(dir.clone()), config: PathBuf::from(super::DEFAULT_CONFIG) };
    let code = run::run(&place, &run::RunArgs::default(), from)?;
    let shown = dir.display();
    report::note(&format!(
        "\nLook at what came of it:\n  cd {shown}\n  \
         git log --stat                          one commit for each session\n  \
         sh tally/report.sh tally/example.txt    the program that was made\n  \
         cat planning/ROADMAP.md                 where the plan stands\n  \
         ls state/runs/*/1                       prompt, output and record of each session\n\
         Begin a plan of your own with `runner init` in a repository of yours."
    ));
    Ok(code)
}
