//! Agents that are started by their name: found, started as they need it, read, ended, and put on record.
#![expect(clippy::disallowed_methods, reason = "the doors keep the product; tests lay down files")]

mod support;

use std::fs;
use std::os::unix::fs::symlink;

use serde_json::{Value, json};
use support::{Project, assert_says};

/// A folder on PATH with stand-ins for agents.
struct Agents {
    project: Project,
    path: String,
}

impl Agents {
    /// `backend` and `qa` are agents of these names.
    fn of(backend: &str, qa: &str) -> Self {
        let project = Project::new();
        project.agent("honest");
        project.config(&json!({"agents_by_role": {"backend": backend, "qa": qa}}));
        let folder = project.outside("bin");
        fs::create_dir_all(&folder).expect("a folder can be made");
        let path = format!("{}:/usr/bin:/bin", folder.display());
        Self { project, path }
    }

    /// Lays down an agent: notes its arguments and environment, does its work, and then what `script` says.
    fn stands_in(&self, name: &str, script: &str) {
        let program = self.project.outside(&format!("bin/{name}"));
        let real = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data/fake_agent.sh");
        symlink(real, &program).expect("a link can be made");
        let (notes, work) = (self.project.outside("notes"), self.project.outside("agent.sh"));
        let notes = notes.display();
        let text = format!(
            "printf '%s\\n' \"$*\" >'{notes}/{name}-args'; env >'{notes}/{name}-env'\n{script}\n",
            script = script.replace("WORK", &format!(". '{}'", work.display()))
        );
        self.project.write_outside(&format!("bin/{name}.sh"), &text);
    }

    fn run(&self, args: &[&str]) -> support::Finished {
        self.project.run_with(args, &[("PATH", &self.path), ("CLAUDECODE", "1"), ("DISABLE_AUTOUPDATER", "no")])
    }

    /// The records of all sessions, in order.
    fn records(&self) -> Vec<Value> {
        self.project.records()
    }
}

fn print(line: &str) -> String {
    format!("printf '%s\\n' '{line}'")
}

const CODEX_MESSAGE: &str =
    r#"{"type":"item.completed","item":{"id":"item_2","type":"agent_message","text":"All done."}}"#;
const CODEX_END: &str = r#"{"type":"turn.completed","usage":{"input_tokens":37035,"cached_input_tokens":7035,"output_tokens":2034,"reasoning_output_tokens":270}}"#;
const CLAUDE_END: &str = r#"{"type":"result","subtype":"success","is_error":false,"num_turns":2,"result":"Accepted.","total_cost_usd":0.1437255,"usage":{"input_tokens":37035,"cache_creation_input_tokens":0,"cache_read_input_tokens":7035,"output_tokens":2034},"modelUsage":{}}"#;

fn whole(value: u64) -> Value {
    json!({"value": value, "known": true, "complete": true})
}

fn unknown() -> Value {
    json!({"value": 0, "known": false, "complete": false})
}

#[test]
fn an_agents_name_is_enough_to_start_it_and_its_figures_are_on_record() {
    let agents = Agents::of("codex", "claude");
    agents.stands_in("codex", &format!("WORK; {}; {}", print(CODEX_MESSAGE), print(CODEX_END)));
    agents.stands_in("claude", &format!("WORK; {}", print(CLAUDE_END)));
    agents.run(&[]).complete();
    let note = |name: &str| agents.project.note(name);
    assert_eq!(
        note("codex-args").trim(),
        "exec --json --skip-git-repo-check --dangerously-bypass-approvals-and-sandbox -c allow_login_shell=false -"
    );
    assert_eq!(
        note("claude-args").trim(),
        "-p --output-format stream-json --verbose --permission-mode bypassPermissions"
    );
    let environment = note("claude-env");
    assert!(environment.lines().any(|line| line == "DISABLE_AUTOUPDATER=1"), "also where another value was inherited");
    assert!(!environment.lines().any(|line| line.starts_with("CLAUDECODE=")), "{environment}");
    let [codex, claude] = <[Value; 2]>::try_from(agents.records()).expect("two sessions");
    assert_eq!((&codex["dialect"], &claude["dialect"]), (&json!("codex"), &json!("claude")));
    let tokens = json!({"input": whole(37035), "cached_input": whole(7035), "output": whole(2034),
        "reasoning": whole(270), "total": whole(39069)});
    assert_eq!((&codex["tokens"], &codex["agent_fault"]), (&tokens, &Value::Null));
    assert_eq!(codex["cost"], json!({"micro_dollars": 0, "known": false, "complete": false}));
    assert_eq!(codex["final_message"], json!({"bytes": 9, "truncated": false}));
    assert_eq!((&claude["tokens"]["input"], &claude["tokens"]["reasoning"]), (&whole(44070), &unknown()));
    assert_eq!(claude["cost"], json!({"micro_dollars": 143_726, "known": true, "complete": true}));
    assert_eq!(claude["schema"], runner::evidence::RECORD_SCHEMA);
}

