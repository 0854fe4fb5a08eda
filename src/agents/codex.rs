//! `codex exec --json`: one record a line; `turn.completed` has the figures of all turns so far, `turn.failed` the error.

use serde_json::Value;

use super::fault::Complaint;
use super::message::Tail;
use super::reader::{Account, Listen};
use super::record::{figure, sum, text};
use crate::tokens::{Cost, Tokens};

/// What was heard so far.
#[derive(Debug, Default)]
pub(super) struct Codex {
    last: Tail,
    usage: Option<Tokens>,
    complaint: Option<Complaint>,
    finished: bool,
}

impl Listen for Codex {
    fn hear(&mut self, record: &Value) {
        match text(record, "/type") {
            Some("turn.completed") => {
                // The figures grow over the turns of a process, so the last are the whole.
                self.usage = record.get("usage").map(usage);
                (self.complaint, self.finished) = (None, true);
            }
            Some("turn.failed") => {
                self.complaint = Some(Complaint::new(text(record, "/error/message").unwrap_or("turn.failed")));
                self.finished = true;
            }
            // It is followed by `turn.failed` if trying again does not help.
            Some("error") => self.complaint = text(record, "/message").map(Complaint::new),
            Some("turn.started") => (self.complaint, self.finished) = (None, false),
            // An item of the type `error` is a warning.
            Some("item.started" | "item.completed") if text(record, "/item/type") != Some("error") => {
                self.complaint = None;
                if let (Some("agent_message"), Some(words)) = (text(record, "/item/type"), text(record, "/item/text")) {
                    self.last.clear();
                    self.last.push(words.as_bytes());
                }
            }
            _ => {}
        }
    }

    fn conclude(self: Box<Self>, _torn: bool) -> Account {
        Account {
            message: self.last.finish(),
            tokens: self.usage.unwrap_or_default(),
            cost: Cost::UNKNOWN,
            complaint: self.complaint,
            finished: self.finished,
        }
    }
}

/// Cached input is part of the input here, and reasoning part of the output, as in the common definition.
fn usage(usage: &Value) -> Tokens {
    let (input, output) = (figure(usage, "/input_tokens"), figure(usage, "/output_tokens"));
    Tokens {
        input,
        cached_input: figure(usage, "/cached_input_tokens"),
        output,
        reasoning: figure(usage, "/reasoning_output_tokens"),
        total: sum(2, &[input, output]),
    }
}
