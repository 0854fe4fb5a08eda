//! `runner task …`: the verbs of agents and people.

mod ending;
mod people;
mod reading;
mod text;
mod who;

use clap::{Args, Subcommand};
use serde_json::{Value, json};

use crate::clock::Clock;
use crate::coordinator::failure::Failure;
use crate::coordinator::people::PersonChange;
use crate::coordinator::people_commit::PeopleCommit;
use crate::coordinator::prepare::Host;
use crate::ids::TaskId;
use crate::project::Project;
use crate::report;
use crate::tracker::desk::{Changed, Desk};

use super::{COMMON, Place, host};
use text::{bounded, text_of};

/// A verb and how to answer.
#[derive(Debug, Args)]
pub(super) struct TaskArgs {
    /// Answer with one JSON object
    #[arg(long, global = true, help_heading = COMMON)]
    json: bool,
    /// Act as this person; otherwise the session's agent, or the user at a terminal
    #[arg(long = "as", value_name = "NAME", global = true, help_heading = COMMON)]
    person: Option<String>,
    /// Commit what the verb changed at once (people only)
    #[arg(long, global = true, help_heading = COMMON)]
    commit: bool,
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Debug, Subcommand)]
enum Verb {
    /// Show a task: its card and its state; in a session the whole prompt
    Show {
        /// The task; in a session its own
        id: Option<String>,
    },
    /// Hand the work in for review
    Submit {
        /// The task; in a session its own
        id: Option<String>,
        #[command(flatten)]
        message: MessageArgs,
        /// A file with what was checked and how, or - for standard input
        #[arg(long, value_name = "FILE")]
        evidence: Option<String>,
        /// Why nothing had to be changed
        #[arg(long, value_name = "WHY")]
        no_change: Option<String>,
    },
    /// Accept the work (reviewer)
    Approve {
        /// The task; in a session its own
        id: Option<String>,
        #[command(flatten)]
        message: MessageArgs,
        /// A file with what was checked and how, or - for standard input
        #[arg(long, value_name = "FILE")]
        evidence: Option<String>,
    },
    /// Send the work back (reviewer)
    Reject {
        /// The task; in a session its own
        id: Option<String>,
        #[command(flatten)]
        message: MessageArgs,
        /// What has to change
        #[arg(long, value_name = "TEXT", conflicts_with = "reason_file", required_unless_present = "reason_file")]
        reason: Option<String>,
        /// A file with what has to change, or - for standard input
        #[arg(long, value_name = "FILE")]
        reason_file: Option<String>,
    },
    /// Name one blocker that has to go first
    Escalate {
        /// The task; in a session its own
        id: Option<String>,
        /// A JSON object with at least `title` and `reason` (docs/agents.md), or - for standard input
        #[arg(long, value_name = "FILE")]
        issue: String,
    },
    /// Take a task by hand, to do it or to review it
    Claim {
        /// The task
        id: String,
        /// Your name
        #[arg(long, value_name = "NAME")]
        agent: String,
        /// The role you act in
        #[arg(long)]
        role: String,
    },
    /// Give a claim back, so that the task can be claimed again
    Release {
        /// The task
        id: String,
    },
    /// Answer a task that waits for a person; the words become its handoff
    Answer {
        /// The task
        id: String,
        /// The answer
        #[arg(long)]
        text: String,
    },
    /// Add a task card to the plan, checked with the rest of it
    Add {
        /// The card, or - for standard input
        #[arg(long, value_name = "FILE")]
        card: String,
    },
    /// Show where every task stands and what it waits for
    List,
    /// Show what would run next
    Next,
}

/// The commit message, instead of a message file.
#[derive(Debug, Clone, Default, Args)]
struct MessageArgs {
    /// The commit's subject: imperative English, 15 to 100 characters
    #[arg(long, value_name = "S", requires_all = ["changes", "validation"])]
    subject: Option<String>,
    /// What changed
    #[arg(long, value_name = "C", requires = "subject")]
    changes: Option<String>,
    /// How it was checked
    #[arg(long, value_name = "V", requires = "subject")]
    validation: Option<String>,
}

/// Everything a verb works with.
struct Bench<'a> {
    project: &'a Project,
    desk: Desk<'a>,
    place: &'a Place,
    host: &'a Host,
    args: &'a TaskArgs,
}

