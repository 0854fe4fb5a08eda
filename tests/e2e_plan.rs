//! A plan or a state that cannot be trusted: every fault named with its file, exit 2, nothing changed on disk.

mod support;

use serde_json::{Value, json};
use support::{Project, assert_says};

/// A finished plan file with one key changed, written and committed, is refused with words.
#[track_caller]
fn bad_card(patch: &Value, words: &[&str]) {
    let project = Project::tasks(2);
    project.edit_card("S00-001", patch);
    project.commit_all("Change the plan");
    let mut all = vec!["S00-001"];
    all.extend(words);
    project.refuses(&[], &all);
}

#[test]
fn a_fault_in_a_card_is_named_with_file_and_key() {
    for (patch, words) in [
        (json!({"depnds_on": []}), &["planning/tasks/S00-001.json", "depnds_on", "depends_on"][..]),
        (json!({"title": null}), &["title"]),
        (json!({"title": ""}), &["title"]),
        (json!({"title": 3}), &["title"]),
        (json!({"scope": []}), &["scope"]),
        (json!({"scope": "src/*"}), &["scope"]),
        (json!({"scope": ["/etc/*"]}), &["scope", "/etc/*"]),
        (json!({"scope": ["../up/*"]}), &["scope", "../up/*"]),
        (json!({"scope": ["state/*"]}), &["scope", "state/"]),
        (json!({"scope": ["planning/tasks/*"]}), &["scope", "planning/"]),
        (json!({"scope": [".git/hooks/*"]}), &["scope", ".git"]),
        (json!({"stage": "S44"}), &["S44"]),
        (json!({"id": "S00-005"}), &["S00-005"]),
        (json!({"id": "../S00-001"}), &["id"]),
        (json!({"role": "poet"}), &["roles/poet.md"]),
        (json!({"reviewer_role": "critic"}), &["roles/critic.md"]),
        (json!({"depends_on": ["S00-404"]}), &["S00-404"]),
        (json!({"depends_on": "S00-002"}), &["depends_on"]),
        (json!({"outcome": null}), &["outcome"]),
        (json!({"priority": "high"}), &["priority"]),
    ] {
        bad_card(&patch, words);
    }
}

#[test]
fn a_cycle_is_shown_as_its_path() {
    let project = Project::builder()
        .stage("S00", 3)
        .card("S00-001", json!({"depends_on": ["S00-002"]}))
        .card("S00-002", json!({"depends_on": ["S00-003"]}))
        .card("S00-003", json!({"depends_on": ["S00-001"]}))
        .build();
    project.refuses(&[], &["S00-001 → S00-002 → S00-003 → S00-001"]);
    bad_card(&json!({"depends_on": ["S00-001"]}), &["S00-001 → S00-001"]);
}

#[test]
fn a_cycle_through_stages_is_found() {
    let project = Project::builder()
        .stage("S00", 1)
        .stage("S01", 1)
        .stage_keys("S01", json!({"depends_on": ["S00"]}))
        .card("S00-001", json!({"depends_on": ["S01-001"]}))
        .build();
    project.refuses(&[], &["S00-001", "S01-001", "→"]);
}

#[test]
fn all_faults_of_a_plan_are_reported_at_once() {
    let project = Project::tasks(3);
    project.edit_card("S00-001", &json!({"role": "poet"}));
    project.edit_card("S00-002", &json!({"depends_on": ["S00-404"]}));
    project.write("planning/tasks/S00-003.json", "{\n  \"id\": \"S00-003\",\n");
    project.commit_all("Break the plan");
    project.refuses(&[], &["roles/poet.md", "S00-404", "S00-003.json"]);
}

#[test]
fn a_plan_without_stages_or_tasks_is_refused() {
    let project = Project::builder().stage("S00", 0).file("planning/tasks/.keep", "").build();
    project.refuses(&[], &["task"]);
    let project = Project::builder().file("planning/stages/.keep", "").file("planning/tasks/.keep", "").build();
    project.refuses(&[], &["planning"]);
}

#[test]
fn a_project_without_a_plan_is_refused() {
    let project = Project::builder().build();
    project.refuses(&[], &["planning"]);
}

#[test]
fn an_unknown_stage_dependency_is_named() {
    let project = Project::builder().stage("S00", 1).stage_keys("S00", json!({"depends_on": ["S55"]})).build();
    project.refuses(&[], &["S00", "S55"]);
}

#[test]
fn a_newer_state_is_never_written_over() {
    let project = Project::builder().stage("S00", 1).file("state/state.json", "{\"schema\": 999}\n").build();
    project.refuses(&[], &["state/state.json", "999"]);
}

#[test]
fn broken_state_is_named() {
    let project = Project::builder().stage("S00", 1).file("state/state.json", "{\"schema\": 2\n").build();
    project.refuses(&[], &["state/state.json"]);
    let project = Project::builder().stage("S00", 1).file("state/tasks/S00/S00-001.json", "{\"status\": ").build();
    project.refuses(&[], &["S00-001.json"]);
}

#[test]
fn a_place_that_cannot_be_written_is_named_and_no_agent_is_started() {
    // Where a folder must be there is a file: true for root too.
    let project = Project::builder().stage("S00", 1).file("state/tasks", "in the way\n").build();
    let finished = project.run(&[]);
    assert_eq!(finished.code, Some(2), "{finished}");
    assert_says(&format!("{finished}"), &["state/tasks"]);
    assert!(project.steps().is_empty());
    project.assert_clean();
}
