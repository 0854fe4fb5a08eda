//! Bringing what was made in another work tree into this one: branch, files and index together, or nothing of it.
//!
//! The content is in the object store before anything is settled. Under the branch's lock every path is compared with what the
//! branch has there; a path that a person edited stops all of it. The files go first, each by an exchange that can be taken back;
//! a kill in between leaves the branch where it was, and the same call finishes later.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

use git2::Oid;
use serde::{Deserialize, Serialize};

use super::content::{LINK, Stored};
use super::git::Repository;
use super::linked::entry_of;
use super::prepare::sync_if_present;
use super::program::{self, Call};
use super::refusal::{CommitError, GitError};
use super::tree::TreeWriter;
use super::{CommitId, Prepared};
use crate::fault;
use crate::fs::{
    self,
    swap::{self, Piece, Swap},
};
use crate::relpath::RelPath;

/// A file whose content is in the repository; or one that is gone.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Content {
    /// The path.
    pub path: RelPath,
    /// What lies there; none if it is to be removed.
    pub blob: Option<Blob>,
}

/// A blob and git's mode of the file that holds it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Blob {
    /// Its object id.
    id: CommitId,
    /// For example `0o100644`.
    mode: u32,
}

impl Content {
    pub(super) fn leaf(&self) -> Option<(Oid, u32)> {
        self.blob.as_ref().map(|blob| (blob.id.oid(), blob.mode))
    }
}

/// What a commit lands on.
#[derive(Debug, Clone, Copy)]
pub struct Landing<'a> {
    /// The commit the content was made from.
    pub base: &'a CommitId,
    /// The files that this work tree does not have yet.
    pub contents: &'a [Content],
    /// A folder on the work tree's file system, for files on their way.
    pub scratch: &'a Path,
}

/// One path on its way.
struct Move<'a> {
    path: &'a RelPath,
    /// What is there now, as it was looked at.
    here: Option<Stored>,
    wanted: Option<(Oid, u32)>,
}

impl Repository {
    /// Stores what lies at each path of this work tree, durably; nothing names it yet.
    pub fn keep_contents(&self, paths: &[RelPath]) -> Result<Vec<Content>, CommitError> {
        let stored = self.store(paths)?;
        let objects: Vec<Oid> = stored.iter().filter_map(|(_, file)| file.as_ref().map(|file| file.oid)).collect();
        self.sync_objects(&objects)?;
        let blob = |file: Stored| Blob { id: file.oid.into(), mode: file.mode };
        Ok(stored.into_iter().map(|(path, file)| Content { path, blob: file.map(blob) }).collect())
    }

    /// Keeps the contents as a commit of their own on top of `base`, under `refs/runner/kept/<name>`; nothing else changes.
    pub fn keep_work(
        &self,
        name: &str,
        (base, contents): (&CommitId, &[Content]),
        (message, at): (&str, jiff::Timestamp),
    ) -> Result<CommitId, CommitError> {
        const DOING: &str = "keep a session's work as a commit";
        let fail = || GitError::new(DOING);
        let parent = self.git.find_commit(base.oid()).map_err(fail())?;
        let changes = contents.iter().map(|content| (&content.path, content.leaf())).collect();
        let mut writer = TreeWriter::new(&self.git);
        let tree = writer.write(&parent.tree().map_err(fail())?, changes)?;
        let mut objects = writer.written;
        let tree = self.git.find_tree(tree).map_err(fail())?;
        let (author, committer) = self.signatures(at)?;
        let commit = self.git.commit(None, &author, &committer, message, &tree, &[&parent]).map_err(fail())?;
        objects.push(commit);
        self.sync_objects(&objects)?;
        let commit = CommitId::from(commit);
        self.keep(name, &commit)?;
        Ok(commit)
    }

    /// Whether what was kept under that name has become part of the branch, by a person's merge.
    pub fn is_merged(&self, name: &str) -> bool {
        let kept = self.git.refname_to_id(&format!("refs/runner/kept/{name}"));
        let head = self.git.head().and_then(|head| head.peel_to_commit());
        match (kept, head) {
            (Ok(kept), Ok(head)) => kept == head.id() || self.git.graph_descendant_of(head.id(), kept).unwrap_or(false),
            _ => false,
        }
    }

    /// As [`Repository::finish`], and the files of this work tree move with the branch, or nothing moves.
    pub fn land(&mut self, prepared: &Prepared, landing: &Landing<'_>) -> Result<CommitId, CommitError> {
        self.refresh_index()?;
        let mut swaps = Vec::new();
        let done = self
            .finish_with(prepared, &mut |repository| repository.move_files(prepared, landing, &mut swaps))
            .and_then(|commit| sync_if_present(&self.branch_file(prepared)).map(|()| commit));
        if done.is_err() && self.git.refname_to_id(&prepared.branch).ok() != Some(prepared.commit.oid()) {
            for swap in swaps.drain(..).rev() {
                swap.undo(&self.root)?;
            }
        }
        drop(swaps);
        fs::remove_folder(landing.scratch)?;
        done
    }

