//! `run.json`: one record per session that says exactly what happened; written as `running` before the process exists.
//!
//! Owns the record's shape, what is taken out of it before it is written, how it is reported and how long it is kept. Additive:
//! a field that an older record lacks reads as absent or unknown. Only what is redacted is written or sent.

mod post;
mod redact;
mod retention;
mod shapes;
mod teardown;
mod verification;
mod workspace;

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::agents::{AgentFault, Dialect};
use crate::budget::Used;
use crate::fs::{self, Change, FileError, JsonError, Order};
use crate::ids::{AgentId, Role, TaskId};
use crate::plan::Work;
use crate::session::ExecutionResult;
use crate::tokens::{Cost, Tokens};

pub use post::{FailureKind, ReportOutcome, ReportTally, Reported, send};
pub use redact::{REDACTED, Redactor};
pub use retention::{apply as apply_retention, session_folders};
pub use teardown::{Attempt, FailedStage, Outcome, Teardown};
pub use verification::{CommandRecord, Failed, VerificationRecord};

pub use workspace::{WorkspaceMode, WorkspaceRecord};

/// The schema number of `run.json`: 3 added `outcome`, `failed_stage`, `teardown` and `temporary`, 4 what the agent's output
/// says: `dialect`, `tokens`, `cost`, `agent_fault`, `final_message` and `skipped_lines`, 5 `workspace`, `retry` and
/// `spent_before`, 6 `verification`, 7 `parent_run_id` and the digests `definition_hash`, `input_hashes` and `prompt_hash`.
pub const RECORD_SCHEMA: u32 = 7;

/// Names and fixed words of a record: a secret that happens to be one of them must not make the record unreadable.
const FIXED: [&str; 20] = [
    "/run_id",
    "/parent_run_id",
    "/definition_hash",
    "/prompt_hash",
    "/agent",
    "/task",
    "/role",
    "/action",
    "/status",
    "/started_at",
    "/finished_at",
    "/outcome",
    "/failed_stage",
    "/execution/ended",
    "/teardown/cleanup",
    "/teardown/destruction",
    "/workspace/mode",
    "/dialect",
    "/agent_fault/kind",
    "/agent_fault/retry_at",
];

/// Where a record quotes errors or output, or may do so; `*` is each item of a list.
const QUOTING: [&str; 12] = [
    "commit_error",
    "result/reason",
    "execution/ended/could_not_start/reason",
    "execution/output/error",
    "agent_fault/text",
    "teardown/faults/*",
    "findings/*",
    "kept/*",
    "verification/before/*/ended",
    "verification/commands/*/ended",
    "verification/changed/*",
    "verification/faults/*",
];

/// What a report says in the place of a text that quotes errors or output.
const WITHHELD: &str = "[withheld]";

/// The verdict on a session that a usage limit ended, as its record has it.
pub const LIMITED: &str = "limited";

/// Whether the session is over.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RecordStatus {
    /// Its process is about to start, runs, or ran when the coordinator died.
    Running,
    /// It is over and judged.
    Finished,
    /// The coordinator died with it; the next start put things in order.
    Recovered,
}

/// The size of one part of the prompt.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PartRecord {
    /// Its heading.
    pub part: String,
    /// In Unicode characters.
    pub characters: usize,
}

/// The digest of one file of the prompt.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct InputRecord {
    /// Its heading.
    pub part: String,
    /// SHA-256 of its text as it stands in the prompt, in lower-case hex.
    pub hash: String,
}

/// That the agent said something at its end; not what.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct MessageRecord {
    /// How long its text is, in bytes.
    pub bytes: usize,
    /// Whether its beginning was cut off.
    pub truncated: bool,
}

/// What counted against the budgets when a session began.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct SpentBefore {
    /// Of its task.
    pub task: Used,
    /// Of its run.
    pub run: Used,
}

