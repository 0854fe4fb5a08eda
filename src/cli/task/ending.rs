//! The verbs that end a session: `submit`, `approve`, `reject`, `escalate`.

use std::path::{Path, PathBuf};

use crate::commit::AgentMessage;
use crate::coordinator::declared;
use crate::coordinator::failure::Failure;
use crate::fs;
use crate::ids::TaskId;
use crate::plan::Work;
use crate::tracker::desk::{Caller, Changed, handoff_path};
use crate::tracker::remediation::Issue;
use crate::tracker::rules::Step;
use crate::tracker::store::Batch;
use crate::verdict::NOTHING_CHANGED;

use super::super::host;
use super::text::{bounded, text_of};
use super::{Bench, MessageArgs, Said, Verb, said};

impl Bench<'_> {
    /// A verb that ends a session, by its agent or by a person.
    pub(super) fn session_verb(&self, verb: &Verb) -> Result<Said, Failure> {
        let (id, message) = match verb {
            Verb::Submit { id, message, .. } | Verb::Approve { id, message, .. } | Verb::Reject { id, message, .. } => {
                (id, message.clone())
            }
            Verb::Escalate { id, .. } => (id, MessageArgs::default()),
            _ => return Err(Failure::Usage { what: "this verb ends no session".to_owned() }),
        };
        let task = self.task(id.as_deref())?;
        let (caller, _no_run_meanwhile) = self.caller()?;
        let message = checked_message(&message)?;
        if matches!(verb, Verb::Submit { no_change: None, .. }) && caller.token.is_some() {
            self.refuse_nothing(&task)?;
        }
        let evidence = match verb {
            Verb::Submit { evidence, .. } | Verb::Approve { evidence, .. } => {
                self.evidence(evidence.as_deref(), &caller, &task)?
            }
            _ => None,
        };
        let named = evidence.clone();
        if let Some(message) = message {
            // Before the transition: the coordinator may look as soon as that is made.
            let path = self.project.root().join(format!("state/commit_messages/{}.txt", caller.name));
            fs::replace(&path, message.to_text().as_bytes())?;
        }
        let changed = match verb {
            Verb::Submit { no_change, .. } => self.desk.change(&task, &caller, |_| {
                Ok((Step::Submit { evidence, no_change: no_change.clone() }, Batch::default()))
            })?,
            Verb::Approve { .. } => {
                self.desk.change(&task, &caller, |_| Ok((Step::Approve { evidence }, Batch::default())))?
            }
            Verb::Reject { reason, reason_file, .. } => {
                let reason = match (reason, reason_file) {
                    (Some(reason), _) => reason.clone(),
                    (None, Some(file)) => text_of(file)?,
                    (None, None) => String::new(),
                };
                self.reject(&task, &caller, &reason)?
            }
            Verb::Escalate { issue, .. } => {
                let text = text_of(issue)?;
                bounded("the issue", &text)?;
                self.desk.escalate(&task, &caller, &Issue::parse(text.as_bytes())?)?
            }
            _ => return Err(Failure::Usage { what: "this verb ends no session".to_owned() }),
        };
        let subject = format!("Record {} of {task} by hand", changed.row.status);
        Ok(said(&task, &changed).recorded(subject, named))
    }

    /// Refuses a session's submit when nothing in its scope was changed. Where that cannot be told, the coordinator finds out.
    fn refuse_nothing(&self, task: &TaskId) -> Result<(), Failure> {
        let card = self.desk.card(task)?;
        let row = self.desk.store().read_row(&card.stage, task)?;
        let Some(claim) = row.claim.filter(|claim| claim.work == Work::Claim) else { return Ok(()) };
        let workspace = self.host.variable("RUNNER_PROJECT_ROOT").map_or(self.project.root(), Path::new);
        match declared::changes_scope(workspace, self.host, &claim.scope) {
            Some(false) => Err(Failure::Usage { what: format!("{task} cannot be submitted: {NOTHING_CHANGED}") }),
            Some(true) | None => Ok(()),
        }
    }

    fn reject(&self, task: &TaskId, caller: &Caller, reason: &str) -> Result<Changed, Failure> {
        bounded("the reason", reason)?;
        let handoff = handoff_path(&caller.name, task);
        let report = format!("# {task} was rejected\n\nReviewer: {}\n\n{}\n", caller.name, reason.trim_end());
        Ok(self.desk.change(task, caller, |_| {
            let step = Step::Reject { reason: reason.trim().to_owned(), handoff: handoff.clone() };
            Ok((step, Batch::default().text(&handoff, &report)))
        })?)
    }

    /// The root-relative path of the evidence; standard input becomes a file named for the agent.
    fn evidence(&self, given: Option<&str>, caller: &Caller, task: &TaskId) -> Result<Option<String>, Failure> {
        let Some(given) = given else { return Ok(None) };
        if given == "-" {
            let path = format!("state/evidence/{}-{task}.md", caller.name);
            let text = text_of("-")?;
            bounded("the evidence", &text)?;
            fs::replace(&self.project.root().join(&path), text.as_bytes())?;
            return Ok(Some(path));
        }
        let wrong = |why: &str| Failure::Usage {
            what: format!("the evidence {given} {why}; name a file below the project's root, or - for standard input"),
        };
        let from_here = host::start_folder()?.join(given);
        // A session may work in a tree of its own, which lies inside the root: what it names there is named from that tree.
        let workspace = self.environment("RUNNER_PROJECT_ROOT").and_then(|path| Path::new(&path).canonicalize().ok());
        let tops: Vec<PathBuf> = workspace.into_iter().chain([self.project.root().to_owned()]).collect();
        let mut candidates = std::iter::once(from_here).chain(tops.iter().map(|top| top.join(given)));
        let found = candidates.find_map(|path| path.canonicalize().ok()).ok_or_else(|| wrong("does not exist"))?;
        let inside = tops.iter().find_map(|top| found.strip_prefix(top).ok());
        let inside = inside.ok_or_else(|| wrong("lies outside the project"))?;
        if !found.is_file() {
            return Err(wrong("is no regular file"));
        }
        bounded(given, &text_of(&found.to_string_lossy())?)?;
        inside.to_str().map(|path| Some(path.to_owned())).ok_or_else(|| wrong("has a name that is not UTF-8"))
    }
}

fn checked_message(args: &MessageArgs) -> Result<Option<AgentMessage>, Failure> {
    let (Some(subject), Some(changes), Some(validation)) = (&args.subject, &args.changes, &args.validation) else {
        return Ok(None);
    };
    AgentMessage::from_flags(subject, changes, validation)
        .map(Some)
        .map_err(|fault| Failure::Usage { what: format!("the commit message cannot be used: {fault}") })
}
