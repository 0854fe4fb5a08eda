//! The well-known shapes of tokens: found by how they look, whoever put them there.
//!
//! Pure. Prefers a word too many to a token too few, but leaves ordinary prose alone.

use std::ops::Range;

/// A token that begins with `prefix` and goes on with at least `least` characters of its kind.
struct Shape {
    prefix: &'static str,
    least: usize,
    kind: fn(u8) -> bool,
}

const fn shape(prefix: &'static str, least: usize, kind: fn(u8) -> bool) -> Shape {
    Shape { prefix, least, kind }
}

const SHAPES: [Shape; 26] = [
    shape("sk-", 16, is_word_or_dash),    // OpenAI, Anthropic and others
    shape("sk_live_", 16, is_word),       // Stripe
    shape("sk_test_", 16, is_word),       // Stripe
    shape("rk_live_", 16, is_word),       // Stripe
    shape("ghp_", 20, is_word),           // GitHub, a person's
    shape("gho_", 20, is_word),           // GitHub, an application's
    shape("ghu_", 20, is_word),           // GitHub, an application's for a user
    shape("ghs_", 20, is_word),           // GitHub, a server's
    shape("ghr_", 20, is_word),           // GitHub, for renewal
    shape("github_pat_", 20, is_word),    // GitHub, fine-grained
    shape("glpat-", 16, is_word_or_dash), // GitLab
    shape("AKIA", 16, is_upper_or_digit), // AWS
    shape("ASIA", 16, is_upper_or_digit), // AWS, temporary
    shape("xoxa-", 10, is_word_or_dash),  // Slack
    shape("xoxb-", 10, is_word_or_dash),  // Slack
    shape("xoxc-", 10, is_word_or_dash),  // Slack
    shape("xoxd-", 10, is_word_or_dash),  // Slack
    shape("xoxe-", 10, is_word_or_dash),  // Slack
    shape("xoxp-", 10, is_word_or_dash),  // Slack
    shape("xoxr-", 10, is_word_or_dash),  // Slack
    shape("xoxs-", 10, is_word_or_dash),  // Slack
    shape("xapp-", 10, is_word_or_dash),  // Slack
    shape("AIza", 30, is_word_or_dash),   // Google
    shape("npm_", 30, is_word),           // npm
    shape("pypi-", 30, is_word_or_dash),  // PyPI
    shape("hf_", 20, is_word),            // Hugging Face
];

/// How many characters make a bearer token whatever they are, and how many if a digit is among them.
const BEARER: (usize, usize) = (20, 8);

fn is_word(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_'
}

fn is_word_or_dash(byte: u8) -> bool {
    is_word(byte) || byte == b'-'
}

fn is_upper_or_digit(byte: u8) -> bool {
    byte.is_ascii_uppercase() || byte.is_ascii_digit()
}

/// The characters of a bearer token (RFC 6750, section 2.1).
fn is_bearer(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"-._~+/=".contains(&byte)
}

/// Where tokens stand in the text.
pub(super) fn find(text: &str) -> Vec<Range<usize>> {
    let bytes = text.as_bytes();
    let mut found = private_keys(text);
    let mut at = 0;
    while at < bytes.len() {
        let begins_word = at == 0 || !is_word(bytes[at - 1]);
        match begins_word.then(|| token(bytes, at)).flatten() {
            Some(range) => {
                at = range.end.max(at + 1);
                found.push(range);
            }
            None => at += 1,
        }
    }
    found.extend(text.match_indices("://").filter_map(|(at, _)| password_in_url(bytes, at + 3)));
    found
}

/// The token that begins at `at`.
fn token(bytes: &[u8], at: usize) -> Option<Range<usize>> {
    let rest = &bytes[at..];
    let known = SHAPES.iter().find_map(|shape| {
        let length = run(rest.strip_prefix(shape.prefix.as_bytes())?, shape.kind);
        (length >= shape.least).then_some(at..at + shape.prefix.len() + length)
    });
    known.or_else(|| web_token(rest).map(|length| at..at + length)).or_else(|| bearer(bytes, at))
}

/// How many of the first bytes are of this kind.
fn run(bytes: &[u8], kind: fn(u8) -> bool) -> usize {
    bytes.iter().take_while(|byte| kind(**byte)).count()
}

/// The length of a JSON web token (RFC 7519): three parts, the first of which is an object in base64.
fn web_token(bytes: &[u8]) -> Option<usize> {
    let part = |from: usize| run(bytes.get(from..).unwrap_or_default(), is_word_or_dash);
    let first = bytes.starts_with(b"eyJ").then(|| part(0))?;
    let second = (bytes.get(first) == Some(&b'.')).then(|| part(first + 1))?;
    if first < 10 || second < 8 {
        return None;
    }
    let two = first + 1 + second;
    // The third part is empty in an unsigned token, and may have been cut off.
    Some(if bytes.get(two) == Some(&b'.') { two + 1 + part(two + 1) } else { two })
}

/// What follows the word `Bearer`, if it is no word itself.
fn bearer(bytes: &[u8], at: usize) -> Option<Range<usize>> {
    let word = bytes.get(at..at + 6).filter(|word| word.eq_ignore_ascii_case(b"bearer"))?;
    let gap = run(&bytes[at + word.len()..], |byte| byte == b' ');
    let start = at + word.len() + gap;
    let length = run(&bytes[start..], is_bearer);
    let digits = bytes[start..start + length].iter().any(u8::is_ascii_digit);
    (gap > 0 && (length >= BEARER.0 || (digits && length >= BEARER.1))).then_some(start..start + length)
}

