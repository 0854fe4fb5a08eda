//! The repository as the other files of this room use it: opening, configuration, HEAD, and who commits.
//!
//! Owns the open `git2` handle and the index kept in memory between sessions. Never changes anything.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};

use git2::{Config, ConfigLevel, ErrorCode, RepositoryOpenFlags, Signature};

use super::program::Program;
use super::refusal::{GitError, Refusal};
use super::{CommitError, CommitId};
use crate::project::Project;
use crate::relpath::RelPath;

/// What the commit path needs from outside.
pub struct Surroundings {
    /// The coordinator's whole environment: identity (`GIT_AUTHOR_NAME`, …), where git's configuration is, and what programs get.
    pub env: BTreeMap<OsString, OsString>,
    /// Runs the `git` program and hooks under supervision.
    pub program: Box<dyn Program>,
    /// Whether the repository's hooks are run (`git_hooks: run`).
    pub run_hooks: bool,
}

impl Surroundings {
    pub(super) fn var(&self, name: &str) -> Option<&OsStr> {
        self.env.get(OsStr::new(name)).map(OsString::as_os_str).filter(|value| !value.is_empty())
    }

    fn text(&self, name: &str) -> Option<String> {
        self.var(name).map(|value| value.to_string_lossy().into_owned())
    }
}

/// An open repository whose work tree's top is the project's root.
pub struct Repository {
    pub(super) git: git2::Repository,
    pub(super) index: git2::Index,
    pub(super) config: Config,
    pub(super) root: PathBuf,
    pub(super) surroundings: Surroundings,
    /// Where scratch files may lie: the coordinator's folder inside the work tree's own git folder.
    pub(super) scratch: PathBuf,
    /// What [`Self::prepare`] saw of the files it stored, for the index that [`Self::finish`] writes.
    pub(super) seen: BTreeMap<RelPath, super::content::Stored>,
    /// The index and the commit between which nothing was staged when [`Self::staged`] looked or [`Self::finish`] wrote.
    pub(super) in_step: Option<super::staged::InStep>,
}

impl Repository {
    /// Opens the repository at the project's root, and refuses a format that libgit2 cannot write.
    pub fn open(project: &Project, surroundings: Surroundings) -> Result<Self, Refusal> {
        let root = project.root().to_owned();
        let places = project.git().ok_or_else(|| Refusal::NoRepository { root: root.clone() })?;
        refuse_formats(&places.common)?;
        let none: [&OsStr; 0] = [];
        let git = git2::Repository::open_ext(&root, RepositoryOpenFlags::NO_SEARCH, none)
            .map_err(|error| open_refusal(&root, error))?;
        if let Some(config) = redirected_config(&git, &surroundings)? {
            git.set_config(&config).map_err(GitError::new("use git's configuration"))?;
        }
        let config = git.config().map_err(GitError::new("read git's configuration"))?;
        if git.is_bare() {
            return Err(Refusal::Bare { root });
        }
        let top = git.workdir().and_then(|top| top.canonicalize().ok());
        if let Some(top) = top.filter(|top| *top != root) {
            return Err(Refusal::NotTheTop { root, top });
        }
        let index = git.index().map_err(index_refusal)?;
        let scratch = project.private_own();
        Ok(Self { git, index, config, root, surroundings, scratch, seen: BTreeMap::new(), in_step: None })
    }

    /// Forgets the objects that were read: what one session needs of the history the next one does not, and they would only
    /// add up through the night.
    pub fn forget_objects(&self) {
        // libgit2 empties a cache when it reads an object while caching is off; what is wrong with HEAD, `check` says.
        git2::opts::enable_caching(false);
        drop(self.head());
        git2::opts::enable_caching(true);
    }

    /// The commit that is checked out.
    pub fn head(&self) -> Result<CommitId, GitError> {
        let reference = self.git.head().map_err(GitError::new("read HEAD"))?;
        reference.peel_to_commit().map(|commit| commit.id().into()).map_err(GitError::new("read the commit at HEAD"))
    }

