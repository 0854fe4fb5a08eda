//! A recorded trace of system calls shows that a replacement is durable: file synced, renamed, folder synced, in that order,
//! in the coordinator and in an agent's verb.
#![cfg(target_os = "linux")]
#![allow(clippy::disallowed_methods, reason = "the doors keep the product; tests read files and look for programs")]

mod support;

use std::fs;

use support::{Project, has_strace};

/// What matters of one system call.
#[derive(Debug, Clone, PartialEq, Eq)]
enum What {
    Exec(String),
    Write(String),
    Sync(String),
    Rename { from: String, to: String },
    Unlink(String),
}

/// One system call that succeeded.
#[derive(Debug, Clone)]
struct Call {
    /// The process or thread.
    thread: usize,
    /// In microseconds.
    began: u64,
    ended: u64,
    what: What,
}

/// The calls of all processes and threads, in the order in which they began.
struct Trace(Vec<Call>);

/// Files that can be made again, or that tell only of processes which a power failure ends too.
const UNSYNCED: [&str; 3] = ["/prompt.md", "/report.json", "/planning/"];

/// Runs one session under `strace`; none, with a note, if there is no `strace`.
fn recorded(project: &Project) -> Option<Trace> {
    if !has_strace() {
        return None;
    }
    let prefix = project.outside("logs/trace");
    let prefix = prefix.to_str().expect("the sandbox has a plain path");
    let calls = "trace=execve,write,fsync,fdatasync,rename,renameat,renameat2,unlink,unlinkat";
    let wrapper = ["strace", "-ff", "-ttt", "-T", "-y", "-s", "0", "-o", prefix, "-e", calls, "-e", "signal=none"];
    project.spawn_under(&wrapper, &["--max-sessions", "1"], &[]).wait().stopped(0, "session_limit");
    let files = fs::read_dir(project.outside("logs")).expect("the folder is there").filter_map(Result::ok);
    let traces = files.filter(|file| file.file_name().to_string_lossy().starts_with("trace."));
    let text = |file: fs::DirEntry| fs::read_to_string(file.path()).expect("a trace is text");
    let of_thread = |(thread, text): (usize, String)| text.lines().filter_map(|line| call(thread, line)).collect();
    let mut calls = traces.map(text).enumerate().flat_map::<Vec<Call>, _>(of_thread).collect::<Vec<_>>();
    calls.sort_by_key(|call| call.began);
    Some(Trace(calls))
}

/// One line such as `1700000000.000001 fsync(7</root/state/.runner-a1b2c3.tmp>) = 0 <0.000900>`.
fn call(thread: usize, line: &str) -> Option<Call> {
    let (time, line) = line.split_once(' ')?;
    let (line, took) = line.strip_suffix('>')?.rsplit_once(" <")?;
    if line.contains("= -1") {
        return None;
    }
    let (began, took) = (microseconds(time)?, microseconds(took)?);
    let (name, rest) = line.split_once('(')?;
    let descriptor = || Some(rest.split_once('<')?.1.split_once('>')?.0.to_owned());
    let names: Vec<&str> = rest.split('"').skip(1).step_by(2).collect();
    let what = match name {
        "execve" => What::Exec((*names.first()?).to_owned()),
        "write" => What::Write(descriptor()?),
        "fsync" | "fdatasync" => What::Sync(descriptor()?),
        "rename" | "renameat" | "renameat2" => {
            What::Rename { from: (*names.first()?).to_owned(), to: (*names.get(1)?).to_owned() }
        }
        "unlink" | "unlinkat" => What::Unlink((*names.first()?).to_owned()),
        _ => return None,
    };
    Some(Call { thread, began, ended: began + took, what })
}

/// `seconds.micros` as microseconds.
fn microseconds(text: &str) -> Option<u64> {
    let (seconds, micros) = text.split_once('.')?;
    Some(seconds.parse::<u64>().ok()? * 1_000_000 + micros.parse::<u64>().ok()?)
}

