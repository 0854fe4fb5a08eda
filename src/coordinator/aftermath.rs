//! What a session did: to its row, to what it must not touch, and to the tree. Protected files are put back here.

use std::collections::BTreeSet;
use std::path::Path;

use crate::commit::{CommitId, Repository, Unkeepable};
use crate::fs;
use crate::ids::TaskId;
use crate::plan::TaskCard;
use crate::relpath::RelPath;
use crate::session::ExecutionResult;
use crate::tracker::proof::Token;
use crate::tracker::row::Row;
use crate::tracker::store::{LockedStore, parse_row, row_path};
use crate::verdict::names;
use crate::workspace::lease::{Contamination, End};
use crate::workspace::{Area, ChangeKind, Changes, GuardedPath, Scope, Tampering, violations};

use super::Run;
use super::claim::{self, Held};
use super::failure::Failure;
use super::ground::Ground;
use super::memo::is_own;
use super::{contamination, tree_look};

/// Everything a session is judged by, apart from how its process ended.
pub(super) struct Aftermath {
    /// The task's row as rules and secret explain it: the one on disk, or the one of the claim.
    pub(super) row: Row,
    /// Other rows that the session's own transition explains: its remediation's, its origin's.
    pub(super) others: Vec<(TaskCard, Row)>,
    /// Protected files it changed, by name.
    pub(super) tampering: Vec<String>,
    /// Files it changed outside its scope, by name.
    pub(super) violations: Vec<String>,
    /// What is odd in the tree but no change.
    pub(super) findings: Vec<String>,
    /// What was copied aside, and what could not be put back.
    pub(super) kept: Vec<String>,
    /// Files it changed in its scope.
    pub(super) in_scope: Vec<RelPath>,
    /// Files it changed outside its scope.
    pub(super) out_of_scope: Vec<RelPath>,
    /// Whether HEAD or its branch moved.
    pub(super) head_moved: bool,
    /// Whether a submodule was changed; its files cannot be brought back from here.
    pub(super) in_submodule: bool,
    /// Signs that the workspace can no longer be trusted.
    pub(super) signs: BTreeSet<Contamination>,
    /// Whether the session's work tree is gone.
    pub(super) is_gone: bool,
}

impl Aftermath {
    /// Why no commit can be made of the session while its changes lie in the tree.
    pub(super) fn no_commit_reason(&self) -> Option<String> {
        if self.head_moved {
            return Some(format!(
                "HEAD moved during the session; it was put back, and what had been committed is kept under \
                 refs/runner/kept/ and as changes in the work tree: {}",
                shown(&self.in_scope, &self.out_of_scope)
            ));
        }
        (!self.violations.is_empty()).then(|| {
            format!(
                "the session violated its scope, so nothing was committed; its changes are kept in the work tree: {}; look at \
                 them, then restore them with git or set them aside with `runner recover`",
                self.violations.join(", ")
            )
        })
    }

    /// What the end of the lease depends on.
    pub(super) fn for_lease(&self, run: &Run<'_>, result: Option<&ExecutionResult>) -> (End, Vec<Contamination>) {
        let mut signs = self.signs.clone();
        signs.extend(contamination::of_leftovers(run, result));
        let touched = [
            (!self.tampering.is_empty() && signs.is_empty(), Contamination::Tampering),
            (!self.violations.is_empty(), Contamination::ScopeViolation),
            (self.head_moved, Contamination::HeadMoved),
        ];
        signs.extend(touched.into_iter().filter(|(is_so, _)| *is_so).map(|(_, sign)| sign));
        (contamination::end_of(self.is_gone, result), signs.into_iter().collect())
    }

    /// What has to leave the tree so that other tasks can go on: what is out of scope, and everything if HEAD moved.
    pub(super) fn displaced(&self) -> Vec<RelPath> {
        let mut paths = self.out_of_scope.clone();
        if self.head_moved {
            paths.extend(self.in_scope.iter().cloned());
        }
        paths
    }
}

fn shown(first: &[RelPath], second: &[RelPath]) -> String {
    let names: Vec<_> = first.iter().chain(second).take(10).map(ToString::to_string).collect();
    if names.is_empty() { "no files".to_owned() } else { names.join(", ") }
}

