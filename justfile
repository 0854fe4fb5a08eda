# What people working on `runner` do often. `just` alone lists it.

default:
    @just --list

# Formats every file.
fmt:
    cargo fmt

# What a change must pass before it is looked at.
lint:
    cargo fmt --check
    cargo clippy --all-targets --all-features -- -D warnings
    RUSTDOCFLAGS="-D warnings" cargo doc --no-deps --all-features

# All tests; more words are handed on, for example `just test sample::`.
test *ARGS:
    cargo test --all-features {{ARGS}}

# Twelve ways to escape, nine ways to end: prints the table.
escapes:
    cargo test --all-features --test escapes -- --nocapture

# All measurements.
bench *ARGS:
    cargo bench {{ARGS}}

# Lays down the sample project and runs it.
demo *ARGS:
    cargo run --release -- demo {{ARGS}}
