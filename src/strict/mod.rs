//! Strict reading of the JSON a person writes: one file becomes one object whose every key is asked for by name and type.
//!
//! Owns how a fault in such a file is worded. Collects all faults of a file and never stops at the first; never guesses
//! (`true` is no number, `1.0` no integer) and never lets a key that is written twice pass.

mod document;
mod fields;

use std::fmt;

pub use document::Document;
pub use fields::{Fields, texts_of};

/// Something wrong in a file, worded for the person who wrote it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fault {
    /// The file, from the project's root where it lies below it.
    pub file: String,
    /// What is wrong and what to do, without the file's name.
    pub text: String,
}

impl Fault {
    /// A fault in `file`.
    pub fn new(file: impl Into<String>, text: impl Into<String>) -> Self {
        Self { file: file.into(), text: text.into() }
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.file, self.text)
    }
}

/// The faults as text, one a line.
pub fn lines(faults: &[Fault]) -> String {
    faults.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n")
}

/// What is wrong with a path that must lie below the root, or `None`.
pub fn path_problem(path: &str) -> Option<String> {
    let problem = if path.trim().is_empty() {
        "is empty; remove it or write a path from the project's root"
    } else if path.contains('\0') {
        "holds a NUL character; remove it"
    } else if path.starts_with('/') {
        "is absolute; write it from the project's root"
    } else if path.split('/').any(|part| part == "..") {
        "leads upwards with `..`; write it from the project's root"
    } else {
        return None;
    };
    Some(problem.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_stays_below_the_root() {
        for bad in ["", " ", "/etc", "a/../b", "..", "a\0"] {
            assert!(path_problem(bad).is_some(), "{bad:?}");
        }
        for good in ["a", "a..b/c", "src/**", "./x", "…"] {
            assert_eq!(path_problem(good), None, "{good:?}");
        }
    }
}
