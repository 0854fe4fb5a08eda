//! What is on record after a session: how its end went, no secrets, one report, and a bounded number of records.

#![expect(clippy::disallowed_methods, reason = "the doors keep the product; tests make and read files")]

mod support;

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::thread::{self, JoinHandle};

use serde_json::{Value, json};
use support::{Project, Signal, assert_says};

/// A project in which a failed session waits for a person at once instead of making a remediation task.
fn without_remediation() -> Project {
    Project::builder().stage("S00", 1).config(json!({"max_remediation_depth": 0})).build()
}

/// Cleanup, destruction, outcome and failed stage of a record.
fn end_of(record: &Value) -> [&str; 4] {
    [&record["teardown"]["cleanup"], &record["teardown"]["destruction"], &record["outcome"], &record["failed_stage"]]
        .map(|value| value.as_str().unwrap_or("-"))
}

/// The end of the only session.
fn only_end(project: &Project) -> [String; 4] {
    let records = project.records();
    assert_eq!(records.len(), 1, "{records:#?}");
    end_of(&records[0]).map(str::to_owned)
}

/// Replaces the session's temporary folder by something that is no folder and so cannot be taken for it.
const SPOIL: &str = "rmdir \"$TMPDIR\"; : >\"$TMPDIR\";";

#[test]
fn a_good_session_leaves_nothing_and_says_so() {
    let project = Project::new();
    project.agent_on(&[(
        "*/claim",
        "mkdir -p \"$TMPDIR/deep/er\"; : >\"$TMPDIR/deep/er/x\"; chmod 500 \"$TMPDIR/deep/er\"; honest",
    )]);
    let result = project.run(&[]).complete();
    for record in project.records() {
        assert_eq!(end_of(&record), ["succeeded", "succeeded", "succeeded", "-"], "{record:#}");
        assert_eq!(record["temporary"], Value::Null);
    }
    assert_eq!(fs::read_dir(project.outside("tmp")).unwrap().count(), 0, "no temporary folder is left");
    assert_eq!(result["report"], json!({"outcome": "not_requested", "accepted": 0, "failed": 0}));
}

#[test]
fn a_refusal_before_anything_was_created_attempts_no_teardown() {
    let project = Project::builder()
        .stage("S00", 1)
        .card("S00-001", json!({"inputs": ["docs/odd.md"]}))
        .file("docs/odd.md", [0xff, 0xfe])
        .config(json!({"max_remediation_depth": 0}))
        .build();
    project.run(&[]).stopped(3, "needs_input");
    assert_eq!(only_end(&project), ["not_attempted", "not_attempted", "failed", "prompt"]);
}

#[test]
fn a_process_that_could_not_start_leaves_nothing_to_destroy() {
    let project = without_remediation();
    // More than the kernel takes for one variable.
    project.config(&json!({"environment": {"set": {"BIG": "x".repeat(200_000)}}}));
    project.run(&[]).stopped(3, "needs_input");
    assert_eq!(only_end(&project), ["succeeded", "not_attempted", "failed", "launch"]);
}

#[test]
fn a_failed_cleanup_makes_a_good_session_a_failed_one_and_destruction_is_attempted_all_the_same() {
    let project = Project::new();
    project.agent_on(&[("*/claim", &format!("honest; {SPOIL}"))]);
    let finished = project.run(&[]);
    finished.complete();
    let record = project.run_json(&project.sessions()[0].agent);
    assert_eq!(end_of(&record), ["failed", "succeeded", "failed", "cleanup"], "{record:#}");
    assert_eq!(record["result"]["verdict"], "stands", "what the work came to is told apart");
    assert_says(record["teardown"]["faults"][0].as_str().unwrap(), &["cannot remove the folder", "runner-"]);
    assert_says(&finished.stderr, &["!! submitted", "cannot remove the folder"]);
}

#[test]
fn an_earlier_failure_is_not_hidden_by_a_failed_cleanup() {
    let project = without_remediation();
    project.agent(&format!("{SPOIL} exit 3"));
    project.run(&[]).stopped(3, "needs_input");
    assert_eq!(only_end(&project), ["failed", "succeeded", "failed", "execution"]);
    assert_says(&project.waits("S00-001"), &["exit status 3"]);
}

