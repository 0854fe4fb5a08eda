//! What a prompt cannot be made of: context faults stop the run, a task's own faults stop the task, and both name the file.

mod support;

use std::os::unix::fs::symlink;

use serde_json::json;
use support::{Project, assert_says};

/// Fails unless the run ends without having started an agent, and somebody is told the words.
fn never_reaches_an_agent(project: &Project, words: &[&str]) -> String {
    let finished = project.run(&[]);
    assert!(matches!(finished.code, Some(2 | 3)), "{finished}");
    assert!(project.steps().is_empty(), "no agent is started: {finished}");
    let all = format!("{}{}", finished.stdout, finished.stderr) + &project.told("S00-001");
    assert_says(&all, words);
    all
}

#[test]
fn a_missing_required_document_is_an_error_before_any_claim() {
    for name in ["AGENTS.md", "roles/common.md"] {
        let project = Project::new();
        project.git(&["rm", "-q", name]);
        project.git(&["commit", "-q", "-m", "Lose a document"]);
        project.refuses(&[], &[name]);
    }
}

#[test]
fn context_over_the_budget_is_an_error_before_any_claim() {
    let project = Project::builder().stage("S00", 1).file("AGENTS.md", "x".repeat(60_000)).build();
    project.config(&json!({"max_prompt_chars": 48000}));
    project.refuses(&[], &["AGENTS.md", "48000"]);
}

#[test]
fn context_outside_the_root_is_an_error_before_any_claim() {
    let project = Project::new();
    project.write_outside("secret.md", "secret");
    for name in ["../secret.md", "/etc/hostname"] {
        project.config(&json!({"context_files": ["AGENTS.md", name]}));
        project.refuses(&[], &[name]);
    }
}

#[test]
fn context_that_is_not_utf8_is_an_error_that_names_the_file() {
    let project = Project::builder().stage("S00", 1).file("roles/common.md", b"caf\xe9\n").build();
    never_reaches_an_agent(&project, &["roles/common.md", "utf-8"]);
}

#[test]
fn a_prompt_over_the_budget_lists_the_largest_parts_first_and_is_recorded() {
    let project = Project::builder()
        .stage("S00", 1)
        .file("docs/small.md", "s".repeat(9_000))
        .file("docs/huge.md", "h".repeat(70_000))
        .card("S00-001", json!({"inputs": ["docs/small.md", "docs/huge.md"]}))
        .config(json!({"max_prompt_chars": 48000, "max_remediation_depth": 0}))
        .build();
    never_reaches_an_agent(&project, &["docs/huge.md", "docs/small.md"]);
    let told = project.waits("S00-001");
    assert!(told.find("docs/huge.md") < told.find("docs/small.md"), "largest first: {told}");
    assert_says(&told, &["48000"]);
    assert_eq!(project.records().len(), 1, "the attempt is on record");
    project.assert_clean();
}

#[test]
fn a_prompt_over_the_budget_never_loops() {
    let project = Project::builder()
        .stage("S00", 1)
        .file("docs/huge.md", "h".repeat(90_000))
        .card("S00-001", json!({"inputs": ["docs/huge.md"]}))
        .build();
    let finished = project.run(&["--max-sessions", "100"]);
    assert_eq!(finished.code, Some(3), "{finished}");
    assert_says(&project.told("S00-001"), &["docs/huge.md"]);
}

#[test]
fn an_input_outside_the_root_is_named_and_never_read() {
    for input in ["../secret.md", "/etc/hostname", "docs/link.md", "docs/folder/secret.md"] {
        let project = Project::builder()
            .stage("S00", 1)
            .card("S00-001", json!({"inputs": [input]}))
            .config(json!({"max_remediation_depth": 0}))
            .build();
        project.write_outside("secret.md", "the-secret-word");
        symlink("../../secret.md", project.path("docs/link.md")).unwrap();
        symlink("../..", project.path("docs/folder")).unwrap();
        project.commit_all("Add links");
        let all = never_reaches_an_agent(&project, &[input]);
        assert!(!all.contains("the-secret-word"));
        assert!(!project.listing().values().any(|content| content.contains("the-secret-word")));
    }
}

#[test]
fn an_input_that_is_not_utf8_is_named() {
    let project = Project::builder()
        .stage("S00", 1)
        .file("docs/old.md", b"caf\xe9\n")
        .card("S00-001", json!({"inputs": ["docs/old.md"]}))
        .config(json!({"max_remediation_depth": 0}))
        .build();
    never_reaches_an_agent(&project, &["docs/old.md", "utf-8"]);
}

#[test]
fn an_input_that_is_absent_or_a_folder_is_named_as_such_in_the_prompt() {
    let project = Project::builder()
        .stage("S00", 1)
        .file("docs/page.md", "page\n")
        .card("S00-001", json!({"inputs": ["docs/not-there.md (made later)", "docs"]}))
        .build();
    project.agent_on(&[("*/claim", "cat >\"$NOTES/prompt\"; honest")]);
    project.run(&[]).complete();
    let prompt = project.note("prompt");
    let said = prompt.lines().any(|line| {
        let line = line.to_lowercase();
        line.contains("docs/not-there.md")
            && ["absent", "missing", "not exist", "not there yet", "no such"].iter().any(|word| line.contains(word))
    });
    assert!(said, "{prompt}");
    assert!(prompt.lines().any(|line| line.contains("docs is a folder")), "{prompt}");
}