/// Looks at everything the session could have changed, and puts back what it must not touch.
pub(super) fn examine(
    run: &mut Run<'_>,
    locked: &LockedStore<'_>,
    held: &Held,
    (ground, folder): (&Ground, &Path),
) -> Result<Aftermath, Failure> {
    let explained = explain(run, locked, held);
    let ignored = |path: &RelPath| ground.snapshot.is_ignored(path);
    let refs = Refs::since(run, ground);
    let allowed =
        |guarded: &GuardedPath| explained.allows(guarded) || leaves(held, guarded, &ignored) || refs.allow(guarded);
    let found = run.guard.tampering_since(&ground.guarded, &allowed)?;
    let tree = tree_look::examine(run, held, ground)?;
    let head_moved = keep_moved_head(run, held, ground)? || tree.head_moved;
    keep_refs(run, held, &found)?;
    let keep = folder.join("kept");
    // What a killed verb left half written goes with the rest, but nobody meant to change anything with it.
    let meant = found.iter().filter(|tampering| !is_leftover(tampering));
    let mut tampering: Vec<String> = meant.clone().map(ToString::to_string).collect();
    let mut signs = contamination::of_tampering(&meant.cloned().collect::<Vec<_>>());
    tampering.extend(tree.tampering);
    signs.extend(tree.signs);
    let mut kept: Vec<String> =
        run.guard.put_back(&ground.guarded, &found, &keep).iter().map(ToString::to_string).collect();
    if let Some(bytes) = &explained.foreign_row {
        let path = row_path(&held.card.stage, &held.card.id);
        put_row_back(run, held, (&path, bytes), &keep)?;
        kept.push(path.clone());
        tampering.push(path);
    }
    let changes = if tree.is_lost { Changes::default() } else { run.snapshotter.changes_since(&ground.snapshot)? };
    let findings = changes.findings.iter().map(ToString::to_string).chain(refs.finding()).collect();
    let scope = claim::scope(&held.row, &held.card);
    let Strayed { places: out_of_scope, reasons: broken, in_submodule } = strayed(run, &changes, &scope);
    let outside: BTreeSet<&RelPath> = out_of_scope.iter().collect();
    let in_scope = changes
        .changed
        .iter()
        .map(|change| &change.path)
        .filter(|path| !outside.contains(path) && !is_private(ground, path))
        .cloned()
        .collect();
    Ok(Aftermath {
        row: explained.row,
        others: explained.others,
        tampering,
        violations: broken,
        findings,
        kept,
        in_scope,
        out_of_scope,
        head_moved,
        in_submodule,
        signs,
        is_gone: tree.is_gone,
    })
}

/// What a session changed where it may not.
struct Strayed {
    places: Vec<RelPath>,
    reasons: Vec<String>,
    in_submodule: bool,
}

/// What lies outside the scope, and what no commit could hold even inside it.
fn strayed(run: &Run<'_>, changes: &Changes, scope: &Scope) -> Strayed {
    let broken = violations(changes, scope);
    let mut places: Vec<RelPath> = broken.iter().map(|violation| violation.path.clone()).collect();
    let mut reasons: Vec<String> = broken.iter().map(ToString::to_string).collect();
    let all: Vec<RelPath> = changes.changed.iter().map(|change| change.path.clone()).collect();
    let git = run.site.tree.as_ref().map(|tree| &tree.git).or(run.git.as_ref()).filter(|_| !all.is_empty());
    let unkeepable = git.map(|git| git.unkeepable(&all)).unwrap_or_default();
    let in_submodule = unkeepable.iter().any(|path| path.in_submodule);
    for Unkeepable { path, repository, why, .. } in unkeepable {
        if !places.contains(&path) {
            reasons.push(why);
        }
        for place in repository.into_iter().chain([path]) {
            if !places.contains(&place) {
                places.push(place);
            }
        }
    }
    Strayed { places, reasons, in_submodule }
}

