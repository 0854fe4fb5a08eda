//! Two hundred sessions in a row under one coordinator, with every core busy: every verdict is right, nothing is left behind,
//! and the coordinator holds after the last what it held after the first twenty.
//!
//! The agent is this very program. Each session looks at its coordinator from outside when it begins, so that all looks are
//! made in the same state. Run it with `just soak`; it fails where the promise is not kept.
#![expect(clippy::disallowed_methods, clippy::print_stdout, reason = "a measurement outside the product's doors")]

mod support;

use std::fs;
use std::io::{Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use rustix::process::{Signal, getpid, getppid, kill_process};
use serde_json::{Value, json};
use support::{git, leave_by, memory, put, runner, variable};

/// Each round of these is twenty sessions.
const ROUND: [Kind; 11] = [
    Kind::Good,
    Kind::Leaks,
    Kind::Floods,
    Kind::Rejected,
    Kind::Hangs,
    Kind::Silent,
    Kind::Killed,
    Kind::Strays,
    Kind::Good,
    Kind::Leaks,
    Kind::Good,
];
const ROUNDS: usize = 10;
const SESSIONS: usize = 200;
/// A session that hangs is ended after this; all others need far less, also on a busy machine.
const TIMEOUT_SECONDS: u32 = 6;

/// What the executor of a task does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Good,
    /// Leaves processes behind that ignore TERM, one of them with an empty environment.
    Leaks,
    /// Prints more than is kept.
    Floods,
    /// Is sent back once.
    Rejected,
    Hangs,
    /// Exits without a word.
    Silent,
    /// Is killed by a signal.
    Killed,
    /// Writes out of its scope.
    Strays,
}

impl Kind {
    /// Of the task with this id.
    fn of(task: &str) -> Self {
        let number: usize = task.trim_start_matches("S00-").parse().expect("a task's number");
        ROUND[(number - 1) % ROUND.len()]
    }

    /// The verdict on a session, and how its process ended.
    fn expected(self, action: &str) -> (&'static str, &'static str) {
        match self {
            _ if action == "review" => ("stands", "transition"),
            Self::Good | Self::Leaks | Self::Floods | Self::Rejected => ("stands", "transition"),
            Self::Hangs => ("escalated", "timed_out"),
            Self::Silent | Self::Killed => ("escalated", "exited"),
            Self::Strays => ("quarantined", "transition"),
        }
    }
}

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if arguments.iter().any(|argument| argument == "--agent") {
        return agent();
    }
    // `cargo test --all-targets` starts this too, but without the word that `cargo bench` gives.
    if arguments.iter().any(|argument| argument == "--bench") {
        soak();
    }
}

fn soak() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let root = folder.path().join("project");
    lay_down(&root);
    fs::create_dir(folder.path().join("tmp")).expect("a folder");
    let life = folder.path().join("life");
    rustix::fs::mknodat(rustix::fs::CWD, &life, rustix::fs::FileType::Fifo, 0o600.into(), 0).expect("a FIFO");
    let nonblocking = i32::try_from(rustix::fs::OFlags::NONBLOCK.bits()).expect("a flag");
    let held = fs::OpenOptions::new().read(true).custom_flags(nonblocking).open(&life).expect("the FIFO");
    let marker = format!("RUNNER_SOAK={}", folder.path().display());
    let began = Instant::now();
    let output = busily(|| {
        let sessions = (SESSIONS + 1).to_string();
        start(&root, folder.path()).args(["--max-sessions", &sessions]).stdin(Stdio::null()).output()
    });
    let output = output.expect("the runner starts");
    let wall = began.elapsed();
    let said = String::from_utf8_lossy(&output.stderr);
    let result: Value = serde_json::from_slice(&output.stdout).unwrap_or_default();
    assert_eq!(result["stop"], "session_limit", "{result:#}\n{said}");
    let looks = looks(folder.path());
    println!("{SESSIONS} sessions in {:.0} s; the coordinator when it began session:", wall.as_secs_f64());
    for at in [20, 50, 100, 150, SESSIONS] {
        println!("  {:>3}: {}", at + 1, looks[at]);
    }
    check_verdicts(&root);
    check_growth(looks[20], looks[SESSIONS]);
    check_nothing_is_left(held, &marker, folder.path());
    check_locks(&root, folder.path());
    println!("all verdicts right, no lock, no process, no temporary entry left");
}

fn start(root: &Path, folder: &Path) -> Command {
    let mut command = runner(root);
    command.env("TMPDIR", folder.join("tmp")).env("RUNNER_SOAK", folder);
    command
}

