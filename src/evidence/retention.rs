//! How much of `state/runs` is kept: the oldest sessions go first, by count, age and size on disk.
//!
//! The choice is pure, apart from one look: what commands of a verification may have displaced is the only copy of it, so a session that
//! holds some of it stays whatever the limits say. Never follows a link, never touches what is no session's folder (`recovered/` and `trees/` hold none), and never a
//! session that the caller protects.

use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use crate::config::Retention;
use crate::fs::{self, FileError};
use crate::project::TREES;

/// One session's folder.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Stored {
    /// The folder, `<runs>/<agent>/<n>`.
    folder: PathBuf,
    /// When its record was last written.
    at: SystemTime,
    /// What it takes on disk.
    bytes: u64,
    /// Whether it stays whatever the limits say.
    protected: bool,
}

/// Removes from `runs` what is over the limits; gives back the folders that are gone, oldest first.
///
/// `protected` is asked with the session's folder.
pub fn apply(
    runs: &Path,
    limits: &Retention,
    now: SystemTime,
    protected: &dyn Fn(&Path) -> bool,
) -> Result<Vec<PathBuf>, FileError> {
    let condemned = condemned(stored(runs, protected)?, limits, now);
    for folder in &condemned {
        fs::remove_folder(folder)?;
        fs::remove_empty_folders(folder, runs);
    }
    Ok(condemned)
}

/// The folders to remove, oldest first. A protected session counts, but stays.
fn condemned(mut all: Vec<Stored>, limits: &Retention, now: SystemTime) -> Vec<PathBuf> {
    // What is protected comes first, then the newest, so that room is given to them in this order.
    all.sort_by(|a, b| (b.protected, b.at, &b.folder).cmp(&(a.protected, a.at, &a.folder)));
    let longest = Duration::from_secs(u64::from(limits.days) * 24 * 60 * 60);
    let (mut bytes, mut gone) = (0u64, Vec::new());
    // Once one is too much, so are all that are older.
    let mut is_full = false;
    for (count, session) in all.into_iter().enumerate() {
        bytes = bytes.saturating_add(session.bytes);
        let is_old = now.duration_since(session.at).is_ok_and(|age| age > longest);
        if session.protected {
            continue;
        }
        is_full |= count >= limits.runs as usize || bytes > limits.bytes || is_old;
        if is_full {
            gone.push(session.folder);
        }
    }
    gone.reverse();
    gone
}

fn stored(runs: &Path, protected: &dyn Fn(&Path) -> bool) -> Result<Vec<Stored>, FileError> {
    let mut all = Vec::new();
    for folder in session_folders(runs)? {
        let Some(at) = written_at(&folder) else { continue };
        all.push(Stored {
            bytes: size_on_disk(&folder)?,
            at,
            protected: protected(&folder) || holds_displaced(&folder),
            folder,
        });
    }
    Ok(all)
}

/// Every session's folder below `runs`, `<agent>/<n>`, found without following links. `recovered/` and `trees/` hold none.
pub fn session_folders(runs: &Path) -> Result<Vec<PathBuf>, FileError> {
    let is_session = |folder: &PathBuf| {
        folder.file_name().and_then(|name| name.to_str()).is_some_and(|name| name.parse::<u32>().is_ok())
    };
    let mut all = Vec::new();
    let holds_sessions =
        |folder: &&PathBuf| folder.file_name().is_some_and(|name| name != "recovered" && name != TREES);
    for agent in folders(runs)?.iter().filter(holds_sessions) {
        all.extend(folders(agent)?.into_iter().filter(is_session));
    }
    Ok(all)
}

/// The real folders in a real folder.
fn folders(parent: &Path) -> Result<Vec<PathBuf>, FileError> {
    let is_folder = |path: &Path| path.symlink_metadata().is_ok_and(|metadata| metadata.is_dir());
    if !is_folder(parent) {
        return Ok(Vec::new());
    }
    Ok(fs::list(parent)?.unwrap_or_default().into_iter().filter(|path| is_folder(path)).collect())
}

