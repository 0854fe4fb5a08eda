//! What lies at a path in the work tree, and which object git makes of it.
//!
//! Owns the rules by which a file becomes a blob: links, modes, conversions. A path that can only be reached through a link is
//! not there, as for git.

use std::collections::HashMap;
use std::fs::Metadata;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;

use git2::{AttrCheckFlags, AttrValue, IndexEntry, IndexTime, ObjectType, Oid};

use super::git::Repository;
use super::program;
use super::refusal::{CommitError, GitError};
use crate::fs;
use crate::relpath::RelPath;

/// Git's mode of a link.
pub(super) const LINK: u32 = 0o120_000;
/// Git's mode of a submodule.
pub(super) const SUBMODULE: u32 = 0o160_000;
const FILE: u32 = 0o100_644;
const EXECUTABLE: u32 = 0o100_755;

/// A file or link of the work tree.
pub(super) struct Found {
    pub(super) mode: u32,
    pub(super) bytes: Vec<u8>,
    /// As it was before the bytes were read.
    metadata: Metadata,
}

/// A file or link whose content is in the object store.
#[derive(Debug, Clone)]
pub(super) struct Stored {
    pub(super) mode: u32,
    pub(super) oid: Oid,
    pub(super) metadata: Metadata,
}

/// Who turns the bytes of a file into those of its blob.
enum Conversion {
    /// Nobody: they are the same.
    None,
    /// libgit2: line ends or `$Id$`.
    Simple,
    /// The `git` program: a filter or an encoding.
    Program,
}

/// What a folder on the way to a path is.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Way {
    Folder,
    Repository,
    /// Not there, a file or a link.
    Closed,
}

/// Looks at paths, and remembers the folders on the way.
pub(super) struct Looker<'a> {
    repository: &'a Repository,
    ways: HashMap<Vec<u8>, Way>,
    file_mode: bool,
}

impl<'a> Looker<'a> {
    pub(super) fn new(repository: &'a Repository) -> Self {
        Self { repository, ways: HashMap::new(), file_mode: repository.file_mode() }
    }

    /// The file or link at `path`; `None` if there is none, also if a folder has its name.
    pub(super) fn look(&mut self, path: &RelPath) -> Result<Option<Found>, CommitError> {
        if !is_plain(path) {
            return Err(CommitError::BadPath { path: path.clone() });
        }
        if !self.is_reachable(path)? {
            return Ok(None);
        }
        let full = path.under(&self.repository.root);
        let Ok(metadata) = full.symlink_metadata() else { return Ok(None) };
        if metadata.is_dir() {
            return self.refuse_repository(path, path.as_bytes(), full.join(".git").exists()).map(|()| None);
        }
        if metadata.is_symlink() {
            let Ok(target) = full.read_link() else { return Ok(None) };
            return Ok(Some(Found { mode: LINK, bytes: target.as_os_str().as_bytes().to_owned(), metadata }));
        }
        if !metadata.is_file() {
            return Err(CommitError::SpecialFile { path: path.clone() });
        }
        if metadata.len() > fs::LARGEST_READ {
            if !self.repository.needs_program(path)? {
                return Err(CommitError::TooLarge { path: path.clone() });
            }
            // A filter's program reads the file itself.
            return Ok(Some(Found { mode: self.mode(path, &metadata), bytes: Vec::new(), metadata }));
        }
        let Some(bytes) = fs::read_if_present(&full)? else { return Ok(None) };
        Ok(Some(Found { mode: self.mode(path, &metadata), bytes, metadata }))
    }

    /// Whether every folder above `path` is one, and none belongs to another repository.
    fn is_reachable(&mut self, path: &RelPath) -> Result<bool, CommitError> {
        let bytes = path.as_bytes();
        for (end, _) in bytes.iter().enumerate().filter(|(_, byte)| **byte == b'/') {
            match self.way(&bytes[..end]) {
                Way::Folder => {}
                Way::Repository => self.refuse_repository(path, &bytes[..end], true)?,
                Way::Closed => return Ok(false),
            }
        }
        Ok(true)
    }

    fn way(&mut self, folder: &[u8]) -> Way {
        if let Some(way) = self.ways.get(folder) {
            return *way;
        }
        let full = RelPath::new(folder).under(&self.repository.root);
        let way = match full.symlink_metadata() {
            Ok(metadata) if metadata.is_dir() => {
                if full.join(".git").symlink_metadata().is_ok() {
                    Way::Repository
                } else {
                    Way::Folder
                }
            }
            _ => Way::Closed,
        };
        self.ways.insert(folder.to_owned(), way);
        way
    }

