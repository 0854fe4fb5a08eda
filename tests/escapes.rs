//! Twelve ways to escape an ending, ten ways to end: nothing of a session survives any of them but the one that is said to.
//!
//! Each cell runs a coordinator of its own, a copy of this test program, so that it can be killed. Whatever the session
//! started holds the write end of a FIFO; that the read end reads its end is the proof that all of it is gone.
//! `just escapes` prints the table, started by root a second one for an ordinary user.
#![cfg(target_os = "linux")]
#![expect(
    clippy::disallowed_methods,
    clippy::unwrap_used,
    reason = "tests start a coordinator, and fail where they cannot"
)]

mod session_support;

use std::fs::{self, File};
use std::io::{ErrorKind, Read};
use std::os::unix::fs::{PermissionsExt, chown};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Mutex;
use std::time::{Duration, Instant};

use runner::ids::hex;
use runner::session::{Ended, ExecutionResult, Leftovers, Limits, Signals, StopSignal, identity, run, sweep};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, PidfdFlags, Signal, geteuid, kill_process, pidfd_open, pidfd_send_signal};
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
    /// Coordinator and guardian; the next start ends what they left.
    KillBoth,
}

impl End {
    /// Nobody of the session's own is left to say how it ended.
    fn kills_the_coordinator(self) -> bool {
        matches!(self, Self::Signal(Signal::KILL) | Self::KillBoth)
    }
}

const ENDS: [(&str, End); 10] = [
    ("normal end", End::Exit),
    ("transition", End::Transition),
    ("wall timeout", End::Wall),
    ("idle timeout", End::Idle),
    ("SIGINT", End::Signal(Signal::INT)),
    ("SIGTERM", End::Signal(Signal::TERM)),
    ("SIGHUP", End::Signal(Signal::HUP)),
    ("coordinator killed", End::Signal(Signal::KILL)),
    ("guardian killed", End::KillGuardian),
    ("both killed", End::KillBoth),
];

/// The one cell that cannot be won: nothing says any more whose a process is that cleared its environment.
const LOST: (&str, End) = ("env -i", End::KillBoth);

/// The user of the cells that root starts as somebody else.
const ORDINARY: u32 = 65_534;

/// Who plays the coordinators and the next starts.
struct Cast {
    /// This program and the runner, where that user can start them.
    programs: [PathBuf; 2],
    user: Option<u32>,
    _folder: Option<tempfile::TempDir>,
}

impl Cast {
    /// Whoever runs the test.
    fn own() -> Self {
        let programs = [std::env::current_exe().unwrap(), env!("CARGO_BIN_EXE_runner").into()];
        Self { programs, user: None, _folder: None }
    }

    /// An ordinary user, who may not see where this was built.
    fn ordinary() -> Self {
        let folder = tempfile::tempdir().unwrap();
        fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o755)).unwrap();
        let programs = Self::own().programs.map(|program| {
            let copy = folder.path().join(program.file_name().unwrap());
            fs::copy(&program, &copy).unwrap();
            fs::set_permissions(&copy, fs::Permissions::from_mode(0o755)).unwrap();
            copy
        });
        Self { programs, user: Some(ORDINARY), _folder: Some(folder) }
    }

    /// Gives that user the sandbox.
    fn hand_over(&self, folder: &Path) {
        let Some(user) = self.user else { return };
        let mut paths = vec![folder.to_owned()];
        while let Some(path) = paths.pop() {
            chown(&path, Some(user), Some(user)).unwrap();
            if path.is_dir() {
                paths.extend(fs::read_dir(path).unwrap().map(|entry| entry.unwrap().path()));
            }
        }
    }

    /// One of the parts below, in the sandbox's folder.
    fn part(&self, name: &str, end: &str, folder: &Path) -> Command {
        let [program, runner] = &self.programs;
        let mut command = Command::new(program);
        command.args(["--exact", name, "--ignored"]).env("ESCAPES_END", end).env("ESCAPES_RUNNER", runner);
        command.current_dir(folder).stdout(Stdio::null()).stderr(Stdio::null());
        if let Some(user) = self.user {
            command.uid(user).gid(user);
        }
        command
    }
}

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

/// Lets a cell's coordinator hear SIGHUP also under `nohup`.
#[expect(unsafe_code, reason = "the disposition of a signal is the kernel's")]
fn hear_hangups() {
    // SAFETY: nothing of this process has a handler yet.
    unsafe {
        libc::signal(libc::SIGHUP, libc::SIG_DFL);
    }
}

