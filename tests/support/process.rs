//! Starts the binary and git in an environment of their own, waits with a deadline, and says what came of it.

use std::ffi::OsString;
use std::fmt;
use std::fs::{self, File};
use std::os::unix::process::ExitStatusExt;
use std::path::PathBuf;
use std::process::{Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use super::Project;

/// Longer than any of these runs takes on a loaded machine.
pub const DEADLINE: Duration = Duration::from_mins(2);

static LOGS: AtomicU32 = AtomicU32::new(0);

/// Lets the program hear SIGHUP also where the tests themselves run under `nohup`, which programs inherit.
#[expect(unsafe_code, reason = "a signal's disposition can only be changed between fork and exec")]
fn hear_hangups(command: &mut Command) {
    use std::os::unix::process::CommandExt;
    // SAFETY: `signal(2)` is async-signal-safe and touches nothing of this process.
    unsafe {
        command.pre_exec(|| {
            libc::signal(libc::SIGHUP, libc::SIG_DFL);
            Ok(())
        });
    }
}

impl Project {
    /// Runs the binary in the project root to its end.
    #[track_caller]
    pub fn run(&self, args: &[&str]) -> Finished {
        self.spawn(args).wait()
    }

    /// As [`Self::run`], with further variables in the environment.
    #[track_caller]
    pub fn run_with(&self, args: &[&str], variables: &[(&str, &str)]) -> Finished {
        self.spawn_with(args, variables).wait()
    }

    /// Starts the binary in the project root.
    #[track_caller]
    pub fn spawn(&self, args: &[&str]) -> Running {
        self.spawn_with(args, &[])
    }

    /// Starts the binary in the project root with further variables in its environment.
    #[track_caller]
    pub fn spawn_with(&self, args: &[&str], variables: &[(&str, &str)]) -> Running {
        self.spawn_under(&[], args, variables)
    }

    /// As [`Self::spawn_with`], started by another program, which is given the binary and its arguments last.
    #[track_caller]
    pub fn spawn_under(&self, wrapper: &[&str], args: &[&str], variables: &[(&str, &str)]) -> Running {
        let mut all = args.to_vec();
        let root = self.root.to_str().expect("the sandbox has a plain path").to_owned();
        if !self.git {
            all.splice(0..0, ["--root", &root]);
        }
        let number = LOGS.fetch_add(1, Ordering::Relaxed);
        let stdout = self.outside(&format!("logs/{number}.out"));
        let stderr = self.outside(&format!("logs/{number}.err"));
        let binary = env!("CARGO_BIN_EXE_runner");
        let mut command = self.sealed(wrapper.first().unwrap_or(&binary));
        if let Some((_, words)) = wrapper.split_first() {
            command.args(words).arg(binary);
        }
        command.args(&all).envs(variables.iter().copied()).stdout(create(&stdout)).stderr(create(&stderr));
        hear_hangups(&mut command);
        let mut child = command.spawn().expect("the binary starts");
        let pid = child.id();
        let (send, ended) = mpsc::channel();
        thread::spawn(move || {
            let status = child.wait().expect("a child can be waited for");
            // The test may have given up already.
            send.send(status).ok();
        });
        Running { pid, ended, stdout, stderr, args: all.join(" "), over: false }
    }

    /// Runs git in the project root and returns what it printed, less the last newline.
    #[track_caller]
    pub fn git(&self, args: &[&str]) -> String {
        let output = self.sealed("git").args(args).output().expect("git can be run");
        assert!(
            output.status.success(),
            "git {} failed: {}{}",
            args.join(" "),
            String::from_utf8_lossy(&output.stdout),
            String::from_utf8_lossy(&output.stderr)
        );
        String::from_utf8_lossy(&output.stdout).trim_end_matches('\n').to_owned()
    }

    /// A command in the project root that inherits nothing.
    fn sealed(&self, program: &str) -> Command {
        let mut command = Command::new(program);
        command.current_dir(&self.root).stdin(Stdio::null()).env_clear();
        for (name, value) in [
            ("PATH", std::env::var_os("PATH").unwrap_or_else(|| OsString::from("/usr/bin:/bin"))),
            ("HOME", self.outside("home").into_os_string()),
            ("TMPDIR", self.outside("tmp").into_os_string()),
            ("LC_ALL", OsString::from("C")),
            ("GIT_CONFIG_GLOBAL", OsString::from("/dev/null")),
            ("GIT_CONFIG_NOSYSTEM", OsString::from("1")),
        ] {
            command.env(name, value);
        }
        command
    }
}

/// Whether there is `strace`; says so if a test is skipped for want of it.
pub fn has_strace() -> bool {
    let is_there = std::env::var_os("PATH")
        .is_some_and(|path| std::env::split_paths(&path).any(|folder| folder.join("strace").is_file()));
    if !is_there {
        println!("skipped: strace is not installed");
    }
    is_there
}

fn create(path: &PathBuf) -> File {
    File::create(path).expect("a log can be made")
}

/// The binary while it runs; ended with the test if the test does not wait for it.
#[must_use]
pub struct Running {
    pid: u32,
    ended: mpsc::Receiver<ExitStatus>,
    stdout: PathBuf,
    stderr: PathBuf,
    args: String,
    over: bool,
}

impl Running {
    /// Its process id.
    pub fn pid(&self) -> u32 {
        self.pid
    }

    /// Sends it a signal.
    pub fn signal(&self, signal: Signal) {
        let pid = i32::try_from(self.pid).ok().and_then(Pid::from_raw).expect("a process has an id");
        kill_process(pid, signal).expect("the process we started is there");
    }

    /// Kills the coordinator and its session's guardian, so that nobody is left to end the session.
    pub fn kill_with_guardian(&self) {
        let guardian = self.kill_with_stopped_guardian();
        kill_process(guardian, Signal::KILL).expect("the guardian is there");
    }

    /// Kills the coordinator, and leaves a guardian that does nothing before it is told to go on.
    pub fn kill_with_stopped_guardian(&self) -> Pid {
        let tasks = fs::read_dir(format!("/proc/{}/task", self.pid)).expect("the process we started is there");
        let lists = tasks.flatten().filter_map(|task| fs::read_to_string(task.path().join("children")).ok());
        let children: Vec<i32> = lists
            .flat_map(|list| list.split_whitespace().filter_map(|pid| pid.parse().ok()).collect::<Vec<_>>())
            .collect();
        let [guardian] = children[..] else { panic!("a coordinator with a session has one child, not {children:?}") };
        let guardian = Pid::from_raw(guardian).expect("a process has an id");
        // Stopped first, so that it does nothing once the coordinator is gone.
        kill_process(guardian, Signal::STOP).expect("the guardian is there");
        self.signal(Signal::KILL);
        guardian
    }

    /// Waits for its end; past the deadline it is killed and the test fails.
    #[track_caller]
    pub fn wait(mut self) -> Finished {
        let status = self.ended.recv_timeout(DEADLINE);
        if status.is_err() {
            self.signal(Signal::KILL);
        }
        self.over = true;
        let finished = Finished {
            args: self.args.clone(),
            code: status.ok().and_then(|status| status.code()),
            signal: status.ok().and_then(|status| status.signal()),
            stdout: text(&self.stdout),
            stderr: text(&self.stderr),
        };
        assert!(status.is_ok(), "runner did not end within {DEADLINE:?}: {finished}");
        finished
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if !self.over && self.ended.try_recv().is_err() {
            self.signal(Signal::KILL);
        }
    }
}

fn text(path: &PathBuf) -> String {
    String::from_utf8_lossy(&fs::read(path).unwrap_or_default()).into_owned()
}

/// What a run of the binary came to.
#[derive(Debug)]
#[must_use]
pub struct Finished {
    args: String,
    /// The exit code, unless a signal ended it.
    pub code: Option<i32>,
    /// The signal that ended it.
    pub signal: Option<i32>,
    /// Standard output.
    pub stdout: String,
    /// Standard error.
    pub stderr: String,
}

impl Finished {
    /// Standard output as the one JSON object it must be.
    #[track_caller]
    pub fn json(&self) -> Value {
        match serde_json::from_str(&self.stdout) {
            Ok(value @ Value::Object(_)) => value,
            other => panic!("standard output is no JSON object ({other:?}): {self}"),
        }
    }

    /// Fails unless the run ended with this code and this `stop`; returns its result.
    #[track_caller]
    pub fn stopped(&self, code: i32, stop: &str) -> Value {
        assert_eq!(self.code, Some(code), "exit code, expected {code} {stop}: {self}");
        let value = self.json();
        assert_eq!(value["stop"], stop, "stop: {self}");
        value
    }

    /// Fails unless the plan was carried to its end; returns the result.
    #[track_caller]
    pub fn complete(&self) -> Value {
        self.stopped(0, "complete")
    }

    /// Fails unless the run was refused before it began, with one JSON object on standard error; returns the reason.
    #[track_caller]
    pub fn refused(&self) -> String {
        assert_eq!(self.code, Some(2), "exit code of a refusal: {self}");
        assert_eq!(self.stdout, "", "a refusal leaves standard output empty: {self}");
        let value: Value = match serde_json::from_str(&self.stderr) {
            Ok(value) => value,
            Err(error) => panic!("standard error is no JSON object ({error}): {self}"),
        };
        assert_eq!(value["stop"], "configuration_or_workflow_error", "{self}");
        value["reason"].as_str().unwrap_or_else(|| panic!("no reason: {self}")).to_owned()
    }
}

impl fmt::Display for Finished {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { args, code, signal, stdout, stderr } = self;
        write!(f, "runner {args}\ncode {code:?} signal {signal:?}\n--- stdout\n{stdout}\n--- stderr\n{stderr}")
    }
}