/// The record of one session.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RunRecord {
    /// [`RECORD_SCHEMA`] of the version that wrote it.
    pub schema: u32,
    /// `<agent>.<n>`.
    pub run_id: String,
    /// The agent.
    pub agent: AgentId,
    /// The session's number within the agent, from 1.
    pub session: u32,
    /// The task.
    pub task: TaskId,
    /// The role.
    pub role: Role,
    /// What it was to do.
    pub action: Work,
    /// Whether it is over.
    pub status: RecordStatus,
    /// When the session began, in UTC.
    pub started_at: String,
    /// When it was judged, in UTC.
    #[serde(default)]
    pub finished_at: Option<String>,
    /// The command with all placeholders replaced.
    pub argv: Vec<String>,
    /// The prompt's length in Unicode characters.
    pub prompt_characters: usize,
    /// Its parts, in order.
    pub prompt_parts: Vec<PartRecord>,
    /// The session whose conversation it goes on from.
    #[serde(default)]
    pub parent_run_id: Option<String>,
    /// SHA-256 of the card, the role and what is to be done; none in older records and without a prompt.
    #[serde(default)]
    pub definition_hash: Option<String>,
    /// The digest of each file that was read for the new prompt, in order.
    #[serde(default)]
    pub input_hashes: Vec<InputRecord>,
    /// SHA-256 of the whole prompt, agents of its conversation named by their place in it.
    #[serde(default)]
    pub prompt_hash: Option<String>,
    /// How the process ended.
    #[serde(default)]
    pub execution: Option<ExecutionResult>,
    /// How the agent's output was read; absent in older records.
    #[serde(default)]
    pub dialect: Option<Dialect>,
    /// What the model read and wrote, as far as the agent stated it.
    #[serde(default)]
    pub tokens: Tokens,
    /// What it cost, as far as the agent stated it.
    #[serde(default)]
    pub cost: Cost,
    /// The error in which the agent's output ended.
    #[serde(default)]
    pub agent_fault: Option<AgentFault>,
    /// That it said something at its end.
    #[serde(default)]
    pub final_message: Option<MessageRecord>,
    /// Lines of its output that could not be read.
    #[serde(default)]
    pub skipped_lines: u64,
    /// How many sessions of the task in a row before this one had ended because the agent's service failed.
    #[serde(default)]
    pub retry: usize,
    /// What counted against the budgets when it began, if there are any.
    #[serde(default)]
    pub spent_before: Option<SpentBefore>,
    /// All files changed outside the scope.
    #[serde(default)]
    pub scope_violations: Vec<String>,
    /// All protected files changed.
    #[serde(default)]
    pub tampering: Vec<String>,
    /// What could not be read or was in no way expected in the tree.
    #[serde(default)]
    pub findings: Vec<String>,
    /// What the coordinator's own commands said of its submit; nothing if none were run.
    #[serde(default)]
    pub verification: Option<VerificationRecord>,
    /// What was moved aside, and what could not be put back.
    #[serde(default)]
    pub kept: Vec<String>,
    /// Whether the session as a whole succeeded, its teardown included.
    #[serde(default)]
    pub outcome: Outcome,
    /// Where it failed first.
    #[serde(default)]
    pub failed_stage: Option<FailedStage>,
    /// How its end went, apart from how its work went.
    #[serde(default)]
    pub teardown: Teardown,
    /// The session's own temporary folder, while it is there.
    #[serde(default)]
    pub temporary: Option<PathBuf>,
    /// Where it worked; unknown in a record that is older than this field, and where the repository refused.
    #[serde(default)]
    pub workspace: Option<WorkspaceRecord>,
    /// What it came to.
    #[serde(default)]
    pub result: Option<Value>,
    /// The commit made of it.
    #[serde(default)]
    pub commit: Option<String>,
    /// Why there is none.
    #[serde(default)]
    pub commit_error: Option<String>,
}

impl RunRecord {
    /// Replaces the record in the session's folder, readable by the user only and without secrets.
    pub fn write(&self, folder: &Path, redactor: &Redactor) -> Result<(), JsonError> {
        Ok(fs::change(&[self.change(folder, redactor)?], Order::InTurn)?)
    }

    /// What [`RunRecord::write`] does, to be done together with other changes.
    pub fn change(&self, folder: &Path, redactor: &Redactor) -> Result<Change, JsonError> {
        let path = folder.join("run.json");
        let text = self.redacted(redactor).and_then(|value| serde_json::to_string_pretty(&value));
        let mut text = text.map_err(|source| JsonError::Syntax { path: path.clone(), source })?;
        text.push('\n');
        Ok(Change::replace_private(path, text.into_bytes()))
    }

    /// Reads the record of a session, if there is one that this version understands.
    pub fn read(folder: &Path) -> Result<Option<Self>, FileError> {
        let bytes = fs::read_if_present(&folder.join("run.json"))?;
        let record: Option<Self> = bytes.and_then(|bytes| serde_json::from_slice(&bytes).ok());
        Ok(record.filter(|record| record.schema <= RECORD_SCHEMA))
    }

