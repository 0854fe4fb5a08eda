//! What the configuration says about money and patience: the budgets, and what a run does at a usage limit.
//!
//! Owns the keys under `budget` and `on_limit`.

use std::ops::RangeInclusive;
use std::time::Duration;

use serde_json::Value;

use super::read::{Seconds, seconds};
use crate::budget::{Budget, Budgets, micro_dollars};
use crate::strict::Fields;

/// What a run does when an agent's service takes nothing for a while.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OnLimit {
    /// It stops, and says when to try again.
    Stop,
    /// It waits and goes on by itself.
    Wait {
        /// Longer than this after the first of several limits in a row it stops all the same.
        at_most: Duration,
    },
}

const SESSIONS: RangeInclusive<i64> = 1..=1_000_000;
const WALL_SECONDS: RangeInclusive<i64> = 1..=1_000_000_000;
const TOKENS: RangeInclusive<i64> = 1..=1_000_000_000_000_000;
/// In millionths of a dollar.
const COST: RangeInclusive<u64> = 1..=1_000_000_000_000;
/// Six hours are longer than the five after which most limits end.
const MAX_WAIT: Seconds = Seconds("max_wait_seconds", false, 2_678_400.0, 21_600);

/// Reads the object under `budget`.
pub(super) fn budgets(fields: &mut Fields<'_>) -> Budgets {
    let task = fields.object("task", budget).unwrap_or_default();
    let run = fields.object("run", budget).unwrap_or_default();
    fields.finish();
    Budgets { task, run }
}

fn budget(fields: &mut Fields<'_>) -> Budget {
    let whole = |number: Option<i64>| number.and_then(|number| u64::try_from(number).ok());
    let budget = Budget {
        sessions: fields.integer("sessions", &SESSIONS).and_then(|number| u32::try_from(number).ok()),
        wall_seconds: whole(fields.integer("wall_seconds", &WALL_SECONDS)),
        tokens: whole(fields.integer("tokens", &TOKENS)),
        micro_dollars: cost(fields),
    };
    fields.finish();
    budget
}

fn cost(fields: &mut Fields<'_>) -> Option<u64> {
    let fits = |amount: f64| micro_dollars(amount).is_some_and(|micro| COST.contains(&micro));
    let wanted = "a number of dollars from 0.000001 to 1000000 with at most 6 decimals";
    fields.number("cost", wanted, fits).and_then(micro_dollars)
}

/// Reads `on_limit`: `"stop"`, `"wait"`, or an object with `action` and, to wait, `max_wait_seconds`.
pub(super) fn on_limit(fields: &mut Fields<'_>) -> OnLimit {
    const KEY: &str = "on_limit";
    let default = Duration::from_secs(MAX_WAIT.3);
    match fields.value(KEY) {
        None => OnLimit::Stop,
        Some(Value::Object(map)) => fields.inner(KEY, map, |fields| of_object(fields, map.contains_key(MAX_WAIT.0))),
        Some(value) => action(value, default).unwrap_or_else(|| {
            fields.fault(KEY, format!("must be \"stop\", \"wait\" or an object with `action`, not {value}"));
            OnLimit::Stop
        }),
    }
}

fn of_object(fields: &mut Fields<'_>, has_bound: bool) -> OnLimit {
    let stated = fields.value("action");
    let at_most = seconds(fields, &MAX_WAIT);
    let made = stated.and_then(|value| action(value, at_most));
    match (stated, made) {
        (None, _) => fields.fault("action", "is missing; add \"stop\" or \"wait\""),
        (Some(value), None) => fields.fault("action", format!("must be \"stop\" or \"wait\", not {value}")),
        (_, Some(OnLimit::Stop)) if has_bound => {
            fields.fault(MAX_WAIT.0, "means nothing where `action` is \"stop\"; remove it");
        }
        _ => {}
    }
    fields.finish();
    made.unwrap_or(OnLimit::Stop)
}

