//! No path to an accepted task or a commit skips the session's secret or its scope: every path is walked with every kind of
//! deceit, and none of it is accepted or committed.

mod support;

use serde_json::{Value, json};
use support::{Project, Signal, assert_says};

const ROW: &str = "state/tasks/S00/S00-001.json";

/// What a session tries instead of honest work; each leaves the name or the text of the deceit behind.
struct Deceit {
    what: &'static str,
    /// By an executor.
    claim: &'static str,
    /// By a reviewer.
    review: &'static str,
}

const DECEITS: [Deceit; 5] = [
    Deceit {
        what: "a row written by hand",
        claim: r#"sed -i 's/"status": "in_progress"/"status": "review"/' state/tasks/S00/S00-001.json"#,
        review: r#"sed -i "s/\"status\": \"review\"/\"status\": \"done\"/; s/\"reviewer\": .*,/\"reviewer\": \"$RUNNER_AGENT_ID\",/" state/tasks/S00/S00-001.json"#,
    },
    Deceit {
        what: "a row that an earlier session had signed",
        claim: r#"cp "$NOTES/submitted.json" state/tasks/S00/S00-001.json"#,
        review: r#"cp "$NOTES/approved.json" state/tasks/S00/S00-001.json"#,
    },
    Deceit {
        what: "the secret of an earlier session",
        claim: r#"attempt other env RUNNER_TOKEN="$(cat "$NOTES/token-claim")" "$RUNNER_BIN" task submit"#,
        review: r#"attempt other env RUNNER_TOKEN="$(cat "$NOTES/token-review")" "$RUNNER_BIN" task approve"#,
    },
    Deceit {
        what: "the secret and the name of an earlier session",
        claim: r#"attempt other env RUNNER_TOKEN="$(cat "$NOTES/token-claim")" RUNNER_AGENT_ID="$(cat "$NOTES/agent-claim")" "$RUNNER_BIN" task submit"#,
        review: r#"attempt other env RUNNER_TOKEN="$(cat "$NOTES/token-review")" RUNNER_AGENT_ID="$(cat "$NOTES/agent-review")" "$RUNNER_BIN" task approve"#,
    },
    Deceit {
        what: "a change out of scope",
        claim: "write lib/stray.txt deceit; submit",
        review: "write lib/stray.txt deceit; approve",
    },
];

/// A way in which a session can come to its end and its result to be taken.
struct Way {
    name: &'static str,
    /// What the executor did in its scope.
    work: &'static str,
    /// What the session does after the deceit.
    ending: &'static str,
    /// Changes of the configuration.
    config: fn() -> Value,
    /// Carries it out.
    walk: fn(&Project),
}

const WORK: &str = "write src/S00-001/new.txt x";
const WAITS: &str = "tell working; hold hold";

fn plain() -> Value {
    json!({})
}

/// A run of one session, however it stops.
fn once(project: &Project) {
    let finished = project.run(&["--max-sessions", "1"]);
    assert!(finished.code.is_some(), "{finished}");
}

/// The same, stopped by a signal while the session waits.
fn stopped(project: &Project, signal: Signal, with_guardian: bool) {
    let _gate = project.gate("hold");
    let mut working = project.listener("working");
    let run = project.spawn(&["--max-sessions", "1"]);
    working.wait();
    if with_guardian {
        run.kill_with_guardian();
    } else {
        run.signal(signal);
    }
    let finished = run.wait();
    assert!(finished.code.is_some() || finished.signal == Some(9), "{finished}");
}

/// Starts that find nothing to launch put in order what was left, the second by hand.
fn put_in_order(project: &Project) {
    let only_order = ["--task", "S09-001"];
    let finished = project.run(&only_order);
    assert!(matches!(finished.code, Some(0 | 2 | 3)), "{finished}");
    not_accepted(project, "the next start");
    assert_eq!(project.run(&["recover", "--yes"]).code, Some(0));
    not_accepted(project, "recovery by hand");
    let finished = project.run(&only_order);
    assert!(matches!(finished.code, Some(0 | 3)), "{finished}");
}

