//! Starts one process: a session of its own, default signals, nothing inherited but what it is given.
//!
//! Holds the only `unsafe` of starting: what runs between fork and exec. Nothing there allocates, locks or touches a signal
//! handler of this process (`signal-safety(7)`).

use std::collections::BTreeMap;
use std::ffi::{CString, OsStr, OsString};
use std::fs::File;
use std::io;
use std::os::fd::{FromRawFd, OwnedFd, RawFd};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use rustix::process::Pid;

/// A program with its open standard streams.
pub(crate) struct Program<'a> {
    pub(crate) argv: &'a [OsString],
    pub(crate) cwd: &'a Path,
    pub(crate) env: &'a BTreeMap<OsString, OsString>,
    pub(crate) stdin: File,
    pub(crate) stdout: File,
    pub(crate) stderr: File,
    /// A descriptor that it gets besides, under the number it has here.
    pub(crate) control: Option<OwnedFd>,
}

/// Why no process came to be.
#[derive(Debug, thiserror::Error)]
pub(crate) enum SpawnError {
    #[error("no program is given; name one in the command")]
    Empty,
    #[error("the program `{0}` is not on PATH; install it or give its path")]
    NotOnPath(String),
    #[error("the command or its environment holds a NUL character; remove it")]
    Nul,
    #[error("cannot start `{program}`: the working directory {} cannot be entered; make it or choose another", cwd.display())]
    WorkingDirectory { program: String, cwd: PathBuf },
    #[error("cannot start `{program}`: {source}; {hint}")]
    Refused { program: String, hint: &'static str, source: io::Error },
}

/// Starts the program as leader of a session of its own, without a controlling terminal; answers with its process id.
///
/// All signals are blocked in this thread until the child has its own dispositions, so none can reach a handler of ours in
/// the child, and none can fall between the start and knowing the process id.
pub(crate) fn spawn(program: Program<'_>) -> Result<Pid, SpawnError> {
    let name = program.argv.first().ok_or(SpawnError::Empty)?;
    let image = Image::new(&program, &find(name, program.env)?)?;
    let shown = name.to_string_lossy().into_owned();
    let cwd = program.cwd.to_owned();
    let started = {
        let _blocked = BlockedSignals::new();
        start(image, program)
    };
    started.map_err(|source| {
        if cwd.is_dir() {
            SpawnError::Refused { program: shown, hint: hint(&source), source }
        } else {
            SpawnError::WorkingDirectory { program: shown, cwd }
        }
    })
}

fn hint(error: &io::Error) -> &'static str {
    match error.raw_os_error() {
        Some(libc::ENOENT) => "check its path, and the interpreter named in its first line if it is a script",
        Some(libc::EACCES) => "make it executable and readable for this user",
        Some(libc::ENOEXEC) => "it is no program for this machine; a script begins with `#!` and its interpreter",
        Some(libc::E2BIG) => "the arguments or the environment are too long; pass long text on standard input",
        Some(libc::ETXTBSY) => "somebody is still writing it; try again",
        Some(libc::EAGAIN | libc::ENOMEM) => "the machine is out of processes or memory; try again later",
        _ => "check that it can be run by hand",
    }
}

/// The file to run: a name with a slash is taken as it is, another is looked for on the `PATH` the program will get.
fn find(name: &OsStr, env: &BTreeMap<OsString, OsString>) -> Result<PathBuf, SpawnError> {
    if name.is_empty() {
        return Err(SpawnError::Empty);
    }
    if name.as_bytes().contains(&b'/') {
        return Ok(PathBuf::from(name));
    }
    env.get(OsStr::new("PATH"))
        .into_iter()
        .flat_map(std::env::split_paths)
        .filter(|folder| folder.is_absolute())
        .map(|folder| folder.join(name))
        .find(|file| file.metadata().is_ok_and(|meta| meta.is_file() && meta.permissions().mode() & 0o111 != 0))
        .ok_or_else(|| SpawnError::NotOnPath(name.to_string_lossy().into_owned()))
}

/// A null-terminated array of C strings as `execve(2)` takes it. The strings keep their place when the array is moved.
struct CStringArray {
    _strings: Vec<CString>,
    pointers: Vec<*const libc::c_char>,
}

#[expect(unsafe_code, reason = "the array is handed to the closure that runs in the child")]
// SAFETY: the pointers point into `_strings`, which the array owns, which nobody changes, and which moves with it.
unsafe impl Send for CStringArray {}
#[expect(unsafe_code, reason = "the array is handed to the closure that runs in the child")]
// SAFETY: nothing of the array can be changed through a shared reference.
unsafe impl Sync for CStringArray {}

