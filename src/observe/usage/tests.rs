//! Sums from records, and what a time can be.

use serde_json::{Value, json};

use super::*;
use crate::tokens::Figure;

/// A record of one session as it lies on disk.
fn record(agent: &str, task: &str, role: &str, patch: &Value) -> RunRecord {
    let mut record = json!({
        "schema": 3, "run_id": format!("auto-{agent}.1"), "agent": format!("auto-{agent}"), "session": 1, "task": task,
        "role": role, "action": "claim", "status": "finished", "started_at": "2026-01-02T00:00:00Z", "argv": ["agent"],
        "prompt_characters": 1, "prompt_parts": [],
        "execution": serde_json::to_value(crate::session::ExecutionResult::without_process(
            crate::session::Ended::Interrupted, None)).unwrap(),
    });
    record["execution"]["pid"] = json!(7);
    for (key, value) in patch.as_object().unwrap() {
        record[key.as_str()] = value.clone();
    }
    serde_json::from_value(record).unwrap()
}

fn whole(value: u64) -> Value {
    json!({"value": value, "known": true, "complete": true})
}

fn found() -> Records {
    let stated = json!({"tokens": {"input": whole(100), "total": whole(120)}, "cost": {"micro_dollars": 2500, "known": true, "complete": true}});
    Records {
        records: vec![
            record("c", "S00-001", "backend", &stated),
            record("b", "S00-001", "qa", &json!({"tokens": {"input": whole(7)}})),
            record("a", "S01-001", "qa", &json!({})),
            record("d", "S01-001", "qa", &json!({"status": "running", "execution": null})),
        ],
        unreadable: 2,
    }
}

fn by(by: By) -> Usage {
    let stage = |task: &TaskId| (task.as_str() == "S00-001").then(|| "S00".parse().unwrap());
    usage(&found(), by, &stage)
}

fn keys(usage: &Usage) -> Vec<&str> {
    usage.rows.iter().map(|row| row.key.as_deref().unwrap_or("-")).collect()
}

#[test]
fn sessions_are_added_up_by_what_they_have_in_common_and_none_is_counted_twice() {
    for (name, wanted) in [
        (By::Run, &["auto-c.1", "auto-b.1", "auto-a.1", "auto-d.1"][..]),
        (By::Task, &["S00-001", "S01-001"]),
        (By::Stage, &["-", "S00"]),
        (By::Role, &["backend", "qa"]),
        (By::Agent, &["auto-a", "auto-b", "auto-c", "auto-d"]),
    ] {
        let usage = by(name);
        assert_eq!(keys(&usage), wanted, "{name:?}");
        assert_eq!(usage.rows.iter().map(|row| row.runs).sum::<u64>(), 4, "{name:?}");
        assert_eq!((usage.total.runs, usage.total.attempts, usage.total.runs_without_end), (4, 3, 1));
        assert_eq!(usage.total.tokens.input, Figure::part(107), "{name:?}");
    }
}

#[test]
fn a_figure_that_a_record_lacks_is_unknown_and_says_for_how_many_runs() {
    let usage = by(By::Task);
    let [first, second] = &usage.rows[..] else { panic!("{usage:?}") };
    assert_eq!((first.tokens.input, first.unknown_runs.input), (Figure::whole(107), 0));
    assert_eq!((first.tokens.total, first.unknown_runs.total), (Figure::part(120), 1));
    assert_eq!((second.tokens, second.unknown_runs.input), (Tokens::default(), 2));
    assert_eq!((first.cost, first.unknown_runs.cost), (Some(Cost::of_dollars(0.0025).as_part()), 1));
    assert_eq!(second.cost, None, "no agent stated any");
    assert!(serde_json::to_value(second).unwrap().get("cost").is_none());
}

#[test]
fn a_process_follows_a_failure_or_repairs_what_was_left_out_or_neither() {
    for (patch, wanted) in [
        (json!({}), (1, 0, 0)),
        (json!({"retry": 2}), (1, 1, 0)),
        // The one before it went on for want of a command, whatever had failed before that.
        (json!({"session": 2, "retry": 2}), (1, 0, 1)),
        (json!({"session": 2, "retry": 2, "execution": null}), (0, 0, 0)),
    ] {
        let Spent { counters, .. } = spent(&record("a", "S00-001", "qa", &patch));
        let Counters { attempts, transient_retries, repair_turns } = counters;
        assert_eq!((attempts, transient_retries, repair_turns), wanted, "{patch}");
    }
}

#[test]
fn without_a_record_everything_is_a_known_zero() {
    let usage = usage(&Records::default(), By::Task, &|_| None);
    assert!(usage.rows.is_empty());
    assert_eq!((usage.total.runs, usage.total.tokens, usage.total.cost), (0, Tokens::NOTHING, None));
}

#[test]
fn a_time_is_a_day_an_instant_or_how_long_ago() {
    let now: Timestamp = "2026-11-30T08:00:00Z".parse().unwrap();
    for (text, wanted) in [
        ("2026-11-29", "2026-11-29T00:00:00Z"),
        ("2026-11-29T01:02:03Z", "2026-11-29T01:02:03Z"),
        ("2026-11-29T01:02:03+01:00", "2026-11-29T00:02:03Z"),
        ("12h", "2026-11-29T20:00:00Z"),
        ("7d", "2026-11-23T08:00:00Z"),
        ("2 weeks", "2026-11-16T08:00:00Z"),
        ("7 days ago", "2026-11-23T08:00:00Z"),
    ] {
        assert_eq!(since(text, now).map(|at| at.to_string()), Ok(wanted.to_owned()), "{text}");
    }
    for text in ["", "yesterday", "7", "2026-13-01", "99999 years"] {
        let error = since(text, now).unwrap_err().to_string();
        assert!(error.contains("2026-11-30") && error.contains(text), "{error}");
    }
}

#[test]
fn sessions_that_began_earlier_are_left_out() {
    let mut found = found();
    found.records[0].started_at = "2026-01-01T23:59:59Z".to_owned();
    found.records[1].started_at = "no time".to_owned();
    retain_since(&mut found, "2026-01-02T00:00:00Z".parse().unwrap());
    let left: Vec<&str> = found.records.iter().map(|record| record.agent.as_str()).collect();
    assert_eq!(left, ["auto-a", "auto-d"]);
}
