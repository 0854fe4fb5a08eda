//! How sessions end, and what each end does to its task.

mod support;

use serde_json::{Value, json};
use support::{Project, assert_says, assert_says_one, find_key};

/// A project in which a failed session waits for a person at once instead of making a remediation task.
fn without_remediation() -> Project {
    Project::builder().stage("S00", 1).config(json!({"max_remediation_depth": 0})).build()
}

/// Runs the only session to its failure; returns what is said about the task.
fn fails(project: &Project) -> String {
    let result = project.run(&[]).stopped(3, "needs_input");
    assert_eq!(result["launched"], 1);
    assert_eq!(result["external_blockers"]["S00-001"], project.row("S00-001")["reason"]);
    assert_eq!(project.log().len(), 2, "an ended session is committed");
    project.assert_clean();
    project.waits("S00-001")
}

fn leaked(record: &Value) -> Vec<Value> {
    find_key(record, "leaked").and_then(Value::as_array).cloned().unwrap_or_default()
}

#[test]
fn an_agent_that_exits_without_submitting_is_escalated_once_and_cannot_chain() {
    let project = Project::new();
    project.agent("exit 0");
    let result = project.run(&[]).stopped(3, "needs_input");
    assert_eq!(
        project.steps(),
        ["S00-001/claim", "S00-001-r1/claim"],
        "one remediation; that it ends in the same way is the same cause, so then a person"
    );
    assert_eq!(result["launched"], 2);
    assert_eq!(project.row("S00-001")["blocked_by"], json!(["S00-001-r1"]));
    assert_says(&project.told("S00-001"), &["without", "submit"]);
    project.waits("S00-001-r1");
    let origin = project.card("S00-001")["title"].as_str().unwrap().to_owned();
    let title = project.card("S00-001-r1")["title"].as_str().unwrap().to_owned();
    assert!(title.matches(&origin).count() <= 1 && title.len() < origin.len() + 60, "titles do not nest: {title}");
    assert_eq!(project.log().len(), 1 + 2);
    project.assert_clean();
    // And so it stays: another start has nothing to try again.
    assert_eq!(project.run(&[]).stopped(3, "needs_input")["launched"], 0);
}

#[test]
fn an_exit_status_is_named_and_the_output_shown() {
    let project = without_remediation();
    project.agent("echo 'the login has expired' >&2; exit 3");
    assert_says(&fails(&project), &["3", "the login has expired"]);
}

#[test]
fn a_killing_signal_is_named() {
    let project = without_remediation();
    project.agent("work; kill -9 $$");
    assert_says(&fails(&project), &["SIGKILL"]);
    assert_eq!(project.at_head("src/S00-001/out.txt"), "work of S00-001", "incomplete work is kept");
}

#[test]
fn an_agent_that_hangs_is_timed_out_with_all_its_descendants() {
    let project = without_remediation();
    project.config(&json!({"timeout_seconds": 2}));
    let _hold = project.gate("hold");
    let mut alive = project.listener("alive");
    project.pipe("ready");
    project.agent("stray alive ready hold; hold hold");
    assert_says_one(&fails(&project), &["timed out", "time limit", "timeout"]);
    alive.assert_ended();
}

#[test]
fn an_agent_that_ignores_term_is_killed_after_the_grace() {
    let project = without_remediation();
    project.config(&json!({"timeout_seconds": 2}));
    let _hold = project.gate("hold");
    let mut alive = project.listener("alive");
    project.agent("trap '' TERM; exec 9>\"$PIPES/alive\"; echo up >&9; hold hold");
    fails(&project);
    alive.assert_ended();
}

#[test]
fn an_exit_status_at_once_after_a_submit_is_no_failure() {
    let project = Project::new();
    project.agent_on(&[("*/claim", "work; submit; exit 1")]);
    project.run(&[]).complete();
    assert_eq!(project.steps(), ["S00-001/claim", "S00-001/review"]);
}

#[test]
fn an_exit_status_long_after_a_submit_is_no_failure() {
    let project = Project::new();
    let mut submitted = project.listener("submitted");
    let go = project.gate("go");
    project.agent_on(&[("*/claim", "work; submit; tell submitted; hold go; exit 1")]);
    let run = project.spawn(&[]);
    submitted.wait();
    go.open();
    run.wait().complete();
    assert_eq!(project.steps(), ["S00-001/claim", "S00-001/review"]);
}

