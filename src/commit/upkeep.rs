//! What else is done to a repository: founding one, keeping a commit under a name, bringing files back to HEAD.

use std::path::Path;

use git2::build::CheckoutBuilder;
use git2::{IndexAddOption, RepositoryInitOptions};

use super::check::Head;
use super::git::Repository;
use super::refusal::{CommitError, GitError};
use super::{CommitId, Prepared};
use crate::fs;
use crate::relpath::RelPath;

/// Makes `root` a git repository on branch `main` and commits all it holds; where git knows no identity, a local one is set.
pub fn found(root: &Path, message: &str) -> Result<CommitId, GitError> {
    const DOING: &str = "found the git repository";
    let fail = || GitError::new(DOING);
    let mut options = RepositoryInitOptions::new();
    options.initial_head("main").external_template(false);
    let git = git2::Repository::init_opts(root, &options).map_err(fail())?;
    let mut config = git.config().map_err(fail())?;
    for (key, value) in [("user.name", "runner demo"), ("user.email", "demo@example.invalid")] {
        if config.get_string(key).is_err() {
            config.set_str(key, value).map_err(fail())?;
        }
    }
    let mut index = git.index().map_err(fail())?;
    index.add_all(["*"], IndexAddOption::DEFAULT, None).map_err(fail())?;
    index.write().map_err(fail())?;
    let tree = index.write_tree().and_then(|oid| git.find_tree(oid)).map_err(fail())?;
    let signature = git.signature().map_err(fail())?;
    let commit = git.commit(Some("HEAD"), &signature, &signature, &format!("{message}\n"), &tree, &[]);
    commit.map(CommitId::from).map_err(fail())
}

impl Repository {
    /// Keeps `commit` under `refs/runner/kept/<name>`, so that nothing collects it.
    pub fn keep(&self, name: &str, commit: &CommitId) -> Result<(), GitError> {
        let reference = format!("refs/runner/kept/{name}");
        self.git
            .reference(&reference, commit.oid(), true, "runner: keep what a session committed")
            .map(drop)
            .map_err(GitError::new("keep a commit under refs/runner/kept"))
    }

    /// Whether git may convert contents on their way in or out.
    pub fn filters(&self) -> bool {
        let converts = self.config.get_string("core.autocrlf").is_ok_and(|value| value != "false");
        converts || self.config.get_path("core.attributesFile").is_ok()
    }

    /// Whether `commit` is the one that was intended on top of `parent` with this message; hooks may have changed its words,
    /// but not the trailers.
    pub fn is_commit_of(&self, commit: &CommitId, parent: &CommitId, message: &str) -> Result<bool, GitError> {
        let commit = self.git.find_commit(commit.oid()).map_err(GitError::new("read the commit at HEAD"))?;
        let same_parent = commit.parent_ids().eq([parent.oid()]);
        let found = String::from_utf8_lossy(commit.message_bytes());
        let mut trailers =
            message.lines().filter(|line| ["Task: ", "Agent: ", "Action: "].iter().any(|name| line.starts_with(name)));
        Ok(same_parent && trailers.all(|trailer| found.lines().any(|line| line == trailer)))
    }

    /// Brings the index up to date after a crash between the branch and the index.
    pub fn complete_index(
        &mut self,
        head: Head,
        parent: &CommitId,
        paths: Vec<RelPath>,
    ) -> Result<Prepared, CommitError> {
        let prepared = Prepared { commit: head.commit, parent: parent.clone(), branch: head.branch, paths };
        self.finish(&prepared)?;
        Ok(prepared)
    }

    /// Brings the work tree back to HEAD at these paths: what HEAD does not have is removed.
    pub fn restore(&mut self, paths: &[RelPath]) -> Result<(), CommitError> {
        const DOING: &str = "restore files from HEAD";
        let tree = self.git.head().and_then(|head| head.peel_to_tree()).map_err(GitError::new(DOING))?;
        let mut checkout = CheckoutBuilder::new();
        checkout.force().disable_pathspec_match(true).disable_filters(false);
        let mut wanted = false;
        for path in paths {
            let file = path.under(&self.root);
            let is_folder = file.symlink_metadata().is_ok_and(|metadata| metadata.is_dir());
            let at_head = tree.get_path(path.as_path()).is_ok_and(|entry| entry.filemode() != 0o040_000);
            if is_folder {
                fs::remove_folder(&file)?;
            } else if !at_head {
                fs::remove(&file)?;
            }
            if at_head {
                checkout.path(path.as_bytes());
                wanted = true;
            } else {
                fs::remove_empty_folders(&file, &self.root);
            }
        }
        drop(tree);
        if wanted {
            self.git.checkout_head(Some(&mut checkout)).map_err(GitError::new(DOING))?;
        }
        Ok(())
    }
}
