//! The whole sample: its plan, its roles, and a script in the place of an agent.
//!
//! Owns the list of its files, which are the repository's own top-level ones. Makes no repository: the caller does.

use std::path::Path;

use super::{EXAMPLE_CONFIG, IGNORE_LINES, STATE, SampleError, write_all};
use crate::fs;

/// Files of the repository's top level under the names they have in the sample.
macro_rules! top_level {
    ($($name:literal),* $(,)?) => { &[$(($name, include_str!(concat!("../../", $name)))),*] };
}

const FILES: &[(&str, &str)] = top_level![
    "AGENTS.md",
    "planning/stages/S00.json",
    "planning/stages/S01.json",
    "planning/tasks/S00-001.json",
    "planning/tasks/S00-002.json",
    "planning/tasks/S00-003.json",
    "planning/tasks/S01-001.json",
    "planning/tasks/S01-002.json",
    "roles/common.md",
    "roles/developer.md",
    "roles/reviewer.md",
    "roles/writer.md",
];

/// The script that works in the place of an agent.
const AGENT: &str = include_str!("agent.sh");

/// The machine's configuration for the sample: the script is the agent, and no session of it takes long.
const LOCAL_CONFIG: &str = r#"{
  "argv": [
    "sh",
    "{root}/scripted_agent.sh"
  ],
  "max_sessions": 50,
  "timeout_seconds": 120,
  "on_violation": "set_aside"
}
"#;

/// Writes the sample into `dir`, which is made if it is missing and must be empty if it is there.
pub fn lay_down_demo(dir: &Path) -> Result<(), SampleError> {
    if fs::list(dir)?.is_some_and(|entries| !entries.is_empty()) {
        return Err(SampleError::NotEmpty { path: dir.to_owned() });
    }
    write_all(dir, FILES)?;
    write_all(
        dir,
        &[
            ("README.md", include_str!("README.md")),
            ("state/state.json", STATE),
            ("runner.example.json", EXAMPLE_CONFIG),
            ("runner.local.json", LOCAL_CONFIG),
            (".gitignore", &IGNORE_LINES.map(|line| format!("{line}\n")).concat()),
        ],
    )?;
    fs::replace_with_mode(&dir.join("scripted_agent.sh"), AGENT.as_bytes(), 0o755)?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn the_demo_holds_every_card_stage_and_role_of_the_repository() {
        let top = Path::new(env!("CARGO_MANIFEST_DIR"));
        let on_disk: BTreeSet<_> = ["planning/stages", "planning/tasks", "roles"]
            .iter()
            .flat_map(|folder| fs::list(&top.join(folder)).unwrap().unwrap())
            .map(|path| path.strip_prefix(top).unwrap().to_str().unwrap().to_owned())
            .collect();
        let listed: BTreeSet<_> =
            FILES.iter().map(|(name, _)| (*name).to_owned()).filter(|name| name != "AGENTS.md").collect();
        assert_eq!(listed, on_disk);
    }

    #[test]
    fn the_demo_has_two_stages_and_each_card_has_its_stage_its_roles_and_its_dependencies() {
        let of = |prefix: &str| -> Vec<serde_json::Value> {
            let cards = FILES.iter().filter(|(name, _)| name.starts_with(prefix));
            cards.map(|(_, text)| serde_json::from_str(text).unwrap()).collect()
        };
        let (stages, cards) = (of("planning/stages/"), of("planning/tasks/"));
        assert_eq!((stages.len(), cards.len()), (2, 5));
        let names = |key: &str, values: &[serde_json::Value]| -> BTreeSet<String> {
            values.iter().map(|value| value[key].as_str().unwrap().to_owned()).collect()
        };
        let ids = names("id", &cards);
        for card in &cards {
            assert!(names("id", &stages).contains(card["stage"].as_str().unwrap()));
            for key in ["role", "reviewer_role"] {
                let role = format!("roles/{}.md", card[key].as_str().unwrap());
                assert!(FILES.iter().any(|(name, _)| *name == role), "{role}");
            }
            assert!(card["depends_on"].as_array().unwrap().iter().all(|id| ids.contains(id.as_str().unwrap())));
        }
    }

    #[test]
    fn a_folder_that_is_not_empty_is_left_alone() {
        let dir = tempfile::tempdir().unwrap();
        fs::replace(&dir.path().join("mine"), b"kept").unwrap();
        let error = lay_down_demo(dir.path()).unwrap_err();
        assert!(error.to_string().ends_with("name a folder that is empty or does not exist yet"), "{error}");
        assert_eq!(fs::list(dir.path()).unwrap().unwrap(), [dir.path().join("mine")]);
    }

    #[test]
    fn the_demo_is_laid_down_whole_into_a_folder_that_does_not_exist_yet() {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().join("new/demo");
        lay_down_demo(&root).unwrap();
        for (name, text) in FILES {
            assert_eq!(fs::read(&root.join(name)).unwrap(), text.as_bytes(), "{name}");
        }
        let config: serde_json::Value = fs::read_json(&root.join("runner.local.json")).unwrap();
        assert_eq!(config["argv"][1], "{root}/scripted_agent.sh");
        assert_eq!(fs::read(&root.join("state/state.json")).unwrap(), b"{\n  \"schema\": 2\n}\n");
        assert_eq!(
            fs::read(&root.join(".gitignore")).unwrap(),
            b"state/runs/\nstate/commit_messages/\nrunner.local.json\n.runner.lock\n"
        );
    }
}
