//! Both streams of a session: followed together, since they share one bound.

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;
use std::time::{Duration, Instant};

use super::log::Log;
use super::record::{DrainStatus, LimitAction, OutputBounds, OutputRecord, StreamRecord};
use super::scratch::{BLOCK, Scratch};
use crate::agents::Stream as Which;
use crate::fs;
use crate::session::launch::Watched;
use crate::session::row_watch::give_source;

/// Of more than this that nobody has read yet, the oldest is passed over: an agent that prints faster than it is read would
/// else fill the disk, and every look would last longer than the one before.
const BACKLOG: u64 = 24 << 20;

/// How much of a stream is read at one look, so that the look after it, at everything else, does not have to wait for long.
const LOOK: u64 = 4 << 20;

/// Who is shown everything that is read, whether the log keeps it or not.
#[derive(Default)]
pub(crate) struct Tap<'a> {
    watched: Option<&'a mut dyn Watched>,
    /// From then on nothing more is shown, so that the newest end still gets into the log.
    until: Option<Instant>,
}

impl<'a> Tap<'a> {
    /// Shows it to whoever watches, until then if there is such a time.
    pub(crate) fn new(watched: Option<&'a mut dyn Watched>, until: Option<Instant>) -> Self {
        Self { watched, until }
    }

    fn is_open(&self) -> bool {
        self.watched.is_some() && self.until.is_none_or(|until| Instant::now() < until)
    }

    fn show(&mut self, which: usize, bytes: &[u8]) {
        match &mut self.watched {
            Some(watched) if self.until.is_none_or(|until| Instant::now() < until) => {
                watched.output(STREAMS[which], bytes);
            }
            _ => self.miss(which),
        }
    }

    fn miss(&mut self, which: usize) {
        if let Some(watched) = &mut self.watched {
            watched.output_missed(STREAMS[which]);
        }
    }
}

const STREAMS: [Which; 2] = [Which::Stdout, Which::Stderr];

/// After a look at output that grows all the time, this long passes before the next.
pub(crate) const PACE: Duration = Duration::from_millis(4);

#[derive(Debug)]
struct Stream {
    scratch: Scratch,
    log: Log,
    truncated: bool,
}

/// The output of one session.
#[derive(Debug)]
pub(crate) struct Streams {
    both: [Stream; 2],
    bounds: OutputBounds,
    watch: GrowthWatch,
    buffer: Vec<u8>,
    /// When the last look found something; nothing if it did not.
    looked: Option<Instant>,
    error: Option<String>,
}

/// What one look found.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Followed {
    /// There was something new.
    pub(crate) grew: bool,
    /// More was printed than is kept.
    pub(crate) over_bound: bool,
}

impl Streams {
    /// Makes the scratch files in `folder` and empties the logs; answers with what the agent gets as its output and error.
    pub(crate) fn open(
        folder: &Path,
        logs: [&Path; 2],
        bounds: OutputBounds,
    ) -> Result<(Self, [File; 2]), fs::FileError> {
        let scratch = [fs::scratch_file(folder)?, fs::scratch_file(folder)?];
        let limits = limits([u64::MAX, u64::MAX], &bounds);
        let watch = GrowthWatch::new(&scratch);
        let mut streams = Vec::new();
        for ((file, path), limit) in scratch.iter().zip(logs).zip(limits) {
            let file = fs::duplicate(file, folder)?;
            let log = Log::new(fs::open_bounded_log(path)?, limit / 4);
            streams.push(Stream { scratch: Scratch::new(file), log, truncated: false });
        }
        let Ok(streams) = <[Stream; 2]>::try_from(streams) else { unreachable!("two paths make two streams") };
        let buffer = vec![0; BLOCK];
        Ok((Self { both: streams, bounds, watch, buffer, looked: None, error: None }, scratch))
    }

