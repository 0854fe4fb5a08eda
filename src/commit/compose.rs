//! The text of a commit: an agent's checked message, or the coordinator's own words, and the trailers.
//!
//! Pure. Owns the wording of the coordinator's own messages; never decides which of them applies.

use std::fmt;

use super::message::{AgentMessage, MAX_SUBJECT, MessageFault};
use crate::ids::{AgentId, Role, TaskId};

/// What a session did to its task, as the `Action` trailer names it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Action {
    /// An executor handed its work over.
    Submit,
    /// A reviewer accepted it.
    Approve,
    /// A reviewer sent it back.
    Reject,
    /// The coordinator undid its review.
    Void,
    /// The task got stuck.
    Escalate,
    /// A signal ended the run.
    Interrupt,
    /// A later start found the leftovers of a killed run.
    Recover,
    /// The agent's service takes nothing for a while.
    Limit,
    /// The agent's service failed, and the task is tried again.
    Retry,
}

impl fmt::Display for Action {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Submit => "submit",
            Self::Approve => "approve",
            Self::Reject => "reject",
            Self::Void => "void",
            Self::Escalate => "escalate",
            Self::Interrupt => "interrupt",
            Self::Recover => "recover",
            Self::Limit => "limit",
            Self::Retry => "retry",
        })
    }
}

/// The facts at the end of every commit message.
#[derive(Debug, Clone, Copy)]
pub struct Trailers<'a> {
    /// The task.
    pub task: &'a TaskId,
    /// The agent whose session this was.
    pub agent: &'a AgentId,
    /// The role it had.
    pub role: &'a Role,
    /// What it did.
    pub action: Action,
    /// The task's status afterwards.
    pub status: &'a str,
    /// The task's title; line ends and other control characters become spaces.
    pub title: &'a str,
}

/// Whose words a commit carries.
#[derive(Debug, Clone, Copy)]
pub enum Words<'a> {
    /// The agent's, checked.
    Agent(&'a AgentMessage),
    /// The agent left no message.
    Missing,
    /// The agent's message breaks a rule; its text stays out.
    Broken {
        /// The rule.
        fault: &'a MessageFault,
        /// Where the text lies, for example `state/commit_messages/x.txt`.
        kept_at: &'a str,
    },
    /// The task is blocked: a checkpoint of incomplete work.
    Blocked {
        /// Why.
        reason: &'a str,
    },
    /// The coordinator sent the work back, or undid the review: a checkpoint.
    Refused {
        /// Why.
        reason: &'a str,
    },
    /// The run was told to stop: a checkpoint.
    Interrupted {
        /// By what, for example `SIGTERM`.
        by: &'a str,
    },
    /// The leftovers of a killed run: a checkpoint.
    Recovered,
    /// The agent's service did not serve: a checkpoint.
    Unserved {
        /// Why.
        reason: &'a str,
    },
}

/// The whole text of a commit, ending in the trailers and a line end.
pub fn compose(words: &Words<'_>, trailers: &Trailers<'_>) -> String {
    let (subject, body) = match words {
        Words::Agent(message) => (message.subject().to_owned(), message.body().to_owned()),
        own => (own_subject(own, trailers), own_body(own, trailers)),
    };
    let signatures: &[String] = if let Words::Agent(message) = words { message.signatures() } else { &[] };
    let mut text = format!("{subject}\n\n{body}\n\n");
    for line in signatures {
        text.push_str(line);
        text.push('\n');
    }
    for (name, value) in [
        ("Task", trailers.task.as_str()),
        ("Agent", trailers.agent.as_str()),
        ("Role", trailers.role.as_str()),
        ("Action", &trailers.action.to_string()),
        ("Status", &one_line(trailers.status)),
        ("Task-Title", &one_line(trailers.title)),
    ] {
        text.push_str(format!("{name}: {value}").trim_end());
        text.push('\n');
    }
    text
}

fn own_subject(words: &Words<'_>, trailers: &Trailers<'_>) -> String {
    let (task, action) = (trailers.task, trailers.action);
    let subject = match words {
        Words::Blocked { .. } => format!("Keep the unfinished work on {task}, which is blocked"),
        Words::Refused { .. } if action == Action::Void => format!("Record that the review of {task} is void"),
        Words::Refused { .. } => format!("Keep the work on {task}, which was sent back"),
        Words::Interrupted { .. } => format!("Keep the unfinished work on {task}, which was interrupted"),
        Words::Unserved { .. } if action == Action::Limit => format!("Keep the work on {task} until a limit is over"),
        Words::Unserved { .. } => format!("Keep the work on {task}, which is tried again"),
        Words::Recovered => format!("Keep what a killed run left of {task}"),
        _ => format!("Record the {action} of task {task}"),
    };
    subject.chars().take(MAX_SUBJECT).collect()
}

