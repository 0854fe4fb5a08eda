//! The agent's command: placeholders filled in, and the program found before anything is claimed.
//!
//! Never goes through a shell and never starts the program.

use std::borrow::Cow;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use crate::fs;
use crate::ids::Role;

/// A command that cannot be launched on this machine.
#[derive(Debug, thiserror::Error)]
pub enum CommandError {
    /// Neither a command nor an agent is named.
    #[error(
        "no command is configured for role `{role}`; set `agent` in runner.local.json to your agent's name, or `argv` to its command, as a list of arguments"
    )]
    Missing {
        /// The role that was to be launched.
        role: Role,
    },
    /// The example's text still stands in the command.
    #[error(
        "the configured command still holds {argument:?}; put your agent's command into `argv` in runner.local.json"
    )]
    NotConfigured {
        /// The argument as it stands in the configuration.
        argument: String,
    },
    /// No file of that name was found.
    #[error("cannot find the program {program:?}, tried {tried}; correct `argv` in runner.local.json or PATH")]
    NotFound {
        /// The program as configured.
        program: String,
        /// Where it was looked for.
        tried: String,
    },
    /// A folder or something else that is no program.
    #[error("the program {} is {kind}, not a file; correct `argv` in runner.local.json", path.display())]
    NotAFile {
        /// Where it was found.
        path: PathBuf,
        /// What it is.
        kind: &'static str,
    },
    /// A file this user may not execute.
    #[error("the program {} may not be executed by this user; run `chmod +x` on it, or correct `argv` in runner.local.json", path.display())]
    NotExecutable {
        /// Where it was found.
        path: PathBuf,
    },
    /// The program is a script whose interpreter is not there.
    #[error("the program {} is a script for {}, which is not there or may not be executed; correct its first line or install that", path.display(), interpreter.display())]
    NoInterpreter {
        /// The program.
        path: PathBuf,
        /// What its `#!` line names.
        interpreter: PathBuf,
    },
    /// The program is neither a binary nor a script.
    #[error("the program {} is no binary and has no `#!` line, so the system cannot execute it; add one, for example #!/bin/sh", path.display())]
    NoFormat {
        /// The program.
        path: PathBuf,
    },
}

/// What stands for each placeholder of a command.
#[derive(Debug, Clone, Copy)]
pub struct Placeholders<'a> {
    /// `{root}`: the workspace.
    pub root: &'a str,
    /// `{task}`: the task's id.
    pub task: &'a str,
    /// `{role}`: the agent's role.
    pub role: &'a str,
    /// `{agent}`: the agent's id.
    pub agent: &'a str,
    /// `{action}`: `claim` or `review`.
    pub action: &'a str,
    /// `{prompt_file}`: the prompt, absolute.
    pub prompt_file: &'a str,
    /// `{session_dir}`: the session's folder, absolute.
    pub session_dir: &'a str,
}

impl<'a> Placeholders<'a> {
    fn value(&self, name: &str) -> Option<&'a str> {
        Some(match name {
            "root" => self.root,
            "task" => self.task,
            "role" => self.role,
            "agent" => self.agent,
            "action" => self.action,
            "prompt_file" => self.prompt_file,
            "session_dir" => self.session_dir,
            _ => return None,
        })
    }
}

/// Fills the placeholders in, in one pass: a value that itself looks like a placeholder stays, and so do unknown braces.
pub fn expand(argv: &[String], values: &Placeholders<'_>) -> Result<Vec<String>, CommandError> {
    if let Some(argument) = argv.iter().find(|argument| argument.contains("REPLACE_")) {
        return Err(CommandError::NotConfigured { argument: argument.clone() });
    }
    Ok(argv.iter().map(|argument| expand_one(argument, values)).collect())
}

fn expand_one(argument: &str, values: &Placeholders<'_>) -> String {
    let mut made = String::with_capacity(argument.len());
    let mut rest = argument;
    while let Some(open) = rest.find('{') {
        let (before, after) = rest.split_at(open);
        made.push_str(before);
        let named = after[1..].split_once('}').and_then(|(name, tail)| Some((values.value(name)?, tail)));
        if let Some((value, tail)) = named {
            made.push_str(value);
            rest = tail;
        } else {
            made.push('{');
            rest = &after[1..];
        }
    }
    made + rest
}

/// Finds the program of a command: a name with a `/` from `root`, any other in the folders of `path` (the value of PATH).
///
/// Empty entries of `path`, which would mean "wherever it happens to be started", are skipped; relative ones count from
/// `root`. The answer is absolute if `root` is.
pub fn find_executable(program: &str, root: &Path, path: Option<&OsStr>) -> Result<PathBuf, CommandError> {
    if program.contains('/') {
        let file = root.join(program);
        return match look(&file) {
            Found::Program => executable(file),
            Found::Nothing => Err(not_found(program, file.display().to_string().into())),
            Found::Locked => Err(CommandError::NotExecutable { path: file }),
            Found::Other(kind) => Err(CommandError::NotAFile { path: file, kind }),
        };
    }
    let Some(path) = path else { return Err(not_found(program, "no folder, as PATH is not set".into())) };
    let mut locked = None;
    for folder in std::env::split_paths(path).filter(|folder| !folder.as_os_str().is_empty()) {
        let file = root.join(folder).join(program);
        match look(&file) {
            Found::Program => return executable(file),
            Found::Locked => locked = locked.or(Some(file)),
            Found::Nothing | Found::Other(_) => {}
        }
    }
    match locked {
        Some(path) => Err(CommandError::NotExecutable { path }),
        None => Err(not_found(program, format!("the folders of PATH ({})", path.display()).into())),
    }
}

fn not_found(program: &str, tried: Cow<'_, str>) -> CommandError {
    CommandError::NotFound { program: program.to_owned(), tried: tried.into_owned() }
}

