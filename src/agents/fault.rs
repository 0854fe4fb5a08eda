//! What went wrong on the way to the model, out of what an agent said last.
//!
//! Fields of their own count before words, and words only where they begin the error: text that talks about limits is none.

use jiff::{Timestamp, Zoned};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::record;
use super::reset::{self, Reset};

/// How much of an error's text is kept, in bytes.
pub const FAULT_TEXT_KEPT: usize = 2000;

/// An error of the agent's or of its service's.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AgentFault {
    /// What it means.
    #[serde(flatten)]
    pub kind: FaultKind,
    /// As it was stated, at most [`FAULT_TEXT_KEPT`] bytes of it.
    pub text: String,
}

/// What an error means.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum FaultKind {
    /// The service accepts nothing more from this account for a while.
    Limit {
        /// When it does again, where that was stated.
        retry_at: Option<Timestamp>,
    },
    /// The service failed or could not be reached; it may work the next time.
    Transient,
    /// The service does not let this account in: a person must log in, or pay.
    Authentication,
    /// The agent took the prompt for one of its own commands.
    UnknownCommand,
    /// The service does not know the model, or there is none at its address.
    UnknownModel,
    /// An error of another kind.
    Other,
}

/// What kind an error is, before it is known until when.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Class {
    Limit,
    Transient,
    Authentication,
    UnknownCommand,
    UnknownModel,
    Other,
}

/// An error as it was met, not yet judged.
#[derive(Debug, Clone, Default)]
pub(super) struct Complaint {
    pub(super) text: String,
    pub(super) status: Option<u16>,
    pub(super) class: Option<Class>,
    pub(super) reset: Option<Reset>,
}

impl Complaint {
    /// An error in words.
    pub(super) fn new(text: &str) -> Self {
        let end = (0..=FAULT_TEXT_KEPT.min(text.len())).rev().find(|end| text.is_char_boundary(*end)).unwrap_or(0);
        Self { text: text[..end].trim().to_owned(), ..Self::default() }
    }

    /// What it means. `now` is when it was said, with the zone that the agent's times of day are in.
    pub(super) fn judge(self, now: &Zoned) -> AgentFault {
        let words = anchor(&self.text);
        let status = self.status.or_else(|| status_in(&words));
        let class = self.class.or_else(|| status.and_then(class_of_status)).or_else(|| class_of_words(&words));
        let kind = match class.unwrap_or(Class::Other) {
            Class::Limit => {
                let stated = self.reset.and_then(|reset| reset.at(now));
                FaultKind::Limit { retry_at: stated.or_else(|| reset::in_text(&self.text, now)) }
            }
            Class::Transient => FaultKind::Transient,
            Class::Authentication => FaultKind::Authentication,
            Class::UnknownCommand => FaultKind::UnknownCommand,
            Class::UnknownModel => FaultKind::UnknownModel,
            Class::Other => FaultKind::Other,
        };
        AgentFault { kind, text: self.text }
    }

    /// Whether it is known what it means.
    pub(super) fn is_recognised(&self) -> bool {
        let words = anchor(&self.text);
        self.class.is_some()
            || self.status.or_else(|| status_in(&words)).and_then(class_of_status).is_some()
            || class_of_words(&words).is_some()
    }
}

/// What an HTTP status means (RFC 9110, section 15; 529 is one service's own word for "overloaded").
pub(super) fn class_of_status(status: u16) -> Option<Class> {
    match status {
        429 => Some(Class::Limit),
        401..=403 => Some(Class::Authentication),
        404 => Some(Class::UnknownModel),
        408 | 425 | 500..=599 => Some(Class::Transient),
        _ => None,
    }
}

/// Words that agents put before an error.
const PREFIXES: [&str; 9] = [
    "error: ",
    "[api error: ",
    "api error: ",
    "exit: ",
    "litellm.",
    "request rejected ",
    "unexpected status ",
    "exceeded retry limit, last status: ",
    "got status: ",
];

/// The error's own words: lower case, a plain apostrophe, nothing of what agents put before them.
fn anchor(text: &str) -> String {
    let lower = text.to_lowercase().replace('\u{2019}', "'");
    let mut rest = lower.trim_start();
    while let Some(after) = PREFIXES.iter().find_map(|prefix| rest.strip_prefix(prefix)) {
        rest = after;
    }
    // Codex: `Reconnecting... 3/5 (unexpected status …)`.
    match rest.strip_prefix("reconnecting... ").and_then(|rest| rest.split_once('(')) {
        Some((_, inner)) => anchor(inner),
        None => rest.to_owned(),
    }
}

/// The status that an error begins with, as `429 …`, `(429) …`, or as the code of a JSON object.
fn status_in(words: &str) -> Option<u16> {
    let bare = words.trim_start_matches('(');
    let digits = bare.bytes().take_while(u8::is_ascii_digit).count();
    let follows = bare.as_bytes().get(digits);
    if digits == 3 && follows.is_none_or(|byte| !byte.is_ascii_alphanumeric()) {
        return bare[..3].parse().ok().filter(|status| (400..600).contains(status));
    }
    let object = words.starts_with('{').then(|| serde_json::Deserializer::from_str(words).into_iter::<Value>().next());
    let object = object.flatten()?.ok()?;
    ["/error/code", "/code", "/error/status"].into_iter().find_map(|place| record::status(&object, place))
}

