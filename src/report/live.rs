//! What a person sees while a run works: a line per fact, and on a terminal a live line for the session that runs.

use std::cell::RefCell;
use std::io::{self, IsTerminal};
use std::time::Duration;

use indicatif::{ProgressBar, ProgressStyle};

use crate::observe::{Event, SessionName};
use crate::plan::Work;

/// How often the live line is drawn again.
const TICK: Duration = Duration::from_millis(200);

/// Shows events on standard error.
pub struct Reporter {
    quiet: bool,
    live: bool,
    bar: RefCell<Option<ProgressBar>>,
}

impl Reporter {
    /// A reporter; a quiet one shows nothing.
    pub fn new(quiet: bool) -> Self {
        Self { quiet, live: io::stderr().is_terminal(), bar: RefCell::new(None) }
    }

    /// Shows one event.
    pub fn show(&self, event: &Event) {
        if self.quiet {
            return;
        }
        if matches!(event, Event::SessionEnded { .. })
            && let Some(bar) = self.bar.borrow_mut().take()
        {
            bar.finish_and_clear();
        }
        let text = words(event);
        match &*self.bar.borrow() {
            Some(bar) => bar.suspend(|| super::note(&text)),
            None => super::note(&text),
        }
        if let (Event::SessionStarted { session, .. }, true) = (event, self.live) {
            *self.bar.borrow_mut() = Some(live_line(session));
        }
    }
}

fn live_line(session: &SessionName) -> ProgressBar {
    let bar = ProgressBar::new_spinner();
    if let Ok(style) = ProgressStyle::with_template("  {spinner} {msg} {elapsed}") {
        bar.set_style(style);
    }
    bar.set_message(format!("{} is at work on {}", session.agent, session.task));
    bar.enable_steady_tick(TICK);
    bar
}

/// One event in words.
fn words(event: &Event) -> String {
    match event {
        Event::RunStarted { tasks: 1, done } => format!("1 task, {done} done"),
        Event::RunStarted { tasks, done } => format!("{tasks} tasks, {done} done"),
        Event::Converted => "the state of the original coordinator was converted to one file per task".to_owned(),
        Event::Recovered { what } => format!("recovered: {what}"),
        Event::Applied { what } => format!("applied: {what}"),
        Event::SessionStarted { session, count } => {
            let doing = match session.work {
                Work::Claim => "works on",
                Work::Review => "reviews",
            };
            format!("\n[{count}] {} {doing} {}: {}", session.role, session.task, session.title)
        }
        Event::SessionEnded { outcome, good, wall_ms, .. } => {
            let mark = if *good { "ok" } else { "!!" };
            #[expect(clippy::cast_precision_loss, reason = "a session's milliseconds are far below 2^52")]
            let seconds = *wall_ms as f64 / 1000.0;
            format!("    {mark} {outcome}  ({seconds:.1} s)")
        }
        Event::Committed { commit, subject } => format!("    commit {}  {subject}", commit.get(..10).unwrap_or(commit)),
        Event::WaitsForPerson { task, reason } => {
            let first = reason.lines().next().unwrap_or_default();
            format!("    {task} waits for a person: {first}\n    answer with: runner task answer {task} --text \"…\"")
        }
        Event::Warning { text } => format!("    note: {text}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_event_reads_as_one_fact() {
        let session = SessionName {
            agent: "auto-qa-000102030405".parse().unwrap(),
            number: 1,
            task: "S00-001".parse().unwrap(),
            title: "Parse the dates".to_owned(),
            role: "qa".parse().unwrap(),
            work: Work::Review,
        };
        let start = |work| Event::SessionStarted { session: SessionName { work, ..session.clone() }, count: 3 };
        let end = |good, outcome: &str| Event::SessionEnded {
            session: session.clone(),
            outcome: outcome.to_owned(),
            good,
            wall_ms: 1234,
        };
        let what = || "S00-001 is answered and todo".to_owned();
        let (task, reason) = (session.task.clone(), "no login\nfor the service".to_owned());
        let events = [
            Event::RunStarted { tasks: 12, done: 3 },
            Event::RunStarted { tasks: 1, done: 0 },
            Event::Converted,
            Event::Recovered { what: what() },
            Event::Applied { what: what() },
            start(Work::Claim),
            end(false, "failed: exit status 3; S00-001-r1 will look into it"),
            start(Work::Review),
            end(true, "approved, done"),
            Event::Committed { commit: "0123456789abcdef".to_owned(), subject: "Accept the parser".to_owned() },
            Event::Committed { commit: "0123".to_owned(), subject: "Accept the parser".to_owned() },
            Event::WaitsForPerson { task, reason },
            Event::Warning { text: "a fifo lies in the tree".to_owned() },
        ];
        let shown = events.iter().map(words).collect::<Vec<_>>().join("\n");
        insta::assert_snapshot!(shown, @r#"
        12 tasks, 3 done
        1 task, 0 done
        the state of the original coordinator was converted to one file per task
        recovered: S00-001 is answered and todo
        applied: S00-001 is answered and todo

        [3] qa works on S00-001: Parse the dates
            !! failed: exit status 3; S00-001-r1 will look into it  (1.2 s)

        [3] qa reviews S00-001: Parse the dates
            ok approved, done  (1.2 s)
            commit 0123456789  Accept the parser
            commit 0123  Accept the parser
            S00-001 waits for a person: no login
            answer with: runner task answer S00-001 --text "…"
            note: a fifo lies in the tree
        "#);
    }
}
