//! The supervisor's own bounded copy of one stream: its head, the gap stated, its newest end.
//!
//! While a session runs, the log is a sparse file: the head, a hole where the gap will be, and the newest bytes at the place
//! they have in the stream. So the end can be read at any time, also after the coordinator was killed. At the end it is
//! closed up.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

use super::scratch::{BLOCK, punch, whole_pieces};

/// The line that states the gap is at most this long.
const GAP: u64 = 64;

/// One log that is being written.
#[derive(Debug)]
pub(super) struct Log {
    file: File,
    /// How much of the stream's beginning is kept.
    head: u64,
    /// How long the stream is.
    end: u64,
    /// Where the newest end begins in the stream; nothing while all is kept.
    tail: Option<u64>,
    /// The gap's space was given back up to here in the stream.
    punched: u64,
    /// How far bytes of the tail lie before their place in the stream.
    shift: u64,
}

impl Log {
    /// An empty log that keeps the first `head` bytes whatever follows.
    pub(super) fn new(file: File, head: u64) -> Self {
        Self { file, head, end: 0, tail: None, punched: head, shift: 0 }
    }

    /// How long the stream is that was written to it.
    pub(super) fn end(&self) -> u64 {
        self.end
    }

    /// How much of the head is still to come.
    pub(super) fn head_left(&self) -> u64 {
        self.head.saturating_sub(self.end)
    }

    /// How much was left out between head and end.
    pub(super) fn left_out(&self) -> u64 {
        self.tail.map_or(0, |tail| tail - self.head)
    }

    /// Writes on.
    pub(super) fn append(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.file.write_all_at(bytes, self.end - self.shift)?;
        self.end += bytes.len() as u64;
        Ok(())
    }

    /// Leaves out the next bytes of the stream, and with them all that came after the head. The head must be full.
    pub(super) fn skip(&mut self, bytes: u64) {
        self.end += bytes;
        self.tail = Some(self.end);
    }

    /// Leaves out as much as is needed for the finished log to have at most this many bytes, and gives its space back.
    pub(super) fn keep_within(&mut self, limit: u64) -> io::Result<()> {
        if self.tail.is_none() && self.end <= limit {
            return Ok(());
        }
        let newest = limit.saturating_sub(self.head + GAP);
        let tail = self.end.saturating_sub(newest).max(self.tail.unwrap_or(0)).max(self.head + GAP);
        self.tail = Some(tail.min(self.end.max(self.head + GAP)));
        if whole_pieces(tail) > self.punched {
            self.give_back(whole_pieces(tail), limit)?;
        }
        Ok(())
    }

    fn give_back(&mut self, up_to: u64, limit: u64) -> io::Result<()> {
        if self.shift == 0 && punch(&self.file, self.punched, up_to - self.punched).is_ok() {
            self.punched = up_to;
        } else if up_to - self.shift > limit.saturating_mul(2) {
            // A file system without holes: what is kept moves down now and then.
            self.close_up(self.head + GAP)?;
            self.punched = up_to;
        }
        Ok(())
    }

    /// Moves the newest end down to `to`, giving space back as it goes, and cuts the file off behind it.
    fn close_up(&mut self, to: u64) -> io::Result<()> {
        let Some(tail) = self.tail else { return Ok(()) };
        let (mut from, mut at) = (tail - self.shift, to);
        let mut block = vec![0; BLOCK];
        loop {
            let got = self.file.read_at(&mut block, from)?;
            if got == 0 {
                break;
            }
            self.file.write_all_at(&block[..got], at)?;
            at += got as u64;
            // What lies before the new end was overwritten; only space is lost where it cannot be punched.
            let _punched = punch(&self.file, from.max(at), (from + got as u64).saturating_sub(from.max(at)));
            from += got as u64;
        }
        self.shift = tail - to;
        self.file.set_len(at)
    }

    /// States the gap and closes the log up; answers how many bytes of the stream it holds.
    pub(super) fn finish(&mut self) -> io::Result<u64> {
        let left_out = self.left_out();
        if left_out > 0 {
            let line = format!("\n[runner: {left_out} bytes are left out here]\n");
            self.close_up(self.head + line.len() as u64)?;
            self.file.write_all_at(line.as_bytes(), self.head)?;
        }
        Ok(self.end - left_out)
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Seek};

