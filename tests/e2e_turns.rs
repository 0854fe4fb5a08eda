//! A session that leaves without a transition goes on in a further process with its history; a rework can go on from the
//! conversation of the session that submitted.

mod support;

use runner::conversation::{Exchange, Message};
use serde_json::{Value, json};
use support::{Project, assert_says, find_key};

/// What a session reads on its standard input, for the test; the counting name is its place among the sessions.
const READ: &str = "count=$(wc -l <\"$NOTES/sessions\"); cat >\"$NOTES/stdin-$count\"\n";

/// A remediation's work lies in the scope of its origin.
const FIX: (&str, &str) = ("S00-001-r1/claim", "write src/S00-001/fix.txt fixed; submit");

/// A project with the default number of further processes unless `config` says otherwise.
fn project(config: &Value) -> Project {
    let project = Project::new();
    project.config(&json!({"follow_up_turns": null}));
    project.config(config);
    project
}

/// An executor that does `first` in its first process and `then` in each later one; everybody else is honest.
fn executor(project: &Project, first: &str, then: &str) {
    let body = format!("{READ}if seen left; then {then}; else {first}; fi");
    project.agent_on(&[("S00-001/claim", &body)]);
}

fn stdin(project: &Project, place: usize) -> String {
    let text = project.note(&format!("stdin-{place}"));
    assert!(!text.is_empty(), "session {place} has read its prompt");
    text
}

/// The record of an agent's session by its number.
fn record(project: &Project, agent: &str, number: u32) -> Value {
    let name = format!("state/runs/{agent}/{number}/run.json");
    serde_json::from_str(&project.read(&name)).expect("a record is JSON")
}

fn actions(project: &Project) -> Vec<String> {
    project.events("S00-001").iter().map(|event| event["action"].as_str().unwrap_or_default().to_owned()).collect()
}

#[test]
fn an_agent_that_forgot_to_submit_gets_its_history_in_a_fresh_process_and_submits() {
    let project = project(&json!({}));
    executor(&project, "work; printf 'I ## wrote\\n\\n\\342\\202\\254 it. '", "submit");
    let result = project.run(&[]).complete();
    assert_eq!(result["launched"], 3);
    assert_eq!(project.steps(), ["S00-001/claim", "S00-001/claim", "S00-001/review"]);
    let agent = &project.sessions()[0].agent;
    assert_eq!(project.sessions()[1].agent, *agent, "it is the same agent");
    assert_eq!(actions(&project), ["claim", "follow_up", "submit", "review", "approve"]);
    let (first, second) = (record(&project, agent, 1), record(&project, agent, 2));
    assert_eq!((&first["status"], &first["result"]["verdict"]), (&json!("finished"), &json!("goes_on")));
    assert_eq!((&first["outcome"], &first["parent_run_id"]), (&json!("failed"), &Value::Null));
    assert_eq!((&second["outcome"], &second["result"]["verdict"]), (&json!("succeeded"), &json!("stands")));
    assert_eq!(second["parent_run_id"], format!("{agent}.1"));
    assert_eq!(second["definition_hash"], first["definition_hash"], "the history changes the prompt's digest only");
    assert_ne!(second["prompt_hash"], first["prompt_hash"]);
    let usage = project.run(&["usage", "--by", "role", "--json"]);
    assert!(usage.stdout.contains("\"repair_turns\": 1"), "{usage}");
    // Nothing is settled between the two, so both are one commit; the review is another.
    assert_eq!(project.log().len(), 3);
    assert_eq!(project.trailer("HEAD~1", "Action"), "submit");
    assert_eq!(project.at_head("src/S00-001/out.txt"), "work of S00-001");
    project.assert_clean();
}