#[test]
fn claude_is_interrupted_and_what_it_prints_while_it_cleans_up_is_read() {
    let agents = Agents::of("claude", "codex");
    agents.project.config(&json!({"exit_grace_seconds": 0, "kill_grace_seconds": 60}));
    let end = print(&CLAUDE_END.replace("\"subtype\":\"success\"", "\"subtype\":\"error_during_execution\""));
    // A shell can hear a signal just before it begins to wait for a command; it acts on that when the command is over.
    let work_on = "while :; do sleep 1; done";
    agents.stands_in("claude", &format!("trap \"$(cat <<'E'\n{end}; exit 1\nE\n)\" INT; WORK; {work_on}"));
    agents.stands_in("codex", "WORK");
    agents.run(&[]).complete();
    let claude = &agents.records()[0];
    assert_eq!(claude["execution"]["exit"], json!({"code": 1}), "it was not ended by a signal");
    assert_eq!((&claude["tokens"]["output"], &claude["agent_fault"]["kind"]), (&whole(2034), &json!("other")));
}

#[test]
fn figures_in_output_that_the_log_leaves_out_are_read_all_the_same() {
    let agents = Agents::of("codex", "codex");
    agents.project.config(&json!({"output": {"stdout_bytes": 8192}}));
    let filler = r#"yes '{"type":"item.started","item":{"type":"command_execution"}}' | head -n 5000"#;
    agents.stands_in("codex", &format!("WORK; {filler}; {}; {filler}", print(CODEX_END)));
    agents.run(&[]).complete();
    for record in agents.records() {
        assert!(record["execution"]["output"]["stdout"]["left_out"].as_u64() > Some(500_000), "{record:#}");
        assert_eq!(record["tokens"]["total"], whole(39069));
        assert_eq!(record["skipped_lines"], 1, "what `task submit` says is no record");
    }
}

#[test]
fn a_limit_that_the_agent_met_is_on_record_with_its_end_and_without_secrets() {
    let agents = Agents::of("codex", "codex");
    agents.project.config(&json!({"environment": {"set": {"A_TOKEN": "hunter2hunter2"}}}));
    let failed = r#"{"type":"turn.failed","error":{"message":"You’ve hit your usage limit, says hunter2hunter2. Try again in 3h 12m."}}"#;
    agents.stands_in("codex", &format!("{}; exit 1", print(failed)));
    agents.run(&["--max-sessions", "1"]).stopped(75, "limited");
    let record = &agents.records()[0];
    assert_eq!(record["agent_fault"]["kind"], "limit", "{record:#}");
    assert!(record["agent_fault"]["retry_at"].as_str().is_some_and(|at| at.ends_with('Z')), "{record:#}");
    let text = record["agent_fault"]["text"].as_str().expect("a text");
    assert!(text.contains("usage limit, says [redacted]."), "{text}");
    assert_eq!(record["tokens"]["input"], unknown());
}

