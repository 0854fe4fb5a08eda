//! Tampering with guarded files: named, kept, put back.

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
        for (path, content) in files {
            place.write(path, content);
        }
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

#[test]
fn a_guarded_file_that_keeps_its_size_and_its_time_is_seen_to_have_changed() {
    let mut place = Place::new(&[("state/a.json", "old"), ("state/b.json", "old")]);
    super::wait_until_settled(&place.at("state/b.json"));
    let (found, _) = place.undo(|place| {
        let at = fs::symlink_metadata(place.at("state/a.json")).unwrap();
        place.write("state/a.json", "new");
        let file = fs::File::options().write(true).open(place.at("state/a.json")).unwrap();
        file.set_modified(at.modified().unwrap()).unwrap();
    });
    assert_eq!(found, ["state/a.json modified"]);
    assert_eq!(place.read("state/a.json"), "old");
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
        for path in ["state/runs/a/1/log", "state/.runner/x", ".git/index", ".git/objects/aa/bb", ".git/logs/HEAD"] {
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
        ["planning/fifo created", "state/a deleted", "state/a/inner created", "state/b created", "state/b/c deleted"]
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
