//! A folder to run scripted sessions in.
//!
//! Whatever must be dead holds the write end of a FIFO: once a session has returned, the read end must be at its end.
#![allow(dead_code, missing_docs, reason = "each test program uses its part, and reads it here")]
#![expect(clippy::disallowed_methods, clippy::unwrap_used, reason = "tests lay down files, and fail where they cannot")]

use std::any::Any;
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs::{self, File};
use std::io::{ErrorKind, Read};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use runner::session::{ExecutionResult, Launch, Limits, OutputBounds, Signals, StopSignal, Stream, Watched, run};

/// Longer than any test may take: a test that comes to it fails by what it then finds.
pub(crate) const LONG: Duration = Duration::from_mins(2);
pub(crate) const LIMITS: Limits = Limits {
    wall: LONG,
    idle_timeout: None,
    exit_grace: LONG,
    kill_grace: LONG,
    stop: StopSignal::Terminate,
    drain: LONG,
};
/// For processes that ignore the request to end.
pub(crate) const IMPATIENT: Limits = Limits { kill_grace: Duration::from_millis(100), ..LIMITS };

/// A folder with a row, a prompt, and two FIFOs: `life`, held by whoever must die, and `ready`.
pub(crate) struct Sandbox {
    pub(crate) folder: tempfile::TempDir,
    pub(crate) life: File,
}

pub(crate) struct Row {
    pub(crate) file: PathBuf,
    pub(crate) held: usize,
    /// What was shown of standard output and standard error, and how often bytes of them were missing.
    pub(crate) shown: [Vec<u8>; 2],
    pub(crate) missed: [usize; 2],
}

impl Watched for Row {
    fn file(&self) -> &Path {
        &self.file
    }

    fn reached_transition(&mut self) -> bool {
        fs::read(&self.file).is_ok_and(|content| content == b"review\n")
    }

    fn hold_state(&mut self) -> Box<dyn Any> {
        self.held += 1;
        Box::new(())
    }

    fn output(&mut self, stream: Stream, bytes: &[u8]) {
        self.shown[usize::from(stream == Stream::Stderr)].extend_from_slice(bytes);
    }

    fn output_missed(&mut self, stream: Stream) {
        self.missed[usize::from(stream == Stream::Stderr)] += 1;
    }
}

/// A sandbox's folder, also for another process.
pub(crate) struct Place<'a>(pub(crate) &'a Path);

impl Place<'_> {
    pub(crate) fn launch(&self, argv: &[&str], limits: Limits) -> Launch {
        Launch {
            argv: argv.iter().map(OsString::from).collect(),
            cwd: self.0.to_owned(),
            env: BTreeMap::from([("PATH".into(), "/usr/bin:/bin".into())]),
            stdin: self.0.join("prompt"),
            scratch: self.0.to_owned(),
            stdout: self.0.join("logs/stdout"),
            stderr: self.0.join("logs/stderr"),
            output: OutputBounds::default(),
            guardian: env!("CARGO_BIN_EXE_runner").into(),
            limits,
        }
    }

    pub(crate) fn row(&self) -> Row {
        Row { file: self.0.join("rows/row"), held: 0, shown: Default::default(), missed: [0, 0] }
    }
}

impl Sandbox {
    pub(crate) fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        for name in ["life", "ready"] {
            let path = folder.path().join(name);
            rustix::fs::mknodat(rustix::fs::CWD, path, rustix::fs::FileType::Fifo, 0o600.into(), 0).unwrap();
        }
        fs::create_dir(folder.path().join("rows")).unwrap();
        fs::write(folder.path().join("rows/row"), "in_progress\n").unwrap();
        fs::write(folder.path().join("prompt"), "You are an agent.\n").unwrap();
        let nonblocking = i32::try_from(rustix::fs::OFlags::NONBLOCK.bits()).unwrap();
        let life =
            fs::OpenOptions::new().read(true).custom_flags(nonblocking).open(folder.path().join("life")).unwrap();
        Self { folder, life }
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    pub(crate) fn launch(&self, argv: &[&str], limits: Limits) -> Launch {
        Place(self.folder.path()).launch(argv, limits)
    }

    pub(crate) fn row(&self) -> Row {
        Place(self.folder.path()).row()
    }

    pub(crate) fn run(&self, script: &str, limits: Limits) -> ExecutionResult {
        run(&self.launch(&["sh", "-c", script], limits), &mut self.row(), &Signals::none())
    }

    pub(crate) fn stdout(&self) -> String {
        fs::read_to_string(self.path("logs/stdout")).unwrap()
    }

    /// Whoever held `life` has said so and is gone.
    pub(crate) fn assert_dead(&mut self) {
        let mut said = Vec::new();
        match self.life.read_to_end(&mut said) {
            Ok(_) => assert!(!said.is_empty(), "nobody ever held it"),
            Err(error) if error.kind() == ErrorKind::WouldBlock => panic!("somebody of the session lives"),
            Err(error) => panic!("{error}"),
        }
    }
}

/// A child holds `life`, says that it is ready, and stays.
pub(crate) const STAY: &str = "exec 9>life; echo alive >&9; echo > ready; exec sleep 600";
/// The same, and it does not hear the request to end.
pub(crate) const STAY_STUBBORNLY: &str =
    "trap '' TERM; exec 9>life; echo alive >&9; echo > ready; while :; do sleep 600; done";
