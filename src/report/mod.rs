//! The only writer to standard output and standard error.
//!
//! Standard output carries what a run or a verb came to, as JSON or one line; standard error what a person reads while it
//! works. A reader that went away is no error. Imports events, their sums and outcomes only.

mod closing;
mod live;
mod stream;
mod usage;

use std::borrow::Cow;
use std::io::{self, IsTerminal, Write};
use std::sync::Once;

use serde::Serialize;
use serde_json::json;

pub use live::Reporter;
pub use stream::{EVENTS_SCHEMA, EventStream};

use crate::observe::usage::Usage;

/// Writes a value to standard output as indented JSON.
pub fn json(value: &impl Serialize) {
    let text = serde_json::to_string_pretty(value).unwrap_or_default();
    out(&text);
}

/// Writes a value to standard output as JSON on one line.
pub fn json_line(value: &impl Serialize) {
    let text = serde_json::to_string(value).unwrap_or_default();
    out(&text);
}

/// Writes to standard output what sessions used, as a table.
pub fn usage(used: &Usage) {
    line(&usage::words(used));
}

/// Writes one line to standard output.
pub fn line(text: &str) {
    out(&printable(text));
}

/// Writes one line to standard error.
pub fn note(text: &str) {
    // Where standard error is lost there is nothing left to say it with.
    drop(write(io::stderr().lock(), &printable(text)));
}

fn out(text: &str) {
    static SAID: Once = Once::new();
    if let Some(lost) = write(io::stdout().lock(), text) {
        SAID.call_once(|| note(&format!("runner: standard output could not be written: {lost}")));
    }
}

/// Writes a line; says why it is lost, if somebody could have read it.
fn write(mut stream: impl Write, text: &str) -> Option<io::Error> {
    // A closed pipe means that nobody wants to know any more.
    writeln!(stream, "{text}").err().filter(|error| error.kind() != io::ErrorKind::BrokenPipe)
}

/// The text with control characters spelled out: titles and reasons are an agent's words and must not steer a terminal.
fn printable(text: &str) -> Cow<'_, str> {
    let steers = |c: char| c.is_control() && !matches!(c, '\n' | '\t');
    if !text.contains(steers) {
        return Cow::Borrowed(text);
    }
    let mut shown = String::with_capacity(text.len());
    for c in text.chars() {
        if steers(c) { shown.extend(c.escape_default()) } else { shown.push(c) }
    }
    Cow::Owned(shown)
}

/// Says what stopped a run: one JSON object on standard error, or readable words if that is a terminal.
pub fn failure(reason: &str) {
    if io::stderr().is_terminal() {
        note(&format!("runner: {reason}"));
    } else {
        let text = json!({ "stop": "configuration_or_workflow_error", "reason": reason }).to_string();
        drop(write(io::stderr().lock(), &text));
    }
}

/// Says why a verb was refused: a JSON object on standard output if asked for, else a line on standard error.
pub fn refusal(reason: &str, as_json: bool) {
    if as_json {
        out(&json!({ "error": reason }).to_string());
    } else {
        note(&format!("runner: {reason}"));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_agents_words_cannot_steer_the_terminal() {
        for (text, shown) in [
            ("plain, ä, 日本, two\nlines\tand a tab", "plain, ä, 日本, two\nlines\tand a tab"),
            ("a\u{1b}[2Jb", "a\\u{1b}[2Jb"),
            ("bell\u{7} back\u{8} gone\rover", "bell\\u{7} back\\u{8} gone\\rover"),
            ("one byte \u{9b}31m", "one byte \\u{9b}31m"),
            ("nul\0", "nul\\u{0}"),
        ] {
            assert_eq!(printable(text), shown);
        }
    }

    #[test]
    fn a_reader_that_went_away_is_no_error_and_a_full_disk_is_one() {
        struct Broken(io::ErrorKind);
        impl Write for Broken {
            fn write(&mut self, _: &[u8]) -> io::Result<usize> {
                Err(self.0.into())
            }
            fn flush(&mut self) -> io::Result<()> {
                Ok(())
            }
        }
        assert!(write(Broken(io::ErrorKind::BrokenPipe), "nobody reads this").is_none());
        assert!(write(Broken(io::ErrorKind::StorageFull), "somebody would have read this").is_some());
    }
}
