//! What lies in a session's folder before its process exists: the prompt, and the record that says `running`.

use std::path::{Path, PathBuf};

use crate::conversation::prepared::{Details, InputDigest, Prepared};
use crate::evidence::{
    InputRecord, Outcome, PartRecord, RECORD_SCHEMA, RecordStatus, RunRecord, SpentBefore, Teardown,
};
use crate::fs::{self, Change};
use crate::prompt::{PartSize, PromptFault};
use crate::tokens::{Cost, Tokens};

use super::Run;
use super::claim::Held;
use super::failure::Failure;
use super::leasing::Granted;
use super::prepare::Command;

/// A session that has a folder and a record, and a prompt if one could be made.
pub(super) struct Opening {
    /// Where all that is known of the session is written.
    pub(super) folder: PathBuf,
    /// Its record so far.
    pub(super) record: RunRecord,
    /// Its prompt.
    pub(super) prompt: Result<Prepared, PromptFault>,
}

/// The prompt's file in a session's folder.
pub(super) fn prompt_file(folder: &Path) -> PathBuf {
    folder.join("prompt.md")
}

impl Opening {
    /// Makes the folder and writes the prompt; the record is still to be written, with the claim. `spent_before` is what counts
    /// against budgets by now.
    pub(super) fn of(
        run: &Run<'_>,
        held: &Held,
        (command, granted, prompt, temporary): (&Command, &Granted, Result<Prepared, PromptFault>, &Path),
        spent_before: Option<SpentBefore>,
    ) -> Result<(Self, Change), Failure> {
        let folder = run.project.session(&held.name.agent, held.name.number);
        fs::make_private_folder(&folder)?;
        let mut record = record(run, held, (command, granted), spent_before);
        if let Ok(prepared) = &prompt {
            describe(&mut record, prepared.details());
            record.temporary = Some(temporary.to_owned());
            fs::make_folder(&run.project.root().join("state/commit_messages"))?;
            // A power failure that takes the prompt takes its reader too.
            fs::replace_unsynced(&prompt_file(&folder), prepared.prompt().text.as_bytes(), 0o600)?;
        }
        let change = record.change(&folder, &run.redactor)?;
        Ok((Self { folder, record, prompt }, change))
    }
}

/// Puts on record what is known of the prompt.
fn describe(record: &mut RunRecord, details: &Details) {
    let part = |size: &PartSize| PartRecord { part: size.part.clone(), characters: size.characters };
    let input = |input: &InputDigest| InputRecord { part: input.part.clone(), hash: input.digest.to_string() };
    record.prompt_characters = details.prompt_characters;
    record.prompt_parts = details.prompt_parts.iter().map(part).collect();
    record.definition_hash = Some(details.definition.to_string());
    record.input_hashes = details.inputs.iter().map(input).collect();
    record.prompt_hash = Some(details.prompt.to_string());
    record.parent_run_id.clone_from(&details.parent_run_id);
}

fn record(
    run: &Run<'_>,
    held: &Held,
    (command, granted): (&Command, &Granted),
    spent_before: Option<SpentBefore>,
) -> RunRecord {
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
        spent_before,
        prompt_characters: 0,
        prompt_parts: Vec::new(),
        parent_run_id: held.name.parent.clone(),
        definition_hash: None,
        input_hashes: Vec::new(),
        prompt_hash: None,
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
