//! What is on disk and in history, as values that tests compare.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use serde_json::Value;

use super::Project;

/// One session as its agent saw it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Session {
    /// The task's id.
    pub task: String,
    /// `claim` or `review`.
    pub action: String,
    /// The agent's id.
    pub agent: String,
}

/// Everything below a folder: path, with `/`, to kind, mode and content.
pub type Listing = BTreeMap<String, String>;

impl Project {
    /// Every file, folder and link of the project, git's own included, with mode and content.
    pub fn listing(&self) -> Listing {
        let mut all = Listing::new();
        list(&self.root, &self.root, &mut all);
        all
    }

    /// The same without the coordinator's own folder below `.git`, which holds its locks.
    pub fn public_listing(&self) -> Listing {
        let mut all = self.listing();
        all.retain(|name, _| name != ".git/runner" && !name.starts_with(".git/runner/"));
        all
    }

    /// The commit that HEAD names.
    pub fn head(&self) -> String {
        self.git(&["rev-parse", "HEAD"])
    }

    /// All commits of HEAD, newest first.
    pub fn log(&self) -> Vec<String> {
        self.git(&["log", "--format=%H"]).lines().map(str::to_owned).collect()
    }

    /// `git status` for scripts, untracked files one by one; empty for a clean tree.
    pub fn status(&self) -> String {
        self.git(&["status", "--porcelain", "--untracked-files=all"])
    }

    /// The whole message of a commit.
    pub fn message(&self, commit: &str) -> String {
        self.git(&["log", "-1", "--format=%B", commit])
    }

    /// The value of one trailer of a commit as git reads it; empty if there is none.
    pub fn trailer(&self, commit: &str, key: &str) -> String {
        self.git(&["log", "-1", &format!("--format=%(trailers:key={key},valueonly,separator=%x2C)"), commit])
    }

    /// The files a commit changed, sorted.
    pub fn files_of(&self, commit: &str) -> Vec<String> {
        let mut files: Vec<String> =
            self.git(&["show", "--name-only", "--format=", commit]).lines().map(str::to_owned).collect();
        files.sort();
        files
    }

    /// A file's content in HEAD.
    pub fn at_head(&self, name: &str) -> String {
        self.git(&["show", &format!("HEAD:{name}")])
    }

    /// Fails unless the tree is clean and the repository sound.
    #[track_caller]
    pub fn assert_clean(&self) {
        assert_eq!(self.status(), "", "the work tree is not clean");
        self.git(&["fsck", "--strict"]);
    }

    /// Fails unless a run with `args` is refused with a reason that has every word, starts no agent and leaves
    /// everything on disk as it was, but for the coordinator's own folder below `.git`. Returns the reason.
    #[track_caller]
    pub fn refuses(&self, args: &[&str], words: &[&str]) -> String {
        let before = self.public_listing();
        let steps = self.steps();
        let reason = self.run(args).refused();
        assert_says(&reason, words);
        assert_same(&before, &self.public_listing());
        assert_eq!(self.steps(), steps, "no agent is started");
        reason
    }

    /// A task's row, or null if it has none yet.
    pub fn row(&self, task: &str) -> Value {
        let Ok(stages) = fs::read_dir(self.path("state/tasks")) else { return Value::Null };
        stages
            .filter_map(Result::ok)
            .find_map(|stage| fs::read(stage.path().join(format!("{task}.json"))).ok())
            .map_or(Value::Null, |bytes| serde_json::from_slice(&bytes).expect("a row is JSON"))
    }

    /// A task's status; `todo` if nothing happened to it yet.
    pub fn status_of(&self, task: &str) -> String {
        self.row(task)["status"].as_str().unwrap_or("todo").to_owned()
    }

    /// A task's events.
    pub fn events(&self, task: &str) -> Vec<Value> {
        self.row(task)["events"].as_array().cloned().unwrap_or_default()
    }

    /// Everything said about a task where a person looks: its row and its handoff.
    pub fn told(&self, task: &str) -> String {
        let row = self.row(task);
        let handoff = row["handoff"].as_str().filter(|name| self.exists(name)).map(|name| self.read(name));
        format!("{row}\n{}", handoff.unwrap_or_default())
    }

    /// Fails unless the task waits for a person; returns what is said about it.
    #[track_caller]
    pub fn waits(&self, task: &str) -> String {
        let row = self.row(task);
        assert_eq!(row["external_wait"], true, "{task} should wait for a person: {row:#}");
        assert_ne!(row["status"], "done", "{row:#}");
        self.told(task)
    }

