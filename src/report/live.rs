//! What a person sees while a run works: a line per fact, and on a terminal a live line for the session that runs.

use std::cell::{Cell, RefCell};
use std::io::{self, IsTerminal};
use std::time::Duration;

use indicatif::{ProgressBar, ProgressStyle};

use crate::observe::{Event, SessionName};
use crate::outcome::RunResult;
use crate::plan::Work;

use super::closing::{self, counted, first_line};

/// How often the live line is drawn again.
const TICK: Duration = Duration::from_millis(200);

/// Shows events on standard error.
pub struct Reporter {
    quiet: bool,
    live: bool,
    bar: RefCell<Option<ProgressBar>>,
    /// Whether the last thing told was that nothing is started.
    waits: Cell<bool>,
    /// What the last session came to, so that a reason is not told twice.
    told: RefCell<String>,
}

impl Reporter {
    /// A reporter; a quiet one shows nothing.
    pub fn new(quiet: bool) -> Self {
        Self {
            quiet,
            live: io::stderr().is_terminal(),
            bar: RefCell::new(None),
            waits: Cell::new(false),
            told: RefCell::default(),
        }
    }

    /// Shows one event.
    pub fn show(&self, event: &Event) {
        let text = words(event, &self.told.borrow());
        let Some(text) = text.filter(|_| !self.quiet) else { return };
        // Nothing is told while nothing is started, so whatever comes next ends a wait.
        if matches!(event, Event::SessionEnded { .. }) || self.waits.take() {
            self.clear();
        }
        if let Event::SessionEnded { outcome, .. } = event {
            self.told.borrow_mut().clone_from(outcome);
        }
        match &*self.bar.borrow() {
            Some(bar) => bar.suspend(|| super::note(&text)),
            None => super::note(&text),
        }
        let live = match event {
            Event::SessionStarted { session, .. } => {
                Some(format!("at work; its output: {}stdout.log", record_of(session)))
            }
            Event::Waiting { until, .. } => Some(format!("waits until {until}; ctrl-c ends the run")),
            _ => None,
        };
        self.waits.set(matches!(event, Event::Waiting { .. }));
        if let Some(message) = live.filter(|_| self.live) {
            *self.bar.borrow_mut() = Some(live_line(message));
        }
    }

    fn clear(&self) {
        if let Some(bar) = self.bar.borrow_mut().take() {
            bar.finish_and_clear();
        }
    }

    /// Says what the whole run came to, for whoever does not read JSON.
    pub fn close(&self, result: &RunResult) {
        self.clear();
        if !self.quiet {
            super::note(&closing::words(result));
        }
    }
}

fn live_line(message: String) -> ProgressBar {
    let bar = ProgressBar::new_spinner();
    if let Ok(style) = ProgressStyle::with_template("  {spinner} {elapsed:>3}  {wide_msg}") {
        bar.set_style(style);
    }
    bar.set_message(message);
    bar.enable_steady_tick(TICK);
    bar
}

/// The session's folder below the root.
fn record_of(session: &SessionName) -> String {
    format!("state/runs/{}/{}/", session.agent, session.number)
}

