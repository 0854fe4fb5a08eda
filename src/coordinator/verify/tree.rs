//! The workspace around the commands of a verification: what they change is kept in the session's folder, and everything is put
//! back as it was, the session's own work included.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use crate::evidence::Teardown;
use crate::fs;
use crate::observe::{Event, SessionName};
use crate::relpath::RelPath;
use crate::tracker::proof::Token;
use crate::workspace::{Changes, Guarded, Snapshot};

use super::super::Run;
use super::super::aftermath::Refs;
use super::super::failure::Failure;
use super::super::ground::Ground;
use super::super::prepare;
use super::super::records;
use super::super::tidy::{reopen, unstage};
use super::note::{self, Note};

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
    /// What the commands' processes carry, so that a start after a kill finds them.
    mark: Token,
    /// Their temporary folder, which the note names.
    temporary: tempfile::TempDir,
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
    /// Looks at the workspace, copies what git could not bring back, and writes down what a start after a kill has to know. `own`
    /// is what the session changed.
    pub(super) fn of(
        run: &mut Run<'_>,
        session: (&SessionName, bool),
        ground: &Ground,
        own: &[RelPath],
    ) -> Result<Self, Failure> {
        let copies = note::copies(run.project);
        fs::remove_stubborn_folder(&copies)?;
        fs::make_private_folder(&copies)?;
        let mut paths = own.to_vec();
        if let Some(git) = &run.git {
            paths.extend(git.changed_in(&["state", "planning"])?);
        }
        for path in &paths {
            let base = note::base_of(run, path);
            let from = path.under(&base);
            // A larger file would be moved; if a command changes it, that is named.
            let is_small = from.symlink_metadata().is_ok_and(|metadata| metadata.len() <= fs::LARGEST_READ);
            if is_small && !fs::is_behind_link(&from, &base) {
                fs::copy_aside(&from, &path.under(&copies))?;
            }
        }
        let snapshot = run.snapshotter.take_again(&ground.snapshot)?;
        let tree = run.site.tree.as_mut().map(|tree| tree.guard.take()).transpose()?;
        let (guarded, own, mark) = (run.guard.take()?, own.iter().cloned().collect(), prepare::fresh_token()?);
        let temporary = fs::temporary_folder(records::outside(run))?;
        let head = ground.head.as_ref().map(|head| &head.commit);
        let mut noted = Note::of(run, session, (&mark, temporary.path()), (head, &paths));
        noted.special = note::special_in(&snapshot, snapshot.findings());
        noted.write(run.project)?;
        crate::fault::point("verify:noted");
        Ok(Self { snapshot, guarded, tree, own, copies, mark, temporary })
    }

    /// What the processes of the commands have to carry.
    pub(super) fn mark(&self) -> &Token {
        &self.mark
    }

    /// Where they may write what nobody needs any more when they have ended.
    pub(super) fn temporary(&self) -> &Path {
        self.temporary.path()
    }

    /// Puts everything back, and keeps what the commands made of it below `folder`.
    pub(super) fn put_back(self, run: &mut Run<'_>, ground: &Ground, folder: &Path) -> Result<PutBack, Failure> {
        let made = self.put_all_back(run, ground, folder)?;
        if let Err(error) = fs::remove_temporary(self.temporary) {
            (run.observe)(&Event::Warning { text: Failure::from(error).reason() });
        }
        Note::remove(run.project)?;
        fs::remove_stubborn_folder(&self.copies)?;
        Ok(made)
    }

    fn put_all_back(&self, run: &mut Run<'_>, ground: &Ground, folder: &Path) -> Result<PutBack, Failure> {
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
        let root = run.workspace_root();
        let changes = run.snapshotter.changes_since(&self.snapshot)?;
        let paths = self.to_restore(&changes);
        made.changed.extend(keep_aside(&root, &paths, &keep.join("tree"))?);
        let (own, others): (Vec<_>, Vec<_>) = paths.into_iter().partition(|path| self.own.contains(path));
        if let Err(failure) = restore(run, &others).and_then(|()| restore_own(&root, &self.copies, &own)) {
            made.faults.push(failure.reason());
        }
        let left = run.snapshotter.changes_since(&self.snapshot)?;
        made.faults.extend(left.changed.iter().map(|change| format!("{} could not be put back", change.path)));
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
        let edited = changes.changed.iter().map(|change| change.path.clone());
        let edited = edited.filter(|path| !note::is_private(&self.snapshot, path));
        edited.chain(note::special_in(&self.snapshot, &changes.findings)).collect()
    }
}

/// Gives the session's files the session's content again.
pub(super) fn restore_own(root: &Path, copies: &Path, paths: &[RelPath]) -> Result<(), Failure> {
    for path in paths {
        let file = path.under(root);
        if fs::is_behind_link(&file, root) {
            continue;
        }
        if file.symlink_metadata().is_ok_and(|metadata| metadata.is_dir()) {
            fs::remove_stubborn_folder(&file)?;
        } else {
            fs::remove(&file)?;
        }
        if !fs::copy_aside(&path.under(copies), &file)? {
            fs::remove_empty_folders(&file, root);
        }
    }
    Ok(())
}

/// Copies what the commands left; says what lies where.
pub(super) fn keep_aside(root: &Path, paths: &[RelPath], keep: &Path) -> Result<Vec<String>, Failure> {
    let mut lines = Vec::new();
    for path in paths {
        let (file, copy) = (path.under(root), path.under(keep));
        let is_copied = !fs::is_behind_link(&file, root) && fs::copy_aside(&file, &copy)?;
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