    /// The content of a file in the commit that is checked out; `None` if it has no such file.
    pub fn blob_at_head(&self, path: &RelPath) -> Result<Option<Vec<u8>>, GitError> {
        let tree =
            self.git.head().and_then(|head| head.peel_to_tree()).map_err(GitError::new("read the tree at HEAD"))?;
        match tree.get_path(path.as_path()).and_then(|entry| entry.to_object(&self.git)) {
            Ok(object) => Ok(object.as_blob().map(|blob| blob.content().to_owned())),
            Err(error) if error.code() == ErrorCode::NotFound => Ok(None),
            Err(error) => Err(GitError::new("read a file of the commit at HEAD")(error)),
        }
    }

    /// Whether git's ignore rules, as they are now, leave the path out.
    pub fn is_ignored(&self, path: &RelPath) -> Result<bool, GitError> {
        self.git.is_path_ignored(path.as_path()).map_err(GitError::new("read git's ignore rules"))
    }

    /// The user's own ignore file: `core.excludesFile`, else `git/ignore` in the configuration folder (`gitignore(5)`).
    pub fn excludes_file(&self) -> Option<PathBuf> {
        if let Ok(path) = self.config.get_path("core.excludesFile") {
            return Some(self.root.join(path));
        }
        let folder = match self.surroundings.var("XDG_CONFIG_HOME") {
            Some(folder) => PathBuf::from(folder),
            None => Path::new(self.surroundings.var("HOME")?).join(".config"),
        };
        Some(folder.join("git/ignore"))
    }

    /// Whether the executable bit of a file counts (`core.fileMode`).
    pub fn file_mode(&self) -> bool {
        self.config.get_bool("core.fileMode").unwrap_or(true)
    }

    /// The branch HEAD names, for example `refs/heads/main`; an error if HEAD is detached.
    pub(super) fn branch(&self) -> Result<String, Refusal> {
        let head = self.git.find_reference("HEAD").map_err(GitError::new("read HEAD"))?;
        match head.symbolic_target_bytes() {
            Some(name) => String::from_utf8(name.to_owned())
                .map_err(|_| Refusal::BranchName { shown: RelPath::new(name.to_owned()).to_string() }),
            None => Err(Refusal::Detached { commit: self.head()? }),
        }
    }

    /// Author and committer of a commit at `at` (`git-commit-tree(1)`, "Commit Information").
    pub(super) fn signatures(&self, at: jiff::Timestamp) -> Result<(Signature<'static>, Signature<'static>), Refusal> {
        let one = |person: &str| -> Result<_, Refusal> {
            let (name, email) = (self.identity(person, "name"), self.identity(person, "email"));
            let name = name.ok_or(Refusal::NoIdentity { missing: "user.name" })?;
            let email = email.ok_or(Refusal::NoIdentity { missing: "user.email" })?;
            let time = git2::Time::new(at.as_second(), 0);
            Ok(Signature::new(&name, &email, &time).map_err(GitError::new("use the identity"))?)
        };
        Ok((one("author")?, one("committer")?))
    }

    /// One half of an identity, without the characters a commit cannot hold.
    fn identity(&self, person: &str, half: &str) -> Option<String> {
        let variable = format!("GIT_{}_{}", person.to_uppercase(), half.to_uppercase());
        let configured = |section: &str| self.config.get_string(&format!("{section}.{half}")).ok();
        self.surroundings
            .text(&variable)
            .or_else(|| configured(person))
            .or_else(|| configured("user"))
            .or_else(|| if half == "email" { self.surroundings.text("EMAIL") } else { None })
            .map(|text| text.replace(['<', '>', '\n', '\r', '\0'], "").trim().to_owned())
            .filter(|text| !text.is_empty())
    }

    /// Reads the index again if it changed on disk.
    pub(super) fn refresh_index(&mut self) -> Result<(), Refusal> {
        self.index.read(false).map_err(index_refusal)
    }

    /// Whether commits are to be signed.
    pub(super) fn signs(&self) -> bool {
        self.config.get_bool("commit.gpgSign").unwrap_or(false)
    }

    pub(super) fn program(&self) -> &dyn Program {
        self.surroundings.program.as_ref()
    }
}

