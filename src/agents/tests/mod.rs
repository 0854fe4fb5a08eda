//! Readers on what the agents really print: records of real runs against a scripted model, shortened where nothing reads them.

mod claude;
mod codex;
mod gemini;
mod opencode;
mod preset;
mod prose;
mod random;

use super::{AgentFault, Dialect, FaultKind, Reader, Reading, Stream, WORDS_KEPT};
use crate::tokens::{Cost, Figure, Tokens};
use jiff::Zoned;

/// A limit without a stated end.
const LIMIT: FaultKind = FaultKind::Limit { retry_at: None };

fn now() -> Zoned {
    "2026-11-30T07:21:00Z".parse::<jiff::Timestamp>().unwrap().to_zoned(jiff::tz::TimeZone::UTC)
}

/// What is read from this standard output.
fn read(dialect: Dialect, stdout: &str) -> Reading {
    read_both(dialect, stdout, "")
}

fn read_both(dialect: Dialect, stdout: &str, stderr: &str) -> Reading {
    let mut reader = Reader::new(dialect);
    reader.feed(Stream::Stdout, stdout.as_bytes());
    reader.feed(Stream::Stderr, stderr.as_bytes());
    reader.finish(&now())
}

/// Input, cached input, output, reasoning, total; `None` is unknown.
fn tokens(figures: [Option<u64>; 5]) -> Tokens {
    let [input, cached_input, output, reasoning, total] =
        figures.map(|figure| figure.map_or(Figure::UNKNOWN, Figure::whole));
    Tokens { input, cached_input, output, reasoning, total }
}

fn words(reading: &Reading) -> &str {
    reading.final_message.as_ref().map_or("", |message| &message.text)
}

fn kind(reading: &Reading) -> Option<FaultKind> {
    reading.fault.as_ref().map(|fault| fault.kind)
}

#[test]
fn a_dialect_is_known_by_its_name_and_a_misspelt_one_names_the_nearest() {
    for dialect in Dialect::ALL {
        assert_eq!(dialect.to_string().parse(), Ok(dialect));
        assert_eq!(serde_json::to_value(dialect).unwrap(), dialect.name());
    }
    let error = "cladue".parse::<Dialect>().unwrap_err().to_string();
    assert!(error.ends_with("not \"cladue\"; did you mean \"claude\"?"), "{error}");
    assert!(!"zebra".parse::<Dialect>().unwrap_err().to_string().contains("did you mean"));
}

#[test]
fn without_a_dialect_standard_output_is_the_final_message_and_nothing_else_is_known() {
    let reading = read_both(Dialect::Plain, "Working.\n429 Too Many Requests\nDone.\n", "error: 401\n");
    let message = reading.final_message.unwrap();
    assert_eq!((message.text.as_str(), message.truncated), ("Working.\n429 Too Many Requests\nDone.", false));
    assert_eq!((reading.tokens, reading.cost, reading.fault), (Tokens::default(), Cost::UNKNOWN, None));
}

#[test]
fn of_output_without_a_dialect_only_the_end_is_kept() {
    let message = read_both(Dialect::Plain, &"x".repeat(2 * WORDS_KEPT), "").final_message.unwrap();
    assert_eq!((message.text.len(), message.truncated), (WORDS_KEPT, true));
}

#[test]
fn an_exit_status_that_is_the_http_status_modulo_256_names_the_cause_where_the_output_does_not() {
    let cut_off = read(Dialect::Gemini, "{\"type\":\"init\"}\n");
    for (status, wanted) in [
        (145, Some(FaultKind::Authentication)),
        (41, Some(FaultKind::Authentication)),
        (173, Some(LIMIT)),
        (244, Some(FaultKind::Transient)),
        (148, Some(FaultKind::UnknownModel)),
        (0, None),
        (1, None),
        (143, None),
    ] {
        assert_eq!(kind(&cut_off.clone().with_exit_status(status)), wanted, "{status}");
    }
    assert_eq!(kind(&read(Dialect::Codex, "").with_exit_status(145)), None, "only one agent does this");
    let told = Reading { fault: Some(AgentFault { kind: FaultKind::Transient, text: String::new() }), ..cut_off };
    assert_eq!(kind(&told.with_exit_status(145)), Some(FaultKind::Transient), "the output's word counts");
}
