//! Making a commit in two steps, so that a kill between any two system calls loses nothing.
//!
//! `prepare` writes objects and syncs them; nothing names them yet. `finish` moves the branch under its lock file, only from
//! where it was, and then writes the index. The commit goes on top of the parent's tree, so nothing staged gets in.

use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use git2::{Commit, ErrorCode, Oid};

use super::check::look_at_lock;
use super::content::{Stored, index_entry};
use super::git::Repository;
use super::land::Content;
use super::program::{self, Call};
use super::refusal::{CommitError, GitError, LockFile, Refusal};
use super::tree::TreeWriter;
use super::{CommitId, CommitPlan, Prepared};
use crate::fault;
use crate::fs;
use crate::relpath::RelPath;

/// What moving the branch came to.
#[derive(PartialEq, Eq)]
enum Moved {
    Now,
    Before,
    /// Others have committed on top since.
    Buried,
}

impl Repository {
    /// Writes blobs, trees and the commit, durably; no branch moves and the index stays as it is.
    pub fn prepare(&mut self, plan: &CommitPlan) -> Result<Prepared, CommitError> {
        self.prepare_with(plan, &[])
    }

    /// As [`Repository::prepare`], with contents that the repository has already, whatever lies in the work tree there.
    pub fn prepare_with(&mut self, plan: &CommitPlan, contents: &[Content]) -> Result<Prepared, CommitError> {
        const DOING: &str = "read the commit to build on";
        self.demand_head(plan)?;
        self.refresh_index()?;
        let mut paths = plan.paths.clone();
        paths.sort();
        paths.dedup();
        let stored = self.store(&paths)?;
        fault::point("commit:stored");
        let parent = self.git.find_commit(plan.parent.oid()).map_err(GitError::new(DOING))?;
        let base = parent.tree().map_err(GitError::new(DOING))?;
        let mut writer = TreeWriter::new(&self.git);
        let own = stored.iter().map(|(path, file)| (path, file.as_ref().map(|file| (file.oid, file.mode))));
        let changes = own.chain(contents.iter().map(|content| (&content.path, content.leaf()))).collect();
        let tree = writer.write(&base, changes)?;
        let mut objects = writer.written;
        objects.extend(stored.iter().filter_map(|(_, file)| file.as_ref().map(|file| file.oid)));
        let message = if self.surroundings.run_hooks {
            self.ask_hooks(tree, &stored, &plan.message)?
        } else {
            plan.message.clone()
        };
        let commit = self.write_commit(plan, (tree, &message), &parent)?;
        objects.push(commit);
        drop((parent, base));
        self.sync_objects(&objects)?;
        fault::point("commit:prepared");
        paths.extend(contents.iter().map(|content| content.path.clone()));
        self.seen = stored.into_iter().filter_map(|(path, file)| file.map(|file| (path, file))).collect();
        Ok(Prepared { commit: commit.into(), parent: plan.parent.clone(), branch: plan.branch.clone(), paths })
    }

    /// Moves the branch to the prepared commit and brings the index up to date; doing it again does no harm.
    ///
    /// If the branch holds the commit already, only the index is written; if others have committed on top, nothing is.
    pub fn finish(&mut self, prepared: &Prepared) -> Result<CommitId, CommitError> {
        let (commit, branch) = self.finish_unsynced(prepared)?;
        sync_if_present(&branch)?;
        Ok(commit)
    }

    /// As [`Repository::finish`], but after a power failure the branch may be where it was until the caller has synced its file,
    /// which is given.
    pub fn finish_unsynced(&mut self, prepared: &Prepared) -> Result<(CommitId, PathBuf), CommitError> {
        let commit = self.finish_with(prepared, &mut |_| Ok(()))?;
        Ok((commit, self.branch_file(prepared)))
    }

    /// The file that says where the branch is, once it was moved.
    pub(super) fn branch_file(&self, prepared: &Prepared) -> PathBuf {
        self.git.commondir().join(&prepared.branch)
    }

    /// As [`Repository::finish_unsynced`]; `before` is called under the branch's lock before the branch moves, and can stop it.
    pub(super) fn finish_with(
        &mut self,
        prepared: &Prepared,
        before: &mut dyn FnMut(&Self) -> Result<(), CommitError>,
    ) -> Result<CommitId, CommitError> {
        self.demand_branch(&prepared.branch)?;
        let moved = self.move_branch(prepared, before)?;
        fault::point("commit:moved");
        if moved != Moved::Buried {
            self.write_index(prepared)?;
            fault::point("commit:indexed");
        }
        if moved == Moved::Now && self.surroundings.run_hooks {
            self.tell_hooks();
        }
        self.seen.clear();
        Ok(prepared.commit.clone())
    }

