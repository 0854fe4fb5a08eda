//! What a session prints is kept within bounds, and nothing of it is lost without being told.
#![cfg(target_os = "linux")]
#![expect(clippy::disallowed_methods, clippy::unwrap_used, reason = "tests read files, and fail where they cannot")]

mod session_support;

use std::fs;
use std::time::Duration;

use runner::session::{DrainStatus, Ended, ExecutionResult, Exit, LimitAction, Limits, OutputBounds, Signals, run};
use session_support::{LIMITS, Row, Sandbox};

const BOUNDS: OutputBounds =
    OutputBounds { stdout: 400_000, stderr: 100_000, combined: 400_000, action: LimitAction::Keep };

fn run_with(sandbox: &Sandbox, script: &str, output: OutputBounds) -> ExecutionResult {
    let mut launch = sandbox.launch(&["sh", "-c", script], LIMITS);
    launch.output = output;
    run(&launch, &mut sandbox.row(), &Signals::none())
}

/// Runs a script; what was shown of its output meanwhile.
fn shown(sandbox: &Sandbox, script: &str, output: OutputBounds) -> (ExecutionResult, Row) {
    let mut launch = sandbox.launch(&["sh", "-c", script], LIMITS);
    launch.output = output;
    let mut row = sandbox.row();
    let result = run(&launch, &mut row, &Signals::none());
    (result, row)
}

fn numbered(word: &str, numbers: std::ops::Range<u32>) -> Vec<u8> {
    numbers.flat_map(|number| format!("{word}{number}\n").into_bytes()).collect()
}

fn log(sandbox: &Sandbox, name: &str) -> Vec<u8> {
    fs::read(sandbox.path("logs").join(name)).unwrap()
}

#[test]
fn what_was_written_just_before_the_exit_is_in_the_log() {
    let sandbox = Sandbox::new();
    let result = sandbox.run("head -c 300000 /dev/zero | tr '\\0' x; printf 'the last line'", LIMITS);
    let log = log(&sandbox, "stdout");
    assert_eq!(log.len(), 300_013);
    assert!(log.ends_with(b"xthe last line"));
    assert_eq!((result.output.drain, result.output.unread), (DrainStatus::Complete, 0));
    assert_eq!((result.output.stdout.written, result.output.stdout.left_out), (300_013, 0));
    assert!(!result.output.stdout.truncated_by_agent && !result.output.stderr.truncated_by_agent);
}

#[test]
fn who_listens_is_shown_all_of_both_streams_in_order_also_what_comes_just_before_the_exit() {
    let sandbox = Sandbox::new();
    let script = "i=0; while [ $i -lt 3000 ]; do echo line $i; echo bad $i >&2; i=$((i + 1)); done; printf end";
    let (_, row) = shown(&sandbox, script, OutputBounds::default());
    assert!(row.shown[0] == [numbered("line ", 0..3000), b"end".to_vec()].concat());
    assert!(row.shown[1] == numbered("bad ", 0..3000));
    assert_eq!(row.missed, [0, 0]);
}

#[test]
fn who_listens_is_shown_what_the_log_leaves_out_too() {
    let sandbox = Sandbox::new();
    let script = "i=0; while [ $i -lt 10 ]; do head -c 1000000 /dev/zero | tr '\\0' $i; echo; i=$((i + 1)); done
        seq 1 200000 >&2";
    let (result, row) = shown(&sandbox, script, BOUNDS);
    let wanted: Vec<u8> =
        (0..10).flat_map(|i| [format!("{i}").repeat(1_000_000), "\n".to_owned()].concat().into_bytes()).collect();
    assert!(result.output.stdout.left_out > 9_000_000 && row.shown[0] == wanted, "{} bytes", row.shown[0].len());
    assert!(result.output.stderr.left_out > 1_000_000 && row.shown[1] == numbered("", 1..200_001));
    assert_eq!(row.missed, [0, 0]);
    assert!(log(&sandbox, "stdout").len() <= 400_000 && log(&sandbox, "stdout").ends_with(b"9\n"));
}

#[test]
fn who_listens_is_told_that_an_agent_cut_its_output_off() {
    let sandbox = Sandbox::new();
    let script = "echo before >&2; while ! grep -q before logs/stderr; do :; done; : > /dev/stderr; echo after >&2";
    let (_, row) = shown(&sandbox, script, BOUNDS);
    assert_eq!((row.shown[1].as_slice(), row.missed), (&b"before\nafter\n"[..], [0, 1]));
}