#[test]
fn an_exit_status_after_an_approval_is_no_failure() {
    let project = Project::new();
    project.agent_on(&[("*/review", "approve; exit 1")]);
    project.run(&[]).complete();
    assert_eq!(project.status_of("S00-001"), "done");
}

#[test]
fn an_agent_killed_after_its_submit_has_submitted() {
    let project = Project::new();
    project.agent_on(&[("*/claim", "work; submit; kill -9 $$")]);
    project.run(&[]).complete();
}

#[test]
fn an_agent_may_finish_writing_after_its_submit() {
    let project = Project::new();
    let mut submitted = project.listener("submitted");
    let go = project.gate("go");
    project.agent_on(&[("*/claim", "work; submit; tell submitted; hold go; write src/S00-001/late.txt late")]);
    let run = project.spawn(&[]);
    submitted.wait();
    go.open();
    run.wait().complete();
    let claim = &project.log()[1];
    assert!(project.files_of(claim).contains(&"src/S00-001/late.txt".to_owned()));
    project.assert_clean();
}

#[test]
fn an_agent_that_lingers_after_its_submit_is_ended_and_its_work_stands() {
    let project = Project::new();
    project.config(&json!({"exit_grace_seconds": 0.1}));
    let _hold = project.gate("hold");
    let mut alive = project.listener("alive");
    project.agent_on(&[("*/claim", "exec 9>\"$PIPES/alive\"; echo up >&9; work; submit 9>&-; hold hold")]);
    project.run(&[]).complete();
    alive.assert_ended();
    assert_eq!(project.steps(), ["S00-001/claim", "S00-001/review"]);
}

#[test]
fn a_grandchild_in_its_own_session_does_not_survive() {
    let project = Project::new();
    let _hold = project.gate("hold");
    let mut alive = project.listener("alive");
    project.pipe("ready");
    project.agent_on(&[("*/claim", "stray alive ready hold; honest")]);
    project.run(&[]).complete();
    alive.assert_ended();
    let agent = &project.sessions()[0].agent;
    assert!(!leaked(&project.run_json(agent)).is_empty(), "what was left is named in the record");
}

#[test]
fn a_descendant_that_double_forks_or_keeps_the_output_does_not_survive() {
    let project = Project::new();
    let _hold = project.gate("hold");
    let mut alive = project.listener("alive");
    project.pipe("ready");
    // The outer shells are gone before the descendant is told about: it is nobody's child but the coordinator's.
    project.pipe("twice");
    let body =
        "( ( stray alive ready hold; echo twice >\"$PIPES/twice\" ) & ); read -r answer <\"$PIPES/twice\"; honest";
    project.agent_on(&[("*/claim", body)]);
    project.run(&[]).complete();
    alive.assert_ended();
}

#[test]
fn a_background_child_in_the_group_does_not_survive() {
    let project = Project::new();
    let _hold = project.gate("hold");
    let mut alive = project.listener("alive");
    project.pipe("ready");
    let body = "( exec 9>\"$PIPES/alive\"; echo up >&9; echo ready >\"$PIPES/ready\"; hold hold ) & \
                read -r answer <\"$PIPES/ready\"; honest";
    project.agent_on(&[("*/claim", body)]);
    project.run(&[]).complete();
    alive.assert_ended();
}

#[test]
fn a_descendant_of_one_session_is_never_blamed_on_the_next() {
    let project = Project::new();
    let hold = project.gate("hold");
    let mut alive = project.listener("alive");
    project.pipe("ready");
    let stray = "setsid sh -c 'trap \"\" TERM HUP; exec 9>\"$1\"; echo up >&9; echo ready >\"$2\"; read -r answer <\"$3\"; \
                 echo changed >README.md' stray \"$PIPES/alive\" \"$PIPES/ready\" \"$PIPES/hold\" & \
                 read -r answer <\"$PIPES/ready\"; honest";
    project.agent_on(&[("*/claim", stray), ("*/review", "echo go >\"$PIPES/hold\"; approve")]);
    project.run(&[]).complete();
    alive.assert_ended();
    drop(hold);
    assert_eq!(project.read("README.md"), "# Sample\n");
    project.assert_clean();
}