    /// Readable when the output may have grown; `None` where only looking helps.
    pub(crate) fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        self.watch.descriptor()
    }

    /// Whether more output than is kept ends the session.
    pub(crate) fn ends_session(&self) -> bool {
        self.bounds.action == LimitAction::End
    }

    /// When to look again at the earliest.
    pub(crate) fn rest(&self) -> Duration {
        self.looked.map_or(Duration::ZERO, |looked| PACE.saturating_sub(looked.elapsed()))
    }

    /// Takes what is there now into the logs, and shows it to the tap.
    pub(crate) fn follow(&mut self, tap: &mut Tap<'_>) -> Followed {
        self.watch.drain();
        let mut grew = false;
        for which in 0..self.both.len() {
            let until = self.both[which].log.end().saturating_add(LOOK);
            let taken = self.take_new(which, tap, &mut |end| end >= until);
            grew |= taken.unwrap_or_else(|error| self.fail(&error));
        }
        self.looked = grew.then(Instant::now);
        let ends = self.both.each_ref().map(|stream| stream.log.end());
        let bounds = [self.bounds.stdout, self.bounds.stderr];
        let is_over = ends.iter().zip(bounds).any(|(end, bound)| *end > bound);
        Followed { grew, over_bound: is_over || ends[0].saturating_add(ends[1]) > self.bounds.combined }
    }

    /// What the output could not be read or kept for is told once; the agent's space is given back all the same.
    fn fail(&mut self, error: &io::Error) -> bool {
        self.error.get_or_insert_with(|| error.to_string());
        false
    }

    /// Takes what there is to read of a stream until that is over, which is asked with the length of the stream so far.
    fn take_new(&mut self, which: usize, tap: &mut Tap<'_>, is_over: &mut dyn FnMut(u64) -> bool) -> io::Result<bool> {
        let stream = &mut self.both[which];
        let look = stream.scratch.look()?;
        stream.truncated |= look.truncated;
        if look.truncated {
            tap.miss(which);
        }
        let mut unread = look.unread;
        while unread > 0 && !is_over(self.both[which].log.end()) {
            let got = self.take_block(which, unread, tap)?;
            if got == 0 {
                break;
            }
            unread = unread.saturating_sub(got);
        }
        Ok(look.unread > 0 || look.truncated)
    }

    /// Takes some of the `unread` bytes of a stream; answers how many.
    fn take_block(&mut self, which: usize, unread: u64, tap: &mut Tap<'_>) -> io::Result<u64> {
        let head_left = self.both[which].log.head_left();
        let mut ends = self.both.each_ref().map(|stream| stream.log.end());
        ends[which] = ends[which].saturating_add(unread);
        let limit = limits(ends, &self.bounds)[which];
        // Only the newest will be kept: what comes before is shown, but not written.
        let passing = if head_left == 0 { unread.saturating_sub(limit) } else { 0 };
        let stream = &mut self.both[which];
        let unseen = passing.min(unread.saturating_sub(if tap.is_open() { BACKLOG } else { 0 }));
        if unseen > 0 {
            stream.scratch.skip(unseen);
            stream.log.skip(unseen);
            stream.scratch.give_back();
            tap.miss(which);
            return Ok(unseen);
        }
        let most = [head_left, passing].into_iter().find(|most| *most > 0).unwrap_or(unread).min(unread);
        let most = usize::try_from(most).unwrap_or(usize::MAX).min(self.buffer.len());
        let got = stream.scratch.read(&mut self.buffer[..most])?;
        stream.scratch.give_back();
        tap.show(which, &self.buffer[..got]);
        if passing > 0 {
            stream.log.skip(got as u64);
        } else {
            stream.log.append(&self.buffer[..got])?;
        }
        self.keep_within_bounds()?;
        Ok(got as u64)
    }

    fn keep_within_bounds(&mut self) -> io::Result<()> {
        let limits = limits(self.both.each_ref().map(|stream| stream.log.end()), &self.bounds);
        for (stream, limit) in self.both.iter_mut().zip(limits) {
            stream.log.keep_within(limit)?;
        }
        Ok(())
    }

    /// Takes the last of the output, until the window is over, and closes the logs up.
    pub(crate) fn finish(&mut self, tap: &mut Tap<'_>, is_over: &mut dyn FnMut() -> bool) -> OutputRecord {
        for which in 0..self.both.len() {
            if let Err(error) = self.take_new(which, tap, &mut |_| is_over()) {
                self.fail(&error);
            }
        }
        let mut unread = 0;
        let mut figures = [StreamRecord::default(); 2];
        for (which, figure) in figures.iter_mut().enumerate() {
            let stream = &mut self.both[which];
            let left = stream.scratch.look().map_or(0, |look| look.unread);
            unread += left;
            if left > 0 {
                tap.miss(which);
            }
            let kept = stream.log.finish();
            let (written, left_out) = (stream.log.end(), stream.log.left_out());
            let truncated_by_agent = stream.truncated;
            *figure = StreamRecord { written, kept: written - left_out, left_out, truncated_by_agent };
            if let Err(error) = kept {
                self.fail(&error);
            }
        }
        let drain = match (&self.error, unread) {
            (Some(_), _) => DrainStatus::Failed,
            (None, 0) => DrainStatus::Complete,
            (None, _) => DrainStatus::WindowOver,
        };
        let [stdout, stderr] = figures;
        OutputRecord { stdout, stderr, drain, unread, error: self.error.take() }
    }
}

/// How long each finished log may be, for streams of these lengths. Of two that together are too long the longer gives way.
fn limits(ends: [u64; 2], bounds: &OutputBounds) -> [u64; 2] {
    let own = [bounds.stdout.min(bounds.combined), bounds.stderr.min(bounds.combined)];
    let wanted = [ends[0].min(own[0]), ends[1].min(own[1])];
    if wanted[0].saturating_add(wanted[1]) <= bounds.combined {
        return own;
    }
    let smaller = wanted[0].min(wanted[1]).min(bounds.combined / 2);
    let larger = bounds.combined - smaller;
    if wanted[0] >= wanted[1] { [larger.min(own[0]), smaller] } else { [smaller, larger.min(own[1])] }
}

