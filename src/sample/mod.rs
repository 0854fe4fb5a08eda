//! The sample project that `runner demo` runs, and the skeleton that `runner init` lays into a person's repository.
//!
//! Owns their texts and which of them goes where. Never overwrites a file that is there, and never touches git.

#[cfg(test)]
mod agent_tests;
mod demo;
mod skeleton;

use std::io;
use std::path::{Path, PathBuf};

use crate::fs::{self, FileError};

pub use demo::lay_down_demo;
pub use skeleton::{How, Laid, lay_down_skeleton};

/// The lines of `.gitignore` a project needs.
const IGNORE_LINES: [&str; 4] = ["state/runs/", "state/commit_messages/", "runner.local.json", ".runner.lock"];

/// The schema marker of an empty state.
const STATE: &str = include_str!("../../state/state.json");

/// The configuration a person copies to `runner.local.json` and completes.
const EXAMPLE_CONFIG: &str = include_str!("../../runner.example.json");

/// Why the files could not be laid down.
#[derive(Debug, thiserror::Error)]
pub enum SampleError {
    /// The demo wants a folder of its own.
    #[error("{} is not empty; name a folder that is empty or does not exist yet", path.display())]
    NotEmpty {
        /// The folder that was asked for.
        path: PathBuf,
    },
    /// `.gitignore` is a link, which git does not follow.
    #[error("{} is a link, which git does not follow; replace it with a regular file and run `runner init` again", path.display())]
    LinkedIgnoreFile {
        /// The link.
        path: PathBuf,
    },
    /// A place could not be looked at.
    #[error("cannot look at {}; check its permissions and run the command again", path.display())]
    Look {
        /// The place.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// A file could not be read or written.
    #[error(transparent)]
    File(#[from] FileError),
}

/// Whether anything, be it a link that leads nowhere, stands at `path`.
fn is_there(path: &Path) -> Result<bool, SampleError> {
    match path.symlink_metadata() {
        Ok(_) => Ok(true),
        Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(false),
        Err(source) => Err(SampleError::Look { path: path.to_owned(), source }),
    }
}

/// Writes `files`, named from `root`.
fn write_all(root: &Path, files: &[(&str, &str)]) -> Result<(), SampleError> {
    for (name, text) in files {
        fs::replace(&root.join(name), text.as_bytes())?;
    }
    Ok(())
}