/// One event in words, if it is worth a line; `told` is what the last session came to.
fn words(event: &Event, told: &str) -> Option<String> {
    let words = match event {
        // The session's start is told, a failed report in a note, and a failed commit as the end of the run.
        Event::AttemptStarted { attempt: 1, .. } | Event::Reported { .. } | Event::CommitFailed { .. } => return None,
        Event::RunStarted { tasks, done } => format!("{}, {done} done", counted(*tasks, "task")),
        Event::Converted => "the state of the original coordinator was converted to one file per task".to_owned(),
        Event::Recovered { what } => format!("recovered: {what}"),
        Event::Applied { what } => format!("applied: {what}"),
        Event::SessionStarted { session, count } => {
            let doing = match session.work {
                Work::Claim => "works on",
                Work::Review => "reviews",
            };
            let from = session.parent.as_ref().map(|run| format!(" (goes on from {run})")).unwrap_or_default();
            format!("\n[{count}] {} {doing} {}: {}{from}", session.role, session.task, session.title)
        }
        Event::Verifying { command, is_baseline: false } => format!("    verifying: {command}"),
        Event::Verifying { command, is_baseline: true } => format!("\n    verifying what was there before: {command}"),
        Event::AttemptStarted { attempt, .. } => format!("    attempt {attempt}"),
        Event::RetryDelayed { attempt, delay_ms, .. } => {
            format!(
                "    attempt {attempt} failed for a reason that passes; the next one in {} s",
                delay_ms.div_ceil(1000)
            )
        }
        Event::SessionEnded { session, outcome, good, wall_ms, .. } => {
            #[expect(clippy::cast_precision_loss, reason = "a session's milliseconds are far below 2^52")]
            let seconds = *wall_ms as f64 / 1000.0;
            match good {
                true => format!("    ok {outcome}  ({seconds:.1} s)"),
                false => format!("    !! {outcome}  ({seconds:.1} s)\n    look at {}", record_of(session)),
            }
        }
        Event::Waiting { until, seconds, why } => {
            let why = if told.contains(why.as_str()) { String::new() } else { format!("    {why}\n") };
            format!("{why}    nothing is started before {until} (in {seconds} s)")
        }
        Event::Committed { commit, subject } => format!("    commit {}  {subject}", commit.get(..10).unwrap_or(commit)),
        Event::WaitsForPerson { task, reason } => {
            let first = first_line(reason);
            let why = if told.contains(first) { String::new() } else { format!("    {task} waits: {first}\n") };
            format!("{why}    for you to answer: runner task answer {task} --text \"…\"")
        }
        Event::Warning { text } => format!("    note: {text}"),
    };
    Some(words)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::observe::Spent;

    fn session() -> SessionName {
        SessionName {
            agent: "auto-qa-000102030405".parse().unwrap(),
            number: 1,
            parent: None,
            task: "S00-001".parse().unwrap(),
            title: "Parse the dates".to_owned(),
            role: "qa".parse().unwrap(),
            work: Work::Review,
        }
    }

    fn ended(outcome: &str, good: bool) -> Event {
        let outcome = outcome.to_owned();
        Event::SessionEnded {
            session: session(),
            outcome,
            good,
            limited: false,
            wall_ms: 1234,
            spent: Spent::default(),
        }
    }

    #[test]
    fn each_event_reads_as_one_fact() {
        let commit =
            Event::Committed { commit: "0123456789abcdef".to_owned(), subject: "Accept the parser".to_owned() };
        let events = [
            Event::RunStarted { tasks: 1, done: 0 },
            Event::Verifying { command: "cargo test".to_owned(), is_baseline: true },
            Event::SessionStarted { session: session(), count: 3 },
            Event::Verifying { command: "cargo test".to_owned(), is_baseline: false },
            ended("approved, done", true),
            commit,
        ];
        let shown = events.iter().filter_map(|event| words(event, "")).collect::<Vec<_>>().join("\n");
        insta::assert_snapshot!(shown, @r"
        1 task, 0 done

            verifying what was there before: cargo test

        [3] qa reviews S00-001: Parse the dates
            verifying: cargo test
            ok approved, done  (1.2 s)
            commit 0123456789  Accept the parser
        ");
    }

    #[test]
    fn a_session_that_went_wrong_names_its_record_and_its_reason_once() {
        let outcome = "quarantined: it changed a.txt";
        let waits = |reason: &str| Event::WaitsForPerson {
            task: "S00-001".parse().unwrap(),
            reason: format!("{reason}\nand a tail"),
        };
        let pause =
            |why: &str| Event::Waiting { until: "2026-11-30T03:05:12Z".to_owned(), seconds: 34, why: why.to_owned() };
        let shown = [
            words(&ended(outcome, false), ""),
            words(&waits("it changed a.txt"), outcome),
            words(&waits("used up its 12 sessions"), outcome),
            words(&pause("it changed a.txt"), outcome),
            words(&pause("usage limit"), outcome),
        ];
        let shown: Vec<String> = shown.into_iter().flatten().collect();
        insta::assert_snapshot!(shown.join("\n"), @r#"
            !! quarantined: it changed a.txt  (1.2 s)
            look at state/runs/auto-qa-000102030405/1/
            for you to answer: runner task answer S00-001 --text "…"
            S00-001 waits: used up its 12 sessions
            for you to answer: runner task answer S00-001 --text "…"
            nothing is started before 2026-11-30T03:05:12Z (in 34 s)
            usage limit
            nothing is started before 2026-11-30T03:05:12Z (in 34 s)
        "#);
    }
}
