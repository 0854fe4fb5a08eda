//! Lays a project down: plan, roles, context, state, configuration, and its first commit.

use std::collections::BTreeMap;
use std::fs;

use serde_json::{Value, json};

use super::{Project, merge, pretty, write};

/// What git must ignore in a project.
pub const IGNORED: &str = "state/runs/\nstate/commit_messages/\nrunner.local.json\n.runner.lock\n";

/// A project before it is on disk.
#[must_use]
pub struct Builder {
    stages: Vec<(String, usize)>,
    stage_patches: BTreeMap<String, Value>,
    cards: BTreeMap<String, Value>,
    files: Vec<(String, Vec<u8>)>,
    config: Value,
    git: bool,
}

impl Default for Builder {
    fn default() -> Self {
        Self {
            stages: Vec::new(),
            stage_patches: BTreeMap::new(),
            cards: BTreeMap::new(),
            files: Vec::new(),
            config: json!({}),
            git: true,
        }
    }
}

impl Builder {
    /// Adds a stage with `count` tasks, `<STAGE>-001` and on.
    pub fn stage(mut self, id: &str, count: usize) -> Self {
        self.stages.push((id.to_owned(), count));
        self
    }

    /// Merges `patch` into a stage's file.
    pub fn stage_keys(mut self, id: &str, patch: Value) -> Self {
        self.stage_patches.insert(id.to_owned(), patch);
        self
    }

    /// Merges `patch` into a task's card.
    pub fn card(mut self, task: &str, patch: Value) -> Self {
        self.cards.insert(task.to_owned(), patch);
        self
    }

    /// Adds a file, or replaces one, before the first commit.
    pub fn file(mut self, name: &str, bytes: impl AsRef<[u8]>) -> Self {
        self.files.push((name.to_owned(), bytes.as_ref().to_vec()));
        self
    }

    /// Adds lines to `.gitignore`.
    pub fn ignore(self, lines: &str) -> Self {
        let text = format!("{IGNORED}{lines}");
        self.file(".gitignore", text)
    }

    /// Merges `patch` into the configuration.
    pub fn config(mut self, patch: Value) -> Self {
        self.config = patch;
        self
    }

    /// A plain folder instead of a repository, with `git_commits` off.
    pub fn without_git(mut self) -> Self {
        self.git = false;
        self
    }

    /// Puts it on disk, with an honest agent.
    pub fn build(self) -> Project {
        let base = tempfile::Builder::new().prefix("runner-e2e-").tempdir().expect("a temporary folder");
        // Resolved, so that paths in messages can be compared.
        let root = base.path().canonicalize().expect("the folder is there").join("project");
        for folder in ["home", "tmp", "pipes", "notes", "logs"] {
            fs::create_dir_all(base.path().join(folder)).expect("folder can be made");
        }
        let project = Project { base, root, git: self.git };
        self.lay(&project);
        project.config(&json!({
            "timeout_seconds": 100,
            "exit_grace_seconds": 30,
            "kill_grace_seconds": 0.3,
            // Further processes have tests of their own (e2e_turns), which start from the default.
            "follow_up_turns": 0,
            "git_commits": self.git,
        }));
        project.agent("honest");
        project.config(&self.config);
        if self.git {
            project.git(&["init", "-q", "-b", "main"]);
            project.git(&["config", "user.name", "Owner"]);
            project.git(&["config", "user.email", "owner@example.invalid"]);
            project.git(&["config", "gc.auto", "0"]);
            project.commit_all("Lay down the project");
        }
        project
    }

    fn lay(&self, project: &Project) {
        for (name, text) in [
            ("AGENTS.md", "# Agents\n\nWork small.\n"),
            ("README.md", "# Sample\n"),
            ("roles/common.md", "# All roles\n\nOne task, one session.\n"),
            ("roles/backend.md", "# backend\n"),
            ("roles/frontend.md", "# frontend\n"),
            ("roles/qa.md", "# qa\n"),
            ("docs/notes.md", "# Notes\n"),
            (".gitignore", IGNORED),
            ("state/state.json", "{\"schema\": 2}\n"),
        ] {
            project.write(name, text);
        }
        for (order, (stage, count)) in self.stages.iter().enumerate() {
            let mut value = json!({"id": stage, "title": format!("Stage {stage}"), "goal": "A sample.", "order": order, "depends_on": []});
            if let Some(patch) = self.stage_patches.get(stage) {
                merge(&mut value, patch);
            }
            project.write(&format!("planning/stages/{stage}.json"), pretty(&value));
            for number in 1..=*count {
                let task = format!("{stage}-{number:03}");
                let mut card = card(stage, &task);
                if let Some(patch) = self.cards.get(&task) {
                    merge(&mut card, patch);
                }
                project.write(&format!("planning/tasks/{task}.json"), pretty(&card));
            }
        }
        for (name, bytes) in &self.files {
            write(&project.path(name), bytes);
        }
    }
}

/// The card a task has unless the test says otherwise.
pub fn card(stage: &str, task: &str) -> Value {
    json!({
        "id": task,
        "stage": stage,
        "title": format!("Build sample {task}"),
        "role": "backend",
        "reviewer_role": "qa",
        "scope": [format!("src/{task}/*")],
        "inputs": [],
        "outcome": "One file in scope.",
        "steps": ["Write the file."],
        "acceptance": ["The file is there."],
        "checks": ["Read it."],
        "requirements": [],
        "depends_on": [],
    })
}
