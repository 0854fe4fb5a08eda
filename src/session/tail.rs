//! The end of a log, fit to be shown to a person or put into a record.

use std::path::Path;

use super::tool::last;
use crate::fs;

/// The last `max_bytes` bytes of a log as text: what is no UTF-8 is replaced, control characters other than line feed and
/// tab are escaped, so that a log cannot drive the reader's terminal. Empty if there is no such log.
pub fn tail(path: &Path, max_bytes: usize) -> String {
    let wanted = u64::try_from(max_bytes).unwrap_or(u64::MAX);
    let Ok(mut file) = fs::open_to_read(path) else { return String::new() };
    let is_cut = file.metadata().is_ok_and(|meta| meta.len() > wanted);
    let bytes = last(&mut file, wanted).unwrap_or_default();
    printable(if is_cut { without_partial_character(&bytes) } else { &bytes })
}

/// The bytes from the first that can begin a character: at most three are the rest of one that was cut.
fn without_partial_character(bytes: &[u8]) -> &[u8] {
    let rest = bytes.iter().take(3).take_while(|byte| **byte & 0xC0 == 0x80).count();
    &bytes[rest..]
}

fn printable(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len());
    for character in String::from_utf8_lossy(bytes).replace("\r\n", "\n").chars() {
        if character.is_control() && !matches!(character, '\n' | '\t') {
            text.extend(character.escape_default());
        } else {
            text.push(character);
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::tail;
    use crate::fs;

    fn tail_of(content: &[u8], max_bytes: usize) -> String {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("log");
        fs::replace(&path, content).unwrap();
        tail(&path, max_bytes)
    }

    #[test]
    fn only_the_end_is_shown_and_no_character_is_cut() {
        assert_eq!(tail_of(b"one\ntwo\n", 4), "two\n");
        assert_eq!(tail_of("aäb".as_bytes(), 2), "b");
        assert_eq!(tail_of(b"short", 100), "short");
        assert_eq!(tail_of(b"", 100), "");
    }

    #[test]
    fn a_log_cannot_drive_the_terminal() {
        assert_eq!(tail_of(b"\x1b[2J\ta\r\nb\rc\0\xff", 100), "\\u{1b}[2J\ta\nb\\rc\\u{0}\u{fffd}");
    }

    #[test]
    fn a_log_that_is_not_there_has_no_end() {
        assert_eq!(tail(std::path::Path::new("/nonexistent/log"), 10), "");
    }
}