const WAYS: [Way; 10] = [
    Way { name: "the session ends", work: WORK, ending: "", config: plain, walk: once },
    Way { name: "the session fails", work: WORK, ending: "exit 7", config: plain, walk: once },
    Way {
        name: "the session moves its task and is ended, or hits its time limit",
        work: WORK,
        ending: "hold hold",
        config: || json!({"exit_grace_seconds": 0, "timeout_seconds": 8}),
        walk: |project| {
            let _gate = project.gate("hold");
            once(project);
        },
    },
    Way {
        name: "the run is interrupted",
        work: WORK,
        ending: WAITS,
        config: plain,
        walk: |project| stopped(project, Signal::INT, false),
    },
    Way {
        name: "the run is killed and the next start puts it in order",
        work: WORK,
        ending: WAITS,
        config: plain,
        walk: |project| {
            stopped(project, Signal::KILL, false);
            put_in_order(project);
        },
    },
    Way {
        name: "the run and its guardian are killed",
        work: WORK,
        ending: WAITS,
        config: plain,
        walk: |project| {
            stopped(project, Signal::KILL, true);
            put_in_order(project);
        },
    },
    Way {
        name: "the commit fails and is tried again",
        work: WORK,
        ending: "",
        config: || json!({"git_hooks": "run"}),
        walk: |project| {
            project.write(".git/hooks/pre-commit", "#!/bin/sh\nexit 1\n");
            project.chmod(".git/hooks/pre-commit", 0o755);
            once(project);
            not_accepted(project, "the failed commit");
            project.remove(".git/hooks/pre-commit");
            put_in_order(project);
        },
    },
    Way {
        name: "the run is killed between the settled task and its commit, which the next start makes",
        work: WORK,
        ending: "",
        config: || json!({"environment": {"remove": ["RUNNER_FAULT"]}}),
        walk: |project| {
            let run = project.spawn_with(&["--max-sessions", "1"], &[("RUNNER_FAULT", "settle:durable#1")]);
            let finished = run.wait();
            assert_eq!(finished.signal.is_some(), cfg!(feature = "fault-injection"), "{finished}");
            put_in_order(project);
        },
    },
    Way {
        name: "nothing in scope was changed, so the work goes back",
        work: "true",
        ending: "",
        config: plain,
        walk: once,
    },
    Way {
        name: "the task is released, and the next session has the secret of the released one",
        work: WORK,
        ending: WAITS,
        config: plain,
        walk: |project| {
            stopped(project, Signal::TERM, false);
            not_accepted(project, "the release");
            let as_late =
                "env RUNNER_TOKEN=\"$(cat \"$NOTES/token-late\")\" RUNNER_AGENT_ID=\"$(cat \"$NOTES/agent-late\")\"";
            let verbs =
                ["submit", "approve"].map(|verb| format!("attempt late {as_late} \"$RUNNER_BIN\" task {verb}\n"));
            project.agent(&format!("{}exit 7", verbs.concat()));
            once(project);
            let is_waiting = project.row("S00-001")["external_wait"] == true;
            assert_eq!(project.note("late"), if is_waiting { "" } else { "2\n2\n" }, "no verb took it");
        },
    },
];

/// Notes the session's secret and name, for later sessions.
fn remember(what: &str) -> String {
    format!(
        "printf %s \"$RUNNER_TOKEN\" >\"$NOTES/token-{what}\"; printf %s \"$RUNNER_AGENT_ID\" >\"$NOTES/agent-{what}\""
    )
}

/// A task that was submitted once by an honest executor, whose secret and row are known to all; `review` says what its reviewer
/// did, and is where the deceit begins.
fn template(reviewer: &str) -> Project {
    let row = json!({
        "schema": 2, "status": "done", "owner": "ann", "reviewer": "ben", "agents": ["ann", "ben"], "attempts": 1,
        "handoff": null, "evidence": null, "blocked_by": [], "blocked_from": null, "external_wait": false, "reason": null,
        "claim": null, "events": [],
    });
    let project = Project::builder()
        .stage("S00", 1)
        .stage("S09", 1)
        .file("state/tasks/S09/S09-001.json", format!("{row:#}\n"))
        .config(json!({"on_violation": "set_aside"}))
        .build();
    project.agent_on(&[
        ("S00-001/claim", &format!("{}; honest; cp {ROW} \"$NOTES/submitted.json\"", remember("claim"))),
        ("S00-001/review", &format!("{}; {reviewer}", remember("review"))),
    ]);
    project.run(&["--max-sessions", "2"]).stopped(0, "session_limit");
    project
}

