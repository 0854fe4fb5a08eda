//! What concerns this whole process: signals to it, its other children, and leftovers of another coordinator. One at a time.
#![cfg(target_os = "linux")]
#![expect(
    clippy::disallowed_methods,
    clippy::unwrap_used,
    reason = "tests start bystanders, and fail where they cannot"
)]

mod session_support;

use std::fs;
use std::io::Read;
use std::process::{Child, Command, Stdio};
use std::sync::{Mutex, MutexGuard, Once, PoisonError};
use std::thread::{self, JoinHandle};

use runner::ids::hex;
use runner::session::{
    Ended, ExecutionResult, Exit, Ladder, Leftovers, Signals, Stage, Tool, identity, is_alive, run, run_tool, sweep,
};
use rustix::process::{Signal, getpid, kill_process};
use session_support::{IMPATIENT, LIMITS, LONG, STAY, STAY_STUBBORNLY, Sandbox};
use sha2::{Digest, Sha256};

static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());

/// Lets this process hear SIGHUP also under `nohup`, once, before a handler for it is installed.
#[expect(unsafe_code, reason = "the disposition of a signal is the kernel's, and this whole process's")]
fn hear_hangups() {
    static ONCE: Once = Once::new();
    // SAFETY: the first test to get here does it, alone, before any handler is there to be lost.
    ONCE.call_once(|| unsafe {
        libc::signal(libc::SIGHUP, libc::SIG_DFL);
    });
}

fn alone() -> MutexGuard<'static, ()> {
    let alone = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
    hear_hangups();
    alone
}

/// Sends the signals to this process, each when the session has written a line into `ready`.
fn send_when_ready(sandbox: &Sandbox, signals: Vec<Signal>) -> JoinHandle<()> {
    let ready = sandbox.path("ready");
    thread::spawn(move || {
        for signal in signals {
            fs::read(&ready).unwrap();
            kill_process(getpid(), signal).unwrap();
        }
    })
}

fn interrupted(script: &str, signals: Vec<Signal>) -> ExecutionResult {
    let mut sandbox = Sandbox::new();
    let installed = Signals::install().unwrap();
    let sender = send_when_ready(&sandbox, signals);
    let result = run(&sandbox.launch(&["sh", "-c", script], LIMITS), &mut sandbox.row(), &installed);
    sender.join().unwrap();
    sandbox.assert_dead();
    assert_eq!((&result.ended, result.cancelled), (&Ended::Interrupted, installed.first()));
    result
}

#[test]
fn the_first_signal_asks_the_session_to_end() {
    let _alone = alone();
    for signal in [Signal::INT, Signal::TERM, Signal::HUP] {
        let result = interrupted(STAY, vec![signal]);
        assert_eq!(result.cancelled, Some(signal.as_raw()));
        assert_eq!((result.exit, result.ladder), (Some(Exit::Signal(15)), Ladder::Terminated));
    }
}

#[test]
fn the_second_signal_kills_at_once() {
    let _alone = alone();
    // Not at once, since that would be one request delivered twice.
    let script = "trap 'sleep 0.2; echo > ready' TERM; exec 9>life; echo alive >&9; echo > ready; while :; do sleep 600 & wait $!; done";
    let result = interrupted(script, vec![Signal::INT, Signal::TERM]);
    assert_eq!((result.cancelled, result.exit), (Some(2), Some(Exit::Signal(9))));
    assert_eq!(result.ladder, Ladder::Killed);
}

#[test]
fn after_a_signal_no_session_starts_but_a_tool_still_does() {
    let _alone = alone();
    let sandbox = Sandbox::new();
    let signals = Signals::install().unwrap();
    assert_eq!((signals.first(), signals.count()), (None, 0));
    kill_process(getpid(), Signal::TERM).unwrap();
    while signals.count() == 0 {
        // Any thread may be the one that takes it.
        thread::yield_now();
    }
    assert_eq!((signals.first(), signals.count()), (Some(15), 1));
    let launch = sandbox.launch(&["touch", "started"], LIMITS);
    let result = run(&launch, &mut sandbox.row(), &signals);
    assert_eq!((result.ended, result.cancelled, result.exit), (Ended::Interrupted, Some(15), None));
    assert!(!sandbox.path("started").exists());
    let tool = Tool { argv: &launch.argv, cwd: &launch.cwd, env: &launch.env, stdin: b"", wall: LONG };
    let output = run_tool(&tool, &signals).unwrap();
    assert_eq!((output.exit, output.cancelled), (Exit::Code(0), None));
    assert!(sandbox.path("started").exists());
}

#[test]
fn signals_are_told_in_the_order_in_which_they_came() {
    let _alone = alone();
    for (first, second) in [(Signal::HUP, Signal::INT), (Signal::INT, Signal::HUP), (Signal::TERM, Signal::INT)] {
        let signals = Signals::install().unwrap();
        for signal in [first, second] {
            // To this very thread, so that it has arrived when the call returns.
            #[expect(unsafe_code, reason = "a signal to one thread, which has a handler for it")]
            // SAFETY: the handler only notes it.
            unsafe {
                libc::raise(signal.as_raw());
            }
        }
        assert_eq!((signals.first(), signals.count()), (Some(first.as_raw()), 2));
    }
}

