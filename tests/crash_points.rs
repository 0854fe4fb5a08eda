//! The process is killed at every durable step of every operation. What it leaves, and what one start later makes of it, is
//! in the tables of `docs/state.md`; nothing is lost, nothing is done twice, and the plan still comes to its end.
#![cfg(feature = "fault-injection")]

mod crash_support;
mod support;

use crash_support::{ONLY_RECOVER, Operation, Victim};
use serde_json::{Value, json};
use support::{Builder, Project};

const ONE: &[&str] = &["S00-001"];
const WITH_REMEDIATION: &[&str] = &["S00-001", "S00-001-r1"];
const ONE_SESSION: &[&str] = &["--max-sessions", "1"];

/// A remediation's work lies in the scope of its origin.
const FIX: (&str, &str) = ("S00-001-r1/claim", "write src/S00-001/fix.txt fixed; submit");

/// The first session finds a blocker, the next one is honest.
const BLOCKED: (&str, &str) = (
    "S00-001/claim",
    r#"if seen blocker; then honest; else work; escalate '{"title":"Find the key","reason":"the key is missing"}'; fi"#,
);

/// The agent's one verb, killed at `$FAULT`; then the coordinator is killed too, or the verb is tried again.
macro_rules! killed_verb {
    ($verb:literal, $again:literal, $otherwise:literal) => {
        concat!(
            "if seen killed; then ",
            $otherwise,
            "; else export RUNNER_FAULT=\"$FAULT\"; ",
            $verb,
            "; status=$?; unset RUNNER_FAULT; note verb $status\n",
            "case $END$status in 1137) read -r _ _ _ above _ </proc/$PPID/stat; kill -KILL $above $PPID; exit 9 ;; 0137) ",
            $again,
            " ;; esac; fi"
        )
    };
}

const SUBMIT: &[(&str, &str)] =
    &[("S00-001/claim", killed_verb!("work; echo checked | submit --evidence -", "submit", "honest"))];
const REJECT: &[(&str, &str)] = &[("S00-001/review", killed_verb!("reject 'not yet'", "reject 'not yet'", "approve"))];
const ESCALATE: &[(&str, &str)] = &[
    (
        "S00-001/claim",
        killed_verb!(
            r#"work; escalate '{"title":"Find the key","reason":"the key is missing"}'"#,
            r#"escalate '{"title":"Find the key","reason":"the key is missing"}'"#,
            "honest"
        ),
    ),
    FIX,
];
const FREE: &[(&str, &str)] =
    &[("S00-001-r1/review", killed_verb!("echo checked | approve --evidence -", "approve", "approve"))];

/// The task to work on, and a finished one, so that a start can be asked for something that is done.
fn builder() -> Builder {
    let row = row_of("done");
    Project::builder().stage("S00", 1).stage("S09", 1).file("state/tasks/S09/S09-001.json", format!("{row:#}\n"))
}

fn row_of(status: &str) -> Value {
    json!({
        "schema": 2, "status": status, "owner": "ann", "reviewer": "ben", "agents": ["ann", "ben"], "attempts": 1,
        "handoff": null, "evidence": null, "blocked_by": [], "blocked_from": null, "external_wait": false, "reason": null,
        "claim": null, "events": [],
    })
}

/// The project after so many sessions of `agent`.
fn after(sessions: &str, agent: &[(&str, &str)]) -> Project {
    let project = builder().build();
    project.agent_on(agent);
    let run = project.run(&["--max-sessions", sessions]);
    run.stopped(0, "session_limit");
    project
}

/// One session of `template`.
fn session(heading: &'static str, template: Project) -> Operation {
    Operation { heading, template, agent: &[], tasks: ONE, args: ONE_SESSION, waits_for_commit: false }
}

/// A person's change that waits in the queue of `template`.
fn queued(heading: &'static str, template: Project, change: &Value) -> Operation {
    template.write(".git/runner/queue/0001.json", change.to_string());
    Operation { args: &ONLY_RECOVER, waits_for_commit: true, ..session(heading, template) }
}

#[test]
fn an_executors_session_survives_a_kill_at_every_step() {
    session("An executor's session", builder().build()).survives(Victim::Coordinator);
}

#[test]
fn a_further_process_survives_a_kill_at_every_step() {
    let template = builder().build();
    template.config(&json!({"follow_up_turns": 1}));
    let agent =
        &[("S00-001/claim", "if seen left; then write src/S00-001/rest.txt rest; submit; else work; echo half; fi")];
    let operation = session("A further process", template);
    Operation { agent, args: &["--max-sessions", "2"], ..operation }.survives(Victim::Coordinator);
}

#[test]
fn a_session_whose_work_is_verified_survives_a_kill_at_every_step() {
    let template = builder().build();
    // Both before the session and after it something is left that is nobody's work.
    template.config(&json!({"verify": [["sh", "-c", "echo more >>README.md; echo new >stray.txt"]]}));
    session("A session whose work is verified", template).survives(Victim::Coordinator);
}

#[test]
fn a_session_in_a_work_tree_survives_a_kill_at_every_step() {
    let template = builder().file("src/S00-001/old.txt", "old\n").config(json!({"workspace": {"mode": "worktree"}}));
    let agent = &[("S00-001/claim", "echo new >>src/S00-001/old.txt; honest")];
    Operation { agent, ..session("A session in a work tree", template.build()) }.survives(Victim::Coordinator);
}

#[test]
fn an_approval_survives_a_kill_at_every_step() {
    session("An approval", after("1", &[])).survives(Victim::Coordinator);
}

#[test]
fn a_rejection_survives_a_kill_at_every_step() {
    let agent = &[("S00-001/review", "if seen rejection; then approve; else reject 'not yet'; fi")];
    Operation { agent, ..session("A rejection", after("1", &[])) }.survives(Victim::Coordinator);
}

