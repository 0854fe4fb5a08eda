//! Lines out of a stream that comes in pieces, in bounded memory.

/// The longest line that is read, in bytes; a longer one is passed over.
pub const LINE_READ: usize = 4 << 20;
/// What is kept for the next line of the room a long one took.
const ROOM_KEPT: usize = 64 << 10;

/// What a stream is made of.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Piece<'a> {
    /// A line, without its end.
    Line(&'a [u8]),
    /// A line too long to be read, or one with a gap in it.
    Lost,
}

/// Cuts one stream into lines.
#[derive(Debug, Default)]
pub(super) struct Lines {
    begun: Vec<u8>,
    /// The rest of the line is passed over.
    lost: bool,
}

impl Lines {
    /// Takes the next bytes and hands on each line that ends in them.
    pub(super) fn feed(&mut self, mut bytes: &[u8], take: &mut dyn FnMut(Piece<'_>)) {
        while let Some(end) = bytes.iter().position(|byte| *byte == b'\n') {
            let line = &bytes[..end];
            bytes = &bytes[end + 1..];
            if self.begun.is_empty() && !self.lost && line.len() <= LINE_READ {
                take(Piece::Line(line));
            } else {
                self.begin(line);
                self.end(take);
            }
        }
        self.begin(bytes);
    }

    /// Bytes are missing here: the line they belong to is lost.
    pub(super) fn gap(&mut self) {
        self.begun.clear();
        self.lost = true;
    }

    /// The stream is over: hands on what follows the last line end.
    pub(super) fn finish(mut self, take: &mut dyn FnMut(Piece<'_>)) {
        if self.lost || !self.begun.is_empty() {
            self.end(take);
        }
    }

    fn begin(&mut self, part: &[u8]) {
        if self.lost || self.begun.len() + part.len() > LINE_READ {
            self.gap();
        } else {
            self.begun.extend_from_slice(part);
        }
    }

    fn end(&mut self, take: &mut dyn FnMut(Piece<'_>)) {
        if self.lost {
            take(Piece::Lost);
        } else {
            take(Piece::Line(&self.begun));
        }
        self.lost = false;
        self.begun.clear();
        self.begun.shrink_to(ROOM_KEPT);
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::{LINE_READ, Lines, Piece};

    fn lines_of(parts: &[&[u8]]) -> Vec<Option<Vec<u8>>> {
        let mut found = Vec::new();
        let mut take = |piece: Piece<'_>| {
            found.push(match piece {
                Piece::Line(line) => Some(line.to_vec()),
                Piece::Lost => None,
            });
        };
        let mut lines = Lines::default();
        for part in parts {
            lines.feed(part, &mut take);
        }
        lines.finish(&mut take);
        found
    }

    #[test]
    fn a_line_over_the_bound_is_lost_and_the_next_is_read_again() {
        let long = vec![b'x'; LINE_READ + 1];
        let whole = [&long[1..], b"\n", &long, b"\nnext\n", &long].concat();
        let wanted = [Some(long[1..].to_vec()), None, Some(b"next".to_vec()), None];
        assert_eq!(lines_of(&[&whole]), wanted);
        assert_eq!(lines_of(&whole.chunks(100_000).collect::<Vec<_>>()), wanted);
    }

    #[test]
    fn a_line_with_a_gap_is_lost() {
        let mut found = Vec::new();
        let mut take = |piece: Piece<'_>| found.push(format!("{piece:?}"));
        let mut lines = Lines::default();
        lines.feed(b"one\ntw", &mut take);
        lines.gap();
        lines.feed(b"o\nthree", &mut take);
        lines.finish(&mut take);
        assert_eq!(
            found,
            [format!("{:?}", Piece::Line(b"one")), "Lost".into(), format!("{:?}", Piece::Line(b"three"))]
        );
    }

    proptest! {
        #[test]
        fn lines_are_the_same_in_any_chunking(bytes in "[ab\n]{0,40}", size in 1..10_usize) {
            let bytes = bytes.as_bytes();
            prop_assert_eq!(lines_of(&bytes.chunks(size).collect::<Vec<_>>()), lines_of(&[bytes]));
        }
    }
}
