//! Ends what a coordinator that was killed left behind.
//!
//! A process is touched only if the environment it was started with holds the session's exact secret, or the exact mark of
//! commands of the coordinator's own, which are known here by their digests alone. Nothing else about a process, its name, arguments, folder or parent, ever makes it a match; this
//! process and its ancestors never are.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};
use std::ffi::{OsStr, OsString};
use std::time::{Duration, Instant};

use rustix::process::Signal;
use sha2::{Digest, Sha256};

use super::direct::FALLBACK;
use super::guardian::LONGEST_GRACE;
use super::handle::Handle;
use super::process_table::{self, Row, Unreadable};
use super::result::LeakedProcess;
use super::tree::WAITED_FOR;
use super::wait::{is_readable, wait};
use crate::ids::hex;

/// The variable a session's processes carry their secret in.
const TOKEN_VARIABLE: &str = "RUNNER_TOKEN";
/// The variable commands of the coordinator's own (verification, set-up) carry their mark in. It opens nothing.
pub const MARK_VARIABLE: &str = "RUNNER_MARK";
/// The variable a session's guardian carries the secret's digest in.
pub(crate) const GUARDIAN_VARIABLE: &str = "RUNNER_GUARDIAN_OF";
/// From the request to end to KILL.
const GRACE: Duration = Duration::from_secs(2);
/// What is still there after this, in uninterruptible sleep, is reported instead of waited for.
const PATIENCE: Duration = Duration::from_secs(10);

/// How many looks in a row have to find nothing: one can miss a process that forks and exits all the time.
const CLEAN_LOOKS: u32 = 3;

/// How often whoever was created during a look is followed; a machine on which that never ends has its own troubles.
const FOLLOWED: usize = 100;

/// How leftovers of one session are recognised.
#[derive(Clone, Copy, Debug)]
pub struct Leftovers<'a> {
    /// The SHA-256 of the session's secret, or of the commands' mark, in 64 lower-case hexadecimal digits. Anything else matches nothing.
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
    await_guardians(leftovers.token_hash);
    let started = Instant::now();
    let mut found = Found::new();
    let mut held = freeze_and_ask(leftovers, &mut found);
    let mut clean = 0;
    loop {
        let asking = started.elapsed() < GRACE;
        let mut round = if asking { ask(leftovers, &mut found) } else { kill(leftovers, &mut found) };
        round.matching.retain(|handle| !held.iter().any(|known| id(known) == id(handle)));
        held.append(&mut round.matching);
        // One that is ending has no environment any more, but may still have its files open.
        held.retain(|handle| handle.descriptor().is_some_and(|descriptor| !is_readable(descriptor)));
        clean = if held.is_empty() && round.is_complete { clean + 1 } else { 0 };
        if clean >= CLEAN_LOOKS || started.elapsed() >= PATIENCE {
            return Swept::new(found, &held, &round);
        }
        if !held.is_empty() {
            let at_most = if asking { GRACE.saturating_sub(started.elapsed()) } else { FALLBACK };
            wait(held.iter().filter_map(Handle::descriptor).take(WAITED_FOR), Some(at_most));
        }
    }
}

/// What a program with this environment is found by: its session's secret, or the mark of the commands it belongs to.
pub(crate) fn found_by(env: &BTreeMap<OsString, OsString>) -> Option<&OsStr> {
    [TOKEN_VARIABLE, MARK_VARIABLE].into_iter().find_map(|name| env.get(OsStr::new(name))).map(OsString::as_os_str)
}

/// Lets a guardian that outlived its coordinator finish: it alone can tell what cleared its environment. One that does not is
/// stuck, and ended.
fn await_guardians(token_hash: &str) {
    let started = Instant::now();
    loop {
        let rows = process_table::all().filter(|row| !row.ended && is_guardian(row.pid, token_hash));
        let guardians: Vec<Handle> = rows
            .filter_map(|row| Handle::open(&row))
            .filter(|handle| handle.descriptor().is_some() && is_guardian(handle.pid.as_raw_pid(), token_hash))
            .collect();
        let left = (LONGEST_GRACE + PATIENCE).saturating_sub(started.elapsed());
        if guardians.is_empty() {
            return;
        }
        for guardian in &guardians {
            let signal = if left.is_zero() { Signal::KILL } else { Signal::CONT };
            // One that ended meanwhile needs none.
            let _sent = guardian.signal(signal);
        }
        wait(guardians.iter().filter_map(Handle::descriptor).take(1), Some(left.max(FALLBACK)));
    }
}

