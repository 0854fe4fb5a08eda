//! Named pipes between a test and its agents: proof of death by end of file, and waiting without sleeping.

use std::fs::File;
use std::io::{ErrorKind, Read, Write};
use std::path::PathBuf;
use std::process::Command;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{Mode, OFlags, open};

use super::Project;
use super::process::{DEADLINE, Running};

impl Project {
    /// Makes a named pipe that only agents use among themselves.
    pub fn pipe(&self, name: &str) -> PathBuf {
        let path = self.outside("pipes").join(name);
        let status = Command::new("mkfifo").arg(&path).status().expect("mkfifo can be run");
        assert!(status.success(), "mkfifo {} failed", path.display());
        path
    }

    /// A pipe that agents write to (`tell NAME`, `stray NAME …`) and the test listens on.
    pub fn listener(&self, name: &str) -> Listener {
        let path = self.pipe(name);
        let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let file = open(&path, flags, Mode::empty()).expect("a pipe can be opened for reading");
        Listener { path, file: File::from(file), heard: false }
    }

    /// Starts the binary with an agent for some sessions, and waits until one has said `tell working`; it goes on from
    /// `hold GATE` when the gate is opened.
    #[track_caller]
    pub fn spawn_held(&self, gate: &str, args: &[&str], cases: &[(&str, &str)]) -> (Running, Gate) {
        let gate = self.gate(gate);
        let mut working = self.listener("working");
        self.agent_on(cases);
        let run = self.spawn(args);
        working.wait();
        (run, gate)
    }

    /// A pipe that agents wait on (`hold NAME`) until the test opens it, or is gone.
    pub fn gate(&self, name: &str) -> Gate {
        let path = self.pipe(name);
        // Both ways: an agent's opening never blocks, only its reading does.
        let file = open(&path, OFlags::RDWR | OFlags::CLOEXEC, Mode::empty()).expect("a pipe can be opened");
        Gate { file: File::from(file) }
    }
}

/// The reading end of a pipe.
pub struct Listener {
    path: PathBuf,
    file: File,
    heard: bool,
}

impl Listener {
    /// Waits until an agent has said something.
    #[track_caller]
    pub fn wait(&mut self) {
        self.next();
    }

    /// Waits until this word was among what was said from now on.
    #[track_caller]
    pub fn wait_for(&mut self, word: &str) {
        let mut said = String::new();
        while !said.contains(word) {
            said.push_str(&self.next());
        }
    }

    /// The next that is said.
    #[track_caller]
    fn next(&mut self) -> String {
        // While we hold a writing end too, an earlier speaker that is gone is no end of file to poll.
        let writing = OFlags::WRONLY | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let _held = open(&self.path, writing, Mode::empty()).expect("a pipe with a reader can be opened");
        let timeout = Timespec { tv_sec: i64::try_from(DEADLINE.as_secs()).expect("a short time"), tv_nsec: 0 };
        let mut fds = [PollFd::new(&self.file, PollFlags::IN)];
        let ready = poll(&mut fds, Some(&timeout)).expect("a pipe can be polled");
        assert!(ready > 0, "nobody spoke on {} in time", self.path.display());
        let mut buffer = [0; 64];
        let count = self.file.read(&mut buffer).expect("what was polled can be read");
        assert!(count > 0, "{} was closed", self.path.display());
        self.heard = true;
        String::from_utf8_lossy(&buffer[..count]).into_owned()
    }

    /// Fails unless somebody held the pipe and now nobody does: the kernel closes a process's files when it ends.
    #[track_caller]
    pub fn assert_ended(&mut self) {
        let mut buffer = [0; 64];
        loop {
            match self.file.read(&mut buffer) {
                Ok(0) => break,
                Ok(_) => self.heard = true,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => {
                    panic!("the process that holds {} lives", self.path.display())
                }
                Err(error) => panic!("cannot read {}: {error}", self.path.display()),
            }
        }
        assert!(self.heard, "nobody ever held {}", self.path.display());
    }
}

/// The side of a pipe that lets agents go on.
pub struct Gate {
    file: File,
}

impl Gate {
    /// Lets one waiting agent go on, now or when it comes.
    pub fn open(&self) {
        (&self.file).write_all(b"go\n").expect("a pipe that is held takes a line");
    }
}
