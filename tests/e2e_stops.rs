//! Why a run stops: the exit codes, the `stop` words, waits for a person, and the bounds that keep anything from looping.

mod support;

use serde_json::{Value, json};
use support::{Finished, Project, assert_same, assert_says};

/// An executor that needs a person the first time, and is honest after that.
fn asks(task: &str) -> (String, String) {
    let issue = json!({"title": "Name the owner of rates", "reason": "Only a person knows the rates.", "requires_user_input": true});
    (format!("{task}/claim"), format!("if seen {task}; then honest; else escalate '{issue}'; fi"))
}

#[track_caller]
fn ok(finished: &Finished) {
    assert_eq!(finished.code, Some(0), "{finished}");
}

fn result_keys(result: &Value) {
    for key in [
        "stop",
        "launched",
        "revision",
        "external_blockers",
        "unfinished",
        "last_session",
        "last_commit",
        "commit_error",
    ] {
        assert!(result.get(key).is_some(), "{key} is missing in {result:#}");
    }
}

#[test]
fn a_finished_plan_is_complete() {
    let result = Project::new().run(&[]).complete();
    result_keys(&result);
    assert!(result["revision"].as_u64().is_some_and(|revision| revision >= 3), "{result}");
}

#[test]
fn the_session_limit_ends_a_run_in_order() {
    let project = Project::tasks(2);
    let result = project.run(&["--max-sessions", "1"]).stopped(0, "session_limit");
    result_keys(&result);
    assert_eq!(result["launched"], 1);
    assert_eq!(project.steps(), ["S00-001/claim"]);
    project.config(&json!({"max_sessions": 2}));
    assert_eq!(project.run(&[]).stopped(0, "session_limit")["launched"], 2);
    // The command line wins over the configuration.
    project.run(&["--max-sessions", "9"]).complete();
    project.assert_clean();
}

#[test]
fn a_finished_stage_says_so_while_others_are_open() {
    let project = Project::builder().stage("S00", 1).stage("S01", 1).build();
    let result = project.run(&["--stage", "S00"]).stopped(0, "idle");
    assert_eq!(result["stage_complete"], true);
    assert_eq!(result["unfinished"], 1);
    assert_eq!(project.steps(), ["S00-001/claim", "S00-001/review"]);
    project.run(&["--stage", "S01"]).complete();
}

#[test]
fn only_the_chosen_task_runs() {
    let project = Project::tasks(3);
    project.run(&["--task", "S00-002"]).stopped(0, "idle");
    assert_eq!(project.steps(), ["S00-002/claim", "S00-002/review"]);
}

#[test]
fn a_blocker_in_another_stage_does_not_stop_this_one() {
    let project = Project::builder().stage("S00", 1).stage("S01", 2).build();
    let (pattern, body) = asks("S00-001");
    project.agent_on(&[(&pattern, &body)]);
    project.run(&["--stage", "S00"]).stopped(3, "needs_input");
    let result = project.run(&["--stage", "S01"]).stopped(0, "idle");
    assert_eq!(result["launched"], 4, "all of the stage, not one session a start");
    assert_eq!(result["stage_complete"], true);
}

#[test]
fn a_wait_for_a_person_does_not_stop_what_is_ready() {
    let project = Project::tasks(3);
    let (pattern, body) = asks("S00-001");
    project.agent_on(&[(&pattern, &body)]);
    let result = project.run(&[]).stopped(3, "needs_input");
    result_keys(&result);
    assert_eq!(result["launched"], 5);
    assert_eq!(result["unfinished"], 1);
    assert_says(result["external_blockers"]["S00-001"].as_str().unwrap(), &["Only a person knows the rates."]);
    assert_eq!(project.status_of("S00-003"), "done");
    project.assert_clean();
}

#[test]
fn a_task_behind_a_wait_is_not_run() {
    let project = Project::builder().stage("S00", 2).card("S00-002", json!({"depends_on": ["S00-001"]})).build();
    let (pattern, body) = asks("S00-001");
    project.agent_on(&[(&pattern, &body)]);
    let result = project.run(&[]).stopped(3, "needs_input");
    assert_eq!(result["launched"], 1);
    assert_eq!(result["unfinished"], 2);
}

