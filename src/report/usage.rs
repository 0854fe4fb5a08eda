//! What sessions used, as a table for a person.

use crate::observe::usage::{By, Row, Usage};
use crate::tokens::{Cost, Figure};

use super::closing::counted;

/// A heading and what stands under it, row by row.
type Column = (&'static str, Vec<String>);

/// The table and what has to be known about it.
pub(super) fn words(usage: &Usage) -> String {
    if usage.total.runs == 0 && usage.unreadable == 0 {
        return "no session is on record".to_owned();
    }
    let rows: Vec<&Row> = usage.rows.iter().chain([&usage.total]).collect();
    let columns = columns(usage, &rows);
    let widths: Vec<usize> = columns.iter().map(|(head, cells)| width(head, cells)).collect();
    let line = |cells: Vec<&str>| {
        let padded = cells.iter().zip(&widths).enumerate().map(|(place, (cell, width))| match place {
            0 => format!("{cell:<width$}"),
            _ => format!("{cell:>width$}"),
        });
        padded.collect::<Vec<_>>().join("  ").trim_end().to_owned()
    };
    let mut lines = vec![line(columns.iter().map(|(head, _)| *head).collect())];
    lines.extend((0..rows.len()).map(|row| line(columns.iter().map(|(_, cells)| cells[row].as_str()).collect())));
    lines.extend(notes(usage));
    lines.join("\n")
}

fn width(head: &str, cells: &[String]) -> usize {
    cells.iter().map(|cell| cell.chars().count()).chain([head.len()]).max().unwrap_or_default()
}

fn columns(usage: &Usage, rows: &[&Row]) -> Vec<Column> {
    let names = usage.rows.iter().map(|row| row.key.clone().unwrap_or_else(|| "(not in the plan)".to_owned()));
    let names = names.chain(["total".to_owned()]).collect();
    let count = |of: fn(&Row) -> u64| rows.iter().map(|row| of(row).to_string()).collect::<Vec<_>>();
    let tokens = |of: fn(&Row) -> Figure| rows.iter().map(|row| figure(of(row))).collect::<Vec<_>>();
    let total = &usage.total;
    let mut columns: Vec<Column> = vec![(heading(usage.by), names), ("runs", count(|row| row.runs))];
    columns.push(("attempts", count(|row| row.attempts)));
    if total.transient_retries > 0 {
        columns.push(("retries", count(|row| row.transient_retries)));
    }
    if total.repair_turns > 0 {
        columns.push(("repairs", count(|row| row.repair_turns)));
    }
    columns.push(("input", tokens(|row| row.tokens.input)));
    columns.push(("cached", tokens(|row| row.tokens.cached_input)));
    columns.push(("output", tokens(|row| row.tokens.output)));
    columns.push(("reasoning", tokens(|row| row.tokens.reasoning)));
    columns.push(("total", tokens(|row| row.tokens.total)));
    if total.cost.is_some() {
        columns.push(("cost", rows.iter().map(|row| row.cost.map_or_else(String::new, dollars)).collect()));
    }
    columns
}

fn heading(by: By) -> &'static str {
    match by {
        By::Run => "run",
        By::Task => "task",
        By::Stage => "stage",
        By::Role => "role",
        By::Agent => "agent",
    }
}

/// A figure: `?` if nothing is known, with a `+` if it is only a part.
fn figure(figure: Figure) -> String {
    match figure {
        Figure { known: false, .. } => "?".to_owned(),
        Figure { value, complete, .. } => format!("{value}{}", if complete { "" } else { "+" }),
    }
}

/// A cost in dollars, with two to six decimals, and with a `+` if it is only a part.
fn dollars(cost: Cost) -> String {
    let millionths = format!("{:06}", cost.micro_dollars % 1_000_000);
    let decimals = millionths.trim_end_matches('0');
    format!("${}.{decimals:0<2}{}", cost.micro_dollars / 1_000_000, if cost.complete { "" } else { "+" })
}

