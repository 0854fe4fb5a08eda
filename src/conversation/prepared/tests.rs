//! What each digest depends on, and what it does not.

use std::path::Path;

use super::*;
use crate::plan::{TaskCard, Work};
use crate::prompt::{Kind, assemble};

const OWN: &str = "auto-backend-0123456789ab";

fn card() -> TaskCard {
    let json = br#"{"id": "S00-001", "stage": "S00", "title": "Build it", "role": "backend", "reviewer_role": "qa",
        "scope": ["src/*"], "outcome": "It is there."}"#;
    TaskCard::parse(Path::new("x"), json).unwrap()
}

fn parts(text: &str) -> Parts {
    let document = Document { kind: Kind::Input, path: "docs/a.md".to_owned(), text: text.to_owned() };
    Parts { documents: vec![document], absent: Vec::new() }
}

/// What differs from one preparation to the next.
struct Case<'a> {
    agent: &'a str,
    card: TaskCard,
    work: Work,
    input: &'a str,
    history: Option<Exchange>,
    max_chars: usize,
}

fn plain() -> Case<'static> {
    Case { agent: OWN, card: card(), work: Work::Claim, input: "Input.\n", history: None, max_chars: 80_000 }
}

fn made(case: &Case<'_>) -> Result<Prepared, PromptFault> {
    let agent: AgentId = case.agent.parse().unwrap();
    let role = &case.card.role;
    let assignment =
        Assignment { agent: &agent, role, card: &case.card, work: case.work, runner_bin: Path::new("/opt/runner") };
    let parts = parts(case.input);
    let new = assemble(&assignment, &parts, "{}", usize::MAX)?;
    prepare(Draft {
        assignment: &assignment,
        parts: &parts,
        new,
        continue_from: case.history.as_ref(),
        argv: vec!["agent".to_owned()],
        max_chars: case.max_chars,
    })
}

fn details(case: &Case<'_>) -> Details {
    made(case).unwrap().details().clone()
}

fn earlier(run_id: &str, asked: &str, answer: &str) -> Exchange {
    Exchange::begin(run_id, vec![Message::asked(asked)], answer)
}

#[test]
fn the_history_stands_before_the_new_prompt_byte_for_byte() {
    let history = earlier("auto-qa-000000000001.1", "Begin.\r\n", "done");
    let alone = made(&plain()).unwrap().prompt().text.clone();
    let continued = made(&Case { history: Some(history.clone()), ..plain() }).unwrap();
    assert_eq!(continued.prompt().text, format!("{}{alone}", history.history()));
    assert_eq!(continued.details().parent_run_id.as_deref(), Some("auto-qa-000000000001.1"));
    let sizes = &continued.details().prompt_parts;
    assert_eq!(sizes[0].part, "history");
    let sum: usize = sizes.iter().map(|size| size.characters).sum();
    assert_eq!((sum, continued.details().prompt_characters), (continued.prompt().text.chars().count(), sum));
}

#[test]
fn the_history_is_counted_in_the_budget_to_the_last_character() {
    let history = Some(earlier("a.1", &"ä".repeat(5_000), "done"));
    let length = details(&Case { history: history.clone(), ..plain() }).prompt_characters;
    assert!(made(&Case { history: history.clone(), max_chars: length, ..plain() }).is_ok());
    let fault = made(&Case { history, max_chars: length - 1, ..plain() }).unwrap_err();
    let PromptFault::Task(ContextFault::OverBudget { total, parts, .. }) = fault else { panic!("{fault:?}") };
    assert_eq!((total, parts[0].part.as_str()), (length, "history"));
    assert!(made(&Case { max_chars: length - 1, ..plain() }).is_ok(), "without the history it fits");
}

#[test]
fn the_whole_prompts_digest_changes_with_the_history_and_the_definitions_does_not() {
    let fresh = details(&plain());
    let continued = details(&Case { history: Some(earlier("a.1", "Begin.", "done")), ..plain() });
    let other = details(&Case { history: Some(earlier("a.1", "Begin.", "done!")), ..plain() });
    assert_eq!((fresh.definition, &fresh.inputs), (continued.definition, &continued.inputs));
    assert_eq!(continued.definition, other.definition);
    assert!(fresh.prompt != continued.prompt && continued.prompt != other.prompt);
}

