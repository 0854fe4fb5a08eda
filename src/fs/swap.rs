//! Files put in the place of others in a folder where a person may be editing: what was changed meanwhile is never lost, and all
//! of it can be taken back.
//!
//! A file is exchanged with the new one in one step (`renameat2(2)`, `RENAME_EXCHANGE`) and only then looked at: if it is not the
//! one that was expected, the exchange is undone. Never follows a link.

use std::fs::Metadata;
use std::io::{self, Write};
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};

use rustix::fs::{CWD, RenameFlags, renameat_with};
use rustix::io::Errno;

use super::{FileError, Result, folder_of, make_folder, remove_empty_folders, sync_folder};

/// What is put at a path.
#[derive(Debug, Clone)]
pub enum Piece {
    /// A file; whether it is executable.
    File(Vec<u8>, bool),
    /// A link to this target.
    Link(PathBuf),
}

/// One change that can still be taken back; dropping it makes it final.
#[derive(Debug)]
#[must_use = "dropping it throws away what was there before"]
pub struct Swap {
    path: PathBuf,
    /// What was there before, if there was anything.
    before: Option<tempfile::TempPath>,
    /// Whether something is there now.
    is_filled: bool,
}

/// Puts `piece` at `path`, where the file `expected` (or nothing) is believed to be; `None` if something else is there, which
/// then is as it was. `scratch` is a folder on the same file system.
pub fn put(path: &Path, piece: &Piece, (expected, scratch): (Option<&Metadata>, &Path)) -> Result<Option<Swap>> {
    let fail = |e: io::Error| FileError::new("write", path, e);
    let fresh = prepare(piece, scratch)?;
    if make_folder(folder_of(path)).is_err() {
        // Something on the way is no folder.
        return Ok(None);
    }
    let Some(expected) = expected else {
        return match rename(&fresh, path, RenameFlags::NOREPLACE) {
            Ok(()) => {
                let _moved_away = fresh.keep();
                Ok(Some(Swap { path: path.to_owned(), before: None, is_filled: true }))
            }
            Err(Errno::EXIST | Errno::NOTDIR) => Ok(None),
            Err(e) => Err(fail(e.into())),
        };
    };
    match rename(&fresh, path, RenameFlags::EXCHANGE) {
        Ok(()) => {}
        Err(Errno::NOENT | Errno::NOTDIR) => return Ok(None),
        Err(e) => return Err(fail(e.into())),
    }
    if is_same(&fresh, expected) {
        return Ok(Some(Swap { path: path.to_owned(), before: Some(fresh), is_filled: true }));
    }
    rename(&fresh, path, RenameFlags::EXCHANGE).map_err(|e| fail(e.into()))?;
    Ok(None)
}

/// Takes the file `expected` away from `path`; `None` if something else is there, which then is as it was.
pub fn take(path: &Path, expected: &Metadata, scratch: &Path) -> Result<Option<Swap>> {
    let fail = |e: io::Error| FileError::new("remove", path, e);
    let taken = prepare(&Piece::File(Vec::new(), false), scratch)?;
    match rename(path, &taken, RenameFlags::empty()) {
        Ok(()) => {}
        Err(Errno::NOENT | Errno::NOTDIR | Errno::ISDIR) => return Ok(None),
        Err(e) => return Err(fail(e.into())),
    }
    if is_same(&taken, expected) {
        return Ok(Some(Swap { path: path.to_owned(), before: Some(taken), is_filled: false }));
    }
    rename(&taken, path, RenameFlags::NOREPLACE).map_err(|e| fail(e.into()))?;
    let _moved_away = taken.keep();
    Ok(None)
}

impl Swap {
    /// Makes it as it was before; folders that only the new file needed go, up to `top`.
    pub fn undo(self, top: &Path) -> Result<()> {
        let Self { path, before, is_filled } = self;
        let fail = |e: Errno| FileError::new("put back", &path, e.into());
        match before {
            Some(before) if is_filled => rename(&before, &path, RenameFlags::EXCHANGE).map_err(fail),
            Some(before) => {
                make_folder(folder_of(&path))?;
                rename(&before, &path, RenameFlags::NOREPLACE).map_err(fail)?;
                let _moved_away = before.keep();
                Ok(())
            }
            None => {
                super::remove(&path)?;
                remove_empty_folders(&path, top);
                Ok(())
            }
        }
    }

    /// Makes the change durable, as far as names go.
    pub fn sync(&self) -> Result<()> {
        let folder = folder_of(&self.path);
        if folder.is_dir() { sync_folder(folder) } else { Ok(()) }
    }
}

