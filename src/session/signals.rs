//! The signals that tell the coordinator to stop, as something that can be waited for.

use std::io::{self, Read};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use rustix::io::write;
use rustix::time::{ClockId, clock_gettime};
use signal_hook::SigId;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::low_level;

use super::spawn::is_ignored;

/// More signals than this are not counted.
const REMEMBERED: usize = 64;
/// The same signal sooner than this after it came is the same request delivered twice, as `timeout(1)` does by signalling both
/// its child and its group.
const REPEAT: Duration = Duration::from_millis(50);
/// The bytes of one note: the signal's number, then when it came in nanoseconds.
const NOTE: usize = 16;

/// The stop signals received so far. Clones share them; dropping the last leaves the signals without effect, not deadly again.
#[derive(Debug, Clone)]
pub struct Signals {
    source: Option<Arc<Source>>,
}

#[derive(Debug)]
struct Source {
    reader: UnixStream,
    ids: Vec<SigId>,
    received: Mutex<Vec<Received>>,
}

/// A signal and when it came, on the clock that only goes forward.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Received {
    number: i32,
    at: Duration,
}

impl Signals {
    /// From now on SIGINT, SIGTERM and SIGHUP are noted instead of ending this process. SIGHUP stays ignored if it was, as
    /// under `nohup`.
    pub fn install() -> io::Result<Self> {
        let (reader, writer) = UnixStream::pair()?;
        reader.set_nonblocking(true)?;
        writer.set_nonblocking(true)?;
        let writer = Arc::new(writer);
        let mut source = Source { reader, ids: Vec::new(), received: Mutex::new(Vec::new()) };
        for number in [SIGINT, SIGTERM, SIGHUP] {
            if number == SIGHUP && is_ignored(number) {
                continue;
            }
            let writer = Arc::clone(&writer);
            source.ids.push(note_into(number, move |note| {
                // A full socket holds more signals than are counted.
                let _sent = write(&*writer, note);
            })?);
        }
        Ok(Self { source: Some(Arc::new(source)) })
    }

    /// Notes nothing: for callers that handle signals themselves.
    pub fn none() -> Self {
        Self { source: None }
    }

    /// The first signal received.
    pub fn first(&self) -> Option<i32> {
        self.after(0).first().copied()
    }

    /// How many were received.
    pub fn count(&self) -> usize {
        self.source.as_ref().map_or(0, |source| source.collect().len())
    }

    /// Those received after the first `seen`, in the order in which they came.
    pub(crate) fn after(&self, seen: usize) -> Vec<i32> {
        let Some(source) = &self.source else { return Vec::new() };
        source.collect().iter().skip(seen).map(|received| received.number).collect()
    }

    /// Readable when a signal has arrived.
    pub(crate) fn descriptors(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        self.source.iter().map(|source| source.reader.as_fd())
    }
}

/// Has `send` called with a note of the signal and the time whenever it arrives.
#[expect(unsafe_code, reason = "a signal's number and time can only be noted in its handler")]
fn note_into(number: i32, send: impl Fn(&[u8; NOTE]) + Send + Sync + 'static) -> io::Result<SigId> {
    let note = move || {
        let now = clock_gettime(ClockId::Monotonic);
        let nanoseconds = now.tv_sec.saturating_mul(1_000_000_000).saturating_add(now.tv_nsec);
        let mut note = [0; NOTE];
        note[..8].copy_from_slice(&i64::from(number).to_ne_bytes());
        note[8..].copy_from_slice(&nanoseconds.to_ne_bytes());
        send(&note);
    };
    // SAFETY: `clock_gettime(2)` and `write(2)` are async-signal-safe (`signal-safety(7)`), and nothing else is done.
    unsafe { low_level::register(number, note) }
}

impl Source {
    fn collect(&self) -> MutexGuard<'_, Vec<Received>> {
        let mut received = self.received.lock().unwrap_or_else(PoisonError::into_inner);
        let mut note = [0; NOTE];
        // Notes are sent and read whole. An error is "nothing there": this process holds the other end itself.
        while (&self.reader).read_exact(&mut note).is_ok() {
            let (number, at) = note.split_at(NOTE / 2);
            let value = |half: &[u8]| half.try_into().map_or(0, i64::from_ne_bytes);
            let next = Received {
                number: i32::try_from(value(number)).unwrap_or_default(),
                at: Duration::from_nanos(value(at).unsigned_abs()),
            };
            if received.len() < REMEMBERED && !next.repeats(&received) {
                received.push(next);
            }
        }
        received
    }
}

impl Received {
    /// Whether it is one of `earlier` delivered once more.
    fn repeats(self, earlier: &[Self]) -> bool {
        let is_same = |other: &&Self| other.number == self.number && self.at.saturating_sub(other.at) < REPEAT;
        earlier.iter().rfind(is_same).is_some()
    }
}

impl Drop for Source {
    fn drop(&mut self) {
        for id in &self.ids {
            low_level::unregister(*id);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_request_delivered_twice_is_one_signal() {
        let came = |number, milliseconds| Received { number, at: Duration::from_millis(milliseconds) };
        let first = [came(SIGTERM, 1000)];
        assert!(came(SIGTERM, 1000).repeats(&first) && came(SIGTERM, 1049).repeats(&first));
        assert!(!came(SIGTERM, 1050).repeats(&first) && !came(SIGINT, 1000).repeats(&first));
    }
}
