//! Helper programs run under supervision and within bounds.
#![cfg(target_os = "linux")]

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::Path;
use std::time::Duration;

use runner::session::{Exit, STDERR_KEPT, STDOUT_KEPT, Signals, Tool, ToolError, ToolOutput, run_tool};

const LONG: Duration = Duration::from_mins(2);

fn tool(argv: &[&str], stdin: &[u8], wall: Duration) -> Result<ToolOutput, ToolError> {
    let argv: Vec<OsString> = argv.iter().map(OsString::from).collect();
    let env = BTreeMap::from([("PATH".into(), "/usr/bin:/bin".into())]);
    run_tool(&Tool { argv: &argv, cwd: Path::new("/"), env: &env, stdin, wall }, &Signals::none())
}

#[test]
fn a_tool_gets_its_input_and_its_output_is_kept() {
    let input = b"line\n".repeat(100_000);
    let output = tool(&["sh", "-c", "cat; echo problem >&2; pwd >&2; exit 4"], &input, LONG).unwrap();
    assert!(output.stdout == input && !output.stdout_truncated);
    assert_eq!((output.exit, output.stderr.as_slice()), (Exit::Code(4), b"problem\n/\n".as_slice()));
    assert!(!output.timed_out && output.cancelled.is_none());
}

#[test]
fn the_output_of_a_tool_is_bounded() {
    let script = "head -c 9000000 /dev/zero; head -c 100000 /dev/zero >&2; echo end >&2";
    let output = tool(&["sh", "-c", script], b"", LONG).unwrap();
    assert_eq!((output.stdout.len() as u64, output.stdout_truncated), (STDOUT_KEPT, true));
    assert!(output.stderr.len() as u64 == STDERR_KEPT && output.stderr.ends_with(b"end\n"));
}

#[test]
fn a_tool_that_takes_too_long_is_ended() {
    let output = tool(&["sleep", "600"], b"", Duration::from_millis(300)).unwrap();
    assert_eq!((output.exit, output.timed_out), (Exit::Signal(15), true));
}

#[test]
fn what_a_tool_leaves_behind_does_not_keep_its_caller_waiting() {
    let output = tool(&["sh", "-c", "echo done; setsid sleep 600 & sleep 600 &"], b"", LONG).unwrap();
    assert_eq!((output.exit, output.stdout.as_slice()), (Exit::Code(0), b"done\n".as_slice()));
}

#[test]
fn a_tool_that_is_missing_is_named() {
    let error = tool(&["no-such-tool"], b"", LONG).unwrap_err();
    assert_eq!(error.to_string(), "the program `no-such-tool` is not on PATH; install it or give its path");
}
