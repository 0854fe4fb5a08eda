//! Order, preview and outlook over small boards, and their cost over a large one.

use super::*;
use crate::tracker::samples::{agent, card, claim_of, id, plan, stage};

fn at(status: Status) -> Row {
    Row { status, ..Row::default() }
}

fn waiting(reason: &str) -> Row {
    Row {
        status: Status::Blocked,
        blocked_from: Some(Status::Todo),
        external_wait: true,
        reason: Some(reason.to_owned()),
        ..Row::default()
    }
}

fn blocked(from: Status, by: &str) -> Row {
    Row { status: Status::Blocked, blocked_from: Some(from), blocked_by: vec![id(by)], ..Row::default() }
}

fn board<const N: usize>(rows: [(&str, Row); N]) -> Board {
    Board::new(rows.into_iter().map(|(task, row)| (id(task), row)).collect())
}

fn names(ready: &[Ready]) -> Vec<String> {
    ready.iter().map(|item| format!("{} {} {}", item.id, item.work, item.role)).collect()
}

fn two_stages() -> Plan {
    plan(
        &[stage("S01", 2, &["S00"]), stage("S00", 1, &[])],
        &[card("S00-001", &[]), card("S00-002", &["S00-001"]), card("S01-001", &[])],
    )
}

#[test]
fn a_task_is_ready_when_its_dependencies_are_done_and_a_stage_when_its_stages_are() {
    let plan = two_stages();
    for (rows, expected) in [
        (board([]), vec!["S00-001 claim backend"]),
        (board([("S00-001", at(Status::InProgress))]), vec![]),
        (board([("S00-001", at(Status::Review))]), vec!["S00-001 review qa"]),
        (board([("S00-001", at(Status::Done))]), vec!["S00-002 claim backend"]),
        (board([("S00-001", at(Status::Done)), ("S00-002", at(Status::Review))]), vec!["S00-002 review qa"]),
        (board([("S00-001", at(Status::Done)), ("S00-002", waiting("login"))]), vec![]),
        (board([("S00-001", at(Status::Done)), ("S00-002", at(Status::Done))]), vec!["S01-001 claim backend"]),
    ] {
        assert_eq!(names(&ready(&plan, &rows, &Part::Everything)), expected);
    }
}

#[test]
fn a_claimed_task_is_not_ready_whatever_its_status() {
    let plan = two_stages();
    for (status, work) in [(Status::Review, Work::Review), (Status::Review, Work::Claim), (Status::Todo, Work::Claim)] {
        let row = Row { claim: Some(claim_of("ann", work, None)), ..at(status) };
        assert_eq!(ready(&plan, &board([("S00-001", row)]), &Part::Everything), []);
    }
}

#[test]
fn reviews_come_first_then_remediation_then_stage_priority_and_id() {
    let mut late = card("S00-001", &[]);
    late.priority = 5;
    let cards = [late, card("S00-002", &[]), card("S00-003", &[]), card("S00-003-r1", &[]), card("S10-001", &[])];
    let cards = [&cards[..], &[card("S10-002", &[]), card("S10-002-r1", &[])]].concat();
    // S10 comes before S00 by `order`.
    let plan = plan(&[stage("S00", 2, &[]), stage("S10", 1, &[])], &cards);
    let board = board([
        ("S00-002", at(Status::Review)),
        ("S00-003", blocked(Status::Todo, "S00-003-r1")),
        ("S10-002", blocked(Status::Review, "S10-002-r1")),
        ("S10-002-r1", at(Status::Review)),
    ]);
    assert_eq!(
        names(&ready(&plan, &board, &Part::Everything)),
        [
            "S10-002-r1 review qa",
            "S00-002 review qa",
            "S00-003-r1 claim backend",
            "S10-001 claim backend",
            "S00-001 claim backend"
        ]
    );
}

#[test]
fn a_remediation_waits_while_its_origin_waits_for_a_person() {
    let plan = plan(&[stage("S00", 1, &[])], &[card("S00-001", &[]), card("S00-001-r1", &[])]);
    let origin = Row { external_wait: true, ..blocked(Status::Todo, "S00-001-r1") };
    let rows = board([("S00-001", origin)]);
    assert_eq!(ready(&plan, &rows, &Part::Everything), []);
    let outlook = outlook(&plan, &rows, &Part::Everything);
    assert_eq!(outlook.waiting[&id("S00-001-r1")], "waits for a person's answer to S00-001");
    assert_eq!(outlook.unsatisfiable, BTreeMap::new());
}

#[test]
fn a_part_is_its_tasks_and_however_far_down_what_blocks_them() {
    let cards = ["S00-001", "S00-001-r1", "S00-001-r1-r1", "S00-002", "S00-002-r1"].map(|name| card(name, &[]));
    let cards = [&cards[..], &[card("S01-001", &[])]].concat();
    let plan = plan(&[stage("S00", 1, &[]), stage("S01", 2, &[])], &cards);
    let board = board([
        ("S00-001", blocked(Status::Todo, "S00-001-r1")),
        ("S00-001-r1", blocked(Status::Review, "S00-001-r1-r1")),
    ]);
    let of = |part: Part| part.tasks(&plan, &board).iter().map(|card| card.id.to_string()).collect::<Vec<_>>();
    assert_eq!(of(Part::Task(id("S00-001"))), ["S00-001", "S00-001-r1", "S00-001-r1-r1"]);
    assert_eq!(of(Part::Task(id("S00-002"))), ["S00-002"]);
    assert_eq!(of(Part::Stage("S01".parse().unwrap())), ["S01-001"]);
    assert_eq!(of(Part::Everything).len(), 6);
    let next = ready(&plan, &board, &Part::Task(id("S00-001")));
    assert_eq!(names(&next), ["S00-001-r1-r1 claim backend"]);
}