/// The piece under a name of its own in `scratch`, on disk; removed again if it is not moved away.
fn prepare(piece: &Piece, scratch: &Path) -> Result<tempfile::TempPath> {
    let fail = |e| FileError::new("write a file in", scratch, e);
    make_folder(scratch)?;
    match piece {
        Piece::Link(target) => {
            let made = tempfile::Builder::new().make_in(scratch, |path| symlink(target, path)).map_err(fail)?;
            Ok(made.into_temp_path())
        }
        Piece::File(bytes, executable) => {
            let mode = if *executable { 0o777 } else { 0o666 };
            let permissions = std::fs::Permissions::from_mode(mode);
            let mut file = tempfile::Builder::new().permissions(permissions).tempfile_in(scratch).map_err(fail)?;
            file.write_all(bytes).and_then(|()| file.as_file().sync_all()).map_err(fail)?;
            Ok(file.into_temp_path())
        }
    }
}

fn rename(from: &Path, to: &Path, flags: RenameFlags) -> Result<(), Errno> {
    renameat_with(CWD, from, CWD, to, flags)
}

/// Whether this is the very file that was looked at, unchanged. A rename changes the change time, so that is not compared.
fn is_same(path: &Path, expected: &Metadata) -> bool {
    let stamp = |m: &Metadata| (m.ino(), m.dev(), m.mode(), m.size(), m.mtime(), m.mtime_nsec());
    path.symlink_metadata().is_ok_and(|found| stamp(&found) == stamp(expected))
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Place(tempfile::TempDir);

    impl Place {
        fn with(files: &[(&str, &str)]) -> Self {
            let place = Self(tempfile::tempdir().unwrap());
            for (name, text) in files {
                super::super::replace(&place.at(name), text.as_bytes()).unwrap();
            }
            place
        }

        fn at(&self, name: &str) -> PathBuf {
            self.0.path().join(name)
        }

        fn put(&self, name: &str, text: &str, expected: Option<&Metadata>) -> Option<Swap> {
            put(&self.at(name), &Piece::File(text.into(), false), (expected, &self.at("scratch"))).unwrap()
        }

        fn text(&self, name: &str) -> Option<String> {
            let bytes = super::super::read_if_present(&self.at(name)).unwrap()?;
            Some(String::from_utf8(bytes).unwrap())
        }

        fn scratch_is_empty(&self) -> bool {
            super::super::list(&self.at("scratch")).unwrap().unwrap_or_default().is_empty()
        }
    }

    #[test]
    fn the_expected_file_is_replaced_and_can_be_had_back() {
        let place = Place::with(&[("a", "old")]);
        let expected = place.at("a").symlink_metadata().unwrap();
        let swap = place.put("a", "new", Some(&expected)).unwrap();
        assert_eq!(place.text("a").unwrap(), "new");
        swap.undo(place.0.path()).unwrap();
        assert_eq!(place.text("a").unwrap(), "old");
        drop(place.put("a", "new", Some(&expected)).unwrap());
        assert_eq!(place.text("a").unwrap(), "new");
        assert!(place.scratch_is_empty());
    }

    #[test]
    fn what_somebody_wrote_meanwhile_stays() {
        let place = Place::with(&[("a", "old"), ("b", "old")]);
        let looked = |name: &str| place.at(name).symlink_metadata().unwrap();
        let (a, b) = (looked("a"), looked("b"));
        for name in ["a", "b"] {
            super::super::replace(&place.at(name), b"theirs").unwrap();
        }
        assert!(place.put("a", "new", Some(&a)).is_none());
        assert!(take(&place.at("b"), &b, &place.at("scratch")).unwrap().is_none());
        assert!(place.put("a", "new", None).is_none(), "where nothing was expected, too");
        assert!(place.put("a/below", "new", None).is_none(), "a file where a folder is needed");
        assert_eq!((place.text("a").unwrap(), place.text("b").unwrap()), ("theirs".to_owned(), "theirs".to_owned()));
        assert!(place.scratch_is_empty());
    }

    #[test]
    fn a_new_file_and_a_removed_one_can_be_taken_back() {
        let place = Place::with(&[("gone/b", "old")]);
        let made = place.put("deep/er/a", "new", None).unwrap();
        let expected = place.at("gone/b").symlink_metadata().unwrap();
        let taken = take(&place.at("gone/b"), &expected, &place.at("scratch")).unwrap().unwrap();
        assert_eq!((place.text("deep/er/a").unwrap(), place.text("gone/b")), ("new".to_owned(), None));
        made.undo(place.0.path()).unwrap();
        taken.undo(place.0.path()).unwrap();
        assert!(!place.at("deep").exists());
        assert_eq!(place.text("gone/b").unwrap(), "old");
    }

    #[test]
    fn a_link_is_put_as_a_link() {
        let place = Place::with(&[]);
        let made = put(&place.at("l"), &Piece::Link("a b".into()), (None, &place.at("scratch"))).unwrap().unwrap();
        made.sync().unwrap();
        drop(made);
        assert_eq!(std::fs::read_link(place.at("l")).unwrap(), Path::new("a b"));
    }
}