/// Fails if the deceit got into the plan's state in HEAD, or into any commit.
#[track_caller]
fn not_accepted(project: &Project, when: &str) {
    let row: Value = serde_json::from_str(&project.at_head(ROW)).expect("a row is JSON");
    let accepted = if project.note("at") == "review\n" { &["done"][..] } else { &["review", "done"][..] };
    let status = row["status"].as_str().expect("a status");
    assert!(!accepted.contains(&status), "{when} accepted it: {row:#}");
    let now = project.row("S00-001");
    assert!(now["claim"] != Value::Null || !accepted.contains(&now["status"].as_str().unwrap_or_default()), "{now:#}");
    assert!(!project.git(&["log", "--all", "--name-only", "--format="]).contains("stray"), "{when} committed it");
}

/// Walks every way with every deceit by a session that does `action`.
fn walk_all(template: &Project, action: &str) {
    for way in &WAYS {
        for deceit in &DECEITS {
            let project = template.copy();
            project.config(&(way.config)());
            let deed = match action {
                "claim" => format!("{}\n{}", way.work, deceit.claim),
                _ => deceit.review.to_owned(),
            };
            project.agent_on(&[(
                &format!("S00-001/{action}"),
                &format!("note deceits x\n{}\n{deed}\n{}", remember("late"), way.ending),
            )]);
            project.write_outside("notes/at", &format!("{action}\n"));
            (way.walk)(&project);
            let context = format!("{action}: {}, with {}", way.name, deceit.what);
            assert_eq!(project.note("deceits"), "x\n", "{context}: it was tried once");
            not_accepted(&project, &context);
            if deceit.what.contains("secret") {
                assert_eq!(project.note("other").trim(), "2", "{context}: the verb refused it");
            }
        }
    }
}

#[test]
fn no_way_to_review_skips_the_secret_or_the_scope() {
    walk_all(&template("reject 'Not yet.'"), "claim");
}

#[test]
fn no_way_to_done_skips_the_secret_or_the_scope() {
    let project = template(&format!(
        "cp {ROW} \"$NOTES/before.json\"; approve; cp {ROW} \"$NOTES/approved.json\"; write lib/x y"
    ));
    assert_eq!(project.status_of("S00-001"), "review", "the first review is void");
    walk_all(&project, "review");
}

#[test]
fn no_session_speaks_for_another_or_for_a_person_while_a_run_is_on() {
    let project = Project::tasks(2);
    let bare = "env -u RUNNER_TOKEN -u RUNNER_AGENT_ID -u RUNNER_TASK_ID -u RUNNER_ROLE -u RUNNER_ACTION";
    project.agent_on(&[
        ("S00-001/review", "exit 0"),
        (
            "S00-002/claim",
            &format!(
                "attempt own \"$RUNNER_BIN\" task approve S00-001; attempt person \"$RUNNER_BIN\" task approve S00-001 --as ada
                 attempt bare {bare} \"$RUNNER_BIN\" task approve S00-001 --as ada; honest"
            ),
        ),
    ]);
    project.run(&["--max-sessions", "1"]).stopped(0, "session_limit");
    assert_eq!(project.status_of("S00-001"), "review");
    project.run(&["--task", "S00-002"]).json();
    assert_eq!((project.note("own").trim(), project.note("person").trim()), ("2", "2"));
    assert_ne!(project.status_of("S00-001"), "done", "{}", project.note("bare.out"));
    let events = project.events("S00-001");
    assert!(!events.iter().any(|event| event["action"] == "approve"), "{events:?}");
    assert_says(&project.note("own.out"), &["S00-001"]);
}
