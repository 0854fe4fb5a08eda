//! What the configuration says about the place where sessions work.
//!
//! Owns the keys under `workspace`. Whether a shared path is one that git ignores is seen when a run starts, not here.

use super::read::{arguments, choice};
use crate::strict::{Fields, path_problem};

/// Where sessions work.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Mode {
    /// In the project's root.
    #[default]
    InPlace,
    /// In a linked git work tree.
    Worktree,
}

/// Where sessions work, and what makes a fresh place usable.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Workspace {
    /// In the root or in a work tree of their own.
    pub mode: Mode,
    /// Commands that run in a fresh work tree, one after the other.
    pub setup: Vec<Vec<String>>,
    /// Git-ignored paths of the root that every work tree gets as links.
    pub share: Vec<String>,
}

/// Reads the object under `workspace`.
pub(super) fn read(fields: &mut Fields<'_>) -> Workspace {
    let mode = choice(fields, "mode", &[("in_place", Mode::InPlace), ("worktree", Mode::Worktree)]).unwrap_or_default();
    let workspace = Workspace {
        mode,
        setup: setup(fields),
        share: fields.checked_texts("share", share_problem).unwrap_or_default(),
    };
    for (key, is_set) in [("setup", !workspace.setup.is_empty()), ("share", !workspace.share.is_empty())] {
        if mode == Mode::InPlace && is_set {
            fields.fault(key, "has a meaning only with `\"mode\": \"worktree\"`; set that, or remove it");
        }
    }
    fields.finish();
    workspace
}

fn setup(fields: &mut Fields<'_>) -> Vec<Vec<String>> {
    let Some(value) = fields.value("setup") else { return Vec::new() };
    let Some(commands) = value.as_array() else {
        fields.fault("setup", "must be a list of commands, each a list of texts");
        return Vec::new();
    };
    commands.iter().filter_map(|command| arguments(fields, "setup", command)).collect()
}

fn share_problem(path: &str) -> Option<String> {
    let belongs = ["state", "planning", ".git", ".runner.lock", "runner.local.json"];
    let first = path.split('/').next().unwrap_or_default();
    if belongs.contains(&first) {
        return Some("belongs to the coordinator or to git; remove it".to_owned());
    }
    path_problem(path)
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::config::{Config, ConfigError};

    fn parsed(json: &str) -> Result<Workspace, String> {
        match Config::parse(Path::new("runner.local.json"), json.as_bytes()) {
            Ok(config) => Ok(config.workspace),
            Err(ConfigError::Faults(faults)) => Err(crate::strict::lines(&faults)),
            Err(error) => Err(error.to_string()),
        }
    }

    #[test]
    fn sessions_work_in_the_root_unless_told_otherwise() {
        assert_eq!(parsed("{}").unwrap(), Workspace::default());
        assert_eq!(parsed(r#"{"workspace": {}}"#).unwrap().mode, Mode::InPlace);
        let all =
            r#"{"workspace": {"mode": "worktree", "setup": [["npm", "ci"], ["true"]], "share": ["web/node_modules"]}}"#;
        let expected = Workspace {
            mode: Mode::Worktree,
            setup: vec![vec!["npm".to_owned(), "ci".to_owned()], vec!["true".to_owned()]],
            share: vec!["web/node_modules".to_owned()],
        };
        assert_eq!(parsed(all).unwrap(), expected);
    }

    #[test]
    fn a_wrong_workspace_is_refused_by_key() {
        for (json, names) in [
            (r#"{"workspace": "worktree"}"#, "`workspace` must be an object"),
            (r#"{"workspace": {"mode": "tree"}}"#, r#"`workspace.mode` must be "in_place" or "worktree""#),
            (
                r#"{"workspace": {"mode": "worktree", "setup": ["npm ci"]}}"#,
                "`workspace.setup` must be a list of texts",
            ),
            (r#"{"workspace": {"mode": "worktree", "setup": [[]]}}"#, "`workspace.setup` is an empty list"),
            (
                r#"{"workspace": {"mode": "worktree", "setup": "npm ci"}}"#,
                "`workspace.setup` must be a list of commands",
            ),
            (r#"{"workspace": {"mode": "worktree", "share": ["../x"]}}"#, "`workspace.share` holds \"../x\""),
            (r#"{"workspace": {"mode": "worktree", "share": ["state/runs"]}}"#, "belongs to the coordinator"),
            (r#"{"workspace": {"setup": [["true"]]}}"#, "`workspace.setup` has a meaning only with"),
            (r#"{"workspace": {"mode": "worktree", "shared": []}}"#, "did you mean"),
            (r#"{"workspace": {"mode": "worktree"}, "git_commits": false}"#, "`workspace.mode`"),
            (r#"{"workspace": {"mode": "worktree"}, "git_hooks": "run"}"#, "`workspace.mode`"),
        ] {
            let told = parsed(json).expect_err(json);
            assert!(told.contains(names), "{json}: {told}");
        }
    }
}
