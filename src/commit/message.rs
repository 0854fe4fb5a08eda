//! What an agent says about its work: the rules of a commit message, as a pure function of the text.
//!
//! Owns the rules and the removal of forged trailers. Never reads a file.

/// Shortest subject, in characters.
pub const MIN_SUBJECT: usize = 15;
/// Longest subject, in characters.
pub const MAX_SUBJECT: usize = 100;
/// Longest message, in bytes.
pub const MAX_MESSAGE: usize = 64 * 1024;

/// Trailers that only the coordinator may write.
const OWN_TRAILERS: [&str; 7] = ["task", "agent", "role", "action", "status", "task-title", "task title"];
/// Trailers of an agent that stay, beside the coordinator's.
const KEPT_TRAILERS: [&str; 2] = ["signed-off-by", "co-authored-by"];

/// A rule that a message breaks.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum MessageFault {
    /// There is no text.
    #[error("the message is empty; write a subject, a blank line, `Changes:` and `Validation:`")]
    Empty,
    /// The bytes are no text.
    #[error("the message is not UTF-8; save it as UTF-8 text")]
    NotText,
    /// More text than a message may have.
    #[error("the message is {bytes} bytes long; keep it under {MAX_MESSAGE}")]
    TooLong {
        /// The length found.
        bytes: usize,
    },
    /// Subject too short or too long.
    #[error("the subject has {characters} characters; use {MIN_SUBJECT} to {MAX_SUBJECT}")]
    SubjectLength {
        /// The length found.
        characters: usize,
    },
    /// The first line is a section or a trailer.
    #[error("the first line is `{line}`; begin with a subject of {MIN_SUBJECT} to {MAX_SUBJECT} characters")]
    NoSubject {
        /// The line found instead.
        line: String,
    },
    /// A character that a terminal would obey.
    #[error("line {line} holds the control character U+{code:04X}; remove it")]
    ControlCharacter {
        /// The line, from 1.
        line: usize,
        /// The character.
        code: u32,
    },
    /// Text directly below the subject.
    #[error("line 2 is not blank; leave one blank line after the subject")]
    NoBlankLine,
    /// A required paragraph is not there.
    #[error("there is no `{name}:` paragraph; add one")]
    MissingParagraph {
        /// The paragraph's name.
        name: &'static str,
    },
    /// A required paragraph says nothing.
    #[error("the `{name}:` paragraph is empty; say something there")]
    EmptyParagraph {
        /// The paragraph's name.
        name: &'static str,
    },
}

/// A message that keeps all rules and holds no forged trailer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AgentMessage {
    subject: String,
    body: String,
    signatures: Vec<String>,
}

impl AgentMessage {
    /// A message from the flags of a verb; each part may have several lines but the subject only one.
    pub fn from_flags(subject: &str, changes: &str, validation: &str) -> Result<Self, MessageFault> {
        if subject.trim().is_empty() {
            return Err(MessageFault::SubjectLength { characters: 0 });
        }
        let (subject, changes, validation) = (subject.trim(), changes.trim(), validation.trim());
        parse(&format!("{subject}\n\nChanges: {changes}\n\nValidation: {validation}\n"))
    }

    /// The first line.
    pub fn subject(&self) -> &str {
        &self.subject
    }

    /// What follows the subject, without trailers.
    pub(super) fn body(&self) -> &str {
        &self.body
    }

    /// The agent's own trailers that are kept (`Signed-off-by`, `Co-authored-by`), one line each.
    pub(super) fn signatures(&self) -> &[String] {
        &self.signatures
    }

    /// The text of a message file that [`parse`] reads back to the same message.
    pub fn to_text(&self) -> String {
        let mut text = format!("{}\n\n{}\n", self.subject, self.body);
        if !self.signatures.is_empty() {
            text.push('\n');
            text.push_str(&self.signatures.join("\n"));
            text.push('\n');
        }
        text
    }
}

/// Reads the bytes of a message file; as [`parse`], and the bytes must be UTF-8.
pub fn parse_bytes(bytes: &[u8]) -> Result<AgentMessage, MessageFault> {
    parse(std::str::from_utf8(bytes).map_err(|_| MessageFault::NotText)?)
}