/// The `user:password` of an address, which begins at `start`.
fn password_in_url(bytes: &[u8], start: usize) -> Option<Range<usize>> {
    let authority = run(&bytes[start..], |byte| byte.is_ascii_graphic() && !b"/?#\"'<>".contains(&byte));
    let authority = &bytes[start..start + authority];
    let end = authority.iter().rposition(|byte| *byte == b'@')?;
    let colon = authority[..end].iter().position(|byte| *byte == b':')?;
    (end - colon > 1).then_some(start..start + end)
}

/// Private keys in PEM (RFC 7468); one whose beginning or end was cut off counts from or to that end of the text.
fn private_keys(text: &str) -> Vec<Range<usize>> {
    let mut found = Vec::new();
    let mut open = None;
    for (at, line) in text.match_indices("PRIVATE KEY-----") {
        let end = at + line.len();
        // The boundary and its label are of one line.
        let before = &text[text[..at].rfind('\n').map_or(0, |newline| newline + 1)..at];
        if let Some(begin) = before.rfind("-----BEGIN ") {
            open.get_or_insert(at - before.len() + begin);
        } else if before.contains("-----END ") {
            let start = open.take().unwrap_or_else(|| found.last().map_or(0, |last: &Range<usize>| last.end));
            found.push(start..end);
        }
    }
    found.extend(open.map(|start| start..text.len()));
    found
}

#[cfg(test)]
mod tests {
    use super::super::redact::Redactor;
    use proptest::prelude::*;

    fn clean(text: &str) -> String {
        Redactor::default().text(text).into_owned()
    }

    #[test]
    fn tokens_in_well_known_shapes_are_found() {
        let digits = "0123456789abcdefABCDEF0123456789abcdef";
        for token in [
            format!("sk-{digits}"),
            format!("sk-ant-api03-{digits}-_x"),
            format!("ghp_{digits}"),
            format!("github_pat_{digits}_{digits}"),
            "AKIAIOSFODNN7EXAMPLE".to_owned(),
            "xoxb-123456789012-abcdef".to_owned(),
            format!("glpat-{digits}"),
            format!("AIza{digits}"),
            "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.c2lnbmF0dXJl".to_owned(),
            "eyJhbGciOiJub25lIn0.eyJzdWIiOiIxIn0.".to_owned(),
        ] {
            assert_eq!(clean(&format!("key={token}, then")), "key=[redacted], then", "{token}");
            assert_eq!(clean(&format!("\"{token}\"")), "\"[redacted]\"", "{token}");
            assert_eq!(clean(&token), "[redacted]");
        }
        assert_eq!(clean("Authorization: Bearer abc.def-123/4=\n"), "Authorization: Bearer [redacted]\n");
        assert_eq!(clean("authorization: bearer  abcdefghijklmnopqrstuvwxyz"), "authorization: bearer  [redacted]");
        assert_eq!(clean("https://me:pa55@host/x?y=@z"), "https://[redacted]@host/x?y=@z");
    }

    #[test]
    fn ordinary_words_stay() {
        for text in [
            "risk-averse-and-long-winded-words",
            "a task-0123456789abcdef0123",
            "sk-short",
            "Bearer authentication is used",
            "the bearer of this",
            "https://host:80/path and me@host and ssh://git@host/x",
            "eyJ.eyJ.x",
            "auto-backend-0123456789ab.1",
            "AKIA",
            "3f786850e387550fdab836ed7e6dc881de23001b",
            "-----BEGIN CERTIFICATE-----\nMIIB\n-----END CERTIFICATE-----",
        ] {
            assert_eq!(clean(text), text);
        }
    }

    #[test]
    fn a_private_key_is_taken_out_with_all_its_lines_also_when_it_was_cut() {
        let key = "-----BEGIN RSA PRIVATE KEY-----\nMIIEow\nxyz\n-----END RSA PRIVATE KEY-----";
        assert_eq!(clean(&format!("a\n{key}\nb\n{key}\nc")), "a\n[redacted]\nb\n[redacted]\nc");
        let (begin, end) = key.split_at(40);
        assert_eq!(clean(&format!("a\n{begin}")), "a\n[redacted]");
        assert_eq!(clean(&format!("{end}\nb")), "[redacted]\nb");
        assert_eq!(clean(&format!("{end}\nb\n{key}")), "[redacted]\nb\n[redacted]");
    }

    proptest! {
        #[test]
        fn no_token_of_a_known_shape_survives(
            before in "[ -~]{0,20}",
            shape in 0..super::SHAPES.len(),
            body in "[A-Z0-9]{30,60}",
            after in "([ ,;\"'\\n][ -~]{0,20})?",
        ) {
            let token = format!("{}{body}", super::SHAPES[shape].prefix);
            let clean = clean(&format!("{before} {token}{after}"));
            prop_assert!(!clean.contains(&token), "{clean}");
        }

        #[test]
        fn any_text_is_looked_through_without_a_panic(text in "\\PC{0,60}(-----BEGIN |PRIVATE KEY-----|://|@|Bearer |eyJ|sk-|[äß\\n]){0,6}\\PC{0,20}") {
            let _clean = clean(&text);
        }
    }
}
