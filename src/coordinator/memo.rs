//! What the coordinator knows when it claims a task and could not learn again after a kill: the session's secret, the row
//! before and after the claim, and what differed from HEAD already.
//!
//! Lies where only the user may read it, from before the claim until the session's commit. With it a later start tells what a
//! killed run's session may have written from what it may not.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use crate::fs::{self, Change};
use crate::ids::{AgentId, TaskId, hex};
use crate::plan::{TaskCard, views};
use crate::project::Project;
use crate::relpath::RelPath;
use crate::tracker::proof::Token;
use crate::tracker::row::Row;
use crate::tracker::store::{LockedStore, parse_row, row_path};

use super::Run;
use super::aftermath::{explained_origin, explained_remediation};
use super::claim::Held;
use super::failure::Failure;

/// The version of the memo's fields.
const SCHEMA: u32 = 1;

/// The memo of one claim.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct Memo {
    schema: u32,
    pub(super) agent: AgentId,
    pub(super) task: TaskId,
    token: String,
    /// The row before the claim.
    pub(super) before: Row,
    /// The row with the claim.
    pub(super) row: Row,
    /// The row with the claim as it was for the session's process before this one. Until the renewed claim is on disk after this
    /// memo, it is the row that is found.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    previous: Option<Row>,
    /// Paths under `state/` and `planning/` that differed from HEAD before the session, by the digest of their content.
    dirty: BTreeMap<RelPath, String>,
}

/// What is found of a session whose run was killed.
pub(super) struct Traces {
    /// The task's row as the session's secret explains it.
    pub(super) row: Row,
    /// Whether something else lies in the row's file.
    pub(super) is_foreign: bool,
    /// Paths under `state/` and `planning/` that nothing explains.
    pub(super) unexplained: Vec<RelPath>,
}

impl Memo {
    /// The writing of the memo of a claim; comes before the claim itself.
    pub(super) fn change(run: &Run<'_>, held: &Held) -> Result<Change, Failure> {
        Self::of(held, None, dirty(run)?).replaced(run.project)
    }

    /// The writing of the memo of a claim that was renewed for a further process; comes before the renewed claim itself. What
    /// differed from HEAD before the first process still does not count as theirs.
    pub(super) fn renewed(run: &Run<'_>, held: &Held, previous: &Row) -> Result<Change, Failure> {
        let known = Self::read(run.project)?.filter(|memo| memo.agent == held.name.agent && memo.task == held.card.id);
        let dirty = match known {
            Some(memo) => memo.dirty,
            None => dirty(run)?,
        };
        Self::of(held, Some(previous.clone()), dirty).replaced(run.project)
    }

    fn of(held: &Held, previous: Option<Row>, dirty: BTreeMap<RelPath, String>) -> Self {
        Self {
            schema: SCHEMA,
            agent: held.name.agent.clone(),
            task: held.card.id.clone(),
            token: held.token.text().to_owned(),
            before: held.before.clone(),
            row: held.row.clone(),
            previous,
            dirty,
        }
    }

    fn replaced(&self, project: &Project) -> Result<Change, Failure> {
        let path = path(project);
        let text = serde_json::to_vec(self).map_err(|source| fs::JsonError::Syntax { path: path.clone(), source })?;
        Ok(Change::replace_private(path, text))
    }

    /// The memo of the last claim, unless its session came to its end.
    pub(super) fn read(project: &Project) -> Result<Option<Self>, Failure> {
        let path = path(project);
        let Some(bytes) = fs::read_if_present(&path)? else { return Ok(None) };
        Ok(Some(fs::parse_json(&path, &bytes)?))
    }

    /// The session came to its end; that is on disk with the end of its commit.
    pub(super) fn remove(project: &Project) -> Result<(), Failure> {
        Ok(fs::remove_unsynced(&path(project))?)
    }

    /// Tells what the session may have written from what it may not.
    pub(super) fn traces(&self, run: &Run<'_>, locked: &LockedStore<'_>, card: &TaskCard) -> Result<Traces, Failure> {
        let own_path = row_path(&card.stage, &card.id);
        let file = run.project.root().join(&own_path);
        let token = Token::from_text(&self.token);
        let found = fs::read_if_present(&file).ok().flatten().and_then(|bytes| parse_row(&file, &bytes).ok());
        let is_known = |row: &Row| *row == self.row || *row == self.before || self.previous.as_ref() == Some(row);
        let row = found.filter(|row| is_known(row) || token.explains(&self.row, row, ""));
        let is_foreign = row.is_none();
        let row = row.unwrap_or_else(|| self.row.clone());
        let mut explained: BTreeSet<String> = views::PATHS.iter().map(|path| (*path).to_owned()).collect();
        explained.insert(own_path);
        let session = (&token, &self.row);
        let remediations =
            row.blocked_by.iter().filter_map(|id| explained_remediation(run, locked, (session.0, &card.id), id));
        for (made, _) in remediations {
            explained.insert(row_path(&made.stage, &made.id));
            explained.insert(format!("planning/tasks/{}.json", made.id));
        }
        let origin = card.origin.as_ref().and_then(|origin| run.plan.task(origin));
        if let Some(origin) = origin.filter(|origin| explained_origin(run, locked, &token, origin).is_some()) {
            explained.insert(row_path(&origin.stage, &origin.id));
        }
        let mut unexplained = Vec::new();
        for (path, digest) in dirty(run)? {
            let known = self.dirty.get(&path) == Some(&digest) || explained.contains(&path.to_string());
            if !known && !is_own(&path, &self.agent) {
                unexplained.push(path);
            }
        }
        Ok(Traces { row, is_foreign, unexplained })
    }
}

/// Whether a session may leave this file: in one of the four folders, with a name that begins with the agent's id.
pub(super) fn is_own(path: &RelPath, agent: &AgentId) -> bool {
    ["commit_messages", "evidence", "handoffs", "issues"].iter().any(|folder| {
        let name = path.as_bytes().strip_prefix(format!("state/{folder}/").as_bytes());
        name.is_some_and(|name| name.starts_with(agent.as_str().as_bytes()) && !name.contains(&b'/'))
    })
}

/// Where it lies.
pub(super) fn path(project: &Project) -> PathBuf {
    project.private_own().join("session.json")
}

/// What differs from HEAD under `state/` and `planning/`, each with the digest of its content.
fn dirty(run: &Run<'_>) -> Result<BTreeMap<RelPath, String>, Failure> {
    let Some(git) = &run.git else { return Ok(BTreeMap::new()) };
    let digest = |path: &RelPath| match fs::read_if_present(&path.under(run.project.root())) {
        Ok(Some(bytes)) => hex(&Sha256::digest(&bytes)),
        Ok(None) => "gone".to_owned(),
        Err(_) => "unreadable".to_owned(),
    };
    Ok(git.changed_in(&["state", "planning"])?.into_iter().map(|path| (path.clone(), digest(&path))).collect())
}
