//! How the end of a session went, kept apart from how its work went.
//!
//! Pure. Cleanup is what the coordinator made for a session (its temporary folder, scratch files) and what it takes back (what was
//! staged); destruction is that nothing of the process tree lives and that the workspace was given back. Both are attempted
//! whatever became of the other. Never decides what a failure means for the task.

use serde::{Deserialize, Serialize};

/// What became of one half of a teardown.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Attempt {
    /// The record is older than this field.
    #[default]
    Unknown,
    /// There was nothing to take down.
    NotAttempted,
    /// All of it is gone.
    Succeeded,
    /// Something of it is still there.
    Failed,
}

impl Attempt {
    /// This half after one more step of it.
    fn and(self, done: bool) -> Self {
        match (self, done) {
            (Self::Failed, _) | (_, false) => Self::Failed,
            (_, true) => Self::Succeeded,
        }
    }
}

/// The end of a session: what was taken down, and what could not be.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Teardown {
    /// What the coordinator had made for the session.
    #[serde(default)]
    pub cleanup: Attempt,
    /// The process tree and the workspace.
    #[serde(default)]
    pub destruction: Attempt,
    /// Why a half failed, one line each.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub faults: Vec<String>,
}

impl Teardown {
    /// A session for which nothing was made yet.
    pub fn not_attempted() -> Self {
        Self { cleanup: Attempt::NotAttempted, destruction: Attempt::NotAttempted, faults: Vec::new() }
    }

    /// Takes in one step of the cleanup.
    pub fn cleaned(&mut self, step: Result<(), String>) {
        self.cleanup = self.cleanup.and(step.is_ok());
        self.faults.extend(step.err());
    }

    /// Takes in one step of the destruction.
    pub fn destroyed(&mut self, step: Result<(), String>) {
        self.destruction = self.destruction.and(step.is_ok());
        self.faults.extend(step.err());
    }

    /// The stage a session failed in: an earlier failure keeps its own, a good session takes that of its teardown.
    pub fn failed_stage(&self, earlier: Option<FailedStage>) -> Option<FailedStage> {
        let late = match (self.destruction, self.cleanup) {
            (Attempt::Failed, _) => Some(FailedStage::Destruction),
            (_, Attempt::Failed) => Some(FailedStage::Cleanup),
            _ => None,
        };
        earlier.or(late)
    }
}

/// Where a session failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FailedStage {
    /// Its prompt could not be made.
    Prompt,
    /// Its process could not be started.
    Launch,
    /// Its process ended without a transition of the task: by itself, at a limit, or because the run was stopped.
    Execution,
    /// It changed what it must not.
    Judgement,
    /// Its commit could not be made.
    Commit,
    /// Something made for it could not be removed.
    Cleanup,
    /// Something of its process tree or workspace is left.
    Destruction,
}

/// What a session came to as a whole.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    /// The record is older than this field, or the session is not over.
    #[default]
    Unknown,
    /// The task went on as the agent said, and everything of the session is gone.
    Succeeded,
    /// Something failed; the record's `failed_stage` says where it did first.
    Failed,
}

impl Outcome {
    /// The outcome of a session that failed there, or nowhere.
    pub fn of(failed: Option<FailedStage>) -> Self {
        if failed.is_some() { Self::Failed } else { Self::Succeeded }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    type Step = Result<(), &'static str>;

    const GOOD: Step = Ok(());
    const BAD: Step = Err("it is busy");

    /// Steps of cleanup and destruction, the earlier failure; what the record says, and where the session failed.
    type Row = (&'static [Step], &'static [Step], Option<FailedStage>, (Attempt, Attempt), Option<FailedStage>);

    fn teardown(cleanup: &[Step], destruction: &[Step]) -> Teardown {
        let mut teardown = Teardown::not_attempted();
        for step in cleanup {
            teardown.cleaned(step.map_err(str::to_owned));
        }
        for step in destruction {
            teardown.destroyed(step.map_err(str::to_owned));
        }
        teardown
    }

    #[test]
    fn each_half_is_told_apart_and_an_earlier_failure_keeps_its_stage() {
        use Attempt::{Failed, NotAttempted, Succeeded};
        use FailedStage::{Cleanup, Destruction, Execution, Prompt};
        #[rustfmt::skip]
        let table: &[Row] = &[
            // cleanup,     destruction,  earlier failure, what the record says,         where the session failed
            (&[],           &[],          None,            (NotAttempted, NotAttempted), None),
            (&[],           &[],          Some(Prompt),    (NotAttempted, NotAttempted), Some(Prompt)),
            (&[GOOD],       &[],          Some(Execution), (Succeeded, NotAttempted),    Some(Execution)),
            (&[GOOD],       &[GOOD],      None,            (Succeeded, Succeeded),       None),
            (&[GOOD, GOOD], &[GOOD],      Some(Execution), (Succeeded, Succeeded),       Some(Execution)),
            (&[BAD],        &[GOOD],      None,            (Failed, Succeeded),          Some(Cleanup)),
            (&[BAD, GOOD],  &[GOOD],      None,            (Failed, Succeeded),          Some(Cleanup)),
            (&[GOOD, BAD],  &[GOOD],      Some(Execution), (Failed, Succeeded),          Some(Execution)),
            (&[GOOD],       &[BAD],       None,            (Succeeded, Failed),          Some(Destruction)),
            (&[GOOD],       &[BAD, GOOD], None,            (Succeeded, Failed),          Some(Destruction)),
            (&[BAD],        &[BAD],       None,            (Failed, Failed),             Some(Destruction)),
            (&[BAD],        &[BAD],       Some(Execution), (Failed, Failed),             Some(Execution)),
        ];
        for (cleanup, destruction, earlier, attempts, failed) in table {
            let made = teardown(cleanup, destruction);
            assert_eq!((made.cleanup, made.destruction), *attempts, "{cleanup:?} {destruction:?}");
            assert_eq!(made.failed_stage(*earlier), *failed, "{cleanup:?} {destruction:?} {earlier:?}");
            let faults = cleanup.iter().chain(*destruction).filter(|step| step.is_err()).count();
            assert_eq!(made.faults.len(), faults, "no failure is hidden");
        }
    }

    #[test]
    fn a_record_without_the_fields_reads_as_unknown() {
        let read: Teardown = serde_json::from_str("{}").unwrap();
        assert_eq!(read, Teardown::default());
        assert_eq!((read.cleanup, read.destruction), (Attempt::Unknown, Attempt::Unknown));
        let written = serde_json::to_string(&Teardown::not_attempted()).unwrap();
        assert_eq!(written, r#"{"cleanup":"not_attempted","destruction":"not_attempted"}"#);
    }
}