#[test]
fn of_more_than_the_bound_head_and_end_are_kept_and_the_gap_is_stated() {
    let sandbox = Sandbox::new();
    let script = "echo first; head -c 30000000 /dev/zero | tr '\\0' x; echo last
        (echo bad; head -c 5000000 /dev/zero | tr '\\0' e; echo worse) >&2";
    let result = run_with(&sandbox, script, BOUNDS);
    assert_eq!((&result.ended, result.exit), (&Ended::Exited, Some(Exit::Code(0))), "keeping ends no session");
    let (out, err) = (log(&sandbox, "stdout"), log(&sandbox, "stderr"));
    assert!(out.len() + err.len() <= 400_000 && err.len() <= 100_000, "{} + {}", out.len(), err.len());
    assert!(out.len() > 290_000 && err.len() > 90_000, "and not much less than may be kept");
    assert!(out.starts_with(b"first\nx") && out.ends_with(b"xlast\n"));
    assert!(err.starts_with(b"bad\ne") && err.ends_with(b"eworse\n"));
    for (record, log, written) in [(result.output.stdout, out, 30_000_011), (result.output.stderr, err, 5_000_010)] {
        assert_eq!((record.written, record.kept + record.left_out), (written, written));
        let line = format!("\n[runner: {} bytes are left out here]\n", record.left_out);
        assert!(log.windows(line.len()).any(|part| part == line.as_bytes()));
        assert_eq!(record.kept + line.len() as u64, log.len() as u64);
    }
}

#[test]
fn an_agent_that_cuts_its_own_error_output_off_loses_nothing_that_was_seen() {
    let sandbox = Sandbox::new();
    // The log tells when the first line was taken.
    let script = "echo before >&2; while ! grep -q before logs/stderr; do :; done; : > /dev/stderr; echo after >&2";
    let result = sandbox.run(script, LIMITS);
    assert_eq!(log(&sandbox, "stderr"), b"before\nafter\n");
    assert!(result.output.stderr.truncated_by_agent && !result.output.stdout.truncated_by_agent);
}

#[test]
fn a_bound_can_end_the_session() {
    let sandbox = Sandbox::new();
    let result = run_with(&sandbox, "yes", OutputBounds { action: LimitAction::End, ..BOUNDS });
    assert_eq!((result.ended, result.exit), (Ended::OutputLimit, Some(Exit::Signal(15))));
    assert!(result.output_limit && log(&sandbox, "stdout").len() <= 400_000);
}

#[test]
fn an_agent_that_prints_as_fast_as_it_can_fills_no_disk() {
    let sandbox = Sandbox::new();
    // Blocks of 512 bytes: of the scratch file, which is descriptor 3 here, and of the log.
    let script = "exec 3>&1; yes >&3 & i=0
        while [ $i -lt 150 ]; do stat -L -c %b /proc/self/fd/3 logs/stdout >> blocks; i=$((i + 1)); done; kill $!";
    let result = run_with(&sandbox, script, OutputBounds::default());
    let blocks = fs::read_to_string(sandbox.path("blocks")).unwrap();
    let blocks: Vec<u64> = blocks.lines().map(|line| line.parse().unwrap()).collect();
    let most = blocks.chunks(2).map(|pair| pair.iter().sum::<u64>() * 512).max().unwrap();
    println!("{} bytes written, at most {most} bytes on disk", result.output.stdout.written);
    assert!(result.output.stdout.written > 32 << 20, "it was not fast: {result:?}");
    assert!(most <= (8 + 64) << 20, "{most} bytes on disk");
    assert!(log(&sandbox, "stdout").len() <= 8 << 20);
}

#[test]
fn a_silent_agent_is_ended_at_its_idle_limit() {
    let mut sandbox = Sandbox::new();
    let limits = Limits { idle_timeout: Some(Duration::from_millis(400)), ..LIMITS };
    let result = sandbox.run("echo hello; exec 9>life; echo alive >&9; exec sleep 600", limits);
    sandbox.assert_dead();
    assert_eq!((result.ended, result.exit), (Ended::IdleTimedOut, Some(Exit::Signal(15))));
    assert!(result.idle_timed_out && !result.timed_out && result.wall_ms >= 400);
}