impl CStringArray {
    fn new(items: impl Iterator<Item = Vec<u8>>) -> Result<Self, SpawnError> {
        let strings: Vec<CString> = items.map(CString::new).collect::<Result<_, _>>().map_err(|_| SpawnError::Nul)?;
        let pointers = strings.iter().map(|string| string.as_ptr()).chain([std::ptr::null()]).collect();
        Ok(Self { _strings: strings, pointers })
    }
}

/// What `execve(2)` needs, made before the fork.
struct Image {
    file: CString,
    argv: CStringArray,
    env: CStringArray,
}

impl Image {
    fn new(program: &Program<'_>, file: &Path) -> Result<Self, SpawnError> {
        let argv = program.argv.iter().map(|argument| argument.as_bytes().to_vec());
        let env = program.env.iter().map(|(name, value)| [name.as_bytes(), b"=", value.as_bytes()].concat());
        Ok(Self {
            file: CString::new(file.as_os_str().to_owned().into_vec()).map_err(|_| SpawnError::Nul)?,
            argv: CStringArray::new(argv)?,
            env: CStringArray::new(env)?,
        })
    }

    /// Becomes the program. Not `execvp(3)`: that hands a file the kernel refuses to a shell.
    #[expect(unsafe_code, reason = "execve(2) takes raw arrays")]
    fn exec(&self) -> io::Error {
        // SAFETY: the file is a C string and both arrays end in a null pointer; all outlive the call.
        unsafe { libc::execve(self.file.as_ptr(), self.argv.pointers.as_ptr(), self.env.pointers.as_ptr()) };
        io::Error::last_os_error()
    }
}

#[expect(clippy::disallowed_methods, reason = "this is the door for processes")]
fn start(image: Image, program: Program<'_>) -> io::Result<Pid> {
    let mut command = Command::new(OsStr::from_bytes(image.file.as_bytes()));
    command.current_dir(program.cwd).stdin(Stdio::from(program.stdin));
    command.stdout(Stdio::from(program.stdout)).stderr(Stdio::from(program.stderr));
    let control = program.control;
    let become_program = move || {
        rustix::process::setsid()?;
        reset_dispositions();
        close_on_exec();
        if let Some(control) = &control {
            rustix::io::fcntl_setfd(control, rustix::io::FdFlags::empty())?;
        }
        unblock_signals();
        Err(image.exec())
    };
    #[expect(unsafe_code, reason = "only between fork and exec can the child leave our session and reset its signals")]
    // SAFETY: the closure makes system calls only; it neither allocates nor takes a lock.
    unsafe {
        command.pre_exec(become_program)
    };
    // The handle is dropped, which neither waits for the process nor ends it: whoever supervises it does.
    let child = command.spawn()?;
    i32::try_from(child.id())
        .ok()
        .and_then(Pid::from_raw)
        .ok_or_else(|| io::Error::other("the process id is out of range"))
}

/// Every signal does what it does by default. An exec resets handlers, but keeps what is ignored, as `nohup` and Rust's own
/// `SIGPIPE` are.
#[expect(unsafe_code, reason = "signal(2) is unsafe for the handlers it can install; this installs none")]
fn reset_dispositions() {
    for number in 1..=64 {
        // SAFETY: the default action is no handler. Numbers that cannot be set are refused and stay as they are.
        unsafe { libc::signal(number, libc::SIG_DFL) };
    }
}

/// Whatever this process itself inherited open, a lock of `flock(1)` for example, does not reach the agent.
#[cfg(target_os = "linux")]
#[expect(unsafe_code, reason = "close_range(2) has no safe wrapper that marks instead of closing")]
fn close_on_exec() {
    // SAFETY: marks descriptors only, so nothing open here is invalidated before the exec.
    let marked = unsafe { libc::syscall(libc::SYS_close_range, 3_u32, u32::MAX, libc::CLOSE_RANGE_CLOEXEC) };
    if marked == 0 {
        return;
    }
    // Before Linux 5.11.
    for descriptor in 3..1024 {
        // SAFETY: as above; a number that is not open is refused.
        unsafe { libc::fcntl(descriptor, libc::F_SETFD, libc::FD_CLOEXEC) };
    }
}

