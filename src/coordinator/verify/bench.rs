//! Runs commands in the workspace, one after the other, each under the supervision, bounds and time limit of an agent.
//!
//! Decides nothing and puts nothing back. What the commands execute may be code that a session wrote, so they get no secret.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};

use crate::config::{Placeholders, expand, find_executable};
use crate::evidence::{CommandRecord, Failed};
use crate::fs;
use crate::observe::{Event, SessionName};
use crate::session::{self, Ended, ExecutionResult, Launch, Limits, StopSignal};
use crate::tracker::proof::Token;

use super::super::Run;
use super::super::execute::{output_bounds, tails};
use super::super::failure::Failure;
use super::super::prepare::{self, Command};

/// For which session commands run, and what for.
pub(super) struct Bench<'a> {
    /// The session.
    pub(super) name: &'a SessionName,
    /// Its folder, which holds the logs.
    pub(super) folder: &'a Path,
    /// Whether they run before the session, to know what fails there.
    pub(super) is_baseline: bool,
    /// What their processes carry, so that a start after a kill finds them.
    pub(super) mark: &'a Token,
    /// Their temporary folder.
    pub(super) temporary: &'a Path,
}

/// A command that has run.
pub(super) struct Ran {
    /// What it came to; a failure counts as new.
    pub(super) record: CommandRecord,
    /// The ends of its output, without secrets.
    pub(super) tail: String,
}

impl Ran {
    /// The command on one line, for a person.
    pub(super) fn shown(&self) -> String {
        shown(&self.record.argv)
    }
}

/// A command on one line, for a person.
pub(super) fn shown(argv: &[String]) -> String {
    let word = |word: &String| {
        let is_plain = !word.contains(|c: char| c.is_whitespace() || c.is_control() || "'\"`".contains(c));
        if is_plain { word.clone() } else { format!("{word:?}") }
    };
    argv.iter().map(word).collect::<Vec<_>>().join(" ")
}

impl Bench<'_> {
    /// Runs all of them, whatever each comes to; none if a signal arrived before the last was over.
    pub(super) fn all(&self, run: &Run<'_>, commands: &[Vec<String>]) -> Result<Option<Vec<Ran>>, Failure> {
        fs::make_private_folder(self.folder)?;
        let stdin = self.folder.join("verify.stdin");
        fs::replace_unsynced(&stdin, b"", 0o600)?;
        let mut all = Some(Vec::new());
        for (command, number) in commands.iter().zip(1_usize..) {
            let ran = match run.signals.first() {
                None => self.one(run, (number, command), &stdin)?,
                Some(_) => None,
            };
            all = all.zip(ran).map(|(all, ran)| all.into_iter().chain([ran]).collect());
            if all.is_none() {
                break;
            }
        }
        fs::remove_unsynced(&stdin)?;
        Ok(all)
    }

    /// Runs one; none if a signal ended it.
    fn one(
        &self,
        run: &Run<'_>,
        (number, command): (usize, &Vec<String>),
        stdin: &Path,
    ) -> Result<Option<Ran>, Failure> {
        (run.observe)(&Event::Verifying { command: shown(command), is_baseline: self.is_baseline });
        let what = if self.is_baseline { "baseline" } else { "verify" };
        let log = format!("{what}-{number}.log");
        let logs = [self.folder.join(&log), self.folder.join(format!("{what}-{number}.err.log"))];
        let [stdout, stderr] = logs.clone();
        let config = run.config;
        let launch = Launch {
            argv: self.to_exec(run, command)?,
            cwd: run.workspace_root(),
            env: self.environment(run)?,
            stdin: stdin.to_owned(),
            scratch: self.folder.to_owned(),
            stdout,
            stderr,
            output: output_bounds(config),
            guardian: run.host.binary.clone(),
            limits: Limits {
                wall: config.timeout,
                idle_timeout: None,
                exit_grace: config.exit_grace,
                kill_grace: config.kill_grace,
                stop: StopSignal::Terminate,
                drain: config.drain,
            },
        };
        crate::fault::point("verify:launch");
        let result = session::run_alone(&launch, run.signals);
        crate::fault::point("verify:ran");
        if result.cancelled.is_some() {
            return Ok(None);
        }
        let (ended, is_failure) = ending(&result);
        let failed = is_failure.then_some(Failed::New);
        let record = CommandRecord { argv: command.clone(), ended, failed, wall_ms: result.wall_ms, log };
        Ok(Some(Ran { record, tail: tails(run, logs) }))
    }

    /// What is executed: the program's file where it is found now, and the arguments with their placeholders replaced.
    fn to_exec(&self, run: &Run<'_>, command: &[String]) -> Result<Vec<OsString>, Failure> {
        let text = |path: PathBuf| path.to_string_lossy().into_owned();
        let root = run.workspace_root();
        let (root_text, folder) = (text(root.clone()), text(self.folder.to_owned()));
        let prompt = text(self.folder.join("prompt.md"));
        let values = Placeholders {
            root: &root_text,
            task: self.name.task.as_str(),
            role: self.name.role.as_str(),
            agent: self.name.agent.as_str(),
            action: prepare::action(self.name.work),
            prompt_file: &prompt,
            session_dir: &folder,
        };
        let mut argv: Vec<OsString> = expand(command, &values)?.into_iter().map(OsString::from).collect();
        // What is not there is a failure of the command, named when it is started.
        let found = find_executable(&argv[0].to_string_lossy(), &root, run.host.variable("PATH"));
        if let Ok(program) = found {
            argv[0] = program.into_os_string();
        }
        Ok(argv)
    }

    /// An agent's environment without what only its session may know, and with a mark that opens nothing.
    fn environment(&self, run: &Run<'_>) -> Result<BTreeMap<OsString, OsString>, Failure> {
        let agent = run.config.agent_of(&self.name.role)?;
        // Only what the agent needs of its environment is asked for.
        let command = Command { argv: Vec::new(), program: PathBuf::new(), agent };
        let places = (run.project, run.config, run.host);
        let mut env = prepare::environment(places, (self.name, &command), &prepare::fresh_token()?, self.temporary);
        env.remove(OsStr::new("RUNNER_TOKEN"));
        env.insert(session::MARK_VARIABLE.into(), self.mark.text().into());
        Ok(env)
    }
}

