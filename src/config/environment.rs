//! What the configuration does to the environment an agent gets.
//!
//! Owns the keys under `environment` and the order in which the rules apply. Never reads the process's environment, and
//! lets no rule touch the variables the coordinator itself sets.

use std::collections::BTreeMap;
use std::ffi::OsString;

use serde_json::Value;

use crate::agents::Needs;
use crate::ids::Role;
use crate::strict::Fields;

/// Variables the coordinator sets for every session; the configuration may not touch them.
const OWN_VARIABLES: [&str; 16] = [
    "RUNNER_TASK_ID",
    "RUNNER_ROLE",
    "RUNNER_AGENT_ID",
    "RUNNER_ACTION",
    "RUNNER_PROJECT_ROOT",
    "RUNNER_STATE_ROOT",
    "RUNNER_PROMPT_FILE",
    "RUNNER_BIN",
    "RUNNER_TOKEN",
    "RUNNER_MARK",
    "LUMA_TASK_ID",
    "LUMA_ROLE",
    "LUMA_AGENT_ID",
    "LUMA_ACTION",
    "LUMA_PROJECT_ROOT",
    "LUMA_PROMPT_FILE",
];

/// Rules for every agent and, after them, for those of one role.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Environment {
    /// The rules for every agent.
    pub general: EnvironmentRules,
    /// The rules that follow them for a role.
    pub by_role: BTreeMap<Role, EnvironmentRules>,
}

/// What one set of rules does.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct EnvironmentRules {
    /// Variables to set.
    pub set: BTreeMap<String, String>,
    /// Variables to drop.
    pub remove: Vec<String>,
    /// The only variables to pass on from the coordinator; `None` passes all.
    pub pass: Option<Vec<String>>,
}

impl Environment {
    /// The environment an agent of `role` gets out of the coordinator's, before the coordinator adds its own variables.
    ///
    /// The role's `pass` stands in for the general one. Then what the agent's preset needs is dropped and added. Then the general
    /// rules apply, then the role's: each drops, then sets, so a later `set` wins.
    pub fn apply(
        &self,
        role: &Role,
        needs: &Needs,
        inherited: BTreeMap<OsString, OsString>,
    ) -> BTreeMap<OsString, OsString> {
        self.with_rules(self.by_role.get(role), needs, inherited)
    }

    /// As [`Self::apply`], for a program that acts in no role.
    pub fn apply_general(&self, inherited: BTreeMap<OsString, OsString>) -> BTreeMap<OsString, OsString> {
        self.with_rules(None, &Needs::default(), inherited)
    }

    fn with_rules(
        &self,
        own: Option<&EnvironmentRules>,
        needs: &Needs,
        mut inherited: BTreeMap<OsString, OsString>,
    ) -> BTreeMap<OsString, OsString> {
        let pass = own.and_then(|rules| rules.pass.as_ref()).or(self.general.pass.as_ref());
        if let Some(pass) = pass {
            inherited.retain(|name, _| pass.iter().any(|passed| name == passed.as_str()));
        }
        inherited.retain(|name, _| !needs.remove.iter().any(|removed| name == removed));
        inherited.extend(needs.set.iter().map(|(name, value)| (name.into(), value.into())));
        for (name, value) in needs.default {
            inherited.entry(name.into()).or_insert_with(|| value.into());
        }
        for rules in std::iter::once(&self.general).chain(own) {
            inherited.retain(|name, _| !rules.remove.iter().any(|removed| name == removed.as_str()));
            inherited.extend(rules.set.iter().map(|(name, value)| (name.into(), value.into())));
        }
        inherited
    }
}

/// Reads the object under `environment`.
pub(super) fn read(fields: &mut Fields<'_>) -> Environment {
    let general = rules(fields);
    let mut by_role = BTreeMap::new();
    for (role, value) in fields.entries("by_role") {
        let key = format!("by_role.{role}");
        let Some(map) = value.as_object() else {
            fields.fault(&key, "must be an object with `set`, `remove` or `pass`");
            continue;
        };
        let own = fields.inner(&key, map, |fields| {
            let own = rules(fields);
            fields.finish();
            own
        });
        if let Some(role) = fields.parsed(&key, role) {
            by_role.insert(role, own);
        }
    }
    fields.finish();
    Environment { general, by_role }
}

