//! Twelve ways to escape an ending, nine ways to end: nothing of a session survives any of them.
//!
//! Each cell runs a coordinator of its own, a copy of this test program, so that it can be killed. Whatever the session
//! started holds the write end of a FIFO; that the read end reads its end is the proof that all of it is gone.
//! `just escapes` prints the table.
#![cfg(target_os = "linux")]
#![expect(
    clippy::disallowed_methods,
    clippy::unwrap_used,
    reason = "tests start a coordinator, and fail where they cannot"
)]

mod session_support;

use std::fs::{self, File};
use std::io::{ErrorKind, Read};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Mutex;
use std::time::{Duration, Instant};

use runner::ids::hex;
use runner::session::{Ended, ExecutionResult, Leftovers, Limits, Signals, StopSignal, identity, run, sweep};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, Signal, kill_process};
use session_support::{LONG, Sandbox};
use sha2::{Digest, Sha256};

const GRACE: Duration = Duration::from_millis(200);
/// Far more than any cell takes on a machine that is busy with other things.
const PATIENCE: Duration = Duration::from_mins(2);

/// What an escape does once it holds the FIFO: says that it is there, and stays.
const HOLD: &str = "exec 9>life; echo alive >&9; echo > ready";

/// The kinds of escape: a name, and what the agent runs. `$STAY` holds the FIFO and stays.
const ESCAPES: [(&str, &str); 12] = [
    ("own group", "setpgid sh -c \"$STAY\" &"),
    ("own session", "setsid sh -c \"$STAY\" &"),
    ("double fork", "setsid sh -c '(setsid sh -c \"$STAY\" &) &'"),
    ("ignores signals", "setsid sh -c \"trap '' TERM INT HUP; $HOLD; while :; do sleep 600; done\" &"),
    ("stopped", "setsid sh -c \"$HOLD; kill -STOP \\$\\$; exec sleep 600\" &"),
    ("forks on", "setsid sh ./hop 20000 &"),
    ("holds output", "setsid sh -c \"exec 7>&1 8>&2; $STAY\" > /dev/null 2>&1 &"),
    ("nohup", "nohup sh -c \"$STAY\" > /dev/null 2>&1 &"),
    ("env -i", "env -i PATH=/usr/bin:/bin setsid sh -c \"$STAY\" &"),
    ("500 processes", "setsid sh ./many &"),
    ("other name", "setsid sh -c \"printf init > /proc/self/comm; $HOLD; while :; do read x < never; done\" &"),
    ("pty child", "script -qfc \"$STAY\" /dev/null > /dev/null 2>&1 < /dev/null &"),
];

/// The ways to end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    Exit,
    Transition,
    Wall,
    Idle,
    Signal(Signal),
    KillGuardian,
}

const ENDS: [(&str, End); 9] = [
    ("normal end", End::Exit),
    ("transition", End::Transition),
    ("wall timeout", End::Wall),
    ("idle timeout", End::Idle),
    ("SIGINT", End::Signal(Signal::INT)),
    ("SIGTERM", End::Signal(Signal::TERM)),
    ("SIGHUP", End::Signal(Signal::HUP)),
    ("coordinator killed", End::Signal(Signal::KILL)),
    ("guardian killed", End::KillGuardian),
];

/// What the agent does once its escape is under way.
fn agent(escape: &str, end: End) -> String {
    let then = match end {
        End::Exit => "exit 0",
        End::Transition => "echo review > row.new; mv row.new rows/row; exec sleep 600",
        _ => "echo > escaped; exec sleep 600",
    };
    format!("exec 2>/dev/null\n{escape}\nread ready < ready\n{then}")
}

/// Lays down what the escapes need.
fn lay_down(sandbox: &Sandbox, (escape, end): (&str, End)) {
    let fifo = |name: &str| {
        rustix::fs::mknodat(rustix::fs::CWD, sandbox.path(name), rustix::fs::FileType::Fifo, 0o600.into(), 0).unwrap();
    };
    fifo("escaped");
    fifo("never");
    let hop = format!(
        "trap '' TERM\n[ $1 = 20000 ] && {{ {HOLD}; }}\n[ $1 = 0 ] && exit\n(setsid sh ./hop $(($1 - 1)) &)\nexit 0\n"
    );
    fs::write(sandbox.path("hop"), hop).unwrap();
    let many =
        format!("exec 9>life; i=0; while [ $i -lt 499 ]; do setsid sleep 600 & i=$((i + 1)); done; {HOLD}; wait\n");
    fs::write(sandbox.path("many"), many).unwrap();
    fs::write(sandbox.path("agent"), agent(escape, end)).unwrap();
}

