//! The file behind one of an agent's output streams: read as it grows, its space given back once read.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

/// What was read last is kept this far to see whether the file is still the one that was read.
const PROBE: usize = 64;
/// How much is read at a time.
pub(super) const BLOCK: usize = 256 << 10;
/// Holes are punched between multiples of this, which no file system's block exceeds: a block that two holes only share stays.
const PUNCH_AT: u64 = 64 << 10;

/// A file without a name that the agent appends to.
#[derive(Debug)]
pub(super) struct Scratch {
    file: File,
    /// How far it was read.
    position: u64,
    /// Up to here its space was given back.
    punched: u64,
    /// The last bytes before `position`.
    probe: Vec<u8>,
}

/// What a look at the file found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Look {
    /// How much can be read.
    pub(super) unread: u64,
    /// The agent truncated it since the last look.
    pub(super) truncated: bool,
}

impl Scratch {
    pub(super) fn new(file: File) -> Self {
        Self { file, position: 0, punched: 0, probe: Vec::new() }
    }

    /// Looks how much there is to read. A file that is shorter than what was read, or that no longer holds what was read
    /// last, was truncated: it is read from its beginning.
    pub(super) fn look(&mut self) -> io::Result<Look> {
        let length = self.file.metadata()?.len();
        let truncated = length < self.position || !self.holds_probe()?;
        if truncated {
            (self.position, self.punched) = (0, 0);
            self.probe.clear();
        }
        Ok(Look { unread: length - self.position, truncated })
    }

    fn holds_probe(&self) -> io::Result<bool> {
        let mut now = [0; PROBE];
        let now = &mut now[..self.probe.len()];
        let from = self.position - self.probe.len() as u64;
        match self.file.read_exact_at(now, from) {
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => Ok(false),
            other => other.map(|()| now == self.probe.as_slice()),
        }
    }

    /// Passes over bytes that nobody needs.
    pub(super) fn skip(&mut self, bytes: u64) {
        self.position += bytes;
        self.probe.clear();
    }

    /// Reads on; 0 at the end.
    pub(super) fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let got = self.file.read_at(buffer, self.position)?;
        self.position += got as u64;
        if got > 0 {
            self.probe.clear();
            self.probe.extend_from_slice(&buffer[got.saturating_sub(PROBE)..got]);
        }
        Ok(got)
    }

    /// Gives back the space of what was read, less the last bytes by which the file is recognised.
    pub(super) fn give_back(&mut self) {
        let up_to = whole_pieces(self.position.saturating_sub(PROBE as u64));
        if up_to > self.punched {
            // A file system that cannot keeps the space until the session is over.
            let _punched = punch(&self.file, self.punched, up_to - self.punched);
            self.punched = up_to;
        }
    }
}

/// The last place up to here where a hole may end.
pub(super) fn whole_pieces(up_to: u64) -> u64 {
    up_to - up_to % PUNCH_AT
}

/// Frees the space of a part of a file, which then reads as zeros (`fallocate(2)`).
#[cfg(target_os = "linux")]
pub(super) fn punch(file: &File, from: u64, length: u64) -> io::Result<()> {
    use rustix::fs::{FallocateFlags, fallocate};
    if length == 0 {
        return Ok(());
    }
    Ok(fallocate(file, FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE, from, length)?)
}

/// There is no such call here: scratch space is given back when the session is over.
#[cfg(not(target_os = "linux"))]
pub(super) fn punch(_file: &File, _from: u64, _length: u64) -> io::Result<()> {
    Err(io::ErrorKind::Unsupported.into())
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::{Look, Scratch};

    fn pair() -> (std::fs::File, Scratch) {
        let file = tempfile::tempfile().unwrap();
        (file.try_clone().unwrap(), Scratch::new(file))
    }

    #[test]
    fn what_is_written_is_read_once() {
        let (mut agent, mut scratch) = pair();
        agent.write_all(b"one").unwrap();
        assert_eq!(scratch.look().unwrap(), Look { unread: 3, truncated: false });
        let mut buffer = [0; 8];
        assert_eq!((scratch.read(&mut buffer).unwrap(), &buffer[..3]), (3, &b"one"[..]));
        assert_eq!(scratch.look().unwrap().unread, 0);
    }

    #[test]
    fn a_file_that_was_truncated_is_noticed_also_if_it_has_grown_again() {
        for again in ["", "x", "another text that is longer than the first"] {
            let (mut agent, mut scratch) = pair();
            agent.write_all(b"the first text").unwrap();
            let mut buffer = [0; 64];
            let _read = (scratch.look().unwrap(), scratch.read(&mut buffer).unwrap());
            agent.set_len(0).unwrap();
            std::os::unix::fs::FileExt::write_all_at(&agent, again.as_bytes(), 0).unwrap();
            assert_eq!(scratch.look().unwrap(), Look { unread: again.len() as u64, truncated: true });
            assert_eq!(scratch.read(&mut buffer).unwrap(), again.len());
            assert!(!scratch.look().unwrap().truncated);
        }
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn the_space_of_what_was_read_is_given_back_while_the_agent_writes_on() {
        use std::os::unix::fs::MetadataExt;

        let (mut agent, mut scratch) = pair();
        let piece = vec![b'x'; 70_001];
        let mut buffer = vec![0; super::BLOCK];
        for _ in 0..400 {
            agent.write_all(&piece).unwrap();
            while scratch.look().unwrap().unread > 0 {
                let _got = scratch.read(&mut buffer).unwrap();
                scratch.give_back();
            }
        }
        let metadata = agent.metadata().unwrap();
        assert_eq!(metadata.len(), 400 * 70_001);
        // Blocks of 512 bytes. Some file systems allocate ahead, so this is no exact figure.
        assert!(metadata.blocks() * 512 <= 1 << 20, "{} blocks", metadata.blocks());
    }
}