/// What errors begin with. Ordered: the first that fits counts.
const WORDS: [(Class, &[&str]); 5] = [
    (
        Class::Limit,
        &[
            "you've hit your usage limit",
            "you've hit your limit",
            "you've hit your session limit",
            "you've hit your weekly limit",
            "you've reached your usage limit",
            "you have reached your specified api usage limits",
            "you have exhausted your",
            "you exceeded your current quota",
            "claude ai usage limit reached",
            "claude usage limit reached",
            "usage limit reached",
            "5-hour limit reached",
            "weekly limit reached",
            "quota exceeded",
            "rate limit reached",
            "rate limit exceeded",
            "this request would exceed your",
            "too many requests",
            "resource exhausted",
            "resource_exhausted",
            "ratelimiterror",
            "the api provider has rate limited you",
        ],
    ),
    (
        Class::Authentication,
        &[
            "invalid api key",
            "incorrect api key",
            "api key not valid",
            "not logged in",
            "please run /login",
            "oauth token has expired",
            "credit balance is too low",
            "your credit balance is too low",
            "failed to authenticate",
            "unauthorized",
            "authenticationerror",
            "permissiondeniederror",
            "the api provider is not able to authenticate you",
        ],
    ),
    (
        Class::UnknownModel,
        &[
            "there's an issue with the selected model",
            "notfounderror",
            "model not found",
            "unknown model",
            "the model `",
        ],
    ),
    (Class::UnknownCommand, &["unknown command: /", "unknown slash command: ", "invalid command: /"]),
    (
        Class::Transient,
        &[
            "we're currently experiencing high demand",
            "stream disconnected",
            "overloaded",
            "internal server error",
            "service unavailable",
            "bad gateway",
            "connection error",
            "unable to connect to api",
            "request timed out",
            "fetch failed",
            "terminated",
            "model stream ended",
            "an internal error has occurred",
            "internalservererror",
            "serviceunavailableerror",
            "badgatewayerror",
            "apiconnectionerror",
            "timeout:",
            "the api provider's servers are down",
        ],
    ),
];

fn class_of_words(words: &str) -> Option<Class> {
    WORDS.iter().find(|(_, begins)| begins.iter().any(|begin| words.starts_with(begin))).map(|(class, _)| *class)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::{AgentFault, Complaint, FAULT_TEXT_KEPT, FaultKind};

    fn now() -> jiff::Zoned {
        "2026-11-30T12:00:00Z".parse::<jiff::Timestamp>().unwrap().to_zoned(jiff::tz::TimeZone::UTC)
    }

    fn kind(text: &str) -> FaultKind {
        Complaint::new(text).judge(&now()).kind
    }

    const LIMIT: FaultKind = FaultKind::Limit { retry_at: None };

    #[test]
    fn an_error_is_told_by_what_it_begins_with() {
        for (text, wanted) in [
            ("You’ve hit your usage limit. Upgrade to Pro", LIMIT),
            ("Quota exceeded. Check your plan and billing details.", LIMIT),
            ("exceeded retry limit, last status: 429 Too Many Requests", LIMIT),
            ("API Error: Request rejected (429) · This request would exceed your account's rate limit.", LIMIT),
            ("[API Error: You have exhausted your daily quota on this model.]\nx", LIMIT),
            ("litellm.RateLimitError: RateLimitError: OpenAIException", LIMIT),
            ("unexpected status 401 Unauthorized: Incorrect API key", FaultKind::Authentication),
            ("Reconnecting... 3/5 (unexpected status 401 Unauthorized: x)", FaultKind::Authentication),
            ("[API Error: {\"error\":{\"code\":401,\"message\":\"x\"}}]", FaultKind::Authentication),
            ("Exit: litellm.AuthenticationError: x", FaultKind::Authentication),
            ("We’re currently experiencing high demand, which may cause errors.", FaultKind::Transient),
            ("API Error: 529 {\"type\":\"error\"}", FaultKind::Transient),
            ("unexpected status 404 Not Found: no such model", FaultKind::UnknownModel),
            ("Unknown command: /fix", FaultKind::UnknownCommand),
            ("something else", FaultKind::Other),
        ] {
            assert_eq!(kind(text), wanted, "{text}");
        }
    }

    #[test]
    fn an_error_that_only_talks_about_limits_is_none() {
        for text in [
            "the test `rate limit exceeded` fails",
            "You have used 90 % of your usage limit",
            "4290 files were changed",
            "could not write the page on usage limits: 429",
            "429a",
        ] {
            assert_eq!(kind(text), FaultKind::Other, "{text}");
        }
    }

    #[test]
    fn a_fault_survives_its_own_json_and_its_text_is_bounded() {
        let mut complaint = Complaint::new(&"ä".repeat(FAULT_TEXT_KEPT));
        complaint.status = Some(429);
        let fault = complaint.judge(&now());
        assert_eq!(fault.text.len(), FAULT_TEXT_KEPT);
        let json = serde_json::to_string(&fault).unwrap();
        assert!(json.starts_with(r#"{"kind":"limit","retry_at":null,"text":"ä"#), "{json}");
        assert_eq!(serde_json::from_str::<AgentFault>(&json).unwrap(), fault);
    }

    proptest! {
        #[test]
        fn any_error_is_judged_without_a_panic(text in "(error: |litellm.|\\{|[(]?[0-9]{2,4}|reconnecting... |[(]|ä|’|[a-z ]{0,9}){0,8}") {
            let _kind = kind(&text);
        }
    }
}
