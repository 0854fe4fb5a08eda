//! After a kill while commands ran: their processes are ended, and what they changed is put back as after any verification.
//!
//! Nothing is discarded: whatever lies where something else lay when they began is kept aside first, and so are the copies of what
//! was submitted where they cannot be put back.

use std::path::{Path, PathBuf};

use crate::evidence::Teardown;
use crate::fs;
use crate::ids::TaskId;
use crate::observe::Event;
use crate::relpath::RelPath;
use crate::session::Leftovers;
use crate::verdict::names;
use crate::workspace::Snapshot;

use super::super::Run;
use super::super::failure::Failure;
use super::super::memo::is_own;
use super::super::tidy::{reopen, unstage};
use super::super::{ground, leftovers, records, site};
use super::note::{self, Note};
use super::tree::{keep_aside, restore_own};

/// How many files a warning names.
const NAMED: usize = 5;

/// How far to go.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in super::super) enum How {
    /// Only says what would be put back.
    Look,
    /// Puts back what nobody but the commands can have changed for good; where HEAD has moved, the start stops.
    Start,
    /// A person said to go on whatever differs.
    GoOn,
}

/// What differed from what lay there when the commands began, and where it is kept.
#[derive(Debug)]
pub(in super::super) struct PutBack {
    /// What was put back, or would be.
    pub(in super::super) paths: Vec<RelPath>,
    task: TaskId,
    keep: PathBuf,
    /// Where copies lie of what was submitted and could not be put back.
    submitted: Option<PathBuf>,
}

impl PutBack {
    /// Whether everything was as it had been.
    pub(in super::super) const fn is_empty(&self) -> bool {
        self.paths.is_empty() && self.submitted.is_none()
    }

    /// All of it for a person, a line each.
    pub(in super::super) fn lines(&self, how: How) -> Vec<String> {
        let mut lines: Vec<String> = self.paths.iter().map(ToString::to_string).collect();
        let since = format!("changed since the killed verification of {} began, by its commands or by hand", self.task);
        let keep = self.keep.display();
        if !lines.is_empty() {
            lines.push(match how {
                How::Look => format!(
                    "{since}: a start, or `runner recover --yes` where HEAD has moved, puts back what lay there and keeps these in {keep}"
                ),
                How::Start | How::GoOn => format!("{since}: put back what lay there{}", self.kept()),
            });
        }
        lines.extend(self.not_put_back());
        lines
    }

    /// The same for the observers of a run.
    fn tell(&self, run: &Run<'_>) {
        let task = &self.task;
        if !self.paths.is_empty() {
            let what = format!("put the workspace back as it was when the killed verification of {task} began");
            (run.observe)(&Event::Recovered { what });
            let text = format!(
                "changed since the killed verification of {task} began, by its commands or by hand: {}{}",
                names(&self.paths, NAMED),
                self.kept()
            );
            (run.observe)(&Event::Warning { text });
        }
        if let Some(text) = self.not_put_back() {
            (run.observe)(&Event::Warning { text });
        }
    }

    /// Where it lies what changed; of what was deleted nothing does.
    fn kept(&self) -> String {
        let is_there = self.keep.symlink_metadata().is_ok();
        if is_there { format!("; kept in {}", self.keep.display()) } else { " (deleted)".to_owned() }
    }

    fn not_put_back(&self) -> Option<String> {
        let place = self.submitted.as_ref()?.display();
        Some(format!("not all that was submitted of {} is in its place; copies of it are kept in {place}", self.task))
    }
}

/// Ends what is left of the commands of a killed run, and removes their temporary folder.
pub(in super::super) fn end_left(run: &Run<'_>) -> Result<(), Failure> {
    let Some(note) = Note::read(run.project)? else { return Ok(()) };
    let of = format!("the verification of {}", note.task);
    let found_by = Leftovers { token_hash: &note.mark_hash, boot_id: &note.boot_id };
    leftovers::end_commands(run, &of, (&found_by, &run.project.session(&note.agent, note.session)))?;
    let removed = match &note.temporary {
        Some(left) if records::is_temporary(run, left) => fs::remove_stubborn_folder(left),
        _ => Ok(()),
    };
    if let Err(error) = removed {
        (run.observe)(&Event::Warning { text: Failure::from(error).reason() });
    }
    Ok(())
}

