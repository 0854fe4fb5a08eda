//! A new repository for a project that has none: the demonstration's, made without the `git` program.
//!
//! Never touches a folder that is a repository already.

use std::path::Path;

use git2::{IndexAddOption, RepositoryInitOptions, Signature};

use super::CommitId;
use super::refusal::GitError;

/// The name and address that a new repository's own configuration gives to whoever commits there.
#[derive(Debug, Clone, Copy)]
pub struct Identity<'a> {
    /// `user.name`.
    pub name: &'a str,
    /// `user.email`.
    pub email: &'a str,
}

/// Makes `root` a git repository on branch `main`, with one commit of everything there that is not ignored.
///
/// No template is copied, so it has no hooks; the identity is written to its configuration.
pub fn create(root: &Path, who: Identity<'_>, message: &str, at: jiff::Timestamp) -> Result<CommitId, GitError> {
    let mut options = RepositoryInitOptions::new();
    options.initial_head("main").external_template(false).no_reinit(true).mkdir(false).mkpath(false);
    let git = git2::Repository::init_opts(root, &options).map_err(GitError::new("make a git repository"))?;
    first_commit(&git, who, message, at).map_err(GitError::new("make the first commit"))
}

fn first_commit(
    git: &git2::Repository,
    who: Identity<'_>,
    message: &str,
    at: jiff::Timestamp,
) -> Result<CommitId, git2::Error> {
    let mut config = git.config()?.open_level(git2::ConfigLevel::Local)?;
    config.set_str("user.name", who.name)?;
    config.set_str("user.email", who.email)?;
    let mut index = git.index()?;
    index.add_all(["*"], IndexAddOption::DEFAULT, None)?;
    let tree = git.find_tree(index.write_tree()?)?;
    let signature = Signature::new(who.name, who.email, &git2::Time::new(at.as_second(), 0))?;
    let commit = git.commit(Some("HEAD"), &signature, &signature, message, &tree, &[])?;
    index.write()?;
    Ok(commit.into())
}
