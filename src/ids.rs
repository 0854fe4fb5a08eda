//! Names the rest of the crate trusts: each type's constructor refuses what cannot be a file name of the project.
//!
//! Owns the spelling rules of ids. Never reads a file.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// A name that breaks the spelling rule of its kind.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{kind} {text:?} is malformed: {rule}")]
pub struct BadName {
    kind: &'static str,
    text: String,
    rule: &'static str,
}

const RULE: &str = "use 1 to 80 of A-Z a-z 0-9 . _ -, beginning with a letter or a digit";

/// Whether `text` is 1 to 80 ASCII letters, digits, dots, underscores and hyphens, the first a letter or a digit.
fn is_plain(text: &str) -> bool {
    text.len() <= 80
        && text.starts_with(|c: char| c.is_ascii_alphanumeric())
        && text.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-'))
}

macro_rules! name_type {
    ($(#[$doc:meta])* $name:ident, $kind:literal) => {
        $(#[$doc])*
        #[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[serde(try_from = "String", into = "String")]
        pub struct $name(String);

        impl $name {
            /// The name as text.
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl FromStr for $name {
            type Err = BadName;

            fn from_str(text: &str) -> Result<Self, BadName> {
                if is_plain(text) {
                    Ok(Self(text.to_owned()))
                } else {
                    Err(BadName { kind: $kind, text: text.to_owned(), rule: RULE })
                }
            }
        }

        impl TryFrom<String> for $name {
            type Error = BadName;

            fn try_from(text: String) -> Result<Self, BadName> {
                text.parse()
            }
        }

        impl From<$name> for String {
            fn from(name: $name) -> Self {
                name.0
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }
    };
}

name_type!(
    /// The id of a task, for example `S00-001` or `S00-001-r1`.
    TaskId, "task id"
);
name_type!(
    /// The id of a stage, for example `S00`.
    StageId, "stage id"
);
name_type!(
    /// The name of a role, for example `backend`; its text is `roles/<role>.md`.
    Role, "role"
);
name_type!(
    /// The id of an agent: `auto-<role>-<12 hex digits>` for the coordinator's, any plain name for a person's.
    AgentId, "agent id"
);

impl AgentId {
    /// The id of a fresh agent of the coordinator's: `auto-<role>-<12 hex digits>`.
    ///
    /// # Panics
    /// Never in practice: a role is at most 80 characters, and a name made from an over-long one is cut.
    pub fn fresh(role: &Role, random: [u8; 6]) -> Self {
        let role = &role.as_str()[..role.as_str().len().min(60)];
        Self(format!("auto-{role}-{}", hex(&random)))
    }

    /// Whether the coordinator made this id; verbs on its tasks need the session's secret.
    pub fn is_automatic(&self) -> bool {
        self.0.starts_with("auto-")
    }
}

/// Lower-case hexadecimal digits of `bytes`.
pub fn hex(bytes: &[u8]) -> String {
    use fmt::Write as _;
    bytes.iter().fold(String::with_capacity(bytes.len() * 2), |mut text, byte| {
        write!(text, "{byte:02x}").expect("writing to a String cannot fail");
        text
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_that_could_leave_its_folder_is_refused() {
        for bad in ["", ".", "..", ".hidden", "a/b", "a\\b", "a b", "ä", "-x", "a\0", &"x".repeat(81)] {
            assert!(bad.parse::<TaskId>().is_err(), "{bad:?}");
        }
        for good in ["S00", "S00-001", "S00-001-r1", "a.b_c-d", "0"] {
            assert_eq!(good.parse::<TaskId>().map(String::from), Ok(good.to_owned()));
        }
    }

    #[test]
    fn a_fresh_agent_id_names_its_role_and_twelve_hex_digits() {
        let role: Role = "ci-cd".parse().unwrap();
        assert_eq!(AgentId::fresh(&role, [0, 1, 2, 0xfd, 0xfe, 0xff]).as_str(), "auto-ci-cd-000102fdfeff");
    }
}