fn is_guardian(pid: i32, token_hash: &str) -> bool {
    let wanted = format!("{GUARDIAN_VARIABLE}={token_hash}");
    process_table::environment(pid).is_ok_and(|environment| {
        environment.is_some_and(|bytes| bytes.split(|byte| *byte == 0).any(|entry| entry == wanted.as_bytes()))
    })
}

/// What was found so far, and whether the kernel refused to end it.
type Found = BTreeMap<(i32, u64), (LeakedProcess, bool)>;

impl Swept {
    fn new(found: Found, held: &[Handle], last: &Round) -> Self {
        let alive: BTreeSet<(i32, u64)> = held.iter().map(id).collect();
        let (left, ended): (Vec<_>, Vec<_>) =
            found.into_iter().partition(|(id, (_, refused))| *refused || alive.contains(id));
        let named = |part: Vec<(_, (LeakedProcess, bool))>| part.into_iter().map(|(_, (process, _))| process).collect();
        Self { ended: named(ended), left: named(left), unreadable: last.unreadable.len() }
    }
}

fn id(handle: &Handle) -> (i32, u64) {
    (handle.pid.as_raw_pid(), handle.start)
}

/// Asks what is newly found to end.
fn ask(leftovers: &Leftovers<'_>, found: &mut Found) -> Round {
    search(leftovers.token_hash, |handle| {
        let entry = found.entry(id(handle));
        let is_new = matches!(entry, Entry::Vacant(_));
        let (_, refused) = entry.or_insert_with(|| (handle.named(), false));
        if is_new {
            *refused = request(handle);
        }
        !*refused
    })
}

/// Asks one process to end; whether the kernel refused that.
fn request(handle: &Handle) -> bool {
    let refused = handle.signal(Signal::TERM).is_err();
    // What is stopped could not hear the request; what has ended by it needs no more.
    let _gone_already = handle.signal(Signal::CONT);
    refused
}

/// Stops everything, until nothing new is found, and only then asks all of it to end: a shell whose child ended first would
/// go on with its next line.
fn freeze_and_ask(leftovers: &Leftovers<'_>, found: &mut Found) -> Vec<Handle> {
    let started = Instant::now();
    loop {
        let known = found.len();
        let round = search(leftovers.token_hash, |handle| {
            let (_, refused) =
                found.entry(id(handle)).or_insert_with(|| (handle.named(), handle.signal(Signal::STOP).is_err()));
            // There is no use in waiting for what the kernel keeps from us.
            !*refused
        });
        if (found.len() == known && round.is_complete) || started.elapsed() >= GRACE {
            for handle in &round.matching {
                let _gone_already = handle.signal(Signal::TERM);
            }
            for handle in &round.matching {
                let _gone_already = handle.signal(Signal::CONT);
            }
            return round.matching;
        }
    }
}

/// Kills each as soon as it is found, before it can fork again.
fn kill(leftovers: &Leftovers<'_>, found: &mut Found) -> Round {
    search(leftovers.token_hash, |handle| {
        let refused = handle.signal(Signal::KILL).is_err();
        found.insert(id(handle), (handle.named(), refused));
        !refused
    })
}

/// One look at the process table.
#[derive(Default)]
struct Round {
    matching: Vec<Handle>,
    unreadable: BTreeSet<i32>,
    /// Nobody was created behind its back, so what is not in it is not there.
    is_complete: bool,
}

/// Hands every match to `act`, at once; keeps those it answers for with `true`.
///
/// A list of processes is out of date as soon as it is read: one that forks and exits all the time is never in it. So whoever was
/// created meanwhile is looked at too, until nobody was.
fn search(token_hash: &str, mut act: impl FnMut(&Handle) -> bool) -> Round {
    let exempt = with_ancestors(rustix::process::getpid().as_raw_pid(), |pid| Some(process_table::read(pid)?.parent));
    let user = rustix::process::getuid().as_raw();
    let mut round = Round::default();
    let mut look_at = |row: Row, round: &mut Round| {
        if row.ended || exempt.contains(&row.pid) {
            return;
        }
        match process_table::environment(row.pid) {
            Ok(Some(environment)) if holds_token(&environment, token_hash) => {
                round.matching.extend(take_hold(&row, token_hash).filter(|handle| act(handle)));
            }
            Err(Unreadable) if process_table::user(row.pid) == Some(user) => {
                round.unreadable.insert(row.pid);
            }
            Ok(_) | Err(Unreadable) => {}
        }
    };
    let mut last = process_table::last_created();
    process_table::all().for_each(|row| look_at(row, &mut round));
    for _ in 0..FOLLOWED {
        let now = process_table::last_created();
        if now == last {
            round.is_complete = true;
            break;
        }
        created_between(last, now).for_each(|row| look_at(row, &mut round));
        last = now;
    }
    round
}

