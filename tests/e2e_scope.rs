//! What a session may change in the tree, and that everything else is seen.

#![expect(clippy::disallowed_methods, reason = "the test makes a sparse file and reads a trace outside the project")]

mod support;

use serde_json::json;
use support::{Project, assert_says, assert_says_one, has_strace};

/// A project with files outside every scope.
fn with_surroundings() -> Project {
    Project::builder()
        .stage("S00", 1)
        .file("lib/keep.txt", "keep\n")
        .file("lib/other.txt", "other\n")
        .file("docs/page.md", "page\n")
        .build()
}

/// Runs an executor that works, does `deed`, and submits; it must be stopped as a violation that names `names`.
fn is_a_violation(project: &Project, deed: &str, names: &[&str]) {
    project.agent_on(&[("*/claim", &format!("work\n{deed}\nsubmit"))]);
    let head = project.head();
    let result = project.run(&[]).stopped(2, "git_error");
    assert_eq!(project.head(), head, "no commit is made of a violation");
    assert_eq!(project.steps(), ["S00-001/claim"], "nobody works on top of it");
    assert!(result["commit_error"].is_string(), "{result}");
    assert_says(&project.waits("S00-001"), names);
    assert_eq!(project.read("src/S00-001/out.txt"), "work of S00-001\n", "in-scope work is preserved");
}

#[test]
fn a_change_out_of_scope_is_a_violation() {
    let project = with_surroundings();
    is_a_violation(&project, "echo more >>docs/page.md", &["docs/page.md"]);
    assert_eq!(project.read("docs/page.md"), "page\nmore\n", "it stays for a person to look at");
}

#[test]
fn a_change_that_puts_size_and_time_back_is_a_violation() {
    let deed = "touch -r docs/page.md \"$NOTES/stamp\"; printf 'egap\\n' >docs/page.md; touch -r \"$NOTES/stamp\" docs/page.md";
    is_a_violation(&with_surroundings(), deed, &["docs/page.md"]);
}

#[test]
fn a_new_file_out_of_scope_is_a_violation() {
    is_a_violation(&with_surroundings(), "write lib/new/deep.txt x", &["lib/new/deep.txt"]);
}

#[test]
fn a_deletion_out_of_scope_is_a_violation() {
    is_a_violation(&with_surroundings(), "rm lib/keep.txt", &["lib/keep.txt"]);
}

#[test]
fn a_link_out_of_scope_is_a_violation() {
    is_a_violation(&with_surroundings(), "ln -s keep.txt lib/link", &["lib/link"]);
}

#[test]
fn a_file_replaced_by_a_link_is_a_violation() {
    is_a_violation(&with_surroundings(), "rm lib/keep.txt; ln -s other.txt lib/keep.txt", &["lib/keep.txt"]);
}

#[test]
fn a_folder_replaced_by_a_link_is_a_violation() {
    let deed = "mv lib \"$NOTES/lib\"; ln -s \"$NOTES/lib\" lib";
    is_a_violation(&with_surroundings(), deed, &["lib"]);
}

#[test]
fn a_rename_out_of_scope_names_both_ends() {
    is_a_violation(&with_surroundings(), "mv lib/keep.txt lib/moved.txt", &["lib/keep.txt", "lib/moved.txt"]);
}

#[test]
fn a_mode_change_out_of_scope_is_a_violation() {
    is_a_violation(&with_surroundings(), "chmod 777 README.md", &["README.md"]);
}

#[test]
fn staging_and_a_hiding_index_flag_make_no_difference() {
    is_a_violation(
        &with_surroundings(),
        "echo more >>docs/page.md; git update-index --assume-unchanged docs/page.md",
        &["docs/page.md"],
    );
}

#[test]
fn a_link_in_scope_that_leads_out_of_the_root_is_a_violation() {
    for (deed, name) in [
        ("ln -s /etc/passwd src/S00-001/words", "src/S00-001/words"),
        ("ln -s / src/S00-001/all", "src/S00-001/all"),
        ("ln -s ../../../elsewhere src/S00-001/up", "src/S00-001/up"),
    ] {
        is_a_violation(&Project::new(), deed, &[name]);
    }
}

