//! A configuration or a command line that cannot be followed: one clear error, as one JSON object on standard error, exit
//! 2, nothing changed on disk, no agent started.

mod support;

use serde_json::json;
use support::{Project, assert_same, assert_says, assert_says_one};

#[test]
fn a_configuration_value_of_the_wrong_type_or_range_is_named_with_its_key() {
    let project = Project::new();
    let good = project.read("runner.local.json");
    for (key, value) in [
        ("max_sessions", json!(true)),
        ("max_sessions", json!(0)),
        ("max_sessions", json!(10001)),
        ("max_sessions", json!(1.0)),
        ("max_sessions", json!("10")),
        ("max_sessions", json!([1])),
        ("max_task_sessions", json!(0)),
        ("max_task_sessions", json!(1001)),
        ("max_remediation_depth", json!(11)),
        ("max_remediation_depth", json!(-1)),
        ("timeout_seconds", json!(true)),
        ("timeout_seconds", json!(0)),
        ("timeout_seconds", json!(86401)),
        ("timeout_seconds", json!("60")),
        ("exit_grace_seconds", json!(-1)),
        ("exit_grace_seconds", json!(601)),
        ("kill_grace_seconds", json!(false)),
        ("max_prompt_chars", json!(47999)),
        ("max_prompt_chars", json!(90001)),
        ("max_prompt_chars", json!(80000.0)),
        ("argv", json!("sh agent")),
        ("argv", json!([])),
        ("argv", json!([""])),
        ("argv", json!(["sh", 1])),
        ("argv", json!({"0": "sh"})),
        ("argv", json!(["sh", "a\u{0}b"])),
        ("commands_by_role", json!(["sh"])),
        ("commands_by_role", json!({"qa": []})),
        ("commands_by_role", json!({"qa": "sh"})),
        ("context_files", json!("AGENTS.md")),
        ("exclude", json!({"dist": true})),
        ("watch", json!([1])),
        ("environment", json!(["PATH"])),
        ("environment", json!({"set": {"A": 1}})),
        ("environment", json!({"set": {"A": "x\u{0}y"}})),
        ("git_commits", json!(1)),
        ("git_commits", json!("true")),
        ("git_hooks", json!("sometimes")),
        ("on_violation", json!(true)),
    ] {
        project.write("runner.local.json", &good);
        project.config(&json!({key: value}));
        project.refuses(&[], &["runner.local.json", key]);
    }
}

#[test]
fn a_number_out_of_range_is_told_the_range() {
    let project = Project::new();
    project.config(&json!({"max_sessions": 0}));
    project.refuses(&[], &["max_sessions", "1", "10000"]);
    project.config(&json!({"max_sessions": 1, "max_prompt_chars": 1}));
    project.refuses(&[], &["max_prompt_chars", "48000", "90000"]);
}

#[test]
fn a_configuration_that_is_no_object_is_refused() {
    let project = Project::new();
    for text in ["[]", "null", "3", "\"x\"", "true", ""] {
        project.write("runner.local.json", text);
        project.refuses(&[], &["runner.local.json"]);
    }
}

#[test]
fn broken_json_is_shown_with_file_line_and_column() {
    let project = Project::new();
    project.write("runner.local.json", "{\n  \"argv\": [\"sh\"],\n  \"max_sessions\": ,\n}\n");
    let reason = project.refuses(&[], &["runner.local.json", "3"]);
    assert_says_one(&reason, &["line 3", ":3:"]);
    project.write("runner.local.json", "{\"timeout_seconds\": NaN}");
    project.refuses(&[], &["runner.local.json"]);
    project.write("runner.local.json", b"{\"argv\": [\"\xff\"]}");
    project.refuses(&[], &["runner.local.json"]);
}

#[test]
fn an_unknown_key_is_shown_the_nearest_one() {
    let project = Project::new();
    project.config(&json!({"max_sesions": 3}));
    project.refuses(&[], &["max_sesions", "max_sessions"]);
}

#[test]
fn a_key_given_twice_is_refused() {
    let project = Project::new();
    project.write("runner.local.json", "{\"argv\": [\"sh\"], \"max_sessions\": 1, \"max_sessions\": 2}");
    project.refuses(&[], &["max_sessions"]);
}

#[test]
fn all_faults_of_a_configuration_are_reported_at_once() {
    let project = Project::new();
    project.config(&json!({"max_sessions": 0, "timeout_seconds": true, "exlude": []}));
    project.refuses(&[], &["max_sessions", "timeout_seconds", "exlude", "exclude"]);
}

#[test]
fn a_missing_configuration_says_what_to_do() {
    let project = Project::new();
    project.remove("runner.local.json");
    project.refuses(&[], &["runner.local.json"]);
}

#[test]
fn another_configuration_file_is_taken_from_the_root() {
    let project = Project::builder().stage("S00", 1).ignore("other.json\n").build();
    project.write("other.json", project.read("runner.local.json"));
    project.remove("runner.local.json");
    project.refuses(&["--config", "absent.json"], &["absent.json"]);
    project.run(&["--config", "other.json"]).complete();
}

