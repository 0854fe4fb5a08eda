//! Nothing a session started survives it.
#![cfg(target_os = "linux")]
#![expect(clippy::disallowed_methods, reason = "tests lay down files")]

mod session_support;

use std::any::Any;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use runner::session::{Ended, ExecutionResult, Exit, Ladder, Limits, Signals, StopSignal, Watched, run};
use session_support::{IMPATIENT, LIMITS, STAY, STAY_STUBBORNLY, Sandbox};

fn after_exit_of(start: &str, limits: Limits) -> ExecutionResult {
    let mut sandbox = Sandbox::new();
    let result = sandbox.run(&format!("{start}\nread ready < ready\nexit 0"), limits);
    sandbox.assert_dead();
    assert_eq!((&result.ended, result.exit), (&Ended::Exited, Some(Exit::Code(0))), "{result:?}");
    assert!(result.leaked_count >= 1 && !result.leaked.is_empty(), "what was left behind is told: {result:?}");
    assert!(result.survivors.is_empty());
    result
}

#[test]
fn an_agent_that_exits_alone_is_left_alone() {
    let sandbox = Sandbox::new();
    let mut row = sandbox.row();
    let result = run(&sandbox.launch(&["true"], LIMITS), &mut row, &Signals::none());
    assert_eq!((result.ended, result.exit, result.ladder), (Ended::Exited, Some(Exit::Code(0)), Ladder::NotNeeded));
    assert!(result.leaked.is_empty() && !result.timed_out && !result.transition_seen && result.pid.is_some());
    assert_eq!(row.held, 0, "nothing was ended, so nothing had to be held");
}

#[test]
fn an_agent_that_takes_too_long_is_ended() {
    let mut sandbox = Sandbox::new();
    let limits = Limits { wall: Duration::from_millis(700), ..LIMITS };
    let result = sandbox.run("exec 9>life; echo alive >&9; exec sleep 600", limits);
    sandbox.assert_dead();
    assert_eq!((result.ended, result.exit), (Ended::TimedOut, Some(Exit::Signal(15))));
    assert!(result.timed_out && result.leaked.is_empty() && result.wall_ms >= 700);
    assert_eq!(result.ladder, Ladder::Terminated);
}

#[test]
fn a_leader_that_ignores_the_request_is_killed() {
    let mut sandbox = Sandbox::new();
    let script = STAY_STUBBORNLY.replace("echo > ready;", "echo review > rows/row;");
    let result = sandbox.run(&script, Limits { exit_grace: Duration::ZERO, ..IMPATIENT });
    sandbox.assert_dead();
    assert_eq!((result.ended, result.exit), (Ended::Transition, Some(Exit::Signal(9))));
    assert_eq!(result.ladder, Ladder::Killed);
}

#[test]
fn an_agent_that_cleans_up_on_int_gets_int_and_what_left_its_group_term() {
    let mut sandbox = Sandbox::new();
    let script = "trap 'echo cleaned; exit 1' INT
        setsid sh -c 'exec 9>life; echo alive >&9; echo > ready; exec sleep 600' & read _ < ready
        echo review > rows/row; sleep 600";
    let limits = Limits { exit_grace: Duration::ZERO, stop: StopSignal::Interrupt, ..LIMITS };
    let result = sandbox.run(script, limits);
    sandbox.assert_dead();
    assert_eq!((result.exit, sandbox.stdout().as_str()), (Some(Exit::Code(1)), "cleaned\n"));
    assert_eq!((result.ended, result.ladder), (Ended::Transition, Ladder::Terminated));
}

#[test]
fn a_background_child_does_not_survive() {
    assert_eq!(after_exit_of(&format!("sh -c '{STAY}' &"), LIMITS).ladder, Ladder::Terminated);
}

#[test]
fn a_grandchild_that_ignores_the_request_does_not_survive() {
    let result = after_exit_of(&format!("sh -c \"{STAY_STUBBORNLY}\" &"), IMPATIENT);
    assert_eq!(result.ladder, Ladder::Killed);
}

#[test]
fn a_grandchild_in_its_own_session_does_not_survive() {
    let result = after_exit_of(&format!("setsid sh -c '{STAY}' &"), LIMITS);
    assert!(["setsid", "sh", "sleep"].contains(&result.leaked[0].name.as_str()), "{result:?}");
}

#[test]
fn a_stubborn_grandchild_in_its_own_session_does_not_survive() {
    let _told = after_exit_of(&format!("setsid sh -c \"{STAY_STUBBORNLY}\" &"), IMPATIENT);
}

#[test]
fn a_daemon_that_forked_twice_does_not_survive() {
    let _told = after_exit_of(&format!("setsid sh -c \"(setsid sh -c '{STAY}' &) &\""), LIMITS);
}

