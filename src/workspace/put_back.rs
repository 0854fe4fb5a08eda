//! Puts guarded files back as they were. What a session had made of them is kept first; nothing is discarded.
//!
//! Never writes through a link: before a file is restored every folder on its way is looked at.

use std::collections::BTreeSet;
use std::error::Error;
use std::ffi::OsStr;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::change::ChangeKind;
use super::guard::{Area, Entry, Guard, Guarded, GuardedPath, Held, Tampering};
use crate::fs;

/// What became of one guarded file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Kept {
    /// The file.
    pub path: GuardedPath,
    /// Where the session's version of it lies now, if there was one with a content of its own.
    pub copy: Option<PathBuf>,
    /// Why it is not as it was before the session, and what to do; `None` if it is.
    pub failure: Option<String>,
}

/// A step of putting a file back that failed.
#[derive(Debug, thiserror::Error)]
enum PutBackError {
    #[error("it was never held, being too large or unreadable; restore {} by hand", .0.display())]
    NotHeld(PathBuf),
    #[error("{} is in the way and no folder; take it away and restore {} by hand", .in_the_way.display(), .path.display())]
    Blocked { in_the_way: PathBuf, path: PathBuf },
    #[error("cannot {action} {}; do it by hand", path.display())]
    System { action: &'static str, path: PathBuf, source: io::Error },
    #[error(transparent)]
    File(#[from] fs::FileError),
}

impl Guard {
    /// Puts back the tampered files as they were at `before`; first the session's versions are kept below the folder `keep`.
    ///
    /// Goes on after a failure: each file says for itself whether it is as it was.
    pub fn put_back(&self, before: &Guarded, tampering: &[Tampering], keep: &Path) -> Vec<Kept> {
        // What is in the way of another file goes first: a link where a folder was, a folder where a file was.
        let mut kept: Vec<Kept> = tampering.iter().map(|tampering| self.clear(before, tampering, keep)).collect();
        for (kept, tampering) in kept.iter_mut().zip(tampering).filter(|(kept, _)| kept.failure.is_none()) {
            let (Some(entry), Some(base)) = (before.entry(&kept.path), self.base(kept.path.area)) else { continue };
            if let Err(e) = restore(base, entry, tampering.kind) {
                kept.failure = Some(with_causes(&e));
            }
        }
        kept
    }

    /// Keeps the session's version, and takes away what had no place there before.
    fn clear(&self, before: &Guarded, tampering: &Tampering, keep: &Path) -> Kept {
        let path = tampering.path.clone();
        let mut kept = Kept { path, copy: None, failure: None };
        let Some(base) = self.base(kept.path.area) else { return kept };
        let at = kept.path.path.under(base);
        let has_version = !matches!(tampering.kind, ChangeKind::Deleted | ChangeKind::ModeChanged);
        if !has_version || at.symlink_metadata().is_err() {
            return kept;
        }
        let outcome = set_aside(&at, &kept.path, keep).map(|copy| kept.copy = Some(copy));
        // A file that is still a file is replaced in one step later, and is never missing in between.
        let goes = tampering.kind != ChangeKind::Modified;
        let outcome = outcome.and_then(|()| {
            if goes && at.symlink_metadata().is_ok() {
                fs::remove(&at)?;
            }
            Ok(())
        });
        if let Err(e) = outcome {
            kept.failure = Some(with_causes(&e));
        } else if goes {
            remove_new_folders(base, &kept.path, &before.folders);
        }
        kept
    }
}

/// The error and what caused it, in one line.
fn with_causes(error: &dyn Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        text.push_str(&format!(": {error}"));
        cause = error.source();
    }
    text
}

/// Keeps what lies at `at` under a name of its own in `keep`: a second name for the same file where the file system can,
/// otherwise a copy. A folder that could not be looked into is moved.
fn set_aside(at: &Path, path: &GuardedPath, keep: &Path) -> Result<PathBuf, PutBackError> {
    let area = match path.area {
        Area::Root => "root",
        Area::GitOwn => "git",
        Area::GitCommon => "git-common",
    };
    let wanted = path.path.under(&keep.join(area));
    fs::make_folder(wanted.parent().unwrap_or(keep))?;
    let mut copy = wanted.clone();
    let mut number = 1;
    while copy.symlink_metadata().is_ok() {
        number += 1;
        let mut name = wanted.as_os_str().to_owned();
        name.push(format!(".{number}"));
        copy = name.into();
    }
    let fail = |source| PutBackError::System { action: "keep", path: at.to_owned(), source };
    let kind = at.symlink_metadata().map_err(fail)?.file_type();
    if kind.is_dir() {
        std::fs::set_permissions(at, std::fs::Permissions::from_mode(0o700)).map_err(fail)?;
        rustix::fs::rename(at, &copy).map_err(|e| fail(e.into()))?;
        return Ok(copy);
    }
    let linked = std::fs::hard_link(at, &copy);
    match linked {
        Ok(()) => {}
        Err(_) if kind.is_symlink() => {
            let target = std::fs::read_link(at).map_err(fail)?;
            symlink(target, &copy).map_err(fail)?;
        }
        Err(_) if kind.is_file() => {
            std::fs::copy(at, &copy).map_err(fail)?;
            fs::open_to_read(&copy)?.sync_all().map_err(fail)?;
        }
        Err(e) => return Err(fail(e)),
    }
    Ok(copy)
}

/// Removes the folders above `path` that are empty now and were not there before.
fn remove_new_folders(base: &Path, path: &GuardedPath, before: &BTreeSet<GuardedPath>) {
    let mut folder = path.path.as_path().parent();
    while let Some(here) = folder.filter(|here| !here.as_os_str().is_empty()) {
        let guarded = GuardedPath { area: path.area, path: here.into() };
        if before.contains(&guarded) || std::fs::remove_dir(base.join(here)).is_err() {
            return;
        }
        folder = here.parent();
    }
}

/// Makes the file what it was.
fn restore(base: &Path, entry: &Entry, kind: ChangeKind) -> Result<(), PutBackError> {
    let at = entry.path.path.under(base);
    let fail = |source| PutBackError::System { action: "restore", path: at.clone(), source };
    check_way(base, &entry.path, &at)?;
    match &entry.held {
        _ if kind == ChangeKind::ModeChanged => {}
        Held::Content(content) => fs::replace_with_mode(&at, content, entry.stamp.mode & 0o777)?,
        Held::Link(target) => {
            fs::make_folder(at.parent().unwrap_or(base))?;
            fs::remove(&at)?;
            symlink(OsStr::from_bytes(target), &at).map_err(fail)?;
        }
        Held::Digest(_) | Held::Opaque => return Err(PutBackError::NotHeld(at)),
    }
    if let Some(mode) = entry.permissions() {
        std::fs::set_permissions(&at, std::fs::Permissions::from_mode(mode)).map_err(fail)?;
    }
    Ok(())
}

/// Refuses a way on which something is no folder: the file would be written somewhere else.
fn check_way(base: &Path, path: &GuardedPath, at: &Path) -> Result<(), PutBackError> {
    let folders = path.path.as_path().ancestors().skip(1).filter(|folder| !folder.as_os_str().is_empty());
    for folder in folders {
        let folder = base.join(folder);
        if folder.symlink_metadata().is_ok_and(|meta| !meta.is_dir()) {
            return Err(PutBackError::Blocked { in_the_way: folder, path: at.to_owned() });
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    #![expect(clippy::disallowed_methods, reason = "the tests do what agents do")]

    use std::fs;
    use std::os::unix::fs::{PermissionsExt, symlink};
    use std::path::Path;

    use rustix::fs::{CWD, Mode, mkfifoat};

    use crate::project::Project;
    use crate::workspace::{Guard, GuardedPath, Kept, Tampering};

    struct Place {
        root: tempfile::TempDir,
        guard: Guard,
    }

    impl Place {
        fn new(files: &[(&str, &str)]) -> Self {
            let root = tempfile::tempdir().unwrap();
            for folder in ["planning", "state", ".git/refs/heads", ".git/hooks"] {
                fs::create_dir_all(root.path().join(folder)).unwrap();
            }
            let guard = Guard::new(&Project::open(root.path()).unwrap());
            let place = Self { root, guard };
            place.write(".git/HEAD", "ref: refs/heads/main\n");
            files.iter().for_each(|(path, content)| place.write(path, content));
            place
        }

        fn at(&self, path: &str) -> std::path::PathBuf {
            self.root.path().join(path)
        }

        fn write(&self, path: &str, content: &str) {
            fs::create_dir_all(self.at(path).parent().unwrap()).unwrap();
            fs::write(self.at(path), content).unwrap();
        }

        fn read(&self, path: &str) -> String {
            fs::read_to_string(self.at(path)).unwrap()
        }

        fn mode(&self, path: &str) -> u32 {
            fs::symlink_metadata(self.at(path)).unwrap().permissions().mode() & 0o7777
        }

        /// What is seen of `act`, and what putting it back came to; afterwards nothing may differ any more.
        fn undo(&mut self, act: impl FnOnce(&Self)) -> (Vec<String>, Vec<Kept>) {
            let before = self.guard.take().unwrap();
            act(self);
            let found = self.guard.tampering_since(&before, &|_| false).unwrap();
            let kept = self.guard.put_back(&before, &found, &self.at("state/runs/a/1/kept"));
            assert_eq!(self.guard.tampering_since(&before, &|_| false).unwrap(), [], "{kept:?}");
            (shown(&found), kept)
        }
    }

    fn shown(tampering: &[Tampering]) -> Vec<String> {
        tampering.iter().map(|tampering| format!("{} {}", tampering.path, tampering.kind)).collect()
    }

    fn copy_of(kept: &[Kept], path: &str) -> String {
        let kept = kept.iter().find(|kept| kept.path.to_string() == path).unwrap();
        assert_eq!(kept.failure, None);
        fs::read_to_string(kept.copy.as_ref().unwrap()).unwrap()
    }

    #[test]
    fn every_kind_of_tampering_is_named_kept_and_put_back() {
        let mut place = Place::new(&[
            ("state/tasks/S00/S00-001.json", "row"),
            ("state/tasks/S00/S00-002.json", "row"),
            ("planning/tasks/S00-001.json", "card"),
            ("runner.local.json", "{}"),
            (".git/config", "[core]"),
            (".git/refs/heads/main", "c0ffee"),
        ]);
        fs::set_permissions(place.at("runner.local.json"), fs::Permissions::from_mode(0o600)).unwrap();
        symlink("S00-001.json", place.at("planning/tasks/link")).unwrap();
        let (found, kept) = place.undo(|place| {
            place.write("state/tasks/S00/S00-001.json", "done");
            fs::remove_file(place.at("state/tasks/S00/S00-002.json")).unwrap();
            place.write("state/junk/deep/x", "junk");
            fs::remove_file(place.at("planning/tasks/link")).unwrap();
            place.write("planning/tasks/link", "file");
            fs::set_permissions(place.at("runner.local.json"), fs::Permissions::from_mode(0o666)).unwrap();
            place.write(".git/hooks/pre-commit", "evil");
            place.write(".git/config", "[core] fsmonitor");
            place.write(".git/refs/heads/main", "bad");
            place.write(".git/MERGE_HEAD", "x");
            place.write(".git/HEAD", "ref: refs/heads/other\n");
            // Not guarded: what git and the coordinator write by themselves.
            for path in ["state/runs/a/1/log", "state/.runner/x", ".git/index", ".git/objects/aa/bb", ".git/logs/HEAD"]
            {
                place.write(path, "");
            }
        });
        assert_eq!(
            found,
            [
                "planning/tasks/link type changed",
                "runner.local.json mode changed",
                "state/junk/deep/x created",
                "state/tasks/S00/S00-001.json modified",
                "state/tasks/S00/S00-002.json deleted",
                ".git/HEAD modified",
                ".git/MERGE_HEAD created",
                ".git/config modified",
                ".git/hooks/pre-commit created",
                ".git/refs/heads/main modified",
            ]
        );
        assert_eq!(place.read("state/tasks/S00/S00-001.json"), "row");
        assert_eq!(fs::read_link(place.at("planning/tasks/link")).unwrap(), Path::new("S00-001.json"));
        assert_eq!(place.mode("runner.local.json"), 0o600);
        assert!(!place.at("state/junk").exists() && place.at(".git/hooks").exists());
        for (path, content) in [
            ("state/junk/deep/x", "junk"),
            ("state/tasks/S00/S00-001.json", "done"),
            ("planning/tasks/link", "file"),
            (".git/hooks/pre-commit", "evil"),
        ] {
            assert_eq!(copy_of(&kept, path), content);
        }
    }

    #[test]
    fn a_link_in_place_of_a_folder_does_not_lead_the_restored_files_astray() {
        let elsewhere = tempfile::tempdir().unwrap();
        let mut place = Place::new(&[("state/tasks/S00/a.json", "row")]);
        let (found, _) = place.undo(|place| {
            fs::remove_dir_all(place.at("state/tasks")).unwrap();
            symlink(elsewhere.path(), place.at("state/tasks")).unwrap();
        });
        assert_eq!(found, ["state/tasks created", "state/tasks/S00/a.json deleted"]);
        assert_eq!(place.read("state/tasks/S00/a.json"), "row");
        assert_eq!(fs::read_dir(elsewhere.path()).unwrap().count(), 0);
    }

    #[test]
    fn when_only_the_file_is_to_be_put_back_a_link_on_its_way_is_refused() {
        let elsewhere = tempfile::tempdir().unwrap();
        let mut place = Place::new(&[("state/tasks/a.json", "row")]);
        let before = place.guard.take().unwrap();
        fs::remove_dir_all(place.at("state/tasks")).unwrap();
        symlink(elsewhere.path(), place.at("state/tasks")).unwrap();
        let is_link = |path: &GuardedPath| path.to_string() == "state/tasks";
        let found = place.guard.tampering_since(&before, &is_link).unwrap();
        let kept = place.guard.put_back(&before, &found, &place.at("state/runs/kept"));
        assert!(kept[0].failure.as_ref().unwrap().contains("in the way"), "{kept:?}");
        assert_eq!(fs::read_dir(elsewhere.path()).unwrap().count(), 0);
    }

    #[test]
    fn a_folder_in_place_of_a_file_and_a_file_in_place_of_a_folder_are_put_back() {
        let mut place = Place::new(&[("state/a", "file"), ("state/b/c", "deep"), ("planning/x", "x")]);
        let (found, kept) = place.undo(|place| {
            fs::remove_file(place.at("state/a")).unwrap();
            place.write("state/a/inner", "i");
            fs::remove_dir_all(place.at("state/b")).unwrap();
            place.write("state/b", "flat");
            mkfifoat(CWD, place.at("planning/fifo"), Mode::RUSR).unwrap();
        });
        assert_eq!(
            found,
            [
                "planning/fifo created",
                "state/a deleted",
                "state/a/inner created",
                "state/b created",
                "state/b/c deleted"
            ]
        );
        assert_eq!((place.read("state/a"), place.read("state/b/c")), ("file".into(), "deep".into()));
        assert_eq!((copy_of(&kept, "state/a/inner"), copy_of(&kept, "state/b")), ("i".into(), "flat".into()));
    }

    #[test]
    fn a_file_rewritten_with_the_same_content_or_allowed_is_no_tampering() {
        let mut place = Place::new(&[("state/a", "same"), ("state/row", "1")]);
        let before = place.guard.take().unwrap();
        fs::remove_file(place.at("state/a")).unwrap();
        place.write("state/a", "same");
        place.write("state/row", "2");
        let allowed = |path: &GuardedPath| path.to_string() == "state/row";
        assert_eq!(place.guard.tampering_since(&before, &allowed).unwrap(), []);
        assert_eq!(shown(&place.guard.tampering_since(&before, &|_| false).unwrap()), ["state/row modified"]);
    }

    #[test]
    fn what_was_too_large_to_hold_is_reported_with_the_copy_and_not_called_restored() {
        let mut place = Place::new(&[("state/big", &"x".repeat(2 << 20))]);
        let before = place.guard.take().unwrap();
        place.write("state/big", &"y".repeat(2 << 20));
        let found = place.guard.tampering_since(&before, &|_| false).unwrap();
        assert_eq!(shown(&found), ["state/big modified"]);
        let kept = place.guard.put_back(&before, &found, &place.at("state/runs/kept"));
        assert!(kept[0].failure.as_ref().unwrap().contains("by hand"));
        assert_eq!(fs::metadata(kept[0].copy.as_ref().unwrap()).unwrap().len(), 2 << 20);
    }

    #[test]
    fn a_closed_or_endless_folder_is_moved_aside_whole() {
        let mut place = Place::new(&[("state/tasks/a", "row")]);
        let (found, kept) = place.undo(|place| {
            place.write(&format!("planning/{}/f", vec!["d"; 80].join("/")), "");
            fs::set_permissions(place.at("state/tasks"), fs::Permissions::from_mode(0o000)).unwrap();
        });
        assert!(found[0].starts_with("planning/d/d/") && found[0].ends_with(" created"));
        assert!(kept[0].copy.as_ref().unwrap().is_dir());
        assert_eq!(place.read("state/tasks/a"), "row");
    }

    #[test]
    fn two_versions_of_one_file_are_both_kept() {
        let mut place = Place::new(&[("state/a", "1")]);
        for version in ["2", "3"] {
            let (_, kept) = place.undo(|place| place.write("state/a", version));
            assert_eq!(copy_of(&kept, "state/a"), version);
        }
        assert_eq!(fs::read_dir(place.at("state/runs/a/1/kept/root/state")).unwrap().count(), 2);
    }
}
