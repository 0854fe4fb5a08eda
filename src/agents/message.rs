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
    pub(super) fn finish(mut self) -> Option<FinalMessage> {
        let bytes = self.bytes.make_contiguous();
        // At most three bytes are the rest of a character that was cut.
        let rest =
            if self.truncated { bytes.iter().take(3).take_while(|byte| **byte & 0xC0 == 0x80).count() } else { 0 };
        let text = String::from_utf8_lossy(&bytes[rest..]).trim().to_owned();
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
    fn a_blank_message_is_none() {
        let mut tail = Tail::default();
        tail.push(b" \n");
        assert_eq!(tail.finish(), None);
    }
}
