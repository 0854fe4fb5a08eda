//! What no session may touch, before and after: the coordinator's records, the plan, and what steers git.
//!
//! Contents are held in memory, so that [`Guard::put_back`](super::Guard::put_back) can restore them; a file is read again only
//! when its stamp is another or was young. The index, objects and logs of git are left out: git writes them by itself.

use std::collections::BTreeSet;
use std::ffi::{CStr, CString, OsStr};
use std::fmt;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::change::ChangeKind;
use super::content::{self, ContentId};
use super::diff::{Placed, pairs};
use super::folder::{self, Folder, Kind, Stamp, file_clock};
use crate::fs;
use crate::project::Project;
use crate::relpath::RelPath;

/// A larger file is known by its digest only and cannot be put back; from [`fs::LARGEST_READ`] on by its stamp.
const LARGEST_HELD: u64 = 1 << 20;

/// Deeper than this a folder is set aside whole.
const DEEPEST: usize = 64;

/// Guarded in the root. `.git` is, as a file or a link, the pointer to git's folder; as a folder it is guarded in parts.
const IN_ROOT: [&str; 4] = ["state", "planning", "runner.local.json", ".git"];

/// Parts of guarded folders that are not guarded: records of sessions, and what the coordinator keeps for itself.
const FREE_IN_ROOT: [&str; 3] = ["state/runs", "state/.runner", ".git"];

/// Guarded in the work tree's own git folder: what is checked out, settings, and the marks of an operation in progress.
const IN_GIT_OWN: [&str; 14] = [
    "HEAD",
    "HEAD.lock",
    "config.worktree",
    "MERGE_HEAD",
    "MERGE_MODE",
    "MERGE_MSG",
    "CHERRY_PICK_HEAD",
    "REVERT_HEAD",
    "BISECT_LOG",
    "BISECT_START",
    "rebase-merge",
    "rebase-apply",
    "sequencer",
    "SQUASH_MSG",
];

/// Guarded besides in a linked work tree's own git folder.
const IN_GIT_LINKED: [&str; 4] = ["commondir", "gitdir", "info", "refs"];

/// Guarded in the git folder that all work trees share.
const IN_GIT_COMMON: [&str; 7] = ["config", "config.lock", "hooks", "info", "refs", "packed-refs", "packed-refs.lock"];

/// Where a guarded path starts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Area {
    /// The project's root.
    Root,
    /// The work tree's own git folder.
    GitOwn,
    /// The git folder that all work trees share.
    GitCommon,
}

/// A guarded file, shown as `state/tasks/S00/S00-001.json` or `.git/hooks/pre-commit`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct GuardedPath {
    /// Where the path starts.
    pub area: Area,
    /// The path from there.
    pub path: RelPath,
}

impl fmt::Display for GuardedPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.area {
            Area::Root => write!(f, "{}", self.path),
            Area::GitOwn | Area::GitCommon => write!(f, ".git/{}", self.path),
        }
    }
}

/// A guarded file that a session changed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Tampering {
    /// The file.
    pub path: GuardedPath,
    /// How it differs.
    pub kind: ChangeKind,
}

impl fmt::Display for Tampering {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({})", self.path, self.kind)
    }
}

/// Guarded files that could not be looked at.
#[derive(Debug, thiserror::Error)]
#[error("cannot look at {}, which sessions must leave alone; make it readable, then start again", path.display())]
pub struct GuardError {
    path: PathBuf,
    source: io::Error,
}

/// What was found under a guarded name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Held {
    /// A file's content.
    Content(Arc<[u8]>),
    /// The digest of a file too large to hold.
    Digest(ContentId),
    /// A link's target.
    Link(Arc<[u8]>),
    /// Something that is neither, or a folder or file that cannot be read.
    Opaque,
}

impl Held {
    fn is_kind_of(&self, other: &Self) -> bool {
        let kind = |held: &Self| match held {
            Self::Content(_) | Self::Digest(_) => 0,
            Self::Link(_) => 1,
            Self::Opaque => 2,
        };
        kind(self) == kind(other)
    }
}

/// One guarded file at one moment.
#[derive(Debug, Clone)]
pub(super) struct Entry {
    pub(super) path: GuardedPath,
    pub(super) stamp: Stamp,
    is_young: bool,
    pub(super) held: Held,
}

