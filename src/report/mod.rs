//! The only writer to standard output and standard error.
//!
//! Standard output carries what a run or a verb came to, as JSON or one line; standard error what a person reads while it
//! works. A reader that went away is no error. Imports events and outcomes only.

mod closing;
mod live;

use std::io::{self, IsTerminal, Write};

use serde::Serialize;
use serde_json::json;

pub use live::Reporter;

/// Writes a value to standard output as indented JSON.
pub fn json(value: &impl Serialize) {
    let text = serde_json::to_string_pretty(value).unwrap_or_default();
    line(&text);
}

/// Writes one line to standard output.
pub fn line(text: &str) {
    // A closed pipe means that nobody wants to know any more.
    drop(writeln!(io::stdout().lock(), "{text}"));
}

/// Writes one line to standard error.
pub fn note(text: &str) {
    drop(writeln!(io::stderr().lock(), "{text}"));
}

/// Says what stopped a run: one JSON object on standard error, or readable words if that is a terminal.
pub fn failure(reason: &str) {
    if io::stderr().is_terminal() {
        note(&format!("runner: {reason}"));
    } else {
        note(&json!({ "stop": "configuration_or_workflow_error", "reason": reason }).to_string());
    }
}

/// Says why a verb was refused: a JSON object on standard output if asked for, else a line on standard error.
pub fn refusal(reason: &str, as_json: bool) {
    if as_json {
        line(&json!({ "error": reason }).to_string());
    } else {
        note(&format!("runner: {reason}"));
    }
}
