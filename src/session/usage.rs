//! What a process tree used, as the kernel adds it up for whoever waited for its processes.

use serde::{Deserialize, Serialize};

/// The memory and processor time of a session's tree.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Usage {
    /// The most memory that one process of the tree had at a time, in bytes.
    pub peak_memory_bytes: u64,
    /// Processor time in programs, over all processes, in milliseconds.
    pub user_ms: u64,
    /// Processor time in the kernel for them, in milliseconds.
    pub system_ms: u64,
}

/// The usage of all children of this process that were waited for, and of theirs (`getrusage(2)`).
#[expect(unsafe_code, reason = "getrusage(2) has no safe wrapper here")]
pub(crate) fn of_children() -> Option<Usage> {
    // SAFETY: the structure is plain numbers, and filled by the call if that succeeds.
    let usage = unsafe {
        let mut usage: libc::rusage = std::mem::zeroed();
        (libc::getrusage(libc::RUSAGE_CHILDREN, &raw mut usage) == 0).then_some(usage)
    }?;
    let unit = if cfg!(target_os = "macos") { 1 } else { 1024 };
    Some(Usage {
        peak_memory_bytes: u64::try_from(usage.ru_maxrss).unwrap_or_default().saturating_mul(unit),
        user_ms: milliseconds(usage.ru_utime),
        system_ms: milliseconds(usage.ru_stime),
    })
}

fn milliseconds(time: libc::timeval) -> u64 {
    let seconds = u64::try_from(time.tv_sec).unwrap_or_default();
    seconds.saturating_mul(1000).saturating_add(u64::try_from(time.tv_usec).unwrap_or_default() / 1000)
}
