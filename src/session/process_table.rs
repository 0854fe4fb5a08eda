//! What `/proc` says about processes (`proc(5)`). Reads only; a system without `/proc` has an empty table.

use std::path::Path;
use std::time::{Duration, Instant};

use crate::fs;

/// No process takes this long to become another program.
const BECOMING: Duration = Duration::from_millis(200);

/// One process as the kernel shows it at one instant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Row {
    pub(crate) pid: i32,
    pub(crate) parent: i32,
    pub(crate) group: i32,
    pub(crate) session: i32,
    /// In clock ticks since boot; together with the process id it names a process for as long as the machine is up.
    pub(crate) start: u64,
    /// It has ended and only waits for its parent to notice. A process whose first thread ended lives on in the others.
    pub(crate) ended: bool,
    pub(crate) name: String,
}

/// Reads one line of `/proc/<pid>/stat`. The name is in parentheses and may itself hold any character but NUL.
fn parse_stat(line: &[u8]) -> Option<Row> {
    let name_from = line.iter().position(|byte| *byte == b'(')?;
    let name_to = line.iter().rposition(|byte| *byte == b')')?;
    let name = String::from_utf8_lossy(line.get(name_from + 1..name_to)?).into_owned();
    let pid = std::str::from_utf8(&line[..name_from]).ok()?.trim().parse().ok()?;
    let fields = fields_after_name(line)?;
    let number = |at: usize| fields.get(at)?.parse::<i32>().ok();
    let ended = matches!(*fields.first()?, "Z" | "X" | "x") && number(17)? <= 1;
    Some(Row {
        pid,
        parent: number(1)?,
        group: number(2)?,
        session: number(3)?,
        start: fields.get(19)?.parse().ok()?,
        ended,
        name,
    })
}

/// The fields from the third on, the state.
fn fields_after_name(line: &[u8]) -> Option<Vec<&str>> {
    let name_to = line.iter().rposition(|byte| *byte == b')')?;
    Some(std::str::from_utf8(&line[name_to + 1..]).ok()?.split_ascii_whitespace().collect())
}

/// Whether a process has memory but no end of its environment yet: fields 23 and 51.
fn is_becoming_a_program(line: &[u8]) -> bool {
    let fields = fields_after_name(line).unwrap_or_default();
    let is_zero = |at: usize| fields.get(at).is_none_or(|field| *field == "0");
    !is_zero(20) && is_zero(48)
}

/// The process with this id, if there is one.
pub(crate) fn read(pid: i32) -> Option<Row> {
    parse_stat(&fs::read(Path::new(&format!("/proc/{pid}/stat"))).ok()?)
}

/// Every process there is, those with the highest ids, mostly the youngest, first. Read one after another as they are
/// asked for, so one that comes or goes meanwhile may be missing.
pub(crate) fn all() -> impl Iterator<Item = Row> {
    let mut pids = numbers_in("/proc");
    pids.sort_unstable_by(|a, b| b.cmp(a));
    pids.into_iter().filter_map(read)
}

/// The id that was given out last, to a process or a thread (the last field of `/proc/loadavg`); nothing where the system does
/// not tell. As long as it stays, nobody was created.
pub(crate) fn last_created() -> Option<i32> {
    let line = fs::read(Path::new("/proc/loadavg")).ok()?;
    std::str::from_utf8(&line).ok()?.split_ascii_whitespace().last()?.parse().ok()
}

/// The children of this process, of all its threads. One that ends meanwhile may hide others.
pub(crate) fn children_of_this_process() -> Vec<i32> {
    let lists = numbers_in("/proc/self/task").into_iter();
    lists
        .filter_map(|thread| fs::read(Path::new(&format!("/proc/self/task/{thread}/children"))).ok())
        .flat_map(|list| {
            let text = String::from_utf8_lossy(&list).into_owned();
            text.split_ascii_whitespace().filter_map(|pid| pid.parse().ok()).collect::<Vec<i32>>()
        })
        .collect()
}

fn numbers_in(folder: &str) -> Vec<i32> {
    let entries = fs::list(Path::new(folder)).ok().flatten().unwrap_or_default();
    entries.iter().filter_map(|path| path.file_name()?.to_str()?.parse().ok()).collect()
}

