//! What is not believed: a submit of nothing, a review that changed what it judged, and a task that fails again and again.

mod support;

use serde_json::json;
use support::{Project, assert_says};

#[test]
fn a_submit_of_nothing_is_refused_at_the_verb_unless_it_says_why_and_the_reviewer_reads_that() {
    let project = Project::new();
    project.agent_on(&[
        ("*/claim", "attempt bare submit; submit --no-change 'The outcome was there already.'"),
        ("*/review", "cat >\"$NOTES/prompt\"; approve"),
    ]);
    project.run(&[]).complete();
    assert_eq!(project.note("bare").trim(), "2", "the verb refused it");
    assert_says(&project.note("bare.out"), &["nothing in the task's scope was changed", "--no-change"]);
    assert_eq!(project.steps(), ["S00-001/claim", "S00-001/review"]);
    assert_says(&project.note("prompt"), &["\"no_change\": \"The outcome was there already.\""]);
    project.assert_clean();
}

#[test]
fn a_submit_of_nothing_that_got_past_the_verb_is_sent_back_by_the_coordinator() {
    for deed in
        ["work; submit; rm -r src/S00-001", "cd /; GIT_DIR=/nonexistent RUNNER_PROJECT_ROOT=/nonexistent submit"]
    {
        let project = Project::new();
        project.agent_on(&[(
            "*/claim",
            &format!("cat >\"$NOTES/prompt-$RUNNER_AGENT_ID\"; if seen first; then honest; else {deed}; fi"),
        )]);
        project.run(&[]).complete();
        assert_eq!(project.steps(), ["S00-001/claim", "S00-001/claim", "S00-001/review"], "{deed}");
        let reject = &project.events("S00-001")[2];
        assert_eq!((reject["action"].as_str(), reject["agent"].as_str()), (Some("reject"), Some("coordinator")));
        let told = project.note(&format!("prompt-{}", project.sessions()[1].agent));
        assert_says(&told, &["nothing in the task's scope was changed"]);
        project.assert_clean();
    }
}

#[test]
fn a_review_that_changed_a_file_is_void_and_another_one_judges() {
    let project = Project::tasks(2);
    project.agent_on(&[(
        "S00-001/review",
        "cat >\"$NOTES/prompt-$RUNNER_AGENT_ID\"; if seen review; then approve
         else echo better >>src/S00-001/out.txt; write lib/new.txt x; approve; fi",
    )]);
    project.run(&[]).complete();
    let steps = ["S00-001/claim", "S00-001/review", "S00-001/review", "S00-002/claim", "S00-002/review"];
    assert_eq!(project.steps(), steps);
    let actions: Vec<String> =
        project.events("S00-001").iter().map(|event| event["action"].as_str().unwrap_or_default().to_owned()).collect();
    assert_eq!(actions, ["claim", "submit", "review", "approve", "void", "review", "approve"]);
    let sessions = project.sessions();
    assert_eq!(project.row("S00-001")["reviewer"], sessions[2].agent.as_str(), "the first reviewer's verdict is gone");
    assert_eq!(project.at_head("src/S00-001/out.txt"), "work of S00-001");
    assert!(!project.exists("lib/new.txt"));
    assert_eq!(project.kept("out.txt"), ["work of S00-001\nbetter\n"]);
    assert_eq!(project.kept("new.txt"), ["x\n"]);
    assert_eq!(project.trailer("HEAD~3", "Action"), "void");
    let told = project.note(&format!("prompt-{}", sessions[2].agent));
    assert_says(&told, &["its verdict is void", "src/S00-001/out.txt", "lib/new.txt"]);
    project.assert_clean();
}

#[test]
fn after_two_void_reviews_the_task_waits_for_a_person() {
    let project = Project::tasks(2);
    project.agent_on(&[("S00-001/review", "write lib/new.txt x; approve")]);
    project.run(&[]).stopped(3, "needs_input");
    let reviews = project.steps().iter().filter(|step| *step == "S00-001/review").count();
    assert_eq!(reviews, 2);
    assert_says(&project.waits("S00-001"), &["its verdict is void", "lib/new.txt"]);
    assert_eq!(project.status_of("S00-002"), "done", "the other task goes on");
    assert!(!project.exists("lib/new.txt"));
    project.assert_clean();
    project.agent("honest");
    assert_eq!(project.run(&["task", "answer", "S00-001", "--text", "Only read.", "--as", "ada"]).code, Some(0));
    project.run(&[]).complete();
}

#[test]
fn three_rejections_for_one_cause_wait_for_a_person_without_another_session() {
    let project = Project::new();
    project.agent_on(&[
        ("*/claim", "write \"src/S00-001/$RUNNER_AGENT_ID\" x; submit"),
        ("*/review", "note review x; reject \"Line $(wc -l <\"$NOTES/review\" | tr -d ' ') has no test.\""),
    ]);
    let result = project.run(&[]).stopped(3, "needs_input");
    assert_eq!(result["launched"], 6);
    assert_says(&project.waits("S00-001"), &["was rejected 3 times in a row for the same cause", "has no test"]);
    assert_eq!(project.run(&[]).stopped(3, "needs_input")["launched"], 0);
    project.assert_clean();
    project.agent("honest");
    assert_eq!(project.run(&["task", "answer", "S00-001", "--text", "It needs none.", "--as", "ada"]).code, Some(0));
    project.run(&[]).complete();
}

#[test]
fn five_rejections_wait_for_a_person_whatever_their_causes() {
    let project = Project::builder().stage("S00", 1).config(json!({"max_task_sessions": 100})).build();
    project.agent_on(&[
        ("*/claim", "write \"src/S00-001/$RUNNER_AGENT_ID\" x; submit"),
        (
            "*/review",
            "note review x; set -- tests docs names order sense style; shift $(($(wc -l <\"$NOTES/review\") - 1)); reject \"It has no $1.\"",
        ),
    ]);
    let result = project.run(&[]).stopped(3, "needs_input");
    assert_eq!(result["launched"], 10);
    assert_says(&project.waits("S00-001"), &["was rejected 5 times in a row"]);
    project.assert_clean();
}