#[test]
fn no_digest_depends_on_the_identities_of_runs() {
    let digests = |own: &str, first: &str, second: &str| {
        let begin = earlier(&format!("{first}.1"), &format!("You are agent {first}."), "done");
        let words = format!("You are agent {second}; {first} was before you.");
        let history = begin.then(format!("{second}.1"), vec![Message::asked(words)], format!("I am {second}."));
        let made = details(&Case { agent: own, history: Some(history), ..plain() });
        (made.definition, made.inputs, made.prompt)
    };
    let one = digests(OWN, "auto-qa-000000000001", "auto-qa-000000000002");
    assert_eq!(one, digests("auto-backend-ffffffffffff", "auto-qa-aaaaaaaaaaaa", "auto-qa-bbbbbbbbbbbb"));
    // The same agent in all three is another conversation than three agents.
    assert_ne!(one, digests(OWN, OWN, OWN));
    assert_eq!(digests(OWN, OWN, OWN), digests("auto-qa-00000000000a", "auto-qa-00000000000a", "auto-qa-00000000000a"));
}

#[test]
fn a_run_id_of_a_library_that_is_an_ordinary_word_changes_no_text() {
    let of = |run_id: &str| details(&Case { history: Some(earlier(run_id, "prompt", "done")), ..plain() }).prompt;
    assert_eq!(of("a.1"), of("b.1"));
    assert_eq!(of("prompt.1"), of("x"));
}

#[test]
fn the_definition_is_the_card_the_role_and_the_work() {
    let all = [
        details(&plain()).definition,
        details(&Case { work: Work::Review, ..plain() }).definition,
        details(&Case { card: TaskCard { outcome: "Other.".to_owned(), ..card() }, ..plain() }).definition,
        details(&Case { card: TaskCard { role: "qa".parse().unwrap(), ..card() }, ..plain() }).definition,
    ];
    assert_eq!(all.iter().collect::<BTreeSet<_>>().len(), all.len());
    assert_eq!(details(&Case { input: "Another input.\n", ..plain() }).definition, all[0]);
}

#[test]
fn an_inputs_digest_is_that_of_its_text_and_the_whole_prompts_changes_with_it() {
    let (one, two) = (details(&plain()), details(&Case { input: "", ..plain() }));
    assert_eq!((one.inputs[0].part.as_str(), one.inputs.len()), ("input docs/a.md", 1));
    // What `sha256sum` says of an empty file.
    let empty = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";
    assert_eq!(two.inputs[0].digest.to_string(), empty);
    assert!(one.inputs != two.inputs && one.prompt != two.prompt);
}

#[test]
fn what_completes_becomes_an_exchange_of_the_new_words_and_the_last_message() {
    let fresh = made(&plain()).unwrap();
    let text = fresh.prompt().text.clone();
    let first = fresh.into_exchange("auto-backend-0123456789ab.1", "");
    assert_eq!(first.details().messages, [Message::asked(text.clone()), Message::answered("")]);
    let second = made(&Case { history: Some(first.clone()), ..plain() }).unwrap().into_exchange("b.1", " ok\n");
    assert_eq!(second.details().messages[2..], [Message::asked(text), Message::answered(" ok\n")]);
    assert_eq!(second.parent_run_id(), Some(first.run_id()));
}

#[test]
fn running_a_preparation_gives_the_conversation_and_a_failure_to_operate_gives_none() {
    let source = earlier("a.1", "Begin.", "done");
    let prepared = || made(&Case { history: Some(source.clone()), ..plain() }).unwrap();
    let whole = prepared().prompt().text.clone();
    let failed = prepared().run("b.1", |_| Err::<((), String), _>("no process"));
    assert_eq!(failed.unwrap_err(), "no process");
    // What it would have gone on from is there as it was.
    let completed = prepared().run("c.1", |prompt| Ok::<_, ()>((prompt.text == whole, " ok\n".to_owned())));
    let Completed { exchange, result } = completed.unwrap();
    assert!(result, "the whole prompt is what is run");
    assert_eq!((exchange.parent_run_id(), exchange.final_message()), (Some("a.1"), " ok\n"));
    assert_eq!(exchange.message_count(), 4);
}

#[test]
fn a_preparation_can_be_dropped_and_its_details_outlive_it() {
    let source = earlier("a.1", "Begin.", "done");
    let prepared = made(&Case { history: Some(source.clone()), ..plain() }).unwrap();
    let details = prepared.details().clone();
    drop(prepared);
    assert_eq!(details.argv, ["agent"]);
    assert_eq!(source.details().messages.len(), 2);
    let shown = serde_json::to_value(&details).unwrap();
    assert_eq!(shown["prompt"].as_str().map(str::len), Some(64));
    assert!(!shown.to_string().contains("Begin."), "{shown}");
}

#[test]
fn what_is_shown_of_a_preparation_holds_no_content() {
    let prepared = made(&Case { history: Some(earlier("a.1", "secret", "secret")), input: "secret", ..plain() });
    let shown = format!("{:?}", prepared.unwrap());
    assert!(!shown.contains("secret"), "{shown}");
}