    /// Brings the files to the prepared commit, if each of them is as the branch has it.
    fn move_files(&self, prepared: &Prepared, landing: &Landing<'_>, swaps: &mut Vec<Swap>) -> Result<(), CommitError> {
        let moves = self.moves(prepared, landing)?;
        let scratch = landing.scratch;
        let fresh = self.pieces(&prepared.commit, &moves)?;
        let refused = |path: &RelPath| CommitError::Overwrites { paths: vec![path.clone()] };
        // What goes, goes first: a file may have to make room for a folder, and the other way round.
        for one in moves.iter().filter(|one| one.wanted.is_none()) {
            let Some(here) = &one.here else { continue };
            let path = one.path.under(&self.root);
            swaps.push(swap::take(&path, &here.metadata, scratch)?.ok_or_else(|| refused(one.path))?);
            fs::remove_empty_folders(&path, &self.root);
        }
        for (one, piece) in moves.iter().filter(|one| one.wanted.is_some()).zip(fresh) {
            let path = one.path.under(&self.root);
            let expected = one.here.as_ref().map(|here| &here.metadata);
            swaps.push(swap::put(&path, &piece, (expected, scratch))?.ok_or_else(|| refused(one.path))?);
            fault::point("land:file");
        }
        swaps.iter().try_for_each(Swap::sync)?;
        fault::point("land:files");
        Ok(())
    }

    /// What has to move; an error names every path that a person changed.
    fn moves<'l>(&self, prepared: &Prepared, landing: &'l Landing<'_>) -> Result<Vec<Move<'l>>, CommitError> {
        const DOING: &str = "read the commits to move between";
        let tree = |commit: &CommitId| {
            self.git.find_commit(commit.oid()).and_then(|commit| commit.tree()).map_err(GitError::new(DOING))
        };
        let (base, parent) = (tree(landing.base)?, tree(&prepared.parent)?);
        let paths: Vec<RelPath> = landing.contents.iter().map(|content| content.path.clone()).collect();
        let apart = |content: &&Content| {
            let on_branch = entry_of(&parent, &content.path);
            on_branch != entry_of(&base, &content.path) && on_branch != content.leaf()
        };
        let apart: Vec<RelPath> = landing.contents.iter().filter(apart).map(|content| content.path.clone()).collect();
        if !apart.is_empty() {
            return Err(CommitError::Diverged { paths: apart });
        }
        let (mut moves, mut edited) = (Vec::new(), Vec::new());
        for (content, (path, here)) in landing.contents.iter().zip(self.store(&paths)?) {
            let found = here.as_ref().map(|file| (file.oid, file.mode));
            let is_blocked = self.is_blocked(&path, landing.contents);
            let wanted = content.leaf();
            let staged = self.index.get_path(path.as_path(), 0).map(|entry| (entry.id, entry.mode));
            let known = entry_of(&parent, &path);
            if found != wanted && (found != known || is_blocked) || (staged != known && staged != wanted) {
                edited.push(path);
            } else if found != wanted {
                moves.push(Move { path: &content.path, here, wanted });
            }
        }
        if edited.is_empty() { Ok(moves) } else { Err(CommitError::Overwrites { paths: edited }) }
    }

    /// Whether something on the way to the path is no folder, and is not one of the files that go.
    fn is_blocked(&self, path: &RelPath, contents: &[Content]) -> bool {
        let goes = |place: &RelPath| contents.iter().any(|content| content.path == *place && content.blob.is_none());
        let bytes = path.as_bytes();
        let ends = bytes.iter().enumerate().filter(|(_, byte)| **byte == b'/').map(|(end, _)| end);
        let mut above = ends.map(|end| RelPath::new(&bytes[..end]));
        above.any(|place| {
            let is_other = place.under(&self.root).symlink_metadata().is_ok_and(|metadata| !metadata.is_dir());
            is_other && !goes(&place)
        })
    }

    /// The files to be put, in order, as git checks them out.
    fn pieces(&self, commit: &CommitId, moves: &[Move<'_>]) -> Result<Vec<Piece>, CommitError> {
        let wanted = moves.iter().filter_map(|one| one.wanted.map(|object| (one.path, object)));
        wanted.map(|(path, (oid, mode))| self.piece(commit, path, (oid, mode))).collect()
    }

    fn piece(&self, commit: &CommitId, path: &RelPath, (oid, mode): (Oid, u32)) -> Result<Piece, CommitError> {
        if mode != LINK && self.converts_out(path)? {
            return Ok(Piece::File(self.smudged(commit, path)?, mode & 0o100 != 0));
        }
        let blob = self.git.find_blob(oid).map_err(GitError::new("read a file of the commit to land"))?;
        Ok(match mode {
            LINK => Piece::Link(PathBuf::from(OsStr::from_bytes(blob.content()))),
            _ => Piece::File(blob.content().to_owned(), mode & 0o100 != 0),
        })
    }

    /// Whether git may write other bytes into a work tree than the blob holds (`gitattributes(5)`, "Checking-out").
    fn converts_out(&self, path: &RelPath) -> Result<bool, GitError> {
        let says =
            |key: &str, value: &str| self.config.get_string(key).is_ok_and(|found| found.eq_ignore_ascii_case(value));
        let line_ends = says("core.autocrlf", "true") || says("core.eol", "crlf") || self.has_attribute(path, "eol")?;
        Ok(line_ends || self.has_attribute(path, "ident")? || self.needs_program(path)?)
    }

    /// A file as the `git` program checks it out, filters and all.
    fn smudged(&self, commit: &CommitId, path: &RelPath) -> Result<Vec<u8>, CommitError> {
        let mut object: Vec<u8> = format!("{commit}:").into_bytes();
        object.extend_from_slice(path.as_bytes());
        let object = OsString::from_vec(object);
        let argv = program::git(&["cat-file".as_ref(), "--filters".as_ref(), object.as_os_str()]);
        let env = program::environment(&self.surroundings.env);
        let call = Call { argv, cwd: &self.root, env, stdin: Vec::new() };
        program::run(self.program(), "checking out a filtered file with `git cat-file --filters`", &call)
    }
}
