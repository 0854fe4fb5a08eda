//! Raw looks at folders and files by descriptor: names with their kinds, stamps, contents. Never follows a link.
//!
//! Linux and other Unix systems alike; only what a stamp is worth differs (a change time that a user cannot set is what the
//! comparison rests on).

use std::ffi::{CStr, CString};
use std::fs::File;
use std::io::{self, Read};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;

use rustix::fs::{AtFlags, Dir, FileType, Mode, OFlags, Stat};

/// What a name in a folder is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Folder,
    File,
    Link,
    /// A FIFO, socket or device; the word for it.
    Special(&'static str),
}

impl From<FileType> for Kind {
    fn from(kind: FileType) -> Self {
        match kind {
            FileType::Directory => Self::Folder,
            FileType::RegularFile => Self::File,
            FileType::Symlink => Self::Link,
            FileType::Fifo => Self::Special("a FIFO"),
            FileType::Socket => Self::Special("a socket"),
            FileType::CharacterDevice | FileType::BlockDevice => Self::Special("a device"),
            FileType::Unknown => Self::Special("of an unknown kind"),
        }
    }
}

/// What changes whenever a file does: as long as the stamp is the same, so is the content, unless the stamp was young when it
/// was taken. Times are seconds and nanoseconds since 1970.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Stamp {
    pub(super) ino: u64,
    pub(super) size: u64,
    pub(super) mode: u32,
    pub(super) mtime: (i64, u32),
    pub(super) ctime: (i64, u32),
}

impl Stamp {
    fn of(stat: &Stat) -> Self {
        Self {
            ino: number(stat.st_ino),
            size: number(stat.st_size),
            mode: number(stat.st_mode),
            mtime: (number(stat.st_mtime), number(stat.st_mtime_nsec)),
            ctime: (number(stat.st_ctime), number(stat.st_ctime_nsec)),
        }
    }

    pub(super) fn kind(&self) -> Kind {
        FileType::from_raw_mode(self.mode).into()
    }

    /// Git's executable bit: the owner's.
    pub(super) fn is_executable(&self) -> bool {
        self.mode & 0o100 != 0
    }

    /// Whether the file may have been written to after `moment` without its stamp saying so: its change time is no older
    /// than `moment` less a margin well over the kernel's clock tick (10 ms at most). A user cannot set the change time.
    pub(super) fn is_young(&self, moment: (i64, u32)) -> bool {
        const MARGIN: u32 = 50_000_000;
        let (seconds, nanos) = moment;
        let limit = match nanos.checked_sub(MARGIN) {
            Some(nanos) => (seconds, nanos),
            None => (seconds - 1, nanos + 1_000_000_000 - MARGIN),
        };
        self.ctime >= limit
    }
}

/// A field of the system's, whose type differs between platforms; all that are asked for fit.
fn number<From, To: TryFrom<From> + Default>(field: From) -> To {
    To::try_from(field).unwrap_or_default()
}

/// Now, by the clock that stamps files; for comparison with stamps only.
pub(super) fn file_clock() -> (i64, u32) {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::Realtime);
    (number(now.tv_sec), number(now.tv_nsec))
}

/// A name in a folder.
#[derive(Debug)]
pub(super) struct Item {
    pub(super) name: CString,
    pub(super) kind: Kind,
}

/// Opens a folder by its path; the last component may be a link.
pub(super) fn open_root(path: &Path) -> io::Result<OwnedFd> {
    Ok(rustix::fs::open(path, OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())?)
}

/// An open folder.
pub(super) struct Folder(Dir);

impl Folder {
    /// Opens the folder `name` inside `at`; refuses a link.
    pub(super) fn open(at: BorrowedFd<'_>, name: &CStr) -> io::Result<Self> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        Ok(Self(Dir::new(rustix::fs::openat(at, name, flags, Mode::empty())?)?))
    }

    pub(super) fn fd(&self) -> io::Result<BorrowedFd<'_>> {
        Ok(self.0.fd()?)
    }

    /// What the folder holds, sorted by name.
    pub(super) fn items(&mut self) -> io::Result<Vec<Item>> {
        let mut items = Vec::new();
        while let Some(entry) = self.0.read() {
            let entry = entry?;
            let name = entry.file_name();
            if name == c"." || name == c".." {
                continue;
            }
            let kind = match entry.file_type() {
                // Some file systems do not say; then the file itself does.
                FileType::Unknown => match stamp(self.0.fd()?, name)? {
                    Some(stamp) => stamp.kind(),
                    None => continue,
                },
                known => known.into(),
            };
            items.push(Item { name: name.to_owned(), kind });
        }
        items.sort_unstable_by(|a, b| a.name.cmp(&b.name));
        Ok(items)
    }
}

/// The stamp of `name` in `at` itself, a link included; `None` if there is no such name.
pub(super) fn stamp(at: BorrowedFd<'_>, name: &CStr) -> io::Result<Option<Stamp>> {
    match rustix::fs::statat(at, name, AtFlags::SYMLINK_NOFOLLOW) {
        Ok(stat) => Ok(Some(Stamp::of(&stat))),
        Err(rustix::io::Errno::NOENT) => Ok(None),
        Err(e) => Err(e.into()),
    }
}

/// Opens the regular file at `path` below `at` for reading, with its stamp; refuses links and whatever else it may have become.
pub(super) fn open_file(at: BorrowedFd<'_>, path: &Path) -> io::Result<(OwnedFd, Stamp)> {
    // NONBLOCK: the name may have become a FIFO since it was listed.
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC | OFlags::NOCTTY;
    let file = rustix::fs::openat(at, path, flags, Mode::empty())?;
    let stamp = stamp_of_open(file.as_fd())?;
    if stamp.kind() != Kind::File {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "it is no longer a regular file"));
    }
    Ok((file, stamp))
}

/// The content of the regular file `path` below `at`.
pub(super) fn read_file(at: BorrowedFd<'_>, path: &Path) -> io::Result<Vec<u8>> {
    let (file, stamp) = open_file(at, path)?;
    let mut content = Vec::with_capacity(usize::try_from(stamp.size).unwrap_or(0));
    File::from(file).read_to_end(&mut content)?;
    Ok(content)
}

/// The stamp of an open file.
pub(super) fn stamp_of_open(file: BorrowedFd<'_>) -> io::Result<Stamp> {
    Ok(Stamp::of(&rustix::fs::fstat(file)?))
}

/// The target of the link `path` below `at`, as it is written.
pub(super) fn link_target(at: BorrowedFd<'_>, path: &Path) -> io::Result<Vec<u8>> {
    Ok(rustix::fs::readlinkat(at, path, Vec::new())?.into_bytes())
}

#[cfg(test)]
mod tests {
    use super::Stamp;

    #[test]
    fn a_stamp_is_young_up_to_the_margin_before_the_moment_and_in_the_future() {
        let at = |ctime| Stamp { ctime, ..Stamp::default() };
        assert!(at((10, 0)).is_young((10, 50_000_000)));
        assert!(!at((10, 0)).is_young((10, 50_000_001)));
        assert!(at((9, 960_000_000)).is_young((10, 10_000_000)));
        assert!(at((99, 0)).is_young((10, 0)));
    }
}