impl Entry {
    /// Permissions, of a file.
    pub(super) fn permissions(&self) -> Option<u32> {
        matches!(self.held, Held::Content(_) | Held::Digest(_)).then_some(self.stamp.mode & 0o7777)
    }
}

impl Placed for Arc<Entry> {
    type Path = GuardedPath;

    fn path(&self) -> &GuardedPath {
        &self.path
    }
}

/// All guarded files at one moment.
#[derive(Debug, Clone, Default)]
pub struct Guarded {
    /// Sorted by path. Two looks share what did not change between them.
    pub(super) entries: Arc<[Arc<Entry>]>,
    pub(super) folders: Arc<BTreeSet<GuardedPath>>,
}

impl Guarded {
    /// What differs from an earlier moment; sorted by path.
    pub fn differences(&self, before: &Self) -> Vec<Tampering> {
        pairs(&before.entries, &self.entries)
            .into_iter()
            .filter_map(|(old, new)| {
                let (path, kind) = match (old, new) {
                    (None, new) => (&new?.path, ChangeKind::Created),
                    (Some(old), None) => (&old.path, ChangeKind::Deleted),
                    (Some(old), Some(new)) => (&new.path, difference(old, new)?),
                };
                Some(Tampering { path: path.clone(), kind })
            })
            .collect()
    }

    pub(super) fn entry(&self, path: &GuardedPath) -> Option<&Arc<Entry>> {
        self.entries.binary_search_by(|entry| entry.path.cmp(path)).ok().map(|place| &self.entries[place])
    }
}

/// Watches over what sessions must not touch; remembers what it has read.
#[derive(Debug)]
pub struct Guard {
    root: PathBuf,
    git: Option<(PathBuf, PathBuf)>,
    /// Whether the git folder that all work trees share is looked at.
    with_common: bool,
    known: Guarded,
}

impl Guard {
    /// Prepares to look; reads nothing yet.
    pub fn new(project: &Project) -> Self {
        let git = project.git().map(|git| (git.own.clone(), git.common.clone()));
        Self { root: project.root().to_owned(), git, with_common: true, known: Guarded::default() }
    }

    /// As [`Guard::new`], for a linked work tree whose repository's shared folder another guard watches.
    pub fn of_linked(tree: &Project) -> Self {
        Self { with_common: false, ..Self::new(tree) }
    }

    /// Everything that is guarded, as it is now.
    pub fn take(&mut self) -> Result<Guarded, GuardError> {
        let mut look = Look { known: &self.known, moment: file_clock(), entries: Vec::new(), folders: BTreeSet::new() };
        look.area(Area::Root, &self.root, &IN_ROOT)?;
        if let Some((own, common)) = &self.git {
            look.area(Area::GitOwn, own, &IN_GIT_OWN)?;
            // `commondir` may be written in another way than the canonical path of the shared folder.
            if own.canonicalize().ok().as_ref() != Some(common) {
                look.area(Area::GitOwn, own, &IN_GIT_LINKED)?;
            }
            if self.with_common {
                look.area(Area::GitCommon, common, &IN_GIT_COMMON)?;
            }
        }
        let Look { mut entries, folders, .. } = look;
        entries.sort_by(|a, b| a.path.cmp(&b.path));
        self.known = Guarded { entries: entries.into(), folders: Arc::new(folders) };
        Ok(self.known.clone())
    }

    /// What the last look found.
    pub fn last(&self) -> Guarded {
        self.known.clone()
    }

    /// What has changed since `before`, apart from what is `allowed`; sorted by path.
    pub fn tampering_since(
        &mut self,
        before: &Guarded,
        allowed: &dyn Fn(&GuardedPath) -> bool,
    ) -> Result<Vec<Tampering>, GuardError> {
        let mut differences = self.take()?.differences(before);
        differences.retain(|tampering| !allowed(&tampering.path));
        Ok(differences)
    }

    /// The folder an area starts at.
    pub(super) fn base(&self, area: Area) -> Option<&Path> {
        match area {
            Area::Root => Some(&self.root),
            Area::GitOwn => self.git.as_ref().map(|(own, _)| own.as_path()),
            Area::GitCommon => self.git.as_ref().map(|(_, common)| common.as_path()),
        }
    }
}

