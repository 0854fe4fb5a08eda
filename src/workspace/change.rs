//! What a comparison says: changes and findings. Values only.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::relpath::RelPath;

/// How a path differs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ChangeKind {
    /// It was not there before.
    Created,
    /// Its content, or the target of the link, differs; its mode may too.
    Modified,
    /// It is gone.
    Deleted,
    /// Only its mode differs: the executable bit in the work tree, any permission of a guarded file.
    ModeChanged,
    /// It is another kind of thing: a file became a link, or the reverse.
    TypeChanged,
}

impl fmt::Display for ChangeKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Created => "created",
            Self::Modified => "modified",
            Self::Deleted => "deleted",
            Self::ModeChanged => "mode changed",
            Self::TypeChanged => "type changed",
        })
    }
}

/// One path that differs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Change {
    /// The path, from the root.
    pub path: RelPath,
    /// How it differs.
    pub kind: ChangeKind,
    /// Whether it is a symbolic link now (before, if it is gone).
    pub is_link: bool,
    /// Whether it is a link that leads out of the root; an absolute target always does.
    pub leaves_root: bool,
}

/// Something in the tree that cannot be watched as a file is, or could not be read.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Finding {
    /// The path, from the root.
    pub path: RelPath,
    /// What it is.
    pub kind: FindingKind,
    /// What the system said, or what kind of thing it is; may be empty.
    pub detail: String,
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.path, self.kind)?;
        if self.detail.is_empty() { Ok(()) } else { write!(f, " ({})", self.detail) }
    }
}

/// The kinds of findings.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FindingKind {
    /// A file or folder that cannot be read: nothing is known about what it holds.
    Unreadable,
    /// A folder too far down to be entered: nothing is known about what it holds.
    TooDeep,
    /// It was there when the walk came by, and gone when its content was to be read.
    Vanished,
    /// A folder that is a git repository of its own and no submodule. Its files are watched.
    NestedRepository,
    /// A FIFO, socket or device.
    SpecialFile,
}

impl fmt::Display for FindingKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Unreadable => "cannot be read",
            Self::TooDeep => "lies too many folders deep",
            Self::Vanished => "vanished while it was read",
            Self::NestedRepository => "is a git repository inside the work tree",
            Self::SpecialFile => "is neither a file nor a folder nor a link",
        })
    }
}

/// What differs between two moments, sorted by path.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Changes {
    /// The paths that differ.
    pub changed: Vec<Change>,
    /// Findings that were not there at the first moment.
    pub findings: Vec<Finding>,
}