/// How a command ended, in words, and whether it failed.
fn ending(result: &ExecutionResult) -> (String, bool) {
    match (&result.ended, result.exit) {
        (Ended::CouldNotStart { reason }, _) => (format!("could not start: {reason}"), true),
        (Ended::TimedOut, _) => (format!("was ended at its time limit after {} s", result.wall_ms / 1000), true),
        (Ended::OutputLimit, _) => ("was ended since it printed more than the bound on its output".to_owned(), true),
        (Ended::GuardianLost, _) => ("was ended since its guardian process was killed".to_owned(), true),
        _ if !result.survivors.is_empty() => {
            let left: Vec<_> = result.survivors.iter().map(ToString::to_string).collect();
            (format!("left processes that could not be ended: {}", left.join(", ")), true)
        }
        (_, Some(exit)) => (format!("ended with {exit}"), !exit.is_success()),
        (_, None) => ("ended without a status".to_owned(), true),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::session::Exit;

    #[test]
    fn only_an_exit_status_of_zero_that_nothing_overshadows_is_a_pass() {
        let result = |ended: Ended, exit: Option<Exit>| {
            let mut result = ExecutionResult::without_process(ended, None);
            result.exit = exit;
            result
        };
        for (ended, exit, words, is_failure) in [
            (Ended::Exited, Some(Exit::Code(0)), "ended with exit status 0", false),
            (Ended::Exited, Some(Exit::Code(2)), "ended with exit status 2", true),
            (Ended::Exited, Some(Exit::Signal(9)), "ended with signal SIGKILL (9)", true),
            (Ended::Exited, None, "ended without a status", true),
            (Ended::TimedOut, Some(Exit::Code(0)), "was ended at its time limit after 0 s", true),
            (
                Ended::OutputLimit,
                Some(Exit::Code(0)),
                "was ended since it printed more than the bound on its output",
                true,
            ),
            (Ended::GuardianLost, Some(Exit::Code(0)), "was ended since its guardian process was killed", true),
            (Ended::CouldNotStart { reason: "no such file".to_owned() }, None, "could not start: no such file", true),
        ] {
            assert_eq!(ending(&result(ended, exit)), (words.to_owned(), is_failure));
        }
        let mut left = result(Ended::Exited, Some(Exit::Code(0)));
        left.survivors = vec![session::LeakedProcess { pid: 7, name: "one".to_owned() }];
        assert_eq!(ending(&left), ("left processes that could not be ended: one (7)".to_owned(), true));
    }

    #[test]
    fn a_command_is_shown_on_one_line() {
        let argv = ["sh", "-c", "a b\nc", "plain-1.x"].map(str::to_owned);
        assert_eq!(shown(&argv), r#"sh -c "a b\nc" plain-1.x"#);
    }
}
