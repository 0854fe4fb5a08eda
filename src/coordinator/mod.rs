//! The loop: choose, run one session to its end, and again, until something stops it.
//!
//! Owns the order of the stages. Each stage lives in its own file; none of them prints.

mod aftermath;
mod aside;
mod budget;
mod checkpoint;
mod claim;
mod contamination;
pub mod declared;
pub mod dry_run;
mod execute;
pub mod failure;
mod ground;
pub mod holder;
mod landing;
mod leasing;
mod leftovers;
mod limits;
mod memo;
mod obstacle;
mod opening;
pub mod people;
pub mod people_commit;
mod planning;
pub mod prepare;
mod program;
mod reading;
mod records;
pub mod recover;
mod session;
mod settle;
mod site;
pub mod start;
mod summary;
mod tally;
mod tidy;
mod tree_look;
mod tree_recovery;
mod turns;
mod verify;

use std::collections::BTreeMap;

use jiff::Timestamp;

use crate::clock::Clock;
use crate::commit::Repository;
use crate::config::Config;
use crate::conversation::Exchange;
use crate::evidence::Redactor;
use crate::ids::TaskId;
use crate::observe::{self, Event, Observer};
use crate::outcome::{RunResult, Stop};
use crate::plan::Plan;
use crate::project::Project;
use crate::session::{ProcessIdentity, Signals};
use crate::tracker::desk::Desk;
use crate::tracker::ready::{Board, Part, Ready};
use crate::tracker::rules::{self, Actor, Step};
use crate::workspace::{Guard, Guarded, Snapshotter};

use failure::Failure;
use limits::Services;
use prepare::Host;
use session::Settled;
use tally::Tally;

/// A run that holds the run lock.
struct Run<'a> {
    project: &'a Project,
    config: &'a Config,
    host: &'a Host,
    clock: Clock,
    identity: ProcessIdentity,
    signals: &'a Signals,
    /// Who is told what happens; the tally is told last.
    observe: &'a Observer<'a>,
    desk: Desk<'a>,
    plan: Plan,
    /// Whether the generated pages that come from the plan alone were brought up to date since it was read.
    is_plan_rendered: bool,
    board: Board,
    part: Part,
    git: Option<Repository>,
    snapshotter: Snapshotter,
    guard: Guard,
    site: site::Site,
    redactor: Redactor,
    /// The conversations of sessions whose work is under review, for a rework that goes on from there.
    exchanges: BTreeMap<TaskId, Exchange>,
    baselines: verify::Baselines,
    tally: &'a Tally,
    services: Services,
}

impl Run<'_> {
    /// Reads the plan again.
    fn read_plan(&mut self) -> Result<(), Failure> {
        self.plan = Plan::load(self.project)?;
        self.is_plan_rendered = false;
        Ok(())
    }
}

/// Why the loop ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum LoopEnd {
    NothingReady,
    SessionLimit,
    CommitFailed,
    Interrupted(i32),
    /// The service of an agent takes nothing for a while, until then if that was stated.
    Limited(Option<Timestamp>),
    Budget,
}

/// Runs the plan until something stops it.
pub fn run(opening: &start::Opening<'_>) -> Result<RunResult, Failure> {
    let tally = Tally::default();
    let hear = |event: &Event| tally.hear(event);
    let both = observe::compose(&[Some(opening.observe), Some(&hear)]);
    let observe = both.as_deref().unwrap_or(&hear);
    let (lock, mut run) = match start::open(opening, (observe, &tally))? {
        start::Opened::Busy(result) => return Ok(*result),
        start::Opened::Ours(lock, run) => (lock, run),
    };
    let end = drive(&mut run);
    let end = match run.signals.first() {
        Some(signal) if is_by_signal(&end) => Ok(LoopEnd::Interrupted(signal)),
        _ => end,
    };
    records::retain(&run);
    let result = match end {
        Ok(end) => summary::of(&run, end),
        Err(failure) if run.tally.launched() > 0 => summary::failed(&run, &failure),
        Err(failure) => return Err(failure),
    };
    drop(lock);
    Ok(result)
}

/// Whether a signal that arrived explains this end: it also ends the hook or the `git` program that runs.
fn is_by_signal(end: &Result<LoopEnd, Failure>) -> bool {
    match end {
        Ok(end) => *end == LoopEnd::CommitFailed,
        Err(failure) => failure.is_of_program(),
    }
}

