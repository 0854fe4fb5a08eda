//! What a plan looks like when it is carried to its end.

mod support;

use serde_json::json;
use support::{Project, assert_says};

#[test]
fn a_plan_runs_to_complete_with_one_commit_per_ended_session() {
    let project = Project::tasks(3);
    let result = project.run(&[]).complete();
    assert_eq!(result["launched"], 6);
    assert_eq!(result["unfinished"], 0);
    assert_eq!(result["external_blockers"], json!({}));
    assert_eq!(result["commit_error"], json!(null));
    assert_eq!(result["last_commit"], project.head());
    assert_eq!(project.log().len(), 1 + 6);
    for task in ["S00-001", "S00-002", "S00-003"] {
        assert_eq!(project.status_of(task), "done");
        assert_eq!(project.at_head(&format!("src/{task}/out.txt")), format!("work of {task}"));
    }
    project.assert_clean();
}

#[test]
fn reviews_come_first_and_every_session_has_an_agent_of_its_own() {
    let project = Project::tasks(2);
    project.run(&[]).complete();
    assert_eq!(project.steps(), ["S00-001/claim", "S00-001/review", "S00-002/claim", "S00-002/review"]);
    let agents: Vec<String> = project.sessions().into_iter().map(|session| session.agent).collect();
    for (agent, role) in agents.iter().zip(["backend", "qa", "backend", "qa"]) {
        let random = agent.strip_prefix(&format!("auto-{role}-")).expect("the id names the role");
        assert!(random.len() == 12 && random.bytes().all(|b| b.is_ascii_hexdigit()), "{agent}");
    }
    assert_eq!(agents.iter().collect::<std::collections::BTreeSet<_>>().len(), 4);
    assert_eq!(project.row("S00-001")["owner"], agents[0].as_str());
    assert_eq!(project.row("S00-001")["reviewer"], agents[1].as_str());
}

#[test]
fn a_commit_carries_the_agents_words_and_true_trailers() {
    let project = Project::new();
    project.run(&[]).complete();
    let [review, claim, _] = &project.log()[..] else { panic!("{:?}", project.log()) };
    let sessions = project.sessions();
    for (commit, role, action, status, agent) in [
        (claim, "backend", "submit", "review", &sessions[0].agent),
        (review, "qa", "approve", "done", &sessions[1].agent),
    ] {
        assert_eq!(project.trailer(commit, "Task"), "S00-001");
        assert_eq!(&project.trailer(commit, "Agent"), agent);
        assert_eq!(project.trailer(commit, "Role"), role);
        assert_eq!(project.trailer(commit, "Action"), action);
        assert_eq!(project.trailer(commit, "Status"), status);
        assert_eq!(project.trailer(commit, "Task-Title"), "Build sample S00-001");
    }
    let message = project.message(claim);
    assert!(message.starts_with("Write the outcome of S00-001\n\n"), "{message}");
    assert_says(&message, &["Changes:", "The outcome of S00-001.", "Validation:", "Read once more."]);
}

#[test]
fn a_commit_holds_exactly_the_sessions_files() {
    let project = Project::new();
    project.agent_on(&[("*/claim", "write state/evidence/$RUNNER_AGENT_ID-notes.md seen; work; git add -A; submit")]);
    project.run(&[]).complete();
    let [review, claim, _] = &project.log()[..] else { panic!("{:?}", project.log()) };
    let agent = &project.sessions()[0].agent;
    let files = project.files_of(claim);
    assert!(files.contains(&"src/S00-001/out.txt".to_owned()), "{files:?}");
    assert!(files.contains(&"state/tasks/S00/S00-001.json".to_owned()), "{files:?}");
    assert!(files.contains(&format!("state/evidence/{agent}-notes.md")), "{files:?}");
    for file in project.files_of(review).iter().chain(&files) {
        let known = file.starts_with("state/") || file.starts_with("planning/") || file == "src/S00-001/out.txt";
        let private = ["state/runs", "state/commit_messages", ".runner.lock"].iter().any(|name| file.starts_with(name));
        assert!(known && !private, "{file} has no place in a commit");
    }
    assert!(!project.files_of(review).iter().any(|file| file.starts_with("src/")));
    project.assert_clean();
}