/// Checks an agent's text against the rules and removes trailers that only the coordinator may write.
///
/// CRLF, a byte order mark, spaces at line ends and blank lines around the text do not matter.
pub fn parse(text: &str) -> Result<AgentMessage, MessageFault> {
    if text.len() > MAX_MESSAGE {
        return Err(MessageFault::TooLong { bytes: text.len() });
    }
    let text = text.trim_start_matches('\u{feff}').replace("\r\n", "\n");
    let text = text.trim_start_matches(['\n', ' ', '\t']).trim_end();
    if text.is_empty() {
        return Err(MessageFault::Empty);
    }
    refuse_control_characters(text)?;
    let mut lines = text.lines().map(str::trim_end);
    let subject = lines.next().unwrap_or_default();
    check_subject(subject)?;
    if lines.next().is_some_and(|second| !second.is_empty()) {
        return Err(MessageFault::NoBlankLine);
    }
    let (body, signatures) = without_trailers(lines);
    for name in ["Changes", "Validation"] {
        require_paragraph(&body, name)?;
    }
    Ok(AgentMessage { subject: subject.to_owned(), body, signatures })
}

/// Text may be laid out with line ends and tabs and nothing else.
fn refuse_control_characters(text: &str) -> Result<(), MessageFault> {
    for (index, line) in text.lines().enumerate() {
        let control = line.chars().find(|c| (c.is_control() && *c != '\t') || matches!(c, '\u{2028}' | '\u{2029}'));
        if let Some(c) = control {
            return Err(MessageFault::ControlCharacter { line: index + 1, code: u32::from(c) });
        }
    }
    Ok(())
}

fn check_subject(subject: &str) -> Result<(), MessageFault> {
    if subject.contains('\t') {
        return Err(MessageFault::ControlCharacter { line: 1, code: 9 });
    }
    let name = label(subject).unwrap_or_default();
    if is_one_of(name, &OWN_TRAILERS) || is_one_of(name, &KEPT_TRAILERS) || is_one_of(name, &["changes", "validation"])
    {
        return Err(MessageFault::NoSubject { line: subject.to_owned() });
    }
    let characters = subject.chars().count();
    if !(MIN_SUBJECT..=MAX_SUBJECT).contains(&characters) {
        return Err(MessageFault::SubjectLength { characters });
    }
    Ok(())
}

/// The body without trailers, blank lines run together, and the kept trailers in their order.
fn without_trailers<'a>(lines: impl Iterator<Item = &'a str>) -> (String, Vec<String>) {
    let mut body: Vec<&str> = Vec::new();
    let mut signatures: Vec<String> = Vec::new();
    let mut dropping = false;
    for line in lines {
        // A trailer's value may go on in indented lines (`git-interpret-trailers(1)`).
        if dropping && line.starts_with([' ', '\t']) {
            continue;
        }
        let name = label(line).unwrap_or_default();
        dropping = is_one_of(name, &OWN_TRAILERS);
        if dropping {
            continue;
        }
        if is_one_of(name, &KEPT_TRAILERS) {
            signatures.push(line.trim().to_owned());
        } else if !line.is_empty() || body.last().is_some_and(|last| !last.is_empty()) {
            body.push(line);
        }
    }
    (body.join("\n").trim().to_owned(), signatures)
}

/// The text before the first colon of a line.
fn label(line: &str) -> Option<&str> {
    line.split_once(':').map(|(name, _)| name.trim())
}

fn is_one_of(name: &str, names: &[&str]) -> bool {
    names.iter().any(|candidate| candidate.eq_ignore_ascii_case(name))
}