#[test]
fn a_missing_command_is_found_before_any_claim() {
    let project = Project::new();
    project.config(&json!({"argv": null}));
    project.refuses(&[], &["argv"]);
    project.config(&json!({"argv": ["no-such-agent-anywhere"]}));
    project.refuses(&[], &["no-such-agent-anywhere"]);
    project.config(&json!({"argv": ["./tools/absent"]}));
    project.refuses(&[], &["tools/absent"]);
    project.config(&json!({"argv": ["/no/such/agent"]}));
    project.refuses(&[], &["/no/such/agent"]);
}

#[test]
fn a_command_that_cannot_be_run_is_found_before_any_claim() {
    let project = Project::builder().stage("S00", 1).file("tools/agent", "#!/bin/sh\n").build();
    project.config(&json!({"argv": ["./tools/agent"]}));
    let reason = project.refuses(&[], &["tools/agent"]);
    assert_says_one(&reason, &["executable", "executed"]);
    project.config(&json!({"argv": ["./tools"]}));
    project.refuses(&[], &["tools"]);
}

#[test]
fn a_command_the_system_cannot_execute_never_loops() {
    let project = Project::builder().stage("S00", 1).file("tools/agent", "no interpreter line\n").build();
    project.chmod("tools/agent", 0o755);
    project.commit_all("Make it executable");
    project.config(&json!({"argv": ["./tools/agent"]}));
    let finished = project.run(&[]);
    assert!(matches!(finished.code, Some(2 | 3)), "{finished}");
    assert_says(&format!("{finished}"), &["tools/agent"]);
    assert!(!project.exists("planning/tasks/S00-001-r1.json"), "no remediation can mend a machine");
    project.assert_clean();
}

#[test]
fn a_relative_command_is_taken_from_the_root() {
    let project = Project::builder().stage("S00", 1).build();
    let script = format!("#!/bin/sh\nexec /bin/sh '{}'\n", project.outside("agent.sh").display());
    project.write("tools/agent", script);
    project.chmod("tools/agent", 0o755);
    project.commit_all("Add the agent");
    project.config(&json!({"argv": ["./tools/agent"]}));
    project.run(&[]).complete();
}

#[test]
fn a_placeholder_left_in_means_the_machine_is_not_configured() {
    let project = Project::new();
    project.config(&json!({"argv": ["sh", "REPLACE_WITH_CLI"]}));
    project.refuses(&[], &["REPLACE_", "runner.local.json"]);
    let dry = project.run(&["--dry-run"]);
    assert_eq!(dry.code, Some(0), "{dry}");
    assert_eq!(dry.json()["configuration_required"], true);
}

#[test]
fn a_role_has_its_own_command_and_placeholders_are_replaced_once() {
    let project = Project::new();
    project.agent("note \"args-$RUNNER_ACTION\" \"$*\"; honest");
    let script = project.outside("agent.sh").display().to_string();
    let args = ["/bin/sh", &script, "{task}", "{role}", "{action}", "{{role}}", "{unknown}", "{agent}"];
    project.config(&json!({"commands_by_role": {"qa": args}, "argv": ["/bin/sh", script, "general"]}));
    project.run(&[]).complete();
    assert_eq!(project.note("args-claim").trim(), "general");
    let agent = &project.sessions()[1].agent;
    assert_eq!(project.note("args-review").trim(), format!("S00-001 qa review {{qa}} {{unknown}} {agent}"));
}

#[test]
fn variables_are_set_removed_and_passed_by_role() {
    let project = Project::new();
    project.agent("env >\"$NOTES/env-$RUNNER_ACTION\"; honest");
    project.config(&json!({"environment": {
        "set": {"COLOUR": "green"}, "remove": ["LC_ALL"], "by_role": {"qa": {"set": {"COLOUR": "red"}}}}}));
    project.run(&[]).complete();
    let (claim, review) = (project.note("env-claim"), project.note("env-review"));
    assert!(claim.lines().any(|line| line == "COLOUR=green"), "{claim}");
    assert!(review.lines().any(|line| line == "COLOUR=red"), "{review}");
    assert!(!claim.lines().any(|line| line.starts_with("LC_ALL=")), "{claim}");
}

#[test]
fn bad_usage_changes_nothing() {
    let project = Project::new();
    let before = project.listing();
    for args in [&["--max-sessions", "many"][..], &["--no-such-flag"], &["no-such-verb"], &["--max-sessions", "0"]] {
        let finished = project.run(args);
        assert_eq!(finished.code, Some(2), "{finished}");
        assert!(!finished.stderr.is_empty(), "{finished}");
    }
    assert_same(&before, &project.listing());
}

#[test]
fn an_unknown_stage_or_task_is_named() {
    let project = Project::new();
    project.refuses(&["--stage", "S77"], &["S77"]);
    project.refuses(&["--task", "S00-777"], &["S00-777"]);
}

#[test]
fn a_run_inside_a_session_is_refused() {
    let project = Project::tasks(2);
    project.agent_on(&[(
        "S00-001/claim",
        "attempt nested \"$RUNNER_BIN\"; attempt dry \"$RUNNER_BIN\" --max-sessions 1; \
         attempt demo \"$RUNNER_BIN\" demo \"$NOTES/sample\"; attempt init \"$RUNNER_BIN\" init; honest",
    )]);
    project.run(&[]).complete();
    for name in ["nested", "dry", "demo", "init"] {
        assert_eq!(project.note(name).trim(), "2", "{name}");
    }
    assert!(!project.outside("notes/sample").exists(), "nothing is laid down");
}
