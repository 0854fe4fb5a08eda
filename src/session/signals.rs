//! The signals that tell the coordinator to stop, as something that can be waited for.

use std::io::{self, Read};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::sync::{Mutex, MutexGuard, PoisonError};

use signal_hook::SigId;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::low_level;

use super::spawn::is_ignored;

/// More signals than this are not counted.
const REMEMBERED: usize = 64;

/// The stop signals received so far. Dropping it leaves the signals without effect, not deadly again.
#[derive(Debug)]
pub struct Signals {
    sources: Vec<Source>,
    received: Mutex<Vec<i32>>,
}

#[derive(Debug)]
struct Source {
    number: i32,
    reader: UnixStream,
    id: SigId,
}

impl Signals {
    /// From now on SIGINT, SIGTERM and SIGHUP are noted instead of ending this process. SIGHUP stays ignored if it was, as
    /// under `nohup`.
    pub fn install() -> io::Result<Self> {
        let mut signals = Self::none();
        for number in [SIGINT, SIGTERM, SIGHUP] {
            if number == SIGHUP && is_ignored(number) {
                continue;
            }
            let (reader, writer) = UnixStream::pair()?;
            reader.set_nonblocking(true)?;
            let id = low_level::pipe::register(number, writer)?;
            signals.sources.push(Source { number, reader, id });
        }
        Ok(signals)
    }

    /// Notes nothing: for callers that handle signals themselves.
    pub fn none() -> Self {
        Self { sources: Vec::new(), received: Mutex::new(Vec::new()) }
    }

    /// The first signal received.
    pub fn first(&self) -> Option<i32> {
        self.collect().first().copied()
    }

    /// How many were received.
    pub fn count(&self) -> usize {
        self.collect().len()
    }

    /// Those received after the first `seen`.
    pub(crate) fn after(&self, seen: usize) -> Vec<i32> {
        self.collect().iter().skip(seen).copied().collect()
    }

    /// Readable when a signal has arrived.
    pub(crate) fn descriptors(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        self.sources.iter().map(|source| source.reader.as_fd())
    }

    fn collect(&self) -> MutexGuard<'_, Vec<i32>> {
        let mut received = self.received.lock().unwrap_or_else(PoisonError::into_inner);
        for source in &self.sources {
            let mut bytes = [0; REMEMBERED];
            // One byte a signal. An error is "nothing there": this process holds the other end itself.
            if let Ok(arrived) = (&source.reader).read(&mut bytes) {
                let room = REMEMBERED - received.len();
                received.extend(std::iter::repeat_n(source.number, arrived.min(room)));
            }
        }
        received
    }
}

impl Drop for Signals {
    fn drop(&mut self) {
        for source in &self.sources {
            low_level::unregister(source.id);
        }
    }
}
