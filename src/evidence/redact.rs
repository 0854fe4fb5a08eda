//! Takes secrets out of whatever the coordinator writes down: values it knows to be secret, and tokens in well-known shapes.
//!
//! Pure. Owns which variables count as secret. What an agent itself writes into files is not touched.

use std::borrow::Cow;
use std::ffi::{OsStr, OsString};
use std::fmt;
use std::ops::Range;

use serde_json::Value;

use super::shapes;

/// What stands where a secret stood.
pub const REDACTED: &str = "[redacted]";

/// A shorter value is no secret, or not one that could be told from ordinary words.
const SHORTEST: usize = 8;

/// A variable whose name holds one of these is taken for a secret.
const TELLING: [&str; 10] =
    ["KEY", "TOKEN", "SECRET", "PASSWORD", "PASSWD", "PASSPHRASE", "CREDENTIAL", "AUTHORIZATION", "BEARER", "COOKIE"];

/// A variable whose name ends so is taken for a secret.
const TELLING_ENDS: [&str; 3] = ["_PASS", "_PWD", "_PAT"];

/// A variable whose name ends so says where something lies, and not what it is.
const PLACES: [&str; 3] = ["_FILE", "_PATH", "_DIR"];

/// How often a text is looked through again; more than once only if a secret holds the mark itself.
const ROUNDS: usize = 4;

/// Knows the secrets of a session.
#[derive(Clone, Default)]
pub struct Redactor {
    secrets: Vec<String>,
    /// The secret of the session at hand.
    session: Option<String>,
}

impl fmt::Debug for Redactor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Redactor").field("secrets", &self.secrets.len()).finish_non_exhaustive()
    }
}

impl Redactor {
    /// Takes the secrets out of an environment: variables whose names tell, and those that are `listed`.
    pub fn new<'a>(
        environment: impl IntoIterator<Item = (&'a OsString, &'a OsString)>,
        listed: impl Fn(&OsStr) -> bool,
    ) -> Self {
        let secret = |(name, value): (&OsString, &'a OsString)| {
            let value = value.to_str()?.trim();
            (listed(name) || is_telling(&name.to_string_lossy())).then_some(value)
        };
        let mut secrets: Vec<String> = environment
            .into_iter()
            .filter_map(secret)
            .filter(|value| value.len() >= SHORTEST && !REDACTED.contains(value))
            .map(str::to_owned)
            .collect();
        secrets.sort();
        secrets.dedup();
        Self { secrets, session: None }
    }

    /// Knows this secret of a session too, in the place of that of the session before.
    pub fn begin_session(&mut self, secret: &str) {
        self.session = Some(secret.to_owned()).filter(|secret| secret.len() >= SHORTEST);
    }

    /// The text without its secrets.
    pub fn text<'t>(&self, text: &'t str) -> Cow<'t, str> {
        let mut text = Cow::Borrowed(text);
        for _ in 0..ROUNDS {
            let found = self.find(&text);
            if found.is_empty() {
                break;
            }
            text = Cow::Owned(without(&text, &found));
        }
        text
    }

    /// Takes the secrets out of every text of a JSON value; keys stay.
    pub fn value(&self, value: &mut Value) {
        match value {
            Value::String(text) => {
                if let Cow::Owned(clean) = self.text(text) {
                    *text = clean;
                }
            }
            Value::Array(items) => items.iter_mut().for_each(|item| self.value(item)),
            Value::Object(map) => map.values_mut().for_each(|inner| self.value(inner)),
            Value::Null | Value::Bool(_) | Value::Number(_) => {}
        }
    }

    /// Where secrets stand, in order; overlapping ones are one.
    fn find(&self, text: &str) -> Vec<Range<usize>> {
        let mut found = shapes::find(text);
        for secret in self.secrets.iter().chain(&self.session) {
            let mut from = 0;
            while let Some(at) = text[from..].find(secret.as_str()) {
                let start = from + at;
                found.push(start..start + secret.len());
                // The next may begin inside this one.
                from = start + text[start..].chars().next().map_or(1, char::len_utf8);
            }
        }
        found.sort_by_key(|range| (range.start, range.end));
        let mut merged: Vec<Range<usize>> = Vec::with_capacity(found.len());
        for range in found {
            match merged.last_mut() {
                Some(last) if range.start <= last.end => last.end = last.end.max(range.end),
                _ => merged.push(range),
            }
        }
        merged
    }
}

/// Whether a variable of this name holds a secret.
fn is_telling(name: &str) -> bool {
    let name = name.to_uppercase();
    let tells = TELLING.iter().any(|word| name.contains(word)) || TELLING_ENDS.iter().any(|end| name.ends_with(end));
    tells && !PLACES.iter().any(|end| name.ends_with(end))
}

