//! The file door: every write of the coordinator goes through here, and every error names its path.
//!
//! What has to survive a power failure is written by the `durable` half; the rest of the door is here. Never decides what is written
//! where.

#![expect(clippy::disallowed_methods, reason = "this is the door for files")]

mod durable;
pub mod swap;

use std::fs::{File, OpenOptions};
use std::io::{self, Read};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

pub use durable::{
    Change, Order, at_once, change, remove, remove_unsynced, replace, replace_private, replace_unsynced,
    replace_with_mode,
};
use durable::{TEMPORARY_END, TEMPORARY_START, sync_folder};

use serde::de::DeserializeOwned;

/// A larger file is never read whole, in bytes: 256 MiB.
pub const LARGEST_READ: u64 = 256 << 20;

/// A file operation that failed: what was being done to which path.
#[derive(Debug, thiserror::Error)]
#[error("cannot {action} {}", path.display())]
pub struct FileError {
    action: &'static str,
    path: PathBuf,
    source: io::Error,
}

impl FileError {
    fn new(action: &'static str, path: &Path, source: io::Error) -> Self {
        Self { action, path: path.to_owned(), source }
    }

    /// The kind of the underlying error.
    pub fn kind(&self) -> io::ErrorKind {
        self.source.kind()
    }

    /// The path the operation was about.
    pub fn path(&self) -> &Path {
        &self.path
    }
}

/// A JSON file that could not be read or parsed.
#[derive(Debug, thiserror::Error)]
pub enum JsonError {
    /// The file could not be read.
    #[error(transparent)]
    File(#[from] FileError),
    /// The text is no JSON of the expected shape; line and column count from 1.
    #[error("{}:{}:{}: {}", path.display(), source.line(), source.column(), without_position(source))]
    Syntax {
        /// The file.
        path: PathBuf,
        /// What the parser said.
        #[source]
        source: serde_json::Error,
    },
}

/// The parser's text without its own " at line L column C", which the message gives in the `file:line:column` form.
fn without_position(error: &serde_json::Error) -> String {
    let text = error.to_string();
    match text.rfind(" at line ") {
        Some(at) => text[..at].to_owned(),
        None => text,
    }
}

type Result<T, E = FileError> = std::result::Result<T, E>;

/// The whole content of a regular file; a FIFO or a device is an error, never a wait.
pub fn read(path: &Path) -> Result<Vec<u8>> {
    read_regular(path).map_err(|e| FileError::new("read", path, e))
}

/// Opens without waiting (`open(2)`, `O_NONBLOCK`: opening a FIFO for reading succeeds at once), then reads if it is a file.
fn read_regular(path: &Path) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    open_regular(path)?.take(LARGEST_READ + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > LARGEST_READ {
        return Err(io::Error::new(io::ErrorKind::FileTooLarge, "it is larger than 256 MiB"));
    }
    Ok(bytes)
}

fn open_regular(path: &Path) -> io::Result<File> {
    let flags = rustix::fs::OFlags::NONBLOCK | rustix::fs::OFlags::NOCTTY;
    let flags = i32::try_from(flags.bits()).map_err(io::Error::other)?;
    let file = OpenOptions::new().read(true).custom_flags(flags).open(path)?;
    let kind = file.metadata()?.file_type();
    // Reading a folder says what is wrong in the system's own words.
    if !kind.is_file() && !kind.is_dir() {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "it is no regular file"));
    }
    Ok(file)
}

/// The first `most` bytes of a regular file, fewer if it is shorter.
pub fn read_head(path: &Path, most: usize) -> Result<Vec<u8>> {
    let mut bytes = Vec::with_capacity(most);
    let limit = u64::try_from(most).unwrap_or(u64::MAX);
    open_regular(path)
        .and_then(|file| file.take(limit).read_to_end(&mut bytes))
        .map_err(|e| FileError::new("read", path, e))?;
    Ok(bytes)
}