/// The coordinator of one cell; runs in a process of its own, started by [`cell`].
#[test]
#[ignore = "one cell's coordinator; the table starts it"]
fn coordinator_of_a_cell() {
    let Some(end) = std::env::var("ESCAPES_END").ok() else { return };
    hear_hangups();
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
    launch.guardian = std::env::var_os("ESCAPES_RUNNER").unwrap().into();
    let variables =
        [("STAY", format!("{HOLD}; exec sleep 600")), ("HOLD", HOLD.to_owned()), ("RUNNER_TOKEN", token(&folder))];
    launch.env.extend(variables.map(|(name, value)| (name.into(), value.into())));
    let result = run(&launch, &mut sandbox.row(), &signals);
    fs::write(folder.join("result.new"), serde_json::to_vec(&result).unwrap()).unwrap();
    fs::rename(folder.join("result.new"), folder.join("result")).unwrap();
}

/// What the next start does after a cell whose coordinator and guardian were both killed.
#[test]
#[ignore = "one cell's next start; the table starts it"]
fn next_start_of_a_cell() {
    if std::env::var_os("ESCAPES_END").is_none() {
        return;
    }
    let hash = hex(&Sha256::digest(token(&std::env::current_dir().unwrap())));
    let swept = sweep(&Leftovers { token_hash: &hash, boot_id: &identity().boot_id });
    assert!(swept.left.is_empty(), "{swept:?}");
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

/// Brings about an end that comes from outside.
fn end_from_outside(end: End, coordinator: &Child) {
    // The coordinator was not waited for, and its guardian is its child as long as it was not either.
    let id = Pid::from_child(coordinator);
    match end {
        End::Signal(signal) => kill_process(id, signal).unwrap(),
        End::KillGuardian => kill_process(guardian_of(coordinator), Signal::KILL).unwrap(),
        End::KillBoth => {
            let guardian = guardian_of(coordinator);
            // Stopped first, so that it does nothing once the coordinator is gone; it stays until it is killed.
            for (process, signal) in [(guardian, Signal::STOP), (id, Signal::KILL), (guardian, Signal::KILL)] {
                kill_process(process, signal).unwrap();
            }
        }
        _ => {}
    }
}

/// Runs one cell and tells what became of the escaped; an error says what was not as it must be.
fn cell(cast: &Cast, escape: (&str, &str), (name, end): (&str, End)) -> Result<&'static str, String> {
    let mut sandbox = Sandbox::new();
    lay_down(&sandbox, (&with_own_group(escape.1), end));
    cast.hand_over(sandbox.folder.path());
    let limit = if escape.0 == "500 processes" { "8000" } else { "1500" };
    let mut coordinator = cast.part("coordinator_of_a_cell", name, sandbox.folder.path());
    let mut coordinator = coordinator.env("ESCAPES_LIMIT_MS", limit).spawn().unwrap();
    if matches!(end, End::Signal(_) | End::KillGuardian | End::KillBoth) {
        read_when_there(&sandbox.path("escaped"));
        end_from_outside(end, &coordinator);
    }
    coordinator.wait().unwrap();
    let mut outcome = if end.kills_the_coordinator() { Ok(()) } else { check_result(&sandbox, end) };
    if end == End::KillBoth {
        let next_start = cast.part("next_start_of_a_cell", name, sandbox.folder.path()).status().unwrap();
        outcome = next_start.success().then_some(()).ok_or_else(|| "the next start left something".to_owned());
    }
    // One that returned was the last of its session; one that was killed leaves the rest to the guardian.
    let patience = if end == End::Signal(Signal::KILL) { PATIENCE } else { Duration::ZERO };
    let death = prove_death(&mut sandbox, patience);
    if death.is_err() {
        clean_up(&mut sandbox);
    }
    outcome?;
    match death {
        Err(Alive::Lives) if (escape.0, end) == LOST => Ok("lost, as stated"),
        Ok(()) if (escape.0, end) == LOST => Err("gone, although it is said to be lost".to_owned()),
        Ok(()) => Ok("gone"),
        Err(alive) => Err(format!("{alive:?}")),
    }
}

/// Why a death is not proved.
#[derive(Debug)]
enum Alive {
    NobodyEverHeldTheFifo,
    Lives,
}

/// Reads the FIFO to its end.
fn prove_death(sandbox: &mut Sandbox, patience: Duration) -> Result<(), Alive> {
    let until = Instant::now() + patience;
    let mut said = Vec::new();
    loop {
        match sandbox.life.read_to_end(&mut said) {
            Ok(_) if said.is_empty() => return Err(Alive::NobodyEverHeldTheFifo),
            Ok(_) => return Ok(()),
            Err(error) if error.kind() == ErrorKind::WouldBlock => {}
            Err(error) => panic!("{error}"),
        }
        let left = until.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(Alive::Lives);
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
        End::KillBoth => return Err("a killed coordinator has a result".to_owned()),
    };
    if result.ended != expected {
        return Err(format!("it ended as {:?}, not {expected:?}", result.ended));
    }
    Ok(())
}

