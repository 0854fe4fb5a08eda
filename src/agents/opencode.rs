//! `opencode run --format json`: figures and cost of each step, no total and no last record.

use serde_json::Value;

use super::fault::{Class, Complaint};
use super::message::Tail;
use super::reader::{Account, Listen};
use super::record::{cost, figure, status, sum, text};
use super::reset::Reset;
use crate::tokens::{Cost, Tokens};

/// What was heard so far.
#[derive(Debug, Default)]
pub(super) struct Opencode {
    last: Tail,
    /// The message that the last text belongs to.
    message: String,
    sums: Option<(Tokens, Cost)>,
    /// A step was begun and is not over.
    in_step: bool,
    /// The last step was the model's last.
    finished: bool,
    complaint: Option<Complaint>,
}

impl Listen for Opencode {
    fn hear(&mut self, record: &Value) {
        match text(record, "/type") {
            Some("step_start") => (self.in_step, self.finished) = (true, false),
            Some("step_finish") => self.step_finish(record),
            Some("text") => {
                self.complaint = None;
                let message = text(record, "/part/messageID").unwrap_or_default();
                if message != self.message {
                    message.clone_into(&mut self.message);
                    self.last.clear();
                }
                self.last.push(text(record, "/part/text").unwrap_or_default().as_bytes());
            }
            Some("error") => self.complaint = Some(complaint(record)),
            _ => {}
        }
    }

    fn conclude(self: Box<Self>, torn: bool) -> Account {
        let (tokens, cost) = self.sums.unwrap_or_default();
        let is_whole = !torn && !self.in_step;
        Account {
            message: self.last.finish(),
            tokens: if is_whole { tokens } else { tokens.as_parts() },
            cost: if is_whole { cost } else { cost.as_part() },
            finished: self.finished && self.complaint.is_none(),
            complaint: self.complaint,
        }
    }
}

impl Opencode {
    fn step_finish(&mut self, record: &Value) {
        let step = (record.pointer("/part/tokens").map(usage).unwrap_or_default(), cost(record, "/part/cost"));
        self.sums = Some(match self.sums {
            Some((tokens, cost)) => (tokens.and(&step.0), cost.and(step.1)),
            None => step,
        });
        self.in_step = false;
        self.finished = text(record, "/part/reason") != Some("tool-calls");
        self.complaint = None;
    }
}

/// Here input is without what the cache had, and output without reasoning.
fn usage(tokens: &Value) -> Tokens {
    let (cached_input, reasoning) = (figure(tokens, "/cache/read"), figure(tokens, "/reasoning"));
    let input = sum(1, &[figure(tokens, "/input"), cached_input, figure(tokens, "/cache/write")]);
    let output = sum(1, &[figure(tokens, "/output"), reasoning]);
    Tokens { input, cached_input, output, reasoning, total: sum(2, &[input, output]) }
}

fn complaint(record: &Value) -> Complaint {
    let name = text(record, "/error/name").unwrap_or("error");
    let mut complaint = Complaint::new(text(record, "/error/data/message").unwrap_or(name));
    complaint.status = status(record, "/error/data/statusCode");
    complaint.class = match name {
        "ProviderAuthError" => Some(Class::Authentication),
        "ProviderModelNotFoundError" => Some(Class::UnknownModel),
        _ => None,
    };
    let header = text(record, "/error/data/responseHeaders/retry-after");
    complaint.reset = header.and_then(|seconds| seconds.parse().ok()).map(Reset::After);
    complaint
}
