//! What `--help` says, as snapshots: a change of the command line is a change that somebody has to have wanted.
#![expect(clippy::disallowed_methods, reason = "the doors keep the product; tests start the binary")]

use std::process::Command;

fn help(command: &str) -> String {
    let args = command.split_whitespace().chain(["--help"]);
    let output = Command::new(env!("CARGO_BIN_EXE_runner")).args(args).output().expect("the binary starts");
    assert!(output.status.success() && output.stderr.is_empty());
    String::from_utf8(output.stdout).expect("help is UTF-8")
}

#[test]
fn the_help_of_the_program() {
    insta::assert_snapshot!(help(""));
}

#[test]
fn the_help_of_each_subcommand() {
    for name in ["agents", "demo", "init", "recover", "task", "usage"] {
        insta::assert_snapshot!(format!("runner_{name}"), help(name));
    }
}

#[test]
fn the_help_of_each_verb() {
    let verbs =
        ["show", "submit", "approve", "reject", "escalate", "claim", "release", "answer", "add", "list", "next"];
    for verb in verbs {
        insta::assert_snapshot!(format!("runner_task_{verb}"), help(&format!("task {verb}")));
    }
}

#[test]
fn an_option_that_would_mean_nothing_is_refused() {
    for args in [
        &["--dry-run", "demo"][..],
        &["--stage", "S00", "task", "list"],
        &["--root", ".", "demo"],
        &["--events", "-", "usage"],
        &["--events", "-", "--dry-run"],
    ] {
        let output = Command::new(env!("CARGO_BIN_EXE_runner")).args(args).output().expect("the binary starts");
        assert_eq!(output.status.code(), Some(2), "{args:?}");
        assert!(output.stdout.is_empty() && !output.stderr.is_empty(), "{args:?}");
    }
}
