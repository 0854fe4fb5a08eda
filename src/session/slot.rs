//! The turn to supervise a tree: one at a time, since orphans of two could not be told apart.
//!
//! It is a byte in a socket, so that it can be waited for together with signals.

use std::io::{Read, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::sync::OnceLock;

static TURN: OnceLock<Option<(UnixStream, UnixStream)>> = OnceLock::new();

/// The ends to put the byte into and to take it from; `None` if this process may open no more files.
fn turn() -> Option<&'static (UnixStream, UnixStream)> {
    let make = || {
        let (mut give, take) = UnixStream::pair().ok()?;
        take.set_nonblocking(true).ok()?;
        give.write_all(&[1]).ok()?;
        Some((give, take))
    };
    TURN.get_or_init(make).as_ref()
}

/// The turn, until it is dropped.
#[derive(Debug)]
pub(crate) struct Slot(());

impl Slot {
    /// Takes the turn if nobody has it. A process that may open no file at all has no other session either.
    pub(crate) fn try_take() -> Option<Self> {
        match turn() {
            Some((_, take)) => (&mut &*take).read_exact(&mut [0]).is_ok().then(|| Self(())),
            None => Some(Self(())),
        }
    }

    /// Readable when the turn may be free.
    pub(crate) fn descriptor() -> Option<BorrowedFd<'static>> {
        turn().map(|(_, take)| take.as_fd())
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        if let Some((give, _)) = turn() {
            // The one byte always has room.
            let _given = (&mut &*give).write_all(&[1]);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Slot;
    use crate::session::wait::wait;

    #[test]
    fn nobody_has_the_turn_twice() {
        let wait_for_turn = || loop {
            if let Some(slot) = Slot::try_take() {
                return slot;
            }
            wait(Slot::descriptor().into_iter(), None);
        };
        let slot = wait_for_turn();
        assert!(Slot::try_take().is_none());
        drop(slot);
        drop(wait_for_turn());
    }
}
