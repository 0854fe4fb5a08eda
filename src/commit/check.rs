//! The preflight: may a commit be made in this repository at all?
//!
//! Owns the order of the questions. Only reads; says nothing about files that differ (that is `workspace`'s to see).

use std::ffi::OsStr;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use git2::{ErrorCode, RepositoryState};

use super::CommitId;
use super::git::Repository;
use super::program::{self, Call};
use super::refusal::{GitError, LockFile, Refusal};
use crate::relpath::RelPath;

/// The branch that is checked out and the commit it is at.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Head {
    /// The commit.
    pub commit: CommitId,
    /// The branch, for example `refs/heads/main`.
    pub branch: String,
}

impl Repository {
    /// Where HEAD is, whatever else may stand in the way of a commit.
    pub fn place(&self) -> Result<Head, Refusal> {
        let branch = self.branch()?;
        let commit = match self.git.head().and_then(|head| head.peel_to_commit()) {
            Ok(commit) => commit.id().into(),
            Err(error) if error.code() == ErrorCode::UnbornBranch => {
                return Err(Refusal::Unborn { branch: short(&branch).to_owned() });
            }
            Err(error) => return Err(GitError::new("read the commit at HEAD")(error).into()),
        };
        Ok(Head { commit, branch })
    }

    /// Whether a commit can be made here; `now` is for the age of a lock file.
    pub fn check(&self, now: jiff::Timestamp) -> Result<Head, Refusal> {
        self.refuse_operation()?;
        let head = self.place()?;
        self.signatures(now)?;
        self.refuse_conflicts()?;
        self.refuse_lock_files(&head.branch, now)?;
        self.demand_program()?;
        Ok(head)
    }

    /// A merge and its like, which a commit of ours would end without anybody having asked.
    fn refuse_operation(&self) -> Result<(), Refusal> {
        let (operation, abort) = match self.git.state() {
            RepositoryState::Clean => return Ok(()),
            RepositoryState::Merge => ("merge", "git merge --abort"),
            RepositoryState::Revert | RepositoryState::RevertSequence => ("revert", "git revert --abort"),
            RepositoryState::CherryPick | RepositoryState::CherryPickSequence => {
                ("cherry-pick", "git cherry-pick --abort")
            }
            RepositoryState::Bisect => ("bisect", "git bisect reset"),
            RepositoryState::Rebase | RepositoryState::RebaseInteractive | RepositoryState::RebaseMerge => {
                ("rebase", "git rebase --abort")
            }
            RepositoryState::ApplyMailbox | RepositoryState::ApplyMailboxOrRebase => ("git am", "git am --abort"),
        };
        Err(Refusal::InProgress { operation, abort })
    }

    fn refuse_conflicts(&self) -> Result<(), Refusal> {
        if !self.index.has_conflicts() {
            return Ok(());
        }
        let conflicts = self.index.conflicts().map_err(GitError::new("list the conflicts in git's index"))?;
        let mut paths: Vec<RelPath> = conflicts
            .filter_map(Result::ok)
            .filter_map(|conflict| conflict.our.or(conflict.their).or(conflict.ancestor))
            .map(|entry| RelPath::new(entry.path))
            .collect();
        paths.dedup();
        Err(Refusal::Unmerged { paths })
    }

    /// The lock files that would stop a commit half way.
    fn refuse_lock_files(&self, branch: &str, now: jiff::Timestamp) -> Result<(), Refusal> {
        let own = self.git.path();
        for path in [own.join("index.lock"), own.join("HEAD.lock"), self.git.commondir().join(format!("{branch}.lock"))]
        {
            if let Some(lock) = look_at_lock(&path, Some(now)) {
                let advice = if lock.holders.is_empty() {
                    "if no git command is running, remove the file and start again"
                } else {
                    "wait for that command to end, then start again"
                };
                return Err(Refusal::LockFile { lock, advice });
            }
        }
        Ok(())
    }

    /// Signing cannot be done without the `git` program; filters are seen only when a path has one.
    fn demand_program(&self) -> Result<(), Refusal> {
        const NEED: &str = "commit.gpgSign is on";
        if !self.signs() {
            return Ok(());
        }
        let argv = program::git(&[OsStr::new("--version")]);
        let env = program::environment(&self.surroundings.env);
        let call = Call { argv, cwd: &self.root, env, stdin: Vec::new() };
        match self.program().run(&call) {
            Ok(output) if output.success => Ok(()),
            Ok(output) => Err(Refusal::NoProgram { need: NEED, reason: output.ended }),
            Err(reason) => Err(Refusal::NoProgram { need: NEED, reason }),
        }
    }
}

fn short(branch: &str) -> &str {
    branch.strip_prefix("refs/heads/").unwrap_or(branch)
}

/// A lock file that is there, with its age and whoever has it open.
pub(super) fn look_at_lock(path: &Path, now: Option<jiff::Timestamp>) -> Option<LockFile> {
    let metadata = path.symlink_metadata().ok()?;
    let age_seconds = now.map(|now| now.as_second().saturating_sub(metadata.mtime()).max(0));
    Some(LockFile { path: path.to_owned(), age_seconds, holders: holders(&metadata) })
}

/// The processes that have a file open, as far as `/proc` shows them to this user (`proc_pid_fd(5)`).
fn holders(file: &std::fs::Metadata) -> Vec<String> {
    let Ok(Some(processes)) = crate::fs::list(Path::new("/proc")) else { return Vec::new() };
    let is_number =
        |path: &Path| path.file_name().is_some_and(|name| name.as_encoded_bytes().iter().all(u8::is_ascii_digit));
    processes
        .iter()
        .filter(|process| is_number(process))
        .filter(|process| {
            let open = crate::fs::list(&process.join("fd")).ok().flatten().unwrap_or_default();
            let is_it = |other: std::fs::Metadata| (other.dev(), other.ino()) == (file.dev(), file.ino());
            open.iter().any(|descriptor| descriptor.metadata().is_ok_and(is_it))
        })
        .map(|process| {
            let name = crate::fs::read(&process.join("comm")).unwrap_or_default();
            let pid = process.file_name().unwrap_or_default().to_string_lossy().into_owned();
            format!("{} ({pid})", String::from_utf8_lossy(&name).trim())
        })
        .collect()
}
