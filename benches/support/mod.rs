//! What the measurements share: a project of one stage in a folder, and the programs that work on it.
#![allow(dead_code, reason = "each measurement uses its part")]
#![expect(clippy::disallowed_methods, reason = "a measurement outside the product's doors")]

use std::fs;
use std::path::Path;
use std::process::Command;

use serde_json::{Value, json};

pub(crate) const RUNNER: &str = env!("CARGO_BIN_EXE_runner");

/// Lays down a stage `S00` of `tasks` tasks whose agent is this very program, not yet committed. `config` is merged into the
/// configuration.
pub(crate) fn lay_down(root: &Path, tasks: usize, config: &Value) {
    for role in ["backend", "qa"] {
        put(&root.join(format!("roles/{role}.md")), &format!("# {role}\n\nDo the work well.\n"));
    }
    put_json(
        &root.join("planning/stages/S00.json"),
        &json!({"id": "S00", "order": 0, "title": "Stage", "goal": "Sample", "depends_on": []}),
    );
    for number in 1..=tasks {
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
    let mut all = json!({"argv": [agent, "--agent"], "context_files": []});
    for (key, value) in config.as_object().expect("a configuration is an object") {
        all[key] = value.clone();
    }
    put_json(&root.join("runner.local.json"), &all);
}

/// Makes the folder a repository with one commit of all there is.
pub(crate) fn commit(root: &Path) {
    git(root, &["init", "-q", "-b", "main"]);
    // So many new objects would have git tidy up in the background, into the measurement and under the guarded files.
    git(root, &["config", "gc.auto", "0"]);
    git(root, &["config", "user.name", "Sample"]);
    git(root, &["config", "user.email", "sample@example.invalid"]);
    git(root, &["add", "-A"]);
    git(root, &["commit", "-q", "-m", "Lay down the sample"]);
    git(root, &["status", "--porcelain"]);
}

/// A variable of the session's environment.
pub(crate) fn variable(name: &str) -> String {
    std::env::var(name).expect("the session's environment")
}

/// The agent leaves its task with this verb, and with a message.
pub(crate) fn leave_by(verb: &str, more: &[&str]) {
    let (task, agent) = (variable("RUNNER_TASK_ID"), variable("RUNNER_AGENT_ID"));
    let message = format!("Handle the sample work of {task}\n\nChanges: One file.\nValidation: It exists.\n");
    put(Path::new(&format!("state/commit_messages/{agent}.txt")), &message);
    let mut command = Command::new(variable("RUNNER_BIN"));
    let status = command.args(["task", verb, &task]).args(more).stdout(std::process::Stdio::null()).status();
    assert!(status.is_ok_and(|status| status.success()), "the transition is made");
}

pub(crate) fn put(path: &Path, text: &str) {
    fs::create_dir_all(path.parent().expect("a folder")).expect("folders can be made");
    fs::write(path, text).expect("files can be written");
}

pub(crate) fn put_json(path: &Path, value: &Value) {
    put(path, &format!("{value:#}\n"));
}

pub(crate) fn runner(root: &Path) -> Command {
    let mut command = Command::new(RUNNER);
    command.current_dir(root).env("GIT_CONFIG_GLOBAL", "/dev/null").env("GIT_CONFIG_NOSYSTEM", "1");
    command
}

pub(crate) fn git(root: &Path, arguments: &[&str]) -> String {
    let mut command = Command::new("git");
    command.current_dir(root).args(arguments).env("GIT_CONFIG_GLOBAL", "/dev/null").env("GIT_CONFIG_NOSYSTEM", "1");
    let output = command.output().expect("git starts");
    assert!(output.status.success(), "git {arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// A figure of a process in `/proc/<pid>/status`, such as `VmHWM`, in bytes; nothing for one that has ended.
pub(crate) fn memory(pid: u32, name: &str) -> Option<u64> {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'))?;
    line.trim().trim_end_matches(" kB").parse::<u64>().ok().map(|kilobytes| kilobytes * 1024)
}

/// Waits until `path` is there, or the time is up.
pub(crate) fn wait_for(path: &Path) {
    let until = std::time::Instant::now() + std::time::Duration::from_mins(1);
    while !path.exists() {
        assert!(std::time::Instant::now() < until, "{} did not come", path.display());
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
}
