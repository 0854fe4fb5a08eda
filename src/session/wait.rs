//! Waits for descriptors, never by sleeping.

use std::os::fd::BorrowedFd;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};

/// Waits until one of the descriptors is readable or the time is over; an interruption ends the wait early.
///
/// An error of `poll(2)` other than an interruption means that the machine is out of memory; the caller looks at everything
/// and comes back.
pub(crate) fn wait<'a>(descriptors: impl Iterator<Item = BorrowedFd<'a>>, at_most: Option<Duration>) {
    let mut entries: Vec<PollFd<'a>> =
        descriptors.map(|descriptor| PollFd::from_borrowed_fd(descriptor, PollFlags::IN)).collect();
    let timeout = at_most.map(|time| Timespec {
        tv_sec: i64::try_from(time.as_secs()).unwrap_or(i64::MAX),
        tv_nsec: i64::from(time.subsec_nanos()),
    });
    // What became readable is found by looking at each source, so neither the count nor an error is needed.
    let _woken = poll(&mut entries, timeout.as_ref());
}

/// Whether something can be read now, an end included.
pub(crate) fn is_readable(descriptor: BorrowedFd<'_>) -> bool {
    let mut entries = [PollFd::from_borrowed_fd(descriptor, PollFlags::IN)];
    poll(&mut entries, Some(&Timespec { tv_sec: 0, tv_nsec: 0 })).is_ok_and(|ready| ready > 0)
}