/// One task more than the rounds need: its first session is the last look.
fn lay_down(root: &Path) {
    let config = json!({
        "timeout_seconds": TIMEOUT_SECONDS, "kill_grace_seconds": 0.2, "max_remediation_depth": 0,
        "on_violation": "set_aside", "retention": {"runs": 1000}, "follow_up_turns": 0,
    });
    put(&root.join("README.md"), "# Sample\n");
    support::lay_down(root, ROUND.len() * ROUNDS + 1, &config);
    support::commit(root);
}

/// Does it while every core has something else to do too.
fn busily<T>(work: impl FnOnce() -> T) -> T {
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for _ in 0..std::thread::available_parallelism().map_or(2, usize::from) {
            scope.spawn(|| {
                while !is_over.load(Ordering::Relaxed) {
                    std::hint::spin_loop();
                }
            });
        }
        let done = work();
        is_over.store(true, Ordering::Relaxed);
        done
    })
}

/// The coordinator seen from outside.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Look {
    peak: u64,
    resident: u64,
    descriptors: u64,
    threads: u64,
    temporary: u64,
}

impl std::fmt::Display for Look {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { peak, resident, descriptors, threads, temporary } = self;
        let (peak, resident) = (peak / 1024, resident / 1024);
        write!(
            f,
            "peak {peak} KiB, resident {resident} KiB, {descriptors} descriptors, {threads} threads, {temporary} temporary entries"
        )
    }
}

/// All looks, in the order of the sessions.
fn looks(folder: &Path) -> Vec<Look> {
    let text = fs::read_to_string(folder.join("looks")).expect("every session has looked");
    let looks: Vec<Look> = text
        .lines()
        .map(|line| {
            let numbers: Vec<u64> = line.split(' ').map(|word| word.parse().expect("a number")).collect();
            let [peak, resident, descriptors, threads, temporary] = numbers[..] else { panic!("five numbers: {line}") };
            Look { peak, resident, descriptors, threads, temporary }
        })
        .collect();
    assert_eq!(looks.len(), SESSIONS + 1, "one look a session");
    looks
}

fn check_growth(early: Look, late: Look) {
    let grown = late.peak.saturating_sub(early.peak);
    println!("the peak grew by {} KiB from the 20th to the {SESSIONS}th session", grown / 1024);
    assert!(grown <= 1 << 20, "the coordinator's memory grew by {grown} bytes");
    let counts = |look: Look| (look.descriptors, look.threads, look.temporary);
    assert_eq!(counts(late), counts(early), "descriptors, threads and temporary entries");
}

/// Every record says what was to be expected, and there are as many as there were sessions.
fn check_verdicts(root: &Path) {
    let mut told = Vec::new();
    for agent in fs::read_dir(root.join("state/runs")).expect("the records") {
        let path = agent.expect("an entry").path().join("1/run.json");
        let record: Value = serde_json::from_slice(&fs::read(&path).expect("a record")).expect("a record is JSON");
        let text = |pointer: &str| record.pointer(pointer).and_then(Value::as_str).unwrap_or("-").to_owned();
        let (task, action) = (text("/task"), text("/action"));
        let kind = Kind::of(&task);
        let found = (text("/result/verdict"), text("/execution/ended"));
        let (verdict, ended) = kind.expected(&action);
        assert_eq!((found.0.as_str(), found.1.as_str()), (verdict, ended), "{kind:?} {action}: {record:#}");
        assert_eq!(text("/teardown/destruction"), "succeeded", "{record:#}");
        assert_eq!(text("/teardown/cleanup"), "succeeded", "{record:#}");
        let leaked = record["execution"]["leaked_count"].as_u64().unwrap_or_default();
        assert!(kind != Kind::Leaks || action == "review" || leaked >= 2, "{record:#}");
        told.push((task, action));
    }
    assert_eq!(told.len(), SESSIONS + 1, "one record a session");
}

/// Whoever held the FIFO is gone, nobody runs with the soak's mark, and nothing is in its temporary folder.
fn check_nothing_is_left(mut held: fs::File, marker: &str, folder: &Path) {
    let mut said = Vec::new();
    held.read_to_end(&mut said).expect("nobody of a session lives");
    assert_eq!(said.len(), 2 * 2 * ROUNDS, "every stray has held the FIFO");
    for entry in fs::read_dir("/proc").expect("the process table").filter_map(Result::ok) {
        let environment = fs::read(entry.path().join("environ")).unwrap_or_default();
        let is_ours = environment.split(|byte| *byte == 0).any(|variable| variable == marker.as_bytes());
        assert!(!is_ours, "{} is left", entry.path().display());
    }
    let temporary = fs::read_dir(folder.join("tmp")).expect("the temporary folder").count();
    assert_eq!(temporary, 0, "nothing temporary is left");
}

