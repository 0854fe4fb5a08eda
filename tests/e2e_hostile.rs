//! Sessions that leave something odd in the way: nothing hangs, nothing outside the project is touched, and the next start goes on.

#![expect(clippy::disallowed_methods, reason = "the test looks at files outside the project")]

mod support;

use serde_json::json;
use support::{Project, assert_says, has_strace};

const SET_ASIDE: &str = "set_aside";

fn setting_aside(tasks: usize) -> Project {
    Project::builder().stage("S00", tasks).config(json!({"on_violation": SET_ASIDE})).file("docs/a.md", "doc\n").build()
}

#[test]
fn setting_aside_never_follows_a_link_out_of_the_project() {
    let project = setting_aside(1);
    let elsewhere = project.outside("elsewhere");
    std::fs::create_dir(&elsewhere).unwrap();
    project.agent_on(&[(
        "*/claim",
        &format!(
            "mv docs '{0}/docs'; echo precious >>'{0}/docs/a.md'; ln -s '{0}/docs' docs; work; submit",
            elsewhere.display()
        ),
    )]);
    project.run(&[]).stopped(3, "needs_input");
    assert_eq!(std::fs::read_to_string(elsewhere.join("docs/a.md")).unwrap(), "doc\nprecious\n");
    assert_eq!(project.read("docs/a.md"), "doc\n", "the tree is back at HEAD");
    project.assert_clean();
}

/// Runs an agent that puts a FIFO in the way; the run must come to an end by itself.
#[track_caller]
fn with_fifo(body: &str) -> Project {
    let project = Project::new();
    project.config(&json!({"max_remediation_depth": 0}));
    project.agent_on(&[("*/claim", body)]);
    project.run(&[]).stopped(3, "needs_input");
    project.assert_clean();
    project
}

#[test]
fn a_fifo_in_the_rows_place_hangs_nothing_and_is_tampering() {
    let project = with_fifo("rm state/tasks/S00/S00-001.json; mkfifo state/tasks/S00/S00-001.json");
    assert_says(&project.waits("S00-001"), &["state/tasks/S00/S00-001.json"]);
}

#[test]
fn a_fifo_in_a_logs_place_hangs_nothing() {
    with_fifo("d=state/runs/$RUNNER_AGENT_ID/1; rm -f $d/stdout.log; mkfifo $d/stdout.log");
}

#[test]
fn a_fifo_or_a_folder_in_a_reports_place_hangs_nothing() {
    with_fifo("mkdir -p state/handoffs; mkfifo state/handoffs/$RUNNER_AGENT_ID-$RUNNER_TASK_ID.md");
    let project = Project::new();
    project.config(&json!({"max_remediation_depth": 0}));
    project.agent_on(&[("*/claim", "mkdir -p state/handoffs/$RUNNER_AGENT_ID-$RUNNER_TASK_ID.md/x; work")]);
    project.run(&[]).stopped(3, "needs_input");
    project.run(&[]).stopped(3, "needs_input");
    project.assert_clean();
}

#[test]
fn a_plan_without_a_schema_marker_runs() {
    let project = Project::new();
    project.git(&["rm", "-q", "state/state.json"]);
    project.git(&["commit", "-q", "-m", "No state yet"]);
    project.run(&[]).complete();
    project.assert_clean();
}

#[test]
fn a_change_in_a_nested_repository_is_a_violation_and_no_commit_hangs_on_it() {
    let project = setting_aside(2);
    project.agent_on(&[("S00-001/claim", "git init -q src/S00-001/nest; echo n >src/S00-001/nest/f; work; submit")]);
    let result = project.run(&[]).stopped(3, "needs_input");
    assert_eq!(result["launched"], 3, "the other task goes on");
    assert_says(&project.waits("S00-001"), &["src/S00-001/nest", "repository"]);
    project.assert_clean();
    project.run(&[]).stopped(3, "needs_input");
}

#[test]
fn a_filtered_file_is_restored_through_its_filter() {
    let project = setting_aside(1);
    project.git(&["config", "filter.rot.clean", "tr a-z n-za-m"]);
    project.git(&["config", "filter.rot.smudge", "tr a-z n-za-m"]);
    project.write(".gitattributes", "docs/* filter=rot\n");
    project.git(&["add", "--renormalize", "-A"]);
    project.commit_all("Filter the pages");
    project.agent_on(&[("*/claim", "echo oops >>docs/a.md; work; submit")]);
    project.run(&[]).stopped(3, "needs_input");
    assert_eq!(project.read("docs/a.md"), "doc\n");
    project.assert_clean();
}

#[test]
fn a_missing_temporary_folder_is_found_before_any_claim() {
    let project = Project::new();
    let before = project.public_listing();
    let finished = project.run_with(&[], &[("TMPDIR", "/nonexistent/x")]);
    assert_says(&finished.refused(), &["/nonexistent/x"]);
    support::assert_same(&before, &project.public_listing());
}