#[test]
fn a_violation_is_a_failure_of_judgement() {
    let project = Project::new();
    project.config(&json!({"on_violation": "set_aside"}));
    project.agent("write README.md changed; honest");
    project.run(&[]).stopped(3, "needs_input");
    assert_eq!(only_end(&project), ["succeeded", "succeeded", "failed", "judgement"]);
}

#[test]
fn the_record_of_a_killed_run_is_closed_by_the_next_start_and_its_temporary_folder_removed() {
    let project = Project::new();
    let (run, _hold) = project.spawn_held(
        "hold",
        &[],
        &[("*/claim", "if seen first; then honest; else : >\"$TMPDIR/x\"; tell working; hold hold; fi")],
    );
    let agent = project.sessions()[0].agent.clone();
    let before = project.run_json(&agent);
    assert_eq!(before["status"], "running");
    assert!(Path::new(before["temporary"].as_str().unwrap()).join("x").exists());
    run.signal(Signal::KILL);
    drop(run.wait());
    project.run(&[]).complete();
    let record = project.run_json(&agent);
    assert_eq!(record["status"], "recovered");
    assert_eq!(end_of(&record), ["succeeded", "succeeded", "failed", "execution"], "{record:#}");
    assert_eq!(fs::read_dir(project.outside("tmp")).unwrap().count(), 0);
}

#[test]
fn no_temporary_folder_is_removed_on_the_word_of_a_record_alone() {
    let project = Project::new();
    fs::create_dir_all(project.outside("home/runner-precious")).unwrap();
    let precious = project.outside("home/runner-precious");
    project.run(&[]).complete();
    let agent = project.sessions()[0].agent.clone();
    let mut record = project.run_json(&agent);
    record["status"] = json!("running");
    record["temporary"] = json!(precious);
    project.write(&format!("state/runs/{agent}/1/run.json"), record.to_string());
    project.run(&[]).complete();
    assert!(precious.exists());
    let record = project.run_json(&agent);
    assert_eq!(record["status"], "recovered");
    assert_eq!(end_of(&record), ["unknown", "unknown", "unknown", "-"], "how it ended is not known");
}

#[test]
fn no_secret_gets_from_a_session_into_what_the_coordinator_writes() {
    let project = without_remediation();
    let (key, token) = ("hunter2-hunter2", format!("sk-{}", "a1b2c3d4".repeat(5)));
    project.config(&json!({"environment": {"set": {"SERVICE_API_KEY": key}}}));
    let script = project.outside("agent.sh").display().to_string();
    project.agent(&format!("echo \"login with $SERVICE_API_KEY and {token} and $RUNNER_TOKEN failed\" >&2; note token \"$RUNNER_TOKEN\"; exit 3"));
    project.config(&json!({"argv": ["/bin/sh", script, format!("--key={key}")]}));
    let finished = project.run(&[]);
    finished.stopped(3, "needs_input");
    let session = project.note("token");
    let secrets = [key, &token, session.trim()];
    let mut texts = vec![("result".into(), finished.to_string()), ("log".into(), project.git(&["log", "-p"]))];
    for name in ["state", "planning"] {
        for path in files_below(&project.path(name)) {
            texts.push((path.clone(), String::from_utf8_lossy(&fs::read(&path).unwrap()).into_owned()));
        }
    }
    texts.retain(|(path, _): &(PathBuf, String)| {
        path.extension().is_none_or(|kind| kind != "log") || path == Path::new("log")
    });
    for (path, text) in &texts {
        for secret in secrets {
            assert!(!text.contains(secret), "{secret} is in {}", path.display());
        }
    }
    assert_says(&project.waits("S00-001"), &["login with [redacted] and [redacted] and [redacted] failed"]);
    assert_eq!(project.records()[0]["argv"][2], "--key=[redacted]");
}

#[test]
fn a_secret_at_the_edge_of_the_shown_output_is_not_cut_in_two() {
    let project = without_remediation();
    let token = format!("sk-{}", "a1b2c3d4".repeat(8));
    // The last 2000 bytes begin in the middle of the token.
    let rest = "x".repeat(1970);
    project.agent(&format!("printf 'y %s %s\\n' '{token}' '{rest}'; exit 3"));
    project.run(&[]).stopped(3, "needs_input");
    let told = project.waits("S00-001");
    assert!(!told.contains("c3d4"), "{told}");
    assert_says(&told, &["xxxx"]);
}

