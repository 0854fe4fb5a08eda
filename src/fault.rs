//! Named places at which a test can stop the process dead, as a crash would, or send it a signal (feature `fault-injection`).
//!
//! Owns the switch. Without the feature `point` is empty and no release can be stopped by it.

#[cfg(feature = "fault-injection")]
static PLAN: std::sync::OnceLock<Plan> = std::sync::OnceLock::new();

#[cfg(feature = "fault-injection")]
struct Plan {
    name: String,
    left: std::sync::atomic::AtomicI64,
    /// What is sent instead of SIGKILL.
    signal: Option<i32>,
}

/// Arms the place `name`: the `nth` time (from 1) that it gets there the process kills itself, or gets `signal` and goes on.
#[cfg(feature = "fault-injection")]
pub fn arm(name: &str, nth: i64, signal: Option<i32>) {
    let left = std::sync::atomic::AtomicI64::new(nth);
    // A second call changes nothing: a test places one fault in one process.
    let _already_armed = PLAN.set(Plan { name: name.to_owned(), left, signal });
}

/// A durable step is about to follow or has just been taken; stops here if a test armed this place.
#[cfg(feature = "fault-injection")]
pub(crate) fn point(name: &str) {
    if let Some(Plan { name: armed, left, signal }) = PLAN.get()
        && (armed == name || (armed == "*" && !name.is_empty()))
        && left.fetch_sub(1, std::sync::atomic::Ordering::SeqCst) == 1
    {
        if let Some(signal) = signal {
            // To this very thread, so that it has arrived when the call returns.
            let _raised = signal_hook::low_level::raise(*signal);
            return;
        }
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
