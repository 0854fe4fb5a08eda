//! `runner agents`: the agents that can be started by their name, which of them this machine has, and what is known of them.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::Args;
use serde::Serialize;
use serde_json::json;

use crate::agents::{Dialect, Preset, PromptWay, StopSignal};
use crate::config::find_executable;
use crate::coordinator::failure::Failure;
use crate::coordinator::prepare::Host;
use crate::fs;
use crate::report;
use crate::session::{Signals, Tool, run_tool};

use super::host;

/// How long an agent may take to tell its version: some load for seconds.
const PATIENCE: Duration = Duration::from_secs(30);
/// The longest version that is shown, in characters.
const VERSION_SHOWN: usize = 100;

/// How to answer.
#[derive(Debug, Args)]
pub(super) struct AgentsArgs {
    /// Answer with a JSON object
    #[arg(long)]
    json: bool,
}

/// What is known of one agent here.
#[derive(Debug, Serialize)]
struct Known {
    agent: &'static str,
    path: Option<PathBuf>,
    version: Option<String>,
    /// Why there is no version.
    problem: Option<String>,
    dialect: Dialect,
    prompt: &'static str,
    stop_signal: &'static str,
    argv: Vec<String>,
    limits: &'static [&'static str],
}

/// Lists the agents.
pub(super) fn run(args: &AgentsArgs, from: &Host) -> Result<u8, Failure> {
    let signals = Signals::install().map_err(|source| Failure::System { what: "watch for signals", source })?;
    let folder = host::start_folder()?;
    let mut agents = Vec::new();
    for preset in Preset::ALL {
        let (path, version) = match find_executable(preset.name(), &folder, from.variable("PATH")) {
            Ok(path) => (Some(path.clone()), version(&path, from, PATIENCE, &signals)?),
            Err(error) => (None, Err(error.to_string())),
        };
        if let Some(signal) = signals.after(0).first() {
            return Ok(crate::outcome::Stop::Interrupted.exit_code(*signal));
        }
        agents.push(known(preset, path, version));
    }
    if args.json {
        report::json(&json!({ "agents": agents }));
    } else {
        agents.iter().for_each(show);
    }
    Ok(0)
}

fn known(preset: Preset, path: Option<PathBuf>, version: Result<String, String>) -> Known {
    let (version, problem) = match version {
        Ok(version) => (Some(version), None),
        Err(problem) => (None, Some(problem)),
    };
    Known {
        agent: preset.name(),
        path,
        version,
        problem,
        dialect: preset.dialect(),
        prompt: match preset.prompt() {
            PromptWay::Stdin => "stdin",
            PromptWay::Argument => "argument",
        },
        stop_signal: match preset.stop_signal() {
            StopSignal::Terminate => "SIGTERM",
            StopSignal::Interrupt => "SIGINT",
        },
        argv: preset.argv(None, &[]),
        limits: preset.limits(),
    }
}

fn show(known: &Known) {
    let state = match (&known.path, &known.version, &known.problem) {
        (Some(path), Some(version), _) => format!("{version}  ({})", path.display()),
        (Some(path), None, problem) => format!("{}: {}", path.display(), problem.as_deref().unwrap_or_default()),
        (None, ..) => "not found on PATH".to_owned(),
    };
    report::line(&format!("{:<9} {state}", known.agent));
    for limit in known.limits {
        report::line(&format!("          - {limit}"));
    }
}

/// The first line that the program answers to `--version` with; `Err` says why there is none.
///
/// It runs supervised, in a home and a folder for temporary files of its own, without the caller's environment.
fn version(path: &Path, from: &Host, patience: Duration, signals: &Signals) -> Result<Result<String, String>, Failure> {
    let home = fs::temporary_folder(&from.temporary)?;
    let mut env: BTreeMap<OsString, OsString> = ["HOME", "TMPDIR", "XDG_CONFIG_HOME", "XDG_CACHE_HOME"]
        .into_iter()
        .map(|name| (name.into(), home.path().into()))
        .collect();
    // A script finds its interpreter there.
    env.extend(from.variable("PATH").map(|path| (OsString::from("PATH"), path.to_owned())));
    let argv = [path.as_os_str().to_owned(), "--version".into()];
    let tool = Tool { argv: &argv, cwd: home.path(), env: &env, stdin: b"", wall: patience };
    let output = match run_tool(&tool, signals) {
        Ok(output) => output,
        Err(error) => return Ok(Err(error.to_string())),
    };
    fs::remove_temporary(home)?;
    if output.timed_out {
        return Ok(Err(format!("`--version` took longer than {} s", patience.as_secs_f32())));
    }
    if !output.exit.is_success() {
        return Ok(Err(format!("`--version` ended with {}", output.exit)));
    }
    let lines = [output.stdout, output.stderr].concat();
    let lines = String::from_utf8_lossy(&lines);
    let line = lines.lines().map(str::trim).find(|line| !line.is_empty());
    Ok(line.map(|line| line.chars().take(VERSION_SHOWN).collect()).ok_or("`--version` says nothing".to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn host(temporary: &Path) -> Host {
        let environment = BTreeMap::from([("PATH".into(), "/usr/bin:/bin".into()), ("A_KEY".into(), "secret".into())]);
        Host { environment, binary: PathBuf::new(), temporary: temporary.to_owned(), is_root: false }
    }

    /// The program is a link to one that nobody writes: a file that was just written could be "busy" for another thread's
    /// child between fork and exec.
    fn version_of(script: &str, patience: Duration) -> Result<String, String> {
        let folder = tempfile::tempdir().unwrap();
        let (program, temporary) = (folder.path().join("agent"), folder.path().join("tmp"));
        let real = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data/fake_agent.sh");
        std::os::unix::fs::symlink(real, &program).unwrap();
        fs::replace(&folder.path().join("agent.sh"), script.as_bytes()).unwrap();
        fs::make_private_folder(&temporary).unwrap();
        let version = version(&program, &host(&temporary), patience, &Signals::none()).unwrap();
        let left = fs::list(&temporary).unwrap().unwrap_or_default();
        assert!(left.is_empty(), "its home is gone: {left:?}");
        version
    }

    #[test]
    fn a_version_is_asked_for_without_the_callers_environment_in_a_home_of_its_own() {
        let script = "[ \"$1\" = --version ] || exit 9; touch \"$HOME/x\"; echo; echo \"fake 1.2 ${A_KEY-no key} $#\"; echo more";
        assert_eq!(version_of(script, PATIENCE).unwrap(), "fake 1.2 no key 1");
        assert_eq!(version_of("echo 3.4 >&2", PATIENCE).unwrap(), "3.4", "some say it on standard error");
    }

    #[test]
    fn why_there_is_no_version_is_said() {
        assert_eq!(version_of("exit 3", PATIENCE).unwrap_err(), "`--version` ended with exit status 3");
        assert_eq!(version_of("exit 0", PATIENCE).unwrap_err(), "`--version` says nothing");
        let late = version_of("sleep 600 & exec sleep 600", Duration::from_millis(100)).unwrap_err();
        assert_eq!(late, "`--version` took longer than 0.1 s");
    }
}
