//! Why the commit path says no: a preflight refusal, a commit that could not be made, a failure of git itself.
//!
//! Owns the wording; each message names what was found and what to do.

use std::fmt;
use std::path::PathBuf;

use super::CommitId;
use crate::fs::FileError;
use crate::relpath::RelPath;

/// An operation on the repository that failed below us.
#[derive(Debug, thiserror::Error)]
#[error("cannot {action}; `git fsck` and `git status` in the project say more")]
pub struct GitError {
    action: &'static str,
    source: git2::Error,
}

impl GitError {
    pub(super) fn new(action: &'static str) -> impl FnOnce(git2::Error) -> Self {
        move |source| Self { action, source }
    }

    /// Whether another process holds the lock file that was needed.
    pub fn is_locked(&self) -> bool {
        self.source.code() == git2::ErrorCode::Locked
    }
}

/// A repository in which no commit can be made, found before anything is claimed.
#[derive(Debug, thiserror::Error)]
pub enum Refusal {
    /// The root is no work tree's top.
    #[error("{} is not the top of a git work tree; run `git init` there, or set `git_commits` to false", root.display())]
    NoRepository {
        /// The project's root.
        root: PathBuf,
    },
    /// The work tree's top is elsewhere.
    #[error("the git work tree's top is {}, not {}; name that folder with --root", top.display(), root.display())]
    NotTheTop {
        /// The project's root.
        root: PathBuf,
        /// The work tree's top.
        top: PathBuf,
    },
    /// A repository without a work tree.
    #[error("{} is a bare git repository; use a clone with a work tree", root.display())]
    Bare {
        /// The project's root.
        root: PathBuf,
    },
    /// The folder belongs to somebody else.
    #[error(
        "git does not trust {} because another user owns it; run `git config --global --add safe.directory {}`",
        root.display(),
        root.display()
    )]
    ForeignOwner {
        /// The project's root.
        root: PathBuf,
    },
    /// A format that libgit2 cannot write.
    #[error("the repository uses {what}, which this program cannot write; {advice}")]
    Format {
        /// The format, by git's name for it.
        what: String,
        /// What to do.
        advice: &'static str,
    },
    /// No branch is checked out.
    #[error("HEAD is detached at {commit}; check out a branch with `git switch <branch>`")]
    Detached {
        /// Where HEAD is.
        commit: CommitId,
    },
    /// The branch has no commit yet.
    #[error("branch {branch} has no commit yet; make the first one with `git add -A && git commit`")]
    Unborn {
        /// The branch.
        branch: String,
    },
    /// The branch name is no UTF-8.
    #[error("the name of the checked-out branch is not UTF-8: {shown}; rename it with `git branch -m <name>`")]
    BranchName {
        /// The name, escaped.
        shown: String,
    },
    /// Somebody is in the middle of something.
    #[error("a {operation} is in progress; finish it or run `{abort}`")]
    InProgress {
        /// For example `merge`.
        operation: &'static str,
        /// The command that ends it.
        abort: &'static str,
    },
    /// Conflicts in the index.
    #[error("{} not merged: {}; resolve the conflicts and commit", are(paths.len()), listed(paths))]
    Unmerged {
        /// The paths in conflict.
        paths: Vec<RelPath>,
    },
    /// Nobody to name as author.
    #[error(
        "git does not know who commits: {missing} is not set; run `git config user.name <name>` and `git config user.email <address>`"
    )]
    NoIdentity {
        /// The missing setting.
        missing: &'static str,
    },
    /// A lock file is in the way.
    #[error("{lock}; {advice}")]
    LockFile {
        /// The file, its age and its holder.
        lock: LockFile,
        /// What to do.
        advice: &'static str,
    },
    /// The `git` program is needed and does not work.
    #[error("{need}, but `git --version` failed: {reason}; install git, or turn that off")]
    NoProgram {
        /// What needs the program.
        need: &'static str,
        /// What went wrong.
        reason: String,
    },
    /// An object or a branch could not be made durable.
    #[error("cannot sync {}; check the disk, the next start tries again", path.display())]
    NotDurable {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: std::io::Error,
    },
    /// Git's own failure.
    #[error(transparent)]
    Git(#[from] GitError),
    /// A file could not be read.
    #[error(transparent)]
    File(#[from] FileError),
}

/// A lock file that somebody left or holds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LockFile {
    /// The file.
    pub path: PathBuf,
    /// Its age in seconds, if its time stamp can be read.
    pub age_seconds: Option<i64>,
    /// The processes that have it open, as `name (pid)`; those of other users cannot be seen.
    pub holders: Vec<String>,
}

