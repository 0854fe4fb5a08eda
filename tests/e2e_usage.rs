//! `runner usage` over the records that real runs leave.

mod support;

use serde_json::{Value, json};
use support::{Project, assert_same, assert_says};

/// A finished run of two tasks; the sessions on the first state what they used.
fn finished() -> Project {
    let project = Project::tasks(2);
    project.run(&[]).complete();
    let whole = |value: u64| json!({"value": value, "known": true, "complete": true});
    for (number, session) in project.sessions().iter().enumerate() {
        let stated = json!({"input": whole(1000), "output": whole(50), "total": whole(1050)});
        patch(&project, &session.agent, |record| match number {
            0 | 1 => {
                record["tokens"] = stated.clone();
                record["cost"] = json!({"micro_dollars": 1500, "known": true, "complete": true});
            }
            // As an earlier version wrote it.
            _ => {
                let fields = record.as_object_mut().expect("a record is an object");
                assert!(fields.shift_remove("tokens").is_some() && fields.shift_remove("cost").is_some());
            }
        });
    }
    project
}

fn patch(project: &Project, agent: &str, change: impl FnOnce(&mut Value)) {
    let mut record = project.run_json(agent);
    change(&mut record);
    project.write(&format!("state/runs/{agent}/1/run.json"), record.to_string());
}

fn usage(project: &Project, args: &[&str]) -> Value {
    let args = [&["usage", "--json"], args].concat();
    let finished = project.run(&args);
    assert_eq!((finished.code, finished.stderr.as_str()), (Some(0), ""), "{finished}");
    finished.json()
}

#[test]
fn usage_adds_up_each_session_once_and_says_for_how_many_a_figure_is_unknown() {
    let project = finished();
    let before = project.listing();
    for (by, rows) in [("run", 4), ("task", 2), ("stage", 1), ("role", 2), ("agent", 4)] {
        let usage = usage(&project, &["--by", by]);
        assert_eq!((&usage["schema"], &usage["by"]), (&json!(1), &json!(by)));
        assert_eq!(usage["rows"].as_array().map(Vec::len), Some(rows), "{usage:#}");
        let total = &usage["total"];
        assert_eq!((&total["runs"], &total["attempts"], &total["runs_without_end"]), (&json!(4), &json!(4), &json!(0)));
        assert_eq!(total["tokens"]["input"], json!({"value": 2000, "known": true, "complete": false}));
        assert_eq!(total["cost"], json!({"micro_dollars": 3000, "known": true, "complete": false}));
        assert_eq!((&total["unknown_runs"]["input"], &total["unknown_runs"]["reasoning"]), (&json!(2), &json!(4)));
    }
    assert_same(&before, &project.listing());
}

#[test]
fn the_table_shows_cost_only_where_it_was_stated_and_unknown_as_unknown() {
    let project = finished();
    let table = project.run(&["usage"]);
    insta::assert_snapshot!(table.stdout, @r"
    task     runs  attempts  input  cached  output  reasoning  total     cost
    S00-001     2         2   2000       ?     100          ?   2100   $0.003
    S00-002     2         2      ?       ?       ?          ?      ?
    total       4         4  2000+       ?    100+          ?  2100+  $0.003+
    not known: input for 2, cached for 4, output for 2, reasoning for 4, total for 2, cost for 2 of 4 runs
    ");
    assert_eq!((table.code, table.stderr.as_str()), (Some(0), ""));
}

#[test]
fn sessions_without_an_end_or_a_record_are_named_and_counted_in_no_sum() {
    let project = finished();
    let agents: Vec<String> = project.sessions().into_iter().map(|session| session.agent).collect();
    patch(&project, &agents[0], |record| record["status"] = json!("recovered"));
    project.write(&format!("state/runs/{}/1/run.json", agents[3]), "no JSON");
    let usage = usage(&project, &["--by", "role"]);
    let total = &usage["total"];
    assert_eq!((&usage["unreadable"], &total["runs"], &total["runs_without_end"]), (&json!(1), &json!(3), &json!(1)));
    assert_eq!((&total["tokens"]["input"]["value"], &total["attempts"]), (&json!(1000), &json!(2)));
    assert_says(&project.run(&["usage"]).stdout, &["without an end on record", "without a record that can be read: 1"]);
}

#[test]
fn since_leaves_out_what_began_before() {
    let project = finished();
    let agent = &project.sessions()[0].agent;
    patch(&project, agent, |record| record["started_at"] = json!("2020-02-02T00:00:00Z"));
    for (since, runs) in [("2020-02-02", 4), ("2020-02-03", 3), ("30d", 3), ("2999-01-01", 0)] {
        assert_eq!(usage(&project, &["--since", since])["total"]["runs"], runs, "{since}");
    }
    assert_says(&project.run(&["usage", "--since", "tuesday"]).refused(), &["--since", "tuesday", "7d"]);
}

#[test]
fn usage_works_without_a_record_and_with_a_faulty_plan() {
    let project = Project::new();
    assert_eq!(project.run(&["usage"]).stdout, "no session is on record\n");
    project.write("planning/tasks/S00-001.json", "{");
    assert_eq!(usage(&project, &[])["total"]["runs"], 0);
    project.run(&["usage", "--by", "stage"]).refused();
}