    /// A folder with a `.git` of its own, or one that the index calls a submodule.
    fn refuse_repository(&self, path: &RelPath, folder: &[u8], has_git: bool) -> Result<(), CommitError> {
        let repository = RelPath::new(folder);
        let entry = self.repository.index.get_path(repository.as_path(), 0);
        if entry.is_some_and(|entry| entry.mode == SUBMODULE) {
            return Err(CommitError::Submodule { path: path.clone(), submodule: repository });
        }
        if has_git { Err(CommitError::NestedRepository { path: path.clone(), repository }) } else { Ok(()) }
    }

    /// Git knows two modes of a file; where the file system keeps none, the known one stays (`core.fileMode`).
    fn mode(&self, path: &RelPath, metadata: &Metadata) -> u32 {
        if self.file_mode {
            return if metadata.mode() & 0o100 == 0 { FILE } else { EXECUTABLE };
        }
        let known = self.repository.index.get_path(path.as_path(), 0).map(|entry| entry.mode);
        known.filter(|mode| *mode == EXECUTABLE).unwrap_or(FILE)
    }
}

impl Repository {
    /// Stores what lies at each path; `None` for a path that is gone.
    pub(super) fn store(&self, paths: &[RelPath]) -> Result<Vec<(RelPath, Option<Stored>)>, CommitError> {
        let fail = || GitError::new("store a file in the repository");
        let mut looker = Looker::new(self);
        let mut all = Vec::with_capacity(paths.len());
        let mut for_program = Vec::new();
        for path in paths {
            let Some(found) = looker.look(path)? else {
                all.push((path.clone(), None));
                continue;
            };
            let oid = match self.conversion(path, &found)? {
                Conversion::None => self.git.blob(&found.bytes).map_err(fail())?,
                Conversion::Simple => self.store_converted(path, &found.bytes).map_err(fail())?,
                Conversion::Program => {
                    for_program.push(all.len());
                    Oid::ZERO_SHA1
                }
            };
            all.push((path.clone(), Some(Stored { mode: found.mode, oid, metadata: found.metadata })));
        }
        let names: Vec<&RelPath> = for_program.iter().map(|at| &all[*at].0).collect();
        let oids = self.hash_by_program(&names, true)?;
        for (at, oid) in for_program.into_iter().zip(oids) {
            all[at].1.as_mut().expect("only files that are there go to the program").oid = oid;
        }
        Ok(all)
    }

    /// The blob ids the `git` program gives, after its filters.
    pub(super) fn hash_by_program(&self, paths: &[&RelPath], write: bool) -> Result<Vec<Oid>, CommitError> {
        if paths.is_empty() {
            return Ok(Vec::new());
        }
        program::hash_objects(self.program(), (&self.root, &self.surroundings.env), paths, write)
    }

    /// Stores a blob after libgit2's own conversions for that path.
    fn store_converted(&self, path: &RelPath, bytes: &[u8]) -> Result<Oid, git2::Error> {
        use std::io::Write as _;
        let mut writer = self.git.blob_writer(Some(path.as_path()))?;
        writer.write_all(bytes).map_err(|error| git2::Error::from_str(&error.to_string()))?;
        writer.commit()
    }

    /// Which files, of those whose bytes are not those of the blob git knows, are the same after conversion.
    pub(super) fn same_after_conversion(&self, doubtful: &[(RelPath, Found, Oid)]) -> Result<Vec<bool>, CommitError> {
        let mut same = vec![false; doubtful.len()];
        let mut for_program = Vec::new();
        for (at, (path, found, known)) in doubtful.iter().enumerate() {
            match self.conversion(path, found)? {
                Conversion::None => {}
                Conversion::Simple => {
                    let oid = self.store_converted(path, &found.bytes);
                    same[at] = oid.map_err(GitError::new("convert a file as git does"))? == *known;
                }
                Conversion::Program => for_program.push(at),
            }
        }
        let names: Vec<&RelPath> = for_program.iter().map(|at| &doubtful[*at].0).collect();
        for (at, oid) in for_program.iter().zip(self.hash_by_program(&names, false)?) {
            same[*at] = oid == doubtful[*at].2;
        }
        Ok(same)
    }