/// Puts the workspace back as it was before the commands of a killed run, and tells what lies where; none if none was killed.
pub(in super::super) fn put_back_left(run: &mut Run<'_>, how: How) -> Result<Option<PutBack>, Failure> {
    let Some(mut note) = Note::read(run.project)? else { return Ok(None) };
    let folder = run.project.session(&note.agent, note.session);
    let mut lines = Vec::new();
    if how != How::Look {
        lines.extend(reopen(run, &folder)?);
        for path in &lines {
            let text = format!(
                "{path} was no folder any more; what lay there was moved to `displaced` beside the runner's records"
            );
            (run.observe)(&Event::Warning { text });
        }
    }
    let mut parts = vec![Part::root(run, &note, how)?];
    if run.has_worktrees() && site::adopt(run)? {
        parts.extend(Part::tree(run, &note, how)?);
    }
    let keep = keep_in(run, &note, &folder);
    if how == How::Start {
        ensure_unmoved(run, (&mut note, &keep), &parts)?;
    }
    let changed: Vec<Changed> = parts.iter().map(|part| part.changed(run, (&note, how))).collect();
    let paths = changed.iter().flat_map(Changed::all).collect();
    let mut done = PutBack { paths, task: note.task.clone(), keep, submitted: None };
    if how == How::Look {
        return Ok(Some(done));
    }
    for (part, changed) in parts.iter().zip(&changed) {
        lines.extend(part.put_back(run, (&note, changed), &done.keep)?);
    }
    if !is_as_noted(run, &note) {
        done.submitted = keep_copies(run, &mut note, &done.keep)?;
    }
    done.tell(run);
    close(run, (&note, &folder), lines)?;
    Ok(Some(done))
}

/// Nothing is left to put back: the record says what was, and the note goes.
fn close(run: &mut Run<'_>, (note, folder): (&Note, &Path), lines: Vec<String>) -> Result<(), Failure> {
    if !lines.is_empty() {
        records::amend(run, folder, |record| record.verification.get_or_insert_default().changed.extend(lines))?;
        // What was read at the start may have been theirs.
        run.read_plan()?;
        run.board = run.desk.store().read(&run.plan)?;
    }
    if note.is_baseline {
        // Its session never began.
        fs::remove_folder(folder)?;
    }
    Note::remove(run.project)?;
    Ok(fs::remove_stubborn_folder(&note::copies(run.project))?)
}

