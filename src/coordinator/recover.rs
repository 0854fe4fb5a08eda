//! Puts in order what an interrupted run left: processes, the pending record, the intended commit, claims, files.
//!
//! What cannot be attributed to an interrupted session stops the run with its list; nothing is discarded.

use crate::commit::{Action, Trailers, Words, compose};
use crate::fs;
use crate::ids::{AgentId, TaskId};
use crate::observe::Event;
use crate::plan::{TaskCard, Work};
use crate::relpath::RelPath;
use crate::tracker::desk::handoff_path;
use crate::tracker::row::{Claim, Row, Status};
use crate::tracker::rules::{self, Actor, Step};
use crate::tracker::store::{Batch, row_path};

use super::Run;
use super::checkpoint::{self, Checkpoint};
use super::failure::Failure;
use super::memo::Memo;
use super::records::{self, End};
use super::tally::Tally;
use super::verify::How;
use super::{claim, ground, leftovers, settle, site, start, tree_look, tree_recovery, verify};
use crate::config::Mode;
use crate::workspace::lease::Contamination;

/// What putting in order came to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Order {
    /// The run may go on.
    Fine,
    /// A commit could not be made.
    CommitFailed,
}

/// A task that an interrupted session holds.
struct Interrupted {
    card: TaskCard,
    row: Row,
    memo: Option<Memo>,
    /// Why what it says it has done does not count.
    void: Option<String>,
}

impl Interrupted {
    /// The claim of its session, as it was when that began.
    fn claim(&self) -> Option<&Claim> {
        let noted = self.memo.as_ref().and_then(|memo| memo.row.claim.as_ref());
        noted.or(self.row.claim.as_ref())
    }
}

/// Puts everything in order that an interrupted run left.
pub(super) fn put_in_order(run: &mut Run<'_>) -> Result<Order, Failure> {
    if let Some(checkpoint) = checkpoint::resume(run)? {
        Memo::remove(run.project)?;
        let tried = if checkpoint.error.is_some() { "could not finish" } else { "finished" };
        let what = format!("{tried} the commit that an earlier run had begun: {}", checkpoint.subject);
        if noted(run, &checkpoint, what) == Order::CommitFailed {
            return Ok(Order::CommitFailed);
        }
    }
    leftovers::end_marked(run)?;
    verify::end_left(run)?;
    verify::put_back_left(run, How::Start)?;
    let mut tasks = interrupted(run)?;
    if tasks.is_empty() {
        Memo::remove(run.project)?;
        return Ok(Order::Fine);
    }
    let Attributed { left, shares, why } = attribute(run, &mut tasks)?;
    if !left.is_empty() {
        let task = tasks[0].card.id.clone();
        return Err(Failure::Unattributable { task, files: left.iter().map(ToString::to_string).collect() });
    }
    for (task, paths) in tasks.into_iter().zip(shares) {
        if settle_interrupted(run, &task, paths, task.void.as_deref())? == Order::CommitFailed {
            return Ok(Order::CommitFailed);
        }
    }
    tree_recovery::put_aside(run, why)?;
    Ok(Order::Fine)
}

/// Whose the changes are that interrupted sessions left.
struct Attributed {
    /// What nobody can tell.
    left: Vec<RelPath>,
    /// Each task's share.
    shares: Vec<Vec<RelPath>>,
    /// Why the sessions' work tree cannot be used again.
    why: Option<Contamination>,
}

/// Ends what is left of the interrupted sessions, reads each task's row as its session's secret explains it, and tells whose the
/// changes are: first what nobody can tell, then each task's share.
fn attribute(run: &mut Run<'_>, tasks: &mut [Interrupted]) -> Result<Attributed, Failure> {
    let claims: Vec<Claim> = tasks.iter().filter_map(Interrupted::claim).cloned().collect();
    leftovers::end(run, &claims)?;
    start::ensure_converted(run)?;
    let snapshot = ground::look(run)?;
    let mut left = ground::dirty(run, &snapshot)?;
    let (shares, why) = match run.config.workspace.mode {
        Mode::InPlace => (tasks.iter().map(|task| share_of(task, &mut left)).collect(), None),
        Mode::Worktree => shares_of_tree(run, tasks)?,
    };
    let locked = run.desk.lock()?;
    for task in tasks.iter_mut() {
        let Some(memo) = &task.memo else { continue };
        let traces = memo.traces(run, &locked, &task.card)?;
        task.row = traces.row;
        left.extend(traces.unexplained);
        if traces.is_foreign {
            left.push(RelPath::from(row_path(&task.card.stage, &task.card.id).as_str()));
        }
    }
    left.sort();
    left.dedup();
    Ok(Attributed { left, shares, why })
}

