//! What a session did to the work tree it had to itself, apart from its work: to the copies of plan and state, to git's own files,
//! to HEAD. And what it left there for the coordinator: its own files under `state/`.

use std::collections::BTreeSet;

use crate::fs;
use crate::ids::AgentId;
use crate::relpath::RelPath;
use crate::workspace::lease::Contamination;
use crate::workspace::{Area, GuardedPath};

use super::Run;
use super::claim::Held;
use super::contamination;
use super::failure::Failure;
use super::ground::Ground;
use super::memo::is_own;

/// The folders under `state/` in which sessions leave files of their own.
const LEFT_IN: [&str; 4] = ["commit_messages", "evidence", "handoffs", "issues"];

/// What was found.
#[derive(Debug, Default)]
pub(super) struct TreeLook {
    /// What it changed that it must not touch, by name.
    pub(super) tampering: Vec<String>,
    pub(super) signs: BTreeSet<Contamination>,
    /// Whether HEAD of the work tree moved.
    pub(super) head_moved: bool,
    /// Whether the work tree or its git folder is gone, so that nothing more can be asked of it.
    pub(super) is_lost: bool,
    /// Whether the work tree itself is gone.
    pub(super) is_gone: bool,
}

/// Looks at the session's work tree; finds nothing where sessions work in the root.
pub(super) fn examine(run: &mut Run<'_>, held: &Held, ground: &Ground) -> Result<TreeLook, Failure> {
    let (Some(tree), Some(before)) = (&mut run.site.tree, &ground.tree) else { return Ok(TreeLook::default()) };
    fs::open_folder_up(tree.project.root());
    if tree.is_lost() || fs::is_behind_link(tree.project.root(), run.project.root()) {
        return Ok(TreeLook {
            tampering: vec!["the session's own work tree (removed, or its git folder was)".to_owned()],
            signs: BTreeSet::from([Contamination::Tampering]),
            head_moved: true,
            is_lost: true,
            is_gone: !tree.project.root().is_dir(),
        });
    }
    let ignored = |path: &RelPath| ground.snapshot.is_ignored(path);
    let allowed = |path: &GuardedPath| {
        let is_left = is_own(&path.path, &held.name.agent) || (path.path.is_in("state") && ignored(&path.path));
        path.area == Area::Root && is_left
    };
    let found = tree.guard.tampering_since(before, &allowed)?;
    let mut look = TreeLook {
        tampering: found.iter().map(|tampering| format!("{tampering} in the session's work tree")).collect(),
        signs: contamination::of_tampering(&found),
        ..TreeLook::default()
    };
    let expected = ground.head.as_ref().map(|head| head.commit.clone());
    if tree.git.detached_head().ok().flatten() != expected {
        look.head_moved = true;
        look.signs.insert(Contamination::HeadMoved);
        if let (Ok(commit), Some(git)) = (tree.git.head(), &run.git) {
            git.keep(&format!("{}/HEAD", held.name.run_id()), &commit)?;
        }
    }
    Ok(look)
}

/// Brings what the agent left in its work tree under `state/` to the root, where state is kept. What lies there already stays.
pub(super) fn collect(run: &Run<'_>, agent: &AgentId) -> Result<(), Failure> {
    let Some(tree) = &run.site.tree else { return Ok(()) };
    let root = run.project.root();
    for folder in LEFT_IN {
        let from = RelPath::from(format!("state/{folder}").as_str());
        let place = from.under(tree.project.root());
        if !place.symlink_metadata().is_ok_and(|metadata| metadata.is_dir()) {
            continue;
        }
        if fs::is_behind_link(&place, tree.project.root()) {
            continue;
        }
        for file in fs::list(&place)?.unwrap_or_default() {
            let Some(name) = file.file_name() else { continue };
            let path = from.child(name.as_encoded_bytes());
            let is_file = file.symlink_metadata().is_ok_and(|metadata| metadata.is_file());
            let to = path.under(root);
            if !is_file || !is_own(&path, agent) || fs::is_behind_link(&to, root) {
                continue;
            }
            let bytes = fs::read(&file)?;
            if to.symlink_metadata().is_err() {
                fs::replace(&to, &bytes)?;
            }
            if fs::read_if_present(&to)?.as_deref() == Some(&bytes) {
                fs::remove(&file)?;
            }
        }
    }
    Ok(())
}
