//! The repository's own hooks, where they are wanted (`git_hooks: run`).
//!
//! They see what `git commit` would show them: an index of their own that holds exactly the commit, and the message in a file
//! (`githooks(5)`). They may refuse, and `commit-msg` and its like may edit the message; nothing else. Never touches the real index.

use std::ffi::OsString;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use git2::{DiffOptions, Index, Oid};

use super::content::{Stored, index_entry};
use super::git::Repository;
use super::program::{self, Call};
use super::reading::changed_paths;
use super::refusal::{CommitError, GitError};
use crate::fs;
use crate::relpath::RelPath;

impl Repository {
    /// Runs the hooks that come before a commit; gives the message as they leave it.
    pub(super) fn ask_hooks(
        &self,
        tree: Oid,
        stored: &[(RelPath, Option<Stored>)],
        message: &str,
    ) -> Result<String, CommitError> {
        let index = self.scratch.join("hook-index");
        let text = self.scratch.join("hook-message");
        let hooks = ["pre-commit", "prepare-commit-msg", "commit-msg"];
        let found: Vec<(&'static str, PathBuf)> =
            hooks.iter().filter_map(|name| self.hook(name).map(|path| (*name, path))).collect();
        if found.is_empty() {
            return Ok(message.to_owned());
        }
        self.write_hook_index(&index, tree, stored)?;
        fs::replace_private(&text, message.as_bytes())?;
        let asked = self.ask_each(&found, (&index, &text), tree);
        fs::remove(&index)?;
        let left = fs::read(&text)?;
        fs::remove(&text)?;
        asked?;
        let left = String::from_utf8_lossy(&left).trim_end().to_owned();
        if left.is_empty() {
            let reason = "it emptied the commit message; nothing was committed".to_owned();
            return Err(CommitError::Program { purpose: "the commit-msg hook".to_owned(), reason });
        }
        Ok(left + "\n")
    }

    fn ask_each(&self, hooks: &[(&'static str, PathBuf)], files: (&Path, &Path), tree: Oid) -> Result<(), CommitError> {
        let (index, text) = files;
        for (name, hook) in hooks {
            let before = self.differing(index)?;
            let mut arguments: Vec<OsString> = Vec::new();
            if *name != "pre-commit" {
                arguments.push(text.into());
            }
            if *name == "prepare-commit-msg" {
                arguments.push("message".into());
            }
            self.run_hook(name, hook, (index, arguments))?;
            let mut paths = self.differing(index)?;
            paths.retain(|path| !before.contains(path));
            paths.extend(self.restaged(index, tree)?);
            if !paths.is_empty() {
                paths.sort();
                paths.dedup();
                return Err(CommitError::HookChanged { hook: name, paths });
            }
        }
        Ok(())
    }

    /// Tells the hook that comes after a commit; as with git, it cannot undo one, so how it ends does not matter.
    pub(super) fn tell_hooks(&self) {
        if let Some(hook) = self.hook("post-commit") {
            let index = self.index.path().map(Path::to_owned).unwrap_or_default();
            let _ended = self.run_hook("post-commit", &hook, (&index, Vec::new()));
        }
    }

    fn run_hook(&self, name: &str, hook: &Path, call: (&Path, Vec<OsString>)) -> Result<(), CommitError> {
        let (index, arguments) = call;
        let mut env = program::environment(&self.surroundings.env);
        env.insert("GIT_INDEX_FILE".into(), index.into());
        env.insert("GIT_EDITOR".into(), ":".into());
        // Git's own tools inside a hook take pathspecs as their authors meant them.
        env.remove(OsString::from("GIT_LITERAL_PATHSPECS").as_os_str());
        // The shell runs a script without a `#!` line as git does; the hook gets its own name and arguments untouched.
        let mut argv: Vec<OsString> = ["sh", "-c", "\"$0\" \"$@\""].map(OsString::from).to_vec();
        argv.push(hook.into());
        argv.extend(arguments);
        let call = Call { argv, cwd: &self.root, env, stdin: Vec::new() };
        program::run(self.program(), &format!("the {name} hook"), &call).map(drop)
    }

    /// The hook's file: in `core.hooksPath` (taken from the work tree's top), else in the shared git folder; executable.
    fn hook(&self, name: &str) -> Option<PathBuf> {
        let folder = match self.config.get_path("core.hooksPath") {
            Ok(path) => self.root.join(path),
            Err(_) => self.git.commondir().join("hooks"),
        };
        let path = folder.join(name);
        let metadata = path.metadata().ok()?;
        (metadata.is_file() && metadata.permissions().mode() & 0o111 != 0).then_some(path)
    }

    /// An index that holds the commit's tree: the real one with the commit's paths, or, if something else is staged, the
    /// tree alone.
    fn write_hook_index(&self, at: &Path, tree: Oid, stored: &[(RelPath, Option<Stored>)]) -> Result<(), CommitError> {
        const DOING: &str = "write the index for the hooks";
        let real = self.index.path().map(fs::read_if_present).transpose()?.flatten().unwrap_or_default();
        fs::replace_private(at, &real)?;
        let fail = || GitError::new(DOING);
        let mut index = Index::open(at).map_err(fail())?;
        for (path, file) in stored {
            let _absent = index.remove(path.as_path(), 0);
            if let Some(file) = file {
                let entry = index_entry(path, (file.oid, file.mode), Some(&file.metadata));
                index.add(&entry).map_err(fail())?;
            }
        }
        if index.has_conflicts() || index.write_tree_to(&self.git).map_err(fail())? != tree {
            let tree = self.git.find_tree(tree).map_err(fail())?;
            index.read_tree(&tree).map_err(fail())?;
        }
        Ok(index.write().map_err(fail())?)
    }

    /// Tracked files of the work tree that differ from an index.
    fn differing(&self, index: &Path) -> Result<Vec<RelPath>, CommitError> {
        const DOING: &str = "see what a hook changed";
        let index = Index::open(index).map_err(GitError::new(DOING))?;
        let mut options = DiffOptions::new();
        options.include_typechange(true).ignore_submodules(true);
        let diff = self.git.diff_index_to_workdir(Some(&index), Some(&mut options)).map_err(GitError::new(DOING))?;
        Ok(changed_paths(&diff))
    }

    /// Paths at which a hook's index no longer holds the commit's tree.
    fn restaged(&self, index: &Path, tree: Oid) -> Result<Vec<RelPath>, CommitError> {
        const DOING: &str = "see what a hook staged";
        let index = Index::open(index).map_err(GitError::new(DOING))?;
        let tree = self.git.find_tree(tree).map_err(GitError::new(DOING))?;
        let diff = self.git.diff_tree_to_index(Some(&tree), Some(&index), None).map_err(GitError::new(DOING))?;
        Ok(changed_paths(&diff))
    }
}
