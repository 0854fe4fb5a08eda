//! A sandbox with a real repository, cut off from the machine's configuration; the `git` program only inspects and sets up.

mod check;
mod finish;
mod land;
mod prepare;
mod program;
mod reading;

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use super::{Call, CommitError, CommitId, CommitPlan, Program, ProgramOutput, Refusal, Repository, Surroundings};
use crate::project::Project;
use crate::relpath::RelPath;

/// A folder with a project that is a git repository with one commit.
pub(super) struct Sandbox {
    folder: tempfile::TempDir,
    pub(super) env: BTreeMap<OsString, OsString>,
    pub(super) run_hooks: bool,
}

/// Runs programs without supervision.
struct Direct;

impl Program for Direct {
    fn run(&self, call: &Call<'_>) -> Result<ProgramOutput, String> {
        let output = run(&call.argv, call.cwd, &call.env, &call.stdin).map_err(|error| error.to_string())?;
        let (stdout, stderr) = (output.stdout, output.stderr);
        Ok(ProgramOutput { success: output.status.success(), ended: output.status.to_string(), stdout, stderr })
    }
}

#[expect(clippy::disallowed_methods, reason = "a test looks at the repository with git's own eyes")]
fn run(
    argv: &[OsString],
    cwd: &Path,
    env: &BTreeMap<OsString, OsString>,
    stdin: &[u8],
) -> std::io::Result<std::process::Output> {
    use std::io::Write as _;
    let mut command = Command::new(&argv[0]);
    command.args(&argv[1..]).current_dir(cwd).env_clear().envs(env);
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn()?;
    let _closed_early = child.stdin.take().unwrap().write_all(stdin);
    child.wait_with_output()
}

impl Sandbox {
    /// An empty project folder, no repository.
    #[expect(clippy::disallowed_methods, reason = "git must be found where the test runs")]
    pub(super) fn bare_folder() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let mut env: BTreeMap<OsString, OsString> = [
            ("GIT_CONFIG_GLOBAL", "/dev/null"),
            ("GIT_CONFIG_NOSYSTEM", "1"),
            ("GIT_CONFIG_SYSTEM", "/dev/null"),
            ("LC_ALL", "C"),
        ]
        .map(|(name, value)| (name.into(), value.into()))
        .into();
        env.insert("PATH".into(), std::env::var_os("PATH").unwrap_or_else(|| "/usr/bin:/bin".into()));
        env.insert("HOME".into(), folder.path().join("home").into());
        let sandbox = Self { folder, env, run_hooks: false };
        sandbox.write("planning/plan.txt", "plan\n");
        sandbox
    }

    /// A repository on branch `main` with some files in its first commit.
    pub(super) fn new() -> Self {
        let sandbox = Self::bare_folder();
        sandbox.git(&["init", "-q", "-b", "main"]);
        sandbox.git(&["config", "user.name", "Ada"]);
        sandbox.git(&["config", "user.email", "ada@example.org"]);
        sandbox.write("a.txt", "a\n");
        sandbox.write("src/b.txt", "b\n");
        sandbox.write("src/deep/c.txt", "c\n");
        sandbox.git(&["add", "-A"]);
        sandbox.git(&["commit", "-qm", "Begin"]);
        sandbox
    }

    pub(super) fn root(&self) -> PathBuf {
        self.folder.path().canonicalize().unwrap().join("project")
    }

    pub(super) fn path(&self, name: &str) -> PathBuf {
        self.root().join(name)
    }

    pub(super) fn write(&self, name: impl AsRef<OsStr>, content: impl AsRef<[u8]>) {
        let path = self.folder.path().join("project").join(Path::new(name.as_ref()));
        crate::fs::replace(&path, content.as_ref()).unwrap();
    }

    pub(super) fn read(&self, name: &str) -> String {
        String::from_utf8(crate::fs::read(&self.path(name)).unwrap()).unwrap()
    }

    pub(super) fn script(&self, name: &str, content: &str) {
        self.write(name, content);
        std::fs::set_permissions(self.path(name), std::fs::Permissions::from_mode(0o755)).unwrap();
    }

    pub(super) fn link(&self, name: &str, target: &str) {
        symlink(target, self.path(name)).unwrap();
    }

    pub(super) fn remove(&self, name: &str) {
        let path = self.path(name);
        if path.is_dir() && !path.is_symlink() {
            crate::fs::remove_folder(&path).unwrap();
        } else {
            crate::fs::remove(&path).unwrap();
        }
    }

    /// Runs git, which must succeed, and gives its trimmed output.
    pub(super) fn git(&self, arguments: &[&str]) -> String {
        self.git_in(&self.root(), arguments)
    }

    pub(super) fn git_in(&self, folder: &Path, arguments: &[&str]) -> String {
        let output = self.try_git(folder, arguments);
        assert!(output.status.success(), "git {arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8_lossy(&output.stdout).trim_end().to_owned()
    }

    pub(super) fn try_git(&self, folder: &Path, arguments: &[&str]) -> std::process::Output {
        let argv: Vec<OsString> = std::iter::once("git").chain(arguments.iter().copied()).map(OsString::from).collect();
        run(&argv, folder, &self.env, b"").unwrap()
    }

    pub(super) fn try_open(&self) -> Result<Repository, Refusal> {
        self.try_open_at(&self.root())
    }

    pub(super) fn try_open_at(&self, root: &Path) -> Result<Repository, Refusal> {
        let surroundings = Surroundings { env: self.env.clone(), program: Box::new(Direct), run_hooks: self.run_hooks };
        Repository::open(&Project::open(root).unwrap(), surroundings)
    }

    pub(super) fn open(&self) -> Repository {
        self.try_open().unwrap()
    }

    pub(super) fn plan(&self, paths: &[&str]) -> CommitPlan {
        CommitPlan {
            parent: CommitId::try_from(self.git(&["rev-parse", "HEAD"])).unwrap(),
            branch: self.git(&["symbolic-ref", "HEAD"]),
            message: "Change some of the files\n\nChanges: a\nValidation: b\n\nTask: S00-001\n".to_owned(),
            paths: self::paths(paths),
            at: now(),
        }
    }

    /// Prepares and finishes a commit of these paths.
    pub(super) fn commit(&self, paths: &[&str]) -> Result<CommitId, CommitError> {
        let mut repository = self.open();
        let prepared = repository.prepare(&self.plan(paths))?;
        repository.finish(&prepared)
    }

    /// Nothing differs, nothing is staged, and the object store is sound.
    pub(super) fn assert_clean(&self) {
        assert_eq!(self.git(&["status", "--porcelain"]), "");
        assert_eq!(self.git(&["write-tree"]), self.git(&["rev-parse", "HEAD^{tree}"]));
        self.git(&["fsck", "--strict"]);
    }
}

pub(super) fn paths(names: &[&str]) -> Vec<RelPath> {
    names.iter().map(|name| RelPath::from(*name)).collect()
}

pub(super) fn now() -> jiff::Timestamp {
    "2026-11-30T03:05:12Z".parse().unwrap()
}

/// A file name that is no UTF-8.
pub(super) fn odd_name() -> &'static OsStr {
    OsStr::from_bytes(b"src/\xff \"odd\"\\\n.txt")
}