/// Stops the start if the root's HEAD has moved and something is not as it was submitted: what of it is whose, nobody can tell. The
/// copies are kept where a person finds them. In a work tree nobody else works: one that was moved is kept as a whole, and the run goes on. Once they are, what is as in the new HEAD counts as a person's answer.
fn ensure_unmoved(run: &Run<'_>, (note, keep): (&mut Note, &Path), parts: &[Part]) -> Result<(), Failure> {
    let is_answered = note.kept.is_some();
    let differing = |part: &Part| {
        let is_open = |path: &RelPath| {
            !is_answered || part.found.contains(path) || path.under(&part.root).symlink_metadata().is_err()
        };
        let own = part.own(note).into_iter().filter(is_open);
        own.chain(part.others(note)).map(|path| path.to_string()).collect::<Vec<_>>()
    };
    let files: Vec<String> = parts.iter().filter(|part| part.has_moved && !part.is_tree).flat_map(differing).collect();
    if files.is_empty() {
        return Ok(());
    }
    let kept = keep_copies(run, note, keep)?;
    Err(Failure::MovedSinceKill { task: note.task.clone(), files, kept: kept.unwrap_or_else(|| keep.to_owned()) })
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

/// Moves the copies into `keep`, unless an earlier start did, and says where they lie now; none if there are none.
fn keep_copies(run: &Run<'_>, note: &mut Note, keep: &Path) -> Result<Option<PathBuf>, Failure> {
    if note.kept.is_none() {
        // First: after a kill in between, the next start finds them in either place.
        note.kept = Some(keep.to_owned());
        note.write(run.project)?;
    }
    let (copies, kept) = (note::copies(run.project), note.kept.as_deref().unwrap_or(keep).join(SUBMITTED));
    if fs::list(&copies)?.is_some_and(|all| !all.is_empty()) {
        fs::move_folder(&copies, &kept)?;
    }
    Ok(kept.symlink_metadata().is_ok().then_some(kept))
}

/// The folder of the copies in what is kept aside.
const SUBMITTED: &str = "submitted";

/// Where the copies lie.
fn copies_of(run: &Run<'_>, note: &Note) -> PathBuf {
    let copies = note::copies(run.project);
    match &note.kept {
        Some(keep) if copies.symlink_metadata().is_err() => keep.join(SUBMITTED),
        _ => copies,
    }
}

/// Whether everything that the commands could change and only copies could bring back is there again.
fn is_as_noted(run: &Run<'_>, note: &Note) -> bool {
    note.known.iter().all(|(path, was)| note::word_for(&path.under(&note::base_of(run, path))) == *was)
}

/// A part of the workspace that has a HEAD of its own.
struct Part {
    root: PathBuf,
    is_tree: bool,
    /// Whether all of the session's own work lies here.
    is_everything: bool,
    /// Whether another commit is checked out than when the commands began.
    has_moved: bool,
    /// What differs from HEAD now.
    found: Vec<RelPath>,
}

impl Part {
    /// The root: state and plan, and everything else where the session worked there.
    fn root(run: &mut Run<'_>, note: &Note, how: How) -> Result<Self, Failure> {
        let is_everything = !run.has_worktrees();
        let has_moved = run.git.as_ref().is_some_and(|git| git.head().ok().map(|head| head.to_string()) != note.head);
        let mut found = match &run.git {
            Some(git) => git.changed_in(&["state", "planning"])?,
            None => Vec::new(),
        };
        if is_everything {
            if how == How::GoOn || (how == How::Start && !has_moved) {
                unstage(run, &mut Teardown::not_attempted())?;
            }
            let snapshot = ground::look(run)?;
            found.extend(ground::dirty(run, &snapshot)?.into_iter().filter(|path| !note::is_roots(path)));
            add_special(&mut found, &snapshot, note);
        }
        Ok(Self { root: run.project.root().to_owned(), is_tree: false, is_everything, has_moved, found })
    }

    /// The work tree that the session had to itself, its copies of state and plan included.
    fn tree(run: &mut Run<'_>, note: &Note, how: How) -> Result<Option<Self>, Failure> {
        let shares = run.shares();
        let snapshot = ground::look(run)?;
        let Some(tree) = &mut run.site.tree else { return Ok(None) };
        let has_moved = tree.git.head().ok().map(|head| head.to_string()) != note.head;
        if how != How::Look && !has_moved {
            let staged = tree.git.staged()?;
            tree.git.unstage(&staged)?;
        }
        let mut found = tree.git.differing_everywhere(&shares)?;
        found.retain(|path| !is_own(path, &note.agent));
        add_special(&mut found, &snapshot, note);
        let root = tree.project.root().to_owned();
        Ok(Some(Self { root, is_tree: true, is_everything: false, has_moved, found }))
    }

    /// Whether what was noted of the path lay in this part.
    fn holds(&self, path: &RelPath) -> bool {
        self.is_everything || self.is_tree != note::is_roots(path)
    }

    /// What was noted and is not as it was then.
    fn own(&self, note: &Note) -> Vec<RelPath> {
        let is_changed =
            |(path, was): &(&RelPath, &String)| self.holds(path) && note::word_for(&path.under(&self.root)) != **was;
        note.known.iter().filter(is_changed).map(|(path, _)| path.clone()).collect()
    }

    /// What differs from HEAD now and did not then.
    fn others(&self, note: &Note) -> Vec<RelPath> {
        let is_known = |path: &RelPath| self.holds(path) && note.known.contains_key(path);
        self.found.iter().filter(|path| !is_known(path)).cloned().collect()
    }

    /// Tells what has to go back, and from where. What there is no copy of (a power failure may have taken it) stays as it is.
    fn changed(&self, run: &Run<'_>, (note, how): (&Note, How)) -> Changed {
        if self.has_moved && (self.is_tree || how == How::Start) {
            // Such a work tree is kept as a whole; of the root, a person has seen what differs.
            return Changed::default();
        }
        let copies = copies_of(run, note);
        let own = self.own(note).into_iter();
        let own = own.filter(|path| note.known.get(path) == Some(&note::word_for(&path.under(&copies))));
        // A commit may have changed the session's files since, and none writes state and plan but the coordinator.
        let (own, moved): (Vec<_>, Vec<_>) = own.partition(|path| !self.has_moved || note::is_roots(path));
        Changed { own, others: self.others(note).into_iter().chain(moved).collect() }
    }

    /// Keeps aside what changed, and puts back what lay there; says what lies where.
    fn put_back(
        &self,
        run: &mut Run<'_>,
        (note, changed): (&Note, &Changed),
        keep: &Path,
    ) -> Result<Vec<String>, Failure> {
        let copies = copies_of(run, note);
        let lines =
            keep_aside(&self.root, &changed.all(), &keep.join(if self.is_tree { "work-tree" } else { "tree" }))?;
        let git = if self.is_tree { run.site.tree.as_mut().map(|tree| &mut tree.git) } else { run.git.as_mut() };
        if let Some(git) = git {
            git.restore(&changed.others)?;
        }
        restore_own(&self.root, &copies, &changed.own)?;
        Ok(lines)
    }
}

/// What git does not compare and was not there when the commands began, unless it lies in a folder that goes as a whole.
fn add_special(found: &mut Vec<RelPath>, snapshot: &Snapshot, note: &Note) {
    let mut special = note::special_in(snapshot, snapshot.findings());
    special.retain(|path| !note.special.contains(path) && !found.iter().any(|above| path.is_in(&above.to_string())));
    found.extend(special);
}

/// What is no longer as it was when the commands began.
#[derive(Default)]
struct Changed {
    /// What goes back to the copies.
    own: Vec<RelPath>,
    /// What goes back to HEAD.
    others: Vec<RelPath>,
}

impl Changed {
    fn all(&self) -> Vec<RelPath> {
        self.others.iter().chain(&self.own).cloned().collect()
    }
}
