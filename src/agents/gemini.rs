//! `gemini --output-format stream-json`: messages in pieces, figures and error in the last record, `result`.

use serde_json::Value;

use super::fault::Complaint;
use super::message::Tail;
use super::reader::{Account, Listen};
use super::record::{figure, status, text};
use crate::tokens::{Cost, Figure, Tokens};

/// What was heard so far.
#[derive(Debug, Default)]
pub(super) struct Gemini {
    last: Tail,
    usage: Option<Tokens>,
    complaint: Option<Complaint>,
    finished: bool,
    /// The model has said or done something.
    answered: bool,
}

impl Listen for Gemini {
    fn hear(&mut self, record: &Value) {
        match text(record, "/type") {
            Some("message") if text(record, "/role") == Some("assistant") => {
                (self.complaint, self.answered) = (None, true);
                self.last.push(text(record, "/content").unwrap_or_default().as_bytes());
            }
            Some("tool_use") => {
                (self.complaint, self.answered) = (None, true);
                // What it says before it uses a tool is not its last word.
                self.last.clear();
            }
            Some("error") if text(record, "/severity") == Some("error") => {
                self.complaint = text(record, "/message").map(Complaint::new);
            }
            Some("result") => self.result(record),
            _ => {}
        }
    }

    fn conclude(self: Box<Self>, _torn: bool) -> Account {
        let has_answered = self.answered && self.complaint.is_none();
        // No model answers without reading: such a zero was not counted.
        let usage = self.usage.filter(|tokens| !(tokens.input == Figure::NOTHING && has_answered));
        Account {
            message: self.last.finish(),
            tokens: usage.unwrap_or_default(),
            cost: Cost::UNKNOWN,
            complaint: self.complaint,
            finished: self.finished,
        }
    }
}

impl Gemini {
    fn result(&mut self, record: &Value) {
        self.finished = true;
        self.usage = record.get("stats").map(usage);
        self.complaint = None;
        if text(record, "/status") != Some("success") {
            let mut complaint = Complaint::new(text(record, "/error/message").unwrap_or("the result is no success"));
            complaint.status = status(record, "/error/code");
            self.complaint = Some(complaint);
        }
    }
}

/// Cached input is part of the input here, but what the model thinks is counted in the total alone.
fn usage(stats: &Value) -> Tokens {
    let (input, shown) = (figure(stats, "/input_tokens"), figure(stats, "/output_tokens"));
    let total = figure(stats, "/total_tokens");
    let reasoning = match (total.known && input.known && shown.known)
        .then(|| total.value.checked_sub(input.value)?.checked_sub(shown.value))
        .flatten()
    {
        Some(hidden) => Figure::whole(hidden),
        None => Figure::UNKNOWN,
    };
    let output = if reasoning.known { shown.and(reasoning) } else { shown.as_part() };
    let total = if input.known && output.known { input.and(output) } else { total };
    Tokens { input, cached_input: figure(stats, "/cached"), output, reasoning, total }
}