/// What is missing in the sums.
fn notes(usage: &Usage) -> Vec<String> {
    let total = &usage.total;
    let unknown = total.unknown_runs;
    let named = [
        ("input", unknown.input),
        ("cached", unknown.cached_input),
        ("output", unknown.output),
        ("reasoning", unknown.reasoning),
        ("total", unknown.total),
        ("cost", if total.cost.is_some() { unknown.cost } else { 0 }),
    ];
    let of = |number: u64, word| counted(usize::try_from(number).unwrap_or(usize::MAX), word);
    let unknown: Vec<String> =
        named.iter().filter(|(_, runs)| *runs > 0).map(|(name, runs)| format!("{name} for {runs}")).collect();
    let mut notes = Vec::new();
    if !unknown.is_empty() {
        notes.push(format!("not known: {} of {}", unknown.join(", "), of(total.runs, "run")));
    }
    if total.runs_without_end > 0 {
        let runs = of(total.runs_without_end, "run");
        notes.push(format!("without an end on record, so in no sum: {runs} (at work, or the coordinator was killed)"));
    }
    if usage.unreadable > 0 {
        notes.push(format!("without a record that can be read: {}", of(usage.unreadable, "session")));
    }
    notes
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::observe::RunCounts;
    use crate::observe::usage::USAGE_SCHEMA;
    use crate::tokens::Tokens;

    fn row(key: Option<&str>, runs: u64) -> Row {
        Row {
            key: key.map(str::to_owned),
            runs,
            runs_without_end: 0,
            attempts: runs,
            transient_retries: 0,
            repair_turns: 0,
            tokens: Tokens::NOTHING,
            cost: None,
            unknown_runs: RunCounts::default(),
        }
    }

    #[test]
    fn a_table_says_what_is_known_what_is_a_part_and_for_how_many_runs_nothing_is() {
        let mut known = row(Some("S00-001"), 12);
        known.tokens.input = Figure::whole(1_234_567);
        known.cost = Some(Cost::of_dollars(2.34));
        let mut unknown = row(None, 2);
        unknown.tokens = Tokens::default();
        unknown.runs_without_end = 1;
        let mut total = row(None, 14);
        total.tokens = known.tokens.and(&unknown.tokens);
        total.cost = Some(Cost::of_dollars(2.34).as_part());
        total.runs_without_end = 1;
        total.transient_retries = 3;
        total.unknown_runs = RunCounts { input: 2, cost: 2, output: 1, ..RunCounts::default() };
        let usage = Usage { schema: USAGE_SCHEMA, by: By::Task, rows: vec![known, unknown], total, unreadable: 1 };
        insta::assert_snapshot!(words(&usage), @r"
        task               runs  attempts  retries     input  cached  output  reasoning  total    cost
        S00-001              12        12        0   1234567       0       0          0      0   $2.34
        (not in the plan)     2         2        0         ?       ?       ?          ?      ?
        total                14        14        3  1234567+      0+      0+         0+     0+  $2.34+
        not known: input for 2, output for 1, cost for 2 of 14 runs
        without an end on record, so in no sum: 1 run (at work, or the coordinator was killed)
        without a record that can be read: 1 session
        ");
    }

    #[test]
    fn cost_and_repairs_are_shown_only_where_there_are_any() {
        let total = row(None, 1);
        let usage = Usage { schema: 1, by: By::Role, rows: vec![row(Some("qa"), 1)], total, unreadable: 0 };
        insta::assert_snapshot!(words(&usage), @r"
        role   runs  attempts  input  cached  output  reasoning  total
        qa        1         1      0       0       0          0      0
        total     1         1      0       0       0          0      0
        ");
        let none = Usage { schema: 1, by: By::Run, rows: Vec::new(), total: row(None, 0), unreadable: 0 };
        assert_eq!(words(&none), "no session is on record");
    }

    #[test]
    fn dollars_have_two_to_six_decimals() {
        for (sum, wanted) in [(0.0, "$0.00"), (0.000_001, "$0.000001"), (0.0025, "$0.0025"), (1.2, "$1.20")] {
            assert_eq!(dollars(Cost::of_dollars(sum)), wanted);
        }
    }
}
