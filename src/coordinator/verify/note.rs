//! What lies on disk while commands run: by what a start after a kill finds their processes, and what was there before them.
//!
//! Written before the first of them starts, gone before the session is settled.

use std::collections::BTreeMap;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use crate::commit::CommitId;
use crate::fs;
use crate::ids::{AgentId, TaskId, hex};
use crate::observe::SessionName;
use crate::project::Project;
use crate::relpath::RelPath;
use crate::tracker::proof::Token;
use crate::workspace::{Finding, FindingKind, Snapshot};

use super::super::Run;
use super::super::failure::Failure;

/// The version of the note's fields.
const SCHEMA: u32 = 1;

/// The note of one verification.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct Note {
    schema: u32,
    /// The session that it is for.
    pub(super) agent: AgentId,
    pub(super) session: u32,
    pub(super) task: TaskId,
    /// Whether the session has not begun.
    pub(super) is_baseline: bool,
    /// The digest of what the processes carry in their environment.
    pub(super) mark_hash: String,
    pub(super) boot_id: String,
    /// The commit that was checked out; none without git.
    pub(super) head: Option<String>,
    /// All that may have differed from it, each with a word for what lay there.
    pub(super) known: BTreeMap<RelPath, String>,
    /// What lay there already that git cannot keep.
    #[serde(default)]
    pub(super) special: Vec<RelPath>,
    /// The temporary folder of the commands.
    pub(super) temporary: Option<PathBuf>,
    /// Where a start keeps what it could not put back, and the copies with it.
    pub(super) kept: Option<PathBuf>,
}

impl Note {
    /// The note for commands that carry `mark` and have `temporary`, of what is there now at the paths that may differ from `head`.
    pub(super) fn of(
        run: &Run<'_>,
        (name, is_baseline): (&SessionName, bool),
        (mark, temporary): (&Token, &Path),
        (head, paths): (Option<&CommitId>, &[RelPath]),
    ) -> Self {
        let word = |path: &RelPath| (path.clone(), word_for(&path.under(&base_of(run, path))));
        Self {
            schema: SCHEMA,
            agent: name.agent.clone(),
            session: name.number,
            task: name.task.clone(),
            is_baseline,
            mark_hash: mark.hash(),
            boot_id: run.identity.boot_id.clone(),
            head: head.map(ToString::to_string),
            known: paths.iter().map(word).collect(),
            special: Vec::new(),
            temporary: Some(temporary.to_owned()),
            kept: None,
        }
    }

    /// Makes it durable.
    pub(super) fn write(&self, project: &Project) -> Result<(), Failure> {
        let path = path(project);
        let text = serde_json::to_vec(self).map_err(|source| fs::JsonError::Syntax { path: path.clone(), source })?;
        Ok(fs::replace_private(&path, &text)?)
    }

    /// The note of a verification that did not come to its end.
    pub(super) fn read(project: &Project) -> Result<Option<Self>, Failure> {
        let path = path(project);
        let Some(bytes) = fs::read_if_present(&path)? else { return Ok(None) };
        Ok(Some(fs::parse_json(&path, &bytes)?))
    }

    /// Everything is as it was. Durable: with a note that came back, later work would be taken for what commands changed.
    pub(super) fn remove(project: &Project) -> Result<(), Failure> {
        Ok(fs::remove(&path(project))?)
    }
}

/// Where it lies.
pub(in super::super) fn path(project: &Project) -> PathBuf {
    project.private_own().join("verify.json")
}

/// Whose verification did not come to its end, if one did not.
pub(in super::super) fn interrupted(project: &Project) -> Result<Option<AgentId>, Failure> {
    Ok(Note::read(project)?.map(|note| note.agent))
}

/// Where copies lie of what only the copies could bring back.
pub(super) fn copies(project: &Project) -> PathBuf {
    project.private_own().join("verify")
}

/// Whether the path is one of state and plan, which are always those of the root.
pub(super) fn is_roots(path: &RelPath) -> bool {
    path.is_in("state") || path.is_in("planning")
}

/// The folder that the path is relative to.
pub(super) fn base_of(run: &Run<'_>, path: &RelPath) -> PathBuf {
    if is_roots(path) { run.project.root().to_owned() } else { run.workspace_root() }
}

/// What git cannot keep and commands may have made: special files, and the folders that make others repositories; none that git
/// ignores, which stays whatever it is.
pub(super) fn special_in(snapshot: &Snapshot, findings: &[Finding]) -> Vec<RelPath> {
    let found = findings.iter().filter_map(|finding| match finding.kind {
        FindingKind::NestedRepository => Some(finding.path.child(b".git")),
        FindingKind::SpecialFile => Some(finding.path.clone()),
        FindingKind::Unreadable | FindingKind::TooDeep | FindingKind::Vanished => None,
    });
    found.filter(|path| !is_private(snapshot, path)).collect()
}

/// Whether git neither has nor wants the path: nothing could bring it back.
pub(super) fn is_private(snapshot: &Snapshot, path: &RelPath) -> bool {
    snapshot.is_ignored(path) && !snapshot.is_tracked(path)
}

/// A word for what lies at the path: the same as long as it is the same to git.
pub(super) fn word_for(file: &Path) -> String {
    let digest = |bytes: &[u8]| hex(&Sha256::digest(bytes));
    let Ok(metadata) = file.symlink_metadata() else { return "gone".to_owned() };
    if metadata.is_symlink() {
        let target = file.read_link().unwrap_or_default();
        return format!("link {}", digest(target.as_os_str().as_encoded_bytes()));
    }
    if metadata.is_dir() {
        return "folder".to_owned();
    }
    if metadata.len() > fs::LARGEST_READ {
        // It is never read whole, and there is no copy of it.
        return "large".to_owned();
    }
    let kind = if metadata.mode() & 0o100 == 0 { "file" } else { "program" };
    fs::read(file).map_or_else(|_| "unreadable".to_owned(), |bytes| format!("{kind} {}", digest(&bytes)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_word_for_a_file_changes_with_kind_content_and_mode_and_with_nothing_else() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("file");
        let mut words = vec![word_for(&file)];
        fs::replace(&file, b"one").unwrap();
        words.push(word_for(&file));
        fs::replace(&file, b"two").unwrap();
        words.push(word_for(&file));
        fs::replace_with_mode(&file, b"two", 0o755).unwrap();
        words.push(word_for(&file));
        fs::remove(&file).unwrap();
        fs::make_link(&file, Path::new("one")).unwrap();
        words.push(word_for(&file));
        fs::remove(&file).unwrap();
        fs::make_folder(&file).unwrap();
        words.push(word_for(&file));
        for (at, word) in words.iter().enumerate() {
            assert!(!words[..at].contains(word), "{words:?}");
        }
        fs::remove_folder(&file).unwrap();
        fs::replace_with_mode(&file, b"one", 0o600).unwrap();
        assert_eq!(word_for(&file), words[1]);
    }
}
