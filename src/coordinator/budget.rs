//! What counts against the budgets: of a task by its row and the records of its sessions, of the run as its sessions end.
//!
//! Checked before every claim. A session that runs is not ended for it.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use crate::budget::{Budget, Budgets, Used};
use crate::config::Config;
use crate::evidence::{RecordStatus, RunRecord, SpentBefore};
use crate::ids::AgentId;
use crate::observe::Event;
use crate::project::Project;
use crate::tokens::Figure;
use crate::tracker::row::{Row, Status};
use crate::verdict::Verdict;

use super::Run;

/// Why the run may start no other session, if its budget is used up.
pub(super) fn of_run(run: &Run<'_>) -> Option<String> {
    let figures = run.tally.used.up(&run.config.budget.run)?;
    Some(format!("the budget of the run is used up: {figures}"))
}

/// Why the task of `row` may not be claimed, if its budget is used up.
pub(super) fn of_task((config, project): (&Config, &Project), row: &Row) -> Option<String> {
    let budget = &config.budget.task;
    if *budget == Budget::default() {
        return None;
    }
    let figures = used_by(project, row).up(budget)?;
    Some(format!(
        "budget: {figures}; an answer gives the task its budget anew, `budget.task` in the configuration another one"
    ))
}

/// Whether another process may follow a session of the task of `row` that is over but not settled, and whose record is this.
pub(super) fn leaves_room(run: &Run<'_>, row: &Row, record: &RunRecord) -> bool {
    let Budgets { task, run: of_run } = &run.config.budget;
    let used = used_in(record);
    let fits_run = run.tally.used.and(used).up(of_run).is_none();
    // Its record on disk says as yet only that it began, and the row counts it.
    let fits_task =
        *task == Budget::default() || used_by(run.project, row).and(used.with_sessions(0)).up(task).is_none();
    fits_run && fits_task
}

/// What counts when a session of the task of `row` is about to begin; nothing is read where there is no budget.
pub(super) fn before(run: &Run<'_>, row: &Row) -> Option<SpentBefore> {
    run.config.budget.is_any().then(|| SpentBefore { task: used_by(run.project, row), run: run.tally.used })
}

/// Adds a session that is over to what the run used.
pub(super) fn count(run: &mut Run<'_>, (record, verdict): (&RunRecord, &Verdict)) {
    let used = used_in(record);
    let used = if matches!(verdict, Verdict::Limited { .. }) { used.with_sessions(0) } else { used };
    run.tally.used = run.tally.used.and(used);
    let budget = run.config.budget;
    let dark = used.in_the_dark(&budget.run).or_else(|| used.in_the_dark(&budget.task));
    if dark.is_some() && !run.tally.told_unknown {
        run.tally.told_unknown = true;
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

/// What the task used since a person last answered for it.
fn used_by(project: &Project, row: &Row) -> Used {
    let used = row.session_agents().map(|agent| used_of(project, agent)).fold(Used::NOTHING, Used::and);
    used.with_sessions(row.sessions())
}

/// What the records of an agent say that it used.
fn used_of(project: &Project, agent: &str) -> Used {
    let Ok(agent) = agent.parse::<AgentId>() else { return Used::unknown_session() };
    let record = |number: u32| RunRecord::read(&project.session(&agent, number)).ok().flatten();
    let records = (1..).map_while(record).map(|record| used_in(&record));
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
