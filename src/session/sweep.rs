//! Ends what a coordinator that was killed left behind.
//!
//! A process is touched only if the environment it was started with holds the session's exact secret, which is known here
//! by its digest alone. Nothing else about a process, its name, arguments, folder or parent, ever makes it a match; this
//! process and its ancestors never are.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use rustix::process::Signal;
use sha2::{Digest, Sha256};

use super::handle::Handle;
use super::process_table::{self, Row, Unreadable};
use super::result::LeakedProcess;
use super::run::FALLBACK;
use super::tree::{STOP_ROUNDS, WAITED_FOR};
use super::wait::wait;
use crate::ids::hex;

/// The variable a session's processes carry their secret in.
const VARIABLE: &[u8] = b"RUNNER_TOKEN=";
/// From the request to end to KILL.
const GRACE: Duration = Duration::from_secs(2);
/// What is still there after this, in uninterruptible sleep, is reported instead of waited for.
const PATIENCE: Duration = Duration::from_secs(10);

/// How leftovers of one session are recognised.
#[derive(Clone, Copy, Debug)]
pub struct Leftovers<'a> {
    /// The SHA-256 of the session's secret, in 64 lower-case hexadecimal digits. Anything else matches nothing.
    pub token_hash: &'a str,
    /// The boot the session ran in; after another boot nothing of it lives.
    pub boot_id: &'a str,
}

/// What a sweep came to.
#[must_use]
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Swept {
    /// What was found and ended.
    pub ended: Vec<LeakedProcess>,
    /// What was found and could not be ended: the kernel refused, or it sleeps uninterruptibly.
    pub left: Vec<LeakedProcess>,
    /// How many processes of this user hide their environment, so that nobody can tell.
    pub unreadable: usize,
}

/// Ends whatever a session left behind: asks, waits a short while, kills, until none is left.
pub fn sweep(leftovers: &Leftovers<'_>) -> Swept {
    if leftovers.boot_id.is_empty() || leftovers.boot_id != process_table::boot_id() {
        return Swept::default();
    }
    let started = Instant::now();
    let mut found = Found::new();
    loop {
        let asking = started.elapsed() < GRACE;
        let round = if asking { ask(leftovers, &mut found) } else { kill(leftovers, &mut found) };
        if round.matching.is_empty() || started.elapsed() >= PATIENCE {
            return Swept::new(found, &round);
        }
        let at_most = if asking { GRACE.saturating_sub(started.elapsed()) } else { FALLBACK };
        wait(round.matching.iter().filter_map(Handle::descriptor).take(WAITED_FOR), Some(at_most));
    }
}

/// What was found so far, and whether the kernel refused to end it.
type Found = BTreeMap<(i32, u64), (LeakedProcess, bool)>;

impl Swept {
    fn new(found: Found, last: &Round) -> Self {
        let alive: BTreeSet<(i32, u64)> = last.matching.iter().map(id).collect();
        let (left, ended): (Vec<_>, Vec<_>) =
            found.into_iter().partition(|(id, (_, refused))| *refused || alive.contains(id));
        let named = |part: Vec<(_, (LeakedProcess, bool))>| part.into_iter().map(|(_, (process, _))| process).collect();
        Self { ended: named(ended), left: named(left), unreadable: last.unreadable }
    }
}

fn id(handle: &Handle) -> (i32, u64) {
    (handle.pid.as_raw_pid(), handle.start)
}

/// Asks what is newly found to end.
fn ask(leftovers: &Leftovers<'_>, found: &mut Found) -> Round {
    let mut round = search(leftovers.token_hash);
    round.matching.retain(|handle| {
        let entry = found.entry(id(handle));
        let is_new = matches!(entry, Entry::Vacant(_));
        let (_, refused) = entry.or_insert_with(|| (handle.named(), false));
        if is_new {
            // What is stopped could not hear the request.
            *refused = handle.signal(Signal::TERM).and_then(|()| handle.signal(Signal::CONT)).is_err();
        }
        !*refused
    });
    round
}

