//! A sealed sandbox for whole runs: a project in a temporary folder, a scripted agent, and the real binary in an
//! environment of its own. Nothing here sleeps: agents and tests wait for each other on named pipes.
//!
//! Owns what the end-to-end tests share. It ends no process but the ones it started.
#![allow(dead_code, unreachable_pub, unused_imports, reason = "each test program uses its own part of the sandbox")]
#![allow(clippy::disallowed_methods, reason = "the doors keep the product; tests write files and start the binary")]
#![allow(clippy::print_stdout, reason = "a test that is skipped says so")]

mod build;
mod copy;
mod inspect;
mod pipes;
mod process;

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};
use tempfile::TempDir;

pub use build::Builder;
pub use inspect::{Listing, Session, assert_same, assert_says, assert_says_one, find_key};
pub use pipes::{Gate, Listener};
pub use process::{Finished, Running, has_strace};
pub use rustix::process::Signal;

/// The shell functions every scripted agent has.
const PRELUDE: &str = include_str!("prelude.sh");

/// A project in a temporary folder; everything of it is gone when the value is dropped.
pub struct Project {
    base: TempDir,
    root: PathBuf,
    git: bool,
}

impl Project {
    /// One stage `S00` with one task `S00-001`.
    pub fn new() -> Self {
        Self::tasks(1)
    }

    /// One stage `S00` with `count` independent tasks.
    pub fn tasks(count: usize) -> Self {
        Self::builder().stage("S00", count).build()
    }

    /// A project to be described first.
    pub fn builder() -> Builder {
        Builder::default()
    }

    /// The project root.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// A path below the root.
    pub fn path(&self, name: &str) -> PathBuf {
        self.root.join(name)
    }

    /// A path in the sandbox but outside the project root.
    pub fn outside(&self, name: &str) -> PathBuf {
        self.base.path().join(name)
    }

    /// Writes a file below the root, making its folders.
    pub fn write(&self, name: &str, bytes: impl AsRef<[u8]>) {
        write(&self.path(name), bytes.as_ref());
    }

    /// The text of a file below the root.
    #[track_caller]
    pub fn read(&self, name: &str) -> String {
        let path = self.path(name);
        match fs::read(&path) {
            Ok(bytes) => String::from_utf8_lossy(&bytes).into_owned(),
            Err(error) => panic!("cannot read {}: {error}", path.display()),
        }
    }

    /// Whether something of that name is there, a dangling link included.
    pub fn exists(&self, name: &str) -> bool {
        self.path(name).symlink_metadata().is_ok()
    }

    /// Sets the permission bits of a file below the root.
    pub fn chmod(&self, name: &str, mode: u32) {
        fs::set_permissions(self.path(name), fs::Permissions::from_mode(mode)).expect("permissions can be set");
    }

    /// Removes a file below the root.
    pub fn remove(&self, name: &str) {
        fs::remove_file(self.path(name)).expect("file can be removed");
    }

    /// Merges `patch` into `runner.local.json`, key by key.
    pub fn config(&self, patch: &Value) {
        let file = self.path("runner.local.json");
        let mut config: Value =
            fs::read(&file).ok().and_then(|bytes| serde_json::from_slice(&bytes).ok()).unwrap_or_else(|| json!({}));
        merge(&mut config, patch);
        write(&file, pretty(&config).as_bytes());
    }

    /// Removes a folder below the root with all that is in it.
    pub fn remove_folder(&self, name: &str) {
        fs::remove_dir_all(self.path(name)).expect("folder can be removed");
    }

    /// Writes a file in the sandbox but outside the project root.
    pub fn write_outside(&self, name: &str, text: &str) -> String {
        let path = self.outside(name);
        write(&path, text.as_bytes());
        path.display().to_string()
    }

    /// Makes `script` the agent: POSIX sh, after the prelude of `prelude.sh`.
    pub fn agent(&self, script: &str) {
        let pipes = self.outside("pipes");
        let notes = self.outside("notes");
        let text = format!("PIPES='{}'\nNOTES='{}'\n{PRELUDE}\n{script}\n", pipes.display(), notes.display());
        let path = self.outside("agent.sh");
        write(&path, text.as_bytes());
        // Named as an argument of sh: a script just written could be "busy" while another test's child is between fork and exec.
        self.config(&json!({"argv": ["/bin/sh", path.to_str().expect("the sandbox has a plain path")]}));
    }

    /// An agent with its own lines for some sessions, by `case` pattern over `TASK/ACTION`; all others are honest.
    pub fn agent_on(&self, cases: &[(&str, &str)]) {
        let mut script = String::from("case \"$RUNNER_TASK_ID/$RUNNER_ACTION\" in\n");
        for (pattern, body) in cases {
            for piece in [pattern, ")\n", body, "\n;;\n"] {
                script.push_str(piece);
            }
        }
        script.push_str("*) honest ;;\nesac");
        self.agent(&script);
    }

    /// A card as the builder makes them, not yet in any plan.
    pub fn new_card(stage: &str, task: &str) -> Value {
        build::card(stage, task)
    }

    /// The card of a task as it is on disk.
    #[track_caller]
    pub fn card(&self, task: &str) -> Value {
        serde_json::from_str(&self.read(&format!("planning/tasks/{task}.json"))).expect("a card is JSON")
    }

    /// Rewrites a task's card with `patch` merged into it, without committing.
    pub fn edit_card(&self, task: &str, patch: &Value) {
        let mut card = self.card(task);
        merge(&mut card, patch);
        self.write(&format!("planning/tasks/{task}.json"), pretty(&card));
    }

    /// Commits everything that git does not ignore, as the person who owns the project.
    pub fn commit_all(&self, subject: &str) {
        self.git(&["add", "-A"]);
        self.git(&["commit", "-q", "--allow-empty", "-m", subject]);
    }
}

/// Writes a file, making its folders.
fn write(path: &Path, bytes: &[u8]) {
    fs::create_dir_all(path.parent().expect("a file has a folder")).expect("folder can be made");
    if let Err(error) = fs::write(path, bytes) {
        panic!("cannot write {}: {error}", path.display());
    }
}

/// JSON as the project keeps it: two spaces, final newline.
fn pretty(value: &Value) -> String {
    let mut text = serde_json::to_string_pretty(value).expect("a value is JSON");
    text.push('\n');
    text
}

/// Puts each key of `patch` into `value`; a null removes the key.
fn merge(value: &mut Value, patch: &Value) {
    let (Value::Object(value), Value::Object(patch)) = (value, patch) else { panic!("only objects can be merged") };
    for (key, new) in patch {
        if new.is_null() {
            value.shift_remove(key);
        } else {
            value.insert(key.clone(), new.clone());
        }
    }
}
