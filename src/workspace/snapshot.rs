//! The tree before a session, and what a session changed in it.
//!
//! Reads only contents that neither an earlier look nor git's index vouches for. The ignore rules and the list of tracked
//! files are those of the first moment, also at the second.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::change::{Change, ChangeKind, Changes, Finding, FindingKind};
use super::content;
use super::diff::{self, pairs};
use super::folder::{self, file_clock};
use super::ground::RuleSource;
use super::ignore_rules::Rules;
use super::links;
use super::scan::{Entry, EntryKind, Scan, scan};
use super::tracked::{Tracked, TrackedFiles};
use super::walk::FolderRules;
use crate::fs::{self, FileError};
use crate::project::GitPlaces;
use crate::relpath::RelPath;

/// A tree that could not be looked at.
#[derive(Debug, thiserror::Error)]
pub enum SnapshotError {
    /// The root itself cannot be read.
    #[error("cannot read the project root {}; make it readable, then start again", path.display())]
    Root {
        /// The root.
        path: PathBuf,
        /// What the system said.
        source: std::io::Error,
    },
    /// A file of ignore rules outside the tree cannot be read.
    #[error("cannot read git's ignore rules; make the file readable or take it out of git's configuration")]
    Rules(#[source] FileError),
}

/// What to look at.
#[derive(Debug, Clone, Default)]
pub struct Options {
    /// The root of the work tree.
    pub root: PathBuf,
    /// Names of folders that are left out where there is no git to ask; with git its rules decide alone.
    pub exclude: Vec<String>,
    /// Paths from the root that are watched although git ignores them.
    pub watch: Vec<String>,
    /// Paths from the root that belong to somebody else and are not looked at, whatever they are.
    pub share: Vec<String>,
    /// The git folders; `None` leaves `.gitignore` files without effect.
    pub git: Option<GitPlaces>,
    /// The file that `core.excludesFile` names.
    pub excludes_file: Option<PathBuf>,
    /// `core.fileMode`: whether the executable bit means anything.
    pub file_mode: bool,
    /// Whether git may convert contents on the way in and out (`core.autocrlf`, `core.attributesFile`). A `.gitattributes`
    /// among the tracked files, or `info/attributes`, is found without being told.
    pub filters: bool,
}

/// Looks at one work tree again and again; remembers what it has read.
#[derive(Debug)]
pub struct Snapshotter {
    options: Options,
    rules: Arc<Rules>,
    known: Arc<Vec<Entry>>,
}

/// A work tree at one moment.
#[derive(Debug, Clone)]
pub struct Snapshot {
    entries: Arc<Vec<Entry>>,
    findings: Vec<Finding>,
    dirty: Vec<Change>,
    rules: Arc<Rules>,
    tracked: Arc<TrackedFiles>,
}

impl Snapshot {
    /// Whether git ignored this path of a file when the snapshot was taken; the file itself need not have been looked at.
    pub fn is_ignored(&self, path: &RelPath) -> bool {
        self.rules.ignores_file(path.as_bytes())
    }

    /// Whether git's index had this path when the snapshot was taken.
    pub fn is_tracked(&self, path: &RelPath) -> bool {
        self.tracked.entries.binary_search_by(|entry| entry.path.cmp(path)).is_ok()
    }

    /// Whether git's index had this path, or one below it, when the snapshot was taken.
    pub fn holds_tracked(&self, path: &RelPath) -> bool {
        let first = self.tracked.entries.partition_point(|entry| entry.path < *path);
        let is_below = |entry: &Tracked| entry.path.as_bytes().get(path.as_bytes().len()) == Some(&b'/');
        // What lies between a folder and its files by name is longer by another byte than the slash.
        let begins =
            self.tracked.entries[first..].iter().take_while(|entry| entry.path.as_bytes().starts_with(path.as_bytes()));
        begins.into_iter().any(|entry| entry.path == *path || is_below(entry))
    }

    /// What differs from the tracked files, untracked files included, sorted by path; empty without tracked files. Where git
    /// filters contents, ask git about the `Modified` ones.
    pub fn dirty(&self) -> &[Change] {
        &self.dirty
    }

    /// What cannot be watched or read.
    pub fn findings(&self) -> &[Finding] {
        &self.findings
    }

    /// How many files and links are watched.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether nothing is watched.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }
}

impl Snapshotter {
    /// Prepares to look; reads nothing yet.
    pub fn new(options: Options) -> Self {
        Self { options, rules: Arc::default(), known: Arc::default() }
    }