fn without(text: &str, found: &[Range<usize>]) -> String {
    let mut made = String::with_capacity(text.len());
    let mut from = 0;
    for range in found {
        made.push_str(&text[from..range.start]);
        made.push_str(REDACTED);
        from = range.end;
    }
    made.push_str(&text[from..]);
    made
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use serde_json::json;

    fn redactor(variables: &[(&str, &str)]) -> Redactor {
        let all: Vec<(OsString, OsString)> = variables.iter().map(|(n, v)| (n.into(), v.into())).collect();
        Redactor::new(all.iter().map(|(name, value)| (name, value)), |name| name == "LISTED")
    }

    #[test]
    fn a_variable_counts_by_its_name_and_its_length() {
        let text = "a-long-value";
        for (name, secret) in [
            ("OPENAI_API_KEY", true),
            ("github_token", true),
            ("RUNNER_TOKEN", true),
            ("DB_PASSWORD", true),
            ("DB_PASS", true),
            ("AWS_SECRET_ACCESS", true),
            ("MY_CREDENTIALS", true),
            ("LISTED", true),
            ("HOME", false),
            ("PWD", false),
            ("GIT_AUTHOR_NAME", false),
            ("AWS_SHARED_CREDENTIALS_FILE", false),
            ("LISTED_NOT", false),
        ] {
            let wanted = if secret { REDACTED } else { text };
            assert_eq!(redactor(&[(name, text)]).text(text), wanted, "{name}");
        }
        assert_eq!(redactor(&[("API_KEY", "short")]).text("short"), "short");
        assert_eq!(redactor(&[("API_KEY", "redacted")]).text("it is redacted"), "it is redacted");
    }

    #[test]
    fn secrets_that_overlap_are_taken_out_whole() {
        let both = redactor(&[("A_KEY", "abcdefgh"), ("B_KEY", "efghijkl"), ("C_KEY", "abcdefghij")]);
        assert_eq!(both.text("x abcdefghijkl y abcdefghi z"), "x [redacted] y [redacted]i z");
        let same = redactor(&[("A_KEY", "aaaaaaaa")]);
        assert_eq!(same.text("aaaaaaaaaaaaa"), "[redacted]");
    }

    #[test]
    fn every_text_of_a_record_is_cleaned_and_nothing_else() {
        let mut value =
            json!({"argv": ["x", "--key=hunter2hunter2"], "n": 7, "in": {"t": "hunter2hunter2\n"}, "z": null});
        redactor(&[("A_KEY", "hunter2hunter2")]).value(&mut value);
        assert_eq!(value, json!({"argv": ["x", "--key=[redacted]"], "n": 7, "in": {"t": "[redacted]\n"}, "z": null}));
    }

    #[test]
    fn the_secret_of_the_session_at_hand_is_known() {
        let mut redactor = redactor(&[]);
        redactor.begin_session("0123abcd");
        redactor.begin_session("4567abcd");
        assert_eq!(redactor.text("0123abcd 4567abcd"), "0123abcd [redacted]");
    }

    #[test]
    fn what_is_shown_of_it_in_a_debugger_is_no_secret() {
        assert_eq!(format!("{:?}", redactor(&[("A_KEY", "hunter2hunter2")])), "Redactor { secrets: 1, .. }");
    }

    proptest! {
        #[test]
        fn no_secret_value_survives(
            secrets in proptest::collection::vec("[ -~äß\\n]{8,40}", 1..5),
            pieces in proptest::collection::vec(("[ -~ä\\n]{0,20}", any::<prop::sample::Index>(), 0usize..40), 0..8),
        ) {
            let named: Vec<(OsString, OsString)> =
                secrets.iter().enumerate().map(|(n, secret)| (format!("KEY_{n}").into(), secret.into())).collect();
            let redactor = Redactor::new(named.iter().map(|(name, value)| (name, value)), |_| false);
            // Whole secrets and pieces of them between other words, so that they also overlap.
            let mut text = String::new();
            for (words, which, cut) in &pieces {
                let secret = which.get(&secrets);
                text.extend([words.as_str(), secret.as_str()]);
                text.extend(secret.chars().skip(*cut));
            }
            let clean = redactor.text(&text);
            for secret in redactor.secrets.iter().filter(|secret| !secret.contains(['[', ']'])) {
                prop_assert!(!clean.contains(secret.as_str()), "{secret:?} in {clean:?}");
            }
        }

        #[test]
        fn text_without_secrets_stays_as_it_is(text in "[a-z .,\\n]{0,80}") {
            prop_assume!(!text.contains("bearer"));
            prop_assert_eq!(redactor(&[("A_KEY", "HUNTER2HUNTER2")]).text(&text), text.as_str());
        }
    }
}