    use proptest::prelude::*;

    use super::Log;

    fn stream(length: usize) -> Vec<u8> {
        (0..length).map(|at| b"abcdefghijklmnopqrstuvwxyz0123456789\n"[at % 37]).collect()
    }

    fn content(mut file: &std::fs::File) -> Vec<u8> {
        let mut bytes = Vec::new();
        file.rewind().unwrap();
        file.read_to_end(&mut bytes).unwrap();
        bytes
    }

    /// The finished log of a stream written in pieces, and how much of it was left out.
    fn log_of(pieces: &[&[u8]], limit: u64) -> (Vec<u8>, u64) {
        let file = tempfile::tempfile().unwrap();
        let mut log = Log::new(file.try_clone().unwrap(), limit / 4);
        for piece in pieces {
            log.append(piece).unwrap();
            log.keep_within(limit).unwrap();
        }
        let kept = log.finish().unwrap();
        assert_eq!(kept + log.left_out(), pieces.iter().map(|piece| piece.len() as u64).sum::<u64>());
        (content(&file), log.left_out())
    }

    #[test]
    fn what_fits_is_kept_as_it_is() {
        for length in [0, 1, 255, 1000] {
            assert_eq!(log_of(&[&stream(length)], 1000), (stream(length), 0));
        }
    }

    #[test]
    fn of_what_does_not_fit_head_and_end_are_kept_and_the_gap_is_stated() {
        let all = stream(1_000_000);
        let (log, left_out) = log_of(&all.chunks(777).collect::<Vec<_>>(), 10_000);
        let line = format!("\n[runner: {left_out} bytes are left out here]\n");
        assert!(log.len() <= 10_000 && log.starts_with(&all[..2500]));
        assert_eq!(&log[2500..2500 + line.len()], line.as_bytes());
        let end = &log[2500 + line.len()..];
        assert!(end.len() > 7000 && all.ends_with(end));
        assert_eq!(2500 + left_out + end.len() as u64, all.len() as u64);
    }

    #[test]
    fn bytes_that_nobody_read_are_part_of_the_gap() {
        let file = tempfile::tempfile().unwrap();
        let mut log = Log::new(file.try_clone().unwrap(), 10);
        log.append(&stream(50)).unwrap();
        log.skip(1000);
        log.append(b"the end").unwrap();
        log.keep_within(200).unwrap();
        assert_eq!((log.finish().unwrap(), log.left_out()), (17, 1040));
        let text = String::from_utf8(content(&file)).unwrap();
        assert_eq!(text, "abcdefghij\n[runner: 1040 bytes are left out here]\nthe end");
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn the_space_of_the_gap_is_given_back_while_the_log_is_written() {
        use std::os::unix::fs::MetadataExt;

        let file = tempfile::tempfile().unwrap();
        let mut log = Log::new(file.try_clone().unwrap(), 100_000);
        let all = stream(40_000_000);
        for piece in all.chunks(50_000) {
            log.append(piece).unwrap();
            log.keep_within(400_000).unwrap();
            // Blocks of 512 bytes. Some file systems allocate ahead, so this is no exact figure.
            let blocks = file.metadata().unwrap().blocks();
            assert!(blocks * 512 <= 1_500_000, "{blocks} blocks");
        }
        assert_eq!(file.metadata().unwrap().len(), 40_000_000, "each byte is at its place in the stream");
    }

    proptest! {
        #[test]
        fn a_finished_log_is_within_its_bound_and_every_byte_is_accounted_for(
            pieces in prop::collection::vec(0..300_000_usize, 0..8), limit in 1000..400_000_u64
        ) {
            let all = stream(pieces.iter().sum());
            let mut rest = all.as_slice();
            let parts: Vec<&[u8]> = pieces.iter().map(|length| {
                let (part, others) = rest.split_at(*length);
                rest = others;
                part
            }).collect();
            let (log, left_out) = log_of(&parts, limit);
            prop_assert!(log.len() as u64 <= limit);
            prop_assert_eq!(left_out > 0, all.len() as u64 > limit);
            let head = usize::try_from(limit / 4).unwrap();
            prop_assert!(left_out == 0 || all[..head] == log[..head] && all.last() == log.last());
        }
    }
}
