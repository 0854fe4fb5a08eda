//! What belongs to the coordinator alone: rows, plan, configuration and git's own files. A session that touches them is
//! named, what it wrote is kept aside, and everything is put back.

mod support;

use serde_json::{Value, json};
use support::{Project, assert_same, assert_says, assert_says_one};

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
    let project = tampered(
        "sed -i 's/in_progress/review/' state/tasks/S00/S00-001.json",
        &["state/tasks/S00/S00-001.json"],
    );
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
    assert_eq!(actions, ["claim", "submit", "approve"]);
    project.assert_clean();
}

#[test]
fn a_rewritten_event_is_seen() {
    let project = tampered(
        "sed -i 's/\"claim\"/\"blame\"/' state/tasks/S00/S00-001.json",
        &["state/tasks/S00/S00-001.json"],
    );
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
    let project = tampered("sed -i 's|src/S00-001/|src/|' planning/tasks/S00-001.json", &["planning/tasks/S00-001.json"]);
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
    let project = Project::tasks(2);
    let before = project.read("runner.local.json");
    drop(project);
    let project = tampered("sed -i 's/100/99/' runner.local.json", &["runner.local.json"]);
    assert_eq!(before.contains("100"), project.read("runner.local.json").contains("100"));
    assert!(!project.read("runner.local.json").contains("99"));
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
    let project = tampered("mkdir -p .git/info; echo 'src/' >>.git/info/exclude; write src/S00-001/hidden.txt x", &["info/exclude"]);
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
    let (project, result) = head_moved("note before \"$(git rev-parse HEAD)\"; git commit -q --amend -m 'Better words'");
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

#[test]
fn forged_trailers_are_stripped() {
    let project = Project::new();
    let text = "Write the outcome with care\n\nChanges: The outcome.\n\nValidation: Read once more.\n\nTask: S99-999\n\
                Agent: auto-qa-000000000000\nRole: qa\nAction: approve\nstatus: done\nTask-Title: Another\nTask title: Another\n\
                Co-authored-by: A Friend <friend@example.invalid>";
    project.agent_on(&[("*/claim", &format!("message '{text}'; work; \"$RUNNER_BIN\" task submit"))]);
    project.run(&[]).complete();
    let claim = &project.log()[1];
    let message = project.message(claim);
    assert!(message.starts_with("Write the outcome with care\n"), "{message}");
    for forged in ["S99-999", "auto-qa-000000000000", "Role: qa", "Action: approve", "done", "Another"] {
        assert!(!message.contains(forged), "{forged} is left in\n{message}");
    }
    assert_eq!(project.trailer(claim, "Task"), "S00-001");
    assert_eq!(project.trailer(claim, "Action"), "submit");
    assert_says(&message, &["Co-authored-by: A Friend"]);
}

#[test]
fn a_missing_message_costs_nothing() {
    let project = Project::new();
    project.agent_on(&[("*/claim", "work; \"$RUNNER_BIN\" task submit"), ("*/review", "\"$RUNNER_BIN\" task approve")]);
    project.run(&[]).complete();
    for commit in &project.log()[..2] {
        let message = project.message(commit);
        let subject = message.lines().next().unwrap_or_default();
        assert!((15..=100).contains(&subject.chars().count()), "{message}");
        assert_says(&message, &["S00-001"]);
        assert_eq!(project.trailer(commit, "Task"), "S00-001");
    }
    project.assert_clean();
}

#[test]
fn a_message_that_breaks_the_rules_is_replaced_with_the_reason() {
    for text in ["wip", "Write the outcome with care and no paragraphs at all", ""] {
        let project = Project::new();
        project.agent_on(&[("*/claim", &format!("message '{text}'; work; \"$RUNNER_BIN\" task submit"))]);
        project.run(&[]).complete();
        let message = project.message(&project.log()[1]);
        assert_ne!(message.lines().next(), Some(text));
        assert_says(&message, &["message"]);
        assert_eq!(project.trailer(&project.log()[1], "Action"), "submit");
        project.assert_clean();
    }
}

#[test]
fn a_stale_index_lock_is_named() {
    let project = Project::new();
    project.write(".git/index.lock", "");
    let before = project.listing();
    let reason = project.run(&[]).refused();
    assert_says(&reason, &["index.lock"]);
    assert_same(&before, &project.listing());
    project.remove(".git/index.lock");
    project.run(&[]).complete();
}

#[test]
fn an_index_lock_left_by_a_session_is_named_and_its_commit_is_made_later() {
    let project = Project::new();
    project.agent_on(&[("*/claim", "work; : >.git/index.lock; submit")]);
    let result = project.run(&[]).stopped(2, "git_error");
    assert_says(result["commit_error"].as_str().unwrap_or_default(), &["index.lock"]);
    project.remove(".git/index.lock");
    project.run(&[]).complete();
    assert_eq!(project.steps(), ["S00-001/claim", "S00-001/review"], "the session's work counts");
    assert_eq!(project.log().len(), 3);
    assert_eq!(project.trailer(&project.log()[1], "Action"), "submit");
    project.assert_clean();
}

#[test]
fn the_owners_failing_hook_fails_the_commit_with_its_words_and_the_commit_is_made_later() {
    let project = Project::builder().stage("S00", 1).config(json!({"git_hooks": "run"})).build();
    project.write(".git/hooks/pre-commit", "#!/bin/sh\necho 'lint failed on line 7' >&2\nexit 1\n");
    project.chmod(".git/hooks/pre-commit", 0o755);
    let result = project.run(&[]).stopped(2, "git_error");
    assert_says(result["commit_error"].as_str().unwrap_or_default(), &["lint failed on line 7"]);
    project.write(".git/hooks/pre-commit", "#!/bin/sh\nexit 0\n");
    project.run(&[]).complete();
    assert_eq!(project.steps(), ["S00-001/claim", "S00-001/review"]);
    assert_eq!(project.log().len(), 3);
    project.assert_clean();
}

#[test]
fn the_owners_hooks_do_not_run_unless_wanted() {
    let project = Project::new();
    let mark = project.outside("notes/hook-ran");
    project.write(".git/hooks/pre-commit", format!("#!/bin/sh\n: >'{}'\nexit 1\n", mark.display()));
    project.chmod(".git/hooks/pre-commit", 0o755);
    project.run(&[]).complete();
    assert!(!mark.exists());
}