/// The loop itself.
fn drive(run: &mut Run<'_>) -> Result<LoopEnd, Failure> {
    if recover::put_in_order(run)? == recover::Order::CommitFailed {
        return Ok(LoopEnd::CommitFailed);
    }
    records::close_left_open(run);
    records::retain(run);
    let mut last: Option<Settled> = None;
    loop {
        if let Some(end) = gate(run) {
            return Ok(end);
        }
        if people::apply_queue(run)? {
            last = None;
            // What was ready may be another task now.
            continue;
        }
        let mut guarded = look_again(run, last.as_ref())?;
        let (choice, wrote) = choose(run)?;
        let item = match choice {
            Choice::Session(item) => item,
            Choice::Nothing => return Ok(LoopEnd::NothingReady),
            Choice::CommitFailed => return Ok(LoopEnd::CommitFailed),
        };
        if start::ensure_converted(run)? || wrote {
            guarded = run.guard.take()?;
        }
        let settled = match session::run_one(run, &item, guarded) {
            Err(Failure::Interrupted { signal }) => return Ok(LoopEnd::Interrupted(signal)),
            other => other?,
        };
        if let Some(signal) = run.signals.first() {
            return Ok(LoopEnd::Interrupted(signal));
        }
        if run.tally.lacks_commit() {
            return Ok(LoopEnd::CommitFailed);
        }
        last = Some(settled);
    }
}

/// What stands in the way of another session, whichever it would be; a wait that is worth it is waited here.
fn gate(run: &mut Run<'_>) -> Option<LoopEnd> {
    let interrupted = |run: &Run<'_>| run.signals.first().map(LoopEnd::Interrupted);
    if let Some(end) = interrupted(run) {
        return Some(end);
    }
    let is_anything_ready = run.services.next(run).is_some();
    if is_anything_ready && budget::of_run(run).is_some() {
        return Some(LoopEnd::Budget);
    }
    if let Some(end) = limits::stop(run).filter(|_| is_anything_ready) {
        return Some(end);
    }
    if run.tally.launched() >= run.config.max_sessions {
        return Some(LoopEnd::SessionLimit);
    }
    if is_anything_ready {
        limits::wait(run);
    }
    interrupted(run)
}

/// Looks at what sessions must not touch, and reads plan and state again if somebody changed them since the last session.
fn look_again(run: &mut Run<'_>, last: Option<&Settled>) -> Result<Guarded, Failure> {
    let now = run.guard.take()?;
    let names = last.map(|last| last.foreign_changes(&now)).unwrap_or_default();
    if !names.is_empty() {
        let text = format!("somebody changed {} between two sessions; the plan is read again", names.join(", "));
        (run.observe)(&Event::Warning { text });
        run.read_plan()?;
        run.board = run.desk.store().read(&run.plan)?;
    }
    Ok(now)
}

/// What is to be done next.
enum Choice {
    Session(Ready),
    Nothing,
    CommitFailed,
}

/// The next session, after tasks that used up their sessions were set aside for a person; and whether any was.
fn choose(run: &mut Run<'_>) -> Result<(Choice, bool), Failure> {
    let mut wrote = false;
    loop {
        let Some(item) = run.services.next(run) else {
            return Ok((Choice::Nothing, wrote));
        };
        let Some(reason) = obstacle::before((run.config, run.project), run.board.row(&item.id)) else {
            return Ok((Choice::Session(item), wrote));
        };
        wrote = true;
        set_aside(run, &item, reason)?;
        if run.tally.lacks_commit() {
            return Ok((Choice::CommitFailed, wrote));
        }
    }
}

/// Lets a task wait for a person without a session.
fn set_aside(run: &mut Run<'_>, item: &Ready, reason: String) -> Result<(), Failure> {
    let Some(card) = run.plan.task(&item.id).cloned() else { return Ok(()) };
    start::ensure_converted(run)?;
    let locked = run.desk.lock()?;
    let row = locked.read_row(&card.stage, &card.id)?;
    let told = Event::waits_for_person(card.id.clone(), &reason);
    let step = Step::Wait { reason };
    let row = rules::apply(&card.id, &row, (Actor::Coordinator, &run.clock.stamp()), step)?;
    drop(locked);
    checkpoint::record(run, &card, &row)?;
    (run.observe)(&told);
    Ok(())
}

impl LoopEnd {
    /// What the loop's end means for the run, apart from what outranks it.
    fn stop(self, waits: bool) -> Stop {
        match self {
            Self::NothingReady if waits => Stop::NeedsInput,
            Self::NothingReady => Stop::Idle,
            Self::SessionLimit => Stop::SessionLimit,
            Self::CommitFailed => Stop::GitError,
            Self::Interrupted(_) => Stop::Interrupted,
            Self::Limited(_) => Stop::Limited,
            Self::Budget => Stop::Budget,
        }
    }
}
