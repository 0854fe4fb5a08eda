//! What a session gets, what it does not get, and how it is told that it cannot start.
#![cfg(target_os = "linux")]
#![expect(clippy::disallowed_methods, reason = "tests lay down files")]

mod session_support;

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::PermissionsExt;

use runner::session::{Ended, Exit, Signals, run};
use session_support::{LIMITS, Sandbox};

#[test]
fn an_exit_status_and_a_signal_are_told_apart() {
    let sandbox = Sandbox::new();
    assert_eq!(sandbox.run("exit 3", LIMITS).exit, Some(Exit::Code(3)));
    assert_eq!(sandbox.run("kill -9 $$", LIMITS).exit, Some(Exit::Signal(9)));
    assert_eq!(sandbox.run("kill -PIPE $$", LIMITS).exit, Some(Exit::Signal(13)));
}

#[test]
fn a_prompt_arrives_byte_for_byte_and_ends() {
    let sandbox = Sandbox::new();
    let prompt = "\n ä'\"$(x)\t\\ 漢字 end \n\n".repeat(82_000 / 25 + 1);
    fs::write(sandbox.path("prompt"), &prompt).unwrap();
    assert_eq!(sandbox.run("cat", LIMITS).exit, Some(Exit::Code(0)));
    assert!(prompt.len() > 82_000 && sandbox.stdout() == prompt);
}

#[test]
fn a_prompt_that_is_replaced_meanwhile_is_read_as_it_was() {
    let sandbox = Sandbox::new();
    fs::write(sandbox.path("prompt"), "one\ntwo\n").unwrap();
    let result = sandbox.run("read first; echo other > new; mv new prompt; echo $first; cat", LIMITS);
    assert_eq!((result.exit, sandbox.stdout().as_str()), (Some(Exit::Code(0)), "one\ntwo\n"));
}

#[test]
fn a_session_inherits_nothing_but_what_it_is_given() {
    let sandbox = Sandbox::new();
    // A descriptor that is not closed on exec, as a lock taken by whoever started the coordinator.
    let inherited = rustix::io::dup(&sandbox.life).unwrap();
    let script = "ls /proc/self/fd; grep -E 'Sig(Blk|Ign)' /proc/self/status; env; \
                  read p n s pp pg sid rest < /proc/$$/stat; echo $(($$ == sid)); (: < /dev/tty) 2>/dev/null || echo no terminal; pwd";
    assert_eq!(sandbox.run(script, LIMITS).exit, Some(Exit::Code(0)));
    drop(inherited);
    let stdout = sandbox.stdout();
    let mut lines = stdout.lines();
    let descriptors: Vec<&str> = lines.by_ref().take(4).collect();
    assert_eq!(&descriptors[..3], ["0", "1", "2"], "{stdout}");
    let rest: Vec<&str> = lines.collect();
    let folder = sandbox.folder.path().canonicalize().unwrap();
    let pwd = format!("PWD={}", folder.display());
    let (masks, rest) = rest.split_at(2);
    for mask in masks {
        let bits = u64::from_str_radix(mask.split('\t').nth(1).unwrap(), 16).unwrap();
        // The C library keeps 32 and 33 for itself and leaves them ignored in what it starts.
        assert_eq!(bits & !(0b11 << 31), 0, "{mask}");
    }
    let own: BTreeSet<&str> = rest.iter().copied().filter(|line| !line.starts_with("_=")).collect();
    assert_eq!(own, BTreeSet::from(["PATH=/usr/bin:/bin", &pwd, "1", "no terminal", folder.to_str().unwrap()]));
}

#[test]
fn logs_are_private_and_begin_empty() {
    let sandbox = Sandbox::new();
    for _ in 0..2 {
        assert_eq!(sandbox.run("echo out; echo err >&2", LIMITS).exit, Some(Exit::Code(0)));
        for (name, content) in [("logs/stdout", "out\n"), ("logs/stderr", "err\n")] {
            assert_eq!(fs::read_to_string(sandbox.path(name)).unwrap(), content);
            assert_eq!(fs::metadata(sandbox.path(name)).unwrap().permissions().mode() & 0o777, 0o600);
        }
    }
}

#[test]
fn what_cannot_start_says_why_and_what_to_do() {
    let sandbox = Sandbox::new();
    let executable = |name: &str, content: &str, mode: u32| {
        fs::write(sandbox.path(name), content).unwrap();
        fs::set_permissions(sandbox.path(name), fs::Permissions::from_mode(mode)).unwrap();
    };
    executable("plain", "echo x\n", 0o644);
    executable("no_header", "echo x\n", 0o755);
    executable("no_interpreter", "#!/nonexistent/sh\n", 0o755);
    let cases: [(&[&str], &str); 9] = [
        (&[], "no program is given"),
        (&[""], "no program is given"),
        (&["no-such-program-anywhere"], "`no-such-program-anywhere` is not on PATH"),
        (&["./missing"], "cannot start `./missing`: No such file or directory"),
        (&["./plain"], "make it executable"),
        (&["./rows"], "Permission denied"),
        (&["./no_header"], "begins with `#!`"),
        (&["./no_interpreter"], "interpreter"),
        (&["sh", "a\0b"], "NUL"),
    ];
    for (argv, expected) in cases {
        let result = run(&sandbox.launch(argv, LIMITS), &mut sandbox.row(), &Signals::none());
        let Ended::CouldNotStart { reason } = &result.ended else { panic!("{argv:?} started: {result:?}") };
        assert!(reason.contains(expected), "{argv:?}: {reason}");
        assert_eq!((result.exit, result.pid), (None, None));
    }
    let mut launch = sandbox.launch(&["true"], LIMITS);
    launch.cwd = sandbox.path("nowhere");
    let elsewhere = run(&launch, &mut sandbox.row(), &Signals::none());
    assert!(matches!(&elsewhere.ended, Ended::CouldNotStart { reason } if reason.contains("nowhere")), "{elsewhere:?}");
    let mut launch = sandbox.launch(&["true"], LIMITS);
    launch.stdin = sandbox.path("no-prompt");
    let unread = run(&launch, &mut sandbox.row(), &Signals::none());
    assert!(
        matches!(&unread.ended, Ended::CouldNotStart { reason } if reason.contains("no-prompt: No such")),
        "{unread:?}"
    );
}
