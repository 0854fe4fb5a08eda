//! `runner task …`: the verbs of agents and people.

use std::io::{IsTerminal, Read};
use std::path::{Path, PathBuf};

use clap::{Args, Subcommand};
use serde_json::{Value, json};

use crate::clock::Clock;
use crate::commit::AgentMessage;
use crate::coordinator::failure::Failure;
use crate::coordinator::people::{self, Handled, PersonChange};
use crate::coordinator::prepare::Host;
use crate::coordinator::{holder, people_commit};
use crate::ids::{AgentId, Role, TaskId};
use crate::lock::Lock;
use crate::plan::{Plan, Work};
use crate::project::Project;
use crate::tracker::desk::{Caller, Changed, Desk, handoff_path};
use crate::tracker::proof::Token;
use crate::tracker::ready::{self, Gates, Part};
use crate::tracker::remediation::Issue;
use crate::tracker::row::{Claim, Status};
use crate::tracker::rules::Step;
use crate::tracker::store::Batch;
use crate::{fs, report};

use super::{COMMON, Place, host};

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

/// Carries out a verb and answers.
pub(super) fn run(place: &Place, args: &TaskArgs, from: &Host) -> u8 {
    match answer(place, args, from) {
        Ok((value, words)) => {
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

fn answer(place: &Place, args: &TaskArgs, from: &Host) -> Result<(Value, String), Failure> {
    let inherited = from.variable("RUNNER_STATE_ROOT");
    let project = host::project(place, inherited)?;
    let bench = Bench { project: &project, desk: Desk::new(&project, Clock::system()), place, host: from, args };
    match &args.verb {
        Verb::Show { id } => bench.show(id.as_deref()),
        Verb::List => bench.list(),
        Verb::Next => bench.next(),
        Verb::Claim { id, agent, role } => bench.claim(id, agent, role),
        Verb::Release { id } => {
            let change = PersonChange::Release { task: parse(id)?, name: bench.person()? };
            bench.person_change(&change)
        }
        Verb::Answer { id, text } => {
            bounded("the answer", text)?;
            let change = PersonChange::Answer { task: parse(id)?, name: bench.somebody()?, text: text.clone() };
            bench.person_change(&change)
        }
        Verb::Add { card } => {
            let change = PersonChange::Add { name: bench.somebody()?, card: text_of(card)? };
            bench.person_change(&change)
        }
        verb => bench.session_verb(verb),
    }
}

impl Bench<'_> {
    /// A verb that ends a session, by its agent or by a person.
    fn session_verb(&self, verb: &Verb) -> Result<(Value, String), Failure> {
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
        let evidence = match verb {
            Verb::Submit { evidence, .. } | Verb::Approve { evidence, .. } => {
                self.evidence(evidence.as_deref(), &caller, &task)?
            }
            _ => None,
        };
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
        self.commit_if_asked(&format!("Record {} of {task} by hand", changed.row.status))?;
        Ok(said(&task, &changed))
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

    fn person_change(&self, change: &PersonChange) -> Result<(Value, String), Failure> {
        match people::handle(&self.desk, change, &self.desk.stamp())? {
            Handled::Done(what) => {
                self.commit_if_asked(&format!("Apply by hand: {what}"))?;
                Ok((json!({ "done": what }), what))
            }
            Handled::Queued(path) => {
                let words = format!(
                    "a run is on: this is queued and applied when the current session has ended ({})",
                    path.display()
                );
                Ok((json!({ "queued": path }), words))
            }
        }
    }

    fn claim(&self, id: &str, agent: &str, role: &str) -> Result<(Value, String), Failure> {
        let (task, agent, role): (TaskId, AgentId, Role) = (parse(id)?, parse(agent)?, parse(role)?);
        self.refuse_in_session()?;
        let _no_run_meanwhile = self.refuse_during_run()?;
        refuse_automatic(&agent)?;
        let plan = Plan::load(self.project)?;
        let board = self.desk.store().read(&plan)?;
        let card = self.desk.card(&task)?;
        let work = if board.row(&task).status == Status::Review { Work::Review } else { Work::Claim };
        let wanted = if work == Work::Review { &card.reviewer_role } else { &card.role };
        if role != *wanted {
            return Err(Failure::Usage { what: format!("{task} needs the role {wanted} now, not {role}") });
        }
        let config = host::config_or_default(&host::config_path(self.place, self.project))?;
        let gates = Gates::new(&plan, &board);
        if let Some(stage) = gates.stages(&card).next() {
            return Err(Failure::Usage {
                what: format!("{task} waits for stage {stage}; its tasks have to be done first"),
            });
        }
        let waiting_for = gates.dependencies(&card);
        let claim = Claim {
            agent: agent.clone(),
            work,
            session: 0,
            scope: if work == Work::Claim { card.scope.clone() } else { Vec::new() },
            head: None,
            remediation_left: config.max_remediation_depth.saturating_sub(plan.depth(&task)),
            token_hash: None,
            pid: None,
            boot_id: None,
            start_time: None,
        };
        let caller = Caller { name: agent, token: None };
        let changed = self
            .desk
            .change(&task, &caller, |_| Ok((Step::Claim { claim, waiting_for: &waiting_for }, Batch::default())))?;
        self.commit_if_asked(&format!("Claim {task} by hand"))?;
        Ok(said(&task, &changed))
    }

    fn show(&self, id: Option<&str>) -> Result<(Value, String), Failure> {
        let task = self.task(id)?;
        let card = self.desk.card(&task)?;
        let row = self.desk.store().read_row(&card.stage, &task)?;
        let value = json!({
            "card": serde_json::from_str::<Value>(&card.to_json()).unwrap_or_default(), "row": row,
        });
        if let Some(prompt) = self
            .host
            .variable("RUNNER_PROMPT_FILE")
            .filter(|_| self.environment("RUNNER_TASK_ID") == Some(task.to_string()))
        {
            let text = fs::read(Path::new(prompt))?;
            return Ok((value, String::from_utf8_lossy(&text).into_owned()));
        }
        let words = format!("{}\n{}", card.to_json(), row.to_json());
        Ok((value, words))
    }

    fn list(&self) -> Result<(Value, String), Failure> {
        let plan = Plan::load(self.project)?;
        let board = self.desk.store().read(&plan)?;
        let outlook = ready::outlook(&plan, &board, &Part::Everything);
        let mut lines = Vec::new();
        let mut values = Vec::new();
        for card in plan.tasks() {
            let row = board.row(&card.id);
            let why =
                [&outlook.external, &outlook.unsatisfiable, &outlook.waiting].iter().find_map(|map| map.get(&card.id));
            let first = why.and_then(|why| why.lines().next()).unwrap_or_default();
            lines.push(format!(
                "{:<14} {:<12} {}{}",
                card.id.as_str(),
                row.status.as_str(),
                card.title,
                if first.is_empty() { String::new() } else { format!("  [{first}]") }
            ));
            values.push(json!({
                "id": card.id, "status": row.status, "title": card.title, "external_wait": row.external_wait, "waits": why,
            }));
        }
        Ok((json!({ "tasks": values, "revision": board.revision() }), lines.join("\n")))
    }

    fn next(&self) -> Result<(Value, String), Failure> {
        let plan = Plan::load(self.project)?;
        let board = self.desk.store().read(&plan)?;
        match ready::ready(&plan, &board, &Part::Everything).first() {
            Some(next) => {
                let words = format!("{} ({}, {})", next.id, crate::coordinator::prepare::action(next.work), next.role);
                Ok((json!({ "next": next }), words))
            }
            None => Ok((json!({ "next": null }), "nothing is ready".to_owned())),
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

    /// Who asks: the person named, the session's agent, or the user at a terminal.
    fn caller(&self) -> Result<(Caller, Option<Lock>), Failure> {
        if self.args.person.is_none()
            && let Some(agent) = self.environment("RUNNER_AGENT_ID")
        {
            let token = self.environment("RUNNER_TOKEN").map(|text| Token::from_text(&text));
            return Ok((Caller { name: parse(&agent)?, token }, None));
        }
        let name = self.person()?;
        let no_run_meanwhile = self.refuse_during_run()?;
        Ok((Caller { name, token: None }, Some(no_run_meanwhile)))
    }

    /// The person who acts: `--as`, else the user at a terminal. A session's agent is no person.
    fn person(&self) -> Result<AgentId, Failure> {
        self.refuse_in_session()?;
        let name = match &self.args.person {
            Some(name) => name.clone(),
            None if std::io::stdin().is_terminal() => self.environment("USER").unwrap_or_else(|| "person".to_owned()),
            None => {
                return Err(Failure::Usage {
                    what: "say who acts with --as NAME: this is neither a session nor a terminal".to_owned(),
                });
            }
        };
        let name: AgentId = parse(&name)?;
        refuse_automatic(&name)?;
        Ok(name)
    }

    fn refuse_in_session(&self) -> Result<(), Failure> {
        let below_a_run = matches!(holder::keep_away(self.project)?, Err(about) if holder::is_above_us(&about));
        if host::is_in_session(self.host) || below_a_run {
            let what = "a session acts only as its own agent, and this is a person's verb: end with submit, approve, reject or \
                        escalate";
            return Err(Failure::Usage { what: what.to_owned() });
        }
        Ok(())
    }

    /// The person who answers or adds: as [`Self::person`], and where nobody says who, simply a person.
    fn somebody(&self) -> Result<AgentId, Failure> {
        self.refuse_in_session()?;
        if self.args.person.is_some() {
            return self.person();
        }
        let user = self.environment("USER").and_then(|user| user.parse().ok());
        let user = user.filter(|name: &AgentId| !name.is_automatic());
        user.map_or_else(|| parse("person"), Ok)
    }

    /// Keeps runs away while a person's verb is carried out; refuses while one is on.
    fn refuse_during_run(&self) -> Result<Lock, Failure> {
        holder::keep_away(self.project)?.map_err(|holder| Failure::RunIsOn { holder })
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
        let workspace =
            self.environment("RUNNER_PROJECT_ROOT").and_then(|path| PathBuf::from(path).canonicalize().ok());
        let tops: Vec<PathBuf> = workspace.into_iter().chain([self.project.root().to_owned()]).collect();
        let candidates = std::iter::once(from_here).chain(tops.iter().map(|top| top.join(given)));
        let found =
            candidates.into_iter().find_map(|path| path.canonicalize().ok()).ok_or_else(|| wrong("does not exist"))?;
        let inside = tops.iter().find_map(|top| found.strip_prefix(top).ok());
        let inside = inside.ok_or_else(|| wrong("lies outside the project"))?;
        if !found.is_file() {
            return Err(wrong("is no regular file"));
        }
        bounded(given, &text_of(&found.to_string_lossy())?)?;
        inside.to_str().map(|path| Some(path.to_owned())).ok_or_else(|| wrong("has a name that is not UTF-8"))
    }

    fn commit_if_asked(&self, subject: &str) -> Result<(), Failure> {
        if self.args.commit && !host::is_in_session(self.host) {
            let config = host::config_or_default(&host::config_path(self.place, self.project))?;
            people_commit::commit(self.project, &config, self.host, subject)?;
        }
        Ok(())
    }
}

fn refuse_automatic(name: &AgentId) -> Result<(), Failure> {
    if name.is_automatic() {
        return Err(Failure::Usage {
            what: format!("{name} is a name of the coordinator's agents; choose one that does not begin with auto-"),
        });
    }
    Ok(())
}

/// The longest text that goes from one session into the prompt of the next, in Unicode characters.
const LONGEST: usize = 20_000;

/// Refuses a text that would crowd everything else out of the next prompt.
fn bounded(what: &str, text: &str) -> Result<(), Failure> {
    let characters = text.chars().count();
    if characters <= LONGEST {
        return Ok(());
    }
    Err(Failure::Usage {
        what: format!(
            "{what} has {characters} characters, more than {LONGEST}: it goes into the next prompt; say what matters and name \
             the file that holds the rest"
        ),
    })
}

fn checked_message(args: &MessageArgs) -> Result<Option<AgentMessage>, Failure> {
    let (Some(subject), Some(changes), Some(validation)) = (&args.subject, &args.changes, &args.validation) else {
        return Ok(None);
    };
    AgentMessage::from_flags(subject, changes, validation)
        .map(Some)
        .map_err(|fault| Failure::Usage { what: format!("the commit message cannot be used: {fault}") })
}

fn parse<T: std::str::FromStr<Err = crate::ids::BadName>>(text: &str) -> Result<T, Failure> {
    text.parse().map_err(|error: crate::ids::BadName| Failure::Usage { what: error.to_string() })
}

/// The text of a file, or of standard input for `-`.
fn text_of(given: &str) -> Result<String, Failure> {
    let bytes = if given == "-" {
        let mut bytes = Vec::new();
        std::io::stdin()
            .read_to_end(&mut bytes)
            .map_err(|source| Failure::System { what: "read standard input", source })?;
        bytes
    } else {
        fs::read(&PathBuf::from(given))?
    };
    String::from_utf8(bytes)
        .map_err(|_| Failure::Usage { what: format!("{given} is not UTF-8; save it as UTF-8 text") })
}

fn said(task: &TaskId, changed: &Changed) -> (Value, String) {
    let moved = Some(format!("{task}: {} → {}", changed.from, changed.row.status));
    let remedy = changed.remediation.as_ref().map(|id| format!("{id} will remove the blocker"));
    let freed = changed.unblocked.as_ref().map(|id| format!("{id} can go on"));
    let words = [moved, remedy, freed].into_iter().flatten().collect::<Vec<_>>().join("; ");
    let value = json!({
        "task": task, "from": changed.from, "status": changed.row.status,
        "remediation": changed.remediation, "unblocked": changed.unblocked,
    });
    (value, words)
}
