//! What the process was started with: environment, folder, binary.

#![expect(clippy::disallowed_methods, reason = "this is the door for the environment")]

use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use crate::config::Config;
use crate::coordinator::failure::Failure;
use crate::coordinator::prepare::Host;
use crate::project::Project;

use super::Place;

/// The process's surroundings.
pub(super) fn host() -> Host {
    Host {
        environment: std::env::vars_os().collect(),
        binary: std::env::current_exe().unwrap_or_else(|_| PathBuf::from("runner")),
        temporary: std::env::temp_dir(),
        is_root: rustix::process::geteuid().is_root(),
    }
}

/// The folder the process was started in.
pub(super) fn start_folder() -> Result<PathBuf, Failure> {
    std::env::current_dir().map_err(|source| Failure::System { what: "find the folder runner was started in", source })
}

/// Whether the process runs inside a session of a coordinator.
pub(super) fn is_in_session(host: &Host) -> bool {
    host.variable("RUNNER_TOKEN").is_some() && host.variable("RUNNER_AGENT_ID").is_some()
}

/// The project that was asked for; `inherited` is a root that comes from a session's environment.
pub(super) fn project(place: &Place, inherited: Option<&OsStr>) -> Result<Project, Failure> {
    let root = match (&place.root, inherited) {
        (Some(root), _) => root.clone(),
        (None, Some(root)) => PathBuf::from(root),
        (None, None) => Project::discover(&start_folder()?)?,
    };
    Ok(Project::open(&root)?)
}

/// Where the configuration lies: a relative path is taken from the root.
pub(super) fn config_path(place: &Place, project: &Project) -> PathBuf {
    project.root().join(&place.config)
}

/// The configuration, or the defaults if there is no such file.
pub(super) fn config_or_default(path: &Path) -> Result<Config, Failure> {
    if path.exists() { Ok(Config::load(path)?) } else { Ok(Config::default()) }
}

/// Arms the place at which a test wants this process to die, or to get another signal: `PLACE#NTH` or `PLACE#NTH#SIGNAL`.
#[cfg(feature = "fault-injection")]
pub(super) fn arm_fault(host: &Host) {
    let text = host.variable("RUNNER_FAULT").and_then(OsStr::to_str);
    let mut parts = text.into_iter().flat_map(|text| text.split('#'));
    let (name, nth, signal) = (parts.next(), parts.next(), parts.next());
    if let (Some(name), Some(Ok(nth))) = (name, nth.map(str::parse)) {
        crate::fault::arm(name, nth, signal.and_then(|signal| signal.parse().ok()));
    }
}

/// Without the feature nothing can be armed.
#[cfg(not(feature = "fault-injection"))]
pub(super) fn arm_fault(_host: &Host) {}