/// Demands a paragraph that begins with `name:` and says something before the next one begins.
fn require_paragraph(body: &str, name: &'static str) -> Result<(), MessageFault> {
    let mut lines = body.lines().skip_while(|line| !label(line).is_some_and(|label| label.eq_ignore_ascii_case(name)));
    let Some(first) = lines.next() else { return Err(MessageFault::MissingParagraph { name }) };
    let rest = lines.take_while(|line| !label(line).is_some_and(|label| is_one_of(label, &["changes", "validation"])));
    let first = first.split_once(':').map_or("", |(_, text)| text);
    if std::iter::once(first).chain(rest).all(|line| line.trim().is_empty()) {
        return Err(MessageFault::EmptyParagraph { name });
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const GOOD: &str = "Add the parser for dates\n\nChanges: one file.\nValidation: cargo test.\n";

    #[test]
    fn a_message_that_keeps_the_rules_is_taken_as_it_is() {
        let message = parse(GOOD).unwrap();
        assert_eq!(message.to_text(), GOOD);
        assert_eq!(message.subject(), "Add the parser for dates");
    }

    #[test]
    fn each_broken_rule_is_named() {
        let long = "x".repeat(101);
        let cases: Vec<(String, MessageFault)> = vec![
            (" \n\n".into(), MessageFault::Empty),
            ("Too short\n\nChanges: a\nValidation: b".into(), MessageFault::SubjectLength { characters: 9 }),
            (format!("{long}\n\nChanges: a"), MessageFault::SubjectLength { characters: 101 }),
            (
                "Changes: a file and more\n\nValidation: b".into(),
                MessageFault::NoSubject { line: "Changes: a file and more".into() },
            ),
            (
                "Task: S00-009 is finished\n\nChanges: a\nValidation: b".into(),
                MessageFault::NoSubject { line: "Task: S00-009 is finished".into() },
            ),
            ("Add the parser for dates\nChanges: a".into(), MessageFault::NoBlankLine),
            ("Add the parser for dates".into(), MessageFault::MissingParagraph { name: "Changes" }),
            ("Add the parser for dates\n\nChanges: a".into(), MessageFault::MissingParagraph { name: "Validation" }),
            (
                "Add the parser for dates\n\nChanges:\n\nValidation: b".into(),
                MessageFault::EmptyParagraph { name: "Changes" },
            ),
            (
                "Add the parser for dates\n\nChanges: \u{1b}[2J".into(),
                MessageFault::ControlCharacter { line: 3, code: 0x1b },
            ),
            ("Add the\0 parser for dates\n".into(), MessageFault::ControlCharacter { line: 1, code: 0 }),
            ("x".repeat(MAX_MESSAGE + 1), MessageFault::TooLong { bytes: MAX_MESSAGE + 1 }),
        ];
        for (text, fault) in cases {
            assert_eq!(parse(&text), Err(fault), "{text:.60?}");
        }
        assert_eq!(parse_bytes(b"\xff\xfe"), Err(MessageFault::NotText));
    }

    #[test]
    fn the_bounds_of_the_subject_are_inclusive_and_count_characters() {
        for subject in ["x".repeat(15), "ä".repeat(100)] {
            assert!(parse(&format!("{subject}\n\nChanges: a\nValidation: b")).is_ok());
        }
        assert!(parse(&format!("{}\n\nChanges: a\nValidation: b", "ä".repeat(14))).is_err());
    }

    #[test]
    fn a_forged_trailer_is_removed_in_any_case_with_its_continuation() {
        let text = "Add the parser for dates\n\nChanges: a\nValidation: b\n\nTASK: S99\n  and more\nTask title: x\n \
                    Status : done\nrole:qa\nTask-Title: y\nAgent: z\nAction: approve\nCo-authored-by: A <a@b>\n";
        let message = parse(text).unwrap();
        assert_eq!(
            message.to_text(),
            "Add the parser for dates\n\nChanges: a\nValidation: b\n\nCo-authored-by: A <a@b>\n"
        );
    }

    #[test]
    fn a_list_in_a_paragraph_stays() {
        let text = "Add the parser for dates\n\nChanges:\n- Status: shown\n- two\n\nValidation:\n\n- ran it\n";
        assert_eq!(parse(text).unwrap().to_text(), text);
    }

    #[test]
    fn line_ends_and_byte_order_mark_do_not_matter() {
        let text = format!("\u{feff}\r\n{}", GOOD.replace('\n', "  \r\n"));
        assert_eq!(parse(&text), parse(GOOD));
    }

    #[test]
    fn flags_make_the_same_message_as_a_file() {
        let message =
            AgentMessage::from_flags("Add the parser for dates", "one file.\nTask: x", "cargo test.").unwrap();
        assert_eq!(message.to_text(), "Add the parser for dates\n\nChanges: one file.\n\nValidation: cargo test.\n");
        assert_eq!(AgentMessage::from_flags("", "a", "b"), Err(MessageFault::SubjectLength { characters: 0 }));
        assert!(AgentMessage::from_flags("Two\nlines in the subject", "a", "b").is_err());
        assert!(AgentMessage::from_flags("Add the parser for dates", "", "b").is_err());
    }

    proptest! {
        #[test]
        fn what_was_accepted_is_accepted_again_unchanged(body in "[ -~\n\tä]{0,200}") {
            let text = format!("Add the parser for dates\n\nChanges: a\n{body}\nValidation: b\n");
            if let Ok(message) = parse(&text) {
                prop_assert_eq!(parse(&message.to_text()), Ok(message));
            }
        }

        #[test]
        fn no_accepted_message_holds_a_trailer_of_the_coordinator(body in "(( |\t)?(task|Agent|STATUS|Role|x) ?: ?[a-z ]{0,5}\n){0,8}") {
            let text = format!("Add the parser for dates\n\nChanges: a\nValidation: b\n\n{body}");
            let message = parse(&text).unwrap();
            for line in message.to_text().lines().skip(1) {
                prop_assert!(!is_one_of(label(line).unwrap_or_default(), &OWN_TRAILERS), "{}", line);
            }
        }
    }
}
