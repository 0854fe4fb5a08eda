//! Runs the sample's agent, session after session, with a stand-in for `runner` that records how it was called.

#![expect(clippy::disallowed_methods, reason = "the script is run as a person would, outside any session")]

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use serde_json::Value;

use super::lay_down_demo;
use crate::fs;

/// How one session of the agent left.
#[derive(Debug)]
struct Call {
    arguments: Vec<String>,
    input: String,
    said: String,
}

impl Call {
    fn verb(&self) -> &str {
        &self.arguments[1]
    }

    fn flag(&self, name: &str) -> &str {
        let at = self.arguments.iter().position(|argument| argument == name).expect("the flag is there");
        &self.arguments[at + 1]
    }
}

struct Demo {
    dir: tempfile::TempDir,
}

impl Demo {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        lay_down_demo(&dir.path().join("demo")).unwrap();
        Self { dir }
    }

    fn root(&self) -> PathBuf {
        self.dir.path().join("demo")
    }

    fn start(&self, action: &str, task: &str, prompt: &str) -> Output {
        let bin = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/sample/recording_runner.sh");
        let mut child = Command::new("sh")
            .arg(self.root().join("scripted_agent.sh"))
            .env("RUNNER_TASK_ID", task)
            .env("RUNNER_ACTION", action)
            .env("RUNNER_AGENT_ID", "auto-developer-000000000000")
            .env("RUNNER_PROJECT_ROOT", self.root())
            .env("RUNNER_BIN", bin)
            .env("RECORD", self.dir.path().join("record"))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        child.stdin.take().unwrap().write_all(prompt.as_bytes()).unwrap();
        child.wait_with_output().unwrap()
    }

    /// One session that must leave by exactly one call.
    fn session(&self, action: &str, task: &str, prompt: &str) -> Call {
        let output = self.start(action, task, prompt);
        let said = String::from_utf8(output.stdout).unwrap();
        let complaint = String::from_utf8(output.stderr).unwrap();
        assert!(output.status.success() && complaint.is_empty(), "{action} {task}: {said}{complaint}");
        let record = self.dir.path().join("record");
        let text = String::from_utf8(fs::read(&record).unwrap()).unwrap();
        let input = fs::read_if_present(&record.with_extension("input")).unwrap().unwrap_or_default();
        fs::remove(&record).unwrap();
        fs::remove(&record.with_extension("input")).unwrap();
        let arguments: Vec<_> = text.split_terminator('\0').map(str::to_owned).collect();
        assert_eq!(arguments.iter().filter(|argument| *argument == "task").count(), 1, "{arguments:?}");
        Call { arguments, input: String::from_utf8(input).unwrap(), said }
    }

    /// A session that must leave by `verb`, with a message the coordinator accepts.
    fn expect(&self, verb: &str, action: &str, task: &str) -> Call {
        let call = self.session(action, task, "You are an agent.\n");
        assert_eq!(call.verb(), verb, "{call:?}");
        if verb != "escalate" {
            assert!((15..=100).contains(&call.flag("--subject").chars().count()), "{call:?}");
            assert!(!call.flag("--changes").is_empty() && !call.flag("--validation").is_empty());
        }
        call
    }

    fn card(&self, task: &str) -> Value {
        fs::read_json(&self.root().join(format!("planning/tasks/{task}.json"))).unwrap()
    }
}

#[test]
fn the_sample_takes_fifteen_sessions_with_one_rejection_and_one_blocker() {
    let demo = Demo::new();
    demo.expect("submit", "claim", "S00-001");
    demo.expect("approve", "review", "S00-001");
    demo.expect("submit", "claim", "S00-002");
    let rejection = demo.expect("reject", "review", "S00-002");
    let reason = rejection.flag("--reason");
    assert!(reason.contains("Expected:\n11 x,9 y,\nGot:\n9 y,11 x,\n"), "{reason}");
    let rework =
        demo.session("claim", "S00-002", &format!("You are an agent.\n\n## state/handoffs/x.md\n\n{reason}\n"));
    assert!(rework.said.contains("the handoff says: more frequent words"), "{}", rework.said);
    demo.expect("approve", "review", "S00-002");
    demo.expect("submit", "claim", "S00-003");
    demo.expect("approve", "review", "S00-003");
    demo.expect("escalate", "claim", "S01-001");
    demo.expect("submit", "claim", "S01-001-r1");
    demo.expect("approve", "review", "S01-001-r1");
    let report = demo.expect("submit", "claim", "S01-001");
    assert!(
        report.input.contains("\nok      tally/tests/report.sh\nok      tally/tests/words.sh\ntests: 3, failed: 0\n"),
        "{}",
        report.input
    );
    demo.expect("approve", "review", "S01-001");
    demo.expect("submit", "claim", "S01-002");
    demo.expect("approve", "review", "S01-002");
}

#[test]
fn the_blocker_names_a_remediation_inside_the_scope_of_its_origin() {
    let demo = Demo::new();
    let call = demo.expect("escalate", "claim", "S01-001");
    let issue: Value = serde_json::from_str(&call.input).unwrap();
    let card = demo.card("S01-001");
    assert!(issue["scope"].as_array().unwrap().iter().all(|glob| card["scope"].as_array().unwrap().contains(glob)));
    assert!(demo.root().join(format!("roles/{}.md", issue["role"].as_str().unwrap())).is_file());
    assert!(issue["title"].is_string() && issue["reason"].is_string());
}

#[test]
fn work_that_an_interrupted_session_left_is_taken_up() {
    let demo = Demo::new();
    demo.expect("submit", "claim", "S00-001");
    demo.expect("submit", "claim", "S00-002");
    let again = demo.expect("submit", "claim", "S00-002");
    assert!(again.said.contains("found tally/count.sh from an earlier session"), "{}", again.said);
}

#[test]
fn a_review_changes_no_file() {
    let demo = Demo::new();
    demo.expect("submit", "claim", "S00-001");
    let before = tree(&demo.root());
    demo.expect("approve", "review", "S00-001");
    assert_eq!(tree(&demo.root()), before);
}

#[test]
fn a_task_the_script_does_not_know_ends_without_a_verdict() {
    let demo = Demo::new();
    let output = demo.start("claim", "X-1", "");
    assert_eq!(output.status.code(), Some(1));
    assert!(String::from_utf8(output.stderr).unwrap().contains("put a real agent in runner.local.json"));
    assert!(!demo.dir.path().join("record").exists());
}

/// Every file below `folder` with its content.
fn tree(folder: &Path) -> Vec<(PathBuf, Vec<u8>)> {
    let mut found = Vec::new();
    for path in fs::list(folder).unwrap().unwrap() {
        if path.is_dir() {
            found.extend(tree(&path));
        } else {
            let content = fs::read(&path).unwrap();
            found.push((path, content));
        }
    }
    found
}
