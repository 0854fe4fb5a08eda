//! The files git tracks, as its index describes them: handed in by the room that opens the repository.

use super::content::{ContentId, EMPTY};
use super::folder::Stamp;
use crate::relpath::RelPath;

/// The mode of a submodule's entry.
pub(super) const SUBMODULE: u32 = 0o160_000;

/// The part of a mode that says what kind of thing an entry is.
pub(super) const KIND: u32 = 0o170_000;

/// The kind of a link's mode.
pub(super) const LINK: u32 = 0o120_000;

/// Stat data of an index entry (`gitformat-index(5)`), of which git keeps 32 bits each. Times are seconds and nanoseconds.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct IndexStat {
    /// Time of the last change of the file's metadata.
    pub ctime: (i64, u32),
    /// Time of the last change of its content.
    pub mtime: (i64, u32),
    /// Device; not compared, as git does not: it may differ after a restart.
    pub dev: u32,
    /// Inode number, cut to 32 bits.
    pub ino: u32,
    /// Size in bytes, cut to 32 bits.
    pub size: u32,
}

/// One entry of the index.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Tracked {
    /// The path, from the root.
    pub path: RelPath,
    /// `0o100644`, `0o100755`, `0o120000` for a link, `0o160000` for a submodule.
    pub mode: u32,
    /// The blob, or a submodule's commit.
    pub oid: [u8; 20],
    /// What the file's stat data were when git last saw `oid` in it.
    pub stat: IndexStat,
}

impl Tracked {
    /// Whether the index vouches that a file with this stamp holds `oid`. An entry written no earlier than the index itself may
    /// have changed in the same tick and is vouched for by nothing ("racy git" in git's documentation).
    pub(super) fn vouches_for(&self, stamp: &Stamp, index_mtime: Option<(i64, u32)>) -> bool {
        let same_time =
            |index: (i64, u32), file: (i64, u32)| low_bits(index.0) == low_bits(file.0) && index.1 == file.1;
        let is_settled = index_mtime.is_some_and(|index| stamp.mtime < index);
        is_settled
            && same_time(self.stat.mtime, stamp.mtime)
            && same_time(self.stat.ctime, stamp.ctime)
            && u64::from(self.stat.ino) == stamp.ino & 0xffff_ffff
            && u64::from(self.stat.size) == stamp.size & 0xffff_ffff
            // Size 0 is how git marks an entry it does not trust.
            && (self.stat.size != 0 || self.oid == EMPTY)
    }

    pub(super) fn content(&self) -> ContentId {
        self.oid
    }
}

/// The 32 bits that git keeps of a time.
fn low_bits(seconds: i64) -> i64 {
    seconds & 0xffff_ffff
}

/// The index.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TrackedFiles {
    /// The entries, sorted bytewise by path, each path once.
    pub entries: Vec<Tracked>,
    /// When the index file was last written; `None` if unknown, and then no stat data are trusted.
    pub index_mtime: Option<(i64, u32)>,
}

#[cfg(test)]
mod tests {
    use super::{IndexStat, Tracked};
    use crate::workspace::folder::Stamp;

    const STAMP: Stamp = Stamp { ino: (7 << 32) | 9, size: 5, mode: 0o100_644, mtime: (100, 5), ctime: (101, 6) };

    fn tracked(stat: IndexStat) -> Tracked {
        Tracked { path: "a".into(), mode: 0o100_644, oid: [1; 20], stat }
    }

    #[test]
    fn the_index_vouches_only_for_the_stat_data_it_knows_and_only_if_it_is_younger() {
        let stat = IndexStat { ctime: (101, 6), mtime: (100, 5), dev: 3, ino: 9, size: 5 };
        assert!(tracked(stat).vouches_for(&STAMP, Some((100, 6))));
        for index_mtime in [None, Some((100, 5)), Some((99, 0))] {
            assert!(!tracked(stat).vouches_for(&STAMP, index_mtime));
        }
        for other in [
            IndexStat { ctime: (101, 7), ..stat },
            IndexStat { mtime: (100, 0), ..stat },
            IndexStat { ino: 8, ..stat },
            IndexStat { size: 4, ..stat },
        ] {
            assert!(!tracked(other).vouches_for(&STAMP, Some((200, 0))));
        }
    }

    #[test]
    fn an_entry_that_git_marked_as_doubtful_vouches_for_nothing() {
        let stat = IndexStat { ctime: (101, 6), mtime: (100, 5), dev: 3, ino: 9, size: 0 };
        assert!(!tracked(stat).vouches_for(&Stamp { size: 0, ..STAMP }, Some((200, 0))));
    }
}
