//! One conversation over several real processes: a draft, a branch that a callback carries on and judges, another one that
//! uses up its turns, and what all of it used.
//!
//! ```sh
//! cargo run --example conversation
//! ```
//!
//! The agent is a few lines of shell: its answer tells how often it was asked before, and on standard error it states how many
//! words it read. What is good enough is for this program to say: no turn, no stop and no exhaustion means that an answer was
//! accepted.
#![expect(
    clippy::print_stdout,
    clippy::disallowed_methods,
    reason = "a program of its own, outside the product's doors"
)]

use std::any::Any;
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use runner::conversation::{Completed, Coordination, Exchange, Halted, Message, Outcome, Request, Turn, coordinate};
use runner::fs::{self, FileError};
use runner::observe::{Counters, Event, Group, Observer, SessionName, Spent, Summary, compose};
use runner::plan::Work;
use runner::session::{self, ExecutionResult, Launch, Limits, OutputBounds, Signals, StopSignal, Watched};
use runner::tokens::{Cost, Figure, Tokens};

/// Answers with the number of earlier answers in its prompt, or judges if it is told to.
const AGENT: &str = r#"
prompt=$(cat; echo .)
set -f; set -- $prompt; echo "read $#" >&2
case $prompt in
*"Judge: draft after 1"*) echo accepted ;;
*"Judge: "*) echo "not yet" ;;
*) printf 'draft after %s' "$(printf '%s' "$prompt" | grep -c '^## Answered')" ;;
esac"#;

/// What ended a session without an answer.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Fault {
    /// A file of a session could not be written or read.
    #[error(transparent)]
    File(#[from] FileError),
    /// The agent failed.
    #[error("the agent of {run_id} ended without an answer")]
    NoAnswer {
        /// Which.
        run_id: String,
    },
}

/// Starts one process after another.
struct Sessions<'a> {
    folder: &'a Path,
    guardian: &'a Path,
    count: Cell<u32>,
}

/// No task moves here: a session is over when its process is.
struct NoTask(PathBuf);

impl Watched for NoTask {
    fn file(&self) -> &Path {
        &self.0
    }

    fn reached_transition(&mut self) -> bool {
        false
    }

    fn hold_state(&mut self) -> Box<dyn Any> {
        Box::new(())
    }
}

impl Sessions<'_> {
    /// Carries out a request that is captured.
    fn execute(&self, request: &Request<'_, String>) -> Result<Completed<String>, Fault> {
        let (result, exchange) = self.run(request)?;
        Ok(Completed { exchange: exchange.expect("the request is captured"), result })
    }

    /// Runs a fresh process whose prompt is the history, then the new words.
    fn run(&self, request: &Request<'_, String>) -> Result<(String, Option<Exchange>), Fault> {
        self.count.set(self.count.get() + 1);
        let name = name(self.count.get(), request.continue_from.as_ref());
        let history = request.continue_from.as_ref().map(Exchange::history).unwrap_or_default();
        let folder = self.folder.join(name.run_id());
        let launch = self.launch(&folder);
        fs::replace_private(&launch.stdin, format!("{history}{}", request.body).as_bytes())?;
        let tell = |event: &Event| request.observer.iter().for_each(|observer| observer(event));
        tell(&Event::AttemptStarted { session: name.clone(), attempt: 1 });
        let result = session::run(&launch, &mut NoTask(folder.join("task")), &Signals::none());
        tell(&ended(&name, &result, &launch)?);
        if result.exit.is_none_or(|exit| !exit.is_success()) {
            return Err(Fault::NoAnswer { run_id: name.run_id() });
        }
        let answer = String::from_utf8_lossy(&fs::read(&launch.stdout)?).into_owned();
        let exchange = request.exchange(&name.run_id(), vec![Message::asked(&request.body)], &answer);
        Ok((answer, exchange))
    }

    fn launch(&self, folder: &Path) -> Launch {
        let minute = Duration::from_mins(1);
        Launch {
            argv: ["sh", "-c", AGENT].map(Into::into).to_vec(),
            cwd: self.folder.to_owned(),
            env: BTreeMap::from([("PATH".into(), "/usr/bin:/bin".into())]),
            stdin: folder.join("prompt.md"),
            scratch: folder.to_owned(),
            stdout: folder.join("stdout.log"),
            stderr: folder.join("stderr.log"),
            output: OutputBounds::default(),
            guardian: self.guardian.to_owned(),
            limits: Limits {
                wall: minute,
                idle_timeout: None,
                exit_grace: minute,
                kill_grace: minute,
                stop: StopSignal::Terminate,
                drain: minute,
            },
        }
    }
}

fn name(number: u32, source: Option<&Exchange>) -> SessionName {
    SessionName {
        agent: "example".parse().expect("a plain name"),
        number,
        parent: source.map(|source| source.run_id().to_owned()),
        task: "draft".parse().expect("a plain name"),
        title: String::new(),
        role: "writer".parse().expect("a plain name"),
        work: Work::Claim,
    }
}