/// What stands at a place where a program is looked for.
enum Found {
    Program,
    Locked,
    Other(&'static str),
    Nothing,
}

fn look(file: &Path) -> Found {
    let Ok(metadata) = file.metadata() else { return Found::Nothing };
    if metadata.is_dir() {
        return Found::Other("a folder");
    }
    if !metadata.is_file() {
        return Found::Other("a device, socket or pipe");
    }
    match rustix::fs::access(file, rustix::fs::Access::EXEC_OK) {
        Ok(()) => Found::Program,
        Err(_) => Found::Locked,
    }
}

/// How much of a program says what executes it (`execve(2)`: the kernel looks at no more of a `#!` line).
const HEAD: usize = 256;

/// Whether the kernel can execute the file: a script needs a `#!` line, and the program it names has to be there.
fn executable(file: PathBuf) -> Result<PathBuf, CommandError> {
    let Ok(head) = fs::read_head(&file, HEAD) else { return Ok(file) };
    if let Some(line) = head.strip_prefix(b"#!") {
        let line = line.split(|byte| *byte == b'\n').next().unwrap_or_default().trim_ascii();
        let name = line.split(u8::is_ascii_whitespace).next().unwrap_or_default();
        let interpreter = PathBuf::from(OsStr::from_bytes(name));
        return match look(&interpreter) {
            Found::Program => Ok(file),
            _ => Err(CommandError::NoInterpreter { path: file, interpreter }),
        };
    }
    let is_text = !head.is_empty() && !head.contains(&0);
    if is_text || head.is_empty() { Err(CommandError::NoFormat { path: file }) } else { Ok(file) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fs;
    use proptest::prelude::*;

    const VALUES: Placeholders<'static> = Placeholders {
        root: "/r",
        task: "S00-001",
        role: "{task}",
        agent: "auto-qa-1",
        action: "claim",
        prompt_file: "/p.md",
        session_dir: "/s",
    };

    fn expanded(argument: &str) -> String {
        expand(&[argument.to_owned()], &VALUES).unwrap().remove(0)
    }

    #[test]
    fn placeholders_are_filled_in_one_pass_and_unknown_braces_stay() {
        for (argument, wanted) in [
            ("{root}/{task}", "/r/S00-001"),
            ("{role}", "{task}"),
            ("{{task}}", "{S00-001}"),
            ("{unknown} {task", "{unknown} {task"),
            ("{agent}{action}{prompt_file}{session_dir}", "auto-qa-1claim/p.md/s"),
            ("{} }{ {\"a\": {}}", "{} }{ {\"a\": {}}"),
            ("ä{task}ö", "äS00-001ö"),
        ] {
            assert_eq!(expanded(argument), wanted, "{argument}");
        }
    }

    #[test]
    fn text_of_the_example_left_in_the_command_is_not_configured() {
        let argv = ["agent".to_owned(), "--model=REPLACE_ME".to_owned()];
        let error = expand(&argv, &VALUES).unwrap_err().to_string();
        assert!(error.contains("\"--model=REPLACE_ME\""), "{error}");
        // What a value brings in is no text of the example.
        let values = Placeholders { root: "/home/REPLACE_x", ..VALUES };
        assert!(expand(&["{root}".to_owned()], &values).is_ok());
    }

    proptest! {
        #[test]
        fn text_without_a_known_placeholder_stays_as_it_is(text in "[a-f{}/ ]{0,30}") {
            prop_assert_eq!(expanded(&text), text);
        }
    }

    fn program(path: &Path, mode: u32) {
        fs::replace_with_mode(path, b"#!/bin/sh\n", mode).unwrap();
    }

    #[test]
    fn a_name_with_a_slash_is_taken_from_the_root() {
        let root = tempfile::tempdir().unwrap();
        let root = root.path();
        program(&root.join("tools/agent"), 0o755);
        program(&root.join("tools/plain"), 0o644);
        assert_eq!(find_executable("tools/agent", root, None).unwrap(), root.join("tools/agent"));
        let absolute = root.join("tools/agent");
        assert_eq!(find_executable(absolute.to_str().unwrap(), Path::new("/"), None).unwrap(), absolute);
        assert!(matches!(find_executable("./tools/plain", root, None), Err(CommandError::NotExecutable { .. })));
        assert!(matches!(find_executable("./tools", root, None), Err(CommandError::NotAFile { kind: "a folder", .. })));
        let missing = find_executable("tools/none", root, None).unwrap_err().to_string();
        assert!(missing.contains(root.join("tools/none").to_str().unwrap()), "{missing}");
    }

    #[test]
    fn another_name_is_looked_for_in_path() {
        let root = tempfile::tempdir().unwrap();
        let root = root.path();
        program(&root.join("one/agent"), 0o644);
        program(&root.join("two/agent"), 0o755);
        program(&root.join("locked"), 0o755);
        let path = |text: String| Some(std::ffi::OsString::from(text));
        let both = path(format!("{0}/one::{0}/two", root.display()));
        assert_eq!(find_executable("agent", root, both.as_deref()).unwrap(), root.join("two/agent"));
        let first = path(format!("{}/one", root.display()));
        assert!(matches!(find_executable("agent", root, first.as_deref()), Err(CommandError::NotExecutable { .. })));
        let missing = find_executable("none", root, first.as_deref()).unwrap_err().to_string();
        assert!(missing.contains("\"none\"") && missing.contains("/one"), "{missing}");
        // An empty entry of PATH is not the folder the coordinator was started in.
        assert!(find_executable("locked", root, path(":".into()).as_deref()).is_err());
        assert!(find_executable("agent", root, None).unwrap_err().to_string().contains("PATH is not set"));
    }
}