/// What each task has in the work tree; the one that was claimed last worked there.
fn shares_of_tree(
    run: &mut Run<'_>,
    tasks: &mut [Interrupted],
) -> Result<(Vec<Vec<RelPath>>, Option<Contamination>), Failure> {
    let (mut shares, mut why) = (vec![Vec::new(); tasks.len()], None);
    let last = tasks.iter().position(|task| task.memo.is_some()).unwrap_or_default();
    if let Some(task) = tasks.get_mut(last) {
        let claim = task.claim().cloned();
        let left = tree_recovery::leftover(run, &task.card, claim.as_ref())?;
        shares[last] = left.in_scope;
        (task.void, why) = (left.void, left.why);
    }
    Ok((shares, why))
}

/// Rows whose session cannot be live, because the run lock is ours: claims of a coordinator, tasks in progress that the original
/// left with one of its agents, and the task of the last memo, whatever its row says.
fn interrupted(run: &Run<'_>) -> Result<Vec<Interrupted>, Failure> {
    let memo = Memo::read(run.project)?;
    let is_interrupted = |row: &Row| match &row.claim {
        Some(claim) => !claim.is_manual(),
        None => row.status == Status::InProgress && row.owner.as_ref().is_some_and(AgentId::is_automatic),
    };
    let noted = |task: &TaskId, row: &Row| {
        let memo = memo.as_ref().filter(|memo| memo.task == *task && *row != memo.before)?;
        // Without git nothing says whether a row without a claim was settled by the coordinator: it is taken for that.
        (run.git.is_some() || row.claim.is_some()).then(|| memo.clone())
    };
    let tasks = run.plan.tasks().iter().map(|card| (card, run.board.row(&card.id)));
    let found = tasks.filter_map(|(card, row)| {
        let memo = noted(&card.id, row);
        (memo.is_some() || is_interrupted(row)).then(|| Interrupted {
            card: card.clone(),
            row: row.clone(),
            memo,
            void: None,
        })
    });
    Ok(found.collect())
}

/// Takes out of `left` what lies in the interrupted session's scope.
fn share_of(task: &Interrupted, left: &mut Vec<RelPath>) -> Vec<RelPath> {
    let scope = claim::scope(&task.row, &task.card);
    let (mine, others) = std::mem::take(left).into_iter().partition(|path| scope.contains(path));
    *left = others;
    mine
}

/// What becomes of an interrupted task.
struct Fate {
    row: Row,
    /// What is written beside the row.
    batch: Batch,
    /// What was done, for people.
    what: String,
}

/// A transition that the agent had made stands unless it is `void` or nobody had verified it; else the task is released.
fn fate(
    run: &Run<'_>,
    task: &Interrupted,
    (agent, work): (&AgentId, Work),
    (void, is_due): (Option<&str>, bool),
) -> Result<Fate, Failure> {
    let id = &task.card.id;
    let mut batch = Batch::default();
    let apply = |step: Step<'_>| rules::apply(id, &task.row, (Actor::Coordinator, &run.clock.stamp()), step);
    let (row, what) = if let (Some(reason), Some(memo)) = (void, &task.memo) {
        let handoff = handoff_path(agent, id);
        batch = batch.text(&handoff, &format!("# Quarantine of {id}\n\nAgent: {agent}\n\n{reason}\n"));
        let row = apply(Step::Quarantine { before: &memo.before, reason: reason.to_owned(), handoff })?;
        (row, format!("quarantined {id}: {reason}"))
    } else if is_due {
        let note = format!(
            "the run was killed before the submit of {agent} was verified; its work in scope is kept as a checkpoint"
        );
        (apply(Step::Release { note })?, format!("released {id}, which {agent} had submitted and nobody had verified"))
    } else if task.row.is_settled_by(agent, work) || !task.row.is_held() {
        let what = format!("kept what the interrupted session of {agent} had done: {id} is {}", task.row.status);
        (Row { claim: None, ..task.row.clone() }, what)
    } else {
        let note =
            format!("the run was killed during the session of {agent}; its work in scope is kept as a checkpoint");
        (apply(Step::Release { note })?, format!("released {id} from the interrupted session of {agent}"))
    };
    Ok(Fate { row, batch, what })
}

