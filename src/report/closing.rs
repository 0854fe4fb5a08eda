//! The last thing a person reads: what the whole run came to, in one line, and what waits for whom.

use serde_json::Value;

use crate::outcome::{RunResult, Stop};

/// What the run came to.
pub(super) fn words(result: &RunResult) -> String {
    let mut lines = vec![headline(result)];
    if matches!(result.stop, Stop::NeedsInput | Stop::SessionLimit | Stop::Idle | Stop::Budget | Stop::Limited) {
        lines.extend(waits(result));
    }
    format!("\n{}", lines.join("\n"))
}

fn headline(result: &RunResult) -> String {
    let left = counted(result.unfinished, "task");
    let sessions = counted(result.launched as usize, "session");
    match result.stop {
        Stop::Complete => format!("complete: every task of the plan is done ({sessions})"),
        Stop::Idle if result.stage_complete => {
            format!("idle: the chosen part is done ({sessions}); {left} of the whole plan not done")
        }
        Stop::Idle => format!("idle: nothing is ready ({sessions}); {left} not done, `runner task list` says why"),
        Stop::SessionLimit => format!("session limit: {sessions}; {left} not done, the next run goes on"),
        Stop::NeedsInput => format!("needs input: nothing else is ready ({sessions}); {left} not done"),
        Stop::GitError => {
            format!("git error: {}", result.commit_error.as_deref().unwrap_or("the commit could not be made"))
        }
        Stop::Failed => {
            let reason = result.reason.as_deref().unwrap_or("something is wrong with the project");
            format!("configuration or workflow error: {reason} ({sessions})")
        }
        Stop::Budget => {
            let figures = result.reason.as_deref().unwrap_or("it is used up");
            format!("budget: {figures} ({sessions}); {left} not done, the next run has its own")
        }
        Stop::Limited => {
            let when = result.retry_at.map_or_else(|| "later".to_owned(), |at| format!("at {at}"));
            let reason = first_line(result.reason.as_deref().unwrap_or("the agent's service takes nothing more"));
            format!("limited: {reason} ({sessions}); {left} not done, try again {when}")
        }
        Stop::Busy => busy(result.holder.as_ref()),
        Stop::Interrupted => {
            format!("interrupted by signal {} ({sessions}); the next run goes on", result.signal.unwrap_or(0))
        }
    }
}

/// A number with its word.
pub(super) fn counted(number: usize, word: &str) -> String {
    let plural = if number == 1 { "" } else { "s" };
    format!("{number} {word}{plural}")
}

/// The first line of a reason; the rest is a tail of output.
pub(super) fn first_line(text: &str) -> &str {
    text.lines().next().unwrap_or_default().trim()
}

/// Who waits for a person, and what can never become ready.
fn waits(result: &RunResult) -> Vec<String> {
    let mut lines = Vec::new();
    for (task, reason) in &result.external_blockers {
        lines.push(format!("    {task} waits for you: {}", first_line(reason)));
    }
    for (task, reason) in &result.unsatisfiable {
        lines.push(format!("    {task} can never become ready: {}", first_line(reason)));
    }
    if !result.external_blockers.is_empty() {
        lines.push("answer with: runner task answer TASK --text \"…\"".to_owned());
    }
    lines
}

fn busy(holder: Option<&Value>) -> String {
    let about = |key: &str| holder.and_then(|holder| holder.get(key)).filter(|value| !value.is_null());
    let plain = |value: &Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    let parts = [("pid", "pid "), ("host", "on "), ("since", "since ")];
    let known: Vec<_> =
        parts.iter().filter_map(|(key, word)| about(key).map(|value| format!("{word}{}", plain(value)))).collect();
    let who = if known.is_empty() { String::new() } else { format!(" ({})", known.join(" ")) };
    format!("busy: another run is at work here{who}; try again when it has ended")
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use serde_json::json;

    use super::*;

    fn result(stop: Stop) -> RunResult {
        RunResult {
            stop,
            launched: 2,
            revision: 9,
            external_blockers: BTreeMap::new(),
            unfinished: 1,
            last_session: None,
            last_commit: None,
            commit_error: None,
            stage_complete: false,
            waiting: BTreeMap::new(),
            unsatisfiable: BTreeMap::new(),
            signal: None,
            reason: None,
            retry_at: None,
            used: crate::budget::Used::NOTHING,
            holder: None,
            report: crate::evidence::ReportTally::default(),
        }
    }

    #[test]
    fn every_stop_has_a_line_that_begins_with_its_name() {
        for stop in Stop::ALL {
            let name = serde_json::to_value(stop).unwrap().as_str().unwrap().replace('_', " ");
            let shown = words(&result(stop));
            assert!(shown.trim_start().starts_with(&name), "{shown}");
        }
    }

    #[test]
    fn what_waits_is_named_with_what_to_do() {
        let mut waits = result(Stop::NeedsInput);
        waits.external_blockers.insert("S00-001".parse().unwrap(), "which licence?\ntail".to_owned());
        waits.unsatisfiable.insert("S00-002".parse().unwrap(), "S00-001 waits for a person".to_owned());
        let mut busy = result(Stop::Busy);
        busy.holder = Some(json!({ "pid": 7, "start_time": 1, "host": "box", "since": "2026-01-01T00:00:00Z" }));
        insta::assert_snapshot!([words(&waits), words(&busy)].join("\n"), @r#"

        needs input: nothing else is ready (2 sessions); 1 task not done
            S00-001 waits for you: which licence?
            S00-002 can never become ready: S00-001 waits for a person
        answer with: runner task answer TASK --text "…"

        busy: another run is at work here (pid 7 on box since 2026-01-01T00:00:00Z); try again when it has ended
        "#);
    }
}
