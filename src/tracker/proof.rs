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
