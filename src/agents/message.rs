//! The agent's last words, in bounded memory.

use std::collections::VecDeque;

/// How much of a final message is kept: its newest end, in bytes.
pub const MESSAGE_KEPT: usize = 1 << 20;

/// What an agent said last.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FinalMessage {
    /// Its text; what is no UTF-8 is replaced.
    pub text: String,
    /// Whether its beginning was cut off, since it is longer than [`MESSAGE_KEPT`].
    pub truncated: bool,
}

/// A text that is being gathered, of which the newest end is kept.
#[derive(Debug, Default)]
pub(super) struct Tail {
    bytes: VecDeque<u8>,
    truncated: bool,
}

impl Tail {
    /// Adds to its end.
    pub(super) fn push(&mut self, bytes: &[u8]) {
        let newest = &bytes[bytes.len().saturating_sub(MESSAGE_KEPT)..];
        // What has to go goes first, so that there never is room for more than is kept.
        let over = (self.bytes.len() + newest.len()).saturating_sub(MESSAGE_KEPT);
        self.truncated |= newest.len() < bytes.len() || over > 0;
        self.bytes.drain(..over);
        let needed = self.bytes.len() + newest.len();
        if needed > self.bytes.capacity() {
            let room = (2 * self.bytes.capacity()).clamp(needed, MESSAGE_KEPT);
            self.bytes.reserve_exact(room - self.bytes.len());
        }
        self.bytes.extend(newest);
    }

    /// Begins anew.
    pub(super) fn clear(&mut self) {
        *self = Self::default();
    }

    /// Something of it is missing.
    pub(super) fn gap(&mut self) {
        self.clear();
        self.truncated = true;
    }

    /// The text; nothing if it is blank.
    pub(super) fn finish(self) -> Option<FinalMessage> {
        // Nowhere is there a second copy of it.
        let mut bytes = Vec::from(self.bytes);
        // At most three bytes are the rest of a character that was cut.
        let rest =
            if self.truncated { bytes.iter().take(3).take_while(|byte| **byte & 0xC0 == 0x80).count() } else { 0 };
        bytes.drain(..rest);
        let mut text =
            String::from_utf8(bytes).unwrap_or_else(|error| String::from_utf8_lossy(error.as_bytes()).into_owned());
        text.truncate(text.trim_end().len());
        text.drain(..text.len() - text.trim_start().len());
        (!text.is_empty()).then_some(FinalMessage { text, truncated: self.truncated })
    }
}

#[cfg(test)]
mod tests {
    use super::{MESSAGE_KEPT, Tail};

    #[test]
    fn of_a_long_message_the_newest_end_is_kept_and_no_character_is_cut() {
        let mut tail = Tail::default();
        for _ in 0..MESSAGE_KEPT {
            tail.push("äö".as_bytes());
        }
        tail.push(b"x");
        let message = tail.finish().unwrap();
        assert!(message.truncated && message.text.len() == MESSAGE_KEPT - 1);
        assert!(message.text.starts_with("öä") && message.text.ends_with("öx"), "{}", &message.text[..10]);
    }

    #[test]
    fn there_is_never_room_for_more_than_is_kept() {
        let mut tail = Tail::default();
        for size in [1, 100_000, 700_001, MESSAGE_KEPT, 3 * MESSAGE_KEPT, 5, 65_536] {
            tail.push(&vec![b'x'; size]);
            assert!(tail.bytes.capacity() <= MESSAGE_KEPT, "{} after {size}", tail.bytes.capacity());
        }
    }

    #[test]
    fn what_is_no_utf_8_is_replaced_and_blanks_around_are_cut() {
        let mut tail = Tail::default();
        tail.push(b" \n a\xffb \n");
        assert_eq!(tail.finish().unwrap().text, "a\u{fffd}b");
    }

    #[test]
    fn a_blank_message_is_none() {
        let mut tail = Tail::default();
        tail.push(b" \n");
        assert_eq!(tail.finish(), None);
    }
}