#[test]
fn an_answer_reaches_the_next_agent_and_the_plan_goes_on() {
    let project = Project::new();
    let (pattern, body) = asks("S00-001");
    project.agent_on(&[(&pattern, &format!("cat >\"$NOTES/prompt-$RUNNER_AGENT_ID\"; {body}"))]);
    project.run(&[]).stopped(3, "needs_input");
    ok(&project.run(&["task", "answer", "S00-001", "--text", "The rates are Ada's."]));
    assert_ne!(project.row("S00-001")["external_wait"], true);
    // What a person's verb leaves is no dirty tree.
    project.run(&[]).complete();
    let agent = &project.sessions()[1].agent;
    assert_says(&project.note(&format!("prompt-{agent}")), &["The rates are Ada's."]);
    project.assert_clean();
}

#[test]
fn an_answer_is_committed_at_once_when_asked() {
    let project = Project::new();
    let (pattern, body) = asks("S00-001");
    project.agent_on(&[(&pattern, &body)]);
    project.run(&[]).stopped(3, "needs_input");
    let head = project.head();
    ok(&project.run(&["task", "answer", "S00-001", "--text", "The rates are Ada's.", "--commit"]));
    assert_ne!(project.head(), head);
    project.assert_clean();
}

#[test]
fn a_task_held_by_a_person_leaves_nothing_ready() {
    let project = Project::new();
    ok(&project.run(&["task", "claim", "S00-001", "--agent", "ada", "--role", "backend"]));
    let result = project.run(&[]).stopped(0, "idle");
    assert_eq!(result["launched"], 0);
    assert_eq!(project.status_of("S00-001"), "in_progress", "recovery never releases a person's claim");
    assert_eq!(project.row("S00-001")["owner"], "ada");
    ok(&project.run(&["task", "release", "S00-001", "--as", "ada"]));
    project.run(&[]).complete();
    project.assert_clean();
}

#[test]
fn a_task_may_use_only_so_many_sessions_over_all_roles() {
    let project = Project::builder().stage("S00", 1).config(json!({"max_task_sessions": 4})).build();
    project.agent_on(&[("*/review", "reject 'Not yet good enough.'")]);
    let result = project.run(&[]).stopped(3, "needs_input");
    assert_eq!(result["launched"], 4);
    assert_eq!(project.steps().len(), 4);
    assert_says(&project.waits("S00-001"), &["max_task_sessions"]);
    // The bound holds over starts.
    assert_eq!(project.run(&[]).stopped(3, "needs_input")["launched"], 0);
    project.assert_clean();
}

#[test]
fn remediation_goes_only_so_deep() {
    for (depth, expected) in [(0, vec!["S00-001/claim"]), (1, vec!["S00-001/claim", "S00-001-r1/claim"])] {
        let project = Project::builder().stage("S00", 1).config(json!({"max_remediation_depth": depth})).build();
        project.agent("exit 7");
        project.run(&[]).stopped(3, "needs_input");
        assert_eq!(project.steps(), expected);
        let last = expected.last().unwrap().trim_end_matches("/claim");
        assert_says(&project.waits(last), &["7"]);
        project.assert_clean();
    }
}

#[test]
fn a_remediation_stays_in_its_origins_scope() {
    let project = Project::new();
    let issue = json!({"title": "Provide more room", "reason": "The scope is too narrow.", "scope": ["*"]});
    project.agent_on(&[(
        "S00-001/claim",
        &format!(
            "attempt wide escalate '{issue}'; if seen once; then honest; else escalate \
        '{{\"title\": \"Provide the table\", \"reason\": \"The table is missing.\"}}'; fi"
        ),
    )]);
    let finished = project.run(&[]);
    assert!(finished.code.is_some(), "{finished}");
    if project.exists("planning/tasks/S00-001-r1.json") {
        let scope = project.card("S00-001-r1")["scope"].clone();
        for glob in scope.as_array().unwrap() {
            assert!(glob.as_str().unwrap().starts_with("src/S00-001/"), "{scope}");
        }
    }
}

