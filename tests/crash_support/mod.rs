//! Kills a run at each of its durable steps in turn, starts again, and compares what lies on disk with the tables of
//! `docs/state.md`.
//!
//! Owns the loop over the steps and the reading of the tables. Which operation is killed is for the test to say.
#![allow(clippy::disallowed_methods, reason = "the doors keep the product; tests read files directly")]

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use serde_json::json;

use crate::support::{Finished, Project};

/// The document that the tests take their expectations from.
const DOCUMENT: &str = include_str!("../../docs/state.md");

/// A start that finds nothing to run: it only puts in order what was interrupted.
pub(crate) const ONLY_RECOVER: [&str; 2] = ["--task", "S09-001"];

/// Where the process is killed.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Victim {
    /// The coordinator, at a step of its own.
    Coordinator,
    /// The agent's verb at one of its steps, and the coordinator before it can look.
    VerbAndCoordinator,
    /// The agent's verb alone; the agent tries again.
    Verb,
}

/// What a kill leaves and what holds one start later.
type Pair = (Standing, Standing);

/// Everything that the rest of the plan can depend on once a kill was put in order: what the kill left, what holds now, and
/// which files lie there, with the numbers in their names blotted out. From the same it goes on in the same way, so once is enough.
type Beginning = (Pair, BTreeSet<String>);

/// One operation of one project.
pub(crate) struct Operation {
    /// The heading of its table in the document.
    pub(crate) heading: &'static str,
    /// The project just before it.
    pub(crate) template: Project,
    /// The agent; `$FAULT` is the fault for its verb, and `$END` is 1 if it has to kill the coordinator when its verb was killed.
    pub(crate) agent: &'static [(&'static str, &'static str)],
    /// Tasks whose rows are compared, in the order of the table.
    pub(crate) tasks: &'static [&'static str],
    /// The start that is killed.
    pub(crate) args: &'static [&'static str],
    /// Whether what it changes under `state/` waits for the commit of the next session.
    pub(crate) waits_for_commit: bool,
}

/// Rows, records beside them, and the commits since the operation began.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Standing {
    rows: String,
    records: String,
    head: String,
}

impl Operation {
    /// Kills the operation at every step; fails unless each kill and each start after it is in the document's table, and
    /// unless each line of the table was met.
    #[track_caller]
    pub(crate) fn survives(&self, victim: Victim) {
        let table = table(self.heading);
        let mut unmet: BTreeSet<&Standing> = table.keys().collect();
        let mut carried = BTreeSet::new();
        for (step, (killed, later)) in (1..).map_while(|step| Some((step, self.kill_at(step, victim, &mut carried)?))) {
            let Some(expected) = table.get(&killed) else {
                panic!("step {step} of {}: {killed:?}, then {later:?}, is not in docs/state.md", self.heading)
            };
            assert_eq!(*expected, later, "step {step} of {} after {killed:?}", self.heading);
            unmet.remove(&killed);
        }
        assert!(unmet.is_empty(), "lines of docs/state.md under {} that no kill led to: {unmet:?}", self.heading);
    }

    /// Kills the agent's verb at every step; fails unless the session comes to the same end whatever the step.
    #[track_caller]
    pub(crate) fn survives_trying_again(&self) {
        let mut carried = BTreeSet::new();
        let ends: Vec<Pair> = (1..).map_while(|step| self.kill_at(step, Victim::Verb, &mut carried)).collect();
        assert!(ends.len() > 1, "{} has no steps", self.heading);
        for end in &ends {
            assert_eq!(end, &ends[0], "{}", self.heading);
        }
    }

    /// Kills a copy at its `step`th step and starts it again; none if it has no such step. The plan is carried to its end from
    /// each beginning that is not among the `carried`.
    #[track_caller]
    fn kill_at(&self, step: usize, victim: Victim, carried: &mut BTreeSet<Beginning>) -> Option<Pair> {
        let project = self.template.copy();
        let base = self.template.head();
        let first = self.killed_run(&project, &format!("*#{step}"), victim);
        let was_killed = first.signal == Some(9) || (victim == Victim::Verb && project.note("verb") == "137\n");
        if !was_killed {
            assert!(matches!(first.code, Some(0 | 3)), "step {step}: {first}");
            return None;
        }
        let killed = self.standing(&project, &base);
        let work = work(&project);
        let second = project.run(&ONLY_RECOVER);
        let context = format!("step {step} of {}: {killed:?}\n{first}\n--- then {second}", self.heading);
        assert!(matches!(second.code, Some(0 | 3)), "{context}");
        let later = self.standing(&project, &base);
        assert!(self.waits_for_commit || project.status().is_empty(), "not clean: {}\n{context}", project.status());
        if carried.insert(((killed.clone(), later.clone()), files(&project))) {
            carried_to_the_end(&project, &context);
            assert_eq!(project.status(), "", "the work tree is not clean: {context}");
        }
        sound(&project, &work, &context);
        Some((killed, later))
    }