/// What became of git's refs.
pub(super) struct Refs {
    /// Whether all of them can be read: one that is broken stops every later session.
    are_sound: bool,
    /// Whether each ref of this repository's own points where it did.
    own_are_same: bool,
    /// Remote-tracking refs that point somewhere else: `git fetch` moves them, and they say nothing about the work.
    fetched: Vec<String>,
}

impl Refs {
    /// What became of them since `ground`.
    pub(super) fn since(run: &Run<'_>, ground: &Ground) -> Self {
        let Some(Ok(now)) = run.git.as_ref().map(Repository::refs) else {
            return Self { are_sound: false, own_are_same: false, fetched: Vec::new() };
        };
        let names: BTreeSet<_> = ground.refs.keys().chain(now.keys()).collect();
        let moved = names.into_iter().filter(|name| ground.refs.get(*name) != now.get(*name));
        let (fetched, own): (Vec<_>, Vec<_>) = moved.partition(|name| name.starts_with(b"refs/remotes/"));
        let fetched = fetched.into_iter().map(|name| RelPath::new(name.clone()).to_string()).collect();
        Self { are_sound: true, own_are_same: own.is_empty(), fetched }
    }

    /// Git packs refs by itself (`git gc`): as long as each points where it did, where they are stored is nobody's business.
    pub(super) fn allow(&self, guarded: &GuardedPath) -> bool {
        let path = &guarded.path;
        let stores = ["refs", "packed-refs", "info/refs"].iter().any(|place| path.is_in(place));
        let may_move = path.is_in("refs/remotes") || (self.own_are_same && stores);
        guarded.area != Area::Root && self.are_sound && may_move
    }

    fn finding(&self) -> Option<String> {
        const NAMED: usize = 5;
        let named = names(&self.fetched, NAMED);
        (!named.is_empty()).then(|| format!("the session fetched from another repository: {named} moved"))
    }
}

/// Whether git neither has the file nor wants it: watched, but never committed.
fn is_private(ground: &Ground, path: &RelPath) -> bool {
    ground.snapshot.is_ignored(path) && !ground.snapshot.is_tracked(path)
}

/// Keeps what the session's own refs point at (a branch, a stash), since putting the refs back would let git collect it.
fn keep_refs(run: &Run<'_>, held: &Held, found: &[Tampering]) -> Result<(), Failure> {
    let (Some(git), Some(places)) = (&run.git, run.project.git()) else { return Ok(()) };
    for tampering in found.iter().filter(|tampering| tampering.path.area != Area::Root) {
        let name = tampering.path.path.to_string();
        let base = if tampering.path.area == Area::GitOwn { &places.own } else { &places.common };
        let text = fs::read_if_present(&tampering.path.path.under(base)).ok().flatten().unwrap_or_default();
        let commit = String::from_utf8_lossy(&text).trim().to_owned();
        if let (Some(name), Ok(commit)) = (name.strip_prefix("refs/"), CommitId::try_from(commit)) {
            git.keep(&format!("{}/{name}", held.name.run_id()), &commit)?;
        }
    }
    Ok(())
}

/// If HEAD or its branch moved, keeps what was committed under a name of ours; the guard then puts the branch back.
fn keep_moved_head(run: &mut Run<'_>, held: &Held, ground: &Ground) -> Result<bool, Failure> {
    let (Some(git), Some(before)) = (&run.git, &ground.head) else { return Ok(false) };
    let Ok(now) = git.place() else {
        // Detached, unborn or broken: that is a move too.
        if let Ok(commit) = git.head() {
            git.keep(&format!("{}/HEAD", held.name.run_id()), &commit)?;
        }
        return Ok(true);
    };
    if now.commit == before.commit && now.branch == before.branch {
        return Ok(false);
    }
    git.keep(&format!("{}/HEAD", held.name.run_id()), &now.commit)?;
    Ok(true)
}

/// Whether a session may leave this file: its name begins with the agent's id in one of the four folders, or git ignores it.
fn leaves(held: &Held, guarded: &GuardedPath, ignored: &dyn Fn(&RelPath) -> bool) -> bool {
    if guarded.area != Area::Root || !guarded.path.is_in("state") {
        return false;
    }
    is_own(&guarded.path, &held.name.agent) || ignored(&guarded.path)
}

