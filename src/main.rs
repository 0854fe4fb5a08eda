//! The `runner` program.

fn main() {}