#[test]
fn an_agents_escalation_survives_a_kill_at_every_step() {
    let operation = session("An agent's escalation", builder().build());
    Operation { agent: &[BLOCKED, FIX], tasks: WITH_REMEDIATION, ..operation }.survives(Victim::Coordinator);
}

#[test]
fn a_coordinators_escalation_survives_a_kill_at_every_step() {
    let agent = &[("S00-001/claim", "if seen failure; then honest; else work; exit 3; fi"), FIX];
    let operation = session("A coordinator's escalation", builder().build());
    Operation { agent, tasks: WITH_REMEDIATION, ..operation }.survives(Victim::Coordinator);
}

#[test]
fn an_approval_that_frees_another_task_survives_a_kill_at_every_step() {
    let operation = session("An approval that frees another task", after("2", &[BLOCKED, FIX]));
    Operation { tasks: &["S00-001-r1", "S00-001"], ..operation }.survives(Victim::Coordinator);
}

#[test]
fn putting_an_interrupted_session_in_order_survives_a_kill_at_every_step() {
    let template = builder().build();
    let killed = template.spawn_with(ONE_SESSION, &[("RUNNER_FAULT", "session:over#1")]).wait();
    assert_eq!(killed.signal, Some(9), "{killed}");
    let operation = session("Putting an interrupted session in order", template);
    Operation { args: &ONLY_RECOVER, ..operation }.survives(Victim::Coordinator);
}

#[test]
fn setting_a_task_aside_survives_a_kill_at_every_step() {
    let template = after("1", &[]);
    template.config(&json!({"max_task_sessions": 1}));
    session("A task that used up its sessions", template).survives(Victim::Coordinator);
}

#[test]
fn a_queued_answer_survives_a_kill_at_every_step() {
    let wait = "if seen question; then honest; else \
        escalate '{\"title\":\"Ask for the key\",\"reason\":\"no key\",\"requires_user_input\":true}'; fi";
    let change = json!({"verb": "answer", "task": "S00-001", "name": "ann", "text": "It lies under the mat."});
    queued("A queued answer", after("1", &[("S00-001/claim", wait)]), &change).survives(Victim::Coordinator);
}

#[test]
fn a_queued_card_survives_a_kill_at_every_step() {
    let card = builder().build().card("S00-001").to_string().replace("S00-001", "S00-002");
    let change = json!({"verb": "add", "name": "ann", "card": card});
    let operation = queued("A queued card", builder().build(), &change);
    Operation { tasks: &["S00-002"], ..operation }.survives(Victim::Coordinator);
}

#[test]
fn a_conversion_survives_a_kill_at_every_step() {
    let original = json!({
        "schema": 1, "revision": 1, "retired_agents": [],
        "tasks": {"S00-001": {"status": "todo", "reason": "not yet"}, "S09-001": {"status": "done", "owner": "ann"}},
        "events": [{"revision": 1, "at": "2026-10-01T00:00:00Z", "action": "note", "task": "S00-001", "agent": "ann"}],
    });
    let template = Project::builder().stage("S00", 1).stage("S09", 1).file("state/state.json", original.to_string());
    let operation = session("A conversion", template.build());
    // What is converted is committed with the session it was converted for.
    Operation { tasks: &["S00-001", "S09-001"], waits_for_commit: true, ..operation }.survives(Victim::Coordinator);
}

#[test]
fn a_submit_killed_at_every_step_with_its_coordinator_is_put_in_order() {
    let operation = session("The verb submit", builder().build());
    Operation { agent: SUBMIT, ..operation }.survives(Victim::VerbAndCoordinator);
}

#[test]
fn a_reject_killed_at_every_step_with_its_coordinator_is_put_in_order() {
    Operation { agent: REJECT, ..session("The verb reject", after("1", &[])) }.survives(Victim::VerbAndCoordinator);
}

#[test]
fn an_escalate_killed_at_every_step_with_its_coordinator_is_put_in_order() {
    let operation = session("The verb escalate", builder().build());
    Operation { agent: ESCALATE, tasks: WITH_REMEDIATION, ..operation }.survives(Victim::VerbAndCoordinator);
}

#[test]
fn an_approve_that_frees_a_task_killed_at_every_step_with_its_coordinator_is_put_in_order() {
    let operation = session("The verb approve, of a remediation", after("2", &[BLOCKED, FIX]));
    let tasks = &["S00-001-r1", "S00-001"];
    Operation { agent: FREE, tasks, ..operation }.survives(Victim::VerbAndCoordinator);
}

#[test]
fn a_verb_that_was_killed_can_be_tried_again() {
    Operation { agent: SUBMIT, ..session("submit", builder().build()) }.survives_trying_again();
    Operation { agent: REJECT, ..session("reject", after("1", &[])) }.survives_trying_again();
    let escalate = session("escalate", builder().build());
    Operation { agent: ESCALATE, tasks: WITH_REMEDIATION, ..escalate }.survives_trying_again();
    let free = session("approve", after("2", &[BLOCKED, FIX]));
    Operation { agent: FREE, tasks: &["S00-001-r1", "S00-001"], ..free }.survives_trying_again();
}

#[test]
fn the_lock_files_of_a_killed_commit_do_not_stop_the_next_start() {
    for lock in [".git/index.lock", ".git/refs/heads/main.lock"] {
        let project = builder().build();
        let killed = project.spawn_with(ONE_SESSION, &[("RUNNER_FAULT", "commit:stored#1")]).wait();
        assert_eq!(killed.signal, Some(9), "{killed}");
        // What libgit2 would have left, had the kill come a moment later.
        project.write(lock, "");
        project.run(&[]).complete();
        project.assert_clean();
    }
}
