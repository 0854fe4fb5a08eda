//! The comparison of two walks, and of a walk with the index. Pure.

use super::change::{Change, ChangeKind};
use super::scan::{Entry, EntryKind, NEVER_WATCHED};
use super::tracked::{KIND, LINK, SUBMODULE, Tracked};
use crate::relpath::RelPath;

/// What has a place in a list sorted by path.
pub(super) trait Placed {
    /// The kind of path.
    type Path: Ord;

    /// Its path.
    fn path(&self) -> &Self::Path;
}

impl Placed for Entry {
    type Path = RelPath;

    fn path(&self) -> &RelPath {
        &self.path
    }
}

/// What is called the same in two lists sorted by path, side by side.
pub(super) fn pairs<'a, T: Placed>(left: &'a [T], right: &'a [T]) -> Vec<(Option<&'a T>, Option<&'a T>)> {
    let (mut left, mut right) = (left.iter().peekable(), right.iter().peekable());
    let mut pairs = Vec::with_capacity(left.len().max(right.len()));
    loop {
        let order = match (left.peek(), right.peek()) {
            (None, None) => return pairs,
            (Some(_), None) => std::cmp::Ordering::Less,
            (None, Some(_)) => std::cmp::Ordering::Greater,
            (Some(a), Some(b)) => a.path().cmp(b.path()),
        };
        let a = if order.is_le() { left.next() } else { None };
        let b = if order.is_ge() { right.next() } else { None };
        pairs.push((a, b));
    }
}

/// What differs between two walks. `unreadable` are folders and files the second walk could not read: what the first saw there
/// is not known to be gone. With `modes` off the executable bit means nothing (`core.fileMode`).
pub(super) fn between(before: &[Entry], after: &[Entry], unreadable: &[&RelPath], modes: bool) -> Vec<Change> {
    let change = |entry: &Entry, kind| Change {
        path: entry.path.clone(),
        kind,
        is_link: entry.kind == EntryKind::Link,
        leaves_root: false,
    };
    pairs(before, after)
        .into_iter()
        .filter_map(|pair| match pair {
            (Some(gone), None) => {
                let is_hidden = unreadable.iter().any(|folder| is_at_or_below(&gone.path, folder));
                (!is_hidden).then(|| change(gone, ChangeKind::Deleted))
            }
            (None, Some(new)) => Some(change(new, ChangeKind::Created)),
            (Some(old), Some(new)) => Some(change(new, difference(old, new, modes)?)),
            (None, None) => None,
        })
        .collect()
}

fn difference(old: &Entry, new: &Entry, modes: bool) -> Option<ChangeKind> {
    if old.kind != new.kind {
        return Some(ChangeKind::TypeChanged);
    }
    let is_same = match (old.content, new.content) {
        (Some(old), Some(new)) => old == new,
        // Neither side was read: only the stamps can tell.
        _ => old.stamp == new.stamp,
    };
    if !is_same {
        return Some(ChangeKind::Modified);
    }
    let has_other_mode = new.kind == EntryKind::File && old.stamp.is_executable() != new.stamp.is_executable();
    (modes && has_other_mode).then_some(ChangeKind::ModeChanged)
}

/// What differs from the index. Where git filters contents (line ends, LFS) a difference in content is only a doubt; git can
/// settle it.
pub(super) fn from_index(entries: &[Entry], tracked: &[Tracked], unreadable: &[&RelPath], modes: bool) -> Vec<Change> {
    let mut is_seen = vec![false; tracked.len()];
    let mut changes = Vec::new();
    for entry in entries {
        let kind = match entry.tracked {
            Some(place) => {
                is_seen[place] = true;
                against_index(entry, &tracked[place], modes)
            }
            // What a submodule holds is its own repository's business.
            None => (!entry.is_in_submodule).then_some(ChangeKind::Created),
        };
        if let Some(kind) = kind {
            let is_link = entry.kind == EntryKind::Link;
            changes.push(Change { path: entry.path.clone(), kind, is_link, leaves_root: false });
        }
    }
    let gone = tracked.iter().zip(is_seen).filter(|(tracked, is_seen)| {
        !is_seen
            && !NEVER_WATCHED.iter().any(|place| tracked.path.is_in(place))
            && !unreadable.iter().any(|folder| is_at_or_below(&tracked.path, folder))
    });
    changes.extend(gone.map(|(tracked, _)| Change {
        path: tracked.path.clone(),
        kind: ChangeKind::Deleted,
        is_link: tracked.mode & KIND == LINK,
        leaves_root: false,
    }));
    changes.sort_by(|a, b| a.path.cmp(&b.path));
    changes
}

fn against_index(entry: &Entry, tracked: &Tracked, modes: bool) -> Option<ChangeKind> {
    let expected = match tracked.mode & KIND {
        SUBMODULE => EntryKind::Submodule,
        LINK => EntryKind::Link,
        _ => EntryKind::File,
    };
    if entry.kind != expected {
        return Some(ChangeKind::TypeChanged);
    }
    if entry.kind == EntryKind::Submodule {
        return None;
    }
    if !entry.is_vouched && entry.content != Some(tracked.content()) {
        return Some(ChangeKind::Modified);
    }
    let is_executable = tracked.mode & 0o100 != 0;
    let has_other_mode = entry.kind == EntryKind::File && entry.stamp.is_executable() != is_executable;
    (modes && has_other_mode).then_some(ChangeKind::ModeChanged)
}

fn is_at_or_below(path: &RelPath, folder: &RelPath) -> bool {
    let rest = path.as_bytes().strip_prefix(folder.as_bytes());
    // The root, when it could not be listed, is the empty path.
    folder.as_bytes().is_empty() || rest.is_some_and(|rest| rest.is_empty() || rest[0] == b'/')
}