impl fmt::Display for LockFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "git's lock file {} ", self.path.display())?;
        match self.age_seconds {
            Some(age) => write!(f, "is {} old ", duration(age))?,
            None => f.write_str("is there ")?,
        }
        if self.holders.is_empty() {
            f.write_str("and no process that can be seen has it open")
        } else {
            write!(f, "and is held by {}", self.holders.join(", "))
        }
    }
}

/// A commit that was not made, or not completely.
#[derive(Debug, thiserror::Error)]
pub enum CommitError {
    /// The branch is not where it was.
    #[error("HEAD moved from {expected} to {found} by other hands; look at `git log`, then start again")]
    HeadMoved {
        /// Where it was to be.
        expected: CommitId,
        /// Where it is.
        found: CommitId,
    },
    /// A person's edit is where a session's work was to go.
    #[error(
        "you have changed {} in the work tree, and the session's version was to go there, so nothing was moved",
        listed(paths)
    )]
    Overwrites {
        /// The paths.
        paths: Vec<RelPath>,
    },
    /// The branch got another version of a file than the one the session started from.
    #[error("the branch has got another version of {} since the session began, so nothing was moved", listed(paths))]
    Diverged {
        /// The paths.
        paths: Vec<RelPath>,
    },
    /// Another branch is checked out.
    #[error("branch {expected} was checked out, now it is {found}; run `git switch {}`", short(expected))]
    BranchSwitched {
        /// The branch that was to move.
        expected: String,
        /// What HEAD names now.
        found: String,
    },
    /// A path inside a submodule.
    #[error("{path} lies in the submodule {submodule}; commit there by hand, a plan cannot")]
    Submodule {
        /// The path.
        path: RelPath,
        /// The submodule's folder.
        submodule: RelPath,
    },
    /// A path inside another repository.
    #[error("{path} lies in the git repository {repository}/; remove its .git, or have git ignore the folder")]
    NestedRepository {
        /// The path.
        path: RelPath,
        /// The folder with the `.git`.
        repository: RelPath,
    },
    /// Neither file nor link.
    #[error("{path} is neither a file nor a link; git cannot keep it: remove it, or have git ignore it")]
    SpecialFile {
        /// The path.
        path: RelPath,
    },
    /// A file that is too large for a commit.
    #[error(
        "{path} is larger than {} MiB, the most that is committed without a filter such as git-lfs; remove it, or have git \
         ignore it",
        crate::fs::LARGEST_READ >> 20
    )]
    TooLarge {
        /// The path.
        path: RelPath,
    },
    /// A path that git does not allow.
    #[error("git cannot keep the path {path}; rename it")]
    BadPath {
        /// The path.
        path: RelPath,
    },
    /// The `git` program could not be run or failed.
    #[error("{purpose} failed; the work is kept: mend that and start again\n{reason}")]
    Program {
        /// For example `git hash-object` or `the pre-commit hook`.
        purpose: String,
        /// How it ended and the end of its output.
        reason: String,
    },
    /// A hook changed what was to be committed.
    #[error(
        "the {hook} hook changed {}; nothing was committed: have the hook check only, or set `git_hooks` to off",
        listed(paths)
    )]
    HookChanged {
        /// The hook.
        hook: &'static str,
        /// What it changed.
        paths: Vec<RelPath>,
    },
    /// The repository cannot take a commit.
    #[error(transparent)]
    Refused(#[from] Refusal),
    /// Git's own failure.
    #[error(transparent)]
    Git(#[from] GitError),
    /// A file could not be read.
    #[error(transparent)]
    File(#[from] FileError),
}

/// The first names of a list and how many more there are.
fn listed(paths: &[RelPath]) -> String {
    const SHOWN: usize = 10;
    let text = paths.iter().take(SHOWN).map(ToString::to_string).collect::<Vec<_>>().join(", ");
    match paths.len().saturating_sub(SHOWN) {
        0 => text,
        more => format!("{text} and {more} more"),
    }
}

fn are(count: usize) -> String {
    if count == 1 { "1 path is".to_owned() } else { format!("{count} paths are") }
}

fn short(branch: &str) -> &str {
    branch.strip_prefix("refs/heads/").unwrap_or(branch)
}

fn duration(seconds: i64) -> String {
    match seconds {
        ..120 => format!("{} s", seconds.max(0)),
        120..7200 => format!("{} min", seconds / 60),
        7200..172_800 => format!("{} h", seconds / 3600),
        _ => format!("{} days", seconds / 86_400),
    }
}
