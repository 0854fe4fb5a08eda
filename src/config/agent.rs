//! Which agent a role gets: a preset by its name, or a command written out, and how its output is read.
//!
//! Owns the keys `agent`, `agents_by_role` and `dialect`, and the order in which they and the commands count.

use std::collections::BTreeMap;
use std::str::FromStr;

use serde_json::Value;

use super::{CommandError, Config};
use crate::agents::{Dialect, Needs, Preset, StopSignal, UnknownName};
use crate::ids::Role;
use crate::strict::Fields;

/// A preset with what the configuration adds to it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ChosenAgent {
    /// The agent.
    pub preset: Preset,
    /// The model it is to use; its own choice if `None`.
    pub model: Option<String>,
    /// Further arguments, after the preset's own.
    pub extra_args: Vec<String>,
}

/// The command of a role, and all that goes with it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AgentCommand {
    /// The program and its arguments, placeholders not yet replaced.
    pub argv: Vec<String>,
    /// How its output is read.
    pub dialect: Dialect,
    /// The preset it comes from; `None` for a command that was written out.
    pub preset: Option<Preset>,
}

impl AgentCommand {
    /// By which signal it is asked to end.
    pub fn stop_signal(&self) -> StopSignal {
        self.preset.map(Preset::stop_signal).unwrap_or_default()
    }

    /// What its environment needs, as root or as another user.
    pub fn needs(&self, as_root: bool) -> Needs {
        self.preset.map(|preset| preset.environment(as_root)).unwrap_or_default()
    }
}

impl Config {
    /// The agent of `role`: what is configured for the role before what is for all, and of both a command before a preset.
    pub fn agent_of(&self, role: &Role) -> Result<AgentCommand, CommandError> {
        match self.chosen_for(role) {
            Some(Chosen::Command(argv)) => {
                Ok(AgentCommand { argv: argv.to_vec(), dialect: self.dialect, preset: None })
            }
            Some(Chosen::Agent(agent)) => Ok(AgentCommand {
                argv: agent.preset.argv(agent.model.as_deref(), &agent.extra_args),
                dialect: agent.preset.dialect(),
                preset: Some(agent.preset),
            }),
            None => Err(CommandError::Missing { role: role.clone() }),
        }
    }

    /// Whether work of `role` is reviewed by another command: another program, or another model or other arguments of the same. A
    /// preset and a written-out command of the same program are one, and what `extra_args` add makes no other agent.
    pub fn reviewer_differs(&self, role: &Role, reviewer: &Role) -> bool {
        match (self.chosen_for(role), self.chosen_for(reviewer)) {
            (Some(Chosen::Command(one)), Some(Chosen::Command(other))) => one != other,
            (Some(Chosen::Agent(one)), Some(Chosen::Agent(other))) => {
                (one.preset, &one.model) != (other.preset, &other.model)
            }
            (Some(Chosen::Command(argv)), Some(Chosen::Agent(agent)))
            | (Some(Chosen::Agent(agent)), Some(Chosen::Command(argv))) => {
                program_of(argv) != program_of(&agent.preset.argv(None, &[]))
            }
            // Without a command there is no session at all.
            (None, _) | (_, None) => true,
        }
    }

    /// What is configured for `role`, in the order in which it counts.
    fn chosen_for(&self, role: &Role) -> Option<Chosen<'_>> {
        let own = self.commands_by_role.get(role).map(|argv| Chosen::Command(argv));
        own.or_else(|| self.agents_by_role.get(role).map(Chosen::Agent))
            .or_else(|| self.argv.as_deref().map(Chosen::Command))
            .or_else(|| self.agent.as_ref().map(Chosen::Agent))
    }
}

