//! Tells when the task's row was touched, by a watch on its folder: a watch on the file would die with its first replacement.

use std::ffi::OsString;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

/// Sources of events kept for the next session: closing one waits some ten milliseconds for the kernel to settle.
static IDLE: Mutex<Vec<OwnedFd>> = Mutex::new(Vec::new());

/// A source of file events, new or one that was given back.
pub(crate) fn take_source() -> Option<OwnedFd> {
    let idle = IDLE.lock().unwrap_or_else(PoisonError::into_inner).pop();
    idle.or_else(new_source)
}

/// Keeps a source whose watches are removed for the next session.
pub(crate) fn give_source(source: Option<OwnedFd>) {
    IDLE.lock().unwrap_or_else(PoisonError::into_inner).extend(source);
}

/// A watch on one row.
#[derive(Debug)]
#[cfg_attr(not(target_os = "linux"), expect(dead_code, reason = "without a watch nobody asks for which row it is"))]
pub(crate) struct RowWatch {
    folder: PathBuf,
    name: OsString,
    source: Option<OwnedFd>,
    /// The kernel's number of the watch on the folder, while there is one. A source never gives a number twice.
    watch: Option<i32>,
}

impl RowWatch {
    /// Watches from now on, if the folder exists and the system can.
    pub(crate) fn new(row: &Path) -> Self {
        let folder = row.parent().unwrap_or(Path::new("/")).to_owned();
        let name = row.file_name().unwrap_or_default().to_owned();
        let mut watch = Self { folder, name, source: take_source(), watch: None };
        watch.arm();
        watch
    }

    /// Readable when something happened in the folder; `None` while only looking helps.
    pub(crate) fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        self.source.as_ref().filter(|_| self.watch.is_some()).map(AsFd::as_fd)
    }

    /// Whether the row may have changed since the last call. Without a watch it always may.
    pub(crate) fn was_touched(&mut self) -> bool {
        let was_armed = self.watch.is_some();
        let seen = was_armed && self.drain();
        if self.watch.is_none() {
            self.arm();
        }
        seen || !was_armed
    }
}

impl Drop for RowWatch {
    fn drop(&mut self) {
        self.disarm();
        give_source(self.source.take());
    }
}

#[cfg(target_os = "linux")]
fn new_source() -> Option<OwnedFd> {
    use rustix::fs::inotify::{CreateFlags, init};
    init(CreateFlags::CLOEXEC | CreateFlags::NONBLOCK).ok()
}

#[cfg(not(target_os = "linux"))]
fn new_source() -> Option<OwnedFd> {
    None
}

#[cfg(target_os = "linux")]
impl RowWatch {
    fn arm(&mut self) {
        use rustix::fs::inotify::{WatchFlags, add_watch};
        let wanted = WatchFlags::MOVED_TO
            | WatchFlags::CLOSE_WRITE
            | WatchFlags::CREATE
            | WatchFlags::DELETE_SELF
            | WatchFlags::MOVE_SELF
            | WatchFlags::ONLYDIR;
        self.watch = self.source.as_ref().and_then(|source| add_watch(source, &self.folder, wanted).ok());
    }

    fn disarm(&mut self) {
        if let (Some(source), Some(watch)) = (&self.source, self.watch.take()) {
            // One whose folder is gone is gone already.
            let _removed = rustix::fs::inotify::remove_watch(source, watch);
        }
    }

    /// Takes all events; whether one may concern the row.
    fn drain(&mut self) -> bool {
        use std::os::unix::ffi::OsStrExt;

        use rustix::fs::inotify::{ReadFlags, Reader};
        let folder_is_gone = ReadFlags::DELETE_SELF | ReadFlags::MOVE_SELF | ReadFlags::IGNORED;
        let Some(source) = &self.source else { return true };
        let mut buffer = [std::mem::MaybeUninit::uninit(); 4096];
        let mut events = Reader::new(source.as_fd(), &mut buffer);
        let (mut seen, mut lost) = (false, false);
        while let Ok(event) = events.next() {
            let overflowed = event.events().contains(ReadFlags::QUEUE_OVERFLOW);
            if overflowed || Some(event.wd()) == self.watch {
                lost |= event.events().intersects(folder_is_gone);
                seen |= event.file_name().is_none_or(|name| name.to_bytes() == self.name.as_bytes());
            }
        }
        if lost {
            // The old folder may live on elsewhere; only what has the folder's name now counts.
            self.disarm();
        }
        seen || lost
    }
}

#[cfg(not(target_os = "linux"))]
impl RowWatch {
    fn arm(&mut self) {}

    fn disarm(&mut self) {}

    fn drain(&mut self) -> bool {
        true
    }
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::RowWatch;
    use crate::fs;

    #[test]
    fn only_the_row_itself_is_news() {
        let folder = tempfile::tempdir().unwrap();
        let row = folder.path().join("S00-001.json");
        fs::replace(&row, b"1").unwrap();
        let mut watch = RowWatch::new(&row);
        assert!(watch.descriptor().is_some() && !watch.was_touched());
        fs::replace(&folder.path().join("S00-002.json"), b"1").unwrap();
        assert!(!watch.was_touched(), "another row is not ours");
        fs::replace(&row, b"2").unwrap();
        assert!(watch.was_touched());
        fs::replace(&row, b"3").unwrap();
        assert!(watch.was_touched(), "the watch outlives a replacement");
        assert!(!watch.was_touched());
    }

    #[test]
    fn a_watch_hears_nothing_meant_for_the_one_before() {
        let folder = tempfile::tempdir().unwrap();
        let row = folder.path().join("row");
        for round in 0..10_u8 {
            let mut watch = RowWatch::new(&row);
            assert!(!watch.was_touched());
            fs::replace(&row, &[round]).unwrap();
        }
    }

    #[test]
    fn a_folder_that_comes_later_or_comes_again_is_watched() {
        let top = tempfile::tempdir().unwrap();
        let row = top.path().join("S00/S00-001.json");
        let mut watch = RowWatch::new(&row);
        assert!(watch.descriptor().is_none() && watch.was_touched(), "without a watch one has to look");
        fs::replace(&row, b"1").unwrap();
        assert!(watch.was_touched() && watch.descriptor().is_some());
        fs::remove_folder(&top.path().join("S00")).unwrap();
        assert!(watch.was_touched() && watch.descriptor().is_none());
        fs::replace(&row, b"2").unwrap();
        assert!(watch.was_touched() && watch.descriptor().is_some());
        fs::replace(&row, b"3").unwrap();
        assert!(watch.was_touched());
    }
}
