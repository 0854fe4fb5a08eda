//! Random edits on a real tree: what is seen is what reading everything before and after gives.

#![expect(clippy::disallowed_methods, reason = "the tests do what agents do")]

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;

use proptest::prelude::*;

use super::Tree;
use crate::relpath::RelPath;
use crate::workspace::ChangeKind;

/// One thing an agent might do.
#[derive(Debug, Clone)]
enum Edit {
    Write(usize, u8),
    Remove(usize),
    Link(usize, u8),
    Mode(usize, bool),
    Rename(usize, usize),
}

/// Few places, so that edits meet; some are folders to others.
const PLACES: [&str; 8] = ["a", "a/b", "a/b/c", "a.b", "a-b", "d/e", "d/f", "g"];

fn edit() -> impl Strategy<Value = Edit> {
    let place = 0..PLACES.len();
    prop_oneof![
        (place.clone(), 0..3_u8).prop_map(|(place, content)| Edit::Write(place, content)),
        place.clone().prop_map(Edit::Remove),
        (place.clone(), 0..3_u8).prop_map(|(place, target)| Edit::Link(place, target)),
        (place.clone(), any::<bool>()).prop_map(|(place, mode)| Edit::Mode(place, mode)),
        (place.clone(), place).prop_map(|(from, to)| Edit::Rename(from, to)),
    ]
}

/// Does what can be done; an edit that is impossible where it stands changes nothing.
fn apply(root: &Path, edit: &Edit) {
    let at = |place: &usize| root.join(PLACES[*place]);
    let clear = |path: &Path| {
        let _nothing_there =
            if path.is_dir() && !path.is_symlink() { fs::remove_dir_all(path) } else { fs::remove_file(path) };
        let _blocked = fs::create_dir_all(path.parent().unwrap());
    };
    let _impossible = match edit {
        Edit::Write(place, content) => {
            clear(&at(place));
            fs::write(at(place), [*content])
        }
        Edit::Remove(place) => {
            clear(&at(place));
            Ok(())
        }
        Edit::Link(place, target) => {
            clear(&at(place));
            symlink(format!("t{target}"), at(place))
        }
        Edit::Mode(place, executable) if at(place).is_file() && !at(place).is_symlink() => {
            fs::set_permissions(at(place), fs::Permissions::from_mode(if *executable { 0o755 } else { 0o644 }))
        }
        Edit::Mode(..) => Ok(()),
        Edit::Rename(from, to) => fs::rename(at(from), at(to)),
    };
}

/// Every file and link with its whole content, the slow and plain way.
fn naive(root: &Path, folder: &Path, all: &mut BTreeMap<RelPath, (bool, bool, Vec<u8>)>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let meta = fs::symlink_metadata(&path).unwrap();
        if meta.is_dir() {
            if path != root.join(".git") {
                naive(root, &path, all);
            }
            continue;
        }
        let content = if meta.is_symlink() {
            fs::read_link(&path).unwrap().as_os_str().as_bytes().to_vec()
        } else {
            fs::read(&path).unwrap()
        };
        let executable = !meta.is_symlink() && meta.permissions().mode() & 0o100 != 0;
        all.insert(RelPath::from(path.strip_prefix(root).unwrap()), (meta.is_symlink(), executable, content));
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(64) })]

    #[test]
    fn the_difference_is_the_one_that_reading_everything_gives(
        first in proptest::collection::vec(edit(), 0..12),
        sessions in proptest::collection::vec(proptest::collection::vec(edit(), 0..12), 1..3),
    ) {
        let tree = Tree::new(&[]);
        let root = &tree.options.root;
        for edit in &first {
            apply(root, edit);
        }
        let mut snapshotter = tree.snapshotter();
        for session in sessions {
            let before = snapshotter.take(None).unwrap();
            let mut old = BTreeMap::new();
            naive(root, root, &mut old);
            for edit in &session {
                apply(root, edit);
            }
            let mut new = BTreeMap::new();
            naive(root, root, &mut new);
            let mut expected = Vec::new();
            for path in old.keys().chain(new.keys()).collect::<BTreeSet<_>>() {
                expected.push((path.clone(), match (old.get(path), new.get(path)) {
                    (None, _) => ChangeKind::Created,
                    (_, None) => ChangeKind::Deleted,
                    (Some(old), Some(new)) if old == new => continue,
                    (Some(old), Some(new)) if old.0 != new.0 => ChangeKind::TypeChanged,
                    (Some(old), Some(new)) if old.2 != new.2 => ChangeKind::Modified,
                    _ => ChangeKind::ModeChanged,
                }));
            }
            let seen = snapshotter.changes_since(&before).unwrap();
            let seen: Vec<_> = seen.changed.into_iter().map(|change| (change.path, change.kind)).collect();
            prop_assert_eq!(seen, expected);
        }
        drop(tree.folder);
    }
}