#[test]
fn links_modes_deletions_and_odd_names_are_committed_as_they_are() {
    let project = Project::builder().stage("S00", 1).file("src/S00-001/old.txt", "old\n").build();
    project.agent_on(&[(
        "*/claim",
        "work; rm src/S00-001/old.txt; ln -s out.txt src/S00-001/link; write src/S00-001/tool 'echo'; \
         chmod 755 src/S00-001/tool; write 'src/S00-001/two words' x; submit",
    )]);
    project.run(&[]).complete();
    let tree = project.git(&["ls-tree", "-r", "HEAD", "src"]);
    for (mode, name) in [("120000", "link"), ("100755", "tool"), ("100644", "out.txt"), ("100644", "two words")] {
        assert!(
            tree.lines().any(|line| line.starts_with(mode) && line.ends_with(&format!("/{name}"))),
            "no {mode} {name} in\n{tree}"
        );
    }
    assert!(!tree.contains("old.txt"), "{tree}");
    project.assert_clean();
}

#[test]
fn a_reject_leads_to_rework_and_its_reason_is_in_the_next_prompt() {
    let project = Project::new();
    project.agent_on(&[
        ("*/claim", "cat >\"$NOTES/prompt-$RUNNER_AGENT_ID\"; honest"),
        ("*/review", "if seen review; then approve; else reject 'The greeting is missing from line seven.'; fi"),
    ]);
    let result = project.run(&[]).complete();
    assert_eq!(result["launched"], 4);
    assert_eq!(project.steps(), ["S00-001/claim", "S00-001/review", "S00-001/claim", "S00-001/review"]);
    let sessions = project.sessions();
    let words = "The greeting is missing from line seven.";
    assert!(!project.note(&format!("prompt-{}", sessions[0].agent)).contains(words));
    assert_says(&project.note(&format!("prompt-{}", sessions[2].agent)), &[words]);
    assert!(sessions[1].agent != sessions[3].agent, "a reviewer is fresh");
    project.assert_clean();
}

#[test]
fn the_prompt_arrives_byte_for_byte() {
    let long = "Plain words, and ünïcödé too. ".repeat(1500);
    let project = Project::builder()
        .stage("S00", 1)
        .file("docs/long.md", format!("{long}\r\nlast line\r\n"))
        .card("S00-001", json!({"inputs": ["docs/long.md (to be read)"]}))
        .build();
    project.agent_on(&[("*", "cat >\"$NOTES/$RUNNER_ACTION\"; honest")]);
    project.run(&[]).complete();
    for session in project.sessions() {
        let sent = project.read(&format!("state/runs/{}/1/prompt.md", session.agent));
        assert_eq!(project.note(&session.action), sent);
        assert!(!sent.starts_with('/') && !sent.contains('\r'));
        assert_says(
            &sent,
            &[&session.agent, "S00-001", "docs/long.md", "last line", "# All roles", "Work small.", "task escalate"],
        );
    }
    assert_says(&project.note("claim"), &["task submit", env!("CARGO_BIN_EXE_runner")]);
    assert_says(&project.note("review"), &["task approve", "task reject"]);
}

#[test]
fn the_agent_finds_what_it_needs_in_its_environment() {
    let project = Project::new();
    project.agent_on(&[(
        "*/claim",
        "pwd >\"$NOTES/pwd\"; env >\"$NOTES/env\"; test -d \"$TMPDIR\" && note tmp yes; honest",
    )]);
    project.run(&[]).complete();
    let env = project.note("env");
    let value = |name: &str| {
        env.lines()
            .find_map(|line| line.strip_prefix(&format!("{name}=")))
            .unwrap_or_else(|| panic!("no {name} in\n{env}"))
    };
    let agent = project.sessions()[0].agent.clone();
    let root = project.root().to_str().expect("a plain path");
    assert_eq!(project.note("pwd").trim(), root);
    assert_eq!(project.note("tmp").trim(), "yes");
    for (name, expected) in [
        ("RUNNER_TASK_ID", "S00-001"),
        ("RUNNER_ROLE", "backend"),
        ("RUNNER_AGENT_ID", &agent),
        ("RUNNER_ACTION", "claim"),
        ("RUNNER_PROJECT_ROOT", root),
        ("RUNNER_STATE_ROOT", root),
        ("LUMA_TASK_ID", "S00-001"),
        ("LUMA_ROLE", "backend"),
        ("LUMA_AGENT_ID", &agent),
        ("LUMA_ACTION", "claim"),
        ("LUMA_PROJECT_ROOT", root),
        ("GIT_TERMINAL_PROMPT", "0"),
    ] {
        assert_eq!(value(name), expected, "{name}");
    }
    assert!(value("RUNNER_PROMPT_FILE").starts_with(&format!("{root}/state/runs/{agent}/1/")));
    assert!(value("RUNNER_BIN").starts_with('/') && value("RUNNER_TOKEN").len() >= 16);
    assert!(!value("TMPDIR").starts_with(root));
    assert!(!std::path::Path::new(value("TMPDIR")).exists(), "a session's temporary folder goes with it");
}