fn difference(old: &Entry, new: &Entry) -> Option<ChangeKind> {
    if !old.held.is_kind_of(&new.held) {
        return Some(ChangeKind::TypeChanged);
    }
    if old.held != new.held || (old.held == Held::Opaque && old.stamp != new.stamp) {
        return Some(ChangeKind::Modified);
    }
    (old.permissions() != new.permissions()).then_some(ChangeKind::ModeChanged)
}

/// One look at everything.
struct Look<'a> {
    known: &'a Guarded,
    moment: (i64, u32),
    entries: Vec<Arc<Entry>>,
    folders: BTreeSet<GuardedPath>,
}

/// A name to be looked at.
struct Spot<'a> {
    at: BorrowedFd<'a>,
    name: &'a CStr,
    path: GuardedPath,
    depth: usize,
}

impl Look<'_> {
    fn area(&mut self, area: Area, base: &Path, names: &[&str]) -> Result<(), GuardError> {
        let fail = |source| GuardError { path: base.to_owned(), source };
        let at = folder::open_root(base).map_err(fail)?;
        for name in names {
            let path = GuardedPath { area, path: (*name).into() };
            let name = CString::new(*name).map_err(|e| fail(e.into()))?;
            self.name(Spot { at: at.as_fd(), name: &name, path, depth: 0 }).map_err(fail)?;
        }
        Ok(())
    }

    /// Looks at one name; what is not there is no entry, what cannot be looked into is an opaque one.
    fn name(&mut self, spot: Spot<'_>) -> io::Result<()> {
        let Some(stamp) = folder::stamp(spot.at, spot.name)? else { return Ok(()) };
        let held = match stamp.kind() {
            Kind::Folder if is_free(&spot.path) => return Ok(()),
            Kind::Folder => match self.folder(&spot) {
                Ok(()) => return Ok(()),
                Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(()),
                Err(_) => Held::Opaque,
            },
            Kind::Special(_) => Held::Opaque,
            Kind::File | Kind::Link => {
                if let Some(known) = self.remembered(&spot.path, &stamp) {
                    self.entries.push(known);
                    return Ok(());
                }
                match read(&spot, &stamp) {
                    Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(()),
                    read => read.unwrap_or(Held::Opaque),
                }
            }
        };
        let is_young = stamp.is_young(self.moment);
        self.entries.push(Arc::new(Entry { path: spot.path, stamp, is_young, held }));
        Ok(())
    }

    fn folder(&mut self, spot: &Spot<'_>) -> io::Result<()> {
        if spot.depth == DEEPEST {
            return Err(io::Error::other("nested too deeply"));
        }
        let mut open = Folder::open(spot.at, spot.name)?;
        let items = open.items()?;
        self.folders.insert(spot.path.clone());
        for item in items {
            let path = GuardedPath { area: spot.path.area, path: spot.path.path.child(item.name.to_bytes()) };
            self.name(Spot { at: open.fd()?, name: &item.name, path, depth: spot.depth + 1 })?;
        }
        Ok(())
    }

    /// The file as it was read with the very same stamp, which was not young then and so is not now.
    fn remembered(&self, path: &GuardedPath, stamp: &Stamp) -> Option<Arc<Entry>> {
        let known = self.known.entry(path)?;
        (known.stamp == *stamp && !known.is_young && known.held != Held::Opaque).then(|| Arc::clone(known))
    }
}

fn is_free(path: &GuardedPath) -> bool {
    path.area == Area::Root && FREE_IN_ROOT.iter().any(|free| free.as_bytes() == path.path.as_bytes())
}

fn read(spot: &Spot<'_>, stamp: &Stamp) -> io::Result<Held> {
    let name = Path::new(OsStr::from_bytes(spot.name.to_bytes()));
    if stamp.kind() == Kind::Link {
        return Ok(Held::Link(folder::link_target(spot.at, name)?.into()));
    }
    if stamp.size > fs::LARGEST_READ {
        return Ok(Held::Opaque);
    }
    if stamp.size > LARGEST_HELD {
        return Ok(Held::Digest(content::of_file(spot.at, name, &mut vec![0; 64 * 1024])?.id));
    }
    Ok(Held::Content(folder::read_file(spot.at, name)?.into()))
}