    /// Makes the index agree with HEAD at these paths, so that nothing is staged there; the files stay as they are.
    pub fn unstage(&mut self, paths: &[RelPath]) -> Result<(), CommitError> {
        let head = self.git.head().and_then(|head| head.peel_to_commit()).map_err(GitError::new("read HEAD"))?.id();
        self.index_paths(head, paths).map(drop)
    }

    fn demand_branch(&self, expected: &str) -> Result<(), CommitError> {
        let found = self.branch()?;
        if found == expected {
            return Ok(());
        }
        Err(CommitError::BranchSwitched { expected: expected.to_owned(), found })
    }

    fn demand_head(&self, plan: &CommitPlan) -> Result<(), CommitError> {
        self.demand_branch(&plan.branch)?;
        let found = self.head()?;
        if found == plan.parent {
            return Ok(());
        }
        Err(CommitError::HeadMoved { expected: plan.parent.clone(), found })
    }

    /// Writes the commit object, by the `git` program if it is to be signed.
    fn write_commit(&self, plan: &CommitPlan, content: (Oid, &str), parent: &Commit<'_>) -> Result<Oid, CommitError> {
        const DOING: &str = "write the commit";
        let (author, committer) = self.signatures(plan.at)?;
        let (tree, message) = content;
        if !self.signs() {
            let tree = self.git.find_tree(tree).map_err(GitError::new(DOING))?;
            let commit = self.git.commit(None, &author, &committer, message, &tree, &[parent]);
            return Ok(commit.map_err(GitError::new(DOING))?);
        }
        let (tree, parent) = (tree.to_string(), parent.id().to_string());
        let arguments = ["commit-tree", "-S", "-p", &parent, "-F", "-", &tree].map(AsRef::as_ref);
        let mut env = program::environment(&self.surroundings.env);
        for (person, signature) in [("AUTHOR", &author), ("COMMITTER", &committer)] {
            let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
            for (what, value) in [
                ("NAME", text(signature.name_bytes())),
                ("EMAIL", text(signature.email_bytes())),
                ("DATE", format!("@{} +0000", plan.at.as_second())),
            ] {
                env.insert(format!("GIT_{person}_{what}").into(), value.into());
            }
        }
        let call = Call { argv: program::git(&arguments), cwd: &self.root, env, stdin: message.as_bytes().to_owned() };
        let purpose = "signing the commit with `git commit-tree -S`";
        program::object_id(purpose, &program::run(self.program(), purpose, &call)?)
    }

    /// Makes new objects durable before anything names them; those in packs are.
    pub(super) fn sync_objects(&self, objects: &[Oid]) -> Result<(), CommitError> {
        let folder = self.git.commondir().join("objects");
        let loose = |oid: &Oid| {
            let digits = oid.to_string();
            folder.join(&digits[..2]).join(&digits[2..])
        };
        let paths: Vec<PathBuf> = objects.iter().map(loose).collect();
        fs::at_once(&paths, |path| sync_if_present(path)).map(drop)
    }

    /// Compare and swap: only from the parent, under the branch's lock file, with a line in the reflog.
    fn move_branch(
        &self,
        prepared: &Prepared,
        before: &mut dyn FnMut(&Self) -> Result<(), CommitError>,
    ) -> Result<Moved, CommitError> {
        const DOING: &str = "move the branch";
        let (branch, commit) = (prepared.branch.as_str(), prepared.commit.oid());
        let path = self.branch_file(prepared);
        let fail = |error: git2::Error| locked_or(error, DOING, &path);
        let mut transaction = self.git.transaction().map_err(GitError::new(DOING))?;
        transaction.lock_ref(branch).map_err(fail)?;
        fault::point("commit:locked");
        let at = self.git.refname_to_id(branch).map_err(GitError::new(DOING))?;
        if at == commit {
            return Ok(Moved::Before);
        }
        if at != prepared.parent.oid() {
            if self.git.graph_descendant_of(at, commit).unwrap_or(false) {
                return Ok(Moved::Buried);
            }
            return Err(CommitError::HeadMoved { expected: prepared.parent.clone(), found: at.into() });
        }
        before(self)?;
        let object = self.git.find_commit(commit).map_err(GitError::new("find the prepared commit"))?;
        let subject = String::from_utf8_lossy(object.summary_bytes().unwrap_or_default()).into_owned();
        let log = format!("commit: {subject}");
        let committer = object.committer();
        transaction.set_target(branch, commit, Some(&committer), &log).map_err(GitError::new(DOING))?;
        transaction.commit().map_err(fail)?;
        fault::point("commit:renamed");
        Ok(Moved::Now)
    }

