//! Named places at which a test can stop the process dead, as a crash would (feature `fault-injection`).
//!
//! Owns the switch. Without the feature `point` is empty and no release can be stopped by it.

#[cfg(feature = "fault-injection")]
static PLAN: std::sync::OnceLock<(String, std::sync::atomic::AtomicI64)> = std::sync::OnceLock::new();

/// Arms the place `name`: the process kills itself the `nth` time (from 1) it gets there.
#[cfg(feature = "fault-injection")]
pub fn arm(name: &str, nth: i64) {
    // A second call changes nothing: a test places one fault in one process.
    let _already_armed = PLAN.set((name.to_owned(), std::sync::atomic::AtomicI64::new(nth)));
}

/// A durable step is about to follow or has just been taken; stops here if a test armed this place.
#[cfg(feature = "fault-injection")]
pub(crate) fn point(name: &str) {
    if let Some((armed, left)) = PLAN.get()
        && (armed == name || (armed == "*" && !name.is_empty()))
        && left.fetch_sub(1, std::sync::atomic::Ordering::SeqCst) == 1
    {
        #[expect(clippy::print_stderr, reason = "the test says with it where it killed the process")]
        {
            eprintln!("killed at {name}");
        }
        // SIGKILL is what the tests promise to survive: no destructor, no flush, no handler runs.
        let _killed = rustix::process::kill_process(rustix::process::getpid(), rustix::process::Signal::KILL);
        loop {
            std::thread::park();
        }
    }
}

/// A durable step is about to follow or has just been taken.
#[cfg(not(feature = "fault-injection"))]
pub(crate) fn point(_name: &str) {}
