//! The event stream: each event as one line of JSON, for programs that follow a run.
//!
//! An observer like the status line: it keeps nothing and decides nothing, and a run goes on if nobody can be told any more.

use std::cell::RefCell;
use std::io::{self, ErrorKind, Write};
use std::path::Path;

use serde::Serialize;

use crate::clock::Clock;
use crate::fs::{self, FileError};
use crate::observe::Event;

/// The version of a line's fields.
pub const EVENTS_SCHEMA: u32 = 1;

/// Writes events to a file, or to standard output.
pub struct EventStream {
    clock: Clock,
    /// None once it could not be written to.
    to: RefCell<Option<Box<dyn Write>>>,
}

/// One line.
#[derive(Serialize)]
struct Line<'e> {
    schema: u32,
    at: String,
    #[serde(flatten)]
    event: &'e Event,
}

impl EventStream {
    /// To the end of a file, which is made if it is missing, readable by the user only.
    pub fn to_file(path: &Path, clock: Clock) -> Result<Self, FileError> {
        Ok(Self::to(Box::new(fs::open_to_append(path)?), clock))
    }

    /// To standard output.
    pub fn to_stdout(clock: Clock) -> Self {
        Self::to(Box::new(io::stdout()), clock)
    }

    fn to(writer: Box<dyn Write>, clock: Clock) -> Self {
        Self { clock, to: RefCell::new(Some(writer)) }
    }

    /// Writes one event. The first failure ends the stream and is told on standard error, unless the reader went away.
    pub fn write(&self, event: &Event) {
        let mut to = self.to.borrow_mut();
        let Some(writer) = to.as_mut() else { return };
        if let Err(error) = line(&self.clock.stamp(), event).and_then(|line| writer.write_all(&line)) {
            *to = None;
            if error.kind() != ErrorKind::BrokenPipe {
                super::note(&format!("runner: events are written no more: {error}"));
            }
        }
    }
}

/// The event as one line.
fn line(at: &str, event: &Event) -> io::Result<Vec<u8>> {
    let mut text = serde_json::to_vec(&Line { schema: EVENTS_SCHEMA, at: at.to_owned(), event })?;
    text.push(b'\n');
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::rc::Rc;

    /// Takes this many lines, then fails.
    struct Disk {
        room: usize,
        kind: ErrorKind,
        asked: Rc<RefCell<usize>>,
    }

    impl Write for Disk {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            *self.asked.borrow_mut() += 1;
            if *self.asked.borrow() > self.room { Err(self.kind.into()) } else { Ok(bytes.len()) }
        }
        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn an_event_is_one_line_with_schema_and_time_whatever_is_in_it() {
        let event = Event::Warning { text: "two\nlines \u{1b}[2J".to_owned() };
        let shown = String::from_utf8(line("2026-11-30T03:05:12Z", &event).unwrap()).unwrap();
        let wanted = r#"{"schema":1,"at":"2026-11-30T03:05:12Z","event":"warning","text":"two\nlines \u001b[2J"}"#;
        assert_eq!(shown, format!("{wanted}\n"));
    }

    #[test]
    fn a_stream_that_cannot_be_written_ends_and_the_run_goes_on() {
        for kind in [ErrorKind::BrokenPipe, ErrorKind::StorageFull] {
            let asked = Rc::new(RefCell::new(0));
            let stream = EventStream::to(Box::new(Disk { room: 1, kind, asked: Rc::clone(&asked) }), Clock::system());
            for _ in 0..4 {
                stream.write(&Event::Converted);
            }
            assert_eq!(*asked.borrow(), 2, "after the failure nothing more is tried");
        }
    }

    #[test]
    fn a_stream_adds_to_what_is_in_the_file_and_only_the_user_can_read_it() {
        use std::os::unix::fs::PermissionsExt;
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("events.jsonl");
        for _ in 0..2 {
            EventStream::to_file(&path, Clock::system()).unwrap().write(&Event::Converted);
        }
        let text = String::from_utf8(fs::read(&path).unwrap()).unwrap();
        assert_eq!(text.lines().count(), 2);
        assert_eq!(path.metadata().unwrap().permissions().mode() & 0o777, 0o600);
        let pipe = folder.path().join("pipe");
        rustix::fs::mknodat(rustix::fs::CWD, &pipe, rustix::fs::FileType::Fifo, 0o600.into(), 0).unwrap();
        assert!(
            EventStream::to_file(&pipe, Clock::system()).is_err(),
            "nobody reads the pipe, and nobody is waited for"
        );
    }
}
