//! What the coordinator itself costs per session: a stage of ten tasks, twenty sessions, with 100 and with 10 000 tracked files.
//!
//! The agent is this very program, which costs next to nothing and notes when it began and ended; what is left of the run's
//! time is the coordinator's. Run it with `cargo bench --bench session_overhead`; a number as argument sets the runs of each.
#![expect(clippy::disallowed_methods, clippy::print_stdout, reason = "a measurement outside the product's doors")]

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use serde_json::{Value, json};

const RUNNER: &str = env!("CARGO_BIN_EXE_runner");
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
    let variable = |name: &str| std::env::var(name).expect("the session's environment");
    let (task, agent) = (variable("RUNNER_TASK_ID"), variable("RUNNER_AGENT_ID"));
    let prompt = std::io::read_to_string(std::io::stdin()).expect("the prompt on standard input");
    assert!(prompt.contains(&task), "the prompt names the task");
    let verb = if variable("RUNNER_ACTION") == "claim" {
        put(Path::new(&format!("src/{task}/out.txt")), &format!("done by {agent}\n"));
        "submit"
    } else {
        "approve"
    };
    let message = format!("Handle the sample work of {task}\n\nChanges: One file.\nValidation: It exists.\n");
    put(Path::new(&format!("state/commit_messages/{agent}.txt")), &message);
    let status = Command::new(variable("RUNNER_BIN")).args(["task", verb, &task]).stdout(Stdio::null()).status();
    assert!(status.is_ok_and(|status| status.success()), "the transition is made");
    let log = fs::OpenOptions::new().create(true).append(true).open(TIMES);
    let line = format!("{}\n", now() - began);
    std::io::Write::write_all(&mut log.expect("the log opens"), line.as_bytes()).expect("the log takes a line");
}

fn now() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).expect("a clock after 1970");
    u64::try_from(since.as_nanos()).expect("a clock before 2554")
}

/// A project of one stage with `files` tracked files of about 4 kB, committed.
fn lay_down(root: &Path, files: usize) {
    for number in 0..files {
        let text = format!("// file {number}\n").repeat(300);
        put(&root.join(format!("src/lib/area{}/unit{}/file{number}.ts", number / 1000, number / 20 % 50)), &text);
    }
    for role in ["backend", "qa"] {
        put(&root.join(format!("roles/{role}.md")), &format!("# {role}\n\nDo the work well.\n"));
    }
    put_json(
        &root.join("planning/stages/S00.json"),
        &json!({"id": "S00", "order": 0, "title": "Stage", "goal": "Sample", "depends_on": []}),
    );
    for number in 1..=TASKS {
        let id = format!("S00-{number:03}");
        let card = json!({
            "id": id, "stage": "S00", "title": format!("Build sample feature {number}"), "role": "backend",
            "reviewer_role": "qa", "scope": [format!("src/{id}/*")], "outcome": "One file exists.",
        });
        put_json(&root.join(format!("planning/tasks/{id}.json")), &card);
    }
    put(&root.join(".gitignore"), "state/runs/\nstate/commit_messages/\nrunner.local.json\n.runner.lock\n");
    put_json(&root.join("state/state.json"), &json!({"schema": 2}));
    let agent = std::env::current_exe().expect("this program");
    put_json(&root.join("runner.local.json"), &json!({"argv": [agent, "--agent"], "context_files": []}));
    git(root, &["init", "-q", "-b", "main"]);
    // So many new objects would have git tidy up in the background, into the measurement and under the guarded files.
    git(root, &["config", "gc.auto", "0"]);
    git(root, &["config", "user.name", "Sample"]);
    git(root, &["config", "user.email", "sample@example.invalid"]);
    git(root, &["add", "-A"]);
    git(root, &["commit", "-q", "-m", "Lay down the sample"]);
    git(root, &["status", "--porcelain"]);
}

fn put(path: &Path, text: &str) {
    fs::create_dir_all(path.parent().expect("a folder")).expect("folders can be made");
    fs::write(path, text).expect("files can be written");
}

fn put_json(path: &Path, value: &Value) {
    put(path, &format!("{value:#}\n"));
}

fn runner(root: &Path) -> Command {
    let mut command = Command::new(RUNNER);
    command.current_dir(root).env("GIT_CONFIG_GLOBAL", "/dev/null").env("GIT_CONFIG_NOSYSTEM", "1");
    command
}

fn git(root: &Path, arguments: &[&str]) -> String {
    let mut command = Command::new("git");
    command.current_dir(root).args(arguments).env("GIT_CONFIG_GLOBAL", "/dev/null").env("GIT_CONFIG_NOSYSTEM", "1");
    let output = command.output().expect("git starts");
    assert!(output.status.success(), "git {arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8_lossy(&output.stdout).into_owned()
}
