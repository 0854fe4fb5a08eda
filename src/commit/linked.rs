//! Linked work trees (`git-worktree(1)`): made, recognised, looked at, and brought to a commit.
//!
//! HEAD of such a tree is detached: it takes no branch, so that nobody's checkout is in the way and nothing that is committed
//! there moves a branch. Bringing it to a commit never discards what neither that commit nor its own has.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use git2::build::CheckoutBuilder;
use git2::{Oid, Status, StatusOptions, StatusShow, Tree};

use super::CommitId;
use super::git::Repository;
use super::refusal::{CommitError, GitError};
use crate::fs::{self, FileError};
use crate::relpath::RelPath;

/// The file in a linked work tree's own git folder which says that it was made to the end.
const READY: &str = "runner-ready";

/// A linked work tree's own git folder, found by what the shared folder says of it, whatever the tree itself says.
pub fn own_folder_of(common: &Path, root: &Path) -> Result<Option<PathBuf>, FileError> {
    let wanted = root.join(".git");
    for own in fs::list(&common.join("worktrees"))?.unwrap_or_default() {
        let text = fs::read_if_present(&own.join("gitdir"))?.unwrap_or_default();
        if Path::new(String::from_utf8_lossy(&text).trim()) == wanted {
            return Ok(Some(own));
        }
    }
    Ok(None)
}

/// Whether tree and git folder still point at each other.
pub fn is_linked(common: &Path, root: &Path, own: &Path) -> bool {
    let says = |file: &Path, text: &str| {
        fs::read_if_present(file).ok().flatten().is_some_and(|found| String::from_utf8_lossy(&found).trim() == text)
    };
    let shared = fs::read_if_present(&own.join("commondir")).ok().flatten().unwrap_or_default();
    let shared = own.join(String::from_utf8_lossy(&shared).trim());
    says(&root.join(".git"), &format!("gitdir: {}", own.display()))
        && says(&own.join("gitdir"), &root.join(".git").display().to_string())
        && shared.canonicalize().ok() == common.canonicalize().ok()
}

/// Makes the two point at each other, where the tree lies now.
pub fn link(root: &Path, own: &Path) -> Result<(), FileError> {
    fs::replace(&own.join("gitdir"), format!("{}\n", root.join(".git").display()).as_bytes())?;
    fs::replace(&root.join(".git"), format!("gitdir: {}\n", own.display()).as_bytes())
}

/// Lets git find a work tree that was moved; a link or folder that a session put in the place of `.git` stays as it is.
pub fn relink(root: &Path, own: &Path) -> Result<(), FileError> {
    let pointer = root.join(".git");
    if pointer.symlink_metadata().is_ok_and(|metadata| metadata.is_file()) || pointer.symlink_metadata().is_err() {
        return link(root, own);
    }
    Ok(())
}

/// Says that the work tree was made to the end.
pub fn mark_ready(own: &Path) -> Result<(), FileError> {
    fs::replace(&own.join(READY), b"")
}

/// Whether the work tree was made to the end: in one that was not, nobody has worked yet.
pub fn is_ready(own: &Path) -> bool {
    own.join(READY).is_file()
}

impl Repository {
    /// Founds a linked work tree at `root`, which is made: no file is checked out yet. Gives its own git folder.
    pub fn found_tree(&self, root: &Path, commit: &CommitId) -> Result<PathBuf, FileError> {
        let folder = self.git.commondir().canonicalize().unwrap_or_else(|_| self.git.commondir().to_owned());
        let folder = folder.join("worktrees");
        let taken: BTreeSet<PathBuf> = fs::list(&folder)?.unwrap_or_default().into_iter().collect();
        let names = (1_u32..).map(|number| folder.join(format!("runner-{number}")));
        let own = names.into_iter().find(|own| !taken.contains(own)).unwrap_or(folder);
        fs::replace(&own.join("commondir"), b"../..\n")?;
        fs::replace(&own.join("HEAD"), format!("{commit}\n").as_bytes())?;
        fs::make_private_folder(root)?;
        link(root, &own)?;
        crate::fault::point("tree:founded");
        Ok(own)
    }

    /// Where HEAD of this work tree is; none if it names a branch, which no session's work tree does.
    pub fn detached_head(&self) -> Result<Option<CommitId>, GitError> {
        if !self.git.head_detached().map_err(GitError::new("read HEAD"))? {
            return Ok(None);
        }
        self.head().map(Some)
    }

    /// Whether git has this path, or something below it.
    pub fn tracks(&self, path: &RelPath) -> bool {
        let path = path.to_string();
        self.index.iter().any(|entry| RelPath::new(entry.path).is_in(&path))
    }

    /// Lock files of git that lie in this work tree's own git folder.
    pub fn own_lock_files(&self) -> Vec<PathBuf> {
        let own = self.git.path();
        ["index.lock", "HEAD.lock", "config.worktree.lock"]
            .map(|name| own.join(name))
            .into_iter()
            .filter(|lock| lock.symlink_metadata().is_ok())
            .collect()
    }