impl Trace {
    fn all(&self, wanted: &What) -> impl Iterator<Item = &Call> {
        self.0.iter().filter(move |call| call.what == *wanted)
    }

    /// The last call of that kind.
    fn last(&self, wanted: &What) -> &Call {
        self.all(wanted).last().unwrap_or_else(|| panic!("no {wanted:?} in {:#?}", self.0))
    }

    fn renames_to<'t>(&'t self, path: &'t str) -> impl Iterator<Item = &'t Call> {
        self.0.iter().filter(move |call| matches!(&call.what, What::Rename { to, .. } if to == path))
    }

    /// Fails unless every replacement of a file of the project is synced before and after; returns them in order.
    fn replaced_durably(&self) -> Vec<&Call> {
        let mut replaced = Vec::new();
        for call in &self.0 {
            let What::Rename { from, to } = &call.what else { continue };
            if !from.contains("/.runner-") || UNSYNCED.iter().any(|part| to.contains(part)) && !to.contains("/tasks/") {
                continue;
            }
            let written = self.last(&What::Write(from.clone()));
            let is_between = |sync: &&Call| sync.began >= written.ended && sync.ended <= call.began;
            let synced = self.all(&What::Sync(from.clone())).any(|sync| is_between(&sync));
            assert!(synced, "{to} is renamed before its content is synced: {:#?}", self.0);
            assert!(
                self.folder_synced(call, self.consequence(call)),
                "the folder of {to} is not synced next: {:#?}",
                self.0
            );
            replaced.push(call);
        }
        replaced
    }

    /// Whether the folder of a replaced file is synced after it and before `until`.
    fn folder_synced(&self, rename: &Call, until: u64) -> bool {
        let What::Rename { to, .. } = &rename.what else { return false };
        let folder = to.rsplit_once('/').map(|(folder, _)| folder.to_owned()).unwrap_or_default();
        self.all(&What::Sync(folder)).any(|sync| sync.began >= rename.ended && sync.ended <= until)
    }

    /// When the first thing happens after a replacement that may rely on it: a record is taken away, or a program is started.
    fn consequence(&self, rename: &Call) -> u64 {
        let relies = |call: &&Call| match &call.what {
            What::Exec(_) => true,
            What::Unlink(path) => path.ends_with("/pending.json") || path.ends_with("/commit.json"),
            _ => false,
        };
        let later = self.0.iter().filter(|call| call.began >= rename.ended);
        later.filter(relies).map(|call| call.began).next().unwrap_or(u64::MAX)
    }
}

#[test]
fn a_claim_and_a_submit_sync_the_file_rename_it_and_sync_the_folder() {
    let project = Project::new();
    let Some(trace) = recorded(&project) else { return };
    let row = project.path("state/tasks/S00/S00-001.json").display().to_string();
    let replaced = trace.replaced_durably();
    // No row was there before, so the folders on the way to it are new names too.
    for folder in ["state/tasks", "state"] {
        trace.last(&What::Sync(project.path(folder).display().to_string()));
    }
    let rows: Vec<&Call> =
        replaced.into_iter().filter(|call| trace.renames_to(&row).any(|row| row.began == call.began)).collect();
    let [claim, submit, settlement] = rows.as_slice() else { panic!("claim, submit and settlement: {rows:#?}") };
    assert!(claim.thread == settlement.thread && claim.thread != submit.thread, "{rows:#?}");
}

#[test]
fn no_process_of_a_session_exists_before_its_claim_memo_and_record_are_on_disk() {
    let project = Project::new();
    let Some(trace) = recorded(&project) else { return };
    let programs = trace.0.iter().filter(|call| matches!(&call.what, What::Exec(_)));
    let guardian = programs.map(|call| call.began).nth(1).expect("the coordinator starts a guardian");
    let row = project.path("state/tasks/S00/S00-001.json").display().to_string();
    let memo = project.path(".git/runner/session.json").display().to_string();
    let record = |call: &&Call| matches!(&call.what, What::Rename { to, .. } if to.ends_with("/run.json"));
    let record = trace.0.iter().find(record).expect("a record is written");
    let first = |path: &str| trace.renames_to(path).next().expect("it is written").clone();
    for call in [&first(&memo), &first(&row), record] {
        assert!(trace.folder_synced(call, guardian), "{call:?} is not on disk before {guardian}: {:#?}", trace.0);
    }
}

