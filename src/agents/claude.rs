//! `claude -p --output-format stream-json` and `qwen --output-format stream-json`, which print the same records with other
//! meanings: only the last, `result`, has true sums.

use serde_json::Value;

use super::fault::{Class, Complaint};
use super::message::Tail;
use super::reader::{Account, Listen};
use super::record::{cost, figure, number, status, sum, text};
use super::reset::Reset;
use crate::tokens::{Cost, Figure, Tokens};

/// Whose records they are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Flavour {
    Claude,
    Qwen,
}

/// What was heard so far.
#[derive(Debug)]
pub(super) struct Claude {
    flavour: Flavour,
    last: Tail,
    /// Of messages that are over, and of the one that may be continued, by its id.
    shown: Option<Tokens>,
    current: Option<(String, Tokens)>,
    /// An error that may still be overcome.
    pending: Option<Complaint>,
    class: Option<Class>,
    reset: Option<Reset>,
    closing: Option<Closing>,
}

/// What the last record said.
#[derive(Debug)]
struct Closing {
    tokens: Tokens,
    cost: Cost,
    complaint: Option<Complaint>,
}

impl Claude {
    pub(super) fn new(flavour: Flavour) -> Self {
        Self {
            flavour,
            last: Tail::default(),
            shown: None,
            current: None,
            pending: None,
            class: None,
            reset: None,
            closing: None,
        }
    }

    fn assistant(&mut self, record: &Value) {
        if let Some(word) = text(record, "/error") {
            // A message that the agent itself made of an error.
            self.class = class_of(word);
            let mut complaint = Complaint::new(&words(record).unwrap_or_else(|| word.to_owned()));
            complaint.class = self.class;
            self.pending = Some(complaint);
            return;
        }
        (self.pending, self.class) = (None, None);
        if !record.get("parent_tool_use_id").is_none_or(Value::is_null) {
            // A subagent's: in the sums of the last record, and in no message of the agent's own.
            return;
        }
        if let Some(words) = words(record) {
            self.last.clear();
            self.last.push(words.as_bytes());
        }
        let (Some(id), Some(usage)) = (text(record, "/message/id"), record.pointer("/message/usage")) else { return };
        let tokens = self.usage(usage);
        match &mut self.current {
            Some((current, figures)) if current == id => *figures = tokens,
            current => {
                let over = current.replace((id.to_owned(), tokens)).map(|(_, figures)| figures);
                self.shown = add(self.shown, over);
            }
        }
    }

    fn result(&self, record: &Value) -> Closing {
        let complaint = self.complaint_of(record);
        let models = record.get("modelUsage").and_then(Value::as_object).filter(|models| !models.is_empty());
        let tokens = match models {
            // All models, those of subagents too; right also where a dropped connection leaves zeros in `usage`.
            Some(models) => models.values().map(of_model).reduce(|sum, more| sum.and(&more)).unwrap_or_default(),
            None => record.get("usage").map(|usage| self.usage(usage)).unwrap_or_default(),
        };
        // No model answers without reading: such a zero was not counted.
        let has_answered = complaint.is_none() && number(record, "/num_turns") != Some(0);
        let is_void = tokens.input == Figure::NOTHING && has_answered;
        let tokens = if is_void { Tokens::default() } else { tokens };
        Closing { tokens, cost: cost(record, "/total_cost_usd"), complaint }
    }

    fn complaint_of(&self, record: &Value) -> Option<Complaint> {
        let words = text(record, "/result");
        let is_error = record.get("is_error").and_then(Value::as_bool).unwrap_or(false);
        let subtype = text(record, "/subtype").unwrap_or("success");
        if is_error || subtype != "success" {
            let stated = words.or_else(|| text(record, "/errors/0")).or_else(|| text(record, "/error/message"));
            let mut complaint = Complaint::new(stated.unwrap_or(subtype));
            complaint.status = status(record, "/api_error_status");
            complaint.class = if complaint.status.is_none() { self.class } else { None };
            complaint.reset = self.reset;
            return Some(complaint);
        }
        let words = words?;
        let is_command = number(record, "/num_turns") == Some(0) && words.starts_with("Unknown ");
        // Qwen calls this success, with exit status 0.
        let is_api_error = self.flavour == Flavour::Qwen && words.starts_with("[API Error: ") && words.contains(']');
        (is_command || is_api_error).then(|| Complaint::new(words))
    }

