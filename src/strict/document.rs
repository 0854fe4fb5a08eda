//! One JSON file, parsed with the keys it writes twice remembered.

use std::fmt;
use std::path::Path;

use serde::de::{DeserializeSeed, Deserializer, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Number, Value};

use super::{Fault, Fields};
use crate::fs::JsonError;

/// A JSON file that was parsed, with the keys that were written twice.
pub struct Document {
    file: String,
    value: Value,
    doubled: Vec<String>,
}

impl Document {
    /// Parses bytes that came from `path`; the fault of what is no JSON names file, line and column.
    pub fn parse(path: &Path, bytes: &[u8]) -> Result<Self, Fault> {
        let mut doubled = Vec::new();
        let mut source = serde_json::Deserializer::from_slice(bytes);
        let value = Whole { doubled: &mut doubled, at: &Place::Top }.deserialize(&mut source);
        match value.and_then(|value| source.end().map(|()| value)) {
            Ok(value) => Ok(Self { file: path.display().to_string(), value, doubled }),
            Err(source) => Err(syntax_fault(path, source)),
        }
    }

    /// Reads the file's object with `read` and gives back what it made and every fault found on the way.
    pub fn read<T>(&self, read: impl FnOnce(&mut Fields<'_>) -> T) -> (Option<T>, Vec<Fault>) {
        let mut texts: Vec<String> = self.doubled.iter().map(|key| doubled_text(key)).collect();
        let made = match &self.value {
            Value::Object(map) => {
                let (made, mut faults) = Fields::whole(map, read);
                texts.append(&mut faults);
                Some(made)
            }
            other => {
                texts.push(format!("must hold one object, not {}", super::fields::kind(other)));
                None
            }
        };
        (made, texts.into_iter().map(|text| Fault::new(self.file.clone(), text)).collect())
    }
}

/// The fault as `file:line:column: what`, in the words the file door has for it.
fn syntax_fault(path: &Path, source: serde_json::Error) -> Fault {
    let place = format!("{}:{}:{}", path.display(), source.line(), source.column());
    let shown = JsonError::Syntax { path: path.to_owned(), source }.to_string();
    let what = shown.strip_prefix(&place).and_then(|rest| rest.strip_prefix(": ")).unwrap_or(&shown);
    Fault::new(place, what)
}

fn doubled_text(key: &str) -> String {
    format!("key `{key}` is written twice; keep one")
}

/// Where in the document a key stands.
enum Place<'a> {
    Top,
    Under(&'a Place<'a>, &'a str),
}

impl Place<'_> {
    fn with(&self, key: &str) -> String {
        match self {
            Place::Top => key.to_owned(),
            Place::Under(outer, name) => format!("{}.{key}", outer.with(name)),
        }
    }
}

/// Builds a [`Value`] as `serde_json` would, but remembers each key that comes a second time; the first value stays.
struct Whole<'a> {
    doubled: &'a mut Vec<String>,
    at: &'a Place<'a>,
}

impl<'de> DeserializeSeed<'de> for Whole<'_> {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, source: D) -> Result<Value, D::Error> {
        source.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Whole<'_> {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON value")
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_bool<E>(self, value: bool) -> Result<Value, E> {
        Ok(Value::Bool(value))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Value, E> {
        Ok(Value::from(value))
    }

    fn visit_u64<E>(self, value: u64) -> Result<Value, E> {
        Ok(Value::from(value))
    }

    fn visit_f64<E>(self, value: f64) -> Result<Value, E> {
        Ok(Number::from_f64(value).map_or(Value::Null, Value::Number))
    }

    fn visit_str<E>(self, value: &str) -> Result<Value, E> {
        Ok(Value::from(value))
    }

    fn visit_string<E>(self, value: String) -> Result<Value, E> {
        Ok(Value::String(value))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Value, A::Error> {
        let mut list = Vec::new();
        while let Some(item) = items.next_element_seed(Whole { doubled: self.doubled, at: self.at })? {
            list.push(item);
        }
        Ok(Value::Array(list))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<Value, A::Error> {
        let mut map = Map::new();
        while let Some(key) = entries.next_key::<String>()? {
            let value = entries.next_value_seed(Whole { doubled: self.doubled, at: &Place::Under(self.at, &key) })?;
            if map.contains_key(&key) {
                self.doubled.push(self.at.with(&key));
            } else {
                map.insert(key, value);
            }
        }
        Ok(Value::Object(map))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn broken_json_is_named_by_file_line_and_column() {
        let error = Document::parse(Path::new("a/x.json"), b"{\n  \"id\": ,\n}").err().unwrap().to_string();
        assert_eq!(error, "a/x.json:2:9: expected value");
        assert!(Document::parse(Path::new("x"), b"{} {}").is_err(), "text after the object");
        assert!(Document::parse(Path::new("x"), b"{\"a\": NaN}").is_err());
        assert!(Document::parse(Path::new("x"), b"{\"a\": \"\xff\"}").is_err());
        assert!(Document::parse(Path::new("x"), b"").is_err());
    }

    #[test]
    fn a_key_written_twice_is_a_fault_wherever_it_stands() {
        let json = r#"{"a": {"b": 1, "b": 2}, "a": 3, "c": [{"d": 1, "d": 1}]}"#;
        let document = Document::parse(Path::new("x.json"), json.as_bytes()).unwrap();
        let faults: Vec<String> = document.read(|_| ()).1.iter().map(ToString::to_string).collect();
        assert_eq!(
            faults,
            ["a.b", "a", "c.d"].map(|key| format!("x.json: key `{key}` is written twice; keep one")).to_vec()
        );
    }
}
