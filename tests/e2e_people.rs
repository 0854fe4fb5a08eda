//! What people ask for while a run is on: queued and applied between two sessions, or refused for now; never lost.

mod support;

use serde_json::{Value, json};
use support::{Finished, Project, assert_says};

/// An issue that only a person can settle.
const ASK: &str = "escalate '{\"title\": \"Settle the rates\", \"reason\": \"Only a person knows the rates.\", \
                   \"requires_user_input\": true}'";

#[track_caller]
fn ok(finished: &Finished) -> String {
    assert_eq!(finished.code, Some(0), "{finished}");
    finished.stdout.clone()
}

fn actions(project: &Project, task: &str) -> Vec<Value> {
    project.events(task).iter().map(|event| event["action"].clone()).collect()
}

#[test]
fn an_answer_during_a_run_is_queued_and_counts_after_the_session() {
    let project = Project::tasks(2);
    let (run, go) = project.spawn_held(
        "go",
        &[],
        &[
            ("S00-001/claim", &format!("seen asked || {{ {ASK}; exit; }}; honest")),
            ("S00-002/claim", "tell working; hold go; honest"),
        ],
    );
    let said = ok(&project.run(&["task", "answer", "S00-001", "--text", "The rates are Ada's."]));
    assert_says(&said, &["queued"]);
    assert_eq!(project.row("S00-001")["external_wait"], true, "nothing changes under a live session");
    go.open();
    run.wait().complete();
    assert_eq!(actions(&project, "S00-001"), ["claim", "escalate", "answer", "claim", "submit", "review", "approve"]);
    project.assert_clean();
}

#[test]
fn a_task_added_during_a_run_is_run_too() {
    let project = Project::new();
    let (run, go) = project.spawn_held("go", &[], &[("S00-001/claim", "tell working; hold go; honest")]);
    let mut card = Project::new_card("S00", "S00-009");
    card["title"] = json!("Build one thing more");
    let file = project.write_outside("card.json", &card.to_string());
    assert_says(&ok(&project.run(&["task", "add", "--card", &file])), &["queued"]);
    go.open();
    run.wait().complete();
    assert_eq!(
        project.steps(),
        ["S00-001/claim", "S00-001/review", "S00-009/claim", "S00-009/review"],
        "reviews come before claims"
    );
    project.assert_clean();
}

#[test]
fn a_queued_change_that_is_refused_is_kept_and_said() {
    let project = Project::new();
    let (run, go) = project.spawn_held("go", &[], &[("S00-001/claim", "tell working; hold go; honest")]);
    ok(&project.run(&["task", "answer", "S00-001", "--text", "Nobody asked."]));
    go.open();
    let finished = run.wait();
    finished.complete();
    assert_says(&finished.stderr, &["refused", "S00-001", ".refused"]);
    project.assert_clean();
}

#[test]
fn a_persons_approval_during_a_run_is_refused_for_now() {
    let project = Project::tasks(2);
    let (run, go) = project.spawn_held("go", &[], &[("S00-001/claim", "tell working; hold go; honest")]);
    let refused = project.run(&["task", "approve", "S00-001", "--as", "ada"]);
    assert_eq!(refused.code, Some(75), "{refused}");
    assert_says(&refused.stderr, &[&run.pid().to_string(), "try again"]);
    go.open();
    run.wait().complete();
}

#[test]
fn a_card_that_would_break_the_plan_is_not_added() {
    let project = Project::new();
    let mut card = Project::new_card("S00", "S00-009");
    card["depends_on"] = json!(["S00-404"]);
    let file = project.write_outside("card.json", &card.to_string());
    let before = project.listing();
    let refused = project.run(&["task", "add", "--card", &file]);
    assert_eq!(refused.code, Some(2), "{refused}");
    assert_says(&refused.stderr, &["S00-404"]);
    support::assert_same(&before, &project.listing());
}

#[test]
fn a_persons_commit_holds_what_the_verb_changed_and_nothing_else_under_way() {
    let project = Project::tasks(2);
    project.edit_card("S00-002", &json!({"title": "A title the person still thinks about"}));
    project.write("state/evidence/notes.md", "not ready");
    project.write("state/evidence/mine.md", "looked at it");
    let mut card = Project::new_card("S00", "S00-009");
    card["title"] = json!("Build one thing more");
    let file = project.write_outside("card.json", &card.to_string());
    ok(&project.run(&["task", "add", "--card", &file, "--as", "ada", "--commit"]));
    let added = project.files_of("HEAD");
    assert!(added.contains(&"planning/tasks/S00-009.json".to_owned()), "{added:?}");
    assert!(added.contains(&"state/tasks/S00/S00-009.json".to_owned()), "{added:?}");
    let claim = ["task", "claim", "S00-001", "--agent", "ada", "--role", "backend", "--commit"];
    ok(&project.run(&claim));
    assert_eq!(project.files_of("HEAD"), ["state/tasks/S00/S00-001.json"]);
    let evidence = ["--evidence", "state/evidence/mine.md", "--no-change", "It is there already."];
    ok(&project.run(&[&["task", "submit", "S00-001", "--as", "ada", "--commit"][..], &evidence].concat()));
    assert_eq!(project.files_of("HEAD"), ["state/evidence/mine.md", "state/tasks/S00/S00-001.json"]);
    let left = project.status();
    assert_says(&left, &["planning/tasks/S00-002.json", "state/evidence/notes.md"]);
    assert_eq!(left.lines().count(), 2, "{left}");
}

#[test]
fn a_persons_verb_that_could_not_be_committed_changes_nothing() {
    let project = Project::new();
    project.git(&["checkout", "-q", "--detach"]);
    let before = project.listing();
    let refused = project.run(&["task", "claim", "S00-001", "--agent", "ada", "--role", "backend", "--commit"]);
    assert_eq!(refused.code, Some(2), "{refused}");
    assert_says(&refused.stderr, &["branch"]);
    support::assert_same(&before, &project.listing());
}