#[test]
fn a_session_is_cancelled_while_it_waits_for_its_turn() {
    let _alone = alone();
    let (first, second) = (Sandbox::new(), Sandbox::new());
    let signals = Signals::install().unwrap();
    let launch = second.launch(&["touch", "started"], LIMITS);
    thread::scope(|scope| {
        let running = scope.spawn(|| first.run("echo > ready; read line < ready", LIMITS));
        fs::read(first.path("ready")).unwrap();
        let waiting = scope.spawn(|| run(&launch, &mut second.row(), &signals));
        kill_process(getpid(), Signal::TERM).unwrap();
        let result = waiting.join().unwrap();
        assert_eq!((result.ended, result.cancelled, result.pid), (Ended::Interrupted, Some(15), None));
        let stages: Vec<Stage> = result.stages.iter().map(|record| record.stage).collect();
        assert_eq!(stages, [Stage::Queued, Stage::Completed]);
        fs::write(first.path("ready"), "\n").unwrap();
        assert_eq!(running.join().unwrap().exit, Some(Exit::Code(0)));
    });
    assert!(!second.path("started").exists());
}

#[test]
fn a_tool_is_ended_by_a_signal_that_arrives_meanwhile() {
    let _alone = alone();
    let mut sandbox = Sandbox::new();
    let signals = Signals::install().unwrap();
    let sender = send_when_ready(&sandbox, vec![Signal::TERM]);
    let launch = sandbox.launch(&["sh", "-c", STAY], LIMITS);
    let tool = Tool { argv: &launch.argv, cwd: &launch.cwd, env: &launch.env, stdin: b"", wall: LONG };
    let output = run_tool(&tool, &signals).unwrap();
    sender.join().unwrap();
    sandbox.assert_dead();
    assert_eq!((output.exit, output.cancelled, output.timed_out), (Exit::Signal(15), Some(15), false));
}

#[test]
fn an_exit_status_is_known_although_the_coordinator_was_started_with_children_ignored() {
    let _alone = alone();
    #[expect(unsafe_code, reason = "what a careless parent leaves behind")]
    // SAFETY: ignoring installs no handler.
    unsafe {
        libc::signal(libc::SIGCHLD, libc::SIG_IGN)
    };
    assert_eq!(Sandbox::new().run("exit 3", LIMITS).exit, Some(Exit::Code(3)));
}

/// A process that says that it runs and then does what the script says.
fn bystander(program: &str, script: &str, variables: &[(&str, &str)]) -> Child {
    let arguments: &[&str] = if program == "setsid" { &["sh", "-c", script] } else { &["-c", script] };
    let mut command = Command::new(program);
    command.args(arguments).envs(variables.iter().copied()).stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut child = command.spawn().unwrap();
    child.stdout.as_mut().unwrap().read_exact(&mut [0]).unwrap();
    child
}

/// Ends when its standard input does, with status 7.
const UNTIL_CLOSED: &str = "echo; read line; exit 7";

fn assert_untouched(mut child: Child) {
    drop(child.stdin.take());
    assert_eq!(child.wait().unwrap().code(), Some(7));
}

#[test]
fn other_children_of_the_caller_are_neither_ended_nor_waited_for() {
    let _alone = alone();
    let children = [
        bystander("sh", UNTIL_CLOSED, &[]),
        bystander("setsid", UNTIL_CLOSED, &[]),
        bystander("sh", "echo; exit 7", &[]),
    ];
    let mut sandbox = Sandbox::new();
    let result = sandbox.run(&format!("setsid sh -c \"{STAY_STUBBORNLY}\" &\nread ready < ready"), IMPATIENT);
    sandbox.assert_dead();
    assert_eq!((result.ladder, result.leaked_count >= 1), (Ladder::Killed, true));
    for child in children {
        assert_untouched(child);
    }
}

#[test]
fn a_sweep_ends_what_holds_the_secret_and_nothing_else() {
    let _alone = alone();
    let secret = format!("secret-of-a-session-that-was-killed-{}", std::process::id());
    let hash = hex(&Sha256::digest(&secret));
    let longer = format!("{secret}x");
    let strangers = [
        bystander("sh", UNTIL_CLOSED, &[]),
        bystander("sh", UNTIL_CLOSED, &[("RUNNER_TOKEN", &longer)]),
        bystander("sh", UNTIL_CLOSED, &[("RUNNER_TOKEN", &secret[1..])]),
        bystander("sh", &format!(": RUNNER_TOKEN={secret}; {UNTIL_CLOSED}"), &[("RUNNER_TOKEN", "other")]),
        bystander("sh", UNTIL_CLOSED, &[("OTHER", &format!("RUNNER_TOKEN={secret}"))]),
    ];
    let stubborn = "trap '' TERM; echo; while :; do sleep 600 & wait $!; done";
    let holders = [
        bystander("sh", "echo; exec sleep 600", &[("RUNNER_TOKEN", &secret)]),
        bystander("setsid", stubborn, &[("RUNNER_TOKEN", &secret)]),
        bystander("setsid", "echo; kill -STOP $$; exec sleep 600", &[("RUNNER_TOKEN", &secret)]),
    ];
    let me = identity();
    let swept = sweep(&Leftovers { token_hash: &hash, boot_id: &me.boot_id });
    for holder in &holders {
        assert!(swept.ended.iter().any(|ended| ended.pid == holder.id()), "{swept:?}");
    }
    assert!(swept.left.is_empty());
    let signals = holders.map(|mut holder| std::os::unix::process::ExitStatusExt::signal(&holder.wait().unwrap()));
    assert_eq!(signals, [Some(15), Some(9), Some(15)]);
    for stranger in strangers {
        assert_untouched(stranger);
    }
    assert!(is_alive(me.pid, me.start_time, &me.boot_id));
    let again = sweep(&Leftovers { token_hash: &hash, boot_id: &me.boot_id });
    assert!(again.ended.is_empty() && again.left.is_empty());
}