#[test]
fn mini_gets_the_prompt_as_an_argument_and_the_record_does_not_repeat_it() {
    let agents = Agents::of("mini", "mini");
    agents.stands_in("mini", "for last; do :; done; printf '%s' \"$last\" >\"$RUNNER_PROMPT_FILE.seen\"; cmp \"$RUNNER_PROMPT_FILE\" \"$RUNNER_PROMPT_FILE.seen\" && rm \"$RUNNER_PROMPT_FILE.seen\" && WORK");
    agents.run(&[]).complete();
    let record = &agents.records()[0];
    let argv = json!(["mini", "-y", "--exit-immediately", "-o", "/dev/null", "-t", "{prompt}"]);
    assert_eq!(record["argv"], argv);
}

#[test]
fn a_prompt_too_long_for_an_argument_is_not_launched_and_names_the_agent() {
    let agents = Agents::of("mini", "mini");
    agents.stands_in("mini", "WORK");
    agents.project.write("docs/big.md", "\u{20ac}".repeat(50_000));
    agents.project.edit_card("S00-001", &json!({"inputs": ["docs/big.md"]}));
    agents.project.commit_all("Give the task much to read");
    let dry = agents.run(&["--dry-run"]).json();
    let words = ["and mini takes it as an argument", "131071"];
    assert_says(dry["configuration_error"].as_str().expect("an error"), &words);
    agents.run(&["--max-sessions", "1"]).stopped(0, "session_limit");
    let record = &agents.records()[0];
    assert_eq!((&record["execution"], &record["failed_stage"]), (&Value::Null, &json!("prompt")), "{record:#}");
    assert_says(&record["result"].to_string(), &words);
    assert_eq!(record["tokens"]["total"], whole(0), "nothing ran that could have used anything");
}

#[test]
fn a_written_command_is_read_in_the_dialect_that_is_named() {
    let project = Project::new();
    project.agent(&format!("honest; {}", print(CODEX_END)));
    project.config(&json!({"dialect": "codex"}));
    project.run(&[]).complete();
    assert_eq!(project.records()[0]["tokens"]["total"], whole(39069));
    project.config(&json!({"dialect": "plain"}));
}

#[test]
fn agents_lists_what_this_machine_has_and_what_is_known_of_each() {
    let agents = Agents::of("codex", "codex");
    agents.stands_in("codex", "");
    agents.project.write_outside("bin/codex.sh", "echo \"codex-cli 1.2.3 $HOME ${CLAUDECODE-sealed}\"");
    agents.stands_in("qwen", "");
    agents.project.write_outside("bin/qwen.sh", "exit 3");
    let folder = agents.project.outside("bin").display().to_string();
    let listed = agents.project.run_with(&["agents", "--json"], &[("PATH", &folder), ("CLAUDECODE", "1")]);
    assert_eq!(listed.code, Some(0), "{listed}");
    let listed = listed.json();
    let of = |name: &str| {
        let all = listed["agents"].as_array().expect("a list");
        all.iter().find(|agent| agent["agent"] == name).expect("it is listed").clone()
    };
    let version = of("codex")["version"].as_str().expect("a version").to_owned();
    assert!(version.starts_with("codex-cli 1.2.3 /") && version.ends_with(" sealed"), "{version}");
    assert!(!version.contains(&agents.project.outside("home").display().to_string()), "{version}");
    assert_eq!(of("codex")["path"], format!("{folder}/codex"));
    assert_eq!(
        (&of("qwen")["version"], &of("qwen")["problem"]),
        (&Value::Null, &json!("`--version` ended with exit status 3"))
    );
    assert_eq!((&of("claude")["path"], &of("claude")["stop_signal"]), (&Value::Null, &json!("SIGINT")));
    assert_eq!(of("mini")["prompt"], "argument");
    assert_eq!(listed["agents"].as_array().map(Vec::len), Some(7));
    let shown = agents.project.run_with(&["agents"], &[("PATH", &folder)]);
    assert_says(
        &shown.stdout,
        &[
            "codex     codex-cli 1.2.3",
            "claude    not found on PATH",
            "- has no shell tool",
            "limits to 128 KiB",
            "`@/paths`",
        ],
    );
}