    /// The tree now. `tracked` is the index; the ignore rules are read here and stay with the snapshot.
    ///
    /// Without `tracked` every file counts as untracked, and each content is read once.
    pub fn take(&mut self, tracked: Option<Arc<TrackedFiles>>) -> Result<Snapshot, SnapshotError> {
        let root = self.open()?;
        let has_index = tracked.is_some();
        let tracked = in_order(tracked.unwrap_or_default());
        let rules = self.rules.with_outer(self.outer_rules()?);
        let moment = file_clock();
        let (mut scan, folders) = self.scan(root.as_fd(), &tracked, RuleSource::Tree(&rules))?;
        self.rules = Arc::new(rules.with_folders(folders));

        self.recall(&mut scan.entries, &tracked, moment);
        let is_needed: Vec<bool> = scan.entries.iter().map(|entry| entry.content.is_none()).collect();
        read_contents(root.as_fd(), &mut scan, &is_needed);
        let mut dirty = if has_index {
            let unreadable = unreadable(&scan.findings);
            diff::from_index(&scan.entries, &tracked.entries, &unreadable, self.options.file_mode)
        } else {
            Vec::new()
        };
        self.follow_links(&mut dirty);
        self.known = Arc::new(scan.entries);
        let (entries, rules) = (Arc::clone(&self.known), Arc::clone(&self.rules));
        Ok(Snapshot { entries, findings: scan.findings, dirty, rules, tracked })
    }

    /// What has changed since `before`, by the rules of that moment.
    pub fn changes_since(&mut self, before: &Snapshot) -> Result<Changes, SnapshotError> {
        let root = self.open()?;
        let moment = file_clock();
        let (mut scan, _) = self.scan(root.as_fd(), &before.tracked, RuleSource::Frozen(&before.rules))?;
        let is_needed = carry_over(&before.entries, &mut scan.entries, moment);
        read_contents(root.as_fd(), &mut scan, &is_needed);

        let unreadable = unreadable(&scan.findings);
        let mut changed = diff::between(&before.entries, &scan.entries, &unreadable, self.options.file_mode);
        self.follow_links(&mut changed);
        let findings = scan.findings.into_iter().filter(|finding| !before.findings.contains(finding)).collect();
        self.known = Arc::new(scan.entries);
        Ok(Changes { changed, findings })
    }

    /// The tree now, by the rules and against the index of `before`.
    pub fn take_again(&mut self, before: &Snapshot) -> Result<Snapshot, SnapshotError> {
        let root = self.open()?;
        let moment = file_clock();
        let (mut scan, _) = self.scan(root.as_fd(), &before.tracked, RuleSource::Frozen(&before.rules))?;
        carry_over(&before.entries, &mut scan.entries, moment);
        let is_needed: Vec<bool> = scan.entries.iter().map(|entry| entry.content.is_none()).collect();
        read_contents(root.as_fd(), &mut scan, &is_needed);
        self.known = Arc::new(scan.entries);
        let (rules, tracked) = (Arc::clone(&before.rules), Arc::clone(&before.tracked));
        Ok(Snapshot { entries: Arc::clone(&self.known), findings: scan.findings, dirty: Vec::new(), rules, tracked })
    }

    fn open(&self) -> Result<OwnedFd, SnapshotError> {
        let fail = |source| SnapshotError::Root { path: self.options.root.clone(), source };
        folder::open_root(&self.options.root).map_err(fail)
    }

    fn scan(
        &self,
        root: BorrowedFd<'_>,
        tracked: &TrackedFiles,
        rules: RuleSource<'_>,
    ) -> Result<(Scan, Vec<FolderRules>), SnapshotError> {
        let fail = |source| SnapshotError::Root { path: self.options.root.clone(), source };
        let expected = tracked.entries.len().max(self.known.len());
        scan(root, (&self.options, &tracked.entries), rules, expected).map_err(fail)
    }

    /// The rules that lie outside the tree, the heavier first.
    fn outer_rules(&self) -> Result<[Option<Vec<u8>>; 2], SnapshotError> {
        let Some(git) = &self.options.git else { return Ok([None, None]) };
        let read = |path: &Path| fs::read_if_present(path).map_err(SnapshotError::Rules);
        let own = read(&git.common.join("info/exclude"))?;
        let general = self.options.excludes_file.as_deref().map(read).transpose()?.flatten();
        Ok([own, general])
    }

    /// Fills in the contents that an earlier look or the index vouches for.
    fn recall(&self, entries: &mut [Entry], tracked: &TrackedFiles, moment: (i64, u32)) {
        let has_filters = self.has_filters(tracked);
        for entry in &mut *entries {
            entry.is_young = entry.stamp.is_young(moment);
        }
        let known: Vec<_> = pairs(&self.known, entries)
            .into_iter()
            .filter(|(_, entry)| entry.is_some())
            .map(|(known, entry)| known.zip(entry).and_then(|(known, entry)| remembered(known, entry)))
            .collect();
        for (entry, known) in entries.iter_mut().zip(known) {
            entry.content = known;
            let oid = entry.tracked.map(|place| &tracked.entries[place]).and_then(|tracked_file| {
                let is_vouched = !entry.is_young && tracked_file.vouches_for(&entry.stamp, tracked.index_mtime);
                is_vouched.then(|| tracked_file.content())
            });
            entry.is_vouched = oid.is_some();
            // Where git converts contents the blob's id is not the id of the file's own bytes.
            if entry.content.is_none() && !has_filters {
                entry.content = oid;
            }
        }
    }

    fn has_filters(&self, tracked: &TrackedFiles) -> bool {
        let has_own = |git: &GitPlaces| git.common.join("info/attributes").exists();
        self.options.filters
            || self.options.git.as_ref().is_some_and(has_own)
            || tracked.entries.iter().any(|tracked| tracked.path.file_name() == b".gitattributes")
    }