/// Makes a process group of its own with an interactive shell's job control, since no program just does that.
fn with_own_group(escape: &str) -> String {
    escape.replace("setpgid sh -c \"$STAY\" &", "set -m; sh -c \"$STAY\" & set +m")
}

/// The coordinator of one cell; runs in a process of its own, started by [`cell`].
/// Lets a cell's coordinator hear SIGHUP also under `nohup`.
#[expect(unsafe_code, reason = "the disposition of a signal is the kernel's")]
fn hear_hangups() {
    // SAFETY: nothing of this process has a handler yet.
    unsafe {
        libc::signal(libc::SIGHUP, libc::SIG_DFL);
    }
}

#[test]
#[ignore = "one cell's coordinator; the table starts it"]
fn coordinator_of_a_cell() {
    hear_hangups();
    let Some(end) = std::env::var("ESCAPES_END").ok() else { return };
    let folder = std::env::current_dir().unwrap();
    let signals = Signals::install().unwrap();
    let limit = Duration::from_millis(std::env::var("ESCAPES_LIMIT_MS").unwrap().parse().unwrap());
    let limits = Limits {
        wall: if end == "wall timeout" { limit } else { LONG },
        idle_timeout: (end == "idle timeout").then_some(limit),
        exit_grace: GRACE,
        kill_grace: GRACE,
        stop: StopSignal::Terminate,
        drain: GRACE,
    };
    let sandbox = session_support::Place(&folder);
    let mut launch = sandbox.launch(&["sh", "./agent"], limits);
    let variables =
        [("STAY", format!("{HOLD}; exec sleep 600")), ("HOLD", HOLD.to_owned()), ("RUNNER_TOKEN", token(&folder))];
    launch.env.extend(variables.map(|(name, value)| (name.into(), value.into())));
    let result = run(&launch, &mut sandbox.row(), &signals);
    fs::write(folder.join("result.new"), serde_json::to_vec(&result).unwrap()).unwrap();
    fs::rename(folder.join("result.new"), folder.join("result")).unwrap();
}

fn token(folder: &Path) -> String {
    format!("token-of-{}", folder.display())
}

/// Waits until there is something to read, then takes it.
fn read_when_there(path: &Path) {
    let mut fifo = File::open(path).unwrap();
    fifo.read_exact(&mut [0]).unwrap();
}

/// The guardian of the cell: the only child of its coordinator.
fn guardian_of(coordinator: &Child) -> Pid {
    let tasks = fs::read_dir(format!("/proc/{}/task", coordinator.id())).unwrap();
    let children: Vec<i32> = tasks
        .flat_map(|task| {
            fs::read_to_string(task.unwrap().path().join("children"))
                .unwrap_or_default()
                .split_whitespace()
                .map(str::to_owned)
                .collect::<Vec<_>>()
        })
        .filter_map(|pid| pid.parse().ok())
        .collect();
    let [guardian] = children[..] else { panic!("the coordinator has the children {children:?}") };
    Pid::from_raw(guardian).unwrap()
}

/// Runs one cell; an error says what was not as it must be.
fn cell(escape: (&str, &str), (name, end): (&str, End)) -> Result<(), String> {
    let mut sandbox = Sandbox::new();
    lay_down(&sandbox, (&with_own_group(escape.1), end));
    let mut coordinator = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "coordinator_of_a_cell", "--ignored"])
        .env("ESCAPES_END", name)
        .env("ESCAPES_LIMIT_MS", if escape.0 == "500 processes" { "8000" } else { "1500" })
        .current_dir(sandbox.folder.path())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let id = Pid::from_child(&coordinator);
    if matches!(end, End::Signal(_) | End::KillGuardian) {
        read_when_there(&sandbox.path("escaped"));
        match end {
            // The coordinator was not waited for, and its guardian is its child as long as it was not either.
            End::Signal(signal) => kill_process(id, signal).unwrap(),
            _ => kill_process(guardian_of(&coordinator), Signal::KILL).unwrap(),
        }
    }
    coordinator.wait().unwrap();
    let outcome = if end == End::Signal(Signal::KILL) { Ok(()) } else { check_result(&sandbox, end) };
    // One that returned was the last of its session; one that was killed leaves the rest to the guardian.
    let patience = if end == End::Signal(Signal::KILL) { PATIENCE } else { Duration::ZERO };
    let dead = prove_death(&mut sandbox, patience);
    if dead.is_err() {
        clean_up(&sandbox);
    }
    dead.and(outcome)
}

