//! `aider` and `mini`, which print text for people only.

use super::*;

const AIDER: &str =
    "Aider v0.86.2\nModel: openai/stub-model with diff edit format\n\nAll done.\n\nTokens: 12k sent, 678 received.\n";

#[test]
fn aiders_rounded_figures_are_added_up_and_never_called_complete() {
    let again = "Tokens: 1.2k sent, 1k cache write, 900 cache hit, 30 received. Cost: $0.05 message, $0.12 session.\n";
    let reading = read(Dialect::Aider, &[AIDER, again].concat());
    let wanted = Tokens {
        input: Figure::part(13_200),
        cached_input: Figure { value: 900, known: true, complete: false },
        output: Figure::part(708),
        reasoning: Figure::UNKNOWN,
        total: Figure::part(13_908),
    };
    assert_eq!(reading.tokens, wanted);
    assert_eq!(reading.cost, Cost { micro_dollars: 120_000, known: true, complete: true });
    assert!(words(&reading).contains("All done.") && reading.finished && kind(&reading).is_none());
}

#[test]
fn a_cost_nobody_stated_is_unknown() {
    assert_eq!(read(Dialect::Aider, AIDER).cost, Cost::UNKNOWN);
    let talk = read(Dialect::Aider, "It says Cost: $0.05 message, $0.12 session.\nand Tokens: 1 sent, 2 received.\n");
    assert_eq!((talk.cost, talk.tokens), (Cost::UNKNOWN, Tokens::default()), "an answer that quotes a report is none");
}

#[test]
fn aiders_last_error_is_told_although_it_exits_with_0() {
    let error = |class: &str| format!("litellm.{class}: {class}: OpenAIException - x\nRetrying in 32.0 seconds...\n");
    for (class, wanted) in [
        ("RateLimitError", LIMIT),
        ("AuthenticationError", FaultKind::Authentication),
        ("InternalServerError", FaultKind::Transient),
        ("APIConnectionError", FaultKind::Transient),
        ("NotFoundError", FaultKind::UnknownModel),
        ("BadRequestError", FaultKind::Other),
    ] {
        assert_eq!(kind(&read(Dialect::Aider, &error(class))), Some(wanted), "{class}");
        assert_eq!(kind(&read(Dialect::Aider, &[&error(class), AIDER].concat())), None, "it was overcome");
    }
    assert_eq!(kind(&read(Dialect::Aider, "Invalid command: /fix\n")), Some(FaultKind::UnknownCommand));
    assert_eq!(kind(&read(Dialect::Aider, "The page says litellm.RateLimitError: x\n")), None);
}

#[test]
fn mini_says_why_it_exits_and_what_its_steps_cost() {
    let steps = "mini-swe-agent (step 1, $0.00):\nwords\nmini-swe-agent (step 2, $0.03):\nAll done.\n";
    let reading = read(Dialect::Mini, &[steps, "Exit:\nlitellm.AuthenticationError: no\n"].concat());
    assert_eq!((kind(&reading), reading.finished), (Some(FaultKind::Authentication), true));
    assert_eq!(reading.cost, Cost { micro_dollars: 30_000, known: true, complete: false });
    assert_eq!(reading.tokens, Tokens::default());
    let one_line = read(Dialect::Mini, "Exit: litellm.RateLimitError: x\n");
    assert_eq!(kind(&one_line), Some(LIMIT));
    assert_eq!(kind(&read(Dialect::Mini, &[steps, "Exit:\nAll done: litellm.RateLimitError\n"].concat())), None);
    let waiting = read_both(Dialect::Mini, "", "Retrying <unknown> in 8 seconds as it raised RateLimitError: x.\n");
    assert_eq!(kind(&waiting), Some(LIMIT));
    assert_eq!(read(Dialect::Mini, "mini-swe-agent (step 1, $0.00):\n").cost, Cost::UNKNOWN);
}