/// Settles one interrupted task, commits what it left in its scope, and closes its record.
fn settle_interrupted(
    run: &mut Run<'_>,
    task: &Interrupted,
    paths: Vec<RelPath>,
    void: Option<&str>,
) -> Result<Order, Failure> {
    let id = &task.card.id;
    let agent = match (&task.row.claim, &task.row.owner) {
        (Some(Claim { agent, .. }), _) | (None, Some(agent)) => agent.clone(),
        (None, None) => return Ok(Order::Fine),
    };
    tree_look::collect(run, &agent)?;
    let work = task.row.claim.as_ref().map_or(Work::Claim, |claim| claim.work);
    let is_due = verify::is_due(run.config, &task.card, &task.row);
    let Fate { row, batch, what } = fate(run, task, (&agent, work), (void, is_due))?;
    let role = if work == Work::Claim { &task.card.role } else { &task.card.reviewer_role };
    let trailers = Trailers {
        task: id,
        agent: &agent,
        role,
        action: Action::Recover,
        status: row.status.as_str(),
        title: &task.card.title,
    };
    let message = compose(&Words::Recovered, &trailers);
    let (planned, intent) = checkpoint::intend(run, (&agent, id, &row), &message, paths)?;
    // Before the claim is gone, which alone says where the record lies.
    close_record(run, task, (&agent, is_due))?;
    let locked = run.desk.lock()?;
    locked.write_with(&batch.row(&task.card.stage, id, &row), (&intent, &[]), fs::Order::InTurn)?;
    drop(locked);
    Memo::remove(run.project)?;
    run.board.set(id.clone(), row);
    settle::render_views(run)?;
    let checkpoint = checkpoint::make(run, planned);
    fs::change(&checkpoint.closing(run.project), fs::Order::InTurn)?;
    Ok(noted(run, &checkpoint, what))
}

/// Says in the interrupted session's record that it is over.
fn close_record(run: &mut Run<'_>, task: &Interrupted, (agent, is_due): (&AgentId, bool)) -> Result<(), Failure> {
    let Some(claim) = &task.row.claim else { return Ok(()) };
    let folder = run.project.session(&claim.agent, claim.session);
    fs::remove_leftovers(&folder, 0)?;
    let end = if task.row.is_settled_by(agent, claim.work) && !is_due { End::Settled } else { End::Interrupted };
    records::close(run, &folder, end)
}

/// Tells observers what the checkpoint came to.
fn noted(run: &Run<'_>, checkpoint: &Checkpoint, what: String) -> Order {
    (run.observe)(&Event::Recovered { what });
    checkpoint.tell(run);
    if checkpoint.error.is_some() { Order::CommitFailed } else { Order::Fine }
}

/// What `runner recover` set aside, or would.
#[derive(Debug)]
pub struct Aside {
    /// One line a file.
    pub lines: Vec<String>,
    /// Where the files lie now; none if nothing was moved.
    pub folder: Option<std::path::PathBuf>,
    /// The patch of the same changes, if there is one, and what it does not hold.
    pub patch: Option<String>,
    /// Work trees that are kept for a person.
    pub trees: Vec<std::path::PathBuf>,
    /// Whether files stay that the commit of an earlier run is still to take; the next start tries it again.
    pub has_intended: bool,
    /// What a killed verification had changed, and what becomes of it.
    pub put_back: Vec<String>,
}

/// Lists everything outside `state/` that differs from HEAD and, if `act`, moves it into a folder below `state/runs/`.
pub fn set_aside_all(opening: &start::Opening<'_>, act: bool) -> Result<Aside, Failure> {
    let tally = Tally::default();
    let (_lock, mut run) = match start::open_to_recover(opening, (opening.observe, &tally))? {
        start::Opened::Busy(result) => return Err(Failure::RunIsOn { holder: result.holder.unwrap_or_default() }),
        start::Opened::Ours(lock, run) => (lock, run),
    };
    leftovers::end_marked(&run)?;
    verify::end_left(&run)?;
    let how = if act { How::GoOn } else { How::Look };
    let verified = verify::put_back_left(&mut run, how)?.filter(|left| !left.is_empty());
    let put_back = verified.iter().flat_map(|left| left.lines(how)).collect();
    let mut tasks = interrupted(&run)?;
    let Attributed { left: mut paths, shares, why } = attribute(&mut run, &mut tasks)?;
    let intended = checkpoint::intended(run.project)?;
    let has_intended = paths.iter().any(|path| intended.contains(path));
    let is_put_back = |path: &RelPath| verified.as_ref().is_some_and(|left| left.paths.contains(path));
    paths.retain(|path| (act || !is_put_back(path)) && !intended.contains(path));
    if !act || paths.is_empty() {
        let lines = paths.iter().map(ToString::to_string).collect();
        let trees = site::kept_trees(run.project)?;
        return Ok(Aside { lines, folder: None, patch: None, trees, has_intended, put_back });
    }
    let folder = run.project.root().join("state/runs/recovered").join(run.clock.stamp().replace(':', ""));
    let moved = super::aside::move_out(&mut run, &paths, &folder)?;
    let lines = moved.lines;
    let reason = format!("`runner recover` set changes aside that this session may have made: {}", lines.join(", "));
    for (task, share) in tasks.into_iter().zip(shares) {
        // A row that was set aside itself claims nothing any more.
        let own = RelPath::from(row_path(&task.card.stage, &task.card.id).as_str());
        if task.memo.is_none() && paths.contains(&own) {
            continue;
        }
        settle_interrupted(&mut run, &task, share, Some(&reason))?;
    }
    tree_recovery::put_aside(&mut run, why)?;
    let trees = site::kept_trees(run.project)?;
    Ok(Aside { lines, folder: Some(folder), patch: moved.patch, trees, has_intended, put_back })
}
