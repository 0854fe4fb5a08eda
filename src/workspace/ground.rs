//! What a walk asks at each path: is it tracked, is it ignored, is it named in `watch`. Pure.

use std::cmp::Ordering;

use super::ignore_rules::{Level, Rules};
use super::snapshot::Options;
use super::tracked::Tracked;

/// Where the ignore rules come from.
#[derive(Clone, Copy)]
pub(super) enum RuleSource<'a> {
    /// From the tree, as it is now; the rules hold those from outside the tree, and others that save parsing them again.
    Tree(&'a Rules),
    /// From an earlier moment.
    Frozen(&'a Rules),
}

/// What a walk knows beforehand.
pub(super) struct Ground<'a> {
    pub(super) options: &'a Options,
    pub(super) tracked: &'a [Tracked],
    pub(super) rules: RuleSource<'a>,
}

impl Ground<'_> {
    /// Whether `path` is ignored by a rule of its own, or by name where there is no git; `level` are the rules of its folder.
    pub(super) fn is_ignored(&self, path: &[u8], is_folder: bool, level: Option<&Level>) -> bool {
        if self.options.git.is_none() {
            let name = path.rsplit(|byte| *byte == b'/').next().unwrap_or_default();
            return is_folder && self.options.exclude.iter().any(|excluded| excluded.as_bytes() == name);
        }
        let rules: &Rules = match self.rules {
            RuleSource::Tree(rules) | RuleSource::Frozen(rules) => rules,
        };
        rules.is_ignored(path, is_folder, level)
    }

    /// Whether `path` is shared with others, and nothing in it is the session's.
    pub(super) fn is_shared(&self, path: &[u8]) -> bool {
        self.options.share.iter().any(|share| share.trim_end_matches('/').as_bytes() == path)
    }

    /// Whether `watch` names `path`.
    pub(super) fn is_named(&self, path: &[u8]) -> bool {
        self.options.watch.iter().any(|watch| watch.trim_end_matches('/').as_bytes() == path)
    }

    /// Whether `watch` names something below `path`.
    pub(super) fn leads_to_named(&self, path: &[u8]) -> bool {
        self.options.watch.iter().any(|watch| is_below(watch.as_bytes(), path))
    }

    /// The place of `path` among the tracked files; `expected` is where it is if none is missing.
    pub(super) fn place(&self, path: &[u8], range: (usize, usize), expected: &mut usize) -> Option<usize> {
        let is_expected = (range.0..range.1).contains(expected) && self.tracked[*expected].path.as_bytes() == path;
        let place = if is_expected { *expected } else { self.find(path, range)? };
        *expected = place + 1;
        Some(place)
    }

    pub(super) fn find(&self, path: &[u8], (from, to): (usize, usize)) -> Option<usize> {
        let found = self.tracked[from..to].binary_search_by(|tracked| tracked.path.as_bytes().cmp(path));
        found.ok().map(|place| from + place)
    }

    /// The part of the tracked files that lies below `folder`.
    pub(super) fn inside(&self, folder: &[u8], (from, to): (usize, usize)) -> (usize, usize) {
        let tracked = &self.tracked[from..to];
        let start = tracked.partition_point(|tracked| is_before_folder(tracked.path.as_bytes(), folder));
        let length = tracked[start..].partition_point(|tracked| is_below(tracked.path.as_bytes(), folder));
        (from + start, from + start + length)
    }
}

fn is_below(path: &[u8], folder: &[u8]) -> bool {
    path.strip_prefix(folder).is_some_and(|rest| rest.first() == Some(&b'/'))
}

/// Whether `path` sorts before everything that lies in `folder`.
fn is_before_folder(path: &[u8], folder: &[u8]) -> bool {
    let common = path.len().min(folder.len());
    match path[..common].cmp(&folder[..common]) {
        Ordering::Equal => path.get(common).is_none_or(|byte| *byte < b'/'),
        order => order.is_lt(),
    }
}
