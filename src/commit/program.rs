//! The `git` program, for the three things libgit2 lacks: filters, signatures, and a check that it is there.
//!
//! Owns the pinned options and the environment; the caller runs and supervises the process. Never lets the program move a
//! branch or touch the index: it only writes objects.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::fmt::Write as _;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use git2::Oid;

use super::refusal::CommitError;
use crate::relpath::RelPath;

/// One program to run.
#[derive(Debug, Clone)]
pub struct Call<'a> {
    /// The program and its arguments; a bare name is looked up on the `PATH` of `env`.
    pub argv: Vec<OsString>,
    /// The folder to run it in.
    pub cwd: &'a Path,
    /// Its whole environment.
    pub env: BTreeMap<OsString, OsString>,
    /// Its standard input.
    pub stdin: Vec<u8>,
}

/// How a program ended.
#[derive(Debug, Clone)]
pub struct ProgramOutput {
    /// Whether it exited with status 0 in time.
    pub success: bool,
    /// In words, for example `exit status 1` or `timed out after 60 s`.
    pub ended: String,
    /// What it wrote to standard output.
    pub stdout: Vec<u8>,
    /// What it wrote to standard error; may be cut.
    pub stderr: Vec<u8>,
}

/// Runs programs under supervision and in bounded time.
pub trait Program {
    /// Runs one program to its end; the error says why it could not be started.
    fn run(&self, call: &Call<'_>) -> Result<ProgramOutput, String>;
}

/// Options that keep the program from running anything of the repository's that was not asked for, and from asking a person.
const PINNED: [&str; 7] = [
    "core.fsmonitor=false",
    "core.hooksPath=/dev/null",
    "core.pager=cat",
    "core.editor=true",
    "core.askPass=true",
    "gc.auto=0",
    "maintenance.auto=false",
];

/// Variables that point git at a repository (`git(1)`, "Environment Variables"): what is started from a hook or an alias has them.
pub const REDIRECTS: [&str; 8] = [
    "GIT_DIR",
    "GIT_WORK_TREE",
    "GIT_COMMON_DIR",
    "GIT_INDEX_FILE",
    "GIT_OBJECT_DIRECTORY",
    "GIT_ALTERNATE_OBJECT_DIRECTORIES",
    "GIT_NAMESPACE",
    "GIT_PREFIX",
];

/// Variables that would let something wait for a person, or run something of theirs.
const ASKING: [&str; 6] = ["GIT_ASKPASS", "SSH_ASKPASS", "GPG_TTY", "DISPLAY", "WAYLAND_DISPLAY", "GIT_EXTERNAL_DIFF"];

/// Variables every program gets.
const SET: [(&str, &str); 7] = [
    ("GIT_TERMINAL_PROMPT", "0"),
    ("GIT_OPTIONAL_LOCKS", "0"),
    ("GIT_EDITOR", "true"),
    ("GIT_PAGER", "cat"),
    ("GIT_LITERAL_PATHSPECS", "1"),
    ("SSH_ASKPASS_REQUIRE", "never"),
    ("LC_ALL", "C"),
];

/// The environment of a program: the coordinator's without what could mislead it or stop it for a question.
pub(super) fn environment(base: &BTreeMap<OsString, OsString>) -> BTreeMap<OsString, OsString> {
    let mut env: BTreeMap<OsString, OsString> = base
        .iter()
        .filter(|(name, _)| !REDIRECTS.iter().chain(&ASKING).any(|removed| name.as_os_str() == *removed))
        .map(clone)
        .collect();
    env.extend(SET.iter().map(|(name, value)| (OsString::from(name), OsString::from(value))));
    env
}

fn clone((name, value): (&OsString, &OsString)) -> (OsString, OsString) {
    (name.clone(), value.clone())
}

/// `git` with the pinned options and `arguments`.
pub(super) fn git(arguments: &[&OsStr]) -> Vec<OsString> {
    let mut argv = vec![OsString::from("git")];
    for option in PINNED {
        argv.extend([OsString::from("-c"), OsString::from(option)]);
    }
    argv.extend(arguments.iter().map(|argument| (*argument).to_owned()));
    argv
}

/// Runs a call and gives its standard output; anything but success is an error with the end of what it said.
pub(super) fn run(program: &dyn Program, purpose: &str, call: &Call<'_>) -> Result<Vec<u8>, CommitError> {
    let failed = |reason| CommitError::Program { purpose: purpose.to_owned(), reason };
    let output = program.run(call).map_err(failed)?;
    if output.success {
        return Ok(output.stdout);
    }
    let said = [last_lines(&output.stdout), last_lines(&output.stderr)].concat();
    Err(failed(if said.is_empty() { output.ended } else { format!("{}\n{}", output.ended, said.trim_end()) }))
}

/// The end of a program's output, without control characters.
fn last_lines(bytes: &[u8]) -> String {
    const KEPT: usize = 4096;
    let text = String::from_utf8_lossy(&bytes[bytes.len().saturating_sub(KEPT)..]);
    let text: String = text.chars().filter(|c| !c.is_control() || matches!(c, '\n' | '\t')).collect();
    if text.trim().is_empty() { String::new() } else { format!("{}\n", text.trim()) }
}

/// The object ids git gives the contents of `paths` after their filters; with `write` the blobs are stored.
pub(super) fn hash_objects(
    program: &dyn Program,
    place: (&Path, &BTreeMap<OsString, OsString>),
    paths: &[&RelPath],
    write: bool,
) -> Result<Vec<Oid>, CommitError> {
    const PURPOSE: &str = "git hash-object";
    let mut arguments = vec![OsStr::new("hash-object"), OsStr::new("--stdin-paths")];
    if write {
        arguments.push(OsStr::new("-w"));
    }
    let stdin = paths.iter().flat_map(|path| quoted(path)).collect();
    let call = Call { argv: git(&arguments), cwd: place.0, env: environment(place.1), stdin };
    let stdout = run(program, PURPOSE, &call)?;
    let ids: Vec<Oid> = String::from_utf8_lossy(&stdout).lines().filter_map(|line| Oid::from_str(line).ok()).collect();
    if ids.len() == paths.len() {
        Ok(ids)
    } else {
        let reason = format!("{} object ids came back for {} files", ids.len(), paths.len());
        Err(CommitError::Program { purpose: PURPOSE.to_owned(), reason })
    }
}

/// A path on a line of its own in git's C-style quotes, so that any byte can be in it.
fn quoted(path: &RelPath) -> Vec<u8> {
    let mut text = String::from("\"");
    for byte in path.as_bytes() {
        match byte {
            b'"' | b'\\' => {
                text.push('\\');
                text.push(char::from(*byte));
            }
            0x20..0x7f => text.push(char::from(*byte)),
            _ => write!(text, "\\{byte:03o}").expect("writing to a String cannot fail"),
        }
    }
    text.push_str("\"\n");
    text.into_bytes()
}

/// The trimmed first line of a program's output as an object id.
pub(super) fn object_id(purpose: &str, stdout: &[u8]) -> Result<Oid, CommitError> {
    let line = stdout.split(|byte| *byte == b'\n').next().unwrap_or_default();
    std::str::from_utf8(line).ok().and_then(|line| Oid::from_str(line.trim()).ok()).ok_or_else(|| {
        let shown = OsStr::from_bytes(line).to_string_lossy().into_owned();
        CommitError::Program { purpose: purpose.to_owned(), reason: format!("{shown:?} is no object id") }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_of_any_bytes_is_quoted_as_git_reads_it() {
        assert_eq!(quoted(&RelPath::new(b"a \"b\"\\\n\xff".to_vec())), b"\"a \\\"b\\\"\\\\\\012\\377\"\n");
    }

    #[test]
    fn nothing_in_the_environment_points_git_elsewhere_or_lets_it_ask() {
        let base = [("GIT_DIR", "/x"), ("DISPLAY", ":0"), ("PATH", "/bin"), ("GIT_TERMINAL_PROMPT", "1")];
        let base = base.iter().map(|(name, value)| (OsString::from(name), OsString::from(value))).collect();
        let env = environment(&base);
        assert!(!env.contains_key(OsStr::new("GIT_DIR")) && !env.contains_key(OsStr::new("DISPLAY")));
        assert_eq!(env[OsStr::new("GIT_TERMINAL_PROMPT")], "0");
        assert_eq!(env[OsStr::new("PATH")], "/bin");
    }
}