/// Writes the row of the claim again, and keeps what lay in its place.
fn put_row_back(run: &Run<'_>, held: &Held, (path, found): (&str, &[u8]), keep: &Path) -> Result<(), Failure> {
    fs::replace_private(&keep.join(path), found)?;
    let file = run.project.root().join(path);
    if file.is_dir() {
        fs::make_way(&file, keep)?;
    }
    Ok(fs::replace(&file, held.row.to_json().as_bytes())?)
}

/// Whether it is the unfinished replacement of a verb that was killed.
fn is_leftover(tampering: &Tampering) -> bool {
    let name = tampering.path.path.as_bytes().rsplit(|byte| *byte == b'/').next();
    tampering.kind == ChangeKind::Created && name.is_some_and(fs::is_leftover)
}

/// What the session's own transition explains.
struct Explained {
    row: Row,
    /// What lay in the row's file, if the session's secret does not explain it.
    foreign_row: Option<Vec<u8>>,
    others: Vec<(TaskCard, Row)>,
    own_path: String,
    paths: BTreeSet<String>,
}

impl Explained {
    fn allows(&self, guarded: &GuardedPath) -> bool {
        let shown = guarded.path.to_string();
        // The task's own row is compared with what is in memory, not with what lay there before the claim.
        guarded.area == Area::Root && (shown == self.own_path || self.paths.contains(&shown))
    }
}

fn explain(run: &Run<'_>, locked: &LockedStore<'_>, held: &Held) -> Explained {
    let own_path = row_path(&held.card.stage, &held.card.id);
    let file = run.project.root().join(&own_path);
    // What cannot be read as a file is no row: the one in memory takes its place.
    let bytes = fs::read_if_present(&file).unwrap_or_default().unwrap_or_default();
    let row = parse_row(&file, &bytes).ok().filter(|row| *row == held.row || held.token.explains(&held.row, row, ""));
    let foreign_row = row.is_none().then_some(bytes);
    let row = row.unwrap_or_else(|| held.row.clone());
    let mut explained = Explained { row, foreign_row, others: Vec::new(), own_path, paths: BTreeSet::new() };
    if explained.row == held.row {
        return explained;
    }
    for blocker in explained.row.blocked_by.clone() {
        let made = explained_remediation(run, locked, (&held.token, &held.card.id), &blocker);
        explained.others.extend(made);
    }
    let origin = held.card.origin.as_ref().and_then(|origin| run.plan.task(origin));
    explained.others.extend(origin.and_then(|origin| explained_origin(run, locked, &held.token, origin)));
    for (card, _) in &explained.others {
        explained.paths.insert(row_path(&card.stage, &card.id));
        if run.plan.task(&card.id).is_none() {
            explained.paths.insert(format!("planning/tasks/{}.json", card.id));
        }
    }
    explained
}

/// The origin of the session's task, if the session's approval unblocked it.
pub(super) fn explained_origin(
    run: &Run<'_>,
    locked: &LockedStore<'_>,
    token: &Token,
    origin: &TaskCard,
) -> Option<(TaskCard, Row)> {
    let row = locked.read_row(&origin.stage, &origin.id).ok()?;
    // After a kill the board may hold what the session wrote already; the last event is what the secret has to explain.
    let mut before = run.board.row(&origin.id).clone();
    if before == row {
        before.events.pop();
    }
    token.explains(&before, &row, "").then(|| (origin.clone(), row))
}

/// The card and the row of a remediation that the escalation of a session on `task` made.
pub(super) fn explained_remediation(
    run: &Run<'_>,
    locked: &LockedStore<'_>,
    (token, task): (&Token, &TaskId),
    id: &TaskId,
) -> Option<(TaskCard, Row)> {
    let path = run.project.card(id);
    let bytes = fs::read_if_present(&path).ok()??;
    let card = TaskCard::parse(&path, &bytes).ok()?;
    let row = locked.read_row(&card.stage, id).ok()?;
    let made_here = card.origin.as_ref() == Some(task)
        && bytes == card.to_json().as_bytes()
        && token.explains(&Row::default(), &row, &card.to_json());
    made_here.then_some((card, row))
}
