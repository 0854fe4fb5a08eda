//! One walk over the work tree: every file, link and submodule that is watched, with its stamp. Reads no file contents but
//! `.gitignore`; never follows a link.
//!
//! What is watched: everything but `.git`, `state/`, `planning/`, `runner.local.json`, `.runner.lock` and what the frozen
//! rules ignore. A tracked file is watched wherever it lies, and so is what `watch` names.

use std::ffi::CStr;
use std::io;
use std::os::fd::BorrowedFd;

use super::change::{Finding, FindingKind};
use super::content::ContentId;
use super::folder::{self, Folder, Item, Kind, Stamp};
use super::ignore_rules::Rules;
use super::snapshot::Options;
use super::tracked::{SUBMODULE, Tracked};
use crate::relpath::RelPath;

/// Deeper than this a folder is reported, not entered: each level holds a descriptor open.
const DEEPEST: usize = 256;

/// What of the root's folder is never part of the work tree.
pub(super) const NEVER_WATCHED: [&str; 5] = [".git", "state", "planning", "runner.local.json", ".runner.lock"];

/// The kinds of things that are compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum EntryKind {
    File,
    Link,
    /// The folder of a submodule; what lies in it follows as entries of its own.
    Submodule,
}

/// One thing in the tree.
#[derive(Debug, Clone)]
pub(super) struct Entry {
    pub(super) path: RelPath,
    pub(super) kind: EntryKind,
    pub(super) stamp: Stamp,
    /// The stamp was too young to vouch for the content.
    pub(super) is_young: bool,
    /// The index's own stat data match: to git it is unchanged.
    pub(super) is_vouched: bool,
    /// `None` if it could not be read, or need not be.
    pub(super) content: Option<ContentId>,
    /// Its place among the tracked files.
    pub(super) tracked: Option<usize>,
    /// Lies in a submodule, whose files the index does not name.
    pub(super) is_in_submodule: bool,
}

/// What a walk found, sorted by path.
#[derive(Debug, Default)]
pub(super) struct Scan {
    pub(super) entries: Vec<Entry>,
    pub(super) findings: Vec<Finding>,
}

/// Where the ignore rules come from.
pub(super) enum RuleSource<'a> {
    /// From the tree, as it is now; `previous` saves work.
    Tree { previous: &'a Rules, now: &'a mut Rules },
    /// From an earlier moment.
    Frozen(&'a Rules),
}

impl RuleSource<'_> {
    fn rules(&self) -> &Rules {
        match self {
            Self::Tree { now, .. } => now,
            Self::Frozen(rules) => rules,
        }
    }

    /// Takes in the rules of a folder about to be walked.
    fn enter(&mut self, at: BorrowedFd<'_>, path: &[u8], items: &[Item]) -> io::Result<()> {
        let Self::Tree { previous, now } = self else { return Ok(()) };
        if items.iter().any(|item| item.kind == Kind::File && item.name.to_bytes() == b".gitignore") {
            let (file, _) = folder::open_file(at, ".gitignore".as_ref())?;
            let mut text = Vec::new();
            io::Read::read_to_end(&mut std::fs::File::from(file), &mut text)?;
            now.add(previous, path, text);
        }
        Ok(())
    }
}

/// Walks the tree below the open folder `root`.
pub(super) fn scan(
    root: BorrowedFd<'_>,
    options: &Options,
    tracked: &[Tracked],
    rules: RuleSource<'_>,
) -> io::Result<Scan> {
    let mut walk = Walk { options, tracked, rules, path: Vec::with_capacity(256), found: Scan::default() };
    walk.found.entries.reserve(tracked.len() + 16);
    let mut top = Folder::open(root, c".")?;
    let items = top.items()?;
    let here = Here { tracked: (0, tracked.len()), ..Here::default() };
    walk.folder(&top, &items, here);
    walk.found.findings.sort();
    Ok(walk.found)
}

/// What is known about the folder being walked.
#[derive(Debug, Clone, Copy, Default)]
struct Here {
    /// The tracked files that lie in it: a part of the sorted list.
    tracked: (usize, usize),
    /// It, or a folder above it, is ignored.
    is_ignored: bool,
    /// It, or a folder above it, is named in `watch`.
    is_named: bool,
    is_submodule_top: bool,
    is_in_submodule: bool,
    depth: usize,
}

struct Walk<'a> {
    options: &'a Options,
    tracked: &'a [Tracked],
    rules: RuleSource<'a>,
    /// The path being looked at, from the root.
    path: Vec<u8>,
    found: Scan,
}