/// What a role is configured with.
enum Chosen<'a> {
    Command(&'a [String]),
    Agent(&'a ChosenAgent),
}

/// The name of a command's program, wherever it lies.
fn program_of(argv: &[String]) -> Option<&str> {
    argv.first().map(|program| program.rsplit('/').next().unwrap_or(program))
}

/// Reads `agent`.
pub(super) fn agent(fields: &mut Fields<'_>) -> Option<ChosenAgent> {
    let value = fields.value("agent")?;
    chosen(fields, "agent", value)
}

/// Reads `agents_by_role`.
pub(super) fn agents(fields: &mut Fields<'_>) -> BTreeMap<Role, ChosenAgent> {
    let mut agents = BTreeMap::new();
    for (role, value) in fields.entries("agents_by_role") {
        let key = format!("agents_by_role.{role}");
        let agent = chosen(fields, &key, value);
        if let (Some(role), Some(agent)) = (fields.parsed(&key, role), agent) {
            agents.insert(role, agent);
        }
    }
    agents
}

/// Reads `dialect`.
pub(super) fn dialect(fields: &mut Fields<'_>) -> Dialect {
    let value = fields.value("dialect");
    value.and_then(|value| named(fields, "dialect", value)).unwrap_or_default()
}

/// A preset: its name, or an object with `preset`, `model` and `extra_args`.
fn chosen<'v>(fields: &mut Fields<'v>, key: &str, value: &'v Value) -> Option<ChosenAgent> {
    match value {
        Value::String(_) => {
            named(fields, key, value).map(|preset| ChosenAgent { preset, model: None, extra_args: Vec::new() })
        }
        Value::Object(map) => fields.inner(key, map, |fields| {
            let stated = fields.value("preset");
            let preset = stated.and_then(|value| named(fields, "preset", value));
            if stated.is_none() {
                fields.fault("preset", "is missing; add the agent's name");
            }
            let agent = (model(fields), extra_args(fields));
            fields.finish();
            preset.map(|preset| ChosenAgent { preset, model: agent.0, extra_args: agent.1 })
        }),
        _ => {
            fields.fault(key, format!("must be an agent's name or an object with `preset`, not {value}"));
            None
        }
    }
}

fn model(fields: &mut Fields<'_>) -> Option<String> {
    let model = fields.text("model")?;
    if model.trim().is_empty() || model.contains('\0') {
        fields.fault("model", "is no name of a model; write it, or remove the key");
        return None;
    }
    Some(model.to_owned())
}

fn extra_args(fields: &mut Fields<'_>) -> Vec<String> {
    let problem = |text: &str| {
        let problem = match text {
            "" => "is empty; remove it",
            text if text.contains('\0') => "holds a NUL character, which no program can be given; remove it",
            _ => return None,
        };
        Some(problem.to_owned())
    };
    fields.checked_texts("extra_args", problem).unwrap_or_default()
}

