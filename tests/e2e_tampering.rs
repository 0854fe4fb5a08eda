//! What belongs to the coordinator alone: rows, plan, configuration and git's own files. A session that touches them is
//! named, what it wrote is kept aside, and everything is put back.

mod support;

use serde_json::{Value, json};
use support::{Project, assert_says, assert_says_one};

/// Two independent tasks; the first one's executor works, does `deed`, and submits. The run must go on with the second
/// and end waiting for a person. Returns the project and what is said about the first task.
fn tampered(deed: &str, names: &[&str]) -> Project {
    let project = Project::tasks(2);
    project.agent_on(&[("S00-001/claim", &format!("work\n{deed}\nsubmit"))]);
    let result = project.run(&[]).stopped(3, "needs_input");
    let told = project.waits("S00-001");
    assert_says(&told, names);
    assert_says(result["external_blockers"]["S00-001"].as_str().expect("a reason"), names);
    assert_eq!(project.status_of("S00-002"), "done", "the other task is carried on honestly");
    assert_eq!(
        project.steps(),
        ["S00-001/claim", "S00-002/claim", "S00-002/review"],
        "nothing of the tampering session was reviewed"
    );
    project
}

/// The same for a session that moves HEAD: the run stops at once.
fn head_moved(deed: &str) -> (Project, Value) {
    let project = Project::tasks(2);
    project.agent_on(&[("S00-001/claim", &format!("work\n{deed}\nsubmit"))]);
    let result = project.run(&[]).stopped(2, "git_error");
    assert_eq!(project.steps(), ["S00-001/claim"]);
    assert_ne!(project.status_of("S00-001"), "review");
    (project, result)
}

#[test]
fn a_row_edited_by_hand_is_put_back() {
    let project =
        tampered("sed -i 's/in_progress/review/' state/tasks/S00/S00-001.json", &["state/tasks/S00/S00-001.json"]);
    assert!(!project.kept("S00-001.json").is_empty(), "what the session wrote is kept");
    project.assert_clean();
}

#[test]
fn another_tasks_row_edited_to_done_does_not_count() {
    let project = tampered(
        "sed -e 's/S00-001/S00-002/g' -e 's/in_progress/done/' state/tasks/S00/S00-001.json >\"$NOTES/row\"; \
         cp \"$NOTES/row\" state/tasks/S00/S00-002.json",
        &["state/tasks/S00/S00-002.json"],
    );
    let actions: Vec<Value> = project.events("S00-002").iter().map(|event| event["action"].clone()).collect();
    assert_eq!(actions, ["claim", "submit", "review", "approve"]);
    project.assert_clean();
}

#[test]
fn a_rewritten_event_is_seen() {
    let project =
        tampered("sed -i 's/\"claim\"/\"blame\"/' state/tasks/S00/S00-001.json", &["state/tasks/S00/S00-001.json"]);
    assert_eq!(project.events("S00-001")[0]["action"], "claim", "history is as it was");
}

#[test]
fn a_deleted_row_is_put_back() {
    tampered("rm state/tasks/S00/S00-001.json", &["state/tasks/S00/S00-001.json"]).assert_clean();
}

#[test]
fn a_broken_row_is_put_back() {
    tampered("echo '{' >state/tasks/S00/S00-001.json", &["state/tasks/S00/S00-001.json"]).assert_clean();
}

#[test]
fn a_deleted_state_folder_is_put_back() {
    let project = tampered("rm -rf state/tasks state/state.json", &["state/state.json"]);
    assert_says(&project.read("state/state.json"), &["schema"]);
    project.assert_clean();
}

#[test]
fn the_scope_is_the_one_of_the_claim_whatever_the_agent_writes_to_its_card() {
    let project = Project::new();
    let card = project.card("S00-001");
    let deed = "sed -i 's|src/S00-001/\\*|*|' planning/tasks/S00-001.json; grep -q '\"\\*\"' planning/tasks/S00-001.json \
                && note widened yes; work; echo mine >>AGENTS.md; submit";
    project.agent_on(&[("*/claim", deed)]);
    let finished = project.run(&[]);
    assert_eq!(project.note("widened").trim(), "yes", "the probe did what it is for");
    assert!(matches!(finished.code, Some(2 | 3)), "{finished}");
    let told = project.waits("S00-001");
    assert_says(&told, &["planning/tasks/S00-001.json"]);
    assert_eq!(project.card("S00-001"), card);
    assert_eq!(project.at_head("AGENTS.md"), "# Agents\n\nWork small.", "the change is not committed");
}