/// Reads the FIFO to its end.
fn prove_death(sandbox: &mut Sandbox, patience: Duration) -> Result<(), String> {
    let until = Instant::now() + patience;
    let mut said = Vec::new();
    loop {
        match sandbox.life.read_to_end(&mut said) {
            Ok(_) if said.is_empty() => return Err("nobody ever held the FIFO".to_owned()),
            Ok(_) => return Ok(()),
            Err(error) if error.kind() == ErrorKind::WouldBlock => {}
            Err(error) => return Err(error.to_string()),
        }
        let left = until.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err("somebody of the session lives".to_owned());
        }
        let timeout = Timespec { tv_sec: i64::try_from(left.as_secs()).unwrap(), tv_nsec: 0 };
        let mut entries = [PollFd::new(&sandbox.life, PollFlags::IN)];
        poll(&mut entries, Some(&timeout)).unwrap();
    }
}

/// A coordinator that returned must have been the last of its session, and say why it ended.
fn check_result(sandbox: &Sandbox, end: End) -> Result<(), String> {
    let bytes = fs::read(sandbox.path("result")).map_err(|error| format!("no result: {error}"))?;
    let result: ExecutionResult = serde_json::from_slice(&bytes).unwrap();
    let expected = match end {
        End::Exit => Ended::Exited,
        End::Transition => Ended::Transition,
        End::Wall => Ended::TimedOut,
        End::Idle => Ended::IdleTimedOut,
        End::Signal(_) => Ended::Interrupted,
        End::KillGuardian => Ended::GuardianLost,
    };
    if result.ended != expected {
        return Err(format!("it ended as {:?}, not {expected:?}", result.ended));
    }
    Ok(())
}

/// A cell that was lost leaves nothing on the machine either.
fn clean_up(sandbox: &Sandbox) {
    let hash = hex(&Sha256::digest(token(&sandbox.folder.path().canonicalize().unwrap())));
    let _swept = sweep(&Leftovers { token_hash: &hash, boot_id: &identity().boot_id });
}

#[test]
fn nothing_of_a_session_survives_any_escape_under_any_ending() {
    let cells: Vec<(usize, usize)> =
        (0..ESCAPES.len()).flat_map(|escape| (0..ENDS.len()).map(move |end| (escape, end))).collect();
    let (waiting, done) =
        (Mutex::new(cells.into_iter()), Mutex::new(vec![vec![String::new(); ENDS.len()]; ESCAPES.len()]));
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                while let Some((escape, end)) = next(&waiting) {
                    let outcome = cell(ESCAPES[escape], ENDS[end]);
                    done.lock().unwrap()[escape][end] = outcome.err().unwrap_or_else(|| "ok".to_owned());
                }
            });
        }
    });
    let done = done.into_inner().unwrap();
    println!("{}", table(&done));
    let lost: Vec<String> = (0..ESCAPES.len())
        .flat_map(|escape| (0..ENDS.len()).map(move |end| (escape, end)))
        .filter(|(escape, end)| done[*escape][*end] != "ok")
        .map(|(escape, end)| format!("{} / {}: {}", ESCAPES[escape].0, ENDS[end].0, done[escape][end]))
        .collect();
    assert!(lost.is_empty(), "{}\n{}", table(&done), lost.join("\n"));
}

fn next(waiting: &Mutex<std::vec::IntoIter<(usize, usize)>>) -> Option<(usize, usize)> {
    waiting.lock().unwrap().next()
}

fn table(done: &[Vec<String>]) -> String {
    let row = |name: &str, cells: Vec<&str>| {
        let cells: Vec<String> = cells.iter().map(|cell| format!("{cell:>18}")).collect();
        format!("{name:16} {}", cells.join(" "))
    };
    let mut lines = vec![row("", ENDS.map(|(name, _)| name).to_vec())];
    lines.extend(ESCAPES.iter().zip(done).map(|((name, _), cells)| {
        row(name, cells.iter().map(|cell| if cell == "ok" { "gone" } else { "ALIVE OR WRONG" }).collect())
    }));
    lines.join("\n")
}
