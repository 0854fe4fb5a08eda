//! Git's ignore rules, read at one moment and frozen: what a session writes into them hides nothing.
//!
//! Levels as in `gitignore(5)`: the `.gitignore` of the folder, then of its parents, then `info/exclude`, then
//! `core.excludesFile`; in one file the last line that matches decides. A `.gitignore` that is a link counts for nothing, as in git.

use std::collections::HashMap;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::Arc;

use ignore::Match;
use ignore::gitignore::{Gitignore, GitignoreBuilder};

/// The lines of one file of rules.
#[derive(Debug)]
pub(super) struct Patterns {
    text: Vec<u8>,
    matcher: Gitignore,
}

impl Patterns {
    fn parse(text: Vec<u8>) -> Self {
        let readable = String::from_utf8_lossy(&text);
        let mut builder = GitignoreBuilder::new("");
        // To git a class that nothing closes is a pattern that matches nothing.
        builder.allow_unclosed_class(false);
        for line in readable.trim_start_matches('\u{feff}').lines() {
            // A line that is no pattern matches nothing, to git as well.
            let _skipped = builder.add_line(None, &without_braces(line)).is_err();
        }
        let matcher = builder.build().unwrap_or_else(|_| Gitignore::empty());
        drop(readable);
        Self { text, matcher }
    }

    /// Whether `path`, relative to the folder of these rules, is ignored; `None` if no line speaks of it.
    fn verdict(&self, path: &[u8], is_folder: bool) -> Option<bool> {
        match self.matcher.matched(Path::new(OsStr::from_bytes(path)), is_folder) {
            Match::None => None,
            Match::Ignore(_) => Some(true),
            Match::Whitelist(_) => Some(false),
        }
    }
}

/// The line with braces escaped: git knows no alternatives, the matcher does.
fn without_braces(line: &str) -> String {
    let mut escaped = String::with_capacity(line.len() + 2);
    let (mut is_escaped, mut is_in_class) = (false, false);
    for c in line.chars() {
        if matches!(c, '{' | '}') && !is_escaped && !is_in_class {
            escaped.push('\\');
        }
        match c {
            '[' if !is_escaped => is_in_class = true,
            ']' => is_in_class = false,
            _ => {}
        }
        is_escaped = c == '\\' && !is_escaped;
        escaped.push(c);
    }
    escaped
}

/// All rules that were in force at one moment.
#[derive(Debug, Default)]
pub(super) struct Rules {
    /// Rules for the whole tree that weigh less than any `.gitignore`, the heaviest first.
    outer: Vec<Arc<Patterns>>,
    /// By folder: its path from the root, empty for the root.
    folders: HashMap<Vec<u8>, Arc<Patterns>>,
}

impl Rules {
    /// The same with the given rules from outside the tree.
    pub(super) fn with_outer(&self, outer: impl IntoIterator<Item = Option<Vec<u8>>>) -> Self {
        let outer = outer.into_iter().flatten().map(|text| {
            let known = self.outer.iter().find(|patterns| patterns.text == text);
            known.map_or_else(|| Arc::new(Patterns::parse(text)), Arc::clone)
        });
        Self { outer: outer.collect(), folders: self.folders.clone() }
    }

    /// The rules in a folder's `.gitignore`; not parsed again if they are the ones in this set.
    pub(super) fn parse_folder(&self, folder: &[u8], text: Vec<u8>) -> Arc<Patterns> {
        let known = self.of_folder(folder).filter(|patterns| patterns.text == text);
        known.unwrap_or_else(|| Arc::new(Patterns::parse(text)))
    }

    /// The folder's own rules.
    pub(super) fn of_folder(&self, folder: &[u8]) -> Option<Arc<Patterns>> {
        if self.folders.is_empty() { None } else { self.folders.get(folder).map(Arc::clone) }
    }

    /// Exchanges the rules of all folders.
    pub(super) fn with_folders(&self, folders: impl IntoIterator<Item = (Vec<u8>, Arc<Patterns>)>) -> Self {
        Self { outer: self.outer.clone(), folders: folders.into_iter().collect() }
    }

    /// Whether a file at `path`, from the root, is ignored, by itself or with a folder above it.
    pub(super) fn ignores_file(&self, path: &[u8]) -> bool {
        let mut level = None;
        let ends = path.iter().enumerate().filter(|(_, byte)| **byte == b'/').map(|(at, _)| at);
        for end in std::iter::once(0).chain(ends) {
            let folder = &path[..end];
            if !folder.is_empty() && self.is_ignored(folder, true, level.as_deref()) {
                return true;
            }
            if let Some(patterns) = self.of_folder(folder) {
                let prefix = if folder.is_empty() { 0 } else { folder.len() + 1 };
                level = Some(Arc::new(Level { above: level.take(), patterns, prefix }));
            }
        }
        self.is_ignored(path, false, level.as_deref())
    }

    /// Whether the rules say to ignore `path`, from the root; `level` are the rules of the folder it lies in. Whether a folder
    /// above it is ignored is the caller's to know.
    pub(super) fn is_ignored(&self, path: &[u8], is_folder: bool, mut level: Option<&Level>) -> bool {
        while let Some(here) = level {
            if let Some(verdict) = here.patterns.verdict(&path[here.prefix..], is_folder) {
                return verdict;
            }
            level = here.above.as_deref();
        }
        self.outer.iter().find_map(|patterns| patterns.verdict(path, is_folder)).unwrap_or(false)
    }
}

/// The rules of one folder, linked to those of the folders above that have any.
#[derive(Debug)]
pub(super) struct Level {
    pub(super) above: Option<Arc<Level>>,
    pub(super) patterns: Arc<Patterns>,
    /// How many bytes of a path from the root lead into this folder, the `/` included.
    pub(super) prefix: usize,
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::{Level, Rules};

    fn level(above: Option<&Arc<Level>>, prefix: usize, text: &str) -> Arc<Level> {
        let patterns = Rules::default().parse_folder(b"", text.into());
        Arc::new(Level { above: above.cloned(), patterns, prefix })
    }

    #[test]
    fn lines_mean_what_they_mean_to_git() {
        for (text, path, is_folder, expected) in [
            ("dist/", "dist", true, true),
            ("dist/", "dist", false, false),
            ("dist/", "src/dist", true, true),
            ("/dist/", "src/dist", true, false),
            ("*.log\n!keep.log", "a/keep.log", false, false),
            ("*.log\r\n", "a/b.log", false, true),
            ("# c\n\\#x", "#x", false, true),
            ("a{b,c}", "ab", false, false),
            ("a{b,c}", "a{b,c}", false, true),
            ("[{]x", "{x", false, true),
            ("[x", "[x", false, false),
            ("a/**/b", "a/x/y/b", false, true),
            ("\u{feff}x", "x", false, true),
            ("x  ", "x", false, true),
        ] {
            let ignored = Rules::default().is_ignored(path.as_bytes(), is_folder, Some(&level(None, 0, text)));
            assert_eq!(ignored, expected, "{text:?} on {path:?}");
        }
    }

    #[test]
    fn the_inner_folder_decides_before_the_outer_and_the_tree_before_the_rest() {
        let rules = Rules::default().with_outer([Some(b"*.tmp\n*.o".to_vec()), None]);
        let inner = level(Some(&level(None, 0, "*.log")), 2, "!x.log\n!y.tmp");
        let ignored = |path: &str| rules.is_ignored(path.as_bytes(), false, Some(&inner));
        assert_eq!(
            [ignored("a/x.log"), ignored("a/y.log"), ignored("a/y.tmp"), ignored("a/z.o")],
            [false, true, false, true]
        );
    }
}