#[test]
fn records_logs_and_prompts_are_for_the_user_only() {
    let project = Project::new();
    project.run(&[]).complete();
    for session in project.sessions() {
        let folder = project.path(&format!("state/runs/{}/1", session.agent));
        let mode = |path: &Path| path.symlink_metadata().unwrap().permissions().mode() & 0o777;
        assert_eq!(mode(&folder), 0o700);
        let files = files_below(&folder);
        let names: Vec<_> = files.iter().map(|path| path.file_name().unwrap().to_str().unwrap()).collect();
        assert_eq!(names, ["prompt.md", "report.json", "run.json", "stderr.log", "stdout.log"]);
        for file in files {
            assert_eq!(mode(&file), 0o600, "{}", file.display());
        }
    }
}

fn files_below(folder: &Path) -> Vec<PathBuf> {
    let mut files = Vec::new();
    for entry in fs::read_dir(folder).expect("a folder can be read").filter_map(Result::ok) {
        if entry.file_type().expect("an entry has a type").is_dir() {
            files.extend(files_below(&entry.path()));
        } else {
            files.push(entry.path());
        }
    }
    files.sort();
    files
}

/// A server on loopback that answers every report with the same status and keeps what it got: heads and bodies.
struct Server {
    address: SocketAddr,
    thread: JoinHandle<Vec<(String, Value)>>,
}

impl Server {
    fn answering(status: &'static str) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("loopback has a free port");
        let address = listener.local_addr().expect("a listener has an address");
        let thread = thread::spawn(move || {
            let mut got = Vec::new();
            while let Some(request) = read_request(&listener, status) {
                got.push(request);
            }
            got
        });
        Self { address, thread }
    }

    fn url(&self) -> String {
        format!("http://{}/evidence", self.address)
    }

    /// All reports that came.
    fn got(self) -> Vec<(String, Value)> {
        // A connection that says nothing ends it.
        drop(TcpStream::connect(self.address).expect("the server is there"));
        self.thread.join().expect("every request was read")
    }
}

/// One request, answered; none if the connection says nothing.
fn read_request(listener: &TcpListener, status: &str) -> Option<(String, Value)> {
    let (stream, _) = listener.accept().expect("a connection comes");
    let mut reader = BufReader::new(&stream);
    let mut head = String::new();
    while !head.ends_with("\r\n\r\n") {
        if reader.read_line(&mut head).expect("a head is text") == 0 {
            return None;
        }
    }
    let head = head.to_lowercase();
    let length = head.lines().find_map(|line| line.strip_prefix("content-length: ")).expect("a report has a length");
    let mut body = vec![0; length.parse().expect("a length is a number")];
    reader.read_exact(&mut body).expect("the body is as long as it says");
    write!(&stream, "HTTP/1.1 {status}\r\nContent-Length: 0\r\n\r\n").expect("the sender listens");
    Some((head, serde_json::from_slice(&body).expect("a report is JSON")))
}

#[test]
fn each_sessions_final_evidence_is_reported_once() {
    let project = Project::new();
    let server = Server::answering("202 Accepted");
    project.config(&json!({"report": {"url": server.url(), "headers_from_env": {"X-Place": "TMPDIR"}}}));
    let result = project.run(&[]).complete();
    assert_eq!(result["report"], json!({"outcome": "accepted", "status": 202, "accepted": 2, "failed": 0}));
    let got = server.got();
    assert_eq!(got.len(), 2);
    let place = format!("x-place: {}\r\n", project.outside("tmp").display()).to_lowercase();
    for ((head, body), session) in got.iter().zip(project.sessions()) {
        assert!(head.starts_with("post /evidence http/1.1\r\n") && head.contains(&place), "{head}");
        assert_eq!(body, &project.run_json(&session.agent), "the record was final when it was sent");
        assert_eq!(body["status"], "finished");
        let report: Value =
            serde_json::from_str(&project.read(&format!("state/runs/{}/1/report.json", session.agent))).unwrap();
        assert_eq!((&report["outcome"], &report["status"]), (&json!("accepted"), &json!(202)), "{report:#}");
    }
}

