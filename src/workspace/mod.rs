//! The tracked files of a work tree as git's index describes them.

use crate::relpath::RelPath;

/// The stat data git keeps of a file, in its own 32-bit truncation (`gitformat-index(5)`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct IndexStat {
    /// Change time: seconds and nanoseconds.
    pub ctime: (i64, u32),
    /// Modification time: seconds and nanoseconds.
    pub mtime: (i64, u32),
    /// Device number.
    pub dev: u32,
    /// Inode number.
    pub ino: u32,
    /// Size in bytes.
    pub size: u32,
}

/// One entry of git's index.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Tracked {
    /// The path from the root.
    pub path: RelPath,
    /// The mode as git stores it, for example `0o100644`.
    pub mode: u32,
    /// The content's object id.
    pub oid: [u8; 20],
    /// What the file looked like when git last saw it with that content.
    pub stat: IndexStat,
}

/// All tracked files and the age of the index that lists them.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct TrackedFiles {
    /// The entries, sorted by path.
    pub entries: Vec<Tracked>,
    /// When the index was written; an entry at least as young may be stale.
    pub index_mtime: Option<(i64, u32)>,
}
