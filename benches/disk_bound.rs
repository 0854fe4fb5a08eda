//! The disk a session's output takes while it runs, and the coordinator's memory, whatever an agent prints.
//!
//! The agent is this very program; the space of its scratch files and logs is looked at once a millisecond from outside. Run it
//! with `just disk-bound`; it fails where the promise is not kept. Another machine load than none makes the figures worse.
#![expect(clippy::disallowed_methods, clippy::print_stdout, reason = "a measurement outside the product's doors")]

mod support;

use std::fs;
use std::io::Write;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::thread::sleep;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use support::{leave_by, memory, put, runner, variable, wait_for};

const MIB: u64 = 1 << 20;
/// The default bound on both streams together.
const BOUND: u64 = 8 * MIB;
const CHUNK: u32 = 64 << 10;

/// One agent: how much it prints, how fast, and what may be in use meanwhile.
struct Case {
    name: &'static str,
    seconds: f64,
    /// In bytes a second; nothing for as fast as it can.
    rate: Option<u32>,
    /// Every fifth piece goes to standard error.
    both: bool,
    most: u64,
}

const CASES: [Case; 4] = [
    Case { name: "1 MB at once", seconds: 0.02, rate: Some(50_000_000), both: false, most: BOUND },
    Case { name: "50 MB/s", seconds: 20.0, rate: Some(50_000_000), both: false, most: BOUND / 10 * 11 },
    Case { name: "50 MB/s, both streams", seconds: 20.0, rate: Some(50_000_000), both: true, most: BOUND / 10 * 11 },
    Case { name: "as fast as it can", seconds: 10.0, rate: None, both: false, most: BOUND + 64 * MIB },
];

/// What was seen of one session.
struct Seen {
    written: u64,
    peak_disk: u64,
    looks: usize,
    peak_memory: u64,
    finished: u64,
}

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if arguments.iter().any(|argument| argument == "--agent") {
        return agent();
    }
    // `cargo test --all-targets` starts this too, but without the word that `cargo bench` gives.
    if !arguments.iter().any(|argument| argument == "--bench") {
        return;
    }
    let kib = |bytes: u64| bytes / 1024;
    println!("bound: {} KiB for both logs together", kib(BOUND));
    let all: Vec<(&Case, Seen)> = CASES.iter().map(|case| (case, measure(case))).collect();
    for (case, seen) in &all {
        println!(
            "{:22} {:>6} MB written; on disk at most {:>6} KiB (allowed {}) in {} looks, finished logs {} KiB; coordinator's peak {} KiB",
            case.name,
            seen.written / 1_000_000,
            kib(seen.peak_disk),
            kib(case.most),
            seen.looks,
            kib(seen.finished),
            kib(seen.peak_memory)
        );
    }
    let least = all[0].1.peak_memory;
    for (case, seen) in &all {
        assert!(seen.peak_disk <= case.most, "{}: {} bytes on disk", case.name, seen.peak_disk);
        assert!(seen.finished <= BOUND, "{}: the logs have {} bytes", case.name, seen.finished);
        assert!(seen.peak_memory <= least + MIB, "{}: memory depends on the output", case.name);
    }
}

/// Runs one session and looks at it until its agent is gone.
fn measure(case: &Case) -> Seen {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let root = folder.path().join("project");
    support::lay_down(&root, 1, &json!({"timeout_seconds": 300}));
    support::commit(&root);
    let mut command = runner(&root);
    command.args(["--max-sessions", "1"]).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    command.env("BOUND_SECONDS", case.seconds.to_string()).env("BOUND_BOTH", if case.both { "1" } else { "" });
    command.env("BOUND_RATE", case.rate.unwrap_or_default().to_string()).env("BOUND_FOLDER", folder.path());
    let mut coordinator = command.spawn().expect("the runner starts");
    let told = folder.path().join("agent");
    wait_for(&told);
    let agent = fs::read_to_string(&told).expect("the agent's id");
    let session = only_folder(&root.join("state/runs")).join("1");
    let logs = ["stdout.log", "stderr.log"].map(|name| session.join(name));
    let files =
        [format!("/proc/{agent}/fd/1").into(), format!("/proc/{agent}/fd/2").into(), logs[0].clone(), logs[1].clone()];
    let (mut peak_disk, mut peak_memory, mut looks) = (0, 0, 0);
    while coordinator.try_wait().expect("it is our child").is_none() {
        if let Some(disk) = in_use(&files) {
            peak_disk = peak_disk.max(disk);
            looks += 1;
        }
        // One that has just ended has none.
        peak_memory = memory(coordinator.id(), "VmHWM").unwrap_or_default().max(peak_memory);
        sleep(Duration::from_millis(1));
    }
    assert!(coordinator.wait().expect("it ends").success(), "the session went well");
    let record: Value = serde_json::from_slice(&fs::read(session.join("run.json")).expect("a record")).expect("JSON");
    let written = |stream: &str| record["execution"]["output"][stream]["written"].as_u64().expect("a figure");
    let finished = logs.map(|log| log.metadata().expect("a log").len()).iter().sum();
    Seen { written: written("stdout") + written("stderr"), peak_disk, looks, peak_memory, finished }
}

/// The only entry of a folder.
fn only_folder(folder: &Path) -> PathBuf {
    let mut entries = fs::read_dir(folder).expect("the records").map(|entry| entry.expect("an entry").path());
    let first = entries.next().expect("one session");
    assert!(entries.next().is_none(), "one session only");
    first
}

/// The space of all of them on disk; nothing once the agent is gone.
fn in_use(files: &[PathBuf; 4]) -> Option<u64> {
    // Blocks of 512 bytes, whatever the file system's are (`stat(2)`).
    files.iter().map(|file| Some(file.metadata().ok()?.blocks() * 512)).sum()
}

/// Prints at its rate for its time, and submits.
fn agent() {
    let folder = PathBuf::from(variable("BOUND_FOLDER"));
    let seconds: f64 = variable("BOUND_SECONDS").parse().expect("a number");
    let rate: u32 = variable("BOUND_RATE").parse().expect("a number");
    let both = !variable("BOUND_BOTH").is_empty();
    put(&folder.join("agent.new"), &std::process::id().to_string());
    fs::rename(folder.join("agent.new"), folder.join("agent")).expect("a file can be renamed");
    let pause = Duration::from_secs(1) * CHUNK / rate.max(1);
    let chunk = b"the agent tells what it does, at length, again and again, to its log\n".repeat(1 << 10);
    let chunk = &chunk[..CHUNK as usize];
    let end = Instant::now() + Duration::from_secs_f64(seconds);
    let (mut next, mut pieces) = (Instant::now(), 0_u64);
    while Instant::now() < end {
        pieces += 1;
        if both && pieces % 5 == 0 {
            std::io::stderr().write_all(chunk).expect("output is never refused");
        } else {
            std::io::stdout().write_all(chunk).expect("output is never refused");
        }
        if rate > 0 {
            // What it missed it does not catch up with: it is never faster than its rate.
            next = (next + pause).max(Instant::now());
            sleep(next.saturating_duration_since(Instant::now()));
        }
    }
    let task = variable("RUNNER_TASK_ID");
    put(Path::new(&format!("src/{task}/out.txt")), "done\n");
    leave_by("submit", &[]);
}
