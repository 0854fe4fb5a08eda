//! One line of a machine-readable output, looked into by name. What is not there, or of another type, is `None`.

use serde_json::Value;

use crate::tokens::{Cost, Figure};

/// The text at a place, such as `/error/message`.
pub(super) fn text<'v>(record: &'v Value, place: &str) -> Option<&'v str> {
    record.pointer(place)?.as_str()
}

/// The whole number at a place.
pub(super) fn number(record: &Value, place: &str) -> Option<u64> {
    record.pointer(place)?.as_u64()
}

/// The count of tokens at a place: the whole of it if it is stated.
pub(super) fn figure(record: &Value, place: &str) -> Figure {
    number(record, place).map_or(Figure::UNKNOWN, Figure::whole)
}

/// The dollars at a place.
pub(super) fn cost(record: &Value, place: &str) -> Cost {
    record.pointer(place).and_then(Value::as_f64).map_or(Cost::UNKNOWN, Cost::of_dollars)
}

/// The HTTP status at a place.
pub(super) fn status(record: &Value, place: &str) -> Option<u16> {
    number(record, place).and_then(|number| u16::try_from(number).ok()).filter(|status| (100..600).contains(status))
}

/// The sum of counts of which each is a part of the same whole; unknown if one of the first `needed` is.
pub(super) fn sum(needed: usize, figures: &[Figure]) -> Figure {
    if figures.iter().take(needed).any(|figure| !figure.known) {
        return Figure::UNKNOWN;
    }
    let stated = figures.iter().filter(|figure| figure.known);
    stated.fold(Figure::NOTHING, |sum, figure| sum.and(*figure))
}

/// The JSON object of a line; `None` if it holds none.
pub(super) fn parse(line: &[u8]) -> Option<Value> {
    let line = line.trim_ascii();
    if line.first() != Some(&b'{') {
        return None;
    }
    serde_json::from_slice(line).ok()
}
