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

# Twelve ways to escape, ten ways to end: prints the table; started by root, also an ordinary user's.
escapes:
    cargo test --all-features --test escapes -- --nocapture --include-ignored --test-threads 1

# Two hundred sessions in a row with every core busy: right verdicts, nothing left, no growth.
soak:
    cargo bench --bench soak

# The disk and memory in use while an agent prints 50 MB/s, and as fast as it can.
disk-bound:
    cargo bench --bench disk_bound

# All measurements.
bench *ARGS:
    cargo bench {{ARGS}}

# Lays down the sample project and runs it.
demo *ARGS:
    cargo run --release -- demo {{ARGS}}