#[test]
fn a_link_in_scope_that_stays_inside_is_work() {
    let project = Project::new();
    project.agent_on(&[(
        "*/claim",
        "work; ln -s out.txt src/S00-001/link; ln -s ../../README.md src/S00-001/readme; submit",
    )]);
    project.run(&[]).complete();
    assert_says(&project.git(&["ls-tree", "-r", "HEAD", "src"]), &["src/S00-001/link", "src/S00-001/readme"]);
}

#[test]
fn a_name_that_is_not_utf8_is_shown_escaped() {
    let project = with_surroundings();
    is_a_violation(&project, "printf x >\"lib/$(printf 'caf\\351')\"", &["lib/caf"]);
    assert_says_one(&project.waits("S00-001"), &["\\xe9", "\\351"]);
}

#[test]
fn a_name_that_is_not_utf8_in_scope_is_committed() {
    let project = Project::new();
    project.agent_on(&[("*/claim", "work; printf x >\"src/S00-001/$(printf 'caf\\351')\"; submit")]);
    project.run(&[]).complete();
    assert_says(&project.git(&["ls-tree", "-r", "HEAD", "src"]), &["caf\\351"]);
    project.assert_clean();
}

#[test]
fn a_build_folder_that_git_does_not_ignore_is_watched() {
    for name in ["src/dist/c.js", "docs/coverage/index.html", "lib/node_modules/x.js", "src/lib/coverage"] {
        is_a_violation(&with_surroundings(), &format!("write {name} x"), &[name]);
    }
}

#[test]
fn build_output_that_git_ignores_is_neither_a_violation_nor_committed() {
    let project = Project::builder().stage("S00", 1).ignore("node_modules/\n*.log\n").build();
    project.agent_on(&[(
        "*/claim",
        "write node_modules/a/b.js x; write lib/node_modules/c.js x; write trace.log x; honest",
    )]);
    project.run(&[]).complete();
    assert!(!project.git(&["ls-files"]).contains("node_modules"));
    assert!(project.exists("node_modules/a/b.js") && project.exists("trace.log"));
    project.assert_clean();
}

#[test]
fn a_tracked_file_in_an_ignored_folder_is_watched() {
    let project = Project::builder().stage("S00", 1).ignore("dist/\n").build();
    project.write("dist/kept.js", "kept\n");
    project.git(&["add", "-f", "dist/kept.js"]);
    project.git(&["commit", "-q", "-m", "Keep one built file"]);
    is_a_violation(&project, "echo more >>dist/kept.js", &["dist/kept.js"]);
}

#[test]
fn an_ignored_path_under_watch_is_watched() {
    let project =
        Project::builder().stage("S00", 1).ignore("secrets.env\n").config(json!({"watch": ["secrets.env"]})).build();
    project.write("secrets.env", "KEY=1\n");
    is_a_violation(&project, "echo KEY=2 >secrets.env", &["secrets.env"]);
}

#[test]
fn an_edit_of_gitignore_hides_nothing() {
    is_a_violation(
        &with_surroundings(),
        "echo 'lib/' >>.gitignore; write lib/hidden.txt x",
        &[".gitignore", "lib/hidden.txt"],
    );
}

#[test]
fn an_ignore_file_in_scope_hides_no_work() {
    let project = Project::new();
    project.agent_on(&[("*/claim", "work; write src/S00-001/.gitignore '*'; write src/S00-001/more.txt x; submit")]);
    project.run(&[]).complete();
    assert_says(
        &project.git(&["ls-tree", "-r", "--name-only", "HEAD"]),
        &["src/S00-001/.gitignore", "src/S00-001/more.txt", "src/S00-001/out.txt"],
    );
    project.assert_clean();
}

#[test]
fn the_most_generous_scope_does_not_reach_plan_and_state() {
    let project = Project::builder().stage("S00", 2).card("S00-001", json!({"scope": ["*"]})).build();
    project.agent_on(&[("S00-001/claim", "write anywhere.txt x; echo '{}' >planning/tasks/S00-002.json; submit")]);
    let card = project.card("S00-002");
    let finished = project.run(&[]);
    assert!(matches!(finished.code, Some(2 | 3)), "{finished}");
    assert_says(&project.waits("S00-001"), &["planning/tasks/S00-002.json"]);
    assert_eq!(project.card("S00-002"), card);
}