#[test]
fn a_file_in_the_place_of_the_runs_folder_is_tampering_and_costs_nothing() {
    let project = Project::tasks(2);
    project.agent_on(&[("S00-001/claim", "rm -rf state/runs; echo hi >state/runs; work; submit")]);
    let result = project.run(&[]).stopped(3, "needs_input");
    assert_eq!(result["launched"], 3, "the other task goes on");
    assert_says(&project.waits("S00-001"), &["state/runs"]);
    assert!(!project.git(&["ls-files", "state"]).contains("state/runs"));
    project.assert_clean();
}

#[test]
fn a_script_whose_interpreter_is_missing_is_found_before_any_claim() {
    let project = Project::new();
    for (text, word) in [("#!/no/such/interpreter\n", "/no/such/interpreter"), ("echo hello\n", "#!")] {
        let agent = project.write_outside("agent", text);
        std::fs::set_permissions(&agent, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
        project.config(&json!({"argv": [agent]}));
        project.refuses(&[], &[word]);
    }
}

#[test]
fn evidence_that_no_prompt_can_hold_is_refused_at_the_verb() {
    let project = Project::new();
    project.agent_on(&[(
        "*/claim",
        "f=state/evidence/$RUNNER_AGENT_ID.md; mkdir -p state/evidence; work
         printf 'a\\377b' >$f; attempt bytes \"$RUNNER_BIN\" task submit --evidence $f
         head -c 30000 /dev/zero | tr '\\0' x >$f; attempt size \"$RUNNER_BIN\" task submit --evidence $f
         echo fine >$f; submit --evidence $f",
    )]);
    project.run(&[]).complete();
    assert_eq!((project.note("bytes").trim(), project.note("size").trim()), ("2", "2"));
    assert_says(&project.note("bytes.out"), &["UTF-8"]);
    assert_says(&project.note("size.out"), &["20000"]);
}

#[test]
fn refs_that_git_packs_by_itself_are_no_tampering() {
    let project = Project::new();
    project.git(&["branch", "other"]);
    project.agent_on(&[("*/claim", "git pack-refs --all; git gc -q; work; submit")]);
    project.run(&[]).complete();
    project.assert_clean();
}

/// What a session can close to its own user; root is not kept out by any of it.
const CLOSED: [&str; 19] = [
    "echo x >docs/new; chmod 000 docs/new",
    "mkdir docs/shut; echo x >docs/shut/x; chmod 000 docs/shut",
    "chmod 000 docs",
    "chmod 000 docs/a.md",
    "echo x >src/S00-001/new; chmod 000 src/S00-001/new",
    "mkdir src/S00-001/shut; echo x >src/S00-001/shut/x; chmod 000 src/S00-001/shut",
    "chmod 000 src",
    "chmod 000 state/runs",
    "chmod 000 state",
    "chmod 555 state",
    "chmod 000 state/tasks",
    "chmod 555 state/tasks/S00",
    "chmod 000 state/tasks/S00",
    "chmod 000 planning",
    "chmod 000 .git",
    "chmod 555 .git",
    "chmod 555 .git/refs/heads",
    "chmod 000 .git/objects",
    "chmod 555 .",
];

#[track_caller]
fn strands_no_task(on_violation: &str, closing: &[&str]) {
    for close in closing {
        let project = setting_aside(2);
        project.config(&json!({"on_violation": on_violation}));
        project.agent_on(&[("S00-001/claim", &format!("work; submit; {close}"))]);
        let finished = project.run(&[]);
        assert!(matches!(finished.code, Some(0 | 2 | 3)), "{close}: {finished}");
        assert_eq!(
            finished.json()["launched"].as_u64().map(|launched| launched > 0),
            Some(true),
            "{close}: {finished}"
        );
        assert!(project.row("S00-001")["claim"].is_null(), "{close} leaves a claim: {finished}");
        let recovered = project.run(&["recover", "--yes"]);
        assert_eq!(recovered.code, Some(0), "{close}: {recovered}");
        let again = project.run(&[]);
        assert!(matches!(again.code, Some(0 | 3)), "{close}: {again}");
        project.assert_clean();
    }
}

#[test]
fn what_a_session_closes_to_its_own_user_strands_no_task() {
    strands_no_task("stop", &CLOSED);
}

#[test]
fn what_a_session_closes_to_its_own_user_is_set_aside_and_strands_no_task() {
    // What lies in the work tree; the rest is none of this setting's.
    strands_no_task(SET_ASIDE, &CLOSED[..7]);
}

#[test]
fn a_machine_that_is_out_of_threads_only_makes_a_run_slower() {
    if !has_strace() {
        return;
    }
    let project = Project::new();
    let trace = project.outside("logs/trace").display().to_string();
    // Only of the coordinator itself; glibc makes threads by this call, and processes by another.
    let wrapper =
        ["strace", "-qq", "-o", &trace, "-e", "signal=none", "-e", "trace=clone3", "-e", "inject=clone3:error=EAGAIN"];
    project.spawn_under(&wrapper, &[], &[]).wait().complete();
    let refused = std::fs::read_to_string(&trace).expect("a trace is text").matches("INJECTED").count();
    assert!(refused > 0, "no thread was asked for");
    project.assert_clean();
}
