//! After a kill while commands ran: their processes are ended, and what they changed is put back as after any verification.
//!
//! Nothing is discarded: whatever lies where something else lay when they began is kept aside first.

use std::path::{Path, PathBuf};

use crate::commit::Repository;
use crate::evidence::Teardown;
use crate::fs;
use crate::observe::Event;
use crate::relpath::RelPath;
use crate::session::Leftovers;

use super::super::Run;
use super::super::failure::Failure;
use super::super::memo::is_own;
use super::super::tidy::{reopen, unstage};
use super::super::{ground, leftovers, records, site};
use super::note::{self, Note};
use super::tree::{keep_aside, restore_own};

/// Ends what is left of the commands of a killed run.
pub(in super::super) fn end_left(run: &Run<'_>) -> Result<(), Failure> {
    let Some(note) = Note::read(run.project)? else { return Ok(()) };
    let of = format!("the verification of {}", note.task);
    let found_by = Leftovers { token_hash: &note.mark_hash, boot_id: &note.boot_id };
    leftovers::end_commands(run, &of, (&found_by, &run.project.session(&note.agent, note.session)))
}

/// Puts the workspace back as it was before the commands of a killed run, and tells what lies where.
pub(in super::super) fn put_back_left(run: &mut Run<'_>) -> Result<(), Failure> {
    let Some(note) = Note::read(run.project)? else { return Ok(()) };
    let folder = run.project.session(&note.agent, note.session);
    let mut lines: Vec<String> = reopen(run, &folder)?.into_iter().collect();
    let keep = keep_in(run, &note, &folder);
    lines.extend(put_root_back(run, &note, &keep.join("tree"))?);
    if run.has_worktrees() && site::adopt(run)? {
        lines.extend(put_tree_back(run, &note, &keep.join("work-tree"))?);
    }
    if !lines.is_empty() {
        let what = format!("put back what the killed verification of {} had changed: {}", note.task, lines.join(", "));
        (run.observe)(&Event::Recovered { what });
        records::amend(run, &folder, |record| record.verification.get_or_insert_default().changed.extend(lines))?;
        // What was read at the start may have been theirs.
        run.read_plan()?;
        run.board = run.desk.store().read(&run.plan)?;
    }
    if note.is_baseline {
        // Its session never began.
        fs::remove_folder(&folder)?;
    }
    Note::remove(run.project)?;
    Ok(fs::remove_stubborn_folder(&note::copies(run.project))?)
}

/// A folder of which nothing is there yet, for what is kept aside.
fn keep_in(run: &Run<'_>, note: &Note, folder: &Path) -> PathBuf {
    let base = if note.is_baseline {
        run.project.root().join("state/runs/recovered").join(note.agent.as_str())
    } else {
        folder.join("kept")
    };
    let mut names = (1_u32..).map(|number| base.join(format!("verify.{number}")));
    names.find(|place| place.symlink_metadata().is_err()).unwrap_or(base)
}

/// The root: state and plan, and everything else where the session worked there.
fn put_root_back(run: &mut Run<'_>, note: &Note, keep: &Path) -> Result<Vec<String>, Failure> {
    let is_everything = !run.has_worktrees();
    let mut found = match &run.git {
        Some(git) if git.head().ok().map(|head| head.to_string()) != note.head => return Ok(Vec::new()),
        Some(git) => git.changed_in(&["state", "planning"])?,
        None => Vec::new(),
    };
    if is_everything {
        unstage(run, &mut Teardown::not_attempted())?;
        let snapshot = ground::look(run)?;
        found.extend(ground::dirty(run, &snapshot)?.into_iter().filter(|path| !note::is_roots(path)));
    }
    let copies = note::copies(run.project);
    let place = (run.project.root(), copies.as_path());
    let changed = Changed::of(note, place, found, |path| is_everything || note::is_roots(path));
    changed.put_back(place, run.git.as_mut(), keep)
}

/// The work tree that the session had to itself, its copies of state and plan included.
fn put_tree_back(run: &mut Run<'_>, note: &Note, keep: &Path) -> Result<Vec<String>, Failure> {
    let shares = run.shares();
    let copies = note::copies(run.project);
    let Some(tree) = &mut run.site.tree else { return Ok(Vec::new()) };
    if tree.git.head().ok().map(|head| head.to_string()) != note.head {
        return Ok(Vec::new());
    }
    let staged = tree.git.staged()?;
    tree.git.unstage(&staged)?;
    let mut found = tree.git.differing_everywhere(&shares)?;
    found.retain(|path| !is_own(path, &note.agent));
    let place = (tree.project.root(), copies.as_path());
    let changed = Changed::of(note, place, found, |path| !note::is_roots(path));
    changed.put_back(place, Some(&mut tree.git), keep)
}

/// What is no longer as it was when the commands began.
struct Changed {
    /// What differed from HEAD already.
    own: Vec<RelPath>,
    /// What was as in HEAD.
    others: Vec<RelPath>,
}

/// The folder that paths are relative to, and where copies of what differed from HEAD lie.
type Place<'a> = (&'a Path, &'a Path);

impl Changed {
    /// Tells what differs from HEAD now from what differed then; `is_here` says which of that lay in this place. What there is no
    /// copy of (a power failure may have taken it) stays as it is.
    fn of(note: &Note, (root, copies): Place<'_>, found: Vec<RelPath>, is_here: impl Fn(&RelPath) -> bool) -> Self {
        let is_known = |path: &RelPath| is_here(path) && note.known.contains_key(path);
        let others = found.into_iter().filter(|path| !is_known(path)).collect();
        let is_changed = |(path, was): &(&RelPath, &String)| {
            is_here(path) && note::word_for(&path.under(root)) != **was && note::word_for(&path.under(copies)) == **was
        };
        Self { own: note.known.iter().filter(is_changed).map(|(path, _)| path.clone()).collect(), others }
    }

    /// Keeps it aside, and puts back what lay there; says what lies where.
    fn put_back(
        &self,
        (root, copies): Place<'_>,
        git: Option<&mut Repository>,
        keep: &Path,
    ) -> Result<Vec<String>, Failure> {
        let all: Vec<RelPath> = self.others.iter().chain(&self.own).cloned().collect();
        let lines = keep_aside(root, &all, keep)?;
        if let Some(git) = git {
            git.restore(&self.others)?;
        }
        restore_own(root, copies, &self.own)?;
        Ok(lines)
    }
}