fn action(value: &Value, at_most: Duration) -> Option<OnLimit> {
    match value.as_str()? {
        "stop" => Some(OnLimit::Stop),
        "wait" => Some(OnLimit::Wait { at_most }),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::parsed;

    #[test]
    fn at_a_limit_a_run_stops_unless_it_is_told_to_wait() {
        let wait = |seconds| OnLimit::Wait { at_most: Duration::from_secs(seconds) };
        for (json, wanted) in [
            ("{}", OnLimit::Stop),
            (r#"{"on_limit": "stop"}"#, OnLimit::Stop),
            (r#"{"on_limit": {"action": "stop"}}"#, OnLimit::Stop),
            (r#"{"on_limit": "wait"}"#, wait(21_600)),
            (r#"{"on_limit": {"action": "wait"}}"#, wait(21_600)),
            (r#"{"on_limit": {"action": "wait", "max_wait_seconds": 90}}"#, wait(90)),
        ] {
            assert_eq!(parsed(json).unwrap().on_limit, wanted, "{json}");
        }
    }

    #[test]
    fn what_is_left_out_of_a_budget_has_no_bound() {
        assert_eq!(parsed("{}").unwrap().budget, Budgets::default());
        assert!(!parsed(r#"{"budget": {"task": {}, "run": {}}}"#).unwrap().budget.is_any());
        let json =
            r#"{"budget": {"task": {"sessions": 4, "cost": 2.5}, "run": {"wall_seconds": 3600, "tokens": 100000}}}"#;
        let budget = parsed(json).unwrap().budget;
        assert_eq!(budget.task, Budget { sessions: Some(4), micro_dollars: Some(2_500_000), ..Budget::default() });
        assert_eq!(budget.run, Budget { wall_seconds: Some(3600), tokens: Some(100_000), ..Budget::default() });
    }

    #[test]
    fn a_wrong_value_names_its_key_and_what_is_accepted() {
        let money = "must be a number of dollars from 0.000001 to 1000000 with at most 6 decimals, not";
        for (json, fault) in [
            (
                r#"{"budget": {"task": {"sessions": 0}}}"#,
                "key `budget.task.sessions` must be an integer from 1 to 1000000, not `0`".to_owned(),
            ),
            (
                r#"{"budget": {"run": {"tokens": 1.5}}}"#,
                "key `budget.run.tokens` must be an integer from 1 to 1000000000000000, not `1.5`".to_owned(),
            ),
            (
                r#"{"budget": {"run": {"wall_seconds": true}}}"#,
                "key `budget.run.wall_seconds` must be an integer from 1 to 1000000000, not `true`".to_owned(),
            ),
            (r#"{"budget": {"run": {"cost": 0}}}"#, format!("key `budget.run.cost` {money} `0`")),
            (r#"{"budget": {"run": {"cost": 0.1234567}}}"#, format!("key `budget.run.cost` {money} `0.1234567`")),
            (r#"{"budget": {"run": {"cost": "5"}}}"#, format!("key `budget.run.cost` {money} the text \"5\"")),
            (
                r#"{"budget": {"run": {"costs": 5}}}"#,
                "key `budget.run.costs` is unknown; did you mean `cost`?".to_owned(),
            ),
            (r#"{"budget": {"tasks": {}}}"#, "key `budget.tasks` is unknown; did you mean `task`?".to_owned()),
            (r#"{"budget": 5}"#, "key `budget` must be an object, not `5`".to_owned()),
            (
                r#"{"on_limit": "sleep"}"#,
                "key `on_limit` must be \"stop\", \"wait\" or an object with `action`, not \"sleep\"".to_owned(),
            ),
            (r#"{"on_limit": {}}"#, "key `on_limit.action` is missing; add \"stop\" or \"wait\"".to_owned()),
            (r#"{"on_limit": {"action": 1}}"#, "key `on_limit.action` must be \"stop\" or \"wait\", not 1".to_owned()),
            (
                r#"{"on_limit": {"action": "stop", "max_wait_seconds": 9}}"#,
                "key `on_limit.max_wait_seconds` means nothing where `action` is \"stop\"; remove it".to_owned(),
            ),
            (
                r#"{"on_limit": {"action": "wait", "max_wait_seconds": 0}}"#,
                "key `on_limit.max_wait_seconds` must be a number above 0 and at most 2678400, not `0`".to_owned(),
            ),
            (
                r#"{"on_limit": {"action": "wait", "max_wait": 9}}"#,
                "key `on_limit.max_wait` is unknown; remove it, the keys here are action, max_wait_seconds".to_owned(),
            ),
        ] {
            assert_eq!(parsed(json).unwrap_err(), fault, "{json}");
        }
    }
}