    /// The first start of a copy, with the fault where the victim meets it.
    fn killed_run(&self, project: &Project, fault: &str, victim: Victim) -> Finished {
        let (own, of_verb) = if victim == Victim::Coordinator { (fault, "") } else { ("", fault) };
        let end = usize::from(victim == Victim::VerbAndCoordinator);
        let cases: Vec<(&str, String)> = self
            .agent
            .iter()
            .map(|(pattern, body)| (*pattern, format!("FAULT='{of_verb}' END={end}\n{body}")))
            .collect();
        project.agent_on(&cases.iter().map(|(pattern, body)| (*pattern, body.as_str())).collect::<Vec<_>>());
        project.config(&json!({"environment": {"remove": ["RUNNER_FAULT"]}}));
        project.spawn_with(self.args, &[("RUNNER_FAULT", own)]).wait()
    }

    fn standing(&self, project: &Project, base: &str) -> Standing {
        let rows: Vec<String> = self.tasks.iter().map(|task| row(project, task)).collect();
        let records: Vec<&str> = [
            (".git/runner/queue", "queued"),
            (".git/runner/pending.json", "pending"),
            (".git/runner/commit.json", "intent"),
            (".git/runner/verify.json", "verifying"),
            ("state/runs/landing", "landing"),
        ]
        .into_iter()
        .filter(|(path, _)| is_filled(&project.path(path)))
        .map(|(_, name)| name)
        .collect();
        let commits = if project.read(".git/refs/heads/main").trim_end() == base {
            String::new()
        } else {
            let range = format!("{base}..HEAD");
            project.git(&["log", "--reverse", &format!("--format={}", trailer("Action")), &range])
        };
        Standing {
            rows: rows.join(", "),
            records: if records.is_empty() { "none".to_owned() } else { records.join(", ") },
            head: if commits.is_empty() { "base".to_owned() } else { commits.lines().collect::<Vec<_>>().join(", ") },
        }
    }
}

/// A file, or a folder with something in it that a killed process has finished.
fn is_filled(path: &Path) -> bool {
    match fs::read_dir(path) {
        Ok(mut entries) => entries.any(|entry| {
            entry.is_ok_and(|entry| Path::new(&entry.file_name()).extension().is_none_or(|end| end != "tmp"))
        }),
        Err(_) => path.exists(),
    }
}

/// A task's status as its file has it, and whether a session holds it.
fn row(project: &Project, task: &str) -> String {
    if !project.exists(&format!("planning/tasks/{task}.json")) {
        return "no task".to_owned();
    }
    if project.read("state/state.json").contains("\"tasks\"") {
        return "original".to_owned();
    }
    let row = project.row(task);
    let held = if row["claim"].is_object() { "+claim" } else { "" };
    format!("{}{held}", project.status_of(task))
}

/// What the sessions have made so far, by file; not what a verb had not finished writing.
fn work(project: &Project) -> BTreeMap<PathBuf, Vec<u8>> {
    let folders = ["src/S00-001", "src/S00-002", "state/handoffs", "state/evidence"];
    let entries = folders.iter().filter_map(|folder| fs::read_dir(project.path(folder)).ok()).flatten();
    let files =
        entries.filter_map(Result::ok).filter(|entry| !entry.file_name().to_string_lossy().contains(".runner-"));
    files.map(|file| (file.path(), fs::read(file.path()).expect("a file can be read"))).collect()
}

