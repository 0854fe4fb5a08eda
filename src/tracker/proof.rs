//! The code that ties an event written inside a session to the session's secret.
//!
//! Pure. HMAC-SHA-256 (RFC 2104) under the secret over the row as it was written, without the code itself, and over what
//! came into being with it (the card of a remediation). It makes accidents and shortcuts visible; a process that reads the
//! secret out of its own environment can of course use it.

use hmac::{Hmac, KeyInit, Mac};
use sha2::{Digest, Sha256};

use crate::ids::hex;

use super::row::Row;

/// The secret of one session; its text goes into the session's environment, only its hash into files.
#[derive(Clone)]
pub struct Token(String);

impl Token {
    /// A token from 32 random bytes.
    pub fn from_random(bytes: [u8; 32]) -> Self {
        Self(hex(&bytes))
    }

    /// The token as it stands in a session's environment.
    pub fn from_text(text: &str) -> Self {
        Self(text.to_owned())
    }

    /// The text for the session's environment.
    pub fn text(&self) -> &str {
        &self.0
    }

    /// SHA-256 of the text in lower-case hex.
    pub fn hash(&self) -> String {
        hex(&Sha256::digest(self.0.as_bytes()))
    }

    /// The code for `row`, whose last event is the one to prove; `extra` is what came into being with it.
    ///
    /// # Panics
    /// Never: HMAC takes a key of any length.
    pub fn code(&self, row: &Row, extra: &str) -> String {
        let mut bare = row.clone();
        if let Some(event) = bare.events.last_mut() {
            event.code = None;
        }
        let mut mac = Hmac::<Sha256>::new_from_slice(self.0.as_bytes()).expect("HMAC takes a key of any length");
        mac.update(bare.to_json().as_bytes());
        mac.update(b"\0");
        mac.update(extra.as_bytes());
        hex(&mac.finalize().into_bytes())
    }

    /// Puts the code into the last event of `row`.
    pub fn sign(&self, row: &mut Row, extra: &str) {
        let code = self.code(row, extra);
        if let Some(event) = row.events.last_mut() {
            event.code = Some(code);
        }
    }

    /// Whether `after` is `before` plus exactly one event that carries this token's code.
    pub fn explains(&self, before: &Row, after: &Row, extra: &str) -> bool {
        let Some((last, earlier)) = after.events.split_last() else { return false };
        earlier == before.events.as_slice() && last.code.as_deref() == Some(self.code(after, extra).as_str())
    }
}

impl std::fmt::Debug for Token {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Token(…)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tracker::row::{Action, Event, Status};
    use crate::tracker::samples::card;

    fn event(seq: u64, action: Action, (from, to): (Status, Status)) -> Event {
        Event { seq, at: "T".to_owned(), action, agent: "auto-a".to_owned(), from, to, note: None, code: None }
    }

    type Forge = fn(&mut Row);

    /// A claimed row, and the same with a submit signed by `token`.
    fn submitted(token: &Token) -> (Row, Row) {
        let claim = event(1, Action::Claim, (Status::Todo, Status::InProgress));
        let before = Row { status: Status::InProgress, events: vec![claim], ..Row::default() };
        let mut after = Row { status: Status::Review, ..before.clone() };
        after.events.push(event(2, Action::Submit, (Status::InProgress, Status::Review)));
        token.sign(&mut after, "");
        (before, after)
    }

    #[test]
    fn only_the_row_as_the_session_wrote_it_is_explained() {
        let token = Token::from_random([7; 32]);
        let (before, after) = submitted(&token);
        assert!(token.explains(&before, &after, ""));
        let forgeries: [(&str, Forge); 9] = [
            ("another status", |row| row.status = Status::Done),
            ("another owner", |row| row.owner = Some("auto-b".parse().unwrap())),
            ("other evidence", |row| row.evidence = Some("e.md".to_owned())),
            ("another word in the event", |row| row.events[1].note = Some("no change".to_owned())),
            ("an edited earlier event", |row| row.events[0].at = "U".to_owned()),
            ("an earlier event removed", |row| drop(row.events.remove(0))),
            ("no code", |row| row.events[1].code = None),
            ("another code", |row| row.events[1].code = Some("0".repeat(64))),
            ("nothing but the events of before", |row| row.events.truncate(1)),
        ];
        for (what, forge) in forgeries {
            let mut forged = after.clone();
            forge(&mut forged);
            assert!(!token.explains(&before, &forged, ""), "{what}");
        }
        assert!(!token.explains(&before, &Row { events: vec![], ..after.clone() }, ""), "no events");
        assert!(!token.explains(&before, &before, ""), "nothing happened");
        assert!(!Token::from_random([8; 32]).explains(&before, &after, ""), "another session's secret");
    }

    #[test]
    fn an_edited_earlier_event_is_not_explained_even_if_it_is_signed() {
        let token = Token::from_random([7; 32]);
        let (before, mut after) = submitted(&token);
        after.events[0].agent = "auto-z".to_owned();
        token.sign(&mut after, "");
        assert!(!token.explains(&before, &after, ""));
    }

    #[test]
    fn two_events_are_not_explained_even_if_both_are_signed() {
        let token = Token::from_random([7; 32]);
        let (before, mut after) = submitted(&token);
        after.events.push(event(3, Action::Approve, (Status::Review, Status::Done)));
        after.status = Status::Done;
        token.sign(&mut after, "");
        assert!(!token.explains(&before, &after, ""));
    }

    #[test]
    fn the_first_row_of_a_remediation_goes_with_its_own_card_only() {
        let token = Token::from_random([7; 32]);
        let made = card("S00-001-r1", &[]);
        let mut row = Row { events: vec![event(1, Action::Create, (Status::Todo, Status::Todo))], ..Row::default() };
        token.sign(&mut row, &made.to_json());
        assert!(token.explains(&Row::default(), &row, &made.to_json()));
        let mut wider = made.clone();
        wider.scope = vec!["*".to_owned()];
        for other in [card("S00-001-r2", &[]).to_json(), wider.to_json(), String::new()] {
            assert!(!token.explains(&Row::default(), &row, &other), "{other}");
        }
    }

    #[test]
    fn a_token_is_the_same_from_its_text_and_shows_itself_nowhere() {
        let token = Token::from_random([0xab; 32]);
        assert_eq!(token.text(), "ab".repeat(32));
        assert_eq!(Token::from_text(token.text()).hash(), token.hash());
        assert_ne!(token.hash(), token.text());
        assert_eq!(format!("{token:?}"), "Token(…)");
        // SHA-256 of "abc", FIPS 180-4.
        let known = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
        assert_eq!(Token::from_text("abc").hash(), known);
    }
}