/// The environment a process was started with, as it lies in its memory: entries ended by NUL. `None` for one that is gone. One
/// that is just becoming another program has none for a moment, which is waited out.
pub(crate) fn environment(pid: i32) -> Result<Option<Vec<u8>>, Unreadable> {
    let until = Instant::now() + BECOMING;
    loop {
        match fs::read(Path::new(&format!("/proc/{pid}/environ"))) {
            Ok(bytes) if bytes.is_empty() && Instant::now() < until => {
                let line = fs::read(Path::new(&format!("/proc/{pid}/stat"))).unwrap_or_default();
                if !is_becoming_a_program(&line) {
                    return Ok(Some(bytes));
                }
                std::thread::yield_now();
            }
            Ok(bytes) => return Ok(Some(bytes)),
            Err(error) if error.kind() == std::io::ErrorKind::PermissionDenied => return Err(Unreadable),
            Err(_) => return Ok(None),
        }
    }
}

/// The kernel refuses to show it.
#[derive(Debug)]
pub(crate) struct Unreadable;

/// The real user of a process.
pub(crate) fn user(pid: i32) -> Option<u32> {
    let status = fs::read(Path::new(&format!("/proc/{pid}/status"))).ok()?;
    let text = String::from_utf8_lossy(&status);
    text.lines().find_map(|line| line.strip_prefix("Uid:")?.split_ascii_whitespace().next()?.parse().ok())
}

/// The random id of this boot.
pub(crate) fn boot_id() -> String {
    let bytes = fs::read(Path::new("/proc/sys/kernel/random/boot_id")).unwrap_or_default();
    String::from_utf8_lossy(&bytes).trim().to_owned()
}

#[cfg(test)]
mod tests {
    use super::{Row, is_becoming_a_program, parse_stat};

    fn line(name: &str, state: &str, threads: u32) -> String {
        format!("7 ({name}) {state} 3 5 6 0 -1 4194560 1 2 3 4 5 6 7 8 20 0 {threads} 0 4711 1 1\n")
    }

    #[test]
    fn a_name_may_hold_parentheses_and_spaces() {
        let row = parse_stat(line("a) S (b c", "S", 1).as_bytes()).unwrap();
        let expected =
            Row { pid: 7, parent: 3, group: 5, session: 6, start: 4711, ended: false, name: "a) S (b c".to_owned() };
        assert_eq!(row, expected);
    }

    #[test]
    fn a_process_whose_first_thread_ended_lives_on() {
        assert!(parse_stat(line("x", "Z", 1).as_bytes()).unwrap().ended);
        assert!(!parse_stat(line("x", "Z", 2).as_bytes()).unwrap().ended);
    }

    #[test]
    fn only_what_has_memory_but_no_environment_yet_is_becoming_a_program() {
        let line = |memory: u32, environment_end: u32| {
            format!(
                "{} {memory} 1{} {environment_end} 0\n",
                line("x", "S", 1).trim_end_matches(" 1 1\n"),
                " 2".repeat(26)
            )
        };
        assert_eq!(line(9, 8).split(' ').nth(22), Some("9"), "the 23rd field");
        assert_eq!(line(9, 8).split(' ').nth(50), Some("8"), "the 51st field");
        assert!(is_becoming_a_program(line(9, 0).as_bytes()));
        for other in [line(9, 8), line(0, 0)] {
            assert!(!is_becoming_a_program(other.as_bytes()), "{other}");
        }
        assert!(!is_becoming_a_program(b""));
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn whoever_is_created_next_changes_what_was_given_out_last() {
        let before = super::last_created().unwrap();
        std::thread::spawn(|| ()).join().unwrap();
        assert_ne!(super::last_created().unwrap(), before);
    }

    #[test]
    fn a_line_that_was_cut_off_is_no_process() {
        for cut in [b"".as_slice(), b"7 (a", b"7 (a) S 1 2", b"x (a) S 1 2 3"] {
            assert_eq!(parse_stat(cut), None);
        }
    }
}