    fn follow_links(&self, changes: &mut [Change]) {
        for change in changes.iter_mut().filter(|change| change.is_link && change.kind != ChangeKind::Deleted) {
            change.leaves_root = links::leaves_root(&self.options.root, &change.path);
        }
    }
}

/// The same, sorted by path if it was not.
fn in_order(mut tracked: Arc<TrackedFiles>) -> Arc<TrackedFiles> {
    if !tracked.entries.is_sorted_by(|a, b| a.path <= b.path) {
        Arc::make_mut(&mut tracked).entries.sort_by(|a, b| a.path.cmp(&b.path));
    }
    tracked
}

/// The content an entry had when it was read with the very same stamp.
fn remembered(known: &Entry, entry: &Entry) -> Option<content::ContentId> {
    let is_same = known.kind == entry.kind && known.stamp == entry.stamp && !known.is_young;
    if is_same { known.content } else { None }
}

/// Fills in what is the same as before; says which entries have to be read to know. What is new, or differs in kind or size,
/// has changed without being read.
fn carry_over(before: &[Entry], after: &mut [Entry], moment: (i64, u32)) -> Vec<bool> {
    let found: Vec<_> = pairs(before, after)
        .into_iter()
        .filter_map(|(old, new)| Some((old, new?)))
        .map(|(old, new)| {
            let Some(old) = old else { return (None, false) };
            let content = remembered(old, new);
            let is_alike = old.kind == new.kind && old.stamp.size == new.stamp.size;
            (content, content.is_none() && is_alike && old.content.is_some())
        })
        .collect();
    let mut is_needed = Vec::with_capacity(after.len());
    for (entry, (content, needed)) in after.iter_mut().zip(found) {
        entry.content = content;
        entry.is_young = entry.stamp.is_young(moment);
        is_needed.push(needed);
    }
    is_needed
}

/// What came of reading one entry.
type Outcome = std::io::Result<content::Read>;

/// Reads the contents of the entries that `is_needed` picks. An entry that has vanished goes; one that cannot be read stays
/// without content; both are findings.
fn read_contents(root: BorrowedFd<'_>, scan: &mut Scan, is_needed: &[bool]) {
    let places: Vec<usize> = (0..scan.entries.len())
        .filter(|place| is_needed[*place] && scan.entries[*place].kind != EntryKind::Submodule)
        .collect();
    let mut vanished = Vec::new();
    for (place, outcome) in read_all(root, &scan.entries, &places) {
        let entry = &mut scan.entries[place];
        match outcome {
            Ok(read) => {
                entry.content = Some(read.id);
                entry.is_young |= !read.steady || read.stamp != entry.stamp;
            }
            Err(error) => {
                let is_gone = error.kind() == std::io::ErrorKind::NotFound;
                let kind = if is_gone { FindingKind::Vanished } else { FindingKind::Unreadable };
                scan.findings.push(Finding { path: entry.path.clone(), kind, detail: error.to_string() });
                if is_gone {
                    vanished.push(place);
                }
            }
        }
    }
    for place in vanished.into_iter().rev() {
        scan.entries.remove(place);
    }
    scan.findings.sort();
    scan.findings.dedup_by(|later, earlier| (&later.path, later.kind) == (&earlier.path, earlier.kind));
}

/// Reads the entries at `places`, in their order; many of them by two threads.
fn read_all(root: BorrowedFd<'_>, entries: &[Entry], places: &[usize]) -> Vec<(usize, Outcome)> {
    let read = |places: &[usize]| {
        let mut buffer = vec![0; 64 * 1024];
        places.iter().map(|place| (*place, read_one(root, &entries[*place], &mut buffer))).collect::<Vec<_>>()
    };
    if places.len() < 64 {
        return read(places);
    }
    let (first, second) = places.split_at(places.len() / 2);
    std::thread::scope(|scope| {
        // A machine that is out of threads only makes it slower.
        let other = std::thread::Builder::new().spawn_scoped(scope, || read(second));
        let mut outcomes = read(first);
        outcomes.extend(match other {
            Ok(thread) => thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)),
            Err(_) => read(second),
        });
        outcomes
    })
}

fn read_one(root: BorrowedFd<'_>, entry: &Entry, buffer: &mut [u8]) -> Outcome {
    let path = entry.path.as_path();
    if entry.kind == EntryKind::Link {
        let id = content::of_bytes(&folder::link_target(root, path)?);
        return Ok(content::Read { id, stamp: entry.stamp, steady: true });
    }
    if entry.stamp.size > fs::LARGEST_READ && entry.tracked.is_none() {
        // Perhaps sparse, and slow to read to its end: what is new about it shows in its stamp.
        let id = content::of_bytes(format!("{:?}", entry.stamp).as_bytes());
        return Ok(content::Read { id, stamp: entry.stamp, steady: true });
    }
    content::of_file(root, path, buffer)
}

fn unreadable(findings: &[Finding]) -> Vec<&RelPath> {
    findings.iter().filter(|finding| finding.kind == FindingKind::Unreadable).map(|finding| &finding.path).collect()
}
