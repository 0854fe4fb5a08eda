//! The workspace around the commands of a verification: what they change is kept in the session's folder, and everything is put
//! back as it was, the session's own work included.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use crate::evidence::Teardown;
use crate::fs;
use crate::relpath::RelPath;
use crate::workspace::{Changes, FindingKind, Guarded, Snapshot};

use super::super::Run;
use super::super::aftermath::Refs;
use super::super::failure::Failure;
use super::super::ground::Ground;
use super::super::session::{reopen, unstage};

/// The workspace before commands run in it.
#[must_use = "what the commands change has to be put back"]
pub(super) struct Before {
    snapshot: Snapshot,
    guarded: Guarded,
    /// The same in a work tree of the session's own.
    tree: Option<Guarded>,
    /// What the session changed, of which there are copies.
    own: BTreeSet<RelPath>,
    copies: PathBuf,
}

/// What the commands had changed.
#[derive(Default)]
pub(super) struct PutBack {
    /// One line a file: what lies where.
    pub(super) changed: Vec<String>,
    /// What nobody but the coordinator may change, and what could not be put back, by name.
    pub(super) faults: Vec<String>,
}

impl Before {
    /// Looks at the workspace, and copies what the session changed in it: git could not bring that back.
    pub(super) fn of(run: &mut Run<'_>, ground: &Ground, own: &[RelPath]) -> Result<Self, Failure> {
        let root = run.workspace_root();
        let copies = run.project.private_own().join("verify");
        fs::remove_stubborn_folder(&copies)?;
        fs::make_private_folder(&copies)?;
        for path in own {
            let from = path.under(&root);
            // A larger file would be moved; if a command changes it, that is named.
            let is_small = from.symlink_metadata().is_ok_and(|metadata| metadata.len() <= fs::LARGEST_READ);
            if is_small && !fs::is_behind_link(&from, &root) {
                fs::copy_aside(&from, &path.under(&copies))?;
            }
        }
        let snapshot = run.snapshotter.take_again(&ground.snapshot)?;
        let tree = run.site.tree.as_mut().map(|tree| tree.guard.take()).transpose()?;
        Ok(Self { snapshot, guarded: run.guard.take()?, tree, own: own.iter().cloned().collect(), copies })
    }

    /// Puts everything back, and keeps what the commands made of it below `folder`.
    pub(super) fn put_back(self, run: &mut Run<'_>, ground: &Ground, folder: &Path) -> Result<PutBack, Failure> {
        let mut made = PutBack::default();
        made.faults.extend(reopen(run, folder)?);
        let keep = folder.join("verify");
        let refs = Refs::since(run, ground);
        let found = run.guard.tampering_since(&self.guarded, &|path| refs.allow(path))?;
        made.faults.extend(found.iter().map(ToString::to_string));
        made.changed.extend(run.guard.put_back(&self.guarded, &found, &keep).iter().map(ToString::to_string));
        if !self.put_back_own_tree(run, &keep, &mut made)? {
            return Ok(made);
        }
        unstage(run, &mut Teardown::not_attempted())?;
        let changes = run.snapshotter.changes_since(&self.snapshot)?;
        let paths = self.to_restore(&changes);
        made.changed.extend(keep_aside(run, &paths, &keep.join("tree"))?);
        let (own, others): (Vec<_>, Vec<_>) = paths.into_iter().partition(|path| self.own.contains(path));
        if let Err(failure) = restore(run, &others).and_then(|()| self.restore_own(run, &own)) {
            made.faults.push(failure.reason());
        }
        let left = run.snapshotter.changes_since(&self.snapshot)?;
        made.faults.extend(left.changed.iter().map(|change| format!("{} could not be put back", change.path)));
        fs::remove_stubborn_folder(&self.copies)?;
        Ok(made)
    }

    /// Puts back what belongs to nobody in a work tree of the session's own; false if that is gone.
    fn put_back_own_tree(&self, run: &mut Run<'_>, keep: &Path, made: &mut PutBack) -> Result<bool, Failure> {
        let (Some(tree), Some(before)) = (&mut run.site.tree, &self.tree) else { return Ok(true) };
        if tree.is_lost() {
            made.faults.push("the session's own work tree is gone".to_owned());
            return Ok(false);
        }
        let found = tree.guard.tampering_since(before, &|_| false)?;
        made.faults.extend(found.iter().map(|tampering| format!("{tampering} in the session's work tree")));
        made.changed
            .extend(tree.guard.put_back(before, &found, &keep.join("work-tree")).iter().map(ToString::to_string));
        Ok(true)
    }

    /// The paths that differ, less those that git neither has nor wants: nothing could bring them back.
    fn to_restore(&self, changes: &Changes) -> Vec<RelPath> {
        let is_private = |path: &RelPath| self.snapshot.is_ignored(path) && !self.snapshot.is_tracked(path);
        let edited = changes.changed.iter().map(|change| change.path.clone());
        let found = changes.findings.iter().filter_map(|finding| match finding.kind {
            FindingKind::NestedRepository => Some(finding.path.child(b".git")),
            FindingKind::SpecialFile => Some(finding.path.clone()),
            FindingKind::Unreadable | FindingKind::TooDeep | FindingKind::Vanished => None,
        });
        edited.chain(found).filter(|path| !is_private(path)).collect()
    }

    /// Gives the session's files the session's content again.
    fn restore_own(&self, run: &Run<'_>, paths: &[RelPath]) -> Result<(), Failure> {
        let root = run.workspace_root();
        for path in paths {
            let file = path.under(&root);
            if fs::is_behind_link(&file, &root) {
                continue;
            }
            if file.symlink_metadata().is_ok_and(|metadata| metadata.is_dir()) {
                fs::remove_stubborn_folder(&file)?;
            } else {
                fs::remove(&file)?;
            }
            if !fs::copy_aside(&path.under(&self.copies), &file)? {
                fs::remove_empty_folders(&file, &root);
            }
        }
        Ok(())
    }
}

/// Copies what the commands left; says what lies where.
fn keep_aside(run: &Run<'_>, paths: &[RelPath], keep: &Path) -> Result<Vec<String>, Failure> {
    let root = run.workspace_root();
    let mut lines = Vec::new();
    for path in paths {
        let (file, copy) = (path.under(&root), path.under(keep));
        let is_copied = !fs::is_behind_link(&file, &root) && fs::copy_aside(&file, &copy)?;
        lines.push(if is_copied {
            format!("{path} → {}", copy.display())
        } else {
            format!("{path} (it was deleted)")
        });
    }
    Ok(lines)
}

/// Brings files back to HEAD; without git only what is new can go.
fn restore(run: &mut Run<'_>, paths: &[RelPath]) -> Result<(), Failure> {
    match run.workspace_git() {
        Some(git) => Ok(git.restore(paths)?),
        None => Ok(()),
    }
}
