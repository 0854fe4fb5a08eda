//! A conversation as the text that stands before the new words of a prompt.

use super::exchange::{Exchange, Speaker};

const OPENING: &str = "This goes on from an earlier session, whose process is gone. Here is what was said in it, word for word and \
                       oldest first. What you are asked now stands after it.\n";

/// The heading under which the new words follow.
const CLOSING: &str = "\n## Asked now\n\n";

impl Exchange {
    /// What was said, each message whole and under a heading. A continued session's prompt is this, then the new words.
    ///
    /// The same messages give the same text; no run id is in it that nobody said.
    pub fn history(&self) -> String {
        let length: usize = self.messages().map(|message| message.text.len() + 32).sum();
        let mut text = String::with_capacity(OPENING.len() + length + CLOSING.len());
        text.push_str(OPENING);
        let mut session = 1_u64;
        for message in self.messages() {
            let heading = match message.from {
                Speaker::Runner => "Asked",
                Speaker::Agent => "Answered",
            };
            for piece in ["\n## ", heading, " (", &session.to_string(), ")\n\n", &message.text, "\n"] {
                text.push_str(piece);
            }
            session += u64::from(message.from == Speaker::Agent);
        }
        text.push_str(CLOSING);
        text
    }
}

#[cfg(test)]
mod tests {
    use super::super::Message;
    use super::*;

    #[test]
    fn history_holds_each_message_word_for_word_and_in_order() {
        let first = Exchange::begin("a.1", vec![Message::asked("/one\r\n\ttwo\n")], "");
        let second = first.then("b.1", vec![Message::asked("more"), Message::asked("and more")], " done ");
        let wanted = "\n## Asked (1)\n\n/one\r\n\ttwo\n\n\n## Answered (1)\n\n\n\n## Asked (2)\n\nmore\n\n## Asked (2)\n\nand \
                      more\n\n## Answered (2)\n\n done \n\n## Asked now\n\n";
        assert_eq!(second.history(), format!("{OPENING}{wanted}"));
        assert!(first.history().starts_with("This goes on"), "some agents take a leading `/` for a command");
    }

    #[test]
    fn what_was_said_at_the_edge_of_a_message_makes_another_history() {
        let texts = ["", "\n", "\n\n", " "].map(|answer| Exchange::begin("a.1", Vec::new(), answer).history());
        let all: std::collections::BTreeSet<&String> = texts.iter().collect();
        assert_eq!(all.len(), texts.len());
    }
}
