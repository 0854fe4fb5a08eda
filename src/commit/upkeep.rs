//! What else is done to a repository: founding one, keeping a commit under a name, bringing files back to HEAD.

use std::collections::BTreeMap;
use std::io::ErrorKind;
use std::path::Path;

use git2::build::CheckoutBuilder;
use git2::{IndexAddOption, ObjectType, RepositoryInitOptions, Tree, TreeWalkMode, TreeWalkResult};
use sha2::{Digest, Sha256};

use super::check::Head;
use super::content::Looker;
use super::git::Repository;
use super::program::{self, Call};
use super::refusal::{CommitError, GitError};
use super::{CommitId, Prepared};
use crate::fs;
use crate::ids::hex;
use crate::relpath::RelPath;

/// Makes `root` a git repository on branch `main` and commits all it holds, under an identity of its own.
pub fn found(root: &Path, message: &str) -> Result<CommitId, GitError> {
    const DOING: &str = "found the git repository";
    let fail = || GitError::new(DOING);
    let mut options = RepositoryInitOptions::new();
    options.initial_head("main").external_template(false);
    let git = git2::Repository::init_opts(root, &options).map_err(fail())?;
    let mut config = git.config().map_err(fail())?;
    for (key, value) in [("user.name", "runner demo"), ("user.email", "demo@example.invalid")] {
        config.set_str(key, value).map_err(fail())?;
    }
    let mut index = git.index().map_err(fail())?;
    index.add_all(["*"], IndexAddOption::DEFAULT, None).map_err(fail())?;
    index.write().map_err(fail())?;
    let tree = index.write_tree().and_then(|oid| git.find_tree(oid)).map_err(fail())?;
    let signature = git.signature().map_err(fail())?;
    let commit = git.commit(Some("HEAD"), &signature, &signature, &format!("{message}\n"), &tree, &[]);
    commit.map(CommitId::from).map_err(fail())
}

/// A path and, where HEAD has a folder, everything it has in it.
fn with_inside(git: &git2::Repository, tree: &Tree<'_>, path: &RelPath) -> Vec<RelPath> {
    let mut all = vec![path.clone()];
    let entry = tree.get_path(path.as_path()).ok();
    let Some(folder) = entry.and_then(|entry| entry.to_object(git).ok()?.into_tree().ok()) else { return all };
    let walked = folder.walk(TreeWalkMode::PreOrder, |above, entry| {
        if entry.kind() == Some(ObjectType::Blob) {
            all.push(RelPath::new([path.as_bytes(), b"/", above.as_bytes(), entry.name_bytes()].concat()));
        }
        TreeWalkResult::Ok
    });
    // A tree that cannot be read to its end fails the checkout too, which says so.
    drop(walked);
    all
}

/// The error and what the system said about it.
fn with_cause(error: &CommitError) -> String {
    let cause = std::error::Error::source(error).map_or_else(String::new, |cause| format!(": {cause}"));
    format!("{error}{cause}")
}

/// A path that no commit can hold.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unkeepable {
    /// The path.
    pub path: RelPath,
    /// The `.git` that makes a folder above it a repository of its own.
    pub repository: Option<RelPath>,
    /// Whether it lies in a submodule, whose files cannot be brought back from here.
    pub in_submodule: bool,
    /// Why, and what to do.
    pub why: String,
}

impl Repository {
    /// What every ref points at, by name; however git stores them (`git-pack-refs(1)` moves them without changing one).
    pub fn refs(&self) -> Result<BTreeMap<Vec<u8>, Vec<u8>>, GitError> {
        const DOING: &str = "list the refs";
        let mut all = BTreeMap::new();
        for reference in self.git.references().map_err(GitError::new(DOING))? {
            let reference = reference.map_err(GitError::new(DOING))?;
            let target = match reference.target() {
                Some(oid) => oid.to_string().into_bytes(),
                None => reference.symbolic_target_bytes().unwrap_or_default().to_owned(),
            };
            all.insert(reference.name_bytes().to_owned(), target);
        }
        Ok(all)
    }

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