    /// Everything in the work tree that is not as in its own commit: changed, gone, staged, or new and not ignored.
    pub fn differing_everywhere(&self, except: &[RelPath]) -> Result<Vec<RelPath>, CommitError> {
        let mut options = StatusOptions::new();
        options.show(StatusShow::IndexAndWorkdir).include_untracked(true).recurse_untracked_dirs(true);
        let statuses =
            self.git.statuses(Some(&mut options)).map_err(GitError::new("compare a work tree with its commit"))?;
        let (mut certain, mut doubtful) = (Vec::new(), Vec::new());
        for entry in statuses.iter() {
            let path = entry.path_bytes();
            let path = RelPath::new(path.strip_suffix(b"/").unwrap_or(path));
            if except.iter().any(|except| path.is_in(&except.to_string())) {
                continue;
            }
            // libgit2 compares the bytes; whether a filter takes the difference out is asked apart.
            if entry.status() == Status::WT_MODIFIED { doubtful.push(path) } else { certain.push(path) }
        }
        if !doubtful.is_empty() {
            certain.extend(self.modified(&doubtful)?);
        }
        certain.sort();
        certain.dedup();
        Ok(certain)
    }

    /// Those of `paths` at which the work tree holds something that neither its own commit nor `commit` has.
    pub fn unsaved(&self, commit: &CommitId, paths: &[RelPath]) -> Result<Vec<RelPath>, CommitError> {
        const DOING: &str = "read the commits of a work tree";
        let tree = |oid: Oid| self.git.find_commit(oid).and_then(|commit| commit.tree());
        let own = self.git.head().and_then(|head| head.peel_to_tree()).map_err(GitError::new(DOING))?;
        let target = tree(commit.oid()).map_err(GitError::new(DOING))?;
        let is_saved = |path: &RelPath| {
            // What git cannot keep at all is in no commit.
            let Ok(stored) = self.store(std::slice::from_ref(path)) else { return false };
            let here = stored.into_iter().find_map(|(_, file)| file).map(|file| (file.oid, file.mode));
            match here {
                None => entry_of(&target, path).is_none(),
                Some(_) => [&target, &own].iter().any(|tree| entry_of(tree, path) == here),
            }
        };
        Ok(paths.iter().filter(|path| !is_saved(path)).cloned().collect())
    }

    /// Brings every file, the index and HEAD of this work tree to `commit`.
    pub fn bring_to(&mut self, commit: &CommitId) -> Result<(), CommitError> {
        const DOING: &str = "bring a work tree to a commit";
        let fail = || GitError::new(DOING);
        let changed = self.changed_to(commit)?;
        let object = self.git.find_object(commit.oid(), None).map_err(fail())?;
        let mut checkout = CheckoutBuilder::new();
        checkout.force();
        self.git.checkout_tree(&object, Some(&mut checkout)).map_err(fail())?;
        drop(object);
        self.git.set_head_detached(commit.oid()).map_err(fail())?;
        self.index = self.git.index().map_err(fail())?;
        self.refresh_index()?;
        // libgit2 runs no program: what a filter converts on its way out is checked out again by git itself.
        let has_filters = self.has_program_filters();
        let is_filtered = |path: &RelPath| has_filters && self.needs_program(path).unwrap_or(false);
        let filtered: Vec<RelPath> = changed.into_iter().filter(is_filtered).collect();
        for path in &filtered {
            fs::remove(&path.under(&self.root))?;
        }
        self.restore_by_program(&filtered)
    }

    /// The files of `commit` that this work tree does not have as they are there, by index.
    fn changed_to(&self, commit: &CommitId) -> Result<Vec<RelPath>, GitError> {
        const DOING: &str = "compare a work tree with a commit";
        let tree = self.git.find_commit(commit.oid()).and_then(|commit| commit.tree()).map_err(GitError::new(DOING))?;
        let diff = self.git.diff_tree_to_index(Some(&tree), Some(&self.index), None).map_err(GitError::new(DOING))?;
        let gone = |path: &RelPath| entry_of(&tree, path).is_none();
        Ok(super::reading::changed_paths(&diff).into_iter().filter(|path| !gone(path)).collect())
    }

    /// Whether any filter is configured that a program carries out.
    fn has_program_filters(&self) -> bool {
        self.config.entries(Some("^filter\\.")).is_ok_and(|mut entries| entries.next().is_some())
            || self.config.get_path("core.attributesFile").is_ok()
    }
}

/// The file, link or submodule a tree has at `path`.
pub(super) fn entry_of(tree: &Tree<'_>, path: &RelPath) -> Option<(Oid, u32)> {
    let entry = tree.get_path(path.as_path()).ok()?;
    (entry.kind() != Some(git2::ObjectType::Tree)).then(|| (entry.id(), entry.filemode().cast_unsigned()))
}
