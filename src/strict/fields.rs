//! The keys of one object, each asked for by name and type.

use std::fmt;
use std::ops::RangeInclusive;
use std::str::FromStr;

use serde_json::{Map, Value};

use crate::ids::BadName;

/// One object being read: each key is asked for once; what was not asked for is a fault at [`Fields::finish`].
pub struct Fields<'v> {
    at: String,
    map: &'v Map<String, Value>,
    known: Vec<&'static str>,
    faults: Vec<String>,
}

impl<'v> Fields<'v> {
    /// Begins to read the object `map`; `at` is the place of its keys in the file, "" or "outer.".
    fn of(at: String, map: &'v Map<String, Value>) -> Self {
        Self { at, map, known: Vec::new(), faults: Vec::new() }
    }

    /// Reads a file's object with `read`; gives back what it made and the faults it found.
    pub(super) fn whole<T>(map: &'v Map<String, Value>, read: impl FnOnce(&mut Fields<'v>) -> T) -> (T, Vec<String>) {
        let mut fields = Self::of(String::new(), map);
        let made = read(&mut fields);
        (made, fields.faults)
    }

    /// Adds a fault of `key`: `problem` reads on from "key `x` ".
    pub fn fault(&mut self, key: &str, problem: impl fmt::Display) {
        self.faults.push(format!("key `{}{key}` {problem}", self.at));
    }

    /// The value of `key`, whatever its type.
    pub fn value(&mut self, key: &'static str) -> Option<&'v Value> {
        self.known.push(key);
        self.map.get(key)
    }

    /// The text under `key`; a fault if it is there and no text.
    pub fn text(&mut self, key: &'static str) -> Option<&'v str> {
        self.typed(key, "a text", Value::as_str)
    }

    /// As [`Fields::text`]; a fault also if it is missing or blank.
    pub fn required_text(&mut self, key: &'static str) -> Option<&'v str> {
        self.require(key);
        let text = self.text(key)?;
        if text.trim().is_empty() {
            self.fault(key, "is empty; write it");
            return None;
        }
        Some(text)
    }

    /// The boolean under `key`.
    pub fn boolean(&mut self, key: &'static str) -> Option<bool> {
        self.typed(key, "true or false", Value::as_bool)
    }

    /// The integer under `key`, within `range`.
    pub fn integer(&mut self, key: &'static str, range: &RangeInclusive<i64>) -> Option<i64> {
        let wanted = if *range == (i64::MIN..=i64::MAX) {
            "an integer".to_owned()
        } else {
            format!("an integer from {} to {}", range.start(), range.end())
        };
        self.typed(key, &wanted, |value| value.as_i64().filter(|number| range.contains(number)))
    }

    /// As [`Fields::integer`] without a range; a fault also if it is missing.
    pub fn required_integer(&mut self, key: &'static str) -> Option<i64> {
        self.require(key);
        self.integer(key, &(i64::MIN..=i64::MAX))
    }

    /// The number under `key` for which `fits` holds; `wanted` words the range.
    pub fn number(&mut self, key: &'static str, wanted: &str, fits: impl Fn(f64) -> bool) -> Option<f64> {
        self.typed(key, wanted, |value| value.as_f64().filter(|number| fits(*number)))
    }

    /// The list of texts under `key`.
    pub fn texts(&mut self, key: &'static str) -> Option<Vec<String>> {
        self.typed(key, "a list of texts", texts_of)
    }

    /// As [`Fields::texts`]; a fault also if it is missing.
    pub fn required_texts(&mut self, key: &'static str) -> Option<Vec<String>> {
        self.require(key);
        self.texts(key)
    }

    /// The list of texts under `key`, each without a fault by `check`, which words one ("is empty").
    pub fn checked_texts(&mut self, key: &'static str, check: impl Fn(&str) -> Option<String>) -> Option<Vec<String>> {
        let texts = self.texts(key)?;
        for text in &texts {
            if let Some(problem) = check(text) {
                self.fault(key, format!("holds {text:?}, which {problem}"));
            }
        }
        Some(texts)
    }

    /// The list of commands under `key`.
    pub fn commands(&mut self, key: &'static str) -> Option<Vec<Vec<String>>> {
        let value = self.value(key)?;
        self.commands_of(key, value)
    }

    /// The list of commands `value`, which stands under `key`: each a list of arguments, never a line for a shell.
    pub fn commands_of(&mut self, key: &str, value: &Value) -> Option<Vec<Vec<String>>> {
        let commands: Option<Vec<Vec<String>>> = value.as_array().and_then(|list| list.iter().map(texts_of).collect());
        let has = |bad: fn(&String) -> bool| commands.iter().flatten().flatten().any(bad);
        let problem = match &commands {
            None => "must be a list of commands, each a list of texts, one for each argument (no shell line)",
            Some(commands) if commands.iter().any(Vec::is_empty) => "holds an empty list; name the program",
            Some(_) if has(String::is_empty) => "holds an empty argument; remove it",
            Some(_) if has(|text| text.contains('\0')) => {
                "holds a NUL character, which no program can be given; remove it"
            }
            Some(_) => return commands,
        };
        self.fault(key, problem);
        None
    }

    /// The name under `key`; a fault also if it is missing or malformed.
    pub fn required_name<T: FromStr<Err = BadName>>(&mut self, key: &'static str) -> Option<T> {
        self.require(key);
        self.name(key)
    }

    /// The name under `key`; a fault if it is malformed.
    pub fn name<T: FromStr<Err = BadName>>(&mut self, key: &'static str) -> Option<T> {
        let text = self.text(key)?;
        self.parsed(key, text)
    }

    /// The list of names under `key`; empty if it is missing.
    pub fn names<T: FromStr<Err = BadName>>(&mut self, key: &'static str) -> Vec<T> {
        let texts = self.texts(key).unwrap_or_default();
        texts.iter().filter_map(|text| self.parsed(key, text)).collect()
    }

    /// Parses `text`, which stands under `key`, as a name.
    pub fn parsed<T: FromStr<Err = BadName>>(&mut self, key: &str, text: &str) -> Option<T> {
        text.parse().map_err(|bad| self.fault(key, format!("holds a bad name: {bad}"))).ok()
    }

    /// Reads the object under `key` with `read`.
    pub fn object<T>(&mut self, key: &'static str, read: impl FnOnce(&mut Fields<'v>) -> T) -> Option<T> {
        let map = self.typed(key, "an object", Value::as_object)?;
        Some(self.inner(key, map, read))
    }

    /// Reads each entry of the object under `key`, whose own keys are free.
    pub fn entries(&mut self, key: &'static str) -> Vec<(&'v str, &'v Value)> {
        let map = self.typed(key, "an object", Value::as_object);
        map.into_iter().flatten().map(|(name, value)| (name.as_str(), value)).collect()
    }

    /// Reads `map`, which stands under `key`, with `read`.
    pub fn inner<T>(&mut self, key: &str, map: &'v Map<String, Value>, read: impl FnOnce(&mut Fields<'v>) -> T) -> T {
        let at = format!("{}{key}.", self.at);
        let mut fields = Fields::of(at, map);
        let made = read(&mut fields);
        self.faults.append(&mut fields.faults);
        made
    }

    /// A fault for each key nobody asked for.
    pub fn finish(&mut self) {
        for key in self.map.keys() {
            if self.known.contains(&key.as_str()) {
                continue;
            }
            let problem = unknown(key, &self.known);
            self.fault(key, problem);
        }
    }

    fn require(&mut self, key: &'static str) {
        if !self.map.contains_key(key) {
            self.fault(key, "is missing; add it");
        }
    }

    fn typed<T>(&mut self, key: &'static str, wanted: &str, read: impl FnOnce(&'v Value) -> Option<T>) -> Option<T> {
        let value = self.value(key)?;
        let made = read(value);
        if made.is_none() {
            self.fault(key, format!("must be {wanted}, not {}", kind(value)));
        }
        made
    }
}

