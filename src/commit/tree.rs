//! The tree of a commit: the parent's, with some paths put in or taken out.
//!
//! Only folders on the way to a change are read and written, however large the tree is. Never touches index or work tree.

use std::collections::BTreeMap;

use git2::{ObjectType, Oid, Tree};

use crate::relpath::RelPath;

const FOLDER: i32 = 0o040_000;

/// A file to put (object and mode), or `None` to take it out.
pub(super) type Leaf = Option<(Oid, u32)>;

/// Why a tree could not be made.
pub(super) enum TreeFault {
    /// A change at or below a submodule.
    Submodule { path: RelPath, submodule: RelPath },
    /// A name that git does not allow in a tree.
    BadPath { path: RelPath },
    /// The object store failed.
    Git(git2::Error),
}

impl From<git2::Error> for TreeFault {
    fn from(error: git2::Error) -> Self {
        Self::Git(error)
    }
}

/// What happens to one name in a folder.
#[derive(Default)]
struct Change<'a> {
    here: Option<(&'a RelPath, Leaf)>,
    below: Vec<(&'a RelPath, Leaf)>,
}

/// Writes trees and remembers which.
pub(super) struct TreeWriter<'a> {
    git: &'a git2::Repository,
    pub(super) written: Vec<Oid>,
}

impl<'a> TreeWriter<'a> {
    pub(super) fn new(git: &'a git2::Repository) -> Self {
        Self { git, written: Vec::new() }
    }

    /// The root tree: `base` with the changes.
    pub(super) fn write(&mut self, base: &Tree<'_>, changes: Vec<(&RelPath, Leaf)>) -> Result<Oid, TreeFault> {
        if let Some(oid) = self.folder(Some(base), 0, changes)? {
            return Ok(oid);
        }
        let empty = self.git.treebuilder(None)?.write()?;
        self.written.push(empty);
        Ok(empty)
    }

    /// One folder, whose path is the first `depth` bytes of every change's; `None` if nothing is left in it.
    fn folder(
        &mut self,
        base: Option<&Tree<'_>>,
        depth: usize,
        changes: Vec<(&RelPath, Leaf)>,
    ) -> Result<Option<Oid>, TreeFault> {
        let git = self.git;
        let mut builder = git.treebuilder(base)?;
        for (name, change) in by_name(depth, changes) {
            let existing = builder.get(name)?.map(|entry| (entry.id(), entry.kind()));
            if let (Some((_, Some(ObjectType::Commit))), Some((path, _))) = (existing, change.any()) {
                let submodule = RelPath::new(&path.as_bytes()[..depth + name.len()]);
                return Err(TreeFault::Submodule { path: RelPath::clone(path), submodule });
            }
            let old = match existing {
                Some((oid, Some(ObjectType::Tree))) => Some(git.find_tree(oid)?),
                _ => None,
            };
            let was_folder = old.is_some();
            let gone = matches!(change.here, Some((_, None)));
            let path = change.any().map(|(path, _)| RelPath::clone(path));
            let entry = match change.here {
                Some((_, Some((oid, mode)))) => Some((oid, mode.cast_signed())),
                _ if change.below.is_empty() && was_folder => continue,
                _ => self.folder(old.as_ref(), depth + name.len() + 1, change.below)?.map(|oid| (oid, FOLDER)),
            };
            if let Some((oid, mode)) = entry {
                let bad = |_| TreeFault::BadPath { path: path.unwrap_or_else(|| RelPath::new(name)) };
                builder.insert(name, oid, mode).map_err(bad)?;
            } else if existing.is_some() && (was_folder || gone) {
                builder.remove(name)?;
            }
        }
        if builder.is_empty() {
            return Ok(None);
        }
        let oid = builder.write()?;
        self.written.push(oid);
        Ok(Some(oid))
    }
}

impl<'a> Change<'a> {
    fn any(&self) -> Option<&(&'a RelPath, Leaf)> {
        self.here.as_ref().or(self.below.first())
    }
}

/// The changes sorted into the names of one folder.
fn by_name(depth: usize, changes: Vec<(&RelPath, Leaf)>) -> BTreeMap<&[u8], Change<'_>> {
    let mut names: BTreeMap<&[u8], Change<'_>> = BTreeMap::new();
    for (path, leaf) in changes {
        let rest = &path.as_bytes()[depth..];
        match rest.iter().position(|byte| *byte == b'/') {
            Some(end) => names.entry(&rest[..end]).or_default().below.push((path, leaf)),
            None => names.entry(rest).or_default().here = Some((path, leaf)),
        }
    }
    names
}
