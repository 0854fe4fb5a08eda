//! Where the sessions of a run work: in the project's root, or in a linked git work tree that takes its place.
//!
//! Owns the pool of workspaces and the open work tree. What may follow what is the lease's to say (`workspace/lease.rs`); here it is
//! made true on disk. State, plan and the branch are always those of the root.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};

use crate::commit::{CommitId, Repository, linked};
use crate::config::Mode;
use crate::fs;
use crate::project::Project;
use crate::relpath::RelPath;
use crate::session::{MARK_VARIABLE, Tool, run_tool};
use crate::workspace::lease::{Contamination, Pool};
use crate::workspace::{Guard, Snapshotter};

use super::Run;
use super::failure::Failure;
use super::{leftovers, prepare, start};

/// How much of a failed set-up command's output a message carries, in bytes.
const TAIL: usize = 2000;

/// The place of the one workspace: one session runs at a time.
const PLACE: usize = 1;

/// Where the sessions of a run work.
pub(super) struct Site {
    pub(super) pool: Pool,
    /// The open work tree; none in the root, and none between a kept one and its replacement.
    pub(super) tree: Option<WorkTree>,
}

/// A linked work tree that a session works in.
pub(super) struct WorkTree {
    /// Its root and its git folders.
    pub(super) project: Project,
    /// The repository as seen from it.
    pub(super) git: Repository,
    /// Watches its copies of plan and state, and its own git folder.
    pub(super) guard: Guard,
}

impl WorkTree {
    /// Its own git folder.
    pub(super) fn own(&self) -> &Path {
        &self.project.git().expect("a linked work tree has git folders").own
    }

    fn common(&self) -> &Path {
        &self.project.git().expect("a linked work tree has git folders").common
    }

    /// Whether nothing can be asked of it any more: the tree or its git folder is gone.
    pub(super) fn is_lost(&self) -> bool {
        !self.project.root().is_dir() || !self.own().join("HEAD").is_file() || !self.own().join("commondir").is_file()
    }

    /// Whether tree and git folder still belong together.
    pub(super) fn is_linked(&self) -> bool {
        linked::is_linked(self.common(), self.project.root(), self.own())
    }
}

impl Site {
    /// One place; in the root its workspace is there already.
    pub(super) fn new(mode: Mode) -> Self {
        let mut pool = Pool::with_capacity(NonZeroUsize::MIN);
        if mode == Mode::InPlace {
            fill(&mut pool);
        }
        Self { pool, tree: None }
    }
}

/// Makes the empty place one with a workspace.
pub(super) fn fill(pool: &mut Pool) {
    if let Some(vacancy) = pool.vacancy() {
        pool.replace(vacancy).expect("a vacancy is a place that can be filled");
    }
}

impl Run<'_> {
    /// Whether sessions work in a work tree of their own.
    pub(super) fn has_worktrees(&self) -> bool {
        self.config.workspace.mode == Mode::Worktree
    }

    /// The folder the next session works in; it need not be there yet.
    pub(super) fn workspace_root(&self) -> PathBuf {
        workspace_root(self.project, self.config.workspace.mode)
    }

    /// The repository as seen from where sessions work.
    pub(super) fn workspace_git(&mut self) -> Option<&mut Repository> {
        match &mut self.site.tree {
            Some(tree) => Some(&mut tree.git),
            None => self.git.as_mut(),
        }
    }

    /// The shared paths.
    pub(super) fn shares(&self) -> Vec<RelPath> {
        self.config.workspace.share.iter().map(|path| RelPath::from(path.trim_end_matches('/'))).collect()
    }
}

/// The folder in which sessions of that mode work.
pub(super) fn workspace_root(project: &Project, mode: Mode) -> PathBuf {
    match mode {
        Mode::InPlace => project.root().to_owned(),
        Mode::Worktree => project.trees().join(PLACE.to_string()),
    }
}

/// Refuses a share that git would take for the project's: it would be lost in the comparison.
pub(super) fn check_shares(share: &[String], git: &Repository) -> Result<(), Failure> {
    for path in share {
        let path = RelPath::from(path.trim_end_matches('/'));
        if git.tracks(&path) {
            return Err(Failure::Share { path, why: "holds files that git tracks; share only what git ignores" });
        }
        if !git.is_ignored(&path)? && !git.is_ignored(&path.child(b"any"))? {
            return Err(Failure::Share { path, why: "is not ignored by git; add it to .gitignore and commit that" });
        }
    }
    Ok(())
}