/// The whole content of a file, or `None` if there is no such file.
pub fn read_if_present(path: &Path) -> Result<Option<Vec<u8>>> {
    match read_regular(path) {
        Ok(bytes) => Ok(Some(bytes)),
        Err(e) if matches!(e.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => Ok(None),
        Err(e) => Err(FileError::new("read", path, e)),
    }
}

/// Parses a JSON file; the error names file, line and column.
pub fn read_json<T: DeserializeOwned>(path: &Path) -> Result<T, JsonError> {
    parse_json(path, &read(path)?)
}

/// Parses bytes that came from `path`.
pub fn parse_json<T: DeserializeOwned>(path: &Path, bytes: &[u8]) -> Result<T, JsonError> {
    serde_json::from_slice(bytes).map_err(|source| JsonError::Syntax { path: path.to_owned(), source })
}

/// Names in a folder, sorted bytewise; `None` if there is no such folder.
pub fn list(folder: &Path) -> Result<Option<Vec<PathBuf>>> {
    let fail = |e| FileError::new("list", folder, e);
    let entries = match std::fs::read_dir(folder) {
        Ok(entries) => entries,
        Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(e) => return Err(fail(e)),
    };
    let mut paths =
        entries.map(|entry| entry.map(|entry| entry.path())).collect::<io::Result<Vec<_>>>().map_err(fail)?;
    paths.sort();
    Ok(Some(paths))
}

/// Makes a folder and its missing parents.
pub fn make_folder(path: &Path) -> Result<()> {
    std::fs::create_dir_all(path).map_err(|e| FileError::new("make the folder", path, e))
}

/// Makes a folder, and its missing parents, that only the user may enter (mode 0700).
pub fn make_private_folder(path: &Path) -> Result<()> {
    make_folder(path)?;
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o700))
        .map_err(|e| FileError::new("restrict the folder", path, e))
}

/// Whether a file name is that of a replacement that a killed process left unfinished.
pub fn is_leftover(name: &[u8]) -> bool {
    let middle =
        name.strip_prefix(TEMPORARY_START.as_bytes()).and_then(|rest| rest.strip_suffix(TEMPORARY_END.as_bytes()));
    middle.is_some_and(|middle| middle.len() == 6 && middle.iter().all(u8::is_ascii_alphanumeric))
}