/// Who was created after `last` up to `now`. Numbers begin again at the bottom when they are used up.
fn created_between(last: Option<i32>, now: Option<i32>) -> Box<dyn Iterator<Item = Row>> {
    match (last, now) {
        (Some(last), Some(now)) if last < now => Box::new((last + 1..=now).rev().filter_map(process_table::read)),
        _ => Box::new(process_table::all()),
    }
}

/// Takes hold of a process and looks again, since only what is held cannot be exchanged for another.
fn take_hold(row: &Row, token_hash: &str) -> Option<Handle> {
    let handle = Handle::open(row).filter(|handle| handle.descriptor().is_some())?;
    let environment = process_table::environment(row.pid).ok().flatten()?;
    (holds_token(&environment, token_hash) && handle.is_same()).then_some(handle)
}

/// A process and everything it descends from.
fn with_ancestors(pid: i32, parent_of: impl Fn(i32) -> Option<i32>) -> BTreeSet<i32> {
    let mut line = BTreeSet::new();
    let mut next = Some(pid);
    while let Some(pid) = next.filter(|pid| line.insert(*pid)) {
        next = parent_of(pid);
    }
    line
}

/// Whether an environment (entries ended by NUL) holds a secret or a mark with this digest in its variable.
fn holds_token(environment: &[u8], token_hash: &str) -> bool {
    let is_digest = token_hash.len() == 64 && token_hash.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'));
    is_digest
        && environment
            .split(|byte| *byte == 0)
            .filter_map(|entry| {
                let at = entry.iter().position(|byte| *byte == b'=')?;
                let is_ours = [TOKEN_VARIABLE, MARK_VARIABLE].iter().any(|name| name.as_bytes() == &entry[..at]);
                is_ours.then_some(&entry[at + 1..])
            })
            .any(|secret| !secret.is_empty() && hex(&Sha256::digest(secret)) == token_hash)
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, BTreeSet};

    use proptest::prelude::*;

    use super::{Digest, Leftovers, Sha256, Swept, hex, holds_token, sweep, with_ancestors};

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
        assert!(matches(format!("RUNNER_TOKEN=another\0RUNNER_MARK={TOKEN}\0")), "a command has its mark");
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
            format!("RUNNER_MARKS={TOKEN}\0"),
            format!("RUNNER_MARK={TOKEN}x\0"),
            format!("RUNNER_MARK={hash}\0"),
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
        fn no_other_environment_matches(environment in prop::collection::vec(any::<u8>(), 0..200), name in "[A-Z_]{0,20}|RUNNER_(TOKEN|MARK)?") {
            let hash = digest(TOKEN);
            prop_assert!(!holds_token(&environment, &hash));
            let renamed = format!("{name}={TOKEN}");
            let is_ours = ["RUNNER_TOKEN", "RUNNER_MARK"].contains(&name.as_str());
            prop_assert_eq!(holds_token(renamed.as_bytes(), &hash), is_ours);
        }
    }

    #[test]
    fn this_process_and_its_ancestors_are_exempt() {
        let parents = BTreeMap::from([(1, 0), (2, 1), (3, 2), (4, 3), (5, 2), (9, 9)]);
        assert_eq!(with_ancestors(3, |pid| parents.get(&pid).copied()), BTreeSet::from([0, 1, 2, 3]));
        assert_eq!(
            with_ancestors(9, |pid| parents.get(&pid).copied()),
            BTreeSet::from([9]),
            "no table goes in a circle"
        );
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
            Bystander::start(&[("RUNNER_MARK", &longer)], ""),
        ];
        assert!(super::search(&hash, |_| true).matching.is_empty());
        let holder = Bystander::start(&[("A", "b"), ("RUNNER_TOKEN", &secret), ("C", "d")], "");
        let found: Vec<u32> = super::search(&hash, |_| true).matching.iter().map(|handle| handle.named().pid).collect();
        assert_eq!(found, [holder.0.id()]);
        drop((holder, strangers));
        assert!(super::search(&hash, |_| true).matching.is_empty());
    }
}
