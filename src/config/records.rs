//! What the configuration says about records: how many are kept, and where the evidence of a session is sent.
//!
//! Owns the keys under `retention` and `report`. Never reads the environment: a header's value is looked up when it is sent.

use std::collections::BTreeMap;
use std::ops::RangeInclusive;
use std::time::Duration;

use super::read::{Seconds, seconds};
use crate::strict::Fields;

/// How much of `state/runs` is kept; the oldest sessions go first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Retention {
    /// At most so many sessions.
    pub runs: u32,
    /// At most so many days.
    pub days: u32,
    /// At most so many bytes on disk.
    pub bytes: u64,
}

impl Default for Retention {
    fn default() -> Self {
        Self { runs: 200, days: 90, bytes: 2 << 30 }
    }
}

/// Where the final evidence of each session is sent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Report {
    /// The address, `http://` or `https://`.
    pub url: String,
    /// Headers by name, each with the environment variable that holds its value.
    pub headers_from_env: BTreeMap<String, String>,
    /// How long the whole exchange may take.
    pub timeout: Duration,
}

const RUNS: RangeInclusive<i64> = 1..=100_000;
const DAYS: RangeInclusive<i64> = 1..=36_500;
const BYTES: RangeInclusive<i64> = 1..=(1 << 50);
const TIMEOUT: Seconds = Seconds("timeout_seconds", false, 300.0, 10);

/// Headers that the exchange itself sets.
const OWN_HEADERS: [&str; 6] =
    ["host", "content-length", "content-type", "transfer-encoding", "connection", "user-agent"];

/// Reads the object under `retention`.
pub(super) fn retention(fields: &mut Fields<'_>) -> Retention {
    let default = Retention::default();
    let small = |number: Option<i64>| number.and_then(|number| u32::try_from(number).ok());
    let made = Retention {
        runs: small(fields.integer("runs", &RUNS)).unwrap_or(default.runs),
        days: small(fields.integer("days", &DAYS)).unwrap_or(default.days),
        bytes: fields.integer("bytes", &BYTES).and_then(|n| u64::try_from(n).ok()).unwrap_or(default.bytes),
    };
    fields.finish();
    made
}

/// Reads the object under `report`; `None` if it has no address.
pub(super) fn report(fields: &mut Fields<'_>) -> Option<Report> {
    let url = fields.required_text("url");
    if let Some(problem) = url.and_then(address_problem) {
        fields.fault("url", problem);
    }
    let mut headers_from_env = BTreeMap::new();
    for (name, value) in fields.entries("headers_from_env") {
        let key = format!("headers_from_env.{name}");
        match value.as_str() {
            _ if !is_header(name) => fields.fault(&key, "is no name of a header that can be set here; remove it"),
            Some(variable) if is_variable(variable) => {
                headers_from_env.insert(name.to_owned(), variable.to_owned());
            }
            // The value is not shown: a person may have put the secret itself there.
            _ => fields.fault(&key, "must be the name of an environment variable that holds the header's value"),
        }
    }
    let timeout = seconds(fields, &TIMEOUT);
    fields.finish();
    Some(Report { url: url?.to_owned(), headers_from_env, timeout })
}

/// What is wrong with an address, or nothing. It is not shown: it may hold a secret.
fn address_problem(url: &str) -> Option<&'static str> {
    let rest = url.strip_prefix("http://").or_else(|| url.strip_prefix("https://"));
    let authority = rest.map(|rest| rest.split(['/', '?', '#']).next().unwrap_or_default());
    if !url.bytes().all(|byte| byte.is_ascii_graphic()) || authority.is_none_or(str::is_empty) {
        return Some("must be an address that begins with http:// or https://");
    }
    authority?.contains('@').then_some("holds a user name; put what is secret into a header with `headers_from_env`")
}

/// Whether this is a header name (RFC 9110, section 5.6.2) that a person may set.
fn is_header(name: &str) -> bool {
    let token = |byte: u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte);
    !name.is_empty() && name.bytes().all(token) && !OWN_HEADERS.contains(&name.to_lowercase().as_str())
}

fn is_variable(name: &str) -> bool {
    !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::parsed;

    #[test]
    fn what_is_left_out_has_its_default() {
        assert_eq!(parsed("{}").unwrap().retention, Retention { runs: 200, days: 90, bytes: 2_147_483_648 });
        assert_eq!(parsed(r#"{"retention": {"days": 3}}"#).unwrap().retention.runs, 200);
        let report = parsed(r#"{"report": {"url": "http://127.0.0.1:9"}}"#).unwrap().report.unwrap();
        assert_eq!((report.timeout, report.headers_from_env.len()), (Duration::from_secs(10), 0));
        assert_eq!(parsed("{}").unwrap().report, None);
    }

    #[test]
    fn a_wrong_value_names_its_key_and_shows_no_secret() {
        let header = "must be the name of an environment variable that holds the header's value";
        for (json, fault) in [
            (
                r#"{"retention": {"runs": 0}}"#,
                "key `retention.runs` must be an integer from 1 to 100000, not `0`".to_owned(),
            ),
            (
                r#"{"retention": {"days": true}}"#,
                "key `retention.days` must be an integer from 1 to 36500, not `true`".to_owned(),
            ),
            (r#"{"retention": {"byte": 1}}"#, "key `retention.byte` is unknown; did you mean `bytes`?".to_owned()),
            (r#"{"retention": 7}"#, "key `retention` must be an object, not `7`".to_owned()),
            (r#"{"report": {}}"#, "key `report.url` is missing; add it".to_owned()),
            (
                r#"{"report": {"url": "ftp://x"}}"#,
                "key `report.url` must be an address that begins with http:// or https://".to_owned(),
            ),
            (
                r#"{"report": {"url": "http:///x"}}"#,
                "key `report.url` must be an address that begins with http:// or https://".to_owned(),
            ),
            (
                r#"{"report": {"url": "http://x y"}}"#,
                "key `report.url` must be an address that begins with http:// or https://".to_owned(),
            ),
            (
                r#"{"report": {"url": "http://me:pa55@x"}}"#,
                "key `report.url` holds a user name; put what is secret into a header with `headers_from_env`"
                    .to_owned(),
            ),
            (
                r#"{"report": {"url": "http://x", "timeout_seconds": 0}}"#,
                "key `report.timeout_seconds` must be a number above 0 and at most 300, not `0`".to_owned(),
            ),
            (
                r#"{"report": {"url": "http://x", "headers_from_env": {"Authorization": "Bearer sk-123"}}}"#,
                format!("key `report.headers_from_env.Authorization` {header}"),
            ),
            (
                r#"{"report": {"url": "http://x", "headers_from_env": {"Host": "NAME"}}}"#,
                "key `report.headers_from_env.Host` is no name of a header that can be set here; remove it".to_owned(),
            ),
        ] {
            assert_eq!(parsed(json).unwrap_err(), fault, "{json}");
        }
    }
}
