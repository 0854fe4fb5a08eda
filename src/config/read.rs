//! Reading `runner.local.json`: one table of keys, ranges and defaults.
//!
//! Owns what is accepted. An unknown key is refused by name: ignoring it would promise something that does not happen.

use std::collections::BTreeMap;
use std::ops::RangeInclusive;
use std::path::Path;
use std::time::Duration;

use serde_json::Value;

use super::agent;
use super::environment::{self, Environment};
use super::records::{self, Retention};
use super::spending;
use super::verify::{self, Verify};
use super::workspace::{self, Mode, Workspace};
use super::{Config, ConfigError, Hooks, OnLimit, OnViolation, Output, Rework};
use crate::agents::Dialect;
use crate::budget::Budgets;
use crate::ids::Role;
use crate::strict::{Document, Fault, Fields, path_problem, texts_of};

/// A whole number: key, range, default.
struct Whole(&'static str, RangeInclusive<u32>, u32);

/// A length of time in seconds: key, whether zero is allowed, greatest value, default.
pub(super) struct Seconds(pub(super) &'static str, pub(super) bool, pub(super) f64, pub(super) u64);

const MAX_SESSIONS: Whole = Whole("max_sessions", 1..=10_000, 1_000);
const MAX_TASK_SESSIONS: Whole = Whole("max_task_sessions", 1..=1_000, 12);
const MAX_REMEDIATION_DEPTH: Whole = Whole("max_remediation_depth", 0..=10, 2);
const MAX_PROMPT_CHARS: Whole = Whole("max_prompt_chars", 48_000..=90_000, 80_000);
const FOLLOW_UP_TURNS: Whole = Whole("follow_up_turns", 0..=10, 1);
const TIMEOUT: Seconds = Seconds("timeout_seconds", false, 86_400.0, 1_800);
const EXIT_GRACE: Seconds = Seconds("exit_grace_seconds", true, 600.0, 5);
const KILL_GRACE: Seconds = Seconds("kill_grace_seconds", true, 600.0, 5);
const DRAIN: Seconds = Seconds("drain_seconds", true, 600.0, 2);
const IDLE_TIMEOUT: Seconds = Seconds("idle_timeout_seconds", false, 86_400.0, 0);
/// The least holds a head, the line that states the gap, and an end.
const STDOUT_BYTES: Whole = Whole("stdout_bytes", 4_096..=1 << 30, 8 << 20);
const STDERR_BYTES: Whole = Whole("stderr_bytes", 4_096..=1 << 30, 2 << 20);
const COMBINED_BYTES: Whole = Whole("combined_bytes", 8_192..=1 << 30, 8 << 20);
const EXCLUDE: [&str; 5] = ["node_modules", ".venv", "__pycache__", "dist", "coverage"];

pub(super) fn defaults() -> Config {
    Config {
        argv: None,
        commands_by_role: BTreeMap::new(),
        agent: None,
        agents_by_role: BTreeMap::new(),
        dialect: Dialect::default(),
        max_sessions: MAX_SESSIONS.2,
        max_task_sessions: MAX_TASK_SESSIONS.2,
        max_remediation_depth: MAX_REMEDIATION_DEPTH.2,
        timeout: Duration::from_secs(TIMEOUT.3),
        idle_timeout: None,
        exit_grace: Duration::from_secs(EXIT_GRACE.3),
        kill_grace: Duration::from_secs(KILL_GRACE.3),
        drain: Duration::from_secs(DRAIN.3),
        output: Output {
            stdout: STDOUT_BYTES.2.into(),
            stderr: STDERR_BYTES.2.into(),
            combined: COMBINED_BYTES.2.into(),
            ends_session: false,
        },
        max_prompt_chars: MAX_PROMPT_CHARS.2 as usize,
        context_files: None,
        exclude: EXCLUDE.map(str::to_owned).to_vec(),
        watch: Vec::new(),
        environment: Environment::default(),
        git_commits: true,
        git_hooks: Hooks::Off,
        on_violation: OnViolation::Stop,
        follow_up_turns: FOLLOW_UP_TURNS.2,
        rework: Rework::Fresh,
        on_limit: OnLimit::Stop,
        budget: Budgets::default(),
        workspace: Workspace::default(),
        verify: Verify::default(),
        reviewer_differs: false,
        retention: Retention::default(),
        report: None,
    }
}

pub(super) fn parse(path: &Path, bytes: &[u8]) -> Result<Config, ConfigError> {
    let document = Document::parse(path, bytes).map_err(|fault| ConfigError::Faults(vec![fault]))?;
    let (config, faults) = document.read(config);
    match config {
        Some(config) if faults.is_empty() => Ok(config),
        _ => Err(ConfigError::Faults(faults)),
    }
}

/// The session limit given on the command line, in the range of its key.
pub(super) fn max_sessions(sessions: i64) -> Result<u32, Fault> {
    let Whole(_, range, _) = MAX_SESSIONS;
    u32::try_from(sessions).ok().filter(|number| range.contains(number)).ok_or_else(|| {
        let wanted = format!("must be an integer from {} to {}, not {sessions}", range.start(), range.end());
        Fault::new("--max-sessions", wanted)
    })
}

fn config(fields: &mut Fields<'_>) -> Config {
    let default = defaults();
    let config = Config {
        argv: command(fields),
        commands_by_role: commands(fields),
        agent: agent::agent(fields),
        agents_by_role: agent::agents(fields),
        dialect: agent::dialect(fields),
        max_sessions: whole(fields, &MAX_SESSIONS),
        max_task_sessions: whole(fields, &MAX_TASK_SESSIONS),
        max_remediation_depth: whole(fields, &MAX_REMEDIATION_DEPTH),
        timeout: seconds(fields, &TIMEOUT),
        idle_timeout: idle_timeout(fields),
        exit_grace: seconds(fields, &EXIT_GRACE),
        kill_grace: seconds(fields, &KILL_GRACE),
        drain: seconds(fields, &DRAIN),
        output: output(fields),
        max_prompt_chars: whole(fields, &MAX_PROMPT_CHARS) as usize,
        context_files: fields.checked_texts("context_files", path_problem),
        exclude: fields.checked_texts("exclude", folder_problem).unwrap_or(default.exclude),
        watch: fields.checked_texts("watch", path_problem).unwrap_or_default(),
        environment: fields.object("environment", environment::read).unwrap_or_default(),
        git_commits: fields.boolean("git_commits").unwrap_or(default.git_commits),
        git_hooks: choice(fields, "git_hooks", &[("off", Hooks::Off), ("run", Hooks::Run)])
            .unwrap_or(default.git_hooks),
        on_violation: choice(
            fields,
            "on_violation",
            &[("stop", OnViolation::Stop), ("set_aside", OnViolation::SetAside)],
        )
        .unwrap_or(default.on_violation),
        follow_up_turns: whole(fields, &FOLLOW_UP_TURNS),
        rework: choice(fields, "rework", &[("fresh", Rework::Fresh), ("continue", Rework::Continue)])
            .unwrap_or(default.rework),
        on_limit: spending::on_limit(fields),
        budget: fields.object("budget", spending::budgets).unwrap_or_default(),
        workspace: fields.object("workspace", workspace::read).unwrap_or_default(),
        verify: verify::read(fields),
        reviewer_differs: fields.boolean("reviewer_differs").unwrap_or(default.reviewer_differs),
        retention: fields.object("retention", records::retention).unwrap_or_default(),
        report: fields.object("report", records::report).flatten(),
    };
    if config.workspace.mode == Mode::Worktree {
        if !config.git_commits {
            fields.fault(
                "workspace.mode",
                "needs git: accepted work reaches the root as a commit; set `git_commits` to true",
            );
        }
        if config.git_hooks == Hooks::Run {
            let why = "cannot be \"worktree\" while `git_hooks` is \"run\": hooks would see the root's files, not the session's";
            fields.fault("workspace.mode", why);
        }
    }
    fields.finish();
    config
}

/// A limit that may be written as `null`: none.
fn idle_timeout(fields: &mut Fields<'_>) -> Option<Duration> {
    let is_set = fields.value(IDLE_TIMEOUT.0).is_some_and(|value| !value.is_null());
    is_set.then(|| seconds(fields, &IDLE_TIMEOUT)).filter(|limit| !limit.is_zero())
}

fn output(fields: &mut Fields<'_>) -> Output {
    let ends = choice(fields, "output_limit_action", &[("keep", false), ("end", true)]).unwrap_or(false);
    let bounds = fields.object("output", |fields| {
        let bounds = [&STDOUT_BYTES, &STDERR_BYTES, &COMBINED_BYTES].map(|bound| u64::from(whole(fields, bound)));
        fields.finish();
        bounds
    });
    let [stdout, stderr, combined] =
        bounds.unwrap_or([STDOUT_BYTES, STDERR_BYTES, COMBINED_BYTES].map(|Whole(_, _, default)| default.into()));
    Output { stdout, stderr, combined, ends_session: ends }
}

fn whole(fields: &mut Fields<'_>, Whole(key, range, default): &Whole) -> u32 {
    let range = i64::from(*range.start())..=i64::from(*range.end());
    let number = fields.integer(key, &range);
    number.and_then(|number| u32::try_from(number).ok()).unwrap_or(*default)
}

pub(super) fn seconds(fields: &mut Fields<'_>, Seconds(key, zero, greatest, default): &Seconds) -> Duration {
    let wanted = match zero {
        true => format!("a number from 0 to {greatest}"),
        false => format!("a number above 0 and at most {greatest}"),
    };
    let number =
        fields.number(key, &wanted, |number| number <= *greatest && (number > 0.0 || (*zero && number == 0.0)));
    // A positive number too small for the clock would otherwise become "no time at all".
    let least = if *zero { Duration::ZERO } else { Duration::from_nanos(1) };
    number.map_or(Duration::from_secs(*default), |number| Duration::from_secs_f64(number).max(least))
}

pub(super) fn choice<T: Copy>(fields: &mut Fields<'_>, key: &'static str, choices: &[(&str, T)]) -> Option<T> {
    let value = fields.value(key)?;
    let found = choices.iter().find(|(name, _)| value.as_str() == Some(name)).map(|(_, choice)| *choice);
    if found.is_none() {
        let names: Vec<_> = choices.iter().map(|(name, _)| format!("\"{name}\"")).collect();
        fields.fault(key, format!("must be {}, not {value}", names.join(" or ")));
    }
    found
}

fn command(fields: &mut Fields<'_>) -> Option<Vec<String>> {
    let value = fields.value("argv")?;
    arguments(fields, "argv", value)
}

fn commands(fields: &mut Fields<'_>) -> BTreeMap<Role, Vec<String>> {
    let mut commands = BTreeMap::new();
    for (role, value) in fields.entries("commands_by_role") {
        let key = format!("commands_by_role.{role}");
        let argv = arguments(fields, &key, value);
        if let (Some(role), Some(argv)) = (fields.parsed(&key, role), argv) {
            commands.insert(role, argv);
        }
    }
    commands
}

/// A command: a list of arguments, never one line for a shell.
pub(super) fn arguments(fields: &mut Fields<'_>, key: &str, value: &Value) -> Option<Vec<String>> {
    let problem = match texts_of(value) {
        None => "must be a list of texts, one for each argument (no shell line)",
        Some(argv) if argv.is_empty() => "is an empty list; name the program",
        Some(argv) if argv.iter().any(String::is_empty) => "holds an empty argument; remove it",
        Some(argv) if argv.iter().any(|text| text.contains('\0')) => {
            "holds a NUL character, which no program can be given; remove it"
        }
        Some(argv) => return Some(argv),
    };
    fields.fault(key, problem);
    None
}

fn folder_problem(name: &str) -> Option<String> {
    if name.is_empty() || matches!(name, "." | "..") || name.contains(['/', '\0']) {
        return Some("is no folder name; write one name without `/`".to_owned());
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::agents::Preset;
    use proptest::prelude::*;

    fn parsed(json: &str) -> Result<Config, ConfigError> {
        parse(Path::new("runner.local.json"), json.as_bytes())
    }

    fn faults(json: &str) -> Vec<String> {
        match parsed(json) {
            Err(ConfigError::Faults(faults)) => faults.iter().map(ToString::to_string).collect(),
            other => panic!("{json}: {other:?}"),
        }
    }

    #[test]
    fn an_empty_object_is_the_default_configuration() {
        assert_eq!(parsed("{}").unwrap(), Config::default());
        assert_eq!(Config::default().timeout, Duration::from_mins(30));
        assert_eq!(Config::default().max_prompt_chars, 80_000);
    }

    #[test]
    fn every_key_is_read() {
        let json = r#"{
            "argv": ["agent", "{prompt_file}"], "commands_by_role": {"qa": ["critic"]},
            "agent": {"preset": "codex", "model": "m", "extra_args": ["-v"]}, "agents_by_role": {"x": "claude"}, "dialect": "mini",
            "max_sessions": 7, "max_task_sessions": 8, "max_remediation_depth": 0, "timeout_seconds": 0.5,
            "exit_grace_seconds": 0, "kill_grace_seconds": 600, "max_prompt_chars": 48000,
            "idle_timeout_seconds": 90.5, "drain_seconds": 0, "output_limit_action": "end",
            "output": {"stdout_bytes": 4096, "combined_bytes": 1073741824},
            "context_files": ["AGENTS.md", "roles/{role}.md"], "exclude": ["out"], "watch": ["generated/x"],
            "environment": {"set": {"A": ""}, "remove": ["B"], "pass": null, "by_role": {"qa": {"pass": ["PATH"]}}},
            "git_commits": false, "git_hooks": "run", "on_violation": "set_aside",
            "follow_up_turns": 0, "rework": "continue",
            "on_limit": "wait", "budget": {"run": {"tokens": 5}},
            "verify": {"all": [["make"]], "by_role": {"qa": [["lint", "-x"]]}}, "reviewer_differs": true,
            "retention": {"runs": 9, "days": 8, "bytes": 7},
            "report": {"url": "https://host/x", "headers_from_env": {"X-Key": "HOST_KEY"}, "timeout_seconds": 1.5}
        }"#;
        let config = parsed(json).unwrap();
        let qa: Role = "qa".parse().unwrap();
        assert_eq!(config.agent_of(&qa).unwrap().argv, ["critic"]);
        assert_eq!(config.agent_of(&"other".parse().unwrap()).unwrap().argv, ["agent", "{prompt_file}"]);
        assert_eq!((config.agent.unwrap().preset, config.dialect), (Preset::Codex, Dialect::Mini));
        assert_eq!(config.agents_by_role[&"x".parse().unwrap()].preset, Preset::Claude);
        assert_eq!((config.max_sessions, config.max_task_sessions, config.max_remediation_depth), (7, 8, 0));
        assert_eq!(config.timeout, Duration::from_millis(500));
        assert_eq!((config.exit_grace, config.kill_grace), (Duration::ZERO, Duration::from_mins(10)));
        assert_eq!((config.idle_timeout, config.drain), (Some(Duration::from_millis(90_500)), Duration::ZERO));
        let output = Output { stdout: 4096, stderr: 2 << 20, combined: 1 << 30, ends_session: true };
        assert_eq!(config.output, output);
        assert_eq!(config.context_files.as_deref().unwrap(), ["AGENTS.md", "roles/{role}.md"]);
        assert_eq!((config.exclude, config.watch), (vec!["out".to_owned()], vec!["generated/x".to_owned()]));
        assert_eq!(config.environment.general.set["A"], "");
        assert_eq!(config.environment.general.pass, None);
        assert_eq!(config.environment.by_role[&qa].pass.as_deref().unwrap(), ["PATH"]);
        assert_eq!(
            (config.git_commits, config.git_hooks, config.on_violation),
            (false, Hooks::Run, OnViolation::SetAside)
        );
        assert_eq!((config.follow_up_turns, config.rework), (0, Rework::Continue));
        assert_eq!((config.on_limit != OnLimit::Stop, config.budget.run.tokens), (true, Some(5)));
        assert_eq!(config.verify.of(&qa).map(|argv| argv.join(" ")).collect::<Vec<_>>(), ["make", "lint -x"]);
        assert!(config.reviewer_differs);
        assert_eq!(config.retention, Retention { runs: 9, days: 8, bytes: 7 });
        let report = config.report.unwrap();
        assert_eq!((report.url.as_str(), report.timeout), ("https://host/x", Duration::from_millis(1500)));
        assert_eq!(report.headers_from_env["X-Key"], "HOST_KEY");
    }

    /// What is refused, and the one fault it is.
    const REFUSED: &[(&str, &str)] = &[
        (r#"{"max_sessions": true}"#, "key `max_sessions` must be an integer from 1 to 10000, not `true`"),
        (r#"{"max_sessions": 1.0}"#, "key `max_sessions` must be an integer from 1 to 10000, not `1.0`"),
        (r#"{"max_sessions": 0}"#, "key `max_sessions` must be an integer from 1 to 10000, not `0`"),
        (r#"{"max_task_sessions": 1001}"#, "key `max_task_sessions` must be an integer from 1 to 1000, not `1001`"),
        (r#"{"max_remediation_depth": -1}"#, "key `max_remediation_depth` must be an integer from 0 to 10, not `-1`"),
        (
            r#"{"max_prompt_chars": 90001}"#,
            "key `max_prompt_chars` must be an integer from 48000 to 90000, not `90001`",
        ),
        (r#"{"timeout_seconds": 0}"#, "key `timeout_seconds` must be a number above 0 and at most 86400, not `0`"),
        (
            r#"{"timeout_seconds": true}"#,
            "key `timeout_seconds` must be a number above 0 and at most 86400, not `true`",
        ),
        (r#"{"kill_grace_seconds": 600.5}"#, "key `kill_grace_seconds` must be a number from 0 to 600, not `600.5`"),
        (
            r#"{"idle_timeout_seconds": 0}"#,
            "key `idle_timeout_seconds` must be a number above 0 and at most 86400, not `0`",
        ),
        (r#"{"drain_seconds": -1}"#, "key `drain_seconds` must be a number from 0 to 600, not `-1`"),
        (
            r#"{"output": {"stdout_bytes": 10}}"#,
            "key `output.stdout_bytes` must be an integer from 4096 to 1073741824, not `10`",
        ),
        (r#"{"output": {"stdout_byte": 10000}}"#, "key `output.stdout_byte` is unknown; did you mean `stdout_bytes`?"),
        (r#"{"output_limit_action": "stop"}"#, "key `output_limit_action` must be \"keep\" or \"end\", not \"stop\""),
        (r#"{"argv": "agent --go"}"#, "key `argv` must be a list of texts, one for each argument (no shell line)"),
        (r#"{"argv": null}"#, "key `argv` must be a list of texts, one for each argument (no shell line)"),
        (r#"{"argv": []}"#, "key `argv` is an empty list; name the program"),
        (r#"{"argv": ["a", ""]}"#, "key `argv` holds an empty argument; remove it"),
        (r#"{"argv": ["a", "\u0000"]}"#, "key `argv` holds a NUL character, which no program can be given; remove it"),
        (r#"{"commands_by_role": []}"#, "key `commands_by_role` must be an object, not a list"),
        (
            r#"{"commands_by_role": {"qa": null}}"#,
            "key `commands_by_role.qa` must be a list of texts, one for each argument (no shell line)",
        ),
        (r#"{"git_commits": 1}"#, "key `git_commits` must be true or false, not `1`"),
        (r#"{"git_hooks": true}"#, "key `git_hooks` must be \"off\" or \"run\", not true"),
        (r#"{"on_violation": "ask"}"#, "key `on_violation` must be \"stop\" or \"set_aside\", not \"ask\""),
        (
            r#"{"context_files": ["../x"]}"#,
            "key `context_files` holds \"../x\", which leads upwards with `..`; write it from the project's root",
        ),
        (r#"{"watch": ["/x"]}"#, "key `watch` holds \"/x\", which is absolute; write it from the project's root"),
        (r#"{"exclude": ["a/b"]}"#, "key `exclude` holds \"a/b\", which is no folder name; write one name without `/`"),
        (r#"{"environment": {"set": {"A": 1}}}"#, "key `environment.set.A` must be a text"),
        (
            r#"{"environment": {"set": {"A": "\u0000"}}}"#,
            "key `environment.set.A` holds a NUL character, which no program can be given; remove it",
        ),
        (
            r#"{"environment": {"set": {"A=B": ""}}}"#,
            "key `environment.set` holds \"A=B\", which is no name of a variable; write it without `=`",
        ),
        (
            r#"{"environment": {"remove": ["RUNNER_TOKEN"]}}"#,
            "key `environment.remove` holds \"RUNNER_TOKEN\", which the coordinator sets itself; remove it",
        ),
        (
            r#"{"environment": {"by_role": {"qa": {"sett": {}}}}}"#,
            "key `environment.by_role.qa.sett` is unknown; did you mean `set`?",
        ),
        (
            r#"{"environment": {"by_role": {"qa": 1}}}"#,
            "key `environment.by_role.qa` must be an object with `set`, `remove` or `pass`",
        ),
        (r#"{"rework": "again"}"#, "key `rework` must be \"fresh\" or \"continue\", not \"again\""),
        (r#"{"follow_up_turns": 11}"#, "key `follow_up_turns` must be an integer from 0 to 10, not `11`"),
        (r#"{"max_sesions": 1}"#, "key `max_sesions` is unknown; did you mean `max_sessions`?"),
        (r#"{"git_hooks": "off", "git_hooks": "run"}"#, "key `git_hooks` is written twice; keep one"),
        ("[]", "must hold one object, not a list"),
    ];

    #[test]
    fn a_wrong_value_is_one_fault_that_names_the_key_and_what_is_accepted() {
        for (json, wanted) in REFUSED {
            assert_eq!(faults(json), [format!("runner.local.json: {wanted}")], "{json}");
        }
    }

    #[test]
    fn no_idle_limit_may_be_written_as_null() {
        assert_eq!(parsed(r#"{"idle_timeout_seconds": null}"#).unwrap().idle_timeout, None);
    }

    #[test]
    fn all_faults_are_reported_at_once() {
        assert_eq!(faults(r#"{"argv": 1, "max_sessions": 0, "zebra": 1, "on_limit": 1}"#).len(), 4);
    }

    #[test]
    fn not_a_number_is_no_json() {
        for number in ["NaN", "1e999", "Infinity", "01"] {
            let faults = faults(&format!("{{\"timeout_seconds\": {number}}}"));
            assert!(faults.len() == 1 && faults[0].starts_with("runner.local.json:1:"), "{faults:?}");
        }
    }

    #[test]
    fn a_missing_file_says_what_to_write() {
        let folder = tempfile::tempdir().unwrap();
        let error = Config::load(&folder.path().join("runner.local.json")).unwrap_err().to_string();
        assert!(error.contains("runner.local.json does not exist") && error.contains("runner.example.json"), "{error}");
    }

    #[test]
    fn the_command_lines_session_limit_keeps_to_the_same_range() {
        let mut config = Config::default();
        config.limit_sessions(1).unwrap();
        assert_eq!(config.max_sessions, 1);
        for bad in [0, -1, 10_001, i64::MAX] {
            let error = config.limit_sessions(bad).unwrap_err().to_string();
            assert!(error.starts_with("--max-sessions: must be an integer from 1 to 10000"), "{error}");
        }
    }

    #[test]
    fn without_any_command_the_role_is_named() {
        let error = Config::default().agent_of(&"qa".parse().unwrap()).unwrap_err().to_string();
        assert!(error.contains("role `qa`") && error.contains("`argv`"), "{error}");
    }

    proptest! {
        #[test]
        fn any_text_is_a_configuration_or_an_error_and_never_a_panic(text in "[\\[\\]{}\":,a-z0-9_. -]{0,60}") {
            let _either = parsed(&text);
        }

        #[test]
        fn a_timeout_in_range_is_never_zero(seconds in 1e-12..86_400.0) {
            let json = format!("{{\"timeout_seconds\": {seconds:e}}}");
            prop_assert!(parsed(&json).unwrap().timeout > Duration::ZERO);
        }
    }
}
