//! The bounds of remediation, and the card that comes of a blocker.

use proptest::prelude::*;
use serde_json::json;

use super::*;
use crate::tracker::samples::{card, id, plan, stage};

fn issue(reason: &str) -> Issue {
    Issue::parse(json!({"title": "Repair the build", "reason": reason}).to_string().as_bytes()).unwrap()
}

fn origin(card: &TaskCard) -> Origin<'_> {
    Origin { card, levels_left: 2, taken: &[], open_causes: &[] }
}

fn made(origin: Origin<'_>, issue: &Issue) -> TaskCard {
    match escalation(origin, issue) {
        Ok(Escalation::Remediate(card)) => *card,
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_remediation_takes_its_place_from_its_origin_and_its_words_from_the_issue() {
    let mut from = card("S00-001", &["S00-000"]);
    from.priority = 7;
    from.inputs = vec!["docs/a.md".to_owned()];
    let plain = made(origin(&from), &issue("the build fails"));
    assert_eq!((plain.id.as_str(), plain.origin.as_ref()), ("S00-001-r1", Some(&from.id)));
    assert_eq!((&plain.stage, plain.priority), (&from.stage, 7));
    assert_eq!((&plain.role, &plain.reviewer_role, &plain.scope), (&from.role, &from.reviewer_role, &from.scope));
    assert_eq!((plain.title.as_str(), plain.outcome.as_str()), ("Repair the build", "The blocker of S00-001 is gone."));
    assert_eq!((plain.depends_on.len(), plain.steps.len()), (0, 3), "it waits for nothing and says how to go about it");
    let full = Issue::parse(
        json!({"title": " Two\nlines ", "reason": "r", "role": "dev", "reviewer_role": "lead", "scope": ["src/a/*"],
            "outcome": "o", "steps": ["s"], "acceptance": ["a"], "checks": ["c"], "requirements": ["R1"]})
        .to_string()
        .as_bytes(),
    )
    .unwrap();
    let full = made(origin(&from), &full);
    assert_eq!((full.title.as_str(), full.outcome.as_str()), ("Two lines", "o"));
    assert_eq!((full.role.as_str(), full.reviewer_role.as_str()), ("dev", "lead"));
    assert_eq!([&full.scope[0], &full.steps[0], &full.acceptance[0]], ["src/a/*", "s", "a"]);
    assert_eq!([&full.checks[0], &full.requirements[0]], ["c", "R1"]);
}

#[test]
fn an_issue_is_one_object_with_known_keys_and_words_in_it() {
    for (text, wanted) in [
        ("", "not readable"),
        ("[]", "not readable"),
        (r#"{"title": "t"}"#, "missing field `reason`"),
        (r#"{"title": " ", "reason": "r"}"#, "`title` is empty"),
        (r#"{"title": "t", "reason": "\n"}"#, "`reason` is empty"),
        (r#"{"title": "t", "reason": "r", "severity": 1}"#, "unknown field `severity`"),
        (r#"{"title": "t", "reason": "r", "role": "a/b"}"#, "malformed"),
        (r#"{"title": "t", "reason": "r", "requires_user_input": "yes"}"#, "invalid type"),
        (r#"{"title": "t", "title": "u", "reason": "r"}"#, "duplicate field"),
    ] {
        let refusal = Issue::parse(text.as_bytes()).unwrap_err();
        assert!(refusal.rule.contains(wanted), "{text}: {refusal}");
    }
}

#[test]
fn what_needs_a_person_makes_no_card() {
    let from = card("S00-001", &[]);
    let mut asks = issue("no login");
    asks.requires_user_input = true;
    asks.scope = vec!["anywhere/*".to_owned()];
    assert_eq!(escalation(origin(&from), &asks).unwrap(), Escalation::Wait(None));
}

#[test]
fn no_issue_makes_a_card_that_spoils_the_plan() {
    let mut from = card("S00-001", &[]);
    from.scope = vec!["*".to_owned()];
    for (key, value) in [
        ("scope", json!(["state/*"])),
        ("scope", json!(["./planning/x"])),
        ("scope", json!([".git/hooks/*"])),
        ("scope", json!(["/etc/passwd"])),
        ("scope", json!(["a/../../b"])),
        ("scope", json!([""])),
        ("scope", json!(["a\0"])),
        ("outcome", json!(" ")),
    ] {
        let mut text = json!({"title": "t", "reason": "r"});
        text[key] = value.clone();
        let issue = Issue::parse(text.to_string().as_bytes()).unwrap();
        let refusal = escalation(origin(&from), &issue).unwrap_err();
        assert!(refusal.rule.contains(key), "{key} {value}: {refusal}");
    }
}

#[test]
fn the_next_id_is_above_all_that_ever_were() {
    let from = card("S00-001", &[]);
    let taken = ["S00-001-r1", "S00-001-r12", "S00-001-r3", "S00-001-rx", "S00-001-r2-r40"].map(id);
    assert_eq!(made(Origin { taken: &taken, ..origin(&from) }, &issue("r")).id.as_str(), "S00-001-r13");
    let long = TaskCard { id: id(&"x".repeat(78)), ..card("S00-001", &[]) };
    let wait = escalation(origin(&long), &issue("r")).unwrap();
    assert_eq!(wait, Escalation::Wait(Some("no further remediation id is free".to_owned())));
}

#[test]
fn remediation_ends_at_its_depth_and_at_the_same_cause_in_a_wait_for_a_person() {
    let from = card("S00-001-r1", &[]);
    let deep = Origin { levels_left: 0, ..origin(&from) };
    let wait = escalation(deep, &issue("r")).unwrap();
    assert!(matches!(&wait, Escalation::Wait(Some(why)) if why.contains("max_remediation_depth")), "{wait:?}");
    let open = [(id("S00-001-r1"), "Test 12 of suite 3fa9c1d failed after 10.5 s".to_owned())];
    let again = Origin { open_causes: &open, ..origin(&from) };
    let wait = escalation(again, &issue("test 13 of suite 0b12e4f  failed\nafter 7 s!")).unwrap();
    assert_eq!(wait, Escalation::Wait(Some("S00-001-r1 already exists for the same cause".to_owned())));
    made(again, &issue("the linter of suite 3fa9c1d failed after 10.5 s"));
}

#[test]
fn a_cause_is_compared_without_what_varies_from_time_to_time() {
    for (one, other, same) in [
        ("Port 8080 is in use", "port 9090 is in use.", true),
        ("commit deadbeef01 is bad", "commit 0123456789ab is bad", true),
        ("see /tmp/x1/log", "see /tmp/x22/log", true),
        ("a b", "ab", false),
        ("no key for A", "no key for B", false),
        ("кто здесь", "что здесь", false),
        ("???", "!!!", false),
        ("???", " ??? ", true),
    ] {
        assert_eq!(normalised(one) == normalised(other), same, "{one:?} {other:?}");
    }
}

#[test]
fn a_remediations_scope_is_part_of_its_origins() {
    for (whole, part, is_part) in [
        ("src/*", "src/*", true),
        ("src/*", "src/a.rs", true),
        ("src/*", "src/a/*.rs", true),
        ("src/**", "src/a", true),
        ("src/*.rs", "src/a.rs", true),
        ("src/*.rs", "src/?b*.rs", true),
        ("src/*.rs", "src/*", false),
        ("src/*.rs", "src/*.rs.bak", false),
        ("src/?.rs", "src/a.rs", true),
        ("src/?.rs", "src/?.rs", true),
        ("src/?.rs", "src/*.rs", false),
        ("src/?.rs", "src/[ab].rs", false),
        ("src/[ab].rs", "src/[ab].rs", true),
        ("src/[ab].rs", "src/a.rs", false),
        ("src/*", "src/[ab]*", true),
        ("src/*b].rs", "src/[ab].rs", false),
        ("*", "[!x]*", true),
        ("a*", "[a]b", false),
        ("src/a", "src/*", false),
        ("src", "src/a", false),
        ("*a*b", "ab", true),
        ("*a*b", "xaxaxb", true),
        ("*a*b", "ba", false),
        ("", "a", false),
    ] {
        assert_eq!(is_part_of(part, &[whole.to_owned()]), is_part, "{part:?} of {whole:?}");
    }
    let refusal =
        escalation(origin(&card("S00-001", &[])), &Issue { scope: vec!["docs/a.md".to_owned()], ..issue("r") })
            .unwrap_err();
    assert!(refusal.rule.contains("\"docs/a.md\" is no part of the scope of S00-001 (src/*)"), "{refusal}");
}

/// What `glob` matches, by trying everything; slow and plain.
fn matches(glob: &[char], name: &[char]) -> bool {
    match (glob.split_first(), name.split_first()) {
        (None, None) => true,
        (Some(('*', rest)), _) if matches(rest, name) => true,
        (Some(('*', _)), Some((_, name))) => matches(glob, name),
        (Some((c, rest)), Some((n, name))) => (*c == '?' || c == n) && matches(rest, name),
        _ => false,
    }
}

proptest! {
    #[test]
    fn a_part_never_reaches_beyond_its_whole(whole in "[ab?*]{0,6}", part in "[ab?*]{0,6}") {
        if is_part_of(&part, std::slice::from_ref(&whole)) {
            let [whole, part] = [whole, part].map(|glob| glob.chars().collect::<Vec<_>>());
            // All names over three letters up to length five.
            for (length, number) in (0..=5_u32).flat_map(|length| (0..3_u32.pow(length)).map(move |n| (length, n))) {
                let letter = |place: u32| ['a', 'b', 'c'][(number / 3_u32.pow(place) % 3) as usize];
                let name: Vec<char> = (0..length).map(letter).collect();
                prop_assert!(!matches(&part, &name) || matches(&whole, &name), "{:?}", name);
            }
        }
    }

    #[test]
    fn a_made_card_fits_into_the_plan(title in "[a-z\n]{1,9}", scope in "(src/)?[a-z*?\\[./]{0,6}", outcome in proptest::option::of("[a-z ]{0,3}")) {
        let from = card("S00-001", &[]);
        let issue = Issue { title, outcome, scope: vec![scope], ..issue("r") };
        if let Ok(Escalation::Remediate(made)) = escalation(origin(&from), &issue) {
            plan(&[stage("S00", 1, &[])], &[from.clone(), *made]);
        }
    }
}