impl Walk<'_> {
    /// Walks one open folder.
    fn folder(&mut self, open: &Folder, items: &[Item], here: Here) {
        let fd = match open.fd() {
            Ok(fd) => fd,
            Err(e) => return self.unreadable(&e),
        };
        if self.options.git.is_some()
            && let Err(e) = self.rules.enter(fd, &self.path, items)
        {
            self.path_and(b"/.gitignore", |walk| walk.unreadable(&e));
        }
        let mut expected = here.tracked.0;
        for item in items {
            let name = item.name.to_bytes();
            if here.depth == 0 && NEVER_WATCHED.iter().any(|never| never.as_bytes() == name) {
                continue;
            }
            if name == b".git" {
                if !here.is_submodule_top {
                    self.finding(FindingKind::NestedRepository, String::new());
                }
                continue;
            }
            let length = self.path.len();
            if length > 0 {
                self.path.push(b'/');
            }
            self.path.extend_from_slice(name);
            if item.kind == Kind::Folder {
                self.subfolder(fd, &item.name, here);
            } else {
                let place = self.place(here.tracked, &mut expected);
                self.file(fd, item, (here, place));
            }
            self.path.truncate(length);
        }
    }

    fn subfolder(&mut self, at: BorrowedFd<'_>, name: &CStr, here: Here) {
        let submodule = self.find(here.tracked).filter(|place| self.tracked[*place].mode == SUBMODULE);
        let tracked = self.inside(here.tracked);
        let is_named = here.is_named || self.is_named();
        let is_ignored = !is_named && (here.is_ignored || self.is_ignored(true));
        if is_ignored && submodule.is_none() && tracked.0 == tracked.1 && !self.leads_to_named() {
            return;
        }
        if submodule.is_some() {
            self.push(EntryKind::Submodule, Stamp::default(), submodule, here.is_in_submodule);
        }
        if here.depth == DEEPEST {
            return self.unreadable(&io::Error::other(format!("it lies more than {DEEPEST} folders deep")));
        }
        let below = Here {
            tracked,
            is_ignored,
            is_named,
            is_submodule_top: submodule.is_some(),
            is_in_submodule: here.is_in_submodule || submodule.is_some(),
            depth: here.depth + 1,
        };
        match Folder::open(at, name).and_then(|mut open| open.items().map(|items| (open, items))) {
            Ok((open, items)) => self.folder(&open, &items, below),
            // Gone since its name was read: absent.
            Err(e) if e.kind() == io::ErrorKind::NotFound => {}
            Err(e) => self.unreadable(&e),
        }
    }

    fn file(&mut self, at: BorrowedFd<'_>, item: &Item, (here, place): (Here, Option<usize>)) {
        if place.is_none() && !here.is_named && (here.is_ignored || self.is_ignored(false)) && !self.is_named() {
            return;
        }
        let stamp = match folder::stamp(at, &item.name) {
            Ok(Some(stamp)) => stamp,
            Ok(None) => return,
            Err(e) => return self.unreadable(&e),
        };
        match stamp.kind() {
            Kind::File => self.push(EntryKind::File, stamp, place, here.is_in_submodule),
            Kind::Link => self.push(EntryKind::Link, stamp, place, here.is_in_submodule),
            Kind::Special(what) => self.finding(FindingKind::SpecialFile, what.to_owned()),
            // The file was replaced by a folder since its name was read.
            Kind::Folder => self.finding(FindingKind::Vanished, String::new()),
        }
    }

    fn push(&mut self, kind: EntryKind, stamp: Stamp, tracked: Option<usize>, is_in_submodule: bool) {
        let path = RelPath::new(self.path.as_slice());
        self.found.entries.push(Entry {
            path,
            kind,
            stamp,
            is_young: false,
            is_vouched: false,
            content: None,
            tracked,
            is_in_submodule,
        });
    }

    /// Whether the current path is ignored by a rule of its own, or by name where there is no git.
    fn is_ignored(&self, is_folder: bool) -> bool {
        if self.options.git.is_none() {
            let name = self.path.rsplit(|byte| *byte == b'/').next().unwrap_or_default();
            return is_folder && self.options.exclude.iter().any(|excluded| excluded.as_bytes() == name);
        }
        self.rules.rules().is_ignored(&self.path, is_folder)
    }

    /// Whether `watch` names the current path.
    fn is_named(&self) -> bool {
        self.options.watch.iter().any(|watch| watch.trim_end_matches('/').as_bytes() == self.path)
    }

    /// Whether `watch` names something below the current path.
    fn leads_to_named(&self) -> bool {
        self.options.watch.iter().any(|watch| {
            watch.as_bytes().strip_prefix(self.path.as_slice()).is_some_and(|rest| rest.first() == Some(&b'/'))
        })
    }

    /// The current path's place among the tracked files; `expected` is where it is if none is missing.
    fn place(&self, range: (usize, usize), expected: &mut usize) -> Option<usize> {
        let is_expected = (range.0..range.1).contains(expected) && self.tracked[*expected].path.as_bytes() == self.path;
        let place = if is_expected { Some(*expected) } else { self.find(range) };
        if let Some(place) = place {
            *expected = place + 1;
        }
        place
    }

    fn find(&self, (from, to): (usize, usize)) -> Option<usize> {
        let found = self.tracked[from..to].binary_search_by(|tracked| tracked.path.as_bytes().cmp(&self.path));
        found.ok().map(|place| from + place)
    }

    /// The part of the tracked files that lies below the current path.
    fn inside(&self, (from, to): (usize, usize)) -> (usize, usize) {
        let tracked = &self.tracked[from..to];
        let folder = self.path.as_slice();
        let start = tracked.partition_point(|tracked| is_before_folder(tracked.path.as_bytes(), folder));
        let length = tracked[start..].partition_point(|tracked| {
            tracked.path.as_bytes().strip_prefix(folder).is_some_and(|rest| rest.first() == Some(&b'/'))
        });
        (from + start, from + start + length)
    }

    fn path_and(&mut self, suffix: &[u8], act: impl FnOnce(&mut Self)) {
        let length = self.path.len();
        self.path.extend_from_slice(if length == 0 { &suffix[1..] } else { suffix });
        act(self);
        self.path.truncate(length);
    }

    fn unreadable(&mut self, error: &io::Error) {
        self.finding(FindingKind::Unreadable, error.to_string());
    }

    fn finding(&mut self, kind: FindingKind, detail: String) {
        self.found.findings.push(Finding { path: RelPath::new(self.path.as_slice()), kind, detail });
    }
}

/// Whether `path` sorts before everything that lies in `folder`.
fn is_before_folder(path: &[u8], folder: &[u8]) -> bool {
    let common = path.len().min(folder.len());
    match path[..common].cmp(&folder[..common]) {
        std::cmp::Ordering::Equal => path.get(common).is_none_or(|byte| *byte < b'/'),
        order => order.is_lt(),
    }
}
