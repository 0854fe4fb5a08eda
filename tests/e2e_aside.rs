//! What is set aside is there twice: as files, and as a patch that brings the very changes back. Nothing is discarded.

#![expect(
    clippy::disallowed_methods,
    clippy::unwrap_used,
    reason = "tests make and read files, and say so by panicking"
)]

mod support;

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::json;
use support::{Project, Signal, assert_says};

/// Changes of every kind outside every scope: text, binary, new, gone, mode, link, a name that is no UTF-8.
const DEED: &str = "echo more >>docs/page.md; printf '\\000\\001\\377new' >lib/data.bin; write lib/new/deep.txt x; \
                    rm lib/gone.txt; chmod +x lib/mode.sh; ln -s data.bin lib/link; \
                    printf '\\377\\000' >\"lib/$(printf 'caf\\351')\"";

fn project(patch: &serde_json::Value) -> Project {
    Project::builder()
        .stage("S00", 1)
        .file("docs/page.md", "page\n")
        .file("lib/data.bin", [0, 1, 2, 0xff])
        .file("lib/gone.txt", "gone\n")
        .file("lib/mode.sh", "#!/bin/sh\n")
        .config(patch.clone())
        .build()
}

/// Applies the patch to the clean tree, and shows that this brings back what the session had changed.
fn brings_it_all_back(project: &Project, patch: &Path) {
    project.assert_clean();
    project.git(&["apply", "--binary", patch.to_str().unwrap()]);
    assert_eq!(project.read("docs/page.md"), "page\nmore\n");
    assert_eq!(fs::read(project.path("lib/data.bin")).unwrap(), b"\x00\x01\xffnew");
    assert_eq!(project.read("lib/new/deep.txt"), "x\n");
    assert!(!project.exists("lib/gone.txt"));
    let link = fs::read_link(project.path("lib/link")).unwrap();
    assert_eq!(link, PathBuf::from("data.bin"));
    let status = project.git(&["-c", "core.quotePath=true", "status", "--porcelain", "--untracked-files=all"]);
    assert_says(&status, &["lib/mode.sh", "caf\\351"]);
    assert_eq!(status.lines().count(), 7, "{status}");
}

#[test]
fn a_violation_set_aside_is_kept_as_files_and_as_a_patch() {
    let project = project(&json!({"on_violation": "set_aside"}));
    project.agent_on(&[("*/claim", &format!("work; {DEED}; submit"))]);
    project.run(&[]).stopped(3, "needs_input");
    let agent = &project.sessions()[0].agent;
    let kept = project.path(&format!("state/runs/{agent}/1/kept"));
    assert_eq!(fs::read(kept.join("tree/lib/data.bin")).unwrap(), b"\x00\x01\xffnew");
    let record = project.run_json(agent);
    assert_says(&record["kept"].to_string(), &["as a patch", "changes.patch"]);
    let workspace = &record["workspace"];
    assert_eq!(workspace["mode"], "in_place");
    assert_eq!(workspace["contamination"], json!(["scope_violation"]));
    assert_eq!(workspace["steps"], json!(["acquire", "reset", "check", "quarantine", "replace"]), "{workspace:#}");
    brings_it_all_back(&project, &kept.join("changes.patch"));
}

#[test]
fn what_a_patch_cannot_hold_is_named_and_kept_as_files() {
    let project = project(&json!({"on_violation": "set_aside"}));
    let deed = "echo more >>docs/page.md; mkfifo lib/fifo; mkdir lib/own; cd lib/own; git init -q .; write inner.txt x; cd ../..";
    project.agent_on(&[("*/claim", &format!("work; {deed}; submit"))]);
    project.run(&[]).stopped(3, "needs_input");
    let agent = &project.sessions()[0].agent;
    let kept = project.run_json(agent)["kept"].to_string();
    assert_says(&kept, &["changes.patch, without", "lib/fifo", "lib/own"]);
    assert_eq!(project.kept("inner.txt"), ["x\n"]);
    project.assert_clean();
}

#[test]
fn recover_lists_first_then_sets_aside_as_files_and_as_a_patch() {
    let project = project(&json!({}));
    let hold = project.gate("hold");
    let mut ready = project.listener("working");
    project.agent_on(&[("*/claim", &format!("work; {DEED}; tell working; hold hold"))]);
    let run = project.spawn(&[]);
    ready.wait();
    run.signal(Signal::KILL);
    assert_eq!(run.wait().signal, Some(9));
    drop(hold);
    let listed = project.run(&["recover"]);
    assert_eq!(listed.code, Some(0), "{listed}");
    assert_says(&listed.stdout, &["docs/page.md", "lib/gone.txt", "runner recover --yes"]);
    assert_eq!(project.read("docs/page.md"), "page\nmore\n", "listing changes nothing");
    let done = project.run(&["recover", "--yes"]);
    assert_eq!(done.code, Some(0), "{done}");
    let line = done.stdout.lines().find(|line| line.contains("as a patch → ")).unwrap();
    let patch = PathBuf::from(line.split("→ ").nth(1).unwrap().trim());
    brings_it_all_back(&project, &patch);
}

#[test]
fn a_lease_of_the_root_is_on_record_however_the_session_ended() {
    let project = Project::new();
    project.run(&["--max-sessions", "1"]).stopped(0, "session_limit");
    let agent = &project.sessions()[0].agent;
    let workspace = &project.run_json(agent)["workspace"];
    assert_eq!(workspace["steps"], json!(["acquire", "reset", "check", "release"]));
    assert_eq!(workspace["contamination"], json!([]));
    assert_eq!(workspace["path"], project.root().display().to_string());
    let project = Project::new();
    project.agent_on(&[("*/claim", "work; echo more >>README.md; submit")]);
    project.run(&[]).stopped(2, "git_error");
    let agent = &project.sessions()[0].agent;
    let workspace = &project.run_json(agent)["workspace"];
    assert_eq!(workspace["steps"], json!(["acquire", "reset", "check", "quarantine"]), "the run stopped with it");
    assert_eq!(workspace["contamination"], json!(["scope_violation"]));
}