#[test]
fn the_prompt_of_a_continued_session_is_the_history_then_the_new_words_byte_for_byte() {
    let project = project(&json!({}));
    executor(&project, "work; printf 'I ## wrote\\n\\n\\342\\202\\254 it. '", "submit");
    project.run(&[]).complete();
    let agent = &project.sessions()[0].agent;
    let asked = vec![Message::asked(stdin(&project, 1))];
    let history = Exchange::begin(format!("{agent}.1"), asked, "I ## wrote\n\n\u{20ac} it.").history();
    let second = stdin(&project, 2);
    let new = second.strip_prefix(&history).expect("the history comes first");
    assert_says(new, &["without submit or escalate"]);
    assert_eq!(new.matches('\n').count(), 1, "one sentence: {new}");
    assert_eq!(
        second,
        project.read(&format!("state/runs/{agent}/2/prompt.md")),
        "the prompt on record is what was read"
    );
    let parts = record(&project, agent, 2)["prompt_parts"].clone();
    assert_eq!(parts[0], json!({"part": "history", "characters": history.chars().count()}));
    assert_eq!(parts[1], json!({"part": "what is missing", "characters": new.chars().count()}));
}

#[test]
fn an_agent_that_never_submits_is_escalated_exactly_once_after_all_its_turns() {
    let project = project(&json!({"follow_up_turns": 3}));
    // From the fifth process on, which is another agent's after the remediation, it is honest.
    let body = "note turns up; test \"$(wc -l <\"$NOTES/turns\")\" -le 4 || honest";
    project.agent_on(&[("S00-001/claim", body), FIX]);
    project.run(&[]).complete();
    let sessions = project.sessions();
    assert!(sessions[..4].iter().all(|session| session.agent == sessions[0].agent), "{sessions:?}");
    let steps = project.steps();
    assert_eq!(steps[4..], ["S00-001-r1/claim", "S00-001-r1/review", "S00-001/claim", "S00-001/review"]);
    let events = actions(&project);
    assert_eq!(events[..5], ["claim", "follow_up", "follow_up", "follow_up", "escalate"]);
    assert_eq!(events.iter().filter(|action| *action == "escalate").count(), 1);
    let last = record(&project, &sessions[0].agent, 4);
    assert_eq!(
        (&last["result"]["verdict"], &last["parent_run_id"]),
        (&json!("escalated"), &json!(format!("{}.3", sessions[0].agent)))
    );
    project.assert_clean();
}

#[test]
fn without_turns_a_silent_agent_is_escalated_at_once() {
    let project = project(&json!({"follow_up_turns": 0}));
    project.agent_on(&[("S00-001/claim", "seen left && honest; :"), FIX]);
    project.run(&[]).complete();
    assert_eq!(project.steps()[..2], ["S00-001/claim", "S00-001-r1/claim"]);
    assert_eq!(actions(&project)[..2], ["claim", "escalate"]);
}

#[test]
fn a_reviewer_that_left_without_a_verdict_is_asked_for_it() {
    let project = project(&json!({}));
    project.agent_on(&[("*/review", &format!("{READ}if seen left; then approve; else echo 'All holds.'; fi"))]);
    project.run(&[]).complete();
    assert_eq!(project.steps(), ["S00-001/claim", "S00-001/review", "S00-001/review"]);
    assert_eq!(actions(&project), ["claim", "submit", "review", "follow_up", "approve"]);
    assert_says(&stdin(&project, 3), &["All holds.", "without approve, reject or escalate"]);
}

#[test]
fn going_on_works_when_the_files_of_the_first_prompt_are_gone() {
    let project = Project::builder().stage("S00", 1).file("src/S00-001/notes.md", "Words of an input.\n").build();
    project.config(&json!({"follow_up_turns": null}));
    project.edit_card("S00-001", &json!({"inputs": ["src/S00-001/notes.md"]}));
    project.commit_all("Name an input");
    executor(&project, "work; rm src/S00-001/notes.md", "submit");
    project.run(&[]).complete();
    assert_eq!(actions(&project), ["claim", "follow_up", "submit", "review", "approve"]);
    assert_says(&stdin(&project, 2), &["Words of an input."]);
    let agent = &project.sessions()[0].agent;
    let inputs = |number| record(&project, agent, number)["input_hashes"].as_array().map(Vec::len);
    assert!(inputs(1) > Some(0));
    assert_eq!(inputs(2), Some(0), "nothing was read again");
}