    /// The sessions in which an agent was really started, in order.
    pub fn sessions(&self) -> Vec<Session> {
        self.note("sessions")
            .lines()
            .map(|line| {
                let mut words = line.split(' ').map(str::to_owned);
                let mut next = || words.next().expect("three words a session");
                Session { task: next(), action: next(), agent: next() }
            })
            .collect()
    }

    /// The sessions as `TASK/ACTION`.
    pub fn steps(&self) -> Vec<String> {
        self.sessions().iter().map(|session| format!("{}/{}", session.task, session.action)).collect()
    }

    /// What agents left under a name with `note`, `attempt`; empty if nothing.
    pub fn note(&self, name: &str) -> String {
        let bytes = fs::read(self.outside("notes").join(name)).unwrap_or_default();
        String::from_utf8_lossy(&bytes).into_owned()
    }

    /// The record of an agent's first session.
    #[track_caller]
    pub fn run_json(&self, agent: &str) -> Value {
        serde_json::from_str(&self.read(&format!("state/runs/{agent}/1/run.json"))).expect("a record is JSON")
    }

    /// All session records of the project.
    pub fn records(&self) -> Vec<Value> {
        files_below(&self.path("state/runs"))
            .iter()
            .filter(|path| path.file_name().is_some_and(|name| name == "run.json"))
            .map(|path| {
                serde_json::from_slice(&fs::read(path).expect("a record can be read")).expect("a record is JSON")
            })
            .collect()
    }

    /// The texts kept aside under a file name, below any session's `kept/`.
    pub fn kept(&self, file_name: &str) -> Vec<String> {
        files_below(&self.path("state/runs"))
            .iter()
            .filter(|path| path.file_name().is_some_and(|name| name == file_name))
            .filter(|path| path.components().any(|part| part.as_os_str() == "kept"))
            .map(|path| String::from_utf8_lossy(&fs::read(path).expect("a kept file can be read")).into_owned())
            .collect()
    }
}

/// Fails unless every word is in the text, whatever the case.
#[track_caller]
pub fn assert_says(text: &str, words: &[&str]) {
    let lower = text.to_lowercase();
    for word in words {
        assert!(lower.contains(&word.to_lowercase()), "{word:?} is not in:\n{text}");
    }
}

/// Fails unless one of the words is in the text, whatever the case.
#[track_caller]
pub fn assert_says_one(text: &str, words: &[&str]) {
    let lower = text.to_lowercase();
    assert!(words.iter().any(|word| lower.contains(&word.to_lowercase())), "none of {words:?} is in:\n{text}");
}

/// Fails, naming what differs, unless both listings are equal.
#[track_caller]
pub fn assert_same(before: &Listing, after: &Listing) {
    let names: std::collections::BTreeSet<&String> = before.keys().chain(after.keys()).collect();
    let changed: Vec<&String> = names.into_iter().filter(|name| before.get(*name) != after.get(*name)).collect();
    assert!(changed.is_empty(), "changed on disk: {changed:#?}");
}

/// The first value under a key at any depth.
pub fn find_key<'a>(value: &'a Value, key: &str) -> Option<&'a Value> {
    match value {
        Value::Object(map) => map.get(key).or_else(|| map.values().find_map(|inner| find_key(inner, key))),
        Value::Array(list) => list.iter().find_map(|inner| find_key(inner, key)),
        _ => None,
    }
}

fn files_below(folder: &Path) -> Vec<PathBuf> {
    let Ok(entries) = fs::read_dir(folder) else { return Vec::new() };
    let mut files = Vec::new();
    for entry in entries.filter_map(Result::ok) {
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            files.extend(files_below(&entry.path()));
        } else {
            files.push(entry.path());
        }
    }
    files.sort();
    files
}

fn list(root: &Path, folder: &Path, all: &mut Listing) {
    for entry in fs::read_dir(folder).expect("a folder can be read").filter_map(Result::ok) {
        let path = entry.path();
        let meta = path.symlink_metadata().expect("an entry has metadata");
        let name = path.strip_prefix(root).expect("below the root").as_os_str().as_bytes().escape_ascii().to_string();
        let mode = meta.permissions().mode();
        let content = if meta.is_symlink() {
            format!("-> {}", fs::read_link(&path).expect("a link can be read").as_os_str().as_bytes().escape_ascii())
        } else if meta.is_file() {
            fs::read(&path).expect("a file can be read").escape_ascii().to_string()
        } else {
            String::new()
        };
        all.insert(name, format!("{mode:o} {content}"));
        if meta.is_dir() {
            list(root, &path, all);
        }
    }
}
