//! What a session is going to be: its command, and its whole prompt with the digests. A run and a dry run plan by this same code.
//!
//! Reads files and changes nothing; dropping a plan leaves no trace.

use std::path::Path;

use crate::config::Config;
use crate::conversation::Exchange;
use crate::conversation::prepared::{self, Draft, Prepared};
use crate::observe::SessionName;
use crate::plan::{TaskCard, Work};
use crate::project::Project;
use crate::prompt::{self, Assignment, Document, Parts, Prompt, PromptFault, Sources};
use crate::tracker::row::{Claim, Row};
use crate::tracker::rules::{self, Actor, Refusal, Step};

use super::Run;
use super::failure::Failure;
use super::prepare::{self, Command, Host};
use super::verify;

/// Where a session would work, and by which configuration.
#[derive(Clone, Copy)]
pub(super) struct Places<'p> {
    /// The project.
    pub(super) project: &'p Project,
    /// The folder it works in.
    pub(super) workspace: &'p Path,
    /// The machine's configuration.
    pub(super) config: &'p Config,
    /// What the command line knows of its process.
    pub(super) host: &'p Host,
}

impl<'p> Places<'p> {
    /// Those of a run; `workspace` is its [`Run::workspace_root`].
    pub(super) fn of(run: &Run<'p>, workspace: &'p Path) -> Self {
        Self { project: run.project, workspace, config: run.config, host: run.host }
    }
}

/// What is to be done, by whom.
#[derive(Clone, Copy)]
pub(super) struct Session<'s> {
    /// The session.
    pub(super) name: &'s SessionName,
    /// The task's card.
    pub(super) card: &'s TaskCard,
    /// The task's row as the claim makes it.
    pub(super) row: &'s Row,
    /// What an earlier process of the same session left for it, where no history stands before its prompt.
    pub(super) left: Option<&'s Document>,
}

/// A session that is planned.
pub(super) struct Planned {
    /// The command; a fault of the configuration if there is none.
    pub(super) command: Result<Command, Failure>,
    /// The prompt.
    pub(super) prompt: Result<Prepared, PromptFault>,
}

impl Planned {
    /// Command and prompt of a session that is to run: what is wrong with the configuration stops it before anything is claimed,
    /// what is wrong with the task does not.
    pub(super) fn into_runnable(self) -> Result<(Command, Result<Prepared, PromptFault>), Failure> {
        let command = self.command?;
        let prompt = self.prompt.and_then(|prepared| command.accept(prepared.prompt()).map(|()| prepared));
        match prompt {
            Err(fault @ PromptFault::Configuration(_)) => Err(fault.into()),
            prompt => Ok((command, prompt)),
        }
    }
}

/// Plans a session from the task's files; with a conversation to go on from, that stands before the new words.
pub(super) fn plan_session(places: Places<'_>, session: Session<'_>, continue_from: Option<&Exchange>) -> Planned {
    let parts = gather(places, session).map(|mut parts| {
        parts.documents.extend(session.left.cloned());
        parts
    });
    let max = places.config.max_prompt_chars;
    // Of the new words alone, so that context which no session could hold is told from a task that brings too much.
    let new = parts.and_then(|parts| {
        let new = prompt::assemble(&assignment(places, session), &parts, &packet_row(session.row), max)?;
        Ok((parts, new))
    });
    match new {
        Ok(new) => plan_with(places, session, (new, continue_from)),
        Err(fault) => Planned { command: command(places, session), prompt: Err(fault) },
    }
}

/// Plans a session whose new words are given, with the files that are in them.
pub(super) fn plan_with(
    places: Places<'_>,
    session: Session<'_>,
    ((parts, new), continue_from): ((Parts, Prompt), Option<&Exchange>),
) -> Planned {
    let command = command(places, session);
    let argv = command.as_ref().map(|command| command.argv.clone()).unwrap_or_default();
    let assignment = &assignment(places, session);
    let max_chars = places.config.max_prompt_chars;
    let prompt = prepared::prepare(Draft { assignment, parts: &parts, new, continue_from, argv, max_chars });
    Planned { command, prompt }
}

fn command(places: Places<'_>, session: Session<'_>) -> Result<Command, Failure> {
    prepare::command((places.project, places.workspace), places.config, places.host, session.name)
}

/// Reads all that the prompt is made of.
fn gather(places: Places<'_>, session: Session<'_>) -> Result<Parts, PromptFault> {
    let Session { name, row, card, .. } = session;
    let verification = verify::report_of(places.config, (places.project.root(), card), row);
    let sources = Sources {
        project: places.project,
        workspace: places.workspace,
        config: places.config,
        handoff: row.handoff.as_deref(),
        evidence: row.evidence.as_deref().filter(|_| name.work == Work::Review),
        verification: verification.as_deref().filter(|_| name.work == Work::Review),
    };
    prompt::gather(&sources, &assignment(places, session))
}

fn assignment<'s>(places: Places<'s>, Session { name, card, .. }: Session<'s>) -> Assignment<'s> {
    Assignment { agent: &name.agent, role: &name.role, card, work: name.work, runner_bin: &places.host.binary }
}

/// The row as the claim of a session will make it, apart from what no prompt shows.
pub(super) fn claimed(name: &SessionName, row: &Row, at: &str) -> Result<Row, Refusal> {
    let claim = Claim {
        agent: name.agent.clone(),
        work: name.work,
        session: name.number,
        scope: Vec::new(),
        head: None,
        remediation_left: 0,
        token_hash: None,
        pid: None,
        boot_id: None,
        start_time: None,
    };
    rules::apply(&name.task, row, (Actor::Session(&name.agent), at), Step::Claim { claim, waiting_for: &[] })
}

/// The row as an agent sees it: without the claim and without the whole history.
fn packet_row(row: &Row) -> String {
    let shown = serde_json::json!({
        "status": row.status, "owner": row.owner, "reviewer": row.reviewer, "attempts": row.attempts,
        "handoff": row.handoff, "evidence": row.evidence, "reason": row.reason, "no_change": row.declared_no_change(),
    });
    serde_json::to_string_pretty(&shown).unwrap_or_default()
}
