//! What counts against the budgets: of a task by its row and the records of its sessions, of the run as its sessions end.
//!
//! Checked before every claim. A session that runs is not ended for it.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use crate::budget::{Budget, Used};
use crate::config::Config;
use crate::evidence::{RecordStatus, RunRecord, SpentBefore};
use crate::ids::AgentId;
use crate::observe::Event;
use crate::project::Project;
use crate::tokens::Figure;
use crate::tracker::row::{Row, Status};

use super::Run;

/// Why the run may start no other session, if its budget is used up.
pub(super) fn of_run(run: &Run<'_>) -> Option<String> {
    let figures = run.tally.used().up(&run.config.budget.run)?;
    Some(format!("the budget of the run is used up: {figures}"))
}

/// Why the task of `row` may not be claimed, if its budget is used up.
pub(super) fn of_task((config, project): (&Config, &Project), row: &Row) -> Option<String> {
    let budget = &config.budget.task;
    if *budget == Budget::default() {
        return None;
    }
    let figures = used_by(project, row, None).up(budget)?;
    Some(format!(
        "budget: {figures}; an answer gives the task its budget anew, `budget.task` in the configuration another one"
    ))
}

/// Which budget leaves no room for another process after a session of the task of `row` that is over but not settled, if one
/// does; `over` is the session's record.
pub(super) fn against(run: &Run<'_>, row: &Row, over: &RunRecord) -> Option<String> {
    let budgets = &run.config.budget;
    let SpentBefore { task, run: of_run } = before(run, row, Some(over))?;
    let figures = |of: &str, figures: String| format!("the budget of the {of} is used up: {figures}");
    let of_task = task.up(&budgets.task).map(|used| figures("task", used));
    of_task.or_else(|| of_run.up(&budgets.run).map(|used| figures("run", used)))
}

/// What counts when a session of the task of `row` is about to begin, which does not count it; nothing is read where there is no
/// budget. `over` is the record of a session that is over and neither told of nor on disk as such.
pub(super) fn before(run: &Run<'_>, row: &Row, over: Option<&RunRecord>) -> Option<SpentBefore> {
    let of_run = || over.map_or(run.tally.used(), |over| run.tally.used().and(used_in(over)));
    run.config.budget.is_any().then(|| SpentBefore { task: used_by(run.project, row, over), run: of_run() })
}

/// Tells, once in a run, that not all is known that a budget counts; `record` is that of a session whose end is told next.
pub(super) fn tell_unknown(run: &Run<'_>, record: &RunRecord) {
    let budgets = run.config.budget;
    let is_dark = |used: Used| [budgets.run, budgets.task].iter().any(|budget| used.in_the_dark(budget).is_some());
    if is_dark(used_in(record)) && !is_dark(run.tally.used()) {
        let text = format!(
            "{} did not state all that a budget counts; what is unknown adds nothing to it, and is named with the figures",
            record.run_id
        );
        (run.observe)(&Event::Warning { text });
    }
}

/// The folders of the agents whose records count against the budget of a task that is not done.
pub(super) fn counted(run: &Run<'_>) -> BTreeSet<PathBuf> {
    if run.config.budget.task == Budget::default() {
        return BTreeSet::new();
    }
    let open = run.board.rows().filter(|(_, row)| row.status != Status::Done);
    let agents = open.flat_map(|(_, row)| row.session_agents()).filter_map(|agent| agent.parse::<AgentId>().ok());
    agents.filter_map(|agent| run.project.session(&agent, 1).parent().map(Path::to_owned)).collect()
}

/// What the task used since a person last answered for it, `over` taken for the record that is on disk.
fn used_by(project: &Project, row: &Row, over: Option<&RunRecord>) -> Used {
    let used = row.session_agents().map(|agent| used_of(project, agent, over)).fold(Used::NOTHING, Used::and);
    used.with_sessions(row.sessions())
}

/// What the records of an agent say that it used.
fn used_of(project: &Project, agent: &str, over: Option<&RunRecord>) -> Used {
    let Ok(agent) = agent.parse::<AgentId>() else { return Used::unknown_session() };
    let is_over = |number: u32, over: &&RunRecord| over.agent == agent && over.session == number;
    let used = |number: u32| match over.filter(|over| is_over(number, over)) {
        Some(over) => Some(used_in(over)),
        None => RunRecord::read(&project.session(&agent, number)).ok().flatten().as_ref().map(used_in),
    };
    let records = (1..).map_while(used);
    // A record that is gone, or that a person's manual session never had, says nothing.
    records.reduce(Used::and).unwrap_or_else(Used::unknown_session)
}

/// What the record of a session says that it used.
fn used_in(record: &RunRecord) -> Used {
    let wall = match (&record.execution, record.status) {
        (Some(execution), _) => Figure::whole(execution.wall_ms),
        (None, RecordStatus::Finished) => Figure::NOTHING,
        (None, RecordStatus::Running | RecordStatus::Recovered) => Figure::UNKNOWN,
    };
    Used::session(wall, &record.tokens, record.cost)
}