/// Removes unfinished replacements that killed processes left in a folder, and in folders so many levels below it.
pub fn remove_leftovers(folder: &Path, levels: u32) -> Result<()> {
    let fail = |e| FileError::new("list", folder, e);
    let entries = match std::fs::read_dir(folder) {
        Err(e) if matches!(e.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => return Ok(()),
        other => other.map_err(fail)?,
    };
    for entry in entries {
        let entry = entry.map_err(fail)?;
        let kind = entry.file_type().map_err(fail)?;
        if kind.is_file() && is_leftover(entry.file_name().as_encoded_bytes()) {
            remove(&entry.path())?;
        } else if kind.is_dir() && levels > 0 {
            remove_leftovers(&entry.path(), levels - 1)?;
        }
    }
    Ok(())
}

/// Removes a folder with all it holds, if it is there. Links inside are removed, not followed.
pub fn remove_folder(path: &Path) -> Result<()> {
    match std::fs::remove_dir_all(path) {
        Err(e) if e.kind() != io::ErrorKind::NotFound => Err(FileError::new("remove the folder", path, e)),
        _ => Ok(()),
    }
}

/// Removes the folders that held `path`, innermost first, as long as they are empty, up to but not including `top`.
pub fn remove_empty_folders(path: &Path, top: &Path) {
    let above = path.ancestors().skip(1).take_while(|folder| *folder != top && folder.starts_with(top));
    for folder in above {
        if std::fs::remove_dir(folder).is_err() {
            return;
        }
    }
}

/// Opens a lock file or a folder to lock, making a missing file; never truncates.
pub fn open_for_lock(path: &Path) -> Result<File> {
    if path.is_dir() {
        return File::open(path).map_err(|e| FileError::new("open", path, e));
    }
    make_folder(folder_of(path))?;
    OpenOptions::new()
        .create(true)
        .truncate(false)
        .read(true)
        .write(true)
        .mode(0o600)
        .open(path)
        .map_err(|e| FileError::new("open", path, e))
}

/// Opens an existing regular file for reading.
pub fn open_to_read(path: &Path) -> Result<File> {
    open_regular(path).map_err(|e| FileError::new("open", path, e))
}

/// Opens a new, empty, append-only file that only the user may read (mode 0600).
pub fn open_log(path: &Path) -> Result<File> {
    make_folder(folder_of(path))?;
    OpenOptions::new()
        .create(true)
        .append(true)
        .mode(0o600)
        .open(path)
        .and_then(|file| file.set_len(0).map(|()| file))
        .map_err(|e| FileError::new("open", path, e))
}

/// Opens a file to add to its end, a new one readable by the user only (mode 0600). A FIFO without a reader is an error, never a
/// wait (`open(2)`, `ENXIO`); once it is open, writing to it waits for its reader.
pub fn open_to_append(path: &Path) -> Result<File> {
    let fail = |e| FileError::new("open", path, e);
    let flags = rustix::fs::OFlags::NONBLOCK | rustix::fs::OFlags::NOCTTY;
    let flags = i32::try_from(flags.bits()).map_err(|e| fail(io::Error::other(e)))?;
    let file = OpenOptions::new().create(true).append(true).mode(0o600).custom_flags(flags).open(path).map_err(fail)?;
    let set = rustix::fs::fcntl_getfl(&file).map_err(|e| fail(e.into()))?;
    rustix::fs::fcntl_setfl(&file, set - rustix::fs::OFlags::NONBLOCK).map_err(|e| fail(e.into()))?;
    Ok(file)
}

/// Whether a folder on the way from `top` to `path` is no folder: what lies behind a link is somewhere else.
pub fn is_behind_link(path: &Path, top: &Path) -> bool {
    let above = path.ancestors().skip(1).take_while(|folder| *folder != top && folder.starts_with(top));
    above.into_iter().any(|folder| folder.symlink_metadata().is_ok_and(|metadata| !metadata.is_dir()))
}

/// Moves whatever is at `path`, if it is no folder on the way to something, out of the way into `aside` under a free name.
pub fn make_way(path: &Path, aside: &Path) -> Result<PathBuf> {
    make_folder(aside)?;
    let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let mut number = 1_u32;
    let free = loop {
        let place = aside.join(format!("{name}.{number}"));
        if place.symlink_metadata().is_err() {
            break place;
        }
        number += 1;
    };
    std::fs::rename(path, &free).map_err(|e| FileError::new("move aside", path, e))?;
    sync_folder(aside)?;
    sync_folder(folder_of(path))?;
    Ok(free)
}

/// Moves a folder to `wanted`, or to that name with a number if it is taken; says where it lies now.
pub fn move_folder(path: &Path, wanted: &Path) -> Result<PathBuf> {
    let numbered = |number: u32| {
        let mut name = wanted.as_os_str().to_owned();
        name.push(format!(".{number}"));
        PathBuf::from(name)
    };
    let mut names = std::iter::once(wanted.to_owned()).chain((2..).map(numbered));
    let free = names.find(|place| place.symlink_metadata().is_err()).unwrap_or_else(|| wanted.to_owned());
    make_folder(folder_of(&free))?;
    std::fs::rename(path, &free).map_err(|e| FileError::new("move aside", path, e))?;
    sync_folder(folder_of(&free))?;
    Ok(free)
}

/// Makes `path` a link to `target`, in a folder that is made if missing.
pub fn make_link(path: &Path, target: &Path) -> Result<()> {
    make_folder(folder_of(path))?;
    std::os::unix::fs::symlink(target, path).map_err(|e| FileError::new("make the link", path, e))
}

/// Opens a new, empty file that only the user may read (mode 0600), to write and read at any place.
pub fn open_bounded_log(path: &Path) -> Result<File> {
    make_folder(folder_of(path))?;
    let opened = OpenOptions::new().create(true).truncate(true).read(true).write(true).mode(0o600).open(path);
    opened.map_err(|e| FileError::new("open", path, e))
}

/// Makes a file without a name in `folder`, to read and to append to; its space is free again when nobody has it open.
pub fn scratch_file(folder: &Path) -> Result<File> {
    let fail = |e| FileError::new("make a scratch file in", folder, e);
    let file = tempfile::tempfile_in(folder).map_err(fail)?;
    let flags = rustix::fs::fcntl_getfl(&file).map_err(|e| fail(e.into()))?;
    rustix::fs::fcntl_setfl(&file, flags | rustix::fs::OFlags::APPEND).map_err(|e| fail(e.into()))?;
    Ok(file)
}

/// Another descriptor of an open file in `folder`.
pub fn duplicate(file: &File, folder: &Path) -> Result<File> {
    file.try_clone().map_err(|e| FileError::new("use a scratch file in", folder, e))
}

/// Copies a file, link or folder with all it holds to `to`, links as links; false if there is nothing at `from`.
///
/// The caller knows that no folder on the way to either is a link ([`is_behind_link`]).
pub fn copy_aside(from: &Path, to: &Path) -> Result<bool> {
    let fail = |e| FileError::new("copy aside", from, e);
    let kind = match from.symlink_metadata() {
        Ok(metadata) => metadata.file_type(),
        Err(e) if matches!(e.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => return Ok(false),
        Err(e) => return Err(fail(e)),
    };
    open_up(from, kind);
    if kind.is_dir() {
        make_folder(to)?;
        for entry in list(from)?.unwrap_or_default() {
            copy_aside(&entry, &to.join(entry.file_name().unwrap_or_default()))?;
        }
        return Ok(true);
    }
    make_folder(folder_of(to))?;
    if kind.is_symlink() {
        let target = std::fs::read_link(from).map_err(fail)?;
        std::os::unix::fs::symlink(target, to).map_err(fail)?;
    } else if kind.is_file() && !is_moved(from, to) {
        std::fs::copy(from, to).map_err(fail)?;
    }
    sync_folder(folder_of(to))?;
    Ok(true)
}

/// Whether a file too large to be read whole, which may be sparse and larger than the disk, was moved instead of copied.
fn is_moved(from: &Path, to: &Path) -> bool {
    from.metadata().is_ok_and(|metadata| metadata.len() > LARGEST_READ) && std::fs::rename(from, to).is_ok()
}

/// Lets the user into a folder again that a session closed to its own user; where that fails, the next step says why.
pub fn open_folder_up(folder: &Path) {
    if let Ok(metadata) = folder.symlink_metadata() {
        open_up(folder, metadata.file_type());
    }
}

/// Makes what a session closed to its own user readable again; where that fails, the next step says why.
fn open_up(path: &Path, kind: std::fs::FileType) {
    let wanted = if kind.is_dir() { 0o700 } else { 0o600 };
    if kind.is_symlink() || !path.metadata().is_ok_and(|metadata| metadata.mode() & wanted != wanted) {
        return;
    }
    if let Ok(metadata) = path.metadata() {
        drop(std::fs::set_permissions(path, std::fs::Permissions::from_mode(metadata.mode() & 0o7777 | wanted)));
    }
}

/// Makes a folder with a short, fresh name below `parent` that only the user may enter; it goes when the value is dropped.
pub fn temporary_folder(parent: &Path) -> Result<tempfile::TempDir> {
    tempfile::Builder::new()
        .prefix("runner-")
        .permissions(std::fs::Permissions::from_mode(0o700))
        .tempdir_in(parent)
        .map_err(|e| FileError::new("make a temporary folder in", parent, e))
}

/// Removes a temporary folder with all it holds, also folders in it that were made read-only; one that is gone is no error.
pub fn remove_temporary(folder: tempfile::TempDir) -> Result<()> {
    remove_stubborn_folder(&folder.keep())
}

/// As [`remove_folder`], also if folders in it were made read-only.
pub fn remove_stubborn_folder(path: &Path) -> Result<()> {
    match remove_folder(path) {
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
            allow_entry(path);
            remove_folder(path)
        }
        other => other,
    }
}

/// Lets the user into a folder and those below it; what cannot be changed shows up when it is removed.
fn allow_entry(folder: &Path) {
    // Setting permissions follows a link, and a link leads elsewhere.
    let is_real = folder.symlink_metadata().is_ok_and(|metadata| metadata.is_dir());
    if is_real
        && std::fs::set_permissions(folder, std::fs::Permissions::from_mode(0o700)).is_ok()
        && let Ok(entries) = std::fs::read_dir(folder)
    {
        let is_folder = |entry: &std::fs::DirEntry| entry.file_type().is_ok_and(|kind| kind.is_dir());
        entries.filter_map(io::Result::ok).filter(is_folder).for_each(|entry| allow_entry(&entry.path()));
    }
}

/// The folder a path lies in.
fn folder_of(path: &Path) -> &Path {
    path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."))
}