#[test]
fn stages_and_dependencies_are_kept_in_order() {
    let project = Project::builder()
        .stage("S00", 2)
        .stage("S01", 1)
        .stage_keys("S01", json!({"depends_on": ["S00"]}))
        .card("S00-001", json!({"depends_on": ["S00-002"]}))
        .build();
    project.run(&[]).complete();
    let claims: Vec<String> = project.steps().into_iter().filter(|step| step.ends_with("claim")).collect();
    assert_eq!(claims, ["S00-002/claim", "S00-001/claim", "S01-001/claim"]);
}

#[test]
fn an_escalation_becomes_a_task_of_its_own_and_its_origin_goes_on() {
    let project = Project::new();
    let issue = json!({"title": "Provide the missing table", "reason": "The table of rates is not there."}).to_string();
    project.agent_on(&[
        ("S00-001/claim", &format!("if seen first; then honest; else escalate '{issue}'; fi")),
        ("S00-001-r1/claim", "write src/S00-001/table.txt rates; submit"),
    ]);
    project.run(&[]).complete();
    assert_eq!(
        project.steps(),
        ["S00-001/claim", "S00-001-r1/claim", "S00-001-r1/review", "S00-001/claim", "S00-001/review"]
    );
    let card = project.card("S00-001-r1");
    assert_eq!(card["origin"], "S00-001");
    assert_eq!(card["stage"], "S00");
    assert_eq!(project.trailer(&project.log()[4], "Action"), "escalate");
    assert_eq!(project.trailer(&project.log()[4], "Status"), "blocked");
    project.assert_clean();
}

#[test]
fn the_originals_single_state_file_is_converted() {
    let old = json!({
        "schema": 1,
        "revision": 3,
        "tasks": {
            "S00-001": {"status": "done", "owner": "auto-backend-c5b5716cb3ee", "reviewer": "auto-qa-0230d6773564",
                "attempts": 1, "evidence": null, "reason": null},
            "S00-002": {"status": "todo"},
        },
        "events": [
            {"revision": 1, "at": "2026-11-30T03:05:12+00:00", "action": "claim", "task": "S00-001",
                "agent": "auto-backend-c5b5716cb3ee", "from": "todo", "to": "in_progress"},
            {"revision": 2, "at": "2026-11-30T03:05:13+00:00", "action": "submit", "task": "S00-001",
                "agent": "auto-backend-c5b5716cb3ee", "from": "in_progress", "to": "review"},
            {"revision": 3, "at": "2026-11-30T03:05:14+00:00", "action": "approve", "task": "S00-001",
                "agent": "auto-qa-0230d6773564", "from": "review", "to": "done"},
        ],
        "retired_agents": [],
    });
    let project = Project::builder().stage("S00", 2).file("state/state.json", old.to_string()).build();
    project.run(&[]).complete();
    assert_eq!(project.steps(), ["S00-002/claim", "S00-002/review"], "what was done stays done");
    assert_eq!(project.row("S00-001")["owner"], "auto-backend-c5b5716cb3ee");
    let actions: Vec<String> =
        project.events("S00-001").iter().map(|event| event["action"].as_str().unwrap_or_default().to_owned()).collect();
    assert_eq!(actions[..3], ["claim", "submit", "approve"]);
    assert_eq!(project.row("S00-002")["status"], "done");
    let marker: serde_json::Value = serde_json::from_str(&project.read("state/state.json")).unwrap();
    assert_eq!(marker["schema"], 2);
    project.assert_clean();
}

#[test]
fn a_plain_folder_runs_without_git() {
    let project = Project::builder().stage("S00", 2).without_git().build();
    let result = project.run(&[]).complete();
    assert_eq!(result["launched"], 4);
    assert_eq!(result["last_commit"], json!(null));
    assert!(!project.exists(".git"));
    assert_eq!(project.status_of("S00-002"), "done");
}

#[test]
fn a_finished_plan_stays_complete_and_changes_nothing() {
    let project = Project::new();
    project.run(&[]).complete();
    let head = project.head();
    let result = project.run(&[]).complete();
    assert_eq!(result["launched"], 0);
    assert_eq!(project.head(), head);
    project.assert_clean();
}