/// Stops everything, what is forked meanwhile too, then kills it.
fn kill(leftovers: &Leftovers<'_>, found: &mut Found) -> Round {
    let mut stopped = BTreeSet::new();
    let mut round = search(leftovers.token_hash);
    for _ in 0..STOP_ROUNDS {
        let fresh: Vec<&Handle> = round.matching.iter().filter(|handle| stopped.insert(id(handle))).collect();
        if fresh.is_empty() {
            break;
        }
        for handle in fresh {
            // What refuses this also refuses KILL, which is noted.
            let _sent = handle.signal(Signal::STOP);
        }
        round = search(leftovers.token_hash);
    }
    round.matching.retain(|handle| {
        let (_, refused) = found.entry(id(handle)).or_insert_with(|| (handle.named(), false));
        *refused = handle.signal(Signal::KILL).is_err();
        !*refused
    });
    round
}

/// One look at the process table.
struct Round {
    matching: Vec<Handle>,
    unreadable: usize,
}

fn search(token_hash: &str) -> Round {
    let rows = process_table::all();
    let exempt = with_ancestors(&rows, rustix::process::getpid().as_raw_pid());
    let user = rustix::process::getuid().as_raw();
    let mut round = Round { matching: Vec::new(), unreadable: 0 };
    for row in rows.iter().filter(|row| !row.ended && !exempt.contains(&row.pid)) {
        match process_table::environment(row.pid) {
            Ok(Some(environment)) if holds_token(&environment, token_hash) => {
                round.matching.extend(take_hold(row, token_hash));
            }
            Ok(_) => {}
            Err(Unreadable) => round.unreadable += usize::from(process_table::user(row.pid) == Some(user)),
        }
    }
    round
}

/// Takes hold of a process and looks again, since only what is held cannot be exchanged for another.
fn take_hold(row: &Row, token_hash: &str) -> Option<Handle> {
    let handle = Handle::open(row).filter(|handle| handle.descriptor().is_some())?;
    let environment = process_table::environment(row.pid).ok().flatten()?;
    (holds_token(&environment, token_hash) && handle.is_same()).then_some(handle)
}

/// This process and everything it descends from.
fn with_ancestors(rows: &[Row], me: i32) -> BTreeSet<i32> {
    let parents: BTreeMap<i32, i32> = rows.iter().map(|row| (row.pid, row.parent)).collect();
    let mut line = BTreeSet::new();
    let mut next = Some(me);
    while let Some(pid) = next.filter(|pid| line.insert(*pid)) {
        next = parents.get(&pid).copied();
    }
    line
}

