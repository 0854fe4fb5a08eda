//! One walk over the work tree: every file, link and submodule that is watched, with its stamp. Reads no file contents but
//! `.gitignore`; never follows a link.
//!
//! What is watched: everything but `.git`, `state/`, `planning/`, `runner.local.json`, `.runner.lock` and what the frozen
//! rules ignore. A tracked file is watched wherever it lies, and so is what `watch` names.

use std::io;
use std::os::fd::BorrowedFd;

use super::change::Finding;
use super::content::ContentId;
use super::folder::Stamp;
use super::ground::{Ground, RuleSource};
use super::snapshot::Options;
use super::tracked::Tracked;
use super::walk::{self, FolderRules};
use crate::relpath::RelPath;

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

/// From this many files on two threads share the walk; below it the second one costs more than it saves.
const WORTH_TWO: usize = 1000;

/// Walks the tree below the open folder `root`. `expected` is about how many files there are; rules found in the tree are
/// added to `found_rules`.
pub(super) fn scan(
    root: BorrowedFd<'_>,
    (options, tracked): (&Options, &[Tracked]),
    rules: RuleSource<'_>,
    expected: usize,
) -> io::Result<(Scan, Vec<FolderRules>)> {
    let ground = Ground { options, tracked, rules };
    let top = walk::Job::top(root, tracked.len())?;
    let threads = if expected < WORTH_TWO { 1 } else { 2 };
    let (mut found, mut rules) = (Scan::default(), Vec::new());
    found.entries.reserve(expected);
    for part in walk::walk(&ground, top, threads) {
        found.entries.extend(part.entries);
        found.findings.extend(part.findings);
        rules.extend(part.rules);
    }
    // Tracked files are numbered in the order of their paths; comparing numbers is cheaper.
    found.entries.sort_by(|a, b| match (a.tracked, b.tracked) {
        (Some(a), Some(b)) => a.cmp(&b),
        _ => a.path.cmp(&b.path),
    });
    found.findings.sort();
    Ok((found, rules))
}
