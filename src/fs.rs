//! The file door: every write of the coordinator goes through here, and every error names its path.
//!
//! A file is replaced atomically: temporary file in the same folder, sync, rename, sync of the folder (`fsync(2)`: "calling
//! `fsync()` does not necessarily ensure that the entry in the directory containing the file has also reached disk").
//! Never decides what is written where.

#![expect(clippy::disallowed_methods, reason = "this is the door for files")]

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use serde::de::DeserializeOwned;

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

/// The whole content of a file.
pub fn read(path: &Path) -> Result<Vec<u8>> {
    std::fs::read(path).map_err(|e| FileError::new("read", path, e))
}

/// The whole content of a file, or `None` if there is no such file.
pub fn read_if_present(path: &Path) -> Result<Option<Vec<u8>>> {
    match std::fs::read(path) {
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

/// Replaces the file at `path` atomically and durably: missing parents are made, mode 0644 less the umask.
pub fn replace(path: &Path, content: &[u8]) -> Result<()> {
    replace_with_mode(path, content, 0o644)
}

/// As [`replace`], readable by the user only (mode 0600).
pub fn replace_private(path: &Path, content: &[u8]) -> Result<()> {
    replace_with_mode(path, content, 0o600)
}

/// As [`replace`], with the given mode less the umask.
pub fn replace_with_mode(path: &Path, content: &[u8], mode: u32) -> Result<()> {
    let fail = |e| FileError::new("write", path, e);
    let folder = folder_of(path);
    make_folder(folder)?;
    let mut temporary = tempfile::Builder::new()
        .prefix(".runner-")
        .suffix(".tmp")
        .permissions(std::fs::Permissions::from_mode(mode))
        .tempfile_in(folder)
        .map_err(fail)?;
    temporary.write_all(content).map_err(fail)?;
    crate::fault::point("replace:written");
    temporary.as_file().sync_all().map_err(fail)?;
    crate::fault::point("replace:synced");
    temporary.persist(path).map_err(|e| fail(e.error))?;
    crate::fault::point("replace:renamed");
    sync_folder(folder)?;
    crate::fault::point("replace:done");
    Ok(())
}

/// Removes a file if it is there, and syncs its folder.
pub fn remove(path: &Path) -> Result<()> {
    match std::fs::remove_file(path) {
        Ok(()) => sync_folder(folder_of(path)),
        Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(e) => Err(FileError::new("remove", path, e)),
    }
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

/// Opens an existing file for reading.
pub fn open_to_read(path: &Path) -> Result<File> {
    File::open(path).map_err(|e| FileError::new("open", path, e))
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
pub fn copy_aside(from: &Path, to: &Path) -> Result<bool> {
    let fail = |e| FileError::new("copy aside", from, e);
    let kind = match from.symlink_metadata() {
        Ok(metadata) => metadata.file_type(),
        Err(e) if matches!(e.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => return Ok(false),
        Err(e) => return Err(fail(e)),
    };
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
    } else if kind.is_file() {
        std::fs::copy(from, to).map_err(fail)?;
    }
    sync_folder(folder_of(to))?;
    Ok(true)
}

/// Makes a folder with a short, fresh name below `parent` that only the user may enter; it goes when the value is dropped.
pub fn temporary_folder(parent: &Path) -> Result<tempfile::TempDir> {
    tempfile::Builder::new()
        .prefix("runner-")
        .permissions(std::fs::Permissions::from_mode(0o700))
        .tempdir_in(parent)
        .map_err(|e| FileError::new("make a temporary folder in", parent, e))
}

/// The folder a path lies in.
fn folder_of(path: &Path) -> &Path {
    path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

/// Makes renames and removals in `folder` durable.
fn sync_folder(folder: &Path) -> Result<()> {
    File::open(folder).and_then(|file| file.sync_all()).map_err(|e| FileError::new("sync the folder", folder, e))
}