#[test]
fn a_reviewer_that_changes_anything_has_given_no_verdict() {
    let project = Project::new();
    project.agent_on(&[("*/review", "echo better >>src/S00-001/out.txt; approve")]);
    // The review starts again once, and then a person has to look at it.
    let result = project.run(&[]).stopped(3, "needs_input");
    assert_eq!(result["launched"], 3, "{result}");
    assert_says(&project.waits("S00-001"), &["src/S00-001/out.txt"]);
    assert_ne!(project.status_of("S00-001"), "done");
    project.assert_clean();
}

#[test]
fn what_is_put_back_before_the_end_is_no_violation() {
    let project = with_surroundings();
    project.agent_on(&[("*/claim", "echo x >>lib/keep.txt; git checkout -q lib/keep.txt; honest")]);
    project.run(&[]).complete();
}

#[test]
fn a_fifo_in_the_tree_does_not_hang_the_run() {
    let project = Project::new();
    project.agent_on(&[("*/claim", "work; mkfifo src/S00-001/pipe; submit")]);
    let finished = project.run(&[]);
    assert!(finished.code.is_some(), "{finished}");
    finished.json();
}

#[test]
fn the_next_start_after_a_violation_says_what_to_do_and_goes_on_when_it_is_done() {
    let project = Project::builder().stage("S00", 2).file("docs/page.md", "page\n").build();
    is_a_violation(&project, "echo more >>docs/page.md; write lib/new.txt x", &["docs/page.md", "lib/new.txt"]);
    let next = project.run(&[]);
    assert_eq!(next.code, Some(2), "{next}");
    assert_says(&format!("{next}"), &["docs/page.md", "lib/new.txt"]);
    // A person puts the tree in order and answers; nothing else has to be committed by hand.
    project.git(&["checkout", "-q", "docs/page.md"]);
    project.remove("lib/new.txt");
    project.remove_folder("src");
    project.agent("honest");
    let answer = project.run(&["task", "answer", "S00-001", "--text", "Stay in your folder."]);
    assert_eq!(answer.code, Some(0), "{answer}");
    project.run(&[]).complete();
    project.assert_clean();
}

#[test]
fn violations_set_aside_leave_a_clean_tree_and_the_run_goes_on() {
    let project = Project::builder()
        .stage("S00", 2)
        .file("docs/page.md", "page\n")
        .config(json!({"on_violation": "set_aside"}))
        .build();
    project.agent_on(&[("S00-001/claim", "work; echo more >>docs/page.md; write lib/new.txt new; submit")]);
    project.run(&[]).stopped(3, "needs_input");
    assert_says(&project.waits("S00-001"), &["docs/page.md", "lib/new.txt"]);
    assert_eq!(project.status_of("S00-002"), "done", "other tasks go on");
    assert_eq!(project.read("docs/page.md"), "page\n");
    assert!(!project.exists("lib/new.txt"));
    assert_eq!(project.kept("page.md"), ["page\nmore\n"], "nothing is discarded");
    assert_eq!(project.kept("new.txt"), ["new\n"]);
    project.assert_clean();
}

#[test]
fn without_git_a_violation_is_seen_and_waits_for_a_person() {
    let project = Project::builder().stage("S00", 1).file("docs/page.md", "page\n").without_git().build();
    project.agent_on(&[("*/claim", "work; echo more >>docs/page.md; submit")]);
    let finished = project.run(&[]);
    assert!(matches!(finished.code, Some(2 | 3)), "{finished}");
    assert_says(&project.waits("S00-001"), &["docs/page.md"]);
}

#[test]
fn a_folder_that_cannot_be_read_is_reported_not_passed_over() {
    let project = Project::builder().stage("S00", 1).build();
    project.write("lib/shut/x.txt", "x\n");
    project.commit_all("Add a folder");
    project.chmod("lib/shut", 0o000);
    if std::fs::read_dir(project.path("lib/shut")).is_ok() {
        // Nothing is unreadable to root.
        project.chmod("lib/shut", 0o755);
        return;
    }
    let finished = project.run(&[]);
    project.chmod("lib/shut", 0o755);
    assert_says(&format!("{finished}"), &["lib/shut"]);
    assert_ne!(project.status_of("S00-001"), "in_progress", "no task is stranded");
}

