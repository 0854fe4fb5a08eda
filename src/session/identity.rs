//! Names a process so that it can be recognised later, also after its id went to another one.

use serde::{Deserialize, Serialize};

use super::process_table;

/// A process for as long as its machine is up.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProcessIdentity {
    /// Its process id.
    pub pid: u32,
    /// When it started, in clock ticks since boot (field 22 of `/proc/<pid>/stat`, `proc(5)`); 0 where the system does not tell.
    pub start_time: u64,
    /// The boot it belongs to; empty where the system does not tell.
    pub boot_id: String,
    /// The machine's name.
    pub host: String,
}

/// This process.
pub fn identity() -> ProcessIdentity {
    let pid = rustix::process::getpid().as_raw_pid();
    ProcessIdentity {
        pid: pid.unsigned_abs(),
        start_time: process_table::read(pid).map_or(0, |row| row.start),
        boot_id: process_table::boot_id(),
        host: rustix::system::uname().nodename().to_string_lossy().into_owned(),
    }
}

/// Whether exactly this process is this one's parent, or the parent's parent, and so on. Where the system does not tell, it
/// is not.
pub fn is_ancestor(pid: u32, start_time: u64) -> bool {
    let mut at = process_table::read(rustix::process::getpid().as_raw_pid());
    while let Some(row) = at {
        let parent = process_table::read(row.parent);
        if parent.as_ref().is_some_and(|parent| parent.pid.unsigned_abs() == pid && parent.start == start_time) {
            return true;
        }
        at = parent.filter(|parent| parent.pid > 1);
    }
    false
}

/// Whether exactly this process still runs on this machine. Where the system does not tell start times, whether any process
/// with its id runs.
pub fn is_alive(pid: u32, start_time: u64, boot_id: &str) -> bool {
    if boot_id != process_table::boot_id() {
        return false;
    }
    let Ok(pid) = i32::try_from(pid) else { return false };
    if let Some(row) = process_table::read(pid) {
        return row.start == start_time && !row.ended;
    }
    let exists = rustix::process::Pid::from_raw(pid)
        .is_some_and(|pid| rustix::process::test_kill_process(pid) != Err(rustix::io::Errno::SRCH));
    start_time == 0 && exists
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::{identity, is_alive};

    #[test]
    fn this_process_is_alive_and_nobody_else_is_it() {
        let me = identity();
        assert!(is_alive(me.pid, me.start_time, &me.boot_id));
        assert!(!is_alive(me.pid, me.start_time + 1, &me.boot_id), "a reused id is another process");
        assert!(!is_alive(me.pid, me.start_time, "another boot"));
        assert!(!is_alive(u32::MAX, me.start_time, &me.boot_id) && !is_alive(0, 0, &me.boot_id));
    }
}