#[test]
fn a_preview_is_what_runs_if_all_goes_well() {
    let cards = [card("S00-001", &[]), card("S00-001-r1", &[]), card("S00-002", &["S00-001"])];
    let plan = plan(&[stage("S00", 1, &[])], &cards);
    let rows = board([("S00-001", blocked(Status::Todo, "S00-001-r1"))]);
    let expected = [
        "S00-001-r1 claim backend",
        "S00-001-r1 review qa",
        "S00-001 claim backend",
        "S00-001 review qa",
        "S00-002 claim backend",
        "S00-002 review qa",
    ];
    assert_eq!(names(&preview(&plan, &rows, &Part::Everything, 100)), expected);
    assert_eq!(names(&preview(&plan, &rows, &Part::Everything, 2)), expected[..2]);
    assert_eq!(rows, board([("S00-001", blocked(Status::Todo, "S00-001-r1"))]), "the board itself is left as it is");
}

#[test]
fn the_outlook_says_of_each_unfinished_task_what_it_waits_for() {
    let cards = [
        card("S00-001", &[]),
        card("S00-002", &["S00-001", "S00-003"]),
        card("S00-003", &[]),
        card("S00-004", &[]),
        card("S00-004-r1", &[]),
        card("S00-005", &["S00-003"]),
        card("S00-006", &[]),
        card("S01-001", &[]),
    ];
    let plan = plan(&[stage("S00", 1, &[]), stage("S01", 2, &["S00"])], &cards);
    let held = Row { owner: Some(agent("ann")), ..at(Status::InProgress) };
    let reviewed = Row { claim: Some(claim_of("bob", Work::Review, None)), ..at(Status::Review) };
    let board = board([
        ("S00-001", held),
        ("S00-003", waiting("no login")),
        ("S00-004", blocked(Status::Review, "S00-004-r1")),
        // In review its dependencies are history.
        ("S00-005", at(Status::Review)),
        ("S00-006", reviewed),
    ]);
    let outlook = outlook(&plan, &board, &Part::Everything);
    assert_eq!(outlook.external, BTreeMap::from([(id("S00-003"), "no login".to_owned())]));
    assert_eq!(outlook.unsatisfiable, BTreeMap::new(), "a person may still answer");
    let expected = [
        ("S00-001", "held by ann"),
        ("S00-002", "waits for S00-001, S00-003"),
        ("S00-004", "waits for S00-004-r1"),
        ("S00-006", "held by bob"),
        ("S01-001", "waits for stage S00"),
    ];
    assert_eq!(outlook.waiting, expected.map(|(task, why)| (id(task), why.to_owned())).into());
}

#[test]
fn what_can_never_become_ready_is_named_with_what_it_waits_for() {
    let cards = [
        card("S00-001", &[]),
        card("S00-002", &[]),
        card("S00-003", &["S00-002"]),
        card("S00-004", &[]),
        card("S01-001", &[]),
    ];
    let plan = plan(&[stage("S00", 1, &[]), stage("S01", 2, &["S00"])], &cards);
    // A blocker without a card, and a circle that only the rows have.
    let board = board([("S00-001", blocked(Status::Todo, "S00-009")), ("S00-002", blocked(Status::Todo, "S00-003"))]);
    let outlook = outlook(&plan, &board, &Part::Everything);
    let expected = [
        ("S00-001", "waits for S00-009"),
        ("S00-002", "waits for S00-003"),
        ("S00-003", "waits for S00-002"),
        ("S01-001", "waits for stage S00"),
    ];
    assert_eq!(outlook.unsatisfiable, expected.map(|(task, why)| (id(task), why.to_owned())).into());
    assert_eq!(outlook.waiting, BTreeMap::new(), "S00-004 is ready");
}

#[test]
fn counts_are_by_stage_and_status() {
    let rows = board([("S00-001", at(Status::Done)), ("S00-002", waiting("login"))]);
    let counts = counts(&two_stages(), &rows);
    let first = &counts[&"S00".parse().unwrap()];
    assert_eq!((first.todo, first.blocked, first.done), (0, 1, 1));
    assert_eq!(counts[&"S01".parse().unwrap()].todo, 1);
}

/// Looking ahead over a plan costs about as much for each task whether it is short or long.
#[test]
fn the_outlook_over_a_long_chain_of_tasks_and_stages_is_linear() {
    let name = |stage: usize, task: usize| format!("S{stage:03}-{task:03}");
    let mut cards = Vec::new();
    let mut stages = Vec::new();
    for s in 0..100 {
        let before = format!("S{:03}", s.max(1) - 1);
        let before = [before.as_str()];
        stages.push(stage(&format!("S{s:03}"), 0, if s == 0 { &[] } else { &before }));
        for t in 0..100 {
            // The order of the ids is against the order of the chain.
            let later = name(s, t + 1);
            let later = [later.as_str()];
            cards.push(card(&name(s, t), if t == 99 { &[] } else { &later }));
        }
    }
    let plan = plan(&stages, &cards);
    let outlook = outlook(&plan, &Board::default(), &Part::Everything);
    assert_eq!((outlook.unsatisfiable.len(), outlook.waiting.len()), (0, 9_999));
}