/// A name out of a known list.
fn named<T: FromStr<Err = UnknownName>>(fields: &mut Fields<'_>, key: &str, value: &Value) -> Option<T> {
    let parsed = value.as_str().map(str::parse);
    match parsed {
        Some(Ok(name)) => return Some(name),
        Some(Err(unknown)) => fields.fault(key, unknown),
        None => fields.fault(key, format!("must be a name, not {value}")),
    }
    None
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    fn agent(json: &str, role: &str) -> AgentCommand {
        let config = Config::parse(Path::new("runner.local.json"), json.as_bytes()).unwrap();
        config.agent_of(&role.parse().unwrap()).unwrap()
    }

    fn fault(json: &str) -> String {
        Config::parse(Path::new("runner.local.json"), json.as_bytes()).unwrap_err().to_string()
    }

    #[test]
    fn an_agents_name_is_enough_for_its_command_dialect_environment_and_stop_signal() {
        let claude = agent(r#"{"agent": "claude"}"#, "qa");
        assert_eq!((claude.argv[0].as_str(), claude.dialect), ("claude", Dialect::Claude));
        assert_eq!((claude.stop_signal(), claude.preset), (StopSignal::Interrupt, Some(Preset::Claude)));
        assert!(claude.needs(true).set.contains(&("IS_SANDBOX", "1")));
        let codex = agent(r#"{"agent": {"preset": "codex", "model": "m", "extra_args": ["-c", "{root}"]}}"#, "qa");
        assert!(codex.argv.ends_with(&["-m", "m", "-c", "{root}", "-"].map(str::to_owned)), "{:?}", codex.argv);
    }

    #[test]
    fn the_roles_own_counts_before_the_general_and_a_command_before_a_preset() {
        let json = r#"{
            "argv": ["all"], "agent": "gemini", "dialect": "qwen",
            "commands_by_role": {"one": ["own"]}, "agents_by_role": {"one": "mini", "two": "mini"}
        }"#;
        for (role, program, dialect) in
            [("one", "own", Dialect::Qwen), ("two", "mini", Dialect::Mini), ("three", "all", Dialect::Qwen)]
        {
            let agent = agent(json, role);
            assert_eq!((agent.argv[0].as_str(), agent.dialect), (program, dialect), "{role}");
        }
        assert_eq!(agent(&json.replace(r#""argv": ["all"], "#, ""), "three").dialect, Dialect::Gemini);
    }

    #[test]
    fn a_written_command_is_ended_by_term_and_needs_nothing_whatever_its_dialect() {
        let written = agent(r#"{"argv": ["wrapper"], "dialect": "claude"}"#, "qa");
        assert_eq!((written.dialect, written.stop_signal()), (Dialect::Claude, StopSignal::Terminate));
        assert_eq!(written.needs(true), Needs::default());
        assert_eq!(agent(r#"{"argv": ["wrapper"]}"#, "qa").dialect, Dialect::Plain);
    }

    #[test]
    fn a_reviewer_is_another_if_program_model_or_written_command_is() {
        let differs = |json: &str| {
            let config = Config::parse(Path::new("x.json"), json.as_bytes()).unwrap();
            config.reviewer_differs(&"backend".parse().unwrap(), &"qa".parse().unwrap())
        };
        for (json, expected) in [
            (r#"{"argv": ["a"]}"#, false),
            (r#"{"argv": ["a", "1"], "commands_by_role": {"qa": ["a", "2"]}}"#, true),
            (r#"{"argv": ["a"], "commands_by_role": {"qa": ["a"]}}"#, false),
            (r#"{"agent": "codex"}"#, false),
            (r#"{"agent": "codex", "agents_by_role": {"qa": {"preset": "codex", "extra_args": ["-v"]}}}"#, false),
            (r#"{"agent": "codex", "agents_by_role": {"qa": {"preset": "codex", "model": "m"}}}"#, true),
            (r#"{"agent": "codex", "agents_by_role": {"qa": "claude"}}"#, true),
            (r#"{"agent": "codex", "commands_by_role": {"qa": ["/opt/codex", "exec"]}}"#, false),
            (r#"{"agent": "codex", "commands_by_role": {"qa": ["critic"]}}"#, true),
            ("{}", true),
        ] {
            assert_eq!(differs(json), expected, "{json}");
        }
    }

    #[test]
    fn a_wrong_name_names_the_nearest_and_a_wrong_type_what_is_accepted() {
        for (json, wanted) in [
            (
                r#"{"agent": "cladue"}"#,
                "key `agent` must be one of codex, claude, gemini, opencode, qwen, aider, mini, not \"cladue\"; did you mean \"claude\"?",
            ),
            (
                r#"{"agents_by_role": {"qa": {"preset": "quen"}}}"#,
                "key `agents_by_role.qa.preset` must be one of codex, claude, gemini, opencode, qwen, aider, mini, not \"quen\"; did you mean \"qwen\"?",
            ),
            (
                r#"{"dialect": "plan"}"#,
                "key `dialect` must be one of codex, claude, gemini, opencode, qwen, aider, mini, plain, not \"plan\"; did you mean \"plain\"?",
            ),
            (r#"{"dialect": 1}"#, "key `dialect` must be a name, not 1"),
            (r#"{"agent": null}"#, "key `agent` must be an agent's name or an object with `preset`, not null"),
            (r#"{"agent": {"model": "m"}}"#, "key `agent.preset` is missing; add the agent's name"),
            (
                r#"{"agent": {"preset": "codex", "modell": "m"}}"#,
                "key `agent.modell` is unknown; did you mean `model`?",
            ),
            (
                r#"{"agent": {"preset": "codex", "model": " "}}"#,
                "key `agent.model` is no name of a model; write it, or remove the key",
            ),
            (
                r#"{"agent": {"preset": "codex", "extra_args": ["a", ""]}}"#,
                "key `agent.extra_args` holds \"\", which is empty; remove it",
            ),
        ] {
            assert_eq!(fault(json), format!("runner.local.json: {wanted}"), "{json}");
        }
    }
}