/// Opens the work tree that lies in its place from an earlier run or session, if there is one that can be used.
pub(super) fn adopt(run: &mut Run<'_>) -> Result<bool, Failure> {
    let root = run.workspace_root();
    if run.site.tree.is_some() || !root.is_dir() || fs::is_behind_link(&root, run.project.root()) {
        return Ok(run.site.tree.is_some());
    }
    let Some(places) = run.project.git() else { return Ok(false) };
    let Some(own) = linked::own_folder_of(&places.common, &root)? else { return Ok(false) };
    if !linked::is_linked(&places.common, &root, &own) || !linked::is_ready(&own) {
        return Ok(false);
    }
    let opened = open(run, &root, own);
    // One that git cannot open is kept aside like any other that cannot be used.
    let Ok(tree) = opened else { return Ok(false) };
    settle_in(run, tree);
    Ok(true)
}

/// Makes a fresh work tree at `commit`, set up and clean; whatever lies in its place is kept aside first.
pub(super) fn make(run: &mut Run<'_>, commit: &CommitId) -> Result<(), Failure> {
    let root = run.workspace_root();
    if fs::is_behind_link(&root, run.project.root()) {
        let reason = format!("something on the way to {} is a link or a file", root.display());
        return Err(Failure::NoWorkspace { reason });
    }
    if root.symlink_metadata().is_ok() {
        keep_aside(run, Contamination::FailedReset)?;
    }
    let git = run.git.as_ref().expect("work trees need git");
    let own = git.found_tree(&root, commit)?;
    match furnish(run, (&root, &own), commit) {
        Ok(tree) => {
            linked::mark_ready(&own)?;
            settle_in(run, tree);
            Ok(())
        }
        Err(failure) => {
            // Nobody has worked there yet: there is nothing to keep.
            fs::remove_stubborn_folder(&root)?;
            fs::remove_folder(&own)?;
            Err(failure)
        }
    }
}

fn settle_in(run: &mut Run<'_>, tree: WorkTree) {
    run.snapshotter = snapshotter(run, &tree);
    run.site.tree = Some(tree);
    fill(&mut run.site.pool);
}

fn snapshotter(run: &Run<'_>, tree: &WorkTree) -> Snapshotter {
    start::snapshotter(&tree.project, run.config, Some(&tree.git))
}

fn open(run: &Run<'_>, root: &Path, own: PathBuf) -> Result<WorkTree, Failure> {
    let project = run.project.linked(root.to_owned(), own).expect("work trees need git");
    let git = Repository::open(&project, start::surroundings(run.host, run.config, run.signals))?;
    let guard = Guard::of_linked(&project);
    Ok(WorkTree { project, git, guard })
}

/// Files, shares and set-up of a fresh work tree.
fn furnish(run: &Run<'_>, (root, own): (&Path, &Path), commit: &CommitId) -> Result<WorkTree, Failure> {
    let mut tree = open(run, root, own.to_owned())?;
    tree.git.bring_to(commit)?;
    link_shares(run, root)?;
    set_up(run, root)?;
    let changed = tree.git.differing_everywhere(&run.shares())?;
    if let Some(path) = changed.first() {
        let what = format!("left {path} and {} more files that git does not ignore", changed.len() - 1);
        return Err(Failure::SetUp { command: "the commands together".to_owned(), what });
    }
    Ok(tree)
}

/// Gives the work tree its links to what is shared. What lies there instead is a cache of the same name, and goes.
pub(super) fn link_shares(run: &Run<'_>, root: &Path) -> Result<(), Failure> {
    for path in run.shares() {
        let (source, at) = (path.under(run.project.root()), path.under(root));
        if fs::is_behind_link(&at, root) || at.read_link().is_ok_and(|target| target == source) {
            continue;
        }
        // Without something to share, the work tree has its own.
        if source.symlink_metadata().is_ok() {
            match at.symlink_metadata() {
                Ok(metadata) if metadata.is_dir() => fs::remove_stubborn_folder(&at)?,
                _ => fs::remove(&at)?,
            }
            fs::make_link(&at, &source)?;
        }
    }
    Ok(())
}

/// Runs the set-up commands; a start after a kill finds them by their mark.
fn set_up(run: &Run<'_>, root: &Path) -> Result<(), Failure> {
    let commands = &run.config.workspace.setup;
    if commands.is_empty() {
        return Ok(());
    }
    let mut env = prepare::set_up_environment((run.project, run.config, run.host), root);
    env.insert(MARK_VARIABLE.into(), leftovers::mark(run)?.text().into());
    let done = commands.iter().try_for_each(|command| set_up_with(run, (root, &env), command));
    leftovers::unmark(run)?;
    done
}