/// The last event of a session, with what its agent stated.
fn ended(name: &SessionName, result: &ExecutionResult, launch: &Launch) -> Result<Event, Fault> {
    let stated = String::from_utf8_lossy(&fs::read(&launch.stderr)?).into_owned();
    let read = stated.lines().find_map(|line| line.strip_prefix("read ")?.parse().ok());
    let tokens = Tokens { input: read.map_or(Figure::UNKNOWN, Figure::whole), ..Tokens::default() };
    let counters = Counters { attempts: u64::from(result.pid.is_some()), ..Counters::default() };
    let good = result.exit.is_some_and(session::Exit::is_success);
    let spent = Spent { counters, tokens, cost: Cost::UNKNOWN };
    let (session, outcome) = (name.clone(), String::new());
    Ok(Event::SessionEnded { session, outcome, good, limited: false, wall_ms: result.wall_ms, spent })
}

/// What came of the demonstration.
#[derive(Debug)]
pub(crate) struct Report {
    /// How the branch ended that was judged, and the one that asked for more than it may.
    pub(crate) outcomes: [Outcome; 2],
    /// Each answer of the first branch, and whether this program accepted it.
    pub(crate) judged: Vec<(String, bool)>,
    /// The first branch's last conversation.
    pub(crate) last: Exchange,
    /// The writer's sessions, the judge's, and all together.
    pub(crate) used: [Summary; 3],
    /// Events that a diagnostic observer was told of.
    pub(crate) told: usize,
}

/// Runs all of it below `folder`; `guardian` is a program that guards a session if its first argument is `guardian`.
pub(crate) fn demonstrate(folder: &Path, guardian: &Path) -> Result<Report, Halted<String, Fault>> {
    let sessions = Sessions { folder, guardian, count: Cell::new(0) };
    let execute = |request: &Request<'_, String>| sessions.execute(request);
    // Each group is told of what is chosen for it, and of nothing else.
    let (writer, judge, all, told) = (Group::default(), Group::default(), Group::default(), Cell::new(0));
    let to_writer: &Observer<'_> = &|event| writer.observe(event);
    let to_judge: &Observer<'_> = &|event| judge.observe(event);
    let to_all: &Observer<'_> = &|event| all.observe(event);
    let diagnose: &Observer<'_> = &|_| told.set(told.get() + 1);
    let writing = compose(&[Some(diagnose), Some(to_writer), Some(to_all)]);
    let judging = compose(&[Some(to_judge), Some(to_all)]);

    let first = Request { capture: true, observer: writing.as_deref(), ..Request::new("Write a draft.".to_owned()) };
    let start = execute(&first).map_err(Halted::Failed)?.exchange;

    // A branch that goes on until a session of another kind accepts its answer.
    let judged = RefCell::new(Vec::new());
    let mut next = |turn: Turn<String>| {
        let answer = turn.exchange.final_message().to_owned();
        let question = Request { observer: judging.as_deref(), ..Request::new(format!("Judge: {answer}")) };
        let (verdict, _) = sessions.run(&question)?;
        let is_good = verdict.trim_end() == "accepted";
        judged.borrow_mut().push((turn.exchange, is_good));
        Ok((!is_good).then(|| Request::new("Write a better one.".to_owned())))
    };
    let branch = Coordination {
        start: start.clone(),
        additional_turns: 3,
        next: &mut next,
        observer: writing.as_deref(),
        is_cancelled: &|| false,
    };
    let stopped = coordinate(branch, &mut |request| execute(&request))?;

    // Another branch of the same conversation, which is never content; it knows nothing of the first.
    let mut never = |_: Turn<String>| Ok(Some(Request::new("Once more.".to_owned())));
    let branch =
        Coordination { start, additional_turns: 1, next: &mut never, observer: Some(to_all), is_cancelled: &|| false };
    let exhausted = coordinate(branch, &mut |request| execute(&request))?;

    let judged = judged.take();
    let last = judged.last().map(|(exchange, _)| exchange.clone()).expect("the start was judged");
    Ok(Report {
        outcomes: [stopped, exhausted],
        judged: judged.into_iter().map(|(exchange, good)| (exchange.final_message().to_owned(), good)).collect(),
        last,
        used: [&writer, &judge, &all].map(Group::snapshot),
        told: told.get(),
    })
}

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().collect();
    // A session's guardian is a process of its own: this very program again.
    if let [_, word, control] = &arguments[..]
        && word == "guardian"
    {
        return if control.parse().is_ok_and(session::guardian) { ExitCode::SUCCESS } else { ExitCode::FAILURE };
    }
    let folder = tempfile::tempdir().expect("a temporary folder");
    let guardian = std::env::current_exe().expect("this program's file");
    match demonstrate(folder.path(), &guardian) {
        Ok(report) => {
            for (answer, is_good) in &report.judged {
                println!("{answer}: {}", if *is_good { "accepted" } else { "not accepted" });
            }
            println!("one branch {:?}, the other {:?}", report.outcomes[0], report.outcomes[1]);
            println!("{}", serde_json::to_string_pretty(&report.last.details()).unwrap_or_default());
            for (name, used) in ["writer", "judge", "all"].iter().zip(&report.used) {
                println!("{name}: {} runs, {:?} words read", used.members.len(), used.tokens.input);
            }
            println!("a diagnostic observer heard of {} events", report.told);
            ExitCode::SUCCESS
        }
        Err(halted) => {
            println!("{halted}");
            ExitCode::FAILURE
        }
    }
}