#[test]
fn a_reviewer_may_escalate_and_the_review_is_taken_up_again() {
    let project = Project::new();
    let issue = json!({"title": "Provide the missing figure", "reason": "A figure is missing."});
    project.agent_on(&[
        ("S00-001/review", &format!("if seen review; then approve; else escalate '{issue}'; fi")),
        ("S00-001-r1/claim", "write src/S00-001/figure.txt 7; submit"),
    ]);
    project.run(&[]).complete();
    assert_eq!(
        project.steps(),
        ["S00-001/claim", "S00-001/review", "S00-001-r1/claim", "S00-001-r1/review", "S00-001/review"]
    );
    project.assert_clean();
}

#[test]
fn a_failed_commit_is_a_git_error_that_hides_nothing() {
    let project = Project::new();
    project.agent_on(&[("*/claim", "work; write README.md mine; submit")]);
    let result = project.run(&[]).stopped(2, "git_error");
    result_keys(&result);
    assert_eq!(result["launched"], 1);
    assert_says(result["external_blockers"]["S00-001"].as_str().unwrap_or_default(), &["README.md"]);
    assert_says(result["commit_error"].as_str().unwrap_or_default(), &["README.md"]);
}

#[test]
fn a_dry_run_changes_nothing_and_says_what_would_run() {
    let project = Project::tasks(2);
    let before = project.listing();
    let finished = project.run(&["--dry-run"]);
    ok(&finished);
    let result = finished.json();
    assert_eq!(result["dry_run"], true);
    assert_eq!(result["next"]["id"], "S00-001");
    assert_eq!(result["next"]["role"], "backend");
    assert_eq!(result["next"]["action"], "claim");
    assert!(result["prompt_characters"].as_u64().is_some_and(|size| size > 100), "{result}");
    assert_eq!(result["configuration_required"], false);
    assert_eq!(result["state_unchanged"], true);
    assert_same(&before, &project.listing());
    assert!(project.steps().is_empty());
}

#[test]
fn a_dry_run_without_configuration_says_that_it_is_needed() {
    let project = Project::new();
    project.remove("runner.local.json");
    let before = project.listing();
    let finished = project.run(&["--dry-run"]);
    ok(&finished);
    assert_eq!(finished.json()["configuration_required"], true);
    assert_same(&before, &project.listing());
}

#[test]
fn a_dry_run_with_a_broken_plan_or_stage_is_an_error() {
    let project = Project::new();
    assert_says(&project.run(&["--dry-run", "--stage", "S77"]).refused(), &["S77"]);
    project.edit_card("S00-001", &json!({"role": "poet"}));
    assert_says(&project.run(&["--dry-run"]).refused(), &["roles/poet.md"]);
}

#[test]
fn a_dry_run_of_a_plan_that_waits_says_so() {
    let project = Project::new();
    let (pattern, body) = asks("S00-001");
    project.agent_on(&[(&pattern, &body)]);
    project.run(&[]).stopped(3, "needs_input");
    let before = project.listing();
    let finished = project.run(&["--dry-run"]);
    assert!(matches!(finished.code, Some(0 | 3)), "{finished}");
    assert_says(&finished.json().to_string(), &["S00-001"]);
    assert_same(&before, &project.listing());
}

#[test]
fn a_person_may_approve_when_no_session_is_live() {
    let project = Project::new();
    project.run(&["--max-sessions", "1"]).stopped(0, "session_limit");
    let refused = project.run(&["task", "approve", "S00-001"]);
    assert_eq!(refused.code, Some(2), "neither a terminal nor a name: {refused}");
    ok(&project.run(&["task", "approve", "S00-001", "--as", "ada"]));
    assert_eq!(project.status_of("S00-001"), "done");
    project.run(&[]).complete();
}

#[test]
fn a_refused_verb_says_which_rule_and_changes_nothing() {
    let project = Project::new();
    let before = project.listing();
    let finished = project.run(&["task", "approve", "S00-001", "--as", "ada"]);
    assert_eq!(finished.code, Some(2), "{finished}");
    assert_says(&format!("{finished}"), &["review"]);
    assert_same(&before, &project.listing());
}
