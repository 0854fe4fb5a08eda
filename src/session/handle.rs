//! A hold on one process that cannot slip to another one with the same id.
//!
//! The door for signals to single processes: a pidfd is opened first and the identity checked after it, so that what is
//! signalled is what was seen (`pidfd_open(2)`).

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::io::Errno;
use rustix::process::{Pid, Signal};

use super::process_table::{self, Row};
use super::result::LeakedProcess;

/// One process, named by its id and start time.
#[derive(Debug)]
pub(crate) struct Handle {
    pub(crate) pid: Pid,
    pub(crate) start: u64,
    name: String,
    descriptor: Option<OwnedFd>,
}

impl Handle {
    /// Takes hold of the process that `row` shows; `None` if it is gone.
    pub(crate) fn open(row: &Row) -> Option<Self> {
        let pid = Pid::from_raw(row.pid)?;
        let descriptor = match open_pidfd(pid) {
            Err(Errno::SRCH) => return None,
            other => other.ok(),
        };
        let handle = Self { pid, start: row.start, name: row.name.clone(), descriptor };
        handle.is_same().then_some(handle)
    }

    /// A hold on a child that was not waited for, where the system does not show its start.
    pub(crate) fn of_child(pid: Pid) -> Self {
        Self { pid, start: 0, name: String::new(), descriptor: open_pidfd(pid).ok() }
    }

    /// Whether the id still belongs to the process that was seen.
    pub(crate) fn is_same(&self) -> bool {
        process_table::read(self.pid.as_raw_pid()).is_some_and(|row| row.start == self.start && !row.ended)
    }

    /// The process group it is in at this instant.
    pub(crate) fn group(&self) -> Option<i32> {
        process_table::read(self.pid.as_raw_pid()).filter(|row| row.start == self.start).map(|row| row.group)
    }

    /// Sends a signal. One that is gone needs none; `Err` if the kernel refuses, as for another user's process.
    pub(crate) fn signal(&self, signal: Signal) -> Result<(), Errno> {
        let sent = match &self.descriptor {
            Some(descriptor) => signal_pidfd(descriptor.as_fd(), signal),
            // Without pidfds a process that ends between the check and the signal could be mistaken for a new one.
            None if self.start == 0 || self.is_same() => rustix::process::kill_process(self.pid, signal),
            None => Ok(()),
        };
        if sent == Err(Errno::SRCH) { Ok(()) } else { sent }
    }

    /// Readable when the process has ended; `None` where the system has no such descriptor.
    pub(crate) fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        self.descriptor.as_ref().map(AsFd::as_fd)
    }

    /// Its id and name for a report.
    pub(crate) fn named(&self) -> LeakedProcess {
        LeakedProcess { pid: self.pid.as_raw_pid().unsigned_abs(), name: self.name.clone() }
    }
}

/// A descriptor that becomes readable when the process ends.
#[cfg(target_os = "linux")]
pub(crate) fn open_pidfd(pid: Pid) -> Result<OwnedFd, Errno> {
    rustix::process::pidfd_open(pid, rustix::process::PidfdFlags::empty())
}

/// There is none on this system: whoever waits looks at the process now and then.
#[cfg(not(target_os = "linux"))]
pub(crate) fn open_pidfd(_pid: Pid) -> Result<OwnedFd, Errno> {
    Err(Errno::NOSYS)
}

#[cfg(target_os = "linux")]
fn signal_pidfd(descriptor: BorrowedFd<'_>, signal: Signal) -> Result<(), Errno> {
    rustix::process::pidfd_send_signal(descriptor, signal)
}

#[cfg(not(target_os = "linux"))]
fn signal_pidfd(_descriptor: BorrowedFd<'_>, _signal: Signal) -> Result<(), Errno> {
    Err(Errno::NOSYS)
}