    /// Whether a usage limit ended the session, as it was judged.
    pub fn is_limited(&self) -> bool {
        self.result.as_ref().is_some_and(|result| result["verdict"] == LIMITED)
    }

    /// What a report of the session holds: the record, less the texts that quote errors and output.
    pub fn for_report(&self, redactor: &Redactor) -> Vec<u8> {
        let mut value = self.redacted(redactor).unwrap_or_default();
        for place in QUOTING {
            withhold(&mut value, place);
        }
        serde_json::to_vec(&value).unwrap_or_default()
    }

    fn redacted(&self, redactor: &Redactor) -> Result<Value, serde_json::Error> {
        let original = serde_json::to_value(self)?;
        let mut value = original.clone();
        redactor.value(&mut value);
        for place in FIXED {
            if let (Some(word @ Value::String(_)), Some(redacted)) = (original.pointer(place), value.pointer_mut(place))
            {
                *redacted = word.clone();
            }
        }
        Ok(value)
    }
}

/// Takes out the texts at a place of [`QUOTING`]; one that is not there is none to take out.
fn withhold(value: &mut Value, place: &str) {
    if place.is_empty() {
        if value.is_string() {
            *value = WITHHELD.into();
        }
        return;
    }
    let (first, rest) = place.split_once('/').unwrap_or((place, ""));
    match value {
        Value::Array(items) if first == "*" => items.iter_mut().for_each(|item| withhold(item, rest)),
        Value::Object(map) => {
            if let Some(inner) = map.get_mut(first) {
                withhold(inner, rest);
            }
        }
        _ => {}
    }
}

/// The outcome of a session's report, as `report.json` in its folder.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReportRecord {
    /// The version of these fields.
    pub schema: u32,
    /// `<agent>.<n>`.
    pub run_id: String,
    /// UTC.
    pub at: String,
    /// What became of it.
    #[serde(flatten)]
    pub reported: Reported,
}

impl ReportRecord {
    /// The record of a report of that session.
    pub fn new(run_id: String, at: String, reported: Reported) -> Self {
        Self { schema: 1, run_id, at, reported }
    }