/// Whether something was put aside there after a kill during a verification. Nobody can tell whether its commands made it or a person
/// did meanwhile, and it lies nowhere else. What a verification that came to its end had changed (`verify/`) is not among it: some do
/// that every time, and its warning came at once.
fn holds_displaced(folder: &Path) -> bool {
    let is_of_kill = |place: &PathBuf| place.file_name().is_some_and(|name| name.as_bytes().starts_with(b"verify."));
    // What cannot be listed cannot be known to be empty.
    let Ok(kept) = folders(&folder.join("kept")) else { return true };
    kept.iter().filter(|place| is_of_kill(place)).any(|place| holds_file(place))
}

/// Whether anything but folders lies in a real folder, however deep.
fn holds_file(folder: &Path) -> bool {
    let is_file = |path: &PathBuf| match path.symlink_metadata() {
        Ok(metadata) if metadata.is_dir() => holds_file(path),
        _ => true,
    };
    if !folder.symlink_metadata().is_ok_and(|metadata| metadata.is_dir()) {
        return false;
    }
    fs::list(folder).map_or(true, |all| all.unwrap_or_default().iter().any(is_file))
}

/// When the record was last written; of a session without one, when its folder was.
fn written_at(folder: &Path) -> Option<SystemTime> {
    let record = folder.join("run.json").symlink_metadata();
    record.or_else(|_| folder.symlink_metadata()).and_then(|metadata| metadata.modified()).ok()
}