/// What a verb answers, and what a commit of its change would say.
struct Said {
    value: Value,
    words: String,
    record: Option<Record>,
}

/// How a change is to be committed.
struct Record {
    subject: String,
    /// A file that the change refers to, which may have been there before.
    named: Option<String>,
}

impl Said {
    /// An answer about nothing that could be committed.
    fn only(value: Value, words: String) -> Self {
        Self { value, words, record: None }
    }

    /// The same about a change that was made.
    fn recorded(self, subject: String, named: Option<String>) -> Self {
        Self { record: Some(Record { subject, named }), ..self }
    }
}

/// Carries out a verb and answers.
pub(super) fn run(place: &Place, args: &TaskArgs, from: &Host) -> u8 {
    match answer(place, args, from) {
        Ok(Said { value, words, .. }) => {
            if args.json {
                report::json(&value);
            } else {
                report::line(&words);
            }
            0
        }
        Err(failure) => {
            report::refusal(&failure.reason(), args.json);
            failure.exit_code()
        }
    }
}

fn answer(place: &Place, args: &TaskArgs, from: &Host) -> Result<Said, Failure> {
    let inherited = from.variable("RUNNER_STATE_ROOT");
    let project = host::project(place, inherited)?;
    let bench = Bench { project: &project, desk: Desk::new(&project, Clock::system()), place, host: from, args };
    if !args.commit || host::is_in_session(from) {
        return bench.carry_out();
    }
    let config = host::config_or_default(&host::config_path(place, &project))?;
    let commit = PeopleCommit::begin(&project, &config, from)?;
    let mut said = bench.carry_out()?;
    if let (Some(commit), Some(record)) = (commit, &said.record)
        && !commit.make(&record.subject, record.named.as_deref())?
    {
        said.words.push_str("; a run has begun meanwhile, and its next commit holds it");
    }
    Ok(said)
}

impl Bench<'_> {
    fn carry_out(&self) -> Result<Said, Failure> {
        match &self.args.verb {
            Verb::Show { id } => self.show(id.as_deref()),
            Verb::List => self.list(),
            Verb::Next => self.next(),
            Verb::Claim { id, agent, role } => self.claim(id, agent, role),
            Verb::Release { id } => {
                self.person_change(&PersonChange::Release { task: parse(id)?, name: self.person()? })
            }
            Verb::Answer { id, text } => {
                bounded("the answer", text)?;
                let (task, name) = (parse(id)?, self.somebody()?);
                self.person_change(&PersonChange::Answer { task, name, text: text.clone() })
            }
            Verb::Add { card } => {
                self.person_change(&PersonChange::Add { name: self.somebody()?, card: text_of(card)? })
            }
            verb => self.session_verb(verb),
        }
    }

    /// The task a verb is about: the one given, else the session's.
    fn task(&self, id: Option<&str>) -> Result<TaskId, Failure> {
        match id.map(str::to_owned).or_else(|| self.environment("RUNNER_TASK_ID")) {
            Some(id) => parse(&id),
            None => Err(Failure::Usage {
                what: "name the task, for example `runner task show S00-001`: this is no session, which has one"
                    .to_owned(),
            }),
        }
    }

    fn environment(&self, name: &str) -> Option<String> {
        self.host.variable(name).and_then(|value| value.to_str()).map(str::to_owned)
    }
}

fn parse<T: std::str::FromStr<Err = crate::ids::BadName>>(text: &str) -> Result<T, Failure> {
    text.parse().map_err(|error: crate::ids::BadName| Failure::Usage { what: error.to_string() })
}

fn said(task: &TaskId, changed: &Changed) -> Said {
    let moved = Some(format!("{task}: {} → {}", changed.from, changed.row.status));
    let remedy = changed.remediation.as_ref().map(|id| format!("{id} will remove the blocker"));
    let freed = changed.unblocked.as_ref().map(|id| format!("{id} can go on"));
    let words = [moved, remedy, freed].into_iter().flatten().collect::<Vec<_>>().join("; ");
    let value = json!({
        "task": task, "from": changed.from, "status": changed.row.status,
        "remediation": changed.remediation, "unblocked": changed.unblocked,
    });
    Said::only(value, words)
}