#[test]
fn a_widened_card_alone_is_seen_and_put_back() {
    let project =
        tampered("sed -i 's|src/S00-001/|src/|' planning/tasks/S00-001.json", &["planning/tasks/S00-001.json"]);
    assert_eq!(project.card("S00-001")["scope"], json!(["src/S00-001/*"]));
    assert_says(&project.kept("S00-001.json").join("\n"), &["src/*"]);
    project.assert_clean();
}

#[test]
fn a_deleted_card_is_put_back() {
    tampered("rm planning/tasks/S00-002.json", &["planning/tasks/S00-002.json"]).assert_clean();
}

#[test]
fn an_added_card_is_no_task() {
    let project = tampered(
        "sed 's/S00-001/S00-009/g' planning/tasks/S00-001.json >\"$NOTES/card\"; cp \"$NOTES/card\" planning/tasks/S00-009.json",
        &["planning/tasks/S00-009.json"],
    );
    assert!(!project.exists("planning/tasks/S00-009.json"));
    assert_eq!(project.kept("S00-009.json").len(), 1);
}

#[test]
fn a_stage_edited_by_a_session_is_put_back() {
    tampered("sed -i 's/A sample/My own/' planning/stages/S00.json", &["planning/stages/S00.json"]).assert_clean();
}

#[test]
fn the_configuration_edited_by_a_session_is_put_back() {
    let deed = "sed -i 's/\"timeout_seconds\": 100/\"timeout_seconds\": 99/' runner.local.json";
    let project = tampered(deed, &["runner.local.json"]);
    assert_says(&project.read("runner.local.json"), &["\"timeout_seconds\": 100"]);
    assert_says(&project.kept("runner.local.json").join(""), &["\"timeout_seconds\": 99"]);
}

#[test]
fn junk_in_the_state_folder_is_named_and_not_committed() {
    let project = tampered("head -c 3000000 /dev/zero >state/junk.bin", &["state/junk.bin"]);
    assert!(!project.exists("state/junk.bin"));
    assert!(!project.git(&["log", "--all", "--name-only", "--format="]).contains("junk.bin"));
    assert_eq!(project.kept("junk.bin").len(), 1);
    project.assert_clean();
}

#[test]
fn a_session_may_leave_only_files_that_begin_with_its_own_id() {
    tampered(
        "write state/evidence/auto-qa-000000000000-approval.md good",
        &["state/evidence/auto-qa-000000000000-approval.md"],
    )
    .assert_clean();
}

#[test]
fn a_hook_written_by_the_agent_never_runs() {
    let project = tampered(
        "for hook in pre-commit commit-msg prepare-commit-msg post-commit reference-transaction; do \
         printf '#!/bin/sh\\n: >\"%s/hook-ran\"\\n' \"$NOTES\" >.git/hooks/$hook; chmod 755 .git/hooks/$hook; done",
        &["hooks/pre-commit"],
    );
    assert!(!project.outside("notes/hook-ran").exists(), "code of the session ran inside the coordinator");
    assert!(!project.exists(".git/hooks/pre-commit"));
    assert_eq!(project.kept("pre-commit").len(), 1);
}

#[test]
fn a_program_named_in_gits_configuration_by_the_agent_never_runs() {
    let project = tampered(
        "printf '#!/bin/sh\\n: >\"%s/monitor-ran\"\\n' \"$NOTES\" >\"$NOTES/monitor\"; chmod 755 \"$NOTES/monitor\"; \
         printf '[core]\\n\\tfsmonitor = %s\\n' \"$NOTES/monitor\" >>.git/config",
        &[".git/config"],
    );
    assert!(!project.outside("notes/monitor-ran").exists());
    assert!(!project.read(".git/config").contains("fsmonitor"));
}

#[test]
fn work_cannot_be_hidden_by_gits_own_exclude_file() {
    let project = tampered(
        "mkdir -p .git/info; echo 'src/' >>.git/info/exclude; write src/S00-001/hidden.txt x",
        &["info/exclude"],
    );
    assert!(!project.read(".git/info/exclude").lines().any(|line| line == "src/"));
}

#[test]
fn a_ref_made_by_the_agent_is_removed_and_named() {
    let project = tampered("git tag v9", &["refs/tags/v9"]);
    assert_eq!(project.git(&["tag"]), "");
}

#[test]
fn a_commit_made_by_the_agent_stops_the_run_and_is_not_lost() {
    let (project, result) =
        head_moved("git add -A; git commit -q -m 'My own commit'; note commit \"$(git rev-parse HEAD)\"");
    assert_says_one(&result.to_string(), &["HEAD moved", "HEAD"]);
    // Wherever the branch is now, the agent's work can be had back.
    project.git(&["cat-file", "-e", project.note("commit").trim()]);
    assert_says(&project.waits("S00-001"), &["HEAD"]);
}

