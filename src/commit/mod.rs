//! Commits: what one says (`message`, `compose`), and how it is made so that a kill at any instant loses nothing.
//!
//! A commit is made in two steps. [`Repository::prepare`] writes blobs, trees and the commit object: nothing a person sees
//! has changed. [`Repository::finish`] moves the branch and then brings the index up to date; done twice it does the same.
//! Whoever keeps the [`Prepared`] value between the two can finish after a crash. Exactly the paths asked for are committed
//! on top of the parent's tree, whatever is staged.
//!
//! Owns git2: no other room uses it. Runs no program of the repository, unless a filter, a signature or a wanted hook asks
//! for one; then through [`Program`], which the caller supervises.

mod check;
mod compose;
mod content;
mod git;
mod hooks;
mod land;
pub mod linked;
mod message;
mod patch;
mod prepare;
mod program;
mod reading;
mod refusal;
mod staged;
mod stale_lock;
mod tree;
mod upkeep;

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::relpath::RelPath;

pub use check::Head;
pub use compose::{Action, Trailers, Words, compose};
pub use git::{Repository, Surroundings};
pub use land::{Blob, Content, Landing};
pub use message::{AgentMessage, MAX_MESSAGE, MAX_SUBJECT, MIN_SUBJECT, MessageFault, parse, parse_bytes};
pub use patch::Patch;
pub use program::{Call, Program, ProgramOutput, REDIRECTS};
pub use refusal::{CommitError, GitError, LockFile, Refusal};
pub use upkeep::{Unkeepable, found};

/// The id of a commit: 40 lower-case hexadecimal digits.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct CommitId(String);

impl CommitId {
    /// The digits.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    fn oid(&self) -> git2::Oid {
        git2::Oid::from_str(&self.0).expect("a commit id is 40 hexadecimal digits")
    }
}

impl From<git2::Oid> for CommitId {
    fn from(oid: git2::Oid) -> Self {
        Self(oid.to_string())
    }
}

impl TryFrom<String> for CommitId {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        if text.len() == 40 && text.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f')) {
            Ok(Self(text))
        } else {
            Err(format!("{text:?} is no commit id of 40 lower-case hexadecimal digits"))
        }
    }
}

impl From<CommitId> for String {
    fn from(id: CommitId) -> Self {
        id.0
    }
}

impl fmt::Display for CommitId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// A commit to be made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CommitPlan {
    /// Where the branch must be.
    pub parent: CommitId,
    /// The branch that must be checked out, for example `refs/heads/main`.
    pub branch: String,
    /// The whole message.
    pub message: String,
    /// Exactly these paths are taken from the work tree; one that is gone is removed.
    pub paths: Vec<RelPath>,
    /// The commit's time.
    pub at: jiff::Timestamp,
}

/// A commit that exists but that no branch holds yet: what must be kept to finish it after a crash.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[must_use = "a prepared commit is not on the branch before it is finished"]
pub struct Prepared {
    /// The commit.
    pub commit: CommitId,
    /// Where the branch was.
    pub parent: CommitId,
    /// The branch, for example `refs/heads/main`.
    pub branch: String,
    /// The paths it was made from.
    pub paths: Vec<RelPath>,
}

#[cfg(test)]
mod tests;