fn rules(fields: &mut Fields<'_>) -> EnvironmentRules {
    let mut set = BTreeMap::new();
    for (name, value) in fields.entries("set") {
        if let Some(problem) = variable_problem(name) {
            fields.fault("set", format!("holds {name:?}, which {problem}"));
        }
        match value.as_str() {
            Some(text) if text.contains('\0') => {
                fields.fault(&format!("set.{name}"), "holds a NUL character, which no program can be given; remove it");
            }
            Some(text) => {
                set.insert(name.to_owned(), text.to_owned());
            }
            None => fields.fault(&format!("set.{name}"), "must be a text"),
        }
    }
    let remove = fields.checked_texts("remove", variable_problem).unwrap_or_default();
    // `null` is the default written out.
    let pass = match fields.value("pass") {
        None | Some(Value::Null) => None,
        Some(_) => fields.checked_texts("pass", variable_problem),
    };
    EnvironmentRules { set, remove, pass }
}

fn variable_problem(name: &str) -> Option<String> {
    let problem = if name.is_empty() || name.contains(['=', '\0']) {
        "is no name of a variable; write it without `=`"
    } else if OWN_VARIABLES.contains(&name) {
        "the coordinator sets itself; remove it"
    } else {
        return None;
    };
    Some(problem.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rules(set: &[(&str, &str)], remove: &[&str], pass: Option<&[&str]>) -> EnvironmentRules {
        let owned = |names: &[&str]| names.iter().map(ToString::to_string).collect::<Vec<_>>();
        EnvironmentRules {
            set: set.iter().map(|(name, value)| (name.to_string(), value.to_string())).collect(),
            remove: owned(remove),
            pass: pass.map(owned),
        }
    }

    fn applied(environment: &Environment, role: &str) -> String {
        applied_with(environment, role, &Needs::default())
    }

    fn applied_with(environment: &Environment, role: &str, needs: &Needs) -> String {
        let inherited = [("HOME", "/h"), ("KEY", "k"), ("PATH", "/bin")].map(|(k, v)| (k.into(), v.into()));
        let made = environment.apply(&role.parse().unwrap(), needs, inherited.into());
        made.iter().map(|(k, v)| format!("{}={}", k.display(), v.display())).collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn without_rules_everything_is_passed_on() {
        assert_eq!(applied(&Environment::default(), "qa"), "HOME=/h KEY=k PATH=/bin");
    }

    #[test]
    fn the_roles_rules_follow_the_general_ones() {
        let environment = Environment {
            general: rules(&[("A", "1"), ("B", "1")], &["KEY"], None),
            by_role: [("qa".parse().unwrap(), rules(&[("A", "2"), ("KEY", "own")], &["B", "HOME"], None))].into(),
        };
        assert_eq!(applied(&environment, "qa"), "A=2 KEY=own PATH=/bin");
        assert_eq!(applied(&environment, "backend"), "A=1 B=1 HOME=/h PATH=/bin");
    }

    #[test]
    fn pass_drops_everything_else_and_a_roles_list_stands_in() {
        let environment = Environment {
            general: rules(&[("A", "1")], &[], Some(&["PATH"])),
            by_role: [("qa".parse().unwrap(), rules(&[], &[], Some(&["HOME", "NOWHERE"])))].into(),
        };
        assert_eq!(applied(&environment, "backend"), "A=1 PATH=/bin");
        assert_eq!(applied(&environment, "qa"), "A=1 HOME=/h");
    }

    #[test]
    fn what_an_agent_needs_is_passed_in_any_case_and_the_configuration_has_the_last_word() {
        let needs = Needs {
            set: vec![("A", "need"), ("PATH", "need")],
            default: &[("B", "need"), ("HOME", "need")],
            remove: &["KEY"],
        };
        let environment =
            Environment { general: rules(&[("A", "1")], &["B"], Some(&["HOME", "KEY"])), by_role: BTreeMap::new() };
        assert_eq!(applied_with(&environment, "qa", &needs), "A=1 HOME=/h PATH=need");
        assert_eq!(applied_with(&Environment::default(), "qa", &needs), "A=need B=need HOME=/h PATH=need");
    }
}