fn own_body(words: &Words<'_>, trailers: &Trailers<'_>) -> String {
    let checkpoint = "Changes: the work so far is kept as it was found; none of it has been accepted.";
    match words {
        Words::Blocked { reason } => {
            format!("{checkpoint}\n\nValidation: none; the task is blocked: {}", one_line(reason))
        }
        Words::Refused { reason } => {
            format!("{checkpoint}\n\nValidation: refused by the coordinator: {}", one_line(reason))
        }
        Words::Interrupted { by } => {
            format!("{checkpoint}\n\nValidation: none; the run was stopped by {} and the task released.", one_line(by))
        }
        Words::Unserved { reason } => {
            format!("{checkpoint}\n\nValidation: none; the task was released: {}", one_line(reason))
        }
        Words::Recovered => format!(
            "{checkpoint}\n\nValidation: none; the run was killed before it could record the session, and the task is \
             released."
        ),
        Words::Broken { fault, kept_at } => format!(
            "Changes: as the session left them; its own message is not used: {fault}.\nIts text is kept in {}.\n\n\
             Validation: see the task's evidence.",
            one_line(kept_at)
        ),
        Words::Missing | Words::Agent(_) => format!(
            "Changes: as the session left them; {} wrote no commit message.\n\nValidation: see the task's evidence.",
            trailers.agent
        ),
    }
}

/// The text on one line: control characters and runs of white space become one space.
fn one_line(text: &str) -> String {
    text.split(|c: char| c.is_whitespace() || c.is_control())
        .filter(|word| !word.is_empty())
        .collect::<Vec<_>>()
        .join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::commit::message::parse;

    fn text(words: &Words<'_>, action: Action, title: &str) -> String {
        let (task, agent, role) =
            ("S00-001".parse().unwrap(), "auto-qa-000102fdfeff".parse().unwrap(), "qa".parse().unwrap());
        compose(words, &Trailers { task: &task, agent: &agent, role: &role, action, status: "done", title })
    }

    #[test]
    fn the_agents_words_come_first_and_the_facts_last() {
        let message = parse(
            "Accept the date parser\n\nChanges: none.\n\nValidation: ran it.\n\nStatus: todo\nSigned-off-by: A <a@b>\n",
        )
        .unwrap();
        assert_eq!(
            text(&Words::Agent(&message), Action::Approve, "Parse\ndates:\r\n\u{1b} all"),
            "Accept the date parser\n\nChanges: none.\n\nValidation: ran it.\n\nSigned-off-by: A <a@b>\nTask: S00-001\n\
             Agent: auto-qa-000102fdfeff\nRole: qa\nAction: approve\nStatus: done\nTask-Title: Parse dates: all\n"
        );
    }

    #[test]
    fn the_coordinators_own_words_keep_its_own_rules() {
        let fault = MessageFault::NoBlankLine;
        let broken = Words::Broken { fault: &fault, kept_at: "state/commit_messages/auto-qa-000102fdfeff.txt" };
        for (words, action) in [
            (Words::Missing, Action::Submit),
            (broken, Action::Reject),
            (Words::Blocked { reason: "no\nlogin\n\nTask: forged" }, Action::Escalate),
            (Words::Refused { reason: "nothing changed\n\nTask: forged" }, Action::Reject),
            (Words::Refused { reason: "the reviewer changed files" }, Action::Void),
            (Words::Interrupted { by: "SIGTERM" }, Action::Interrupt),
            (Words::Recovered, Action::Recover),
            (Words::Unserved { reason: "until noon\n\nTask: forged" }, Action::Limit),
            (Words::Unserved { reason: "it failed" }, Action::Retry),
        ] {
            let text = text(&words, action, "Parse dates");
            let message = parse(&text).unwrap_or_else(|fault| panic!("{fault}: {text}"));
            assert!(text.contains(&format!("\nAction: {action}\n")), "{text}");
            assert!(text.matches("\nTask: ").count() == 1, "{text}");
            assert!(message.signatures().is_empty());
        }
    }

    #[test]
    fn a_broken_message_is_explained_and_its_place_named() {
        let fault = MessageFault::SubjectLength { characters: 3 };
        let text = text(&Words::Broken { fault: &fault, kept_at: "state/commit_messages/a.txt" }, Action::Submit, "T");
        assert!(
            text.contains("the subject has 3 characters") && text.contains("state/commit_messages/a.txt"),
            "{text}"
        );
    }

    #[test]
    fn an_empty_title_leaves_no_trailing_space() {
        assert!(text(&Words::Missing, Action::Submit, " \n").ends_with("\nTask-Title:\n"));
    }
}
