//! What a file holds, as git names it: the SHA-1 of a blob, comparable with the index.
//!
//! Reads; never writes. SHA-1 because git's index speaks it; here it tells edits apart, it proves nothing.

use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::path::Path;

use sha1::{Digest, Sha1};

use super::folder::{self, Stamp};

/// A git blob id.
pub(super) type ContentId = [u8; 20];

/// The id of an empty blob.
pub(super) const EMPTY: ContentId =
    *b"\xe6\x9d\xe2\x9b\xb2\xd1\xd6\x43\x4b\x8b\x29\xae\x77\x5a\xd8\xc2\xe4\x8c\x53\x91";

/// The id of these bytes.
pub(super) fn of_bytes(bytes: &[u8]) -> ContentId {
    let mut hash = begin(bytes.len() as u64);
    hash.update(bytes);
    hash.finalize().into()
}

/// A file that was read: its id, its stamp before the read, and whether it stood still meanwhile.
pub(super) struct Read {
    pub(super) id: ContentId,
    pub(super) stamp: Stamp,
    pub(super) steady: bool,
}

/// The id of the regular file `path` below `at`, read in pieces.
///
/// An id needs the length first; a file that changes its length while it is read is tried again a few times.
pub(super) fn of_file(at: BorrowedFd<'_>, path: &Path, buffer: &mut [u8]) -> io::Result<Read> {
    for _ in 0..3 {
        let (file, stamp) = folder::open_file(at, path)?;
        let mut hash = begin(stamp.size);
        let mut length = 0;
        loop {
            let count = rustix::io::retry_on_intr(|| rustix::io::read(&file, &mut *buffer))?;
            if count == 0 {
                break;
            }
            hash.update(&buffer[..count]);
            length += count as u64;
        }
        if length == stamp.size {
            let steady = folder::stamp_of_open(file.as_fd())? == stamp;
            return Ok(Read { id: hash.finalize().into(), stamp, steady });
        }
    }
    Err(io::Error::other("it keeps changing while it is read"))
}

fn begin(length: u64) -> Sha1 {
    let mut hash = Sha1::new();
    hash.update(format!("blob {length}\0"));
    hash
}

#[cfg(test)]
mod tests {
    use super::{EMPTY, of_bytes};

    #[test]
    fn ids_are_the_ones_git_gives() {
        assert_eq!(of_bytes(b""), EMPTY);
        // `printf 'hello\n' | git hash-object --stdin`
        let expected = *b"\xce\x01\x36\x25\x03\x0b\xa8\xdb\xa9\x06\xf7\x56\x96\x7f\x9e\x9c\xa3\x94\x46\x4a";
        assert_eq!(of_bytes(b"hello\n"), expected);
    }
}
