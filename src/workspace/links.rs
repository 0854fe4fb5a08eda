//! Where a link leads: inside the root or out of it. Reads links, never opens what they lead to.

use std::os::unix::ffi::OsStrExt;
use std::path::{Component, Path, PathBuf};

use crate::relpath::RelPath;

/// As many links as the kernel follows in one path (`path_resolution(7)`).
const MOST_LINKS: usize = 40;

/// Whether the link `link` leads out of `root`: its target is absolute, or climbs out, itself or through links on its way.
/// What does not exist is resolved by its spelling; a chain the kernel would not follow to its end counts as leading out.
pub(super) fn leaves_root(root: &Path, link: &RelPath) -> bool {
    let Ok(target) = std::fs::read_link(link.under(root)) else { return false };
    // Where we are, below the root, free of links; and what is still to be walked, the next component last.
    let mut at: PathBuf = link.as_path().parent().unwrap_or(Path::new("")).to_owned();
    let mut ahead: Vec<PathBuf> = Vec::new();
    if !push_reversed(&mut ahead, &target) {
        return true;
    }
    let mut links = 1;
    while let Some(component) = ahead.pop() {
        if component.as_os_str().as_bytes() == b".." {
            if !at.pop() {
                return true;
            }
            continue;
        }
        at.push(&component);
        if let Ok(target) = std::fs::read_link(root.join(&at)) {
            links += 1;
            at.pop();
            if links > MOST_LINKS || !push_reversed(&mut ahead, &target) {
                return true;
            }
        }
    }
    false
}

/// Puts the components of a target before what is still ahead; `false` if the target is absolute.
fn push_reversed(ahead: &mut Vec<PathBuf>, target: &Path) -> bool {
    if target.is_absolute() {
        return false;
    }
    let components = target.components().filter(|component| *component != Component::CurDir);
    ahead.extend(components.rev().map(|component| PathBuf::from(component.as_os_str())));
    true
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::leaves_root;

    #[test]
    fn a_link_leaves_by_an_absolute_target_by_climbing_or_through_another_link() {
        let outer = tempfile::tempdir().unwrap();
        let root = outer.path().join("root");
        crate::fs::make_folder(&root.join("a/b")).unwrap();
        for (name, target, expected) in [
            ("inside", "a/b", false),
            ("missing", "no/such", false),
            ("a/up", "../inside", false),
            ("a/b/climb", "../../..", true),
            ("a/b/exactly_root", "../..", false),
            ("back", "../root/a", true),
            ("absolute", "/etc/passwd", true),
            ("a/through", "../absolute/x", true),
            // Through a link the folder above is the target's, not the spelling's.
            ("a/deep", "b", false),
            ("short", "a/b/../../..", true),
            ("deeper", "inside/../../..", true),
            ("loop", "loop", true),
        ] {
            symlink(target, root.join(name)).unwrap();
            assert_eq!(leaves_root(&root, &name.into()), expected, "{name} -> {target}");
        }
    }
}