    /// What the commit holds outside `state/` and `planning/`, as a digest: two commits with the same have the same files to verify.
    pub fn content_key(&self, commit: &CommitId) -> Result<String, GitError> {
        const DOING: &str = "read the tree of a commit";
        let commit = self.git.find_commit(commit.oid()).map_err(GitError::new(DOING))?;
        let tree = commit.tree().map_err(GitError::new(DOING))?;
        let mut digest = Sha256::new();
        for entry in tree.iter().filter(|entry| !matches!(entry.name_bytes(), b"state" | b"planning")) {
            digest.update(entry.filemode().to_be_bytes());
            digest.update(entry.id().as_bytes());
            digest.update(entry.name_bytes());
            digest.update([0]);
        }
        Ok(hex(&digest.finalize()))
    }

    /// Brings the work tree back to HEAD at these paths: what HEAD does not have is removed.
    pub fn restore(&mut self, paths: &[RelPath]) -> Result<(), CommitError> {
        const DOING: &str = "restore files from HEAD";
        let tree = self.git.head().and_then(|head| head.peel_to_tree()).map_err(GitError::new(DOING))?;
        let mut checkout = CheckoutBuilder::new();
        checkout.force().disable_pathspec_match(true).disable_filters(false);
        let mut wanted = false;
        let mut filtered = Vec::new();
        let mut paths: Vec<RelPath> = paths.iter().flat_map(|path| with_inside(&self.git, &tree, path)).collect();
        // A link in the place of a folder goes before what HEAD has inside the folder.
        paths.sort();
        paths.dedup();
        for path in &paths {
            let file = path.under(&self.root);
            if fs::is_behind_link(&file, &self.root) {
                return Err(CommitError::BadPath { path: path.clone() });
            }
            let is_folder = file.symlink_metadata().is_ok_and(|metadata| metadata.is_dir());
            let at_head = tree.get_path(path.as_path()).is_ok_and(|entry| entry.filemode() != 0o040_000);
            if is_folder {
                fs::remove_folder(&file)?;
            } else if !at_head {
                fs::remove(&file)?;
            }
            if at_head && self.needs_program(path)? {
                filtered.push(path.clone());
            } else if at_head {
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
        self.restore_by_program(&filtered)
    }

    /// Restores files that a filter converts; libgit2 runs none.
    pub(super) fn restore_by_program(&mut self, paths: &[RelPath]) -> Result<(), CommitError> {
        if paths.is_empty() {
            return Ok(());
        }
        let arguments =
            ["--literal-pathspecs", "checkout", "-q", "HEAD", "--pathspec-from-file=-", "--pathspec-file-nul"];
        let argv = program::git(&arguments.map(AsRef::as_ref));
        let stdin = paths.iter().flat_map(|path| [path.as_bytes(), b"\0"].concat()).collect();
        let call = Call { argv, cwd: &self.root, env: program::environment(&self.surroundings.env), stdin };
        program::run(self.program(), "restoring filtered files with `git checkout`", &call)?;
        self.refresh_index()?;
        Ok(())
    }

    /// Those of `paths` that git cannot keep: inside a submodule or another repository, a special file, an impossible name.
    pub fn unkeepable(&self, paths: &[RelPath]) -> Vec<Unkeepable> {
        let mut looker = Looker::new(self);
        let refused = |path: &RelPath| {
            let error = looker.look(path).err()?;
            let (repository, in_submodule) = match &error {
                CommitError::NestedRepository { repository, .. } => (Some(repository.child(b".git")), false),
                CommitError::Submodule { .. } => (None, true),
                CommitError::File(error) if error.kind() == ErrorKind::PermissionDenied => (None, false),
                CommitError::SpecialFile { .. } | CommitError::TooLarge { .. } | CommitError::BadPath { .. } => {
                    (None, false)
                }
                _ => return None,
            };
            let why = with_cause(&error);
            Some(Unkeepable { path: path.clone(), repository, in_submodule, why })
        };
        paths.iter().filter_map(refused).collect()
    }
}