/// No lock stops the next start, which does the last review.
fn check_locks(root: &Path, folder: &Path) {
    let mut folders = vec![root.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).expect("a folder").filter_map(Result::ok) {
            let is_folder = entry.file_type().is_ok_and(|kind| kind.is_dir());
            let is_lock = entry.path().extension().is_some_and(|kind| kind == "lock");
            let is_stale = is_lock && folder.starts_with(root.join(".git")) && !folder.ends_with(".git/runner");
            assert!(!is_stale, "{} is left", entry.path().display());
            folders.extend(is_folder.then(|| entry.path()));
        }
    }
    let output = start(root, folder).args(["--max-sessions", "1"]).stdin(Stdio::null()).output().expect("it starts");
    let result: Value = serde_json::from_slice(&output.stdout).unwrap_or_default();
    assert_eq!(result["launched"], 1, "{}", String::from_utf8_lossy(&output.stderr));
    assert_eq!(git(root, &["status", "--porcelain"]), "", "the tree is clean");
    let commits: usize = git(root, &["rev-list", "--count", "HEAD"]).trim().parse().expect("a number");
    println!("{commits} commits; the next start was not stopped");
}

/// One session.
fn agent() {
    let folder = variable("RUNNER_SOAK");
    look(Path::new(&folder));
    let (task, action) = (variable("RUNNER_TASK_ID"), variable("RUNNER_ACTION"));
    let kind = Kind::of(&task);
    if action == "review" {
        let row = fs::read_to_string(format!("state/tasks/S00/{task}.json")).expect("the task's row");
        if kind == Kind::Rejected && !row.contains("\"reject\"") {
            return leave_by("reject", &["--reason", "Once more, please."]);
        }
        return leave_by("approve", &[]);
    }
    match kind {
        Kind::Good | Kind::Rejected => {}
        Kind::Leaks => leak(&folder),
        Kind::Floods => flood(),
        Kind::Hangs => loop {
            std::thread::park();
        },
        Kind::Silent => return,
        Kind::Killed => kill_process(getpid(), Signal::KILL).expect("a process may kill itself"),
        Kind::Strays => put(Path::new("README.md"), &format!("# Changed by {task}\n")),
    }
    put(Path::new(&format!("src/{task}/out.txt")), &format!("done by {}\n", variable("RUNNER_AGENT_ID")));
    leave_by("submit", &[]);
}

/// Looks at the coordinator, the parent of the guardian.
fn look(folder: &Path) {
    let guardian = getppid().expect("an agent has a parent").as_raw_nonzero();
    let stat = fs::read_to_string(format!("/proc/{guardian}/stat")).expect("the guardian runs");
    let after_name = stat.rsplit(')').next().expect("a name in parentheses");
    let coordinator: u32 = after_name.split_whitespace().nth(1).and_then(|word| word.parse().ok()).expect("a parent");
    let memory = |name| memory(coordinator, name).expect("the coordinator runs");
    let entries = |path: String| fs::read_dir(path).expect("a folder").count();
    let numbers = [
        memory("VmHWM"),
        memory("VmRSS"),
        entries(format!("/proc/{coordinator}/fd")) as u64,
        entries(format!("/proc/{coordinator}/task")) as u64,
        entries(folder.join("tmp").display().to_string()) as u64,
    ];
    let line = numbers.map(|number| number.to_string()).join(" ");
    let looks = fs::OpenOptions::new().create(true).append(true).open(folder.join("looks"));
    writeln!(looks.expect("the list opens"), "{line}").expect("the list takes a line");
}

/// Leaves two processes behind that ignore TERM and hold the FIFO, one of them without any environment.
#[expect(clippy::zombie_processes, reason = "that nobody waits for them is what is tried")]
fn leak(folder: &str) {
    let stay = format!("trap '' TERM HUP; exec 9>{folder}/life; printf . >&9; echo; exec sleep 600");
    let clear = ["env", "-i", "PATH=/usr/bin:/bin", "setsid", "sh", "-c", &stay];
    for words in [&clear[3..], &clear] {
        let mut left = Command::new(words[0]).args(&words[1..]).stdout(Stdio::piped()).spawn().expect("it starts");
        let ready = left.stdout.as_mut().expect("its output");
        ready.read_exact(&mut [0]).expect("it holds the FIFO");
    }
}

/// Prints twelve megabytes and three on standard error.
fn flood() {
    let line = [b"x".repeat(1023), b"\n".to_vec()].concat();
    for number in 0..12 * 1024 {
        std::io::stdout().write_all(&line).expect("output is never refused");
        if number % 4 == 0 {
            std::io::stderr().write_all(&line).expect("output is never refused");
        }
    }
}