#[test]
fn the_intent_of_a_commit_is_on_disk_before_the_task_is_settled_and_until_the_branch_has_moved() {
    let project = Project::new();
    let Some(trace) = recorded(&project) else { return };
    let row = project.path("state/tasks/S00/S00-001.json").display().to_string();
    let intent = project.path(".git/runner/commit.json").display().to_string();
    let settled = trace.renames_to(&row).last().expect("it is settled");
    let intended = trace.renames_to(&intent).last().expect("it is intended");
    assert!(trace.folder_synced(intended, settled.began), "{:#?}", trace.0);
    let branch = project.path(".git/refs/heads/main").display().to_string();
    let moved = trace.last(&What::Sync(branch));
    let over = trace.last(&What::Unlink(intent));
    assert!(trace.folder_synced(settled, over.began) && moved.ended <= over.began, "{:#?}", trace.0);
}

#[test]
fn the_note_of_a_verification_is_on_disk_before_its_first_command_and_gone_from_it_before_the_task_is_settled() {
    let project = Project::new();
    project.config(&serde_json::json!({"verify": [["/bin/true"]]}));
    let Some(trace) = recorded(&project) else { return };
    let row = project.path("state/tasks/S00/S00-001.json").display().to_string();
    let note = project.path(".git/runner/verify.json").display().to_string();
    let folder = project.path(".git/runner").display().to_string();
    let commands: Vec<&Call> = trace.all(&What::Exec("/bin/true".to_owned())).collect();
    let noted: Vec<&Call> = trace.renames_to(&note).collect();
    assert_eq!((commands.len(), noted.len()), (2, 2), "before the session and after it: {:#?}", trace.0);
    for (noted, command) in noted.into_iter().zip(commands) {
        assert!(trace.folder_synced(noted, command.began), "{:#?}", trace.0);
    }
    let settled = trace.renames_to(&row).last().expect("it is settled");
    let over = trace.last(&What::Unlink(note));
    let is_gone = |sync: &&Call| sync.began >= over.ended && sync.ended <= settled.began;
    assert!(trace.all(&What::Sync(folder)).any(|sync| is_gone(&sync)), "{:#?}", trace.0);
}

#[test]
fn a_change_of_several_files_is_recorded_durably_before_the_first_and_until_after_the_last() {
    let project = Project::new();
    project.agent(r#"escalate '{"title":"Find the key","reason":"the key is missing"}'"#);
    let Some(trace) = recorded(&project) else { return };
    let pending = project.path(".git/runner/pending.json").display().to_string();
    let over = trace.last(&What::Unlink(pending.clone()));
    let replaced = trace.replaced_durably();
    let begun = trace.renames_to(&pending).last().expect("it is recorded");
    assert_eq!(begun.thread, over.thread, "the verb removes its own record");
    let files = ["planning/tasks/S00-001-r1.json", "state/tasks/S00/S00-001-r1.json", "state/tasks/S00/S00-001.json"];
    for file in files.map(|file| project.path(file).display().to_string()) {
        let of_verb =
            |call: &&&Call| call.thread == over.thread && matches!(&call.what, What::Rename { to, .. } if *to == file);
        let call = replaced.iter().find(of_verb).unwrap_or_else(|| panic!("{file} is not in {replaced:#?}"));
        assert!(
            trace.folder_synced(begun, call.began) && trace.folder_synced(call, over.began),
            "{file}: {:#?}",
            trace.0
        );
    }
}