#[test]
fn a_failed_report_changes_nothing_else_and_is_not_tried_again() {
    let project = Project::new();
    let server = Server::answering("503 Service Unavailable");
    project.config(&json!({"report": {"url": server.url()}}));
    let finished = project.run(&[]);
    let result = finished.complete();
    assert_eq!(
        result["report"],
        json!({"outcome": "failed", "status": 503, "kind": "status", "accepted": 0, "failed": 2})
    );
    assert_says(&finished.stderr, &["failed (status 503)", "not sent again"]);
    // Nor by the next start.
    project.run(&[]).complete();
    assert_eq!(server.got().len(), 2);
    for record in project.records() {
        assert_eq!(end_of(&record), ["succeeded", "succeeded", "succeeded", "-"]);
    }
    project.assert_clean();
}

#[test]
fn a_report_that_nobody_answers_changes_nothing_else_and_is_not_tried_again() {
    let project = Project::new();
    // The kernel takes the connections; nobody ever reads them.
    let silent = TcpListener::bind("127.0.0.1:0").expect("loopback has a free port");
    let url = format!("http://{}/evidence", silent.local_addr().expect("a listener has an address"));
    project.config(&json!({"report": {"url": url, "timeout_seconds": 0.3}}));
    let finished = project.run(&[]);
    let result = finished.complete();
    assert_eq!(result["report"], json!({"outcome": "failed", "kind": "timeout", "accepted": 0, "failed": 2}));
    assert_says(&finished.stderr, &["failed (timeout)", "not sent again"]);
    silent.set_nonblocking(true).expect("a listener need not wait");
    let came = std::iter::from_fn(|| silent.accept().ok()).count();
    assert_eq!(came, 2, "one connection for each session");
    for record in project.records() {
        assert_eq!(end_of(&record), ["succeeded", "succeeded", "succeeded", "-"]);
    }
    project.assert_clean();
}

#[test]
fn a_report_quotes_no_error_text() {
    let project = without_remediation();
    let server = Server::answering("200 OK");
    project.config(&json!({"report": {"url": server.url()}}));
    project.agent("echo 'the innermost secret of the service' >&2; exit 3");
    project.run(&[]).stopped(3, "needs_input");
    let got = server.got();
    let body = got[0].1.to_string();
    assert!(!body.contains("innermost"), "{body}");
    assert_eq!(got[0].1["execution"]["exit"], json!({"code": 3}));
    assert_eq!(got[0].1["result"]["verdict"], "escalated");
}

#[test]
fn without_the_variable_of_a_header_nothing_is_sent_and_the_run_goes_on() {
    let project = Project::new();
    let server = Server::answering("200 OK");
    project.config(&json!({"report": {"url": server.url(), "headers_from_env": {"Authorization": "NOT_SET_HERE"}}}));
    let result = project.run(&[]).complete();
    assert_eq!(result["report"], json!({"outcome": "failed", "kind": "header", "accepted": 0, "failed": 2}));
    assert_eq!(server.got(), []);
}

#[test]
fn old_sessions_are_removed_at_the_start_and_at_the_end_of_a_run() {
    let project = Project::tasks(2);
    project.run(&["--task", "S00-001"]).stopped(0, "idle");
    project.write("state/runs/recovered/20260101T000000Z/src/x", "precious");
    project.write("state/runs/notes/about.txt", "not a session");
    project.config(&json!({"retention": {"runs": 3}}));
    project.run(&[]).complete();
    let left: Vec<String> =
        project.records().iter().map(|record| record["agent"].as_str().unwrap().to_owned()).collect();
    let mut newest: Vec<String> = project.sessions()[1..].iter().map(|session| session.agent.clone()).collect();
    newest.sort();
    assert_eq!(left, newest, "the oldest went");
    assert!(!project.exists(&format!("state/runs/{}", project.sessions()[0].agent)), "with its agent's folder");
    project.config(&json!({"retention": {"runs": 1}}));
    // Nothing is left to do, but the limits hold all the same.
    project.run(&[]).complete();
    assert_eq!(project.records().len(), 1);
    assert_eq!(project.read("state/runs/recovered/20260101T000000Z/src/x"), "precious");
    assert!(project.exists("state/runs/notes/about.txt"));
}

#[test]
fn what_was_set_aside_of_an_unfinished_task_outlives_the_limits() {
    let project = Project::tasks(2);
    project.config(&json!({"on_violation": "set_aside", "retention": {"runs": 1}}));
    project.agent_on(&[("S00-001/claim", "write README.md changed; honest")]);
    project.run(&[]).stopped(3, "needs_input");
    project.run(&[]).stopped(3, "needs_input");
    assert_eq!(project.kept("README.md"), ["changed\n"]);
    assert_eq!(project.records().len(), 1);
}