/// Whatever this process itself inherited open does not reach the agent.
#[cfg(not(target_os = "linux"))]
#[expect(unsafe_code, reason = "fcntl(2) by number, for descriptors this program does not know")]
fn close_on_exec() {
    for descriptor in 3..1024 {
        // SAFETY: marks descriptors only; a number that is not open is refused.
        unsafe { libc::fcntl(descriptor, libc::F_SETFD, libc::FD_CLOEXEC) };
    }
}

#[expect(unsafe_code, reason = "the signal mask has no safe wrapper")]
fn unblock_signals() {
    // SAFETY: the set is initialised by `sigemptyset` before it is read.
    unsafe {
        let mut none = std::mem::zeroed();
        libc::sigemptyset(&raw mut none);
        libc::pthread_sigmask(libc::SIG_SETMASK, &raw const none, std::ptr::null_mut());
    }
}

/// Signals are blocked in this thread for as long as this value lives; they are delivered afterwards.
struct BlockedSignals {
    before: libc::sigset_t,
}

impl BlockedSignals {
    #[expect(unsafe_code, reason = "the signal mask has no safe wrapper")]
    fn new() -> Self {
        // SAFETY: both sets are initialised, by `sigfillset` and by `pthread_sigmask`, before they are read.
        unsafe {
            let mut all = std::mem::zeroed();
            let mut before = std::mem::zeroed();
            libc::sigfillset(&raw mut all);
            libc::pthread_sigmask(libc::SIG_SETMASK, &raw const all, &raw mut before);
            Self { before }
        }
    }
}

impl Drop for BlockedSignals {
    #[expect(unsafe_code, reason = "the signal mask has no safe wrapper")]
    fn drop(&mut self) {
        // SAFETY: `before` is the mask this thread had.
        unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, &raw const self.before, std::ptr::null_mut()) };
    }
}

/// Makes sure that ended children can be waited for: whoever starts this process may have left `SIGCHLD` ignored, and then
/// the kernel throws exit statuses away (`wait(2)`).
#[expect(unsafe_code, reason = "dispositions have no safe wrapper")]
pub(crate) fn keep_exit_statuses() {
    // SAFETY: the structure is filled by the first call before it is read; the default action is no handler.
    unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        libc::sigaction(libc::SIGCHLD, std::ptr::null(), &raw mut action);
        if action.sa_sigaction == libc::SIG_IGN || action.sa_flags & libc::SA_NOCLDWAIT != 0 {
            libc::signal(libc::SIGCHLD, libc::SIG_DFL);
        }
    }
}

/// Whether this process was started with the signal ignored, as `nohup` does for `SIGHUP`.
#[expect(unsafe_code, reason = "dispositions have no safe wrapper")]
pub(crate) fn is_ignored(number: i32) -> bool {
    // SAFETY: the structure is filled by the call before it is read.
    unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        libc::sigaction(number, std::ptr::null(), &raw mut action) == 0 && action.sa_sigaction == libc::SIG_IGN
    }
}

/// The socket that whoever started this process handed down under this number; `None` if it is none. To be called once.
#[expect(unsafe_code, reason = "a descriptor that came with the start of the process is known by its number only")]
pub(crate) fn inherited_socket(number: RawFd) -> Option<UnixStream> {
    if number <= 2 {
        return None;
    }
    // SAFETY: the number is only asked about. Nothing here owns a descriptor of that number: none was opened before.
    let is_socket = unsafe {
        let mut stat: libc::stat = std::mem::zeroed();
        libc::fstat(number, &raw mut stat) == 0 && stat.st_mode & libc::S_IFMT == libc::S_IFSOCK
    };
    // SAFETY: it is open, as was just seen, and nobody else takes it.
    let socket = is_socket.then(|| unsafe { UnixStream::from_raw_fd(number) })?;
    rustix::io::fcntl_setfd(&socket, rustix::io::FdFlags::CLOEXEC).ok()?;
    Some(socket)
}

/// No signal that can be ignored ends or stops this process from now on. What it starts gets its own dispositions.
#[expect(unsafe_code, reason = "signal(2) is unsafe for the handlers it can install; this installs none")]
pub(crate) fn ignore_signals() {
    for number in (1..=64).filter(|number| *number != libc::SIGCHLD && *number != libc::SIGCONT) {
        // SAFETY: ignoring is no handler. Numbers that cannot be set are refused and stay as they are.
        unsafe { libc::signal(number, libc::SIG_IGN) };
    }
}