#[test]
fn a_file_that_cannot_be_read_strands_no_task() {
    let project = Project::new();
    project.agent_on(&[("*/claim", "work; write lib/secret x; chmod 000 lib/secret; submit")]);
    let finished = project.run(&[]);
    assert!(matches!(finished.code, Some(2 | 3)), "{finished}");
    assert_says(&project.waits("S00-001"), &["lib/secret"]);
    assert_ne!(project.status_of("S00-001"), "in_progress");
}

/// Files below more folders than any walk enters.
const DEEP: &str =
    "p=src/$RUNNER_TASK_ID; for i in $(seq 260); do p=$p/d; done; mkdir -p $p; echo x >$p/f; work; submit";

#[test]
fn work_below_too_many_folders_is_refused_by_name_since_no_commit_could_hold_it() {
    let project = Project::tasks(2);
    project.agent_on(&[("S00-001/claim", DEEP)]);
    let result = project.run(&[]).stopped(2, "git_error");
    assert_says(result["commit_error"].as_str().unwrap_or_default(), &["src/S00-001/d/d", "too many folders deep"]);
    assert_says(&project.waits("S00-001"), &["too many folders deep"]);
    project.refuses(&[], &["not clean", "src/S00-001/d/d"]);
    assert_eq!(project.run(&["recover", "--yes"]).code, Some(0));
    project.run(&[]).stopped(3, "needs_input");
    project.assert_clean();
}

/// Where memory for a whole large file is not to be had.
const LITTLE_MEMORY: [&str; 4] = ["sh", "-c", "ulimit -v 1500000; exec \"$@\"", "sh"];

#[test]
fn a_huge_sparse_file_in_scope_is_refused_by_name_and_never_read_into_memory() {
    let project = Project::builder().stage("S00", 1).config(json!({"on_violation": "set_aside"})).build();
    project.agent_on(&[("*/claim", "work; truncate -s 30G src/S00-001/huge; submit")]);
    project.spawn_under(&LITTLE_MEMORY, &[], &[]).wait().stopped(3, "needs_input");
    assert_says(&project.waits("S00-001"), &["src/S00-001/huge", "256 MiB"]);
    project.assert_clean();
}

#[test]
fn a_huge_sparse_file_that_was_there_is_named_at_the_start() {
    let project = Project::new();
    let huge = std::fs::File::create(project.path("huge")).expect("a file can be made");
    huge.set_len(30 << 30).expect("a file can be sparse");
    let finished = project.spawn_under(&LITTLE_MEMORY, &[], &[]).wait();
    assert_says(&finished.refused(), &["not clean", "huge"]);
}

/// Runs a plan to its end while the system denies one watched file, as if somebody outside had removed it meanwhile.
#[cfg(target_os = "linux")]
fn vanishes(denied: &[&str]) -> Option<String> {
    if !has_strace() {
        return None;
    }
    let project = Project::builder().stage("S00", 1).ignore("out/\n").config(json!({"watch": ["out/"]})).build();
    project.write("out/fleeting", "here and gone\n");
    let trace = project.outside("logs/vanished");
    let trace = trace.to_str().expect("the sandbox has a plain path");
    let wrapper = ["strace", "-f", "-o", trace, "-P", "fleeting", "-P", "out/fleeting", "-e", "signal=none"];
    let finished = project.spawn_under(&[&wrapper[..], denied].concat(), &[], &[]).wait();
    finished.complete();
    let trace = std::fs::read_to_string(trace).expect("a trace is text");
    assert!(trace.contains("(INJECTED)"), "it was there: {trace}");
    project.assert_clean();
    Some(finished.stderr)
}

#[test]
#[cfg(target_os = "linux")]
fn a_file_that_vanishes_after_it_was_listed_is_absent_and_strands_no_task() {
    vanishes(&["-e", "inject=newfstatat,fstatat64,statx:error=ENOENT"]);
}

#[test]
#[cfg(target_os = "linux")]
fn a_file_that_vanishes_before_it_is_read_is_told_and_strands_no_task() {
    let said =
        vanishes(&["-e", "inject=openat:error=ENOENT", "-e", "inject=newfstatat,fstatat64,statx:error=ENOENT:when=2+"]);
    if let Some(said) = said {
        assert_says(&said, &["out/fleeting", "vanished"]);
    }
}