#[test]
fn the_secret_of_the_process_before_proves_nothing_any_more() {
    let project = project(&json!({}));
    executor(
        &project,
        "work; printf %s \"$RUNNER_TOKEN\" >\"$NOTES/old\"",
        "own=$RUNNER_TOKEN; RUNNER_TOKEN=$(cat \"$NOTES/old\"); attempt stale submit; RUNNER_TOKEN=$own; submit",
    );
    project.run(&[]).complete();
    assert_ne!(project.note("stale"), "0\n");
    assert_says(&project.note("stale.out"), &["RUNNER_TOKEN"]);
    assert_eq!(actions(&project), ["claim", "follow_up", "submit", "review", "approve"]);
}

#[test]
fn a_process_that_left_its_scope_gets_no_further_one() {
    let project = project(&json!({}));
    executor(&project, "work; echo more >>README.md", "submit");
    project.run(&[]).stopped(2, "git_error");
    assert_eq!(project.steps(), ["S00-001/claim"]);
    assert_says(&project.waits("S00-001"), &["README.md"]);
}

#[test]
fn what_a_further_process_does_out_of_scope_undoes_the_whole_session() {
    let project = project(&json!({}));
    executor(&project, "work", "echo more >>README.md; submit");
    project.run(&[]).stopped(2, "git_error");
    assert_eq!(project.steps(), ["S00-001/claim", "S00-001/claim"]);
    assert_says(&project.waits("S00-001"), &["README.md"]);
    let row = project.row("S00-001");
    assert_eq!((&row["blocked_from"], &row["owner"], &row["claim"]), (&json!("todo"), &Value::Null, &Value::Null));
    assert_eq!(actions(&project), ["claim", "follow_up", "submit", "quarantine"]);
}

#[test]
fn a_process_that_was_killed_or_timed_out_did_not_leave_by_itself() {
    for (deed, config) in [("kill -9 $$", json!({})), ("sleep 600", json!({"timeout_seconds": 0.5}))] {
        let project = project(&config);
        project.agent_on(&[("S00-001/claim", deed), FIX]);
        project.run(&["--max-sessions", "2"]).stopped(0, "session_limit");
        assert_eq!(project.steps()[..2], ["S00-001/claim", "S00-001-r1/claim"], "{deed}");
        assert_eq!(actions(&project)[..2], ["claim", "escalate"], "{deed}");
    }
}

#[test]
fn a_further_process_counts_as_a_session_of_the_task() {
    let project = project(&json!({"follow_up_turns": 10, "max_task_sessions": 3}));
    project.agent_on(&[("S00-001/claim", ":"), FIX]);
    project.run(&[]).stopped(3, "needs_input");
    assert_eq!(actions(&project)[..4], ["claim", "follow_up", "follow_up", "escalate"]);
}

#[test]
fn a_history_over_the_budget_gives_way_to_a_fresh_prompt_with_a_handoff() {
    let long = format!("# Agents\n\n{}", "Work small.\n".repeat(5_400));
    let project = Project::builder().stage("S00", 1).file("AGENTS.md", long).build();
    project.config(&json!({"follow_up_turns": null}));
    executor(&project, "work; printf 'x%.0s' $(seq 15000); echo ' the end'", "submit");
    project.run(&[]).complete();
    let agent = &project.sessions()[0].agent;
    let (second, prompt) = (record(&project, agent, 2), stdin(&project, 2));
    assert_eq!(second["parent_run_id"], Value::Null);
    assert!(prompt.starts_with("You are agent "), "it is a fresh prompt");
    let heading = format!("## Handoff: state/runs/{agent}/1/stdout.log");
    assert_says(&prompt, &[&heading, "without submit or escalate", "the end"]);
    assert_eq!(find_key(&second, "prompt_hash").and_then(Value::as_str).map(str::len), Some(64));
}