#[test]
fn an_agent_that_writes_much_output_is_never_blocked() {
    let project = Project::new();
    project.agent_on(&[("*/claim", "head -c 20000000 /dev/zero | tr '\\0' x; head -c 5000000 /dev/zero >&2; honest")]);
    project.run(&[]).complete();
    project.assert_clean();
    // And nothing of it is in the way of another start.
    project.run(&[]).complete();
}

#[test]
fn standard_output_and_error_are_kept_apart() {
    let project = Project::new();
    project.agent_on(&[("*/claim", "echo to-the-output; echo to-the-error >&2; honest")]);
    project.run(&[]).complete();
    let folder = format!("state/runs/{}/1", project.sessions()[0].agent);
    let (output, error) =
        (project.read(&format!("{folder}/stdout.log")), project.read(&format!("{folder}/stderr.log")));
    assert!(output.contains("to-the-output") && !output.contains("to-the-error"), "{output}");
    assert!(error.contains("to-the-error") && !error.contains("to-the-output"), "{error}");
}

#[test]
fn a_reviewer_that_leaves_without_a_verdict_has_approved_nothing() {
    let project = without_remediation();
    project.agent_on(&[("*/review", "exit 0")]);
    project.run(&[]).stopped(3, "needs_input");
    let told = project.waits("S00-001");
    assert_says_one(&told, &["approve", "verdict"]);
    assert_eq!(project.row("S00-001")["blocked_from"], "review");
}

#[test]
fn an_escalation_stands_whatever_the_exit_status() {
    let project = Project::new();
    let issue =
        json!({"title": "Name the owner of rates", "reason": "Only a person knows.", "requires_user_input": true});
    project.agent_on(&[("*/claim", &format!("work; escalate '{issue}'; exit 9"))]);
    let result = project.run(&[]).stopped(3, "needs_input");
    assert_says(result["external_blockers"]["S00-001"].as_str().unwrap(), &["Only a person knows."]);
    assert_eq!(project.trailer("HEAD", "Action"), "escalate");
    assert_eq!(project.trailer("HEAD", "Status"), "blocked");
    assert!(!project.exists("planning/tasks/S00-001-r1.json"), "a person is waited for, no remediation is made");
    assert_eq!(project.at_head("src/S00-001/out.txt"), "work of S00-001");
    project.assert_clean();
}

#[test]
fn an_agent_cannot_approve_its_own_work() {
    let project = Project::new();
    let body = "work; submit; attempt same approve; attempt other env RUNNER_AGENT_ID=auto-qa-000000000000 \
                RUNNER_ACTION=review RUNNER_ROLE=qa \"$RUNNER_BIN\" task approve S00-001";
    project.agent_on(&[("*/claim", body), ("*/review", "note reviewed yes; approve")]);
    project.run(&[]).complete();
    assert_eq!((project.note("same").trim(), project.note("other").trim()), ("2", "2"), "both are refused");
    assert_eq!(project.note("reviewed").trim(), "yes");
}

#[test]
fn an_ended_session_can_do_nothing_more() {
    let project = Project::new();
    let body = "if seen first; then attempt late env RUNNER_AGENT_ID=\"$(cat \"$NOTES/agent\")\" \
                RUNNER_TOKEN=\"$(cat \"$NOTES/token\")\" \"$RUNNER_BIN\" task submit S00-001; honest; \
                else note agent \"$RUNNER_AGENT_ID\"; note token \"$RUNNER_TOKEN\"; honest; fi";
    project
        .agent_on(&[("*/claim", body), ("*/review", "if seen review; then approve; else reject 'Again, please.'; fi")]);
    project.run(&[]).complete();
    assert_eq!(project.note("late").trim(), "2");
}

#[test]
fn each_session_has_a_finished_record() {
    let project = Project::new();
    project.run(&[]).complete();
    for (session, commit) in project.sessions().iter().zip([&project.log()[1], &project.log()[0]]) {
        let record = project.run_json(&session.agent);
        assert_eq!(record["agent"], session.agent.as_str());
        assert_eq!(record["task"], "S00-001");
        assert_eq!(record["action"], session.action.as_str());
        assert_eq!(find_key(&record, "commit"), Some(&json!(commit)));
    }
}