#[test]
fn a_child_with_an_empty_environment_does_not_survive() {
    let _told = after_exit_of(&format!("env -i setsid /bin/sh -c '{STAY}' &"), LIMITS);
}

#[test]
fn a_child_that_ignores_the_hangup_does_not_survive() {
    let _told = after_exit_of(&format!("nohup sh -c '{STAY}' &"), LIMITS);
}

#[test]
fn a_stopped_child_does_not_survive() {
    let stopped = "exec 9>life; echo alive >&9; echo > ready; kill -STOP $$; exec sleep 600";
    for start in [format!("sh -c '{stopped}' &"), format!("setsid sh -c '{stopped}' &")] {
        assert_eq!(after_exit_of(&start, LIMITS).ladder, Ladder::Terminated, "it hears the request once it goes on");
    }
}

#[test]
fn many_children_do_not_survive() {
    let script = format!("for i in 1 2 3 4 5 6 7 8 9; do setsid sleep 600 & done\nsetsid sh -c '{STAY}' &");
    assert!(after_exit_of(&script, LIMITS).leaked_count >= 10);
}

#[test]
fn a_child_that_forks_while_it_is_killed_does_not_survive() {
    let mut sandbox = Sandbox::new();
    // Each hop starts the next in a session of its own and ends. The chain ends by itself one day, for a test that is killed.
    let hop = "trap '' TERM\n[ $1 = 0 ] && echo > over && exit\n(setsid sh ./hop $(($1 - 1)) &)\nexit 0\n";
    fs::write(sandbox.path("hop"), hop).unwrap();
    let result = sandbox.run("exec 9>life; echo alive >&9\nsetsid sh ./hop 5000\nexit 0", IMPATIENT);
    assert!(!sandbox.path("over").exists(), "it was not ended but ended by itself");
    sandbox.assert_dead();
    assert_eq!(result.ended, Ended::Exited);
}

#[test]
fn children_that_ended_before_their_agent_are_no_leak() {
    let sandbox = Sandbox::new();
    let result = sandbox.run("(setsid true & sh -c 'exit 4' &) | cat\nexit 0", LIMITS);
    assert!(result.leaked.is_empty(), "{result:?}");
    assert_eq!(result.ladder, Ladder::NotNeeded);
}

#[test]
fn an_agent_may_finish_after_its_transition() {
    let sandbox = Sandbox::new();
    let script = "echo review > row.new; mv row.new rows/row; echo finished; exit 5";
    let result = sandbox.run(script, LIMITS);
    assert_eq!((&result.ended, result.exit), (&Ended::Transition, Some(Exit::Code(5))));
    assert!(result.transition_seen && result.ladder == Ladder::NotNeeded);
    assert_eq!(sandbox.stdout(), "finished\n");
}

#[test]
fn an_agent_that_lingers_after_its_transition_is_ended_while_the_state_is_held() {
    let mut sandbox = Sandbox::new();
    let script = "exec 9>life; echo alive >&9; echo review > row.new; mv row.new rows/row; exec sleep 600";
    let mut row = sandbox.row();
    let launch = sandbox.launch(&["sh", "-c", script], Limits { exit_grace: Duration::ZERO, ..LIMITS });
    let result = run(&launch, &mut row, &Signals::none());
    sandbox.assert_dead();
    assert_eq!((&result.ended, result.exit), (&Ended::Transition, Some(Exit::Signal(15))));
    assert!(result.leaked.is_empty(), "what was asked to end is no leak");
    assert_eq!(row.held, 1);
}

#[test]
fn a_transition_is_seen_although_the_rows_folder_was_removed_meanwhile() {
    let sandbox = Sandbox::new();
    let script = "rm -r rows; mkdir rows; echo review > rows/row; exec sleep 600";
    let result = sandbox.run(script, Limits { exit_grace: Duration::ZERO, ..LIMITS });
    assert_eq!(result.ended, Ended::Transition);
}

#[test]
fn a_panic_while_a_session_runs_leaves_nothing_behind() {
    struct Panicking(PathBuf);
    impl Watched for Panicking {
        fn file(&self) -> &Path {
            &self.0
        }
        fn reached_transition(&mut self) -> bool {
            assert!(!fs::read(&self.0).is_ok_and(|row| row == b"review\n"), "as a bug would");
            false
        }
        fn hold_state(&mut self) -> Box<dyn Any> {
            Box::new(())
        }
    }
    let mut sandbox = Sandbox::new();
    let script = format!("setsid sh -c '{STAY}' &\nread ready < ready\necho review > rows/row\nexec sleep 600");
    let launch = sandbox.launch(&["sh", "-c", &script], LIMITS);
    let mut row = Panicking(sandbox.path("rows/row"));
    let outcome = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| run(&launch, &mut row, &Signals::none())));
    assert!(outcome.is_err());
    sandbox.assert_dead();
}