/// Runs the plan to its end, answering for every task that waits for a person.
#[track_caller]
fn carried_to_the_end(project: &Project, context: &str) {
    for _ in 0..3 {
        let run = project.run(&[]);
        let context = format!("{context}\n--- then {run}");
        assert!(matches!(run.code, Some(0 | 3)), "{context}");
        let result = run.json();
        if result["stop"] == "complete" {
            return;
        }
        let waiting = result["external_blockers"].as_object().cloned().unwrap_or_default();
        assert!(!waiting.is_empty(), "{context}");
        for task in waiting.keys() {
            let answer = project.run(&["task", "answer", task, "--text", "go on", "--as", "ann"]);
            assert_eq!(answer.code, Some(0), "{answer}\n{context}");
        }
    }
    panic!("the plan does not come to its end: {context}");
}

/// The files of the project, the coordinator's own and git's locks among them, without the numbers in their names.
fn files(project: &Project) -> BTreeSet<String> {
    let is_told = |name: &&String| {
        let is_lock = Path::new(name).extension().is_some_and(|extension| extension == "lock");
        let is_gits = name.starts_with(".git/") && !name.starts_with(".git/runner/") && !is_lock;
        !is_gits && !name.starts_with("state/runs/")
    };
    let blot = |name: &String| name.replace(|c: char| c.is_ascii_digit() || ('a'..='f').contains(&c), "#");
    project.listing().keys().filter(is_told).map(blot).collect()
}

/// Fails unless the repository is sound, everything that was made is committed, and nothing is there twice.
#[track_caller]
fn sound(project: &Project, work: &BTreeMap<PathBuf, Vec<u8>>, context: &str) {
    project.git(&["fsck", "--strict"]);
    // Nothing of this is ignored, so what is there once the tree is clean is committed.
    for (path, bytes) in work {
        // A later session may have added to it.
        assert!(fs::read(path).is_ok_and(|now| now.starts_with(bytes)), "{} is lost: {context}", path.display());
    }
    let format = format!("--format={} {} {}", trailer("Agent"), trailer("Task"), trailer("Action"));
    let commits = project.git(&["log", &format]);
    let files = project.git(&["ls-files"]);
    assert!(!files.contains(".runner-"), "something half written is committed: {files}\n{context}");
    let sessions = commits.lines().filter(|line| !line.trim().is_empty()).map(str::to_owned);
    assert_no_repetition(sessions, &format!("commits\n{context}"));
    for task in ["S00-001", "S00-001-r1", "S00-002"] {
        let row = project.row(task);
        let events = row["events"].as_array().cloned().unwrap_or_default();
        for (at, event) in events.iter().enumerate() {
            assert_eq!(event["seq"], at + 1, "{task}: {row:#}\n{context}");
        }
        let steps = events.iter().map(|event| format!("{} {}", event["action"], event["agent"]));
        assert_no_repetition(steps, &format!("events of {task}: {row:#}\n{context}"));
    }
}

/// A trailer's value, for `git log --format`.
fn trailer(key: &str) -> String {
    format!("%(trailers:key={key},valueonly,separator=%x2C)")
}

/// Fails if something was done twice.
#[track_caller]
fn assert_no_repetition(all: impl Iterator<Item = String>, context: &str) {
    let mut seen = BTreeSet::new();
    for one in all {
        assert!(seen.insert(one.clone()), "{one} is there twice: {context}");
    }
}

/// The lines of the table under `heading`: what a kill leaves, and what one start later holds.
#[track_caller]
fn table(heading: &str) -> BTreeMap<Standing, Standing> {
    let after = DOCUMENT.split(&format!("### {heading}\n")).nth(1);
    let part = after.unwrap_or_else(|| panic!("docs/state.md has no heading {heading}"));
    let part = part.split("\n#").next().unwrap_or_default();
    let lines = part.lines().filter(|line| line.starts_with('|')).skip(2);
    lines
        .map(|line| {
            let cells: Vec<String> =
                line.trim_matches('|').split('|').map(|cell| cell.trim().replace('`', "")).collect();
            let [rows, records, head, _, rows_after, head_after] = cells.as_slice() else {
                panic!("a line of {heading} has not six cells: {line}")
            };
            let standing = |rows: &str, records: &str, head: &str| Standing {
                rows: rows.to_owned(),
                records: records.to_owned(),
                head: head.to_owned(),
            };
            (standing(rows, records, head), standing(rows_after, "none", head_after))
        })
        .collect()
}
