//! What lies in a session's folder before its process exists: the prompt, and the record that says `running`.

use std::path::{Path, PathBuf};

use crate::evidence::{Outcome, PartRecord, RECORD_SCHEMA, RecordStatus, RunRecord, Teardown};
use crate::fs::{self, Change};
use crate::observe::SessionName;
use crate::plan::{TaskCard, Work};
use crate::prompt::{self, Assignment, Parts, PromptFault, Sources};
use crate::tokens::{Cost, Tokens};
use crate::tracker::row::Row;

use super::claim::Held;
use super::failure::Failure;
use super::leasing::Granted;
use super::prepare::Command;
use super::{Run, budget, verify};

/// A session that has a folder and a record, and a prompt if one could be made.
pub(super) struct Opening {
    /// Where all that is known of the session is written.
    pub(super) folder: PathBuf,
    /// Its record so far.
    pub(super) record: RunRecord,
    /// Its prompt.
    pub(super) prompt: Result<WrittenPrompt, PromptFault>,
}

/// A prompt that lies in a session's folder.
pub(super) struct WrittenPrompt {
    /// The file.
    pub(super) file: PathBuf,
    /// What it holds.
    pub(super) text: String,
}

impl Opening {
    /// Makes the folder and writes the prompt; the record is still to be written, with the claim.
    pub(super) fn of(
        run: &Run<'_>,
        held: &Held,
        (command, granted, gathered, temporary): (&Command, &Granted, Result<Parts, PromptFault>, &Path),
    ) -> Result<(Self, Change), Failure> {
        let max = run.config.max_prompt_chars;
        let assembled = gathered.and_then(|parts| {
            prompt::assemble(&assignment(run, &held.name, &held.card), &parts, &packet_row(&held.row), max)
        });
        let assembled = assembled.and_then(|prompt| command.accept(prompt));
        let folder = run.project.session(&held.name.agent, held.name.number);
        fs::make_private_folder(&folder)?;
        let mut record = record(run, held, (command, granted));
        let prompt = match assembled {
            Ok(prompt) => {
                record.prompt_characters = prompt.text.chars().count();
                let part =
                    |size: &prompt::PartSize| PartRecord { part: size.part.clone(), characters: size.characters };
                record.prompt_parts = prompt.sizes.iter().map(part).collect();
                record.temporary = Some(temporary.to_owned());
                fs::make_folder(&run.project.root().join("state/commit_messages"))?;
                let file = folder.join("prompt.md");
                // A power failure that takes the prompt takes its reader too.
                fs::replace_unsynced(&file, prompt.text.as_bytes(), 0o600)?;
                Ok(WrittenPrompt { file, text: prompt.text })
            }
            Err(fault) => Err(fault),
        };
        let change = record.change(&folder, &run.redactor)?;
        Ok((Self { folder, record, prompt }, change))
    }
}

/// Reads all that the prompt is made of.
pub(super) fn gather(run: &Run<'_>, name: &SessionName, card: &TaskCard) -> Result<Parts, PromptFault> {
    let row = run.board.row(&card.id);
    let verification = verify::report_of(run.config, (run.project.root(), card), row);
    let sources = Sources {
        project: run.project,
        workspace: &run.workspace_root(),
        config: run.config,
        handoff: row.handoff.as_deref(),
        evidence: row.evidence.as_deref().filter(|_| name.work == Work::Review),
        verification: verification.as_deref().filter(|_| name.work == Work::Review),
    };
    prompt::gather(&sources, &assignment(run, name, card))
}

fn assignment<'n>(run: &'n Run<'_>, name: &'n SessionName, card: &'n TaskCard) -> Assignment<'n> {
    Assignment { agent: &name.agent, role: &name.role, card, work: name.work, runner_bin: &run.host.binary }
}

/// The row as an agent sees it: without the claim and without the whole history.
pub(super) fn packet_row(row: &Row) -> String {
    let shown = serde_json::json!({
        "status": row.status, "owner": row.owner, "reviewer": row.reviewer, "attempts": row.attempts,
        "handoff": row.handoff, "evidence": row.evidence, "reason": row.reason, "no_change": row.declared_no_change(),
    });
    serde_json::to_string_pretty(&shown).unwrap_or_default()
}

fn record(run: &Run<'_>, held: &Held, (command, granted): (&Command, &Granted)) -> RunRecord {
    RunRecord {
        schema: RECORD_SCHEMA,
        run_id: held.name.run_id(),
        agent: held.name.agent.clone(),
        session: held.name.number,
        task: held.name.task.clone(),
        role: held.name.role.clone(),
        action: held.name.work,
        status: RecordStatus::Running,
        started_at: run.clock.stamp(),
        finished_at: None,
        argv: command.argv.clone(),
        dialect: Some(command.agent.dialect),
        tokens: Tokens::default(),
        cost: Cost::UNKNOWN,
        agent_fault: None,
        final_message: None,
        skipped_lines: 0,
        retry: held.before.retries(),
        spent_before: budget::before(run, &held.before),
        prompt_characters: 0,
        prompt_parts: Vec::new(),
        execution: None,
        scope_violations: Vec::new(),
        tampering: Vec::new(),
        findings: Vec::new(),
        verification: None,
        kept: Vec::new(),
        outcome: Outcome::Unknown,
        failed_stage: None,
        teardown: Teardown::not_attempted(),
        temporary: None,
        workspace: Some(granted.record(run)),
        result: None,
        commit: None,
        commit_error: None,
    }
}
