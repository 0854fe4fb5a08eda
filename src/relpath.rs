//! Paths below the project's root as git and the kernel see them: bytes separated by `/`, in any encoding.
//!
//! Owns their spelling, escaping and order. Never touches the file system.

use std::ffi::OsStr;
use std::fmt;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// A non-empty path relative to the root, `/`-separated, of any bytes; ordered bytewise, as git orders its index.
///
/// Shown and serialised as text in which a backslash is `\\` and each byte that is no UTF-8 or is a control character is
/// `\xNN`; this is reversible.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RelPath(Vec<u8>);

impl RelPath {
    /// Takes the bytes as they are.
    pub fn new(bytes: impl Into<Vec<u8>>) -> Self {
        Self(bytes.into())
    }

    /// The bytes of the path.
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    /// The path as the operating system takes it, still relative to the root.
    pub fn as_path(&self) -> &Path {
        Path::new(OsStr::from_bytes(&self.0))
    }

    /// The path below `root`.
    pub fn under(&self, root: &Path) -> PathBuf {
        root.join(self.as_path())
    }

    /// `name` inside the folder `self`.
    #[must_use]
    pub fn child(&self, name: &[u8]) -> Self {
        let mut bytes = Vec::with_capacity(self.0.len() + 1 + name.len());
        bytes.extend_from_slice(&self.0);
        bytes.push(b'/');
        bytes.extend_from_slice(name);
        Self(bytes)
    }

    /// The last component.
    pub fn file_name(&self) -> &[u8] {
        self.0.rsplit(|byte| *byte == b'/').next().unwrap_or(&self.0)
    }

    /// Whether the path is `folder` itself or lies below it.
    pub fn is_in(&self, folder: &str) -> bool {
        self.0.strip_prefix(folder.as_bytes()).is_some_and(|rest| rest.is_empty() || rest[0] == b'/')
    }

    /// Reads the escaped form that `Display` writes; `None` if an escape is broken.
    pub fn from_escaped(text: &str) -> Option<Self> {
        let mut bytes = Vec::with_capacity(text.len());
        let mut rest = text.as_bytes();
        while let Some((&first, tail)) = rest.split_first() {
            rest = tail;
            if first != b'\\' {
                bytes.push(first);
                continue;
            }
            match rest {
                [b'\\', tail @ ..] => {
                    bytes.push(b'\\');
                    rest = tail;
                }
                [b'x', high, low, tail @ ..] => {
                    let digits = [*high, *low];
                    let digits = std::str::from_utf8(&digits).ok()?;
                    bytes.push(u8::from_str_radix(digits, 16).ok()?);
                    rest = tail;
                }
                _ => return None,
            }
        }
        Some(Self(bytes))
    }
}

impl From<&str> for RelPath {
    fn from(text: &str) -> Self {
        Self(text.as_bytes().to_vec())
    }
}

impl From<&Path> for RelPath {
    fn from(path: &Path) -> Self {
        Self(path.as_os_str().as_bytes().to_vec())
    }
}

impl fmt::Display for RelPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for chunk in self.0.utf8_chunks() {
            for c in chunk.valid().chars() {
                match c {
                    '\\' => f.write_str("\\\\")?,
                    // One escape a byte, so that reading back restores the bytes of a control character beyond ASCII.
                    c if c.is_control() => {
                        let mut buffer = [0; 4];
                        for byte in c.encode_utf8(&mut buffer).bytes() {
                            write!(f, "\\x{byte:02x}")?;
                        }
                    }
                    c => fmt::Write::write_char(f, c)?,
                }
            }
            for byte in chunk.invalid() {
                write!(f, "\\x{byte:02x}")?;
            }
        }
        Ok(())
    }
}

impl fmt::Debug for RelPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "\"{self}\"")
    }
}

impl Serialize for RelPath {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for RelPath {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        Self::from_escaped(&text).ok_or_else(|| serde::de::Error::custom(format!("{text:?} holds a broken \\ escape")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_name_that_is_no_utf_8_is_shown_escaped() {
        assert_eq!(RelPath::new(b"a/\xff\\\n\xc3\xa4".to_vec()).to_string(), "a/\\xff\\\\\\x0aä");
    }

    #[test]
    fn a_folder_holds_itself_and_what_lies_below_but_no_sibling() {
        assert!(RelPath::from("state/x").is_in("state"));
        assert!(RelPath::from("state").is_in("state"));
        assert!(!RelPath::from("stately/x").is_in("state"));
    }

    proptest! {
        #[test]
        fn the_escaped_form_reads_back_to_the_same_bytes(bytes in proptest::collection::vec(any::<u8>(), 0..40)) {
            let path = RelPath::new(bytes);
            prop_assert_eq!(RelPath::from_escaped(&path.to_string()), Some(path));
        }
    }
}