/// A cell that was lost leaves nothing on the machine either: whoever holds its FIFO for writing is of its session.
fn clean_up(sandbox: &mut Sandbox) {
    let hash = hex(&Sha256::digest(token(&sandbox.folder.path().canonicalize().unwrap())));
    let _swept = sweep(&Leftovers { token_hash: &hash, boot_id: &identity().boot_id });
    let life = sandbox.path("life");
    let pids = fs::read_dir("/proc").unwrap().filter_map(|entry| entry.unwrap().file_name().to_str()?.parse().ok());
    for pid in pids.filter_map(Pid::from_raw).filter(|pid| holds(*pid, &life)) {
        // Looked at again once it is held, since only then it cannot be exchanged for another.
        if let Ok(handle) = pidfd_open(pid, PidfdFlags::empty())
            && holds(pid, &life)
        {
            pidfd_send_signal(handle, Signal::KILL).unwrap();
        }
    }
    let _gone = prove_death(sandbox, PATIENCE);
}

fn holds(pid: Pid, life: &Path) -> bool {
    let folder = format!("/proc/{}", pid.as_raw_nonzero());
    let descriptors = fs::read_dir(format!("{folder}/fd")).into_iter().flatten().filter_map(Result::ok);
    descriptors.filter(|descriptor| fs::read_link(descriptor.path()).is_ok_and(|target| target == life)).any(
        |descriptor| {
            let number = descriptor.file_name().into_string().unwrap_or_default();
            let told = fs::read_to_string(format!("{folder}/fdinfo/{number}")).unwrap_or_default();
            let flags = told.lines().find_map(|line| line.strip_prefix("flags:")).map(str::trim);
            flags.and_then(|flags| u32::from_str_radix(flags, 8).ok()).is_some_and(|flags| flags & 3 == 1)
        },
    )
}

#[test]
fn nothing_of_a_session_survives_any_escape_under_any_ending() {
    let table = play(&Cast::own()).unwrap_or_else(|lost| panic!("{lost}"));
    println!("{table}");
}

#[test]
#[ignore = "only root can start a session as another user; `just escapes` does"]
fn nothing_of_an_ordinary_users_session_survives_either() {
    if geteuid().is_root() {
        let table = play(&Cast::ordinary()).unwrap_or_else(|lost| panic!("{lost}"));
        println!("{table}");
    } else {
        println!("Not started by root: the table is an ordinary user's already.");
    }
}

/// Runs all cells, two at once, and answers with the table; where not all is as it must be, also with what is not.
fn play(cast: &Cast) -> Result<String, String> {
    let cells: Vec<(usize, usize)> =
        (0..ESCAPES.len()).flat_map(|escape| (0..ENDS.len()).map(move |end| (escape, end))).collect();
    let nothing = vec![vec![Err(String::new()); ENDS.len()]; ESCAPES.len()];
    let (waiting, done) = (Mutex::new(cells.into_iter()), Mutex::new(nothing));
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                while let Some((escape, end)) = next(&waiting) {
                    let outcome = cell(cast, ESCAPES[escape], ENDS[end]);
                    done.lock().unwrap()[escape][end] = outcome;
                }
            });
        }
    });
    let done = done.into_inner().unwrap();
    let user = cast.user.unwrap_or_else(|| geteuid().as_raw());
    let table = format!("Sessions of the user with the number {user}:\n{}", table(&done));
    let lost: Vec<String> = (0..ESCAPES.len())
        .flat_map(|escape| (0..ENDS.len()).map(move |end| (escape, end)))
        .filter_map(|(escape, end)| Some((escape, end, done[escape][end].as_ref().err()?)))
        .map(|(escape, end, why)| format!("{} / {}: {why}", ESCAPES[escape].0, ENDS[end].0))
        .collect();
    if lost.is_empty() { Ok(table) } else { Err(format!("{table}\n{}", lost.join("\n"))) }
}

fn next(waiting: &Mutex<std::vec::IntoIter<(usize, usize)>>) -> Option<(usize, usize)> {
    waiting.lock().unwrap().next()
}

fn table(done: &[Vec<Result<&'static str, String>>]) -> String {
    let row = |name: &str, cells: Vec<&str>| {
        let cells: Vec<String> = cells.iter().map(|cell| format!("{cell:>18}")).collect();
        format!("{name:16} {}", cells.join(" "))
    };
    let mut lines = vec![row("", ENDS.map(|(name, _)| name).to_vec())];
    lines.extend(ESCAPES.iter().zip(done).map(|((name, _), cells)| {
        row(name, cells.iter().map(|cell| cell.as_ref().map_or("ALIVE OR WRONG", |fate| fate)).collect())
    }));
    lines.join("\n")
}
