//! What the coordinator itself costs per session: a stage of ten tasks, twenty sessions, with 100 and with 10 000 tracked files.
//!
//! The agent is this very program, which costs next to nothing and notes when it began and ended; what is left of the run's
//! time is the coordinator's. Run it with `cargo bench --bench session_overhead`; a number as argument sets the runs of each.
#![expect(clippy::disallowed_methods, clippy::print_stdout, reason = "a measurement outside the product's doors")]

mod support;

use std::fs;
use std::path::Path;
use std::process::Stdio;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use serde_json::{Value, json};
use support::{git, leave_by, put, runner, variable};

const TASKS: usize = 10;
const RUNS: usize = 5;
const TIMES: &str = "state/runs/agent-times.log";

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if arguments.iter().any(|argument| argument == "--agent") {
        return agent();
    }
    // `cargo test --all-targets` starts this too, but without the word that `cargo bench` gives.
    if !arguments.iter().any(|argument| argument == "--bench") {
        return;
    }
    let runs = arguments.iter().find_map(|argument| argument.parse().ok()).unwrap_or(RUNS);
    for files in [100, 10_000] {
        let mut overheads: Vec<Duration> = (0..runs).map(|_| measure(files)).collect();
        overheads.sort();
        let ms = |time: Duration| time.as_secs_f64() * 1000.0;
        let (least, median) = (ms(overheads[0]), ms(overheads[overheads.len() / 2]));
        println!("{files:>6} files: {median:7.1} ms per session (median of {runs} runs; least {least:.1} ms)");
    }
}

/// One run from the first claim to the last commit; answers with the coordinator's own time per session.
fn measure(files: usize) -> Duration {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let root = folder.path().join("project");
    lay_down(&root, files);
    let began = Instant::now();
    let output = runner(&root).stdin(Stdio::null()).output().expect("the runner starts");
    let wall = began.elapsed();
    let result: Value = serde_json::from_slice(&output.stdout).unwrap_or_default();
    assert_eq!(result["stop"], "complete", "the run failed: {}", String::from_utf8_lossy(&output.stderr));
    assert_eq!(git(&root, &["status", "--porcelain"]), "", "the run left a dirty tree");
    let log = fs::read_to_string(root.join(TIMES)).expect("the agents' times");
    let sessions: Vec<u64> = log.lines().map(|line| line.parse().expect("nanoseconds")).collect();
    assert_eq!(sessions.len(), 2 * TASKS, "every task takes two sessions");
    let of_agents = Duration::from_nanos(sessions.iter().sum());
    wall.saturating_sub(of_agents) / u32::try_from(sessions.len()).expect("few sessions")
}

/// One session's work: read the prompt, write one file, leave a message, hand the task on.
fn agent() {
    let began = now();
    let (task, agent) = (variable("RUNNER_TASK_ID"), variable("RUNNER_AGENT_ID"));
    let prompt = std::io::read_to_string(std::io::stdin()).expect("the prompt on standard input");
    assert!(prompt.contains(&task), "the prompt names the task");
    let verb = if variable("RUNNER_ACTION") == "claim" {
        put(Path::new(&format!("src/{task}/out.txt")), &format!("done by {agent}\n"));
        "submit"
    } else {
        "approve"
    };
    leave_by(verb, &[]);
    let log = fs::OpenOptions::new().create(true).append(true).open(TIMES);
    let line = format!("{}\n", now() - began);
    std::io::Write::write_all(&mut log.expect("the log opens"), line.as_bytes()).expect("the log takes a line");
}

fn now() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).expect("a clock after 1970");
    u64::try_from(since.as_nanos()).expect("a clock before 2554")
}

/// A project with `files` tracked files of about 4 kB, committed.
fn lay_down(root: &Path, files: usize) {
    for number in 0..files {
        let text = format!("// file {number}\n").repeat(300);
        put(&root.join(format!("src/lib/area{}/unit{}/file{number}.ts", number / 1000, number / 20 % 50)), &text);
    }
    support::lay_down(root, TASKS, &json!({}));
    support::commit(root);
}
