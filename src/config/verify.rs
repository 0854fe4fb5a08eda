//! The coordinator's own commands on what an executor submitted: for every role, and for one.
//!
//! Owns the key `verify`. Each command is a list of arguments, never a line for a shell. Never runs one.

use std::collections::BTreeMap;

use serde_json::Value;

use crate::ids::Role;
use crate::strict::Fields;

/// What runs after a submit and before its review.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Verify {
    /// Commands for every executor.
    pub all: Vec<Vec<String>>,
    /// Commands that follow them for a role.
    pub by_role: BTreeMap<Role, Vec<Vec<String>>>,
}

impl Verify {
    /// The commands for an executor of `role`, in order.
    pub fn of<'v>(&'v self, role: &Role) -> impl Iterator<Item = &'v Vec<String>> {
        self.all.iter().chain(self.by_role.get(role).into_iter().flatten())
    }

    /// Every command.
    pub fn every(&self) -> impl Iterator<Item = &Vec<String>> {
        self.all.iter().chain(self.by_role.values().flatten())
    }
}

/// Reads `verify`: a list of commands, or an object with `all` and `by_role`.
pub(super) fn read(fields: &mut Fields<'_>) -> Verify {
    match fields.value("verify") {
        None => Verify::default(),
        Some(Value::Object(map)) => fields.inner("verify", map, |fields| {
            let all = fields.commands("all").unwrap_or_default();
            let mut by_role = BTreeMap::new();
            for (role, value) in fields.entries("by_role") {
                let key = format!("by_role.{role}");
                let commands = fields.commands_of(&key, value);
                if let (Some(role), Some(commands)) = (fields.parsed(&key, role), commands) {
                    by_role.insert(role, commands);
                }
            }
            fields.finish();
            Verify { all, by_role }
        }),
        Some(value) => Verify { all: fields.commands_of("verify", value).unwrap_or_default(), ..Verify::default() },
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::config::Config;

    fn verify(json: &str) -> Result<Verify, String> {
        let json = format!("{{\"verify\": {json}}}");
        let config = Config::parse(Path::new("x.json"), json.as_bytes());
        config.map(|config| config.verify).map_err(|error| error.to_string())
    }

    fn of(verify: &Verify, role: &str) -> Vec<String> {
        verify.of(&role.parse().unwrap()).map(|argv| argv.join(" ")).collect()
    }

    #[test]
    fn a_list_is_for_all_and_a_roles_own_commands_follow() {
        assert_eq!(of(&verify(r#"[["make", "test"], ["lint"]]"#).unwrap(), "x"), ["make test", "lint"]);
        let both = verify(r#"{"all": [["make"]], "by_role": {"backend": [["cargo", "test"]]}}"#).unwrap();
        assert_eq!(of(&both, "backend"), ["make", "cargo test"]);
        assert_eq!(of(&both, "qa"), ["make"]);
        assert_eq!(both.every().count(), 2);
        assert_eq!(verify("[]").unwrap(), Verify::default());
    }

    #[test]
    fn a_wrong_command_is_a_fault_that_names_its_key() {
        let wanted = "must be a list of commands, each a list of texts, one for each argument (no shell line)";
        for (json, fault) in [
            (r#""make test""#, format!("key `verify` {wanted}")),
            (r#"["make"]"#, format!("key `verify` {wanted}")),
            ("null", format!("key `verify` {wanted}")),
            ("[[]]", "key `verify` holds an empty list; name the program".to_owned()),
            (r#"[["a", ""]]"#, "key `verify` holds an empty argument; remove it".to_owned()),
            (
                r#"[["a\u0000"]]"#,
                "key `verify` holds a NUL character, which no program can be given; remove it".to_owned(),
            ),
            (r#"{"al": []}"#, "key `verify.al` is unknown; did you mean `all`?".to_owned()),
            (r#"{"by_role": {"qa": 1}}"#, format!("key `verify.by_role.qa` {wanted}")),
        ] {
            assert_eq!(verify(json).unwrap_err(), format!("x.json: {fault}"), "{json}");
        }
    }
}
