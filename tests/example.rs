//! The maintained example says what it says: its branches, its groups and its conversation, with real processes.

#[path = "../examples/conversation.rs"]
#[expect(dead_code, reason = "the test takes the place of the example's main function")]
mod conversation;

use std::path::Path;

use runner::conversation::{Message, Outcome};
use runner::tokens::{Cost, Figure};

#[test]
fn the_example_stops_one_branch_exhausts_another_and_counts_what_was_chosen() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let guardian = Path::new(env!("CARGO_BIN_EXE_runner"));
    let report = conversation::demonstrate(folder.path(), guardian).expect("every session answers");
    assert_eq!(report.outcomes, [Outcome::Stopped, Outcome::Exhausted]);
    assert_eq!(report.judged, [("draft after 0".to_owned(), false), ("draft after 1".to_owned(), true)]);

    let details = report.last.details();
    let wanted = [
        Message::asked("Write a draft."),
        Message::answered("draft after 0"),
        Message::asked("Write a better one."),
        Message::answered("draft after 1"),
    ];
    assert_eq!(details.messages, wanted);
    assert_eq!((details.run_id.as_str(), details.parent_run_id.as_deref()), ("example.3", Some("example.1")));

    // Two drafts and two judgements on the first branch, one draft more on the second, which only one group was told of.
    let [writer, judge, all] = &report.used;
    assert_eq!([writer, judge, all].map(|used| used.members.len()), [2, 2, 5]);
    assert!([writer, judge, all].iter().all(|used| used.terminal_coverage_complete));
    assert_eq!((all.attempts, all.unknown_runs.input, all.unknown_runs.output), (5, 0, 5));
    assert!(all.tokens.input.complete && all.tokens.input.value > writer.tokens.input.value);
    assert_eq!((writer.tokens.output, writer.cost), (Figure::UNKNOWN, Cost::UNKNOWN));
    assert_eq!(report.told, 4, "the diagnostic observer hears of the writer's two sessions only");

    // What the second process was given is the history, then the new words, byte for byte.
    let given = runner::fs::read(&folder.path().join("example.3/prompt.md")).expect("the prompt is kept");
    let first = runner::conversation::Exchange::begin("example.1", vec![wanted[0].clone()], "draft after 0");
    assert_eq!(given, format!("{}Write a better one.", first.history()).into_bytes());
}