/// Runs one set-up command, for as long as a session may take.
fn set_up_with(
    run: &Run<'_>,
    (root, env): (&Path, &BTreeMap<OsString, OsString>),
    command: &[String],
) -> Result<(), Failure> {
    let argv: Vec<OsString> = command.iter().map(Into::into).collect();
    let tool = Tool { argv: &argv, cwd: root, env, stdin: b"", wall: run.config.timeout };
    let failed = |what: String| Failure::SetUp { command: command.join(" "), what };
    let output = run_tool(&tool, run.signals).map_err(|error| failed(error.to_string()))?;
    if let Some(signal) = output.cancelled.or_else(|| run.signals.first()) {
        return Err(Failure::Interrupted { signal });
    }
    if output.timed_out {
        return Err(failed(format!("took longer than `timeout_seconds` ({} s)", run.config.timeout.as_secs())));
    }
    if output.exit.is_success() {
        return Ok(());
    }
    let said = [output.stdout.as_slice(), output.stderr.as_slice()].concat();
    let said = String::from_utf8_lossy(&said[said.len().saturating_sub(TAIL)..]).trim().to_owned();
    let said = run.redactor.text(&said).into_owned();
    Err(failed(format!("ended with {}: {said}", output.exit)))
}

/// Brings a work tree that was used before to the branch's head, and looks whether it is healthy; the error says what is wrong.
pub(super) fn renew(run: &mut Run<'_>, commit: &CommitId) -> Result<(), (Contamination, String)> {
    let shares = run.shares();
    let broken = |what: &str| (Contamination::FailedReset, what.to_owned());
    let Some(tree) = &mut run.site.tree else { return Err(broken("there is no work tree")) };
    if tree.is_lost() || !tree.is_linked() {
        return Err(broken("work tree and git folder no longer belong together"));
    }
    healthy_git(tree)?;
    let failed = |error: Failure| (Contamination::FailedReset, error.reason());
    let differing = tree.git.differing_everywhere(&shares).map_err(|error| failed(error.into()))?;
    let at = tree.git.head().map_err(|error| failed(error.into()))?;
    if at != *commit || !differing.is_empty() {
        let unsaved = tree.git.unsaved(commit, &differing).map_err(|error| failed(error.into()))?;
        if let Some(path) = unsaved.first() {
            let text = format!("{path} and {} more files differ from every commit", unsaved.len() - 1);
            return Err((Contamination::FailedReset, text));
        }
        tree.git.bring_to(commit).map_err(|error| failed(error.into()))?;
    }
    let root = tree.project.root().to_owned();
    link_shares(run, &root).map_err(failed)?;
    let Some(tree) = &mut run.site.tree else { return Err(broken("there is no work tree")) };
    healthy_git(tree)?;
    let left = tree.git.differing_everywhere(&shares).map_err(|error| failed(error.into()))?;
    match left.first() {
        Some(path) => Err((Contamination::FailedReset, format!("{path} still differs after the reset"))),
        None => Ok(()),
    }
}

/// No lock files, and a HEAD that names no branch.
fn healthy_git(tree: &WorkTree) -> Result<(), (Contamination, String)> {
    if let Some(lock) = tree.git.own_lock_files().first() {
        return Err((Contamination::LockFile, format!("{} is there", lock.display())));
    }
    match tree.git.detached_head() {
        Ok(Some(_)) => Ok(()),
        Ok(None) => Err((Contamination::HeadMoved, "HEAD names a branch".to_owned())),
        Err(error) => Err((Contamination::HeadMoved, error.to_string())),
    }
}

/// The work trees that are kept for a person.
pub(super) fn kept_trees(project: &Project) -> Result<Vec<PathBuf>, Failure> {
    let in_use = workspace_root(project, Mode::Worktree);
    let all = fs::list(&project.trees())?.unwrap_or_default();
    Ok(all.into_iter().filter(|tree| *tree != in_use && tree.is_dir()).collect())
}

/// Moves the work tree aside under a name that says why; git still knows it there. What is gone altogether leaves nothing.
pub(super) fn keep_aside(run: &mut Run<'_>, why: Contamination) -> Result<Option<PathBuf>, Failure> {
    let root = run.workspace_root();
    let known = run.site.tree.take().map(|tree| tree.own().to_owned()).filter(|own| own.is_dir());
    let own = match (known, run.project.git()) {
        (None, Some(places)) => linked::own_folder_of(&places.common, &root)?,
        (known, _) => known,
    };
    if root.symlink_metadata().is_err() {
        if let Some(own) = own {
            fs::remove_folder(&own)?;
        }
        return Ok(None);
    }
    let wanted = run.project.trees().join(format!("{PLACE}.{why}"));
    let kept = fs::move_folder(&root, &wanted)?;
    if let Some(own) = own {
        linked::relink(&kept, &own)?;
    }
    crate::fault::point("tree:kept");
    Ok(Some(kept))
}
