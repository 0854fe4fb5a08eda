//! What a run would do next, by the same code up to the launch; changes nothing on disk.

use std::sync::Arc;

use serde_json::{Map, Value, json};

use crate::ids::AgentId;
use crate::observe::SessionName;
use crate::plan::Plan;
use crate::project::Project;
use crate::tracker::ready::{self, Board, Part, Ready};
use crate::tracker::rules::{self, Actor, Step};
use crate::tracker::store::Store;

use super::failure::Failure;
use super::memo::Memo;
use super::planning::{self, Places, Planned};
use super::start::{self, Opening};
use super::{checkpoint, ground, obstacle, site, summary, verify};
use crate::config::Mode;

/// How many sessions ahead a dry run looks.
const AHEAD: usize = 5;

/// What would run next; the second value is whether something in the part waits for a person while nothing is ready.
pub fn preview(opening: &Opening<'_>) -> Result<(Value, u8), Failure> {
    let plan = Plan::load(opening.project)?;
    let part = start::part_of(&plan, opening)?;
    let stands = Store::new(opening.project).read(&plan)?;
    let (board, set_aside) = set_aside(opening, (&plan, &part), stands.clone())?;
    let recovery = recovery(opening.project)?;
    let picks = ready::preview(&plan, &board, &part, AHEAD);
    let Some(next) = picks.first() else {
        return Ok(nothing_ready((&plan, &part), (&board, stands.revision()), (set_aside, recovery)));
    };
    let Planned { command, prompt } = planned(opening, &plan, (&board, next))?;
    let prepared = prompt?;
    let sizes: Vec<_> = prepared
        .details()
        .prompt_parts
        .iter()
        .map(|size| json!({"part": size.part, "characters": size.characters}))
        .collect();
    let command = command.and_then(|command| {
        command.accept(prepared.prompt())?;
        verify::check(opening.config, opening.host, (&plan, &board))?;
        Ok(command.argv)
    });
    let (argv, missing) = match command {
        Ok(argv) => (Some(argv), None),
        Err(failure) => (None, Some(failure.reason())),
    };
    let shown = json!({
        "dry_run": true, "next": next, "prompt_characters": prepared.details().prompt_characters, "prompt_parts": sizes, "argv": argv,
        "details": prepared.details(),
        "configuration_required": missing.is_some(), "configuration_error": missing,
        "preflight_error": preflight(opening, &board, recovery.is_some()).err().map(|failure| failure.reason()),
        "recovery": recovery, "set_aside": set_aside, "then": picks.iter().skip(1).collect::<Vec<_>>(), "state_unchanged": true,
    });
    Ok((shown, 0))
}

/// The board once the run has let tasks wait for a person that are ready but get no session, and why each of them.
fn set_aside(
    opening: &Opening<'_>,
    (plan, part): (&Plan, &Part),
    mut board: Board,
) -> Result<(Board, Map<String, Value>), Failure> {
    let mut reasons = Map::new();
    while let Some(item) = ready::ready(plan, &board, part).into_iter().next() {
        let row = board.row(&item.id);
        let Some(reason) = obstacle::before((opening.config, opening.project), row) else { break };
        reasons.insert(item.id.to_string(), json!(reason));
        let row = rules::apply(&item.id, row, (Actor::Coordinator, &opening.clock.stamp()), Step::Wait { reason })?;
        board.set(item.id, row);
    }
    Ok((board, reasons))
}

fn nothing_ready(
    (plan, part): (&Plan, &Part),
    (board, revision): (&Board, u64),
    (set_aside, recovery): (Map<String, Value>, Option<String>),
) -> (Value, u8) {
    let mut result = summary::standing(plan, board, part);
    result.revision = revision;
    let waits =
        !result.unsatisfiable.is_empty() || part.tasks(plan, board).iter().any(|t| board.row(&t.id).external_wait);
    result.stop =
        if result.unfinished == 0 { crate::outcome::Stop::Complete } else { super::LoopEnd::NothingReady.stop(waits) };
    let code = result.exit_code();
    let mut value = serde_json::to_value(&result).unwrap_or_default();
    if let Some(object) = value.as_object_mut() {
        object.insert("dry_run".to_owned(), json!(true));
        object.insert("set_aside".to_owned(), Value::Object(set_aside));
        object.insert("recovery".to_owned(), json!(recovery));
        object.insert("state_unchanged".to_owned(), json!(true));
    }
    (value, code)
}

/// The id a dry run pretends with; as long as a real one.
fn preview_agent(next: &Ready) -> AgentId {
    AgentId::fresh(&next.role, [0; 6])
}

/// The next session, planned as a run plans it. Whoever drops it has changed nothing.
fn planned(opening: &Opening<'_>, plan: &Plan, (board, next): (&Board, &Ready)) -> Result<Planned, Failure> {
    let card = plan.task(&next.id).ok_or_else(|| Failure::UnknownPart {
        kind: "task",
        name: next.id.to_string(),
        nearest: String::new(),
    })?;
    let name = SessionName {
        agent: preview_agent(next),
        number: 1,
        parent: None,
        task: next.id.clone(),
        title: card.title.clone(),
        role: next.role.clone(),
        work: next.work,
    };
    // A work tree that is not there yet will hold what the root holds.
    let workspace = site::workspace_root(opening.project, opening.config.workspace.mode);
    let workspace = if workspace.is_dir() { workspace } else { opening.project.root().to_owned() };
    let places = Places { project: opening.project, workspace: &workspace, config: opening.config, host: opening.host };
    let row = planning::claimed(&name, board.row(&next.id), &opening.clock.stamp())?;
    Ok(planning::plan_session(places, planning::Session { name: &name, card, row: &row, left: None }, None))
}

/// What a start has to put in order before anything else, so that all of this may come out differently.
fn recovery(project: &Project) -> Result<Option<String>, Failure> {
    const FIRST: &str =
        "a run is at work or was killed; a start puts that in order first, and another task may be next then";
    if let Some(memo) = Memo::read(project)? {
        return Ok(Some(format!("a session of {} is not over: {FIRST}", memo.task)));
    }
    let is_intended = checkpoint::is_intended(project);
    Ok(is_intended.then(|| format!("a commit is still to be made: {FIRST}")))
}

/// What would stop a real run before its first session. What lies in the work tree is not looked at where a killed session may
/// have left it: the start tells whose it is.
fn preflight(opening: &Opening<'_>, board: &Board, is_interrupted: bool) -> Result<(), Failure> {
    let Some(mut git) = start::open_git(opening)? else { return Ok(()) };
    git.check(opening.clock.now())?;
    start::check_ignored(opening.project, &git, &opening.config_path)?;
    site::check_shares(&opening.config.workspace.share, &git)?;
    if is_interrupted {
        return Ok(());
    }
    let files = if opening.config.workspace.mode == Mode::Worktree {
        ground::dirty_in_plan(&git, board)?
    } else {
        let tracked = git.tracked()?;
        let snapshot = start::snapshotter(opening.project, opening.config, Some(&git)).take(Some(Arc::new(tracked)))?;
        ground::dirty_in(&mut git, board, &snapshot)?
    };
    if files.is_empty() {
        return Ok(());
    }
    Err(Failure::Dirty { files: files.iter().map(ToString::to_string).collect() })
}
