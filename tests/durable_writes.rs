//! A recorded trace of system calls shows that a replacement is durable: file synced, renamed, folder synced, in that order,
//! in the coordinator and in an agent's verb.
#![cfg(target_os = "linux")]
#![allow(clippy::disallowed_methods, reason = "the doors keep the product; tests read files and look for programs")]

mod support;

use std::fs;

use support::{Project, has_strace};

/// What matters of one system call.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Call {
    Write(String),
    Sync(String),
    Rename { from: String, to: String },
    Unlink(String),
}

/// The calls of one process or thread, in order.
#[derive(Debug)]
struct Trace {
    /// Whether it began with a program of its own; a thread does not.
    program: Option<String>,
    calls: Vec<Call>,
}

/// Runs one session under `strace`; none, with a note, if there is no `strace`.
fn recorded(project: &Project) -> Option<Vec<Trace>> {
    if !has_strace() {
        return None;
    }
    let prefix = project.outside("logs/trace");
    let prefix = prefix.to_str().expect("the sandbox has a plain path");
    let calls = "trace=execve,write,fsync,fdatasync,rename,renameat,renameat2,unlink,unlinkat";
    let wrapper = ["strace", "-ff", "-y", "-s", "0", "-o", prefix, "-e", calls, "-e", "signal=none"];
    project.spawn_under(&wrapper, &["--max-sessions", "1"], &[]).wait().stopped(0, "session_limit");
    let files = fs::read_dir(project.outside("logs")).expect("the folder is there").filter_map(Result::ok);
    let traces = files.filter(|file| file.file_name().to_string_lossy().starts_with("trace."));
    Some(traces.map(|file| parse(&fs::read_to_string(file.path()).expect("a trace is text"))).collect())
}

fn parse(text: &str) -> Trace {
    let program = text.lines().find(|line| line.starts_with("execve(") && line.ends_with("= 0"));
    let program = program.and_then(|line| line.split('"').nth(1)).map(str::to_owned);
    Trace { program, calls: text.lines().filter(|line| !line.contains("= -1")).filter_map(call).collect() }
}

/// One line such as `fsync(7</root/state/.runner-a1b2c3.tmp>) = 0`.
fn call(line: &str) -> Option<Call> {
    let (name, rest) = line.split_once('(')?;
    let descriptor = || Some(rest.split_once('<')?.1.split_once('>')?.0.to_owned());
    let names: Vec<&str> = rest.split('"').skip(1).step_by(2).collect();
    match name {
        "write" => descriptor().map(Call::Write),
        "fsync" | "fdatasync" => descriptor().map(Call::Sync),
        "rename" | "renameat" | "renameat2" => {
            Some(Call::Rename { from: (*names.first()?).to_owned(), to: (*names.get(1)?).to_owned() })
        }
        "unlink" | "unlinkat" => Some(Call::Unlink((*names.first()?).to_owned())),
        _ => None,
    }
}

impl Trace {
    fn position(&self, wanted: &Call) -> Option<usize> {
        self.calls.iter().position(|call| call == wanted)
    }

    /// Fails unless every replacement of a file of the project is synced before and after; returns what was replaced.
    fn replaced_durably(&self) -> Vec<&str> {
        let mut replaced = Vec::new();
        for (at, call) in self.calls.iter().enumerate() {
            let Call::Rename { from, to } = call else { continue };
            if !from.contains("/.runner-") {
                continue;
            }
            let (before, after) = (&self.calls[..at], &self.calls[at + 1..]);
            let written = before.iter().rposition(|call| *call == Call::Write(from.clone()));
            let synced = before.iter().rposition(|call| *call == Call::Sync(from.clone()));
            assert!(written.is_some() && synced > written, "{to} is renamed before its content is synced: {before:#?}");
            let folder = to.rsplit_once('/').map(|(folder, _)| folder.to_owned()).unwrap_or_default();
            assert_eq!(after.first(), Some(&Call::Sync(folder)), "the folder of {to} is synced next");
            replaced.push(to.as_str());
        }
        replaced
    }
}

/// What the traces replaced, the verb's apart from the coordinator's.
fn replaced(traces: &[Trace]) -> (Vec<&str>, Vec<&str>) {
    let runner = env!("CARGO_BIN_EXE_runner");
    let of_runner: Vec<&Trace> = traces.iter().filter(|trace| trace.program.as_deref() == Some(runner)).collect();
    let is_coordinator = |trace: &&&Trace| {
        trace.calls.iter().any(|call| matches!(call, Call::Rename { to, .. } if to.ends_with("/.runner.lock")))
    };
    let coordinator: Vec<&str> =
        of_runner.iter().filter(is_coordinator).flat_map(|trace| trace.replaced_durably()).collect();
    let verb =
        of_runner.iter().filter(|trace| !is_coordinator(trace)).flat_map(|trace| trace.replaced_durably()).collect();
    (coordinator, verb)
}

#[test]
fn a_claim_and_a_submit_sync_the_file_rename_it_and_sync_the_folder() {
    let project = Project::new();
    let Some(traces) = recorded(&project) else { return };
    let row = project.path("state/tasks/S00/S00-001.json").display().to_string();
    let (coordinator, verb) = replaced(&traces);
    // No row was there before, so the folders on the way to it are new names too.
    let folders = ["state/tasks", "state"].map(|folder| Call::Sync(project.path(folder).display().to_string()));
    assert!(traces.iter().any(|trace| folders.iter().all(|call| trace.position(call).is_some())), "{traces:#?}");
    // The claim and the settlement; the submit.
    assert_eq!(coordinator.iter().filter(|path| **path == row).count(), 2, "{coordinator:?}");
    assert_eq!(verb.iter().filter(|path| **path == row).count(), 1, "{verb:?}");
}

#[test]
fn a_change_of_several_files_is_recorded_durably_before_the_first_and_until_after_the_last() {
    let project = Project::new();
    project.agent(r#"escalate '{"title":"Find the key","reason":"the key is missing"}'"#);
    let Some(traces) = recorded(&project) else { return };
    let pending = project.path(".git/runner/pending.json").display().to_string();
    let record = traces.iter().find(|trace| trace.position(&Call::Unlink(pending.clone())).is_some());
    let verb = record.expect("the verb removes its record");
    let replaced = verb.replaced_durably();
    let names: Vec<&str> = replaced
        .iter()
        .map(|path| path.strip_prefix(project.root().to_str().expect("plain")).unwrap_or(path))
        .collect();
    assert_eq!(names.first(), Some(&"/.git/runner/pending.json"), "{names:?}");
    for file in ["/planning/tasks/S00-001-r1.json", "/state/tasks/S00/S00-001-r1.json", "/state/tasks/S00/S00-001.json"]
    {
        assert!(names.contains(&file), "{file} is not in {names:?}");
    }
    let last = verb.calls.iter().rposition(|call| matches!(call, Call::Rename { .. }));
    assert!(verb.position(&Call::Unlink(pending)) > last, "the record goes last: {:#?}", verb.calls);
}