#[test]
fn a_dry_run_is_the_next_session_discarded() {
    let project = project(&json!({}));
    let before = project.listing();
    let shown = project.run(&["--dry-run"]).json();
    support::assert_same(&before, &project.listing());
    project.run(&["--max-sessions", "1"]).stopped(0, "session_limit");
    let record = project.run_json(&project.sessions()[0].agent);
    let details = &shown["details"];
    assert_eq!(details["prompt"], record["prompt_hash"]);
    assert_eq!(details["definition"], record["definition_hash"]);
    assert_eq!(details["prompt_characters"], record["prompt_characters"]);
    assert_eq!(details["prompt_parts"], record["prompt_parts"]);
    let named = |list: &Value, digest: &str| -> Vec<(String, String)> {
        let text = |value: &Value| value.as_str().expect("a text").to_owned();
        list.as_array().expect("a list").iter().map(|one| (text(&one["part"]), text(&one[digest]))).collect()
    };
    let inputs = named(&details["inputs"], "digest");
    assert_eq!(inputs, named(&record["input_hashes"], "hash"));
    assert!(inputs.iter().any(|(part, _)| part == "context file AGENTS.md"), "{inputs:?}");
    let review = project.run(&["--dry-run"]).json();
    project.run(&["--max-sessions", "1"]).complete();
    let record = project.run_json(&project.sessions()[1].agent);
    assert_eq!(review["details"]["prompt"], record["prompt_hash"]);
    assert_eq!(review["details"]["definition"], record["definition_hash"]);
    assert_ne!(review["details"]["definition"], details["definition"]);
}

/// A reviewer that rejects once, and an executor that says something.
fn rejected(rework: &str) -> (Project, String) {
    let project = project(&json!({"rework": rework}));
    project.agent_on(&[
        ("*/claim", &format!("{READ}honest; echo 'I chose the short way.'")),
        ("*/review", &format!("{READ}if seen rejected; then approve; else reject 'take the long way'; fi")),
    ]);
    project.run(&[]).complete();
    let steps = ["S00-001/claim", "S00-001/review", "S00-001/claim", "S00-001/review"];
    assert_eq!(project.steps(), steps);
    let prompt = stdin(&project, 3);
    assert_says(&prompt, &["take the long way"]);
    (project, prompt)
}

#[test]
fn a_rework_can_go_on_from_the_conversation_of_the_session_that_submitted() {
    let (project, prompt) = rejected("continue");
    let sessions = project.sessions();
    assert_ne!(sessions[0].agent, sessions[2].agent, "a rework is another agent's");
    let run_id = format!("{}.1", sessions[0].agent);
    let said = project.read(&format!("state/runs/{}/1/stdout.log", sessions[0].agent));
    let history = Exchange::begin(&*run_id, vec![Message::asked(stdin(&project, 1))], said.trim()).history();
    let new = prompt.strip_prefix(&history).expect("the history comes first");
    assert!(new.starts_with(&format!("You are agent {}", sessions[2].agent)), "{new}");
    assert_eq!(project.run_json(&sessions[2].agent)["parent_run_id"], *run_id);
    assert_eq!(project.run_json(&sessions[3].agent)["parent_run_id"], Value::Null);
}

#[test]
fn a_rework_that_forgets_its_command_goes_on_from_the_whole_conversation() {
    let project = project(&json!({"rework": "continue"}));
    project.agent_on(&[
        ("*/claim", &format!("{READ}if seen first; then if seen second; then submit; else work; echo again; fi; else honest; echo once; fi")),
        ("*/review", "if seen rejected; then approve; else reject 'take the long way'; fi"),
    ]);
    project.run(&[]).complete();
    let wanted = ["claim", "submit", "review", "reject", "claim", "follow_up", "submit", "review", "approve"];
    assert_eq!(actions(&project), wanted);
    let (first, second) = (project.sessions()[0].agent.clone(), project.sessions()[2].agent.clone());
    let said = project.read(&format!("state/runs/{first}/1/stdout.log"));
    let begun = Exchange::begin(format!("{first}.1"), vec![Message::asked(stdin(&project, 1))], said.trim());
    let rework = stdin(&project, 3);
    let new = rework.strip_prefix(&begun.history()).expect("the first conversation comes first");
    let whole = begun.then(format!("{second}.1"), vec![Message::asked(new)], "again");
    let last = stdin(&project, 4);
    let sentence = last.strip_prefix(&whole.history()).expect("the whole conversation comes first");
    assert_says(sentence, &["without submit or escalate"]);
    let parents = [1, 2].map(|number| record(&project, &second, number)["parent_run_id"].clone());
    assert_eq!(parents, [json!(format!("{first}.1")), json!(format!("{second}.1"))]);
}