/// The texts of a list that holds nothing else.
pub fn texts_of(value: &Value) -> Option<Vec<String>> {
    value.as_array()?.iter().map(|item| item.as_str().map(str::to_owned)).collect()
}

/// A value as a person would name it in "not …".
pub(super) fn kind(value: &Value) -> String {
    match value {
        Value::Null => "null".to_owned(),
        Value::Bool(_) | Value::Number(_) => format!("`{value}`"),
        Value::String(text) if text.chars().count() <= 40 => format!("the text {text:?}"),
        Value::String(_) => "a text".to_owned(),
        Value::Array(items) => match items.iter().find(|item| !item.is_string()) {
            Some(item) if !item.is_array() => format!("a list that holds {}", kind(item)),
            _ => "a list".to_owned(),
        },
        Value::Object(_) => "an object".to_owned(),
    }
}

/// "is unknown", with the nearest known key if one is near.
fn unknown(key: &str, known: &[&str]) -> String {
    let distance = |other: &str| strsim::osa_distance(&key.to_lowercase(), &other.to_lowercase());
    let nearest = known.iter().map(|other| (distance(other), *other)).min();
    match nearest {
        Some((distance, other)) if distance <= (other.len() / 3).max(2) => {
            format!("is unknown; did you mean `{other}`?")
        }
        _ => format!("is unknown; remove it, the keys here are {}", known.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::super::Document;
    use super::*;

    fn texts(json: &str, read: impl FnOnce(&mut Fields<'_>)) -> Vec<String> {
        let document = Document::parse(Path::new("x.json"), json.as_bytes()).unwrap();
        document.read(read).1.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn an_unknown_key_names_the_nearest_known_one() {
        let faults = texts(r#"{"depnds_on": [], "DEPENDS_ON": [], "zebra": 1}"#, |fields| {
            fields.texts("depends_on");
            fields.finish();
        });
        assert_eq!(
            faults,
            [
                "x.json: key `depnds_on` is unknown; did you mean `depends_on`?",
                "x.json: key `DEPENDS_ON` is unknown; did you mean `depends_on`?",
                "x.json: key `zebra` is unknown; remove it, the keys here are depends_on",
            ]
        );
    }

    #[test]
    fn types_are_strict() {
        let all = |fields: &mut Fields<'_>| {
            fields.integer("i", &(1..=9));
            fields.texts("l");
            fields.boolean("b");
            fields.required_text("t");
        };
        for (json, fault) in [
            (r#"{"t": "x", "i": true}"#, "key `i` must be an integer from 1 to 9, not `true`"),
            (r#"{"t": "x", "i": 1.0}"#, "key `i` must be an integer from 1 to 9, not `1.0`"),
            (r#"{"t": "x", "i": 10}"#, "key `i` must be an integer from 1 to 9, not `10`"),
            (r#"{"t": "x", "i": "1"}"#, "key `i` must be an integer from 1 to 9, not the text \"1\""),
            (r#"{"t": "x", "i": null}"#, "key `i` must be an integer from 1 to 9, not null"),
            (r#"{"t": "x", "l": ["a", 1]}"#, "key `l` must be a list of texts, not a list that holds `1`"),
            (r#"{"t": "x", "l": {}}"#, "key `l` must be a list of texts, not an object"),
            (r#"{"t": "x", "b": 1}"#, "key `b` must be true or false, not `1`"),
            (r#"{"t": " "}"#, "key `t` is empty; write it"),
            ("{}", "key `t` is missing; add it"),
            ("[]", "must hold one object, not a list"),
        ] {
            assert_eq!(texts(json, all), [format!("x.json: {fault}")], "{json}");
        }
    }
}