    /// Which conversion the attributes and the configuration ask for (`gitattributes(5)`).
    ///
    /// Line ends are only ever changed by dropping carriage returns, and `ident` only touches `$Id`: a file without them
    /// is stored as it is.
    fn conversion(&self, path: &RelPath, found: &Found) -> Result<Conversion, CommitError> {
        if found.mode == LINK {
            return Ok(Conversion::None);
        }
        if self.needs_program(path)? {
            return Ok(Conversion::Program);
        }
        let holds = |needle: &[u8]| found.bytes.windows(needle.len()).any(|window| window == needle);
        let line_ends = found.bytes.contains(&b'\r') && {
            let automatic = self.config.get_string("core.autocrlf").is_ok_and(|value| !is_false(&value));
            automatic
                || self.has_attribute(path, "text")?
                || self.has_attribute(path, "eol")?
                || self.has_attribute(path, "crlf")?
        };
        let simple = line_ends || (holds(b"$Id") && self.has_attribute(path, "ident")?);
        Ok(if simple { Conversion::Simple } else { Conversion::None })
    }

    /// A filter that is configured (one that is not is no filter), or an encoding that is not UTF-8.
    pub(super) fn needs_program(&self, path: &RelPath) -> Result<bool, GitError> {
        if let Some(name) = self.attribute_text(path, "filter")? {
            let set = |key| self.config.get_entry(&format!("filter.{name}.{key}")).is_ok();
            if set("clean") || set("process") {
                return Ok(true);
            }
        }
        let encoding = self.attribute_text(path, "working-tree-encoding")?;
        Ok(encoding.is_some_and(|name| !name.eq_ignore_ascii_case("utf-8") && !name.eq_ignore_ascii_case("utf8")))
    }

    fn attribute(&self, path: &RelPath, name: &str) -> Result<Option<&[u8]>, GitError> {
        let flags = AttrCheckFlags::FILE_THEN_INDEX;
        self.git.get_attr_bytes(path.as_path(), name, flags).map_err(GitError::new("read the attributes of a path"))
    }

    fn attribute_text(&self, path: &RelPath, name: &str) -> Result<Option<String>, GitError> {
        Ok(match AttrValue::always_bytes(self.attribute(path, name)?) {
            AttrValue::Bytes(text) => Some(String::from_utf8_lossy(text).into_owned()),
            _ => None,
        })
    }

    pub(super) fn has_attribute(&self, path: &RelPath, name: &str) -> Result<bool, GitError> {
        let value = AttrValue::always_bytes(self.attribute(path, name)?);
        Ok(!matches!(value, AttrValue::False | AttrValue::Unspecified))
    }
}

/// Whether a path stays below the root, goes the straight way, and keeps out of git's own folders.
fn is_plain(path: &RelPath) -> bool {
    let special = |name: &[u8]| matches!(name, b"" | b"." | b"..") || name.eq_ignore_ascii_case(b".git");
    !path.as_bytes().contains(&0) && !path.as_bytes().split(|byte| *byte == b'/').any(special)
}

fn is_false(value: &str) -> bool {
    ["false", "no", "off", "0", ""].iter().any(|text| value.eq_ignore_ascii_case(text))
}

/// The object id of bytes that are not converted.
pub(super) fn plain_id(bytes: &[u8]) -> Result<Oid, GitError> {
    Oid::hash_object(ObjectType::Blob, bytes).map_err(GitError::new("hash a file"))
}

/// An index entry; with `metadata` it also says what the file looked like, cut to 32 bits as git cuts it.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "gitformat-index(5) keeps the low 32 bits")]
pub(super) fn index_entry(path: &RelPath, object: (Oid, u32), metadata: Option<&Metadata>) -> IndexEntry {
    let number = |value: fn(&Metadata) -> u64| metadata.map_or(0, |metadata| value(metadata) as u32);
    let time = |value: fn(&Metadata) -> (i64, i64)| {
        let (seconds, nanoseconds) = metadata.map_or((0, 0), value);
        IndexTime::new(seconds as i32, nanoseconds as u32)
    };
    IndexEntry {
        ctime: time(|m| (m.ctime(), m.ctime_nsec())),
        mtime: time(|m| (m.mtime(), m.mtime_nsec())),
        dev: number(MetadataExt::dev),
        ino: number(MetadataExt::ino),
        mode: object.1,
        uid: number(|m| m.uid().into()),
        gid: number(|m| m.gid().into()),
        file_size: number(MetadataExt::size),
        id: object.0,
        flags: 0,
        flags_extended: 0,
        path: path.as_bytes().to_owned(),
    }
}
