//! Which paths a session may change, and which of its changes were none of its business. Pure.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::change::{Changes, FindingKind};
use super::glob::{Glob, characters};
use crate::relpath::RelPath;

/// The paths a session may change.
#[derive(Debug, Clone)]
pub struct Scope(Vec<Glob>);

impl Scope {
    /// What any of the globs of a card matches, less what is never in scope.
    pub fn new(globs: &[String]) -> Self {
        Self(globs.iter().map(|glob| Glob::new(glob)).collect())
    }

    /// No path at all: a reviewer's scope.
    pub fn nothing() -> Self {
        Self(Vec::new())
    }

    /// Whether something at `path` or below it may be in scope, as far as the globs' beginnings tell.
    pub fn may_reach(&self, path: &RelPath) -> bool {
        let name = characters(path.as_bytes());
        self.0.iter().any(|glob| {
            let begins = glob.literal_beginning();
            name.starts_with(&begins) || begins.starts_with(&name)
        })
    }

    /// Whether the session may change `path`. `state/`, `planning/`, anything named `.git`, `.runner.lock` and
    /// `runner.local.json` never are in scope, whatever a glob says.
    pub fn contains(&self, path: &RelPath) -> bool {
        if is_never_in_scope(path) {
            return false;
        }
        let name = characters(path.as_bytes());
        self.0.iter().any(|glob| glob.matches_characters(&name))
    }
}

fn is_never_in_scope(path: &RelPath) -> bool {
    ["state", "planning", ".runner.lock", "runner.local.json"].iter().any(|place| path.is_in(place))
        // Git itself refuses this name in any case of letters, in every folder.
        || path.as_bytes().split(|byte| *byte == b'/').any(|part| part.eq_ignore_ascii_case(b".git"))
}

/// Why a change was not allowed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Why {
    /// The path is not in the session's scope.
    OutOfScope,
    /// The path is a link that leads out of the root, which no scope allows.
    LeavesRoot,
    /// Out of scope something appeared that cannot be compared.
    Unwatchable(FindingKind),
    /// In scope something appeared that nobody can look into, so that no commit could hold it.
    Unkeepable(FindingKind),
}

impl fmt::Display for Why {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::OutOfScope => f.write_str("is outside the scope"),
            Self::LeavesRoot => f.write_str("is a link that leads out of the root"),
            Self::Unkeepable(kind) => write!(f, "{kind}, so it cannot be committed"),
            Self::Unwatchable(kind) => write!(f, "is outside the scope and {kind}"),
        }
    }
}

/// A change that was not allowed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Violation {
    /// The path, from the root.
    pub path: RelPath,
    /// Why not.
    pub why: Why,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.why {
            Why::OutOfScope => write!(f, "{}", self.path),
            why => write!(f, "{} ({why})", self.path),
        }
    }
}

/// The changes that `scope` does not allow, sorted by path, each path once.
pub fn violations(changes: &Changes, scope: &Scope) -> Vec<Violation> {
    let edits = changes.changed.iter().filter_map(|change| {
        let why = if !scope.contains(&change.path) {
            Why::OutOfScope
        } else if change.leaves_root {
            Why::LeavesRoot
        } else {
            return None;
        };
        Some(Violation { path: change.path.clone(), why })
    });
    let found = changes.findings.iter().filter_map(|finding| {
        let why = match finding.kind {
            FindingKind::Vanished => return None,
            kind if !scope.contains(&finding.path) => Why::Unwatchable(kind),
            kind @ (FindingKind::Unreadable | FindingKind::TooDeep) => Why::Unkeepable(kind),
            FindingKind::NestedRepository | FindingKind::SpecialFile => return None,
        };
        Some(Violation { path: finding.path.clone(), why })
    });
    let mut violations: Vec<_> = edits.chain(found).collect();
    // Stable: where a path is both, the change comes first and stays.
    violations.sort_by(|a, b| a.path.cmp(&b.path));
    violations.dedup_by(|later, earlier| later.path == earlier.path);
    violations
}

#[cfg(test)]
mod tests {
    use super::{Scope, Violation, Why, violations};
    use crate::relpath::RelPath;
    use crate::workspace::{Change, ChangeKind, Changes, Finding, FindingKind};

    fn scope(globs: &[&str]) -> Scope {
        Scope::new(&globs.iter().map(|glob| (*glob).to_owned()).collect::<Vec<_>>())
    }

    fn change(path: &str, leaves_root: bool) -> Change {
        Change { path: path.into(), kind: ChangeKind::Created, is_link: leaves_root, leaves_root }
    }

    #[test]
    fn the_widest_glob_does_not_reach_what_belongs_to_the_coordinator_or_git() {
        let all = scope(&["*"]);
        for path in [
            "state/tasks/S00/S00-001.json",
            "planning/tasks/S00-001.json",
            "state",
            ".git/config",
            "src/.git/hooks/pre-commit",
            "src/.GIT",
            ".runner.lock",
            "runner.local.json",
        ] {
            assert!(!all.contains(&path.into()), "{path}");
        }
        for path in ["src/state/x", "stately", ".gitignore", "src/runner.local.json", "a/planning/x"] {
            assert!(all.contains(&path.into()), "{path}");
        }
    }

    #[test]
    fn a_star_crosses_folders_and_a_name_that_is_no_utf_8_is_matched() {
        assert!(scope(&["src/*"]).contains(&"src/a/b.ts".into()));
        assert!(scope(&["src/bad_?.txt"]).contains(&RelPath::new(b"src/bad_\xff.txt".to_vec())));
        assert!(!scope(&["src/*"]).contains(&RelPath::new(b"bad_\xff.txt".to_vec())));
        assert!(!Scope::nothing().contains(&"src/a".into()));
    }

    #[test]
    fn a_link_out_of_the_root_is_a_violation_even_in_scope() {
        let changes = Changes { changed: vec![change("src/a", false), change("src/l", true)], findings: vec![] };
        let expected = [Violation { path: "src/l".into(), why: Why::LeavesRoot }];
        assert_eq!(violations(&changes, &scope(&["src/*"])), expected);
    }

    #[test]
    fn what_cannot_be_watched_counts_out_of_scope_and_what_cannot_be_committed_everywhere() {
        let finding = |path: &str, kind| Finding { path: path.into(), kind, detail: String::new() };
        let changes = Changes {
            changed: vec![change("docs/x", true)],
            findings: vec![
                finding("docs/fifo", FindingKind::SpecialFile),
                finding("docs/gone", FindingKind::Vanished),
                finding("docs/x", FindingKind::Unreadable),
                finding("src/deep", FindingKind::TooDeep),
                finding("src/fifo", FindingKind::SpecialFile),
            ],
        };
        let expected = [
            Violation { path: "docs/fifo".into(), why: Why::Unwatchable(FindingKind::SpecialFile) },
            Violation { path: "docs/x".into(), why: Why::OutOfScope },
            Violation { path: "src/deep".into(), why: Why::Unkeepable(FindingKind::TooDeep) },
        ];
        assert_eq!(violations(&changes, &scope(&["src/*"])), expected);
    }
}