/// Whether an environment (entries ended by NUL) holds a secret with this digest in the session's variable.
fn holds_token(environment: &[u8], token_hash: &str) -> bool {
    let is_digest = token_hash.len() == 64 && token_hash.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'));
    is_digest
        && environment
            .split(|byte| *byte == 0)
            .filter_map(|entry| entry.strip_prefix(VARIABLE))
            .any(|secret| !secret.is_empty() && hex(&Sha256::digest(secret)) == token_hash)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::{Digest, Leftovers, Row, Sha256, Swept, hex, holds_token, sweep, with_ancestors};

    const TOKEN: &str = "0b9c5a7e-the-secret-of-one-session";

    fn digest(secret: &str) -> String {
        hex(&Sha256::digest(secret))
    }

    #[test]
    fn only_the_exact_secret_in_the_exact_variable_matches() {
        let hash = digest(TOKEN);
        let matches = |environment: String| holds_token(environment.as_bytes(), &hash);
        assert!(matches(format!("HOME=/\0RUNNER_TOKEN={TOKEN}\0PATH=/bin\0")));
        assert!(matches(format!("RUNNER_TOKEN={TOKEN}")));
        for stranger in [
            String::new(),
            "RUNNER_TOKEN=\0".to_owned(),
            "RUNNER_TOKEN=another-secret\0".to_owned(),
            format!("RUNNER_TOKEN={TOKEN}x\0"),
            format!("RUNNER_TOKEN={}\0", &TOKEN[1..]),
            format!("RUNNER_TOKEN={}\0", &TOKEN[..TOKEN.len() - 1]),
            format!("RUNNER_TOKEN= {TOKEN}\0"),
            format!("RUNNER_TOKEN={TOKEN}\n\0"),
            format!("RUNNER_TOKEN={hash}\0"),
            format!("runner_token={TOKEN}\0"),
            format!("MY_RUNNER_TOKEN={TOKEN}\0"),
            format!("RUNNER_TOKENS={TOKEN}\0"),
            format!("OTHER=RUNNER_TOKEN={TOKEN}\0"),
            format!("OTHER=\nRUNNER_TOKEN={TOKEN}\0"),
            format!("RUNNER_TOKEN\0{TOKEN}\0"),
            format!("{TOKEN}\0"),
        ] {
            assert!(!matches(stranger.clone()), "{stranger:?}");
        }
    }

    #[test]
    fn what_is_no_digest_matches_nothing() {
        let environment = format!("RUNNER_TOKEN={TOKEN}\0RUNNER_TOKEN=\0");
        for hash in ["", "0", TOKEN, &digest(TOKEN).to_uppercase(), &digest(TOKEN)[..63], &digest("")] {
            assert!(!holds_token(environment.as_bytes(), hash), "{hash}");
        }
    }

    proptest! {
        #[test]
        fn no_other_environment_matches(environment in prop::collection::vec(any::<u8>(), 0..200), name in "[A-Z_]{0,14}") {
            let hash = digest(TOKEN);
            prop_assert!(!holds_token(&environment, &hash));
            let renamed = format!("{name}={TOKEN}");
            prop_assert_eq!(holds_token(renamed.as_bytes(), &hash), name == "RUNNER_TOKEN");
        }
    }

    #[test]
    fn this_process_and_its_ancestors_are_exempt() {
        let row = |pid, parent| Row { pid, parent, group: 0, session: 0, start: 0, ended: false, name: String::new() };
        let rows = [row(1, 0), row(2, 1), row(3, 2), row(4, 3), row(5, 2), row(9, 9)];
        assert_eq!(with_ancestors(&rows, 3), BTreeSet::from([0, 1, 2, 3]));
        assert_eq!(with_ancestors(&rows, 9), BTreeSet::from([9]), "a table that goes round in a circle");
    }

    #[test]
    fn a_session_of_another_boot_left_nothing() {
        let hash = digest(TOKEN);
        for boot_id in ["", "another boot"] {
            assert_eq!(sweep(&Leftovers { token_hash: &hash, boot_id }), Swept::default());
        }
    }

    /// A process that lives until its standard input is closed, and is waited for.
    #[cfg(target_os = "linux")]
    struct Bystander(std::process::Child);

    #[cfg(target_os = "linux")]
    impl Bystander {
        #[expect(clippy::disallowed_methods, reason = "these must be no session's processes")]
        fn start(variables: &[(&str, &str)], argument: &str) -> Self {
            let mut command = std::process::Command::new("/bin/sh");
            command.env_clear().envs(variables.iter().copied()).args(["-c", "echo; read line; :", "sh", argument]);
            command.stdin(std::process::Stdio::piped()).stdout(std::process::Stdio::piped());
            let mut child = command.spawn().unwrap();
            // Its first output says that it has become the program and has its own environment.
            std::io::Read::read_exact(child.stdout.as_mut().unwrap(), &mut [0]).unwrap();
            Self(child)
        }
    }

    #[cfg(target_os = "linux")]
    impl Drop for Bystander {
        fn drop(&mut self) {
            drop(self.0.stdin.take());
            self.0.wait().unwrap();
        }
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn of_real_processes_only_the_holder_of_the_exact_secret_is_found() {
        let secret = format!("{TOKEN}-{}", std::process::id());
        let hash = digest(&secret);
        let longer = format!("{secret}x");
        let strangers = [
            Bystander::start(&[], &format!("RUNNER_TOKEN={secret}")),
            Bystander::start(&[("RUNNER_TOKEN", "another-secret")], &secret),
            Bystander::start(&[("RUNNER_TOKEN", &longer)], ""),
            Bystander::start(&[("RUNNER_TOKEN", &secret[1..])], ""),
            Bystander::start(&[("RUNNER_TOKEN", &hash)], ""),
            Bystander::start(&[("TOKEN", &secret), ("RUNNER_TOKEN", "")], ""),
        ];
        assert!(super::search(&hash).matching.is_empty());
        let holder = Bystander::start(&[("A", "b"), ("RUNNER_TOKEN", &secret), ("C", "d")], "");
        let found: Vec<u32> = super::search(&hash).matching.iter().map(|handle| handle.named().pid).collect();
        assert_eq!(found, [holder.0.id()]);
        drop((holder, strangers));
        assert!(super::search(&hash).matching.is_empty());
    }
}