#[test]
fn an_amended_commit_stops_the_run() {
    let (project, result) =
        head_moved("note before \"$(git rev-parse HEAD)\"; git commit -q --amend -m 'Better words'");
    assert_says(&result.to_string(), &["HEAD"]);
    project.git(&["cat-file", "-e", project.note("before").trim()]);
}

#[test]
fn a_switched_branch_is_seen_and_gets_no_commit() {
    let project = Project::tasks(2);
    let head = project.head();
    project.agent_on(&[("S00-001/claim", "work; git checkout -q -b elsewhere; submit")]);
    let finished = project.run(&[]);
    assert!(matches!(finished.code, Some(2 | 3)), "{finished}");
    let told = project.waits("S00-001");
    assert_says_one(&told, &["HEAD", "branch"]);
    if project.git(&["branch", "--list", "elsewhere"]).contains("elsewhere") {
        assert_eq!(project.git(&["rev-parse", "elsewhere"]), head, "nothing was committed to the other branch");
    }
}

#[test]
fn claiming_another_task_too_is_refused() {
    let project = Project::tasks(2);
    let deed = "attempt own \"$RUNNER_BIN\" task claim S00-002 --agent \"$RUNNER_AGENT_ID\" --role backend; \
                attempt other \"$RUNNER_BIN\" task claim S00-002 --agent auto-backend-000000000000 --role backend; honest";
    project.agent_on(&[("S00-001/claim", deed)]);
    project.run(&[]).complete();
    assert_eq!((project.note("own").trim(), project.note("other").trim()), ("2", "2"));
    assert_eq!(project.status_of("S00-002"), "done");
}

#[test]
fn a_verb_without_the_sessions_secret_is_refused() {
    let project = Project::new();
    let deed = "attempt bare env -u RUNNER_TOKEN \"$RUNNER_BIN\" task submit S00-001; \
                attempt wrong env RUNNER_TOKEN=0123456789abcdef0123456789abcdef \"$RUNNER_BIN\" task submit S00-001; honest";
    project.agent_on(&[("*/claim", deed)]);
    project.run(&[]).complete();
    assert_eq!((project.note("bare").trim(), project.note("wrong").trim()), ("2", "2"));
}

#[test]
fn the_secret_is_nowhere_on_disk() {
    let project = Project::new();
    project.agent_on(&[("*", "note token \"$RUNNER_TOKEN\"; honest")]);
    project.run(&[]).complete();
    let listing = project.listing();
    for token in project.note("token").lines() {
        assert!(!listing.values().any(|content| content.contains(token)), "a session's secret was written down");
    }
}

/// A project whose remote has a branch that was never fetched.
fn with_remote() -> Project {
    let project = Project::new();
    let remote = project.outside("remote.git").display().to_string();
    project.git(&["clone", "-q", "--bare", ".", &remote]);
    project.git(&["remote", "add", "origin", &remote]);
    project
}

#[test]
fn a_session_that_fetches_is_honest_and_what_it_fetched_is_told() {
    let project = with_remote();
    project.agent_on(&[("*/claim", "git fetch -q origin; git pack-refs --all; work; submit")]);
    project.run(&[]).complete();
    assert_says(&project.records()[0]["findings"].to_string(), &["refs/remotes/origin/main"]);
    assert_eq!(
        project.git(&["rev-parse", "origin/main~0"]),
        project.git(&["rev-parse", "main~2"]),
        "it is not put back"
    );
    project.assert_clean();
}

#[test]
fn a_session_that_fetches_and_makes_a_branch_is_blamed_for_the_branch_alone() {
    let project = with_remote();
    project.agent_on(&[("*/claim", "git fetch -q origin; git branch mine; work; submit")]);
    project.run(&[]).stopped(3, "needs_input");
    let why = project.waits("S00-001");
    assert_says(&why, &["refs/heads/mine"]);
    assert!(!why.contains("refs/remotes"), "{why}");
}

#[test]
fn a_broken_remote_tracking_ref_stops_no_session() {
    let project = Project::tasks(2);
    let break_it = "mkdir -p .git/refs/remotes/origin; echo nonsense >.git/refs/remotes/origin/main; work; submit";
    project.agent_on(&[("S00-001/claim", break_it)]);
    project.run(&[]).complete();
    assert_eq!(project.status(), "");
}