    fn write_index(&mut self, prepared: &Prepared) -> Result<(), CommitError> {
        let commit = prepared.commit.oid();
        let was_in_step_with = self.index_paths(commit, &prepared.paths)?;
        // The two commits differ at these paths and nowhere else.
        self.in_step = self.index_at(commit).filter(|_| was_in_step_with == Some(prepared.parent.oid()));
        Ok(())
    }

    /// Gives the index the entries a commit has at `paths`, with stat data where the file has that very content; answers with the
    /// commit that it was in step with before, if that is known.
    fn index_paths(&mut self, commit: Oid, paths: &[RelPath]) -> Result<Option<Oid>, CommitError> {
        const DOING: &str = "write git's index";
        self.refresh_index()?;
        // Asked of what has just been read, so that nothing which others stage meanwhile is passed over.
        let was_in_step_with = self.known_in_step();
        let entries = self.entries_of(commit, paths).map_err(GitError::new(DOING))?;
        for path in paths {
            for stage in 0..4 {
                match self.index.remove(path.as_path(), stage) {
                    Err(error) if error.code() != ErrorCode::NotFound => return Err(GitError::new(DOING)(error).into()),
                    _ => {}
                }
            }
        }
        for (path, oid, mode) in entries {
            let file = self.as_stored(&path, (oid, mode));
            let entry = index_entry(&path, (oid, mode), file.as_ref().map(|file| &file.metadata));
            self.index.add(&entry).map_err(GitError::new(DOING))?;
        }
        fault::point("commit:index");
        let path = self.index.path().map(Path::to_owned).unwrap_or_default();
        self.index.write().map_err(|error| locked_or(error, DOING, &path))?;
        Ok(was_in_step_with)
    }

    /// The files a commit has at `paths`.
    fn entries_of(&self, commit: Oid, paths: &[RelPath]) -> Result<Vec<(RelPath, Oid, u32)>, git2::Error> {
        let tree = self.git.find_commit(commit)?.tree()?;
        let mut entries = Vec::new();
        for path in paths {
            match tree.get_path(path.as_path()) {
                Ok(entry) if entry.kind() != Some(git2::ObjectType::Tree) => {
                    entries.push((path.clone(), entry.id(), entry.filemode().cast_unsigned()));
                }
                Ok(_) => {}
                Err(error) if error.code() == ErrorCode::NotFound => {}
                Err(error) => return Err(error),
            }
        }
        Ok(entries)
    }

    /// The file at `path` if its content is the given object: as seen while preparing, else by looking again.
    fn as_stored(&self, path: &RelPath, object: (Oid, u32)) -> Option<Stored> {
        let is_it = |file: &Stored| (file.oid, file.mode) == object;
        if let Some(seen) = self.seen.get(path).filter(|seen| is_it(seen)) {
            let now = path.under(&self.root).symlink_metadata().ok()?;
            let stamp = |m: &std::fs::Metadata| (m.ino(), m.size(), m.mode(), m.ctime(), m.ctime_nsec());
            if stamp(&now) == stamp(&seen.metadata) {
                return Some(seen.clone());
            }
        }
        // Without stat data git compares the content itself, so a file that cannot be looked at does no harm.
        let stored = self.store(std::slice::from_ref(path)).ok()?;
        stored.into_iter().find_map(|(_, file)| file).filter(is_it)
    }
}

/// A lock file in the way is named, with whoever holds it.
fn locked_or(error: git2::Error, doing: &'static str, target: &Path) -> CommitError {
    let mut name = target.as_os_str().to_owned();
    name.push(".lock");
    let lock = PathBuf::from(name);
    if !matches!(error.code(), ErrorCode::Locked) {
        return GitError::new(doing)(error).into();
    }
    let lock = look_at_lock(&lock, None).unwrap_or(LockFile { path: lock, age_seconds: None, holders: Vec::new() });
    let advice = "the commit is kept and is finished by the next start; if no git command is running, remove the file";
    Refusal::LockFile { lock, advice }.into()
}

/// Syncs a file, if there is one; it is new under its name, and the file systems with a journal then keep the name too.
pub(super) fn sync_if_present(path: &Path) -> Result<(), CommitError> {
    match fs::open_to_read(path) {
        Ok(file) => {
            Ok(file.sync_all().map_err(|error| Refusal::NotDurable { path: path.to_owned(), source: error })?)
        }
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(()),
        Err(error) => Err(error.into()),
    }
}