/// The blocks that a folder and all it holds take; a hole in a file takes none.
fn size_on_disk(folder: &Path) -> Result<u64, FileError> {
    let mut bytes = 0u64;
    for path in fs::list(folder)?.unwrap_or_default() {
        let Ok(metadata) = path.symlink_metadata() else { continue };
        // `stat(2)`: st_blocks counts 512-byte units.
        bytes = bytes.saturating_add(metadata.blocks().saturating_mul(512));
        if metadata.is_dir() {
            bytes = bytes.saturating_add(size_on_disk(&path)?);
        }
    }
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    const DAY: Duration = Duration::from_hours(24);

    fn limits(runs: u32, days: u32, bytes: u64) -> Retention {
        Retention { runs, days, bytes }
    }

    fn now() -> SystemTime {
        SystemTime::UNIX_EPOCH + DAY * 20_000
    }

    /// A session that many days old; a name in capitals is protected.
    fn session(name: &str, days: u32, bytes: u64) -> Stored {
        Stored { folder: name.into(), at: now() - DAY * days, bytes, protected: name == name.to_uppercase() }
    }

    #[test]
    fn the_oldest_go_first_and_protected_ones_never() {
        let all = [session("b", 2, 10), session("A", 9, 10), session("c", 3, 10), session("a", 1, 10)];
        for (limits, gone) in [
            (limits(200, 90, 100), &[][..]),
            (limits(3, 90, 100), &["c"]),
            (limits(1, 90, 100), &["c", "b", "a"]),
            (limits(200, 2, 100), &["c"]),
            (limits(200, 1, 100), &["c", "b"]),
            (limits(200, 90, 35), &["c"]),
            (limits(200, 90, 1), &["c", "b", "a"]),
        ] {
            let names: Vec<PathBuf> = gone.iter().map(PathBuf::from).collect();
            assert_eq!(condemned(all.to_vec(), &limits, now()), names, "{limits:?}");
        }
    }

    #[test]
    fn a_big_old_session_does_not_make_room_for_an_older_small_one() {
        let all = vec![session("a", 1, 10), session("b", 2, 100), session("c", 3, 1)];
        assert_eq!(condemned(all, &limits(9, 9, 50), now()), [PathBuf::from("c"), PathBuf::from("b")]);
    }

    #[test]
    fn a_clock_that_was_set_back_makes_nothing_old() {
        let future = Stored { at: now() + DAY * 400, ..session("a", 0, 1) };
        assert!(condemned(vec![future], &limits(9, 1, 50), now()).is_empty());
    }

    proptest! {
        #[test]
        fn what_is_left_keeps_to_the_limits_and_nothing_left_is_older_than_what_is_gone(
            sessions in proptest::collection::vec((0u32..30, 0u64..20, any::<bool>()), 0..12),
            (runs, days, bytes) in (1u32..10, 1u32..30, 1u64..100),
        ) {
            let all: Vec<Stored> = sessions.iter().enumerate()
                .map(|(n, (days, bytes, protected))| {
                    let name = n.to_string();
                    Stored { folder: name.into(), at: now() - DAY * *days, bytes: *bytes, protected: *protected }
                })
                .collect();
            let gone = condemned(all.clone(), &limits(runs, days, bytes), now());
            let (lost, left): (Vec<&Stored>, Vec<&Stored>) = all.iter().partition(|one| gone.contains(&one.folder));
            prop_assert!(lost.iter().all(|one| !one.protected));
            let free: Vec<_> = left.iter().filter(|one| !one.protected).collect();
            if !free.is_empty() {
                prop_assert!(left.len() <= runs as usize);
                prop_assert!(left.iter().map(|one| one.bytes).sum::<u64>() <= bytes);
                prop_assert!(free.iter().all(|one| now().duration_since(one.at).unwrap() <= DAY * days));
            }
            for one in &lost {
                prop_assert!(free.iter().all(|other| other.at >= one.at));
            }
        }
    }

    #[test]
    fn what_was_put_aside_after_a_kill_during_a_verification_is_never_removed() {
        let base = tempfile::tempdir().unwrap();
        let runs = base.path().join("runs");
        for file in [
            "a/1/kept/verify.1/tree/src/x",
            "a/2/kept/verify.2/submitted/x",
            "a/3/verify/tree/deep/x",
            "a/4/verify/guarded/x",
            "a/5/kept/tree/verify.1/x",
            "a/6/run.json",
        ] {
            fs::replace_private(&runs.join(file), b"{}").unwrap();
        }
        fs::make_folder(&runs.join("a/6/kept/verify.1/tree/empty")).unwrap();
        fs::make_link(&runs.join("a/6/kept/verify.2"), &runs.join("a/1/kept/verify.1/tree")).unwrap();
        let later = SystemTime::UNIX_EPOCH + DAY * 90_000;
        let gone = apply(&runs, &limits(1, 1, 1), later, &|_| false).unwrap();
        let names: BTreeSet<&Path> = gone.iter().filter_map(|folder| folder.strip_prefix(&runs).ok()).collect();
        assert_eq!(names, ["a/3", "a/4", "a/5", "a/6"].map(Path::new).into());
        assert!(runs.join("a/1/kept/verify.1/tree/src/x").exists());
    }

    #[test]
    fn only_session_folders_are_removed_and_no_link_is_followed() {
        let base = tempfile::tempdir().unwrap();
        let runs = base.path().join("runs");
        for file in [
            "a/1/run.json",
            "a/1/kept/x",
            "a/2/run.json",
            "b/1/run.json",
            "recovered/20260101/x",
            "a/notes/x",
            "trees/1/run.json",
            "trees/1.scope-violation/run.json",
        ] {
            fs::replace_private(&runs.join(file), b"{}").unwrap();
        }
        fs::replace(&base.path().join("foreign/1/run.json"), b"{}").unwrap();
        std::os::unix::fs::symlink(base.path().join("foreign"), runs.join("link")).unwrap();
        std::os::unix::fs::symlink(base.path().join("foreign/1"), runs.join("a/3")).unwrap();
        let later = SystemTime::UNIX_EPOCH + DAY * 90_000;
        let gone = apply(&runs, &limits(9, 1, 1 << 30), later, &|folder| folder.ends_with("b/1")).unwrap();
        assert_eq!(gone, [runs.join("a/1"), runs.join("a/2")]);
        for left in [
            "a/notes/x",
            "a/3",
            "b/1/run.json",
            "recovered/20260101/x",
            "link/1/run.json",
            "trees/1/run.json",
            "trees/1.scope-violation/run.json",
        ] {
            assert!(runs.join(left).exists(), "{left}");
        }
        assert!(!runs.join("a/1").exists());
        assert_eq!(
            apply(&base.path().join("nowhere"), &limits(1, 1, 1), later, &|_| false).unwrap(),
            [] as [PathBuf; 0]
        );
    }
}