    fn usage(&self, usage: &Value) -> Tokens {
        let cached_input = figure(usage, "/cache_read_input_tokens");
        let stated = figure(usage, "/input_tokens");
        let input = match self.flavour {
            // Its service counts what is read from or written to the cache apart.
            Flavour::Claude => sum(1, &[stated, cached_input, figure(usage, "/cache_creation_input_tokens")]),
            Flavour::Qwen => stated,
        };
        let output = figure(usage, "/output_tokens");
        Tokens { input, cached_input, output, reasoning: Figure::UNKNOWN, total: sum(2, &[input, output]) }
    }
}

impl Listen for Claude {
    fn hear(&mut self, record: &Value) {
        match (text(record, "/type"), text(record, "/subtype")) {
            (Some("assistant"), _) => self.assistant(record),
            (Some("result"), _) => {
                let closing = self.result(record);
                if let (None, Some(words)) = (&closing.complaint, text(record, "/result")) {
                    self.last.clear();
                    self.last.push(words.as_bytes());
                }
                self.closing = Some(closing);
            }
            (Some("system"), Some("api_retry")) => {
                let word = text(record, "/error").unwrap_or("api_retry");
                let mut complaint = Complaint::new(word);
                (complaint.status, complaint.class) = (status(record, "/error_status"), class_of(word));
                self.pending = Some(complaint);
            }
            // Other states of it are warnings.
            (Some("rate_limit_event"), _) if text(record, "/rate_limit_info/status") == Some("rejected") => {
                self.reset = number(record, "/rate_limit_info/resetsAt").map(Reset::Epoch);
            }
            _ => {}
        }
    }

    fn conclude(self: Box<Self>, _torn: bool) -> Account {
        let Self { shown, current, pending, reset, closing, last, .. } = *self;
        let finished = closing.is_some();
        let shown = add(shown, current.map(|(_, figures)| figures));
        // Without the last record there is what messages showed, in which little of the output is counted.
        let closing = closing.unwrap_or_else(|| Closing {
            tokens: shown.unwrap_or_default().as_parts(),
            cost: Cost::UNKNOWN,
            complaint: pending.map(|complaint| Complaint { reset, ..complaint }),
        });
        Account {
            message: last.finish(),
            tokens: closing.tokens,
            cost: closing.cost,
            complaint: closing.complaint,
            finished,
        }
    }
}

fn add(sum: Option<Tokens>, more: Option<Tokens>) -> Option<Tokens> {
    match (sum, more) {
        (Some(sum), Some(more)) => Some(sum.and(&more)),
        (sum, more) => sum.or(more),
    }
}

fn of_model(model: &Value) -> Tokens {
    let cached_input = figure(model, "/cacheReadInputTokens");
    let parts = [figure(model, "/inputTokens"), cached_input, figure(model, "/cacheCreationInputTokens")];
    let (input, output) = (sum(1, &parts), figure(model, "/outputTokens"));
    Tokens { input, cached_input, output, reasoning: Figure::UNKNOWN, total: sum(2, &[input, output]) }
}

/// The text of a message; nothing if it only calls tools.
fn words(record: &Value) -> Option<String> {
    let blocks = record.pointer("/message/content")?.as_array()?;
    let texts: Vec<&str> = blocks.iter().filter_map(|block| text(block, "/text")).collect();
    (!texts.is_empty()).then(|| texts.join("\n"))
}

/// The agent's own word for an error.
fn class_of(word: &str) -> Option<Class> {
    match word {
        "rate_limit" => Some(Class::Limit),
        "authentication_failed" | "billing_error" | "oauth_org_not_allowed" => Some(Class::Authentication),
        "server_error" | "overloaded" => Some(Class::Transient),
        "model_not_found" => Some(Class::UnknownModel),
        _ => None,
    }
}