/// Tells that a scratch file may have grown.
#[derive(Debug)]
struct GrowthWatch {
    source: Option<OwnedFd>,
    watches: Vec<i32>,
}

impl GrowthWatch {
    fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        self.source.as_ref().map(AsFd::as_fd)
    }
}

#[cfg(target_os = "linux")]
impl GrowthWatch {
    /// Files without a name are watched by their descriptors.
    fn new(files: &[File]) -> Self {
        use crate::session::row_watch::take_source;
        use rustix::fs::inotify::{WatchFlags, add_watch};
        use std::os::fd::AsRawFd;
        let mut watch = Self { source: take_source(), watches: Vec::new() };
        for file in files {
            let path = format!("/proc/self/fd/{}", file.as_raw_fd());
            let added = watch.source.as_ref().and_then(|source| add_watch(source, path, WatchFlags::MODIFY).ok());
            watch.watches.extend(added);
        }
        if watch.watches.len() < files.len() {
            watch.remove();
        }
        watch
    }

    /// Takes all events; what they say is found by looking.
    fn drain(&mut self) {
        let mut buffer = [0_u8; 4096];
        while let Some(source) = &self.source
            && rustix::io::read(source, &mut buffer).is_ok_and(|got| got > 0)
        {}
    }

    fn remove(&mut self) {
        if let Some(source) = self.source.take() {
            for watch in self.watches.drain(..) {
                // One whose file is gone is gone already.
                let _removed = rustix::fs::inotify::remove_watch(&source, watch);
            }
            give_source(Some(source));
        }
    }
}

#[cfg(not(target_os = "linux"))]
impl GrowthWatch {
    fn new(_files: &[File]) -> Self {
        Self { source: None, watches: Vec::new() }
    }

    fn drain(&mut self) {
        self.watches.clear();
    }

    fn remove(&mut self) {
        give_source(self.source.take());
    }
}

impl Drop for GrowthWatch {
    fn drop(&mut self) {
        self.remove();
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::{DrainStatus, LimitAction, OutputBounds, Streams, Tap, limits};

    const BOUNDS: OutputBounds = OutputBounds { stdout: 80, stderr: 20, combined: 80, action: LimitAction::Keep };

    #[test]
    fn the_longer_stream_gives_way_and_both_fit_together() {
        assert_eq!(limits([80, 0], &BOUNDS), [80, 20]);
        assert_eq!(limits([1000, 10], &BOUNDS), [70, 10]);
        assert_eq!(limits([1000, 1000], &BOUNDS), [60, 20]);
        assert_eq!(limits([u64::MAX, u64::MAX], &OutputBounds { combined: 30, ..BOUNDS }), [15, 15]);
        assert_eq!(limits([5, u64::MAX], &OutputBounds { combined: 15, ..BOUNDS }), [5, 10]);
    }

    #[test]
    fn a_drain_window_that_is_over_is_a_status_and_tells_what_was_not_read() {
        let folder = tempfile::tempdir().unwrap();
        let logs = ["out", "err"].map(|name| folder.path().join(name));
        let open = || Streams::open(folder.path(), [&logs[0], &logs[1]], OutputBounds::default()).unwrap();
        let (mut streams, [mut out, _err]) = open();
        out.write_all(b"seen\n").unwrap();
        assert!(streams.follow(&mut Tap::default()).grew);
        out.write_all(b"too late\n").unwrap();
        let record = streams.finish(&mut Tap::default(), &mut || true);
        assert_eq!((record.drain, record.unread, record.stdout.written), (DrainStatus::WindowOver, 9, 5));
        let (mut streams, [mut out, _err]) = open();
        out.write_all(b"in time\n").unwrap();
        let record = streams.finish(&mut Tap::default(), &mut || false);
        assert_eq!((record.drain, record.unread, record.stdout.kept), (DrainStatus::Complete, 0, 8));
    }

    #[test]
    fn output_that_cannot_be_kept_is_told_and_the_agent_goes_on() {
        let folder = tempfile::tempdir().unwrap();
        let full = std::path::Path::new("/dev/full");
        let (mut streams, [mut out, _err]) =
            Streams::open(folder.path(), [full, &folder.path().join("err")], OutputBounds::default()).unwrap();
        out.write_all(b"lost\n").unwrap();
        assert!(!streams.follow(&mut Tap::default()).over_bound);
        let record = streams.finish(&mut Tap::default(), &mut || false);
        assert_eq!(record.drain, DrainStatus::Failed);
        assert!(record.error.unwrap().contains("No space"));
    }
}
