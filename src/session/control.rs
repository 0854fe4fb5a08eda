//! What a coordinator and a guardian tell each other, one JSON object a line over the control socket.

use std::ffi::OsString;
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::time::Duration;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use super::result::{Exit, LeakedProcess};
use super::usage::Usage;
use super::wait::is_readable;

/// A peer that reads nothing for this long is broken.
const PATIENCE: Duration = Duration::from_secs(10);

/// What a coordinator orders.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Order {
    /// Start the agent; its standard streams are the guardian's own.
    Start(Assignment),
    /// Ask the leader to end by INT, and what is outside its group by TERM.
    Interrupt,
    /// Ask everything of the tree to end.
    Terminate,
    /// End everything of the tree.
    Kill,
}

/// The agent to be started.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Assignment {
    pub(crate) argv: Vec<OsString>,
    pub(crate) cwd: OsString,
    pub(crate) env: Vec<(OsString, OsString)>,
    /// Whether the agent is asked to end by INT, should the coordinator be gone.
    pub(crate) interrupt: bool,
    /// From then to KILL.
    pub(crate) kill_grace_ms: u64,
}

/// What a guardian tells.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Report {
    /// The agent's process came to be.
    Started { pid: i32, start: u64 },
    /// It did not.
    CouldNotStart { reason: String },
    /// The agent ended, and something of its tree lives.
    LeaderEnded { exit: Option<Exit>, left: Vec<LeakedProcess>, count: usize },
    /// Nothing of the tree lives. The last word of a guardian.
    Gone { exit: Option<Exit>, refused: Vec<LeakedProcess>, usage: Option<Usage> },
}

/// One end of the control socket.
#[derive(Debug)]
pub(crate) struct Control {
    stream: UnixStream,
    pending: Vec<u8>,
    closed: bool,
}

impl Control {
    pub(crate) fn new(stream: UnixStream) -> io::Result<Self> {
        stream.set_write_timeout(Some(PATIENCE))?;
        Ok(Self { stream, pending: Vec::new(), closed: false })
    }

    /// Tells the peer something; one that is gone or broken does not hear it, which its end shows.
    pub(crate) fn send(&mut self, message: &impl Serialize) {
        let line = serde_json::to_vec(message).map(|mut line| {
            line.push(b'\n');
            line
        });
        if line.map_err(io::Error::from).and_then(|line| self.stream.write_all(&line)).is_err() {
            self.closed = true;
        }
    }

    /// What the peer has said since the last call; never waits. What is no message ends the talk.
    pub(crate) fn receive<T: DeserializeOwned>(&mut self) -> Vec<T> {
        let mut block = [0; 16 << 10];
        while !self.closed && is_readable(self.stream.as_fd()) {
            match self.stream.read(&mut block) {
                Ok(0) => self.closed = true,
                Ok(got) => self.pending.extend_from_slice(&block[..got]),
                Err(error) => self.closed = error.kind() != io::ErrorKind::Interrupted,
            }
        }
        let Some(end) = self.pending.iter().rposition(|byte| *byte == b'\n') else { return Vec::new() };
        let lines: Vec<u8> = self.pending.drain(..=end).collect();
        let mut messages = Vec::new();
        for line in lines.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()) {
            match serde_json::from_slice(line) {
                Ok(message) => messages.push(message),
                Err(_) => self.closed = true,
            }
        }
        messages
    }

    /// The peer is gone, or as good as gone.
    pub(crate) fn is_closed(&self) -> bool {
        self.closed
    }

    /// Readable when the peer said something or is gone; `None` once that is known.
    pub(crate) fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        (!self.closed).then(|| self.stream.as_fd())
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::os::unix::net::UnixStream;

    use super::{Control, Order, Report};

    #[test]
    fn messages_arrive_whole_and_in_order_and_the_end_is_seen() {
        let (one, mut other) = UnixStream::pair().unwrap();
        let mut control = Control::new(one).unwrap();
        assert!(control.receive::<Order>().is_empty() && !control.is_closed());
        other.write_all(b"\"terminate\"\n\"ki").unwrap();
        assert!(matches!(control.receive()[..], [Order::Terminate]));
        other.write_all(b"ll\"\n").unwrap();
        drop(other);
        assert!(matches!(control.receive()[..], [Order::Kill]) && control.is_closed());
    }

    #[test]
    fn what_is_no_message_ends_the_talk() {
        let (one, mut other) = UnixStream::pair().unwrap();
        let mut control = Control::new(one).unwrap();
        other.write_all(b"hello\n").unwrap();
        assert!(control.receive::<Report>().is_empty() && control.is_closed());
    }
}
