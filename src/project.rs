//! Where everything of one project lives: the root, its git folders, and each kind of file by name.
//!
//! Owns paths and nothing else; the only things it reads are git's own pointers to its folders (`gitrepository-layout(5)`).

use std::path::{Path, PathBuf};

use crate::fs::{self, FileError};
use crate::ids::{AgentId, StageId, TaskId};

/// A root that is no project, and what to do about it.
#[derive(Debug, thiserror::Error)]
pub enum ProjectError {
    /// The folder does not exist or cannot be entered.
    #[error("cannot open the project root {}", path.display())]
    Root {
        /// The folder that was asked for.
        path: PathBuf,
        /// What the system said.
        source: std::io::Error,
    },
    /// The folder has no `planning/`.
    #[error("{} has no planning/ folder; run `runner init` there, or name the project with --root", path.display())]
    NoPlan {
        /// The folder that was asked for.
        path: PathBuf,
    },
    /// No enclosing folder is a git work tree with a plan.
    #[error("no git work tree with a planning/ folder encloses {}; run `runner init`, or name the project with --root", start.display())]
    NotFound {
        /// Where the search began.
        start: PathBuf,
    },
    /// A git pointer file could not be read.
    #[error(transparent)]
    File(#[from] FileError),
}

/// The folder below `state/runs/` that holds work trees and no sessions.
pub const TREES: &str = "trees";

/// The git folders of a work tree.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GitPlaces {
    /// The work tree's own folder: `.git`, or `.git/worktrees/<name>` for a linked one.
    pub own: PathBuf,
    /// The folder all work trees of the repository share.
    pub common: PathBuf,
}

/// A project root and the places below it.
#[derive(Debug, Clone)]
pub struct Project {
    root: PathBuf,
    git: Option<GitPlaces>,
}

impl Project {
    /// Opens the project whose root is `root`; links in the path are resolved.
    pub fn open(root: &Path) -> Result<Self, ProjectError> {
        let root = root.canonicalize().map_err(|source| ProjectError::Root { path: root.to_owned(), source })?;
        if !root.join("planning").is_dir() {
            return Err(ProjectError::NoPlan { path: root });
        }
        let git = git_places(&root)?;
        Ok(Self { root, git })
    }

    /// A linked work tree of this project's repository: `own` is its own git folder. None without git.
    pub fn linked(&self, root: PathBuf, own: PathBuf) -> Option<Self> {
        let common = self.git.as_ref()?.common.clone();
        Some(Self { root, git: Some(GitPlaces { own, common }) })
    }

    /// The top of the git work tree that encloses `start`, if it holds `planning/`; outer work trees are tried next.
    pub fn discover(start: &Path) -> Result<PathBuf, ProjectError> {
        start
            .ancestors()
            .find(|folder| folder.join(".git").exists() && folder.join("planning").is_dir())
            .map(Path::to_owned)
            .ok_or_else(|| ProjectError::NotFound { start: start.to_owned() })
    }

    /// The root, absolute and without links.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// The git folders, if the root is a work tree's top.
    pub fn git(&self) -> Option<&GitPlaces> {
        self.git.as_ref()
    }

    /// Where the coordinator keeps what a session cannot sweep away: `runner/` under the git folder that all work trees
    /// share, else `state/.runner/`.
    pub fn private(&self) -> PathBuf {
        match &self.git {
            Some(git) => git.common.join("runner"),
            None => self.root.join("state/.runner"),
        }
    }

    /// Where records about this work tree alone are kept: `runner/` under its own git folder, else `state/.runner/`.
    pub fn private_own(&self) -> PathBuf {
        match &self.git {
            Some(git) => git.own.join("runner"),
            None => self.root.join("state/.runner"),
        }
    }

    /// `planning/stages/`.
    pub fn stages(&self) -> PathBuf {
        self.root.join("planning/stages")
    }

    /// `planning/tasks/`.
    pub fn cards(&self) -> PathBuf {
        self.root.join("planning/tasks")
    }

    /// `planning/tasks/<TASK>.json`.
    pub fn card(&self, task: &TaskId) -> PathBuf {
        self.cards().join(format!("{task}.json"))
    }

    /// `state/state.json`, the schema marker.
    pub fn state_marker(&self) -> PathBuf {
        self.root.join("state/state.json")
    }

    /// `state/tasks/<STAGE>/`.
    pub fn rows(&self, stage: &StageId) -> PathBuf {
        self.root.join("state/tasks").join(stage.as_str())
    }

    /// `state/tasks/<STAGE>/<TASK>.json`.
    pub fn row(&self, stage: &StageId, task: &TaskId) -> PathBuf {
        self.rows(stage).join(format!("{task}.json"))
    }

    /// `state/runs/<agent>/<n>/`, the folder of one session.
    pub fn session(&self, agent: &AgentId, number: u32) -> PathBuf {
        self.root.join("state/runs").join(agent.as_str()).join(number.to_string())
    }

    /// `state/runs/trees/`, the work trees of sessions, those that are kept included.
    pub fn trees(&self) -> PathBuf {
        self.root.join("state/runs").join(TREES)
    }

    /// `.runner.lock`: who runs, for people; the kernel holds the lock elsewhere.
    pub fn holder_file(&self) -> PathBuf {
        self.root.join(".runner.lock")
    }
}

/// Finds the git folders of a work tree whose top is `root`, following `.git` files and `commondir`.
fn git_places(root: &Path) -> Result<Option<GitPlaces>, ProjectError> {
    let dot_git = root.join(".git");
    let own = if dot_git.is_dir() {
        dot_git
    } else {
        let Some(text) = fs::read_if_present(&dot_git)? else { return Ok(None) };
        let text = String::from_utf8_lossy(&text);
        let Some(target) = text.strip_prefix("gitdir:") else { return Ok(None) };
        root.join(target.trim())
    };
    let common = match fs::read_if_present(&own.join("commondir"))? {
        Some(text) => own.join(String::from_utf8_lossy(&text).trim()),
        None => own.clone(),
    };
    let common = common.canonicalize().unwrap_or(common);
    Ok(Some(GitPlaces { own, common }))
}
