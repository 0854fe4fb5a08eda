//! Each session has a guardian that the agent cannot end by accident, and without which the coordinator finishes the job.
#![cfg(target_os = "linux")]
#![expect(clippy::disallowed_methods, clippy::unwrap_used, reason = "tests lay down files, and fail where they cannot")]

mod session_support;

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use runner::session::{Cause, Ended, Exit, Ladder, Limits, Owner, Signals, Stage, run};
use rustix::process::{Signal, getpid, kill_process};
use session_support::{IMPATIENT, LIMITS, STAY_STUBBORNLY, Sandbox};

static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());

/// Signals concern the whole process.
fn alone() -> MutexGuard<'static, ()> {
    ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner)
}

fn program(sandbox: &Sandbox, text: &str) -> PathBuf {
    let path = sandbox.path("program");
    fs::write(&path, format!("#!/bin/sh\ncd {}\n{text}\n", sandbox.folder.path().display())).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    path
}

#[test]
fn a_session_tells_who_owned_each_stage_and_what_its_tree_used() {
    let _alone = alone();
    let sandbox = Sandbox::new();
    let result = sandbox.run("i=0; while [ $i -lt 100000 ]; do i=$((i + 1)); done", LIMITS);
    let told: Vec<_> = result.stages.iter().map(|record| (record.stage, record.owner, record.ended_by)).collect();
    let expected = [
        (Stage::Queued, Owner::Coordinator, Some(Cause::TurnCame)),
        (Stage::Acquired, Owner::Coordinator, Some(Cause::Started)),
        (Stage::Running, Owner::Guardian, Some(Cause::NothingLeft)),
        (Stage::Draining, Owner::Coordinator, Some(Cause::OutputRead)),
        (Stage::Completed, Owner::Coordinator, None),
    ];
    assert_eq!(told, expected);
    let usage = result.usage.unwrap();
    assert!(usage.user_ms + usage.system_ms > 0 && usage.peak_memory_bytes > 500_000, "{usage:?}");
    assert!(!result.guardian_lost);
}

#[test]
fn an_agent_that_signals_its_group_its_session_and_its_parent_ends_no_guardian() {
    let _alone = alone();
    let mut sandbox = Sandbox::new();
    let script = format!(
        "trap '' TERM INT HUP QUIT USR1 PIPE ALRM\nfor s in TERM INT HUP QUIT USR1 PIPE ALRM; do kill -$s 0; kill -$s $PPID; done
        setsid sh -c \"{STAY_STUBBORNLY}\" &\nread ready < ready\nexit 3"
    );
    let result = sandbox.run(&script, IMPATIENT);
    sandbox.assert_dead();
    assert_eq!((&result.ended, result.exit), (&Ended::Exited, Some(Exit::Code(3))));
    assert!(!result.guardian_lost && result.leaked_count >= 1);
}

#[test]
fn a_guardian_that_its_agent_killed_leaves_its_tree_to_the_coordinator() {
    let _alone = alone();
    let mut sandbox = Sandbox::new();
    let script = format!("setsid sh -c \"{STAY_STUBBORNLY}\" &\nread ready < ready\nkill -KILL $PPID\nexec sleep 600");
    let result = sandbox.run(&script, IMPATIENT);
    sandbox.assert_dead();
    assert_eq!((&result.ended, result.exit), (&Ended::GuardianLost, Some(Exit::Signal(15))), "{result:?}");
    assert!(result.guardian_lost && result.ladder == Ladder::Killed);
    let ending = result.stages.iter().find(|record| record.stage == Stage::Terminating).unwrap();
    assert_eq!(ending.owner, Owner::Coordinator);
}

#[test]
fn a_guardian_that_its_agent_kills_at_once_had_started_it_all_the_same() {
    let _alone = alone();
    // Whether the guardian could still say that the agent runs is a race; what it comes to is none.
    for round in 0..20 {
        let sandbox = Sandbox::new();
        let result = sandbox.run("kill -KILL $PPID\nexec sleep 600", IMPATIENT);
        assert_eq!(result.ended, Ended::GuardianLost, "round {round}: {result:?}");
    }
}

#[test]
fn a_guardian_that_its_agent_stopped_goes_on_when_it_is_needed() {
    let _alone = alone();
    let mut sandbox = Sandbox::new();
    let script = format!("setsid sh -c \"{STAY_STUBBORNLY}\" &\nread ready < ready\nkill -STOP $PPID\nexec sleep 600");
    let result = sandbox.run(&script, Limits { wall: Duration::from_millis(700), ..IMPATIENT });
    sandbox.assert_dead();
    assert_eq!((&result.ended, result.ladder), (&Ended::TimedOut, Ladder::Killed));
    assert!(!result.guardian_lost);
}

#[test]
fn a_guardian_that_is_none_starts_nothing_and_is_named() {
    let _alone = alone();
    let sandbox = Sandbox::new();
    for (guardian, expected) in [("/bin/true", "did not start it"), ("/nonexistent/runner", "No such file")] {
        let mut launch = sandbox.launch(&["touch", "started"], LIMITS);
        launch.guardian = guardian.into();
        let result = run(&launch, &mut sandbox.row(), &Signals::none());
        let Ended::CouldNotStart { reason } = &result.ended else { panic!("{result:?}") };
        assert!(reason.contains("guardian") && reason.contains(expected), "{reason}");
        assert_eq!((result.exit, result.pid), (None, None));
    }
    assert!(!sandbox.path("started").exists());
}

#[test]
fn a_session_is_cancelled_while_its_guardian_does_not_answer() {
    let _alone = alone();
    let mut sandbox = Sandbox::new();
    let signals = Signals::install().unwrap();
    let mut launch = sandbox.launch(&["touch", "started"], IMPATIENT);
    launch.guardian = program(&sandbox, STAY_STUBBORNLY);
    let ready = sandbox.path("ready");
    let sender = thread::spawn(move || {
        fs::read(ready).unwrap();
        kill_process(getpid(), Signal::TERM).unwrap();
    });
    let result = run(&launch, &mut sandbox.row(), &signals);
    sender.join().unwrap();
    sandbox.assert_dead();
    assert_eq!((&result.ended, result.cancelled, result.pid), (&Ended::Interrupted, Some(15), None));
    let stages: Vec<Stage> = result.stages.iter().map(|record| record.stage).collect();
    let expected = [Stage::Queued, Stage::Acquired, Stage::Terminating, Stage::Draining, Stage::Completed];
    assert_eq!(stages, expected);
}

#[test]
fn a_guardian_is_not_for_people() {
    for argument in ["0", "99"] {
        let output =
            std::process::Command::new(env!("CARGO_BIN_EXE_runner")).args(["guardian", argument]).output().unwrap();
        assert_eq!(output.status.code(), Some(2));
        assert!(String::from_utf8_lossy(&output.stderr).contains("started by a running coordinator only"));
    }
}