/// Refuses what `gitrepository-layout(5)` calls an extension and libgit2 does not write.
fn refuse_formats(common: &Path) -> Result<(), Refusal> {
    let Ok(config) = Config::open(&common.join("config")) else { return Ok(()) };
    let value = |name| config.get_string(name).ok().map(|value| value.to_lowercase());
    if let Some(storage) = value("extensions.refStorage").filter(|storage| storage != "files") {
        let what = format!("reference storage `{storage}`");
        return Err(Refusal::Format { what, advice: "run `git refs migrate --ref-format=files`" });
    }
    if let Some(format) = value("extensions.objectFormat").filter(|format| format != "sha1") {
        let what = format!("object format `{format}`");
        return Err(Refusal::Format { what, advice: "use a repository made with `git init --object-format=sha1`" });
    }
    if value("extensions.partialClone").is_some() {
        let what = "a partial clone (`extensions.partialClone`)".to_owned();
        return Err(Refusal::Format { what, advice: "use a full clone, made without --filter" });
    }
    Ok(())
}

fn open_refusal(root: &Path, error: git2::Error) -> Refusal {
    let root = root.to_owned();
    match error.code() {
        ErrorCode::NotFound => Refusal::NoRepository { root },
        ErrorCode::Owner => Refusal::ForeignOwner { root },
        _ if error.message().contains("extension") => Refusal::Format {
            what: format!("a repository extension ({})", error.message()),
            advice: "turn it off, or use a plain clone",
        },
        _ => GitError::new("open the git repository")(error).into(),
    }
}

/// An index that cannot be read: the two formats libgit2 lacks are named (`gitformat-index(5)`: `sdir`, `link`).
pub(super) fn index_refusal(error: git2::Error) -> Refusal {
    let format = |what: &str, advice| Refusal::Format { what: what.to_owned(), advice };
    if error.message().contains("'sdir'") {
        return format("a sparse index", "run `git sparse-checkout reapply --no-sparse-index`");
    }
    if error.message().contains("'link'") {
        return format("a split index", "run `git update-index --no-split-index`");
    }
    GitError::new("read git's index; if it is damaged, remove .git/index and run `git reset`")(error).into()
}

/// The configuration when the environment says where git's own files are (`git(1)`, "ENVIRONMENT VARIABLES"), which libgit2
/// does not heed.
fn redirected_config(git: &git2::Repository, surroundings: &Surroundings) -> Result<Option<Config>, GitError> {
    let (global, system) = (surroundings.var("GIT_CONFIG_GLOBAL"), surroundings.var("GIT_CONFIG_SYSTEM"));
    let no_system =
        surroundings.text("GIT_CONFIG_NOSYSTEM").is_some_and(|text| !matches!(&*text, "0" | "false" | "no"));
    if global.is_none() && system.is_none() && !no_system {
        return Ok(None);
    }
    let mut files: Vec<(PathBuf, ConfigLevel)> = Vec::new();
    if !no_system {
        files.extend(
            system.map(PathBuf::from).or_else(|| Config::find_system().ok()).map(|at| (at, ConfigLevel::System)),
        );
    }
    if let Some(path) = global {
        files.push((PathBuf::from(path), ConfigLevel::Global));
    } else {
        files.extend(Config::find_xdg().ok().map(|at| (at, ConfigLevel::XDG)));
        files.extend(Config::find_global().ok().map(|at| (at, ConfigLevel::Global)));
    }
    files.push((git.commondir().join("config"), ConfigLevel::Local));
    let own = git.config().and_then(|config| config.get_bool("extensions.worktreeConfig")).unwrap_or(false);
    if own {
        files.push((git.path().join("config.worktree"), ConfigLevel::Worktree));
    }
    let fail = || GitError::new("read git's configuration");
    let mut config = Config::new().map_err(fail())?;
    for (path, level) in files.into_iter().filter(|(path, _)| path.is_file()) {
        config.add_file(&path, level, true).map_err(fail())?;
    }
    Ok(Some(config))
}

impl From<super::tree::TreeFault> for CommitError {
    fn from(fault: super::tree::TreeFault) -> Self {
        match fault {
            super::tree::TreeFault::Submodule { path, submodule } => Self::Submodule { path, submodule },
            super::tree::TreeFault::BadPath { path } => Self::BadPath { path },
            super::tree::TreeFault::Git(source) => GitError::new("write the tree of the commit")(source).into(),
        }
    }
}
