//! The `runner` program.

use std::process::ExitCode;

fn main() -> ExitCode {
    ExitCode::from(runner::cli::main())
}
