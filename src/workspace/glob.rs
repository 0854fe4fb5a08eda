//! Globs with the meaning of Python's `fnmatch.fnmatchcase`, over names that need not be UTF-8. Pure.
//!
//! `*` is any text, also across `/`; `?` one character; `[…]` and `[!…]` one character of a class, where a class that is not
//! closed is an ordinary `[`; nothing else is special and nothing escapes. The whole name must match, case counts. A byte that
//! belongs to no UTF-8 character counts as one character, the same that Python's `surrogateescape` makes of it.

/// A compiled pattern.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Glob(Vec<Token>);

#[derive(Debug, Clone, PartialEq, Eq)]
enum Token {
    /// Any text, the empty one too.
    Text,
    /// Any one character.
    One,
    /// This character.
    Char(u32),
    /// A character that lies in one of the ranges, or in none of them if negated.
    Class { negated: bool, ranges: Vec<(u32, u32)> },
}

impl Token {
    fn takes(&self, c: u32) -> bool {
        match self {
            Self::Text => false,
            Self::One => true,
            Self::Char(wanted) => *wanted == c,
            Self::Class { negated, ranges } => ranges.iter().any(|(low, high)| (*low..=*high).contains(&c)) != *negated,
        }
    }
}

impl Glob {
    /// Compiles a pattern; every text is one.
    pub fn new(pattern: &str) -> Self {
        let pattern: Vec<char> = pattern.chars().collect();
        let mut tokens = Vec::with_capacity(pattern.len());
        let mut rest = pattern.as_slice();
        while let Some((&first, tail)) = rest.split_first() {
            rest = tail;
            match first {
                '*' if tokens.last() == Some(&Token::Text) => {}
                '*' => tokens.push(Token::Text),
                '?' => tokens.push(Token::One),
                '[' => match class(tail) {
                    Some((token, after)) => {
                        tokens.push(token);
                        rest = after;
                    }
                    None => tokens.push(Token::Char(u32::from('['))),
                },
                other => tokens.push(Token::Char(u32::from(other))),
            }
        }
        Self(tokens)
    }

    /// The characters every name begins with that matches.
    pub(super) fn literal_beginning(&self) -> Vec<u32> {
        let literal = |token: &Token| match token {
            Token::Char(c) => Some(*c),
            _ => None,
        };
        self.0.iter().map_while(literal).collect()
    }

    /// Whether the whole name matches.
    pub fn matches(&self, name: &[u8]) -> bool {
        self.matches_characters(&characters(name))
    }

    /// As [`Glob::matches`], for a name already split by [`characters`].
    ///
    /// When a token fails, only the last `*` has to give way by one character: what earlier ones took cannot matter. So the
    /// time is bounded by the product of the lengths.
    pub(super) fn matches_characters(&self, name: &[u32]) -> bool {
        let tokens = &self.0;
        let (mut token, mut at) = (0, 0);
        let mut last_text: Option<(usize, usize)> = None;
        loop {
            match tokens.get(token) {
                Some(Token::Text) => {
                    last_text = Some((token, at));
                    token += 1;
                    continue;
                }
                Some(other) if name.get(at).is_some_and(|c| other.takes(*c)) => {
                    token += 1;
                    at += 1;
                    continue;
                }
                None if at == name.len() => return true,
                _ => {}
            }
            let Some((text, from)) = last_text.filter(|(_, from)| *from < name.len()) else { return false };
            last_text = Some((text, from + 1));
            token = text + 1;
            at = from + 1;
        }
    }
}

/// The characters of a name: code points, and for a byte that is no UTF-8 the lone surrogate U+DC00 + byte, which no valid
/// name can hold.
pub(super) fn characters(name: &[u8]) -> Vec<u32> {
    let mut characters = Vec::with_capacity(name.len());
    for chunk in name.utf8_chunks() {
        characters.extend(chunk.valid().chars().map(u32::from));
        characters.extend(chunk.invalid().iter().map(|byte| 0xDC00 + u32::from(*byte)));
    }
    characters
}

/// Reads a class whose `[` has been taken: the token and what follows the `]`; `None` if nothing closes it.
fn class(text: &[char]) -> Option<(Token, &[char])> {
    let negated = text.first() == Some(&'!');
    let body = &text[usize::from(negated)..];
    // A `]` in the first place is a member, not the end.
    let length = 1 + body.get(1..)?.iter().position(|c| *c == ']')?;
    let (mut members, after) = (&body[..length], &body[length + 1..]);
    let mut ranges = Vec::new();
    while let Some((&first, tail)) = members.split_first() {
        let first = u32::from(first);
        members = tail;
        let mut last = first;
        if let ['-', end, rest @ ..] = tail {
            last = u32::from(*end);
            members = rest;
        }
        // A range that runs backwards holds nothing, not even its ends.
        if first <= last {
            ranges.push((first, last));
        }
    }
    Some((Token::Class { negated, ranges }, after))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;
    use serde::Deserialize;

    use super::Glob;
    use crate::relpath::RelPath;

    /// Answers of Python's `fnmatch.fnmatchcase`: for each pattern one `0` or `1` a name. Names are escaped as [`RelPath`] is.
    #[derive(Deserialize)]
    struct Table {
        names: Vec<String>,
        patterns: BTreeMap<String, String>,
    }

    #[test]
    fn every_answer_is_the_one_python_gives() {
        let table: Table = serde_json::from_str(include_str!("../../tests/data/fnmatch.json")).unwrap();
        let mut rows = 0;
        for (pattern, answers) in &table.patterns {
            let glob = Glob::new(pattern);
            for (name, answer) in table.names.iter().zip(answers.chars()) {
                let name = RelPath::from_escaped(name).unwrap();
                assert_eq!(glob.matches(name.as_bytes()), answer == '1', "{pattern:?} against {name:?}");
                rows += 1;
            }
        }
        assert_eq!(rows, 3540);
    }

    #[test]
    fn ranges_and_hyphens_follow_python() {
        for (pattern, name, answer) in [
            ("[a-c-e]", "-", true),
            ("[a-c-e]", "d", false),
            ("[c-ab-d]", "c", true),
            ("[c-ab-d]", "a", false),
            ("[c-a-d]", "-", true),
            ("[c-a-d]", "c", false),
            ("[z-a]", "z", false),
            ("[!z-a]", "z", true),
            ("[--0]", ".", true),
            ("[!", "[!", true),
            ("[!]", "[!]", true),
            ("[]", "[]", true),
        ] {
            assert_eq!(Glob::new(pattern).matches(name.as_bytes()), answer, "{pattern} {name}");
        }
    }

    #[test]
    fn a_hostile_pattern_takes_no_exponential_time() {
        let glob = Glob::new(&format!("{}b", "*a".repeat(200)));
        assert!(!glob.matches("a".repeat(4000).as_bytes()));
    }

    proptest! {
        #[test]
        fn a_plain_name_matches_itself_and_a_text_matches_all(name in proptest::collection::vec(any::<u8>(), 0..20)) {
            prop_assert!(Glob::new("*").matches(&name));
            if let Ok(text) = std::str::from_utf8(&name) && !text.contains(['*', '?', '[']) {
                prop_assert!(Glob::new(text).matches(&name));
            }
        }
    }
}