#[test]
fn what_the_coordinator_sends_back_is_reworked_from_its_conversation_too() {
    let project =
        project(&json!({"rework": "continue", "verify": [["sh", "-c", "! grep -q bad src/S00-001/out.txt"]]}));
    let bad = "write src/S00-001/out.txt bad; submit; echo 'I took the bad one.'";
    let body = format!("{READ}if seen bad; then write src/S00-001/out.txt fine; submit; else {bad}; fi");
    project.agent_on(&[("*/claim", &body)]);
    project.run(&[]).complete();
    assert_eq!(actions(&project), ["claim", "submit", "reject", "claim", "submit", "review", "approve"]);
    let sessions = project.sessions();
    let said = project.read(&format!("state/runs/{}/1/stdout.log", sessions[0].agent));
    let run_id = format!("{}.1", sessions[0].agent);
    let history = Exchange::begin(&*run_id, vec![Message::asked(stdin(&project, 1))], said.trim()).history();
    let new = stdin(&project, 2).strip_prefix(&history).map(str::to_owned).expect("the history comes first");
    assert_says(&new, &["## Handoff", "grep -q bad"]);
    assert_eq!(project.run_json(&sessions[1].agent)["parent_run_id"], *run_id);
}

#[test]
fn a_rework_is_fresh_unless_it_is_to_continue() {
    let (project, prompt) = rejected("fresh");
    assert!(prompt.starts_with("You are agent "), "{prompt}");
    assert_eq!(project.run_json(&project.sessions()[2].agent)["parent_run_id"], Value::Null);
}

#[test]
fn a_rework_of_another_run_is_fresh_since_no_conversation_is_written_down() {
    let project = project(&json!({"rework": "continue"}));
    project.agent_on(&[
        ("*/claim", &format!("{READ}honest")),
        ("*/review", "if seen rejected; then approve; else reject 'take the long way'; fi"),
    ]);
    project.run(&["--max-sessions", "2"]).stopped(0, "session_limit");
    project.run(&[]).complete();
    let third = &project.sessions()[2].agent;
    assert!(stdin(&project, 3).starts_with("You are agent "));
    assert_eq!(project.run_json(third)["parent_run_id"], Value::Null);
}

#[test]
fn a_kill_during_a_further_process_loses_nothing_of_either_and_releases_the_task() {
    let project = project(&json!({}));
    let _hold = project.gate("hold");
    let (mut ready, mut agent) = (project.listener("working"), project.listener("agent"));
    let then = "write src/S00-001/more.txt more; exec 9>\"$PIPES/agent\"; echo up >&9; tell working; hold hold";
    executor(&project, "work", then);
    let run = project.spawn(&[]);
    ready.wait();
    run.kill_with_guardian();
    assert_eq!(run.wait().signal, Some(9));
    let first = project.sessions()[0].agent.clone();
    project.agent("honest");
    project.run(&["--max-sessions", "1"]).stopped(0, "session_limit");
    agent.assert_ended();
    assert_eq!(actions(&project)[..4], ["claim", "follow_up", "release", "claim"]);
    assert_eq!(project.trailer("HEAD~1", "Action"), "recover");
    let kept = project.files_of("HEAD~1");
    for file in ["src/S00-001/more.txt", "src/S00-001/out.txt"] {
        assert!(kept.iter().any(|name| name == file), "{file} is not among {kept:?}");
    }
    assert_eq!(record(&project, &first, 1)["status"], "finished");
    assert_eq!(record(&project, &first, 2)["status"], "recovered");
    project.run(&[]).complete();
    project.assert_clean();
}

#[test]
fn a_further_process_works_where_the_one_before_left_off_in_a_work_tree_too() {
    let project = project(&json!({"workspace": {"mode": "worktree"}}));
    executor(
        &project,
        "cd \"$RUNNER_PROJECT_ROOT\"; work",
        "cd \"$RUNNER_PROJECT_ROOT\"; test -e src/S00-001/out.txt && submit",
    );
    project.run(&[]).complete();
    assert_eq!(actions(&project), ["claim", "follow_up", "submit", "review", "approve"]);
    assert_eq!(project.at_head("src/S00-001/out.txt"), "work of S00-001");
    project.assert_clean();
}