    /// Writes it into the session's folder, readable by the user only.
    pub fn write(&self, folder: &Path) -> Result<(), JsonError> {
        let path = folder.join("report.json");
        let text = serde_json::to_string_pretty(self);
        let mut text = text.map_err(|source| JsonError::Syntax { path: path.clone(), source })?;
        text.push('\n');
        if self.reported == Reported::default() {
            // It says no more than its absence would.
            return Ok(fs::replace_unsynced(&path, text.as_bytes(), 0o600)?);
        }
        Ok(fs::replace_private(&path, text.as_bytes())?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::agents::FaultKind;
    use crate::session::Ended;
    use serde_json::json;

    /// A record of schema 2, as an earlier version wrote it.
    fn old() -> Value {
        json!({
            "schema": 2, "run_id": "auto-qa-000102030405.1", "agent": "auto-qa-000102030405", "session": 1,
            "task": "S00-001", "role": "qa", "action": "review", "status": "finished", "started_at": "2026-01-01T00:00:00Z",
            "argv": ["agent"], "prompt_characters": 1, "prompt_parts": [],
        })
    }

    #[test]
    fn an_older_record_reads_as_unknown() {
        let record: RunRecord = serde_json::from_value(old()).unwrap();
        assert_eq!(record.teardown, Teardown::default());
        assert_eq!(record.teardown.cleanup, Attempt::Unknown);
        assert_eq!(record.teardown.destruction, Attempt::Unknown);
        assert_eq!((record.outcome, record.failed_stage), (Outcome::Unknown, None));
        assert_eq!((record.dialect, record.tokens, record.cost), (None, Tokens::default(), Cost::UNKNOWN));
    }

    #[test]
    fn a_secret_that_is_a_word_of_the_record_does_not_make_it_unreadable() {
        let mut record: RunRecord = serde_json::from_value(old()).unwrap();
        record.execution = Some(ExecutionResult::without_process(Ended::Interrupted, None));
        record.argv.push("finished".to_owned());
        record.dialect = Some(Dialect::Opencode);
        record.agent_fault = Some(AgentFault {
            kind: FaultKind::Limit { retry_at: Some(jiff::Timestamp::UNIX_EPOCH) },
            text: String::new(),
        });
        let words =
            ["finished", "interrupted", "auto-qa-000102030405", "succeeded", "opencode", "1970-01-01T00:00:00Z"];
        let named = words.map(|word| ("A_KEY".into(), word.into()));
        let redactor = Redactor::new(named.iter().map(|(name, value)| (name, value)), |_| false);
        let folder = tempfile::tempdir().unwrap();
        record.write(folder.path(), &redactor).unwrap();
        let read = RunRecord::read(folder.path()).unwrap().unwrap();
        assert_eq!((read.agent, read.status), (record.agent, record.status));
        assert_eq!((read.dialect, read.agent_fault), (record.dialect, record.agent_fault));
        assert_eq!(read.argv, ["agent", REDACTED]);
    }

    #[test]
    fn a_newer_record_is_left_alone() {
        let folder = tempfile::tempdir().unwrap();
        let mut newer = old();
        newer["schema"] = json!(RECORD_SCHEMA + 1);
        fs::replace(&folder.path().join("run.json"), newer.to_string().as_bytes()).unwrap();
        assert_eq!(RunRecord::read(folder.path()).unwrap(), None);
    }

    #[test]
    fn neither_record_nor_report_holds_a_secret_and_the_report_quotes_nothing() {
        let mut record: RunRecord = serde_json::from_value(old()).unwrap();
        record.argv.push("--key=hunter2hunter2".to_owned());
        record.commit_error = Some("hook said hunter2hunter2".to_owned());
        record.result = Some(json!({"verdict": "escalated", "reason": "it printed: no login for hunter2hunter2"}));
        record.teardown.destroyed(Err("still there: hunter2hunter2".to_owned()));
        let ended = Ended::CouldNotStart { reason: "no hunter2hunter2".to_owned() };
        record.execution = Some(ExecutionResult::without_process(ended, None));
        record.agent_fault = Some(AgentFault { kind: FaultKind::Other, text: "refused: hunter2hunter2".to_owned() });
        let (name, value) = ("A_KEY".into(), "hunter2hunter2".into());
        let redactor = Redactor::new([(&name, &value)], |_| false);
        let folder = tempfile::tempdir().unwrap();
        record.write(folder.path(), &redactor).unwrap();
        let written = String::from_utf8(fs::read(&folder.path().join("run.json")).unwrap()).unwrap();
        assert!(!written.contains("hunter2") && written.contains("it printed: no login for [redacted]"), "{written}");
        let report = String::from_utf8(record.for_report(&redactor)).unwrap();
        assert!(
            !report.contains("hunter2") && !report.contains("hook said") && !report.contains("printed"),
            "{report}"
        );
        assert!(!report.contains("refused:") && report.contains("\"kind\":\"other\""), "{report}");
        assert!(!report.contains("still there") && report.contains("escalated"), "{report}");
    }

    #[test]
    fn a_report_withholds_every_text_that_may_quote_an_error_and_keeps_what_is_said_beside_it() {
        let command = |argv: &str, failed| CommandRecord {
            argv: vec![argv.to_owned()],
            ended: "could not start: quoted words".to_owned(),
            failed,
            wall_ms: 7,
            log: "verify-1.log".to_owned(),
        };
        let mut record: RunRecord = serde_json::from_value(old()).unwrap();
        record.verification = Some(VerificationRecord {
            baseline: Some("c0ffee".to_owned()),
            before: vec![command("lint", Some(Failed::Old))],
            commands: vec![command("test", Some(Failed::New)), command("lint", Some(Failed::Old))],
            changed: vec!["a.txt (not put back: quoted words)".to_owned(), "b.txt".to_owned()],
            faults: vec!["quoted words".to_owned()],
        });
        record.findings = vec!["a cannot be read (quoted words)".to_owned()];
        record.kept = vec!["there is no patch of them: quoted words".to_owned()];
        let mut execution = ExecutionResult::without_process(Ended::Exited, None);
        execution.output.error = Some("quoted words".to_owned());
        record.execution = Some(execution);
        let report = record.for_report(&Redactor::default());
        let sent: Value = serde_json::from_slice(&report).unwrap();
        assert!(!sent.to_string().contains("quoted words"), "{sent:#}");
        let verification = &sent["verification"];
        assert_eq!(verification["commands"][0]["argv"], json!(["test"]));
        assert_eq!(verification["commands"][0]["ended"], WITHHELD);
        let failed: Vec<&Value> =
            ["commands", "before"].iter().map(|which| &verification[which][0]["failed"]).collect();
        assert_eq!(failed, [&json!("new"), &json!("old")]);
        assert_eq!(verification["changed"], json!([WITHHELD, WITHHELD]), "how many is told");
        assert_eq!(sent["execution"]["ended"], "exited");
    }
}
