//! `codex exec --json`.

use super::*;

const BEGIN: &str = r#"{"type":"thread.started","thread_id":"01a22b52-4b58-7190-a67a-32caceedf08d"}
{"type":"item.completed","item":{"id":"item_0","type":"error","message":"Model metadata for `stub-model` not found. Defaulting to fallback metadata; this can degrade performance and cause issues."}}
{"type":"turn.started"}
"#;

const WORK: &str = r#"{"type":"item.started","item":{"id":"item_1","type":"command_execution","command":"/bin/bash -c 'echo hi > f'","aggregated_output":"","exit_code":null,"status":"in_progress"}}
{"type":"item.completed","item":{"id":"item_1","type":"command_execution","command":"/bin/bash -c 'echo hi > f'","aggregated_output":"","exit_code":0,"status":"completed"}}
{"type":"item.completed","item":{"id":"item_2","type":"agent_message","text":"All done."}}
"#;

const END: &str = r#"{"type":"turn.completed","usage":{"input_tokens":37035,"cached_input_tokens":7035,"cache_write_input_tokens":0,"output_tokens":2034,"reasoning_output_tokens":270}}
"#;

fn codex(parts: &[&str]) -> Reading {
    read(Dialect::Codex, &parts.concat())
}

fn failed(message: &str) -> Reading {
    let message = serde_json::to_string(message).unwrap();
    codex(&[BEGIN, &format!("{{\"type\":\"turn.failed\",\"error\":{{\"message\":{message}}}}}\n")])
}

#[test]
fn a_whole_turn_gives_its_last_words_and_all_five_figures() {
    let reading = codex(&[BEGIN, WORK, END]);
    assert_eq!(words(&reading), "All done.");
    assert_eq!(reading.tokens, tokens([Some(37035), Some(7035), Some(2034), Some(270), Some(39069)]));
    assert_eq!((reading.cost, kind(&reading), reading.finished), (Cost::UNKNOWN, None, true));
    assert_eq!(reading.skipped_lines, 0);
}

#[test]
fn figures_that_grow_over_turns_are_not_added_up() {
    let again = END.replace("37035", "50000");
    let reading = codex(&[BEGIN, WORK, END, &again]);
    assert_eq!(reading.tokens.input, Figure::whole(50000));
}

#[test]
fn a_refused_login_is_told_by_the_last_error() {
    let retry = r#"{"type":"error","message":"Reconnecting... 1/1 (unexpected status 401 Unauthorized: Incorrect API key provided: test-key., url: http://127.0.0.1:18099/s/e401/v1/responses)"}
"#;
    let text = "unexpected status 401 Unauthorized: Incorrect API key provided: test-key., url: http://127.0.0.1:18099/s/e401/v1/responses";
    let end = format!("{{\"type\":\"turn.failed\",\"error\":{{\"message\":\"{text}\"}}}}\n");
    let reading = codex(&[BEGIN, retry, &end]);
    assert_eq!(reading.fault, Some(AgentFault { kind: FaultKind::Authentication, text: text.to_owned() }));
    assert_eq!(reading.tokens, Tokens::default(), "nothing was stated");
    let killed = codex(&[BEGIN, retry]);
    assert_eq!((kind(&killed), killed.finished), (Some(FaultKind::Authentication), false));
    let overcome = codex(&[BEGIN, retry, WORK]);
    assert_eq!((kind(&overcome), overcome.finished), (None, false));
}

#[test]
fn a_usage_limit_is_one_with_the_stated_time_in_the_agents_zone() {
    let text = "You’ve hit your usage limit. Upgrade to Pro (https://chatgpt.com/explore/pro), visit https://chatgpt.com/settings/usage to purchase more credits or try again at 8:20 AM.";
    let at = "2026-11-30T08:20:00Z".parse().unwrap();
    assert_eq!(kind(&failed(text)), Some(FaultKind::Limit { retry_at: Some(at) }));
    assert_eq!(kind(&failed("Quota exceeded. Check your plan and billing details.")), Some(LIMIT));
    assert_eq!(kind(&failed("exceeded retry limit, last status: 429 Too Many Requests")), Some(LIMIT));
}

#[test]
fn a_failing_service_is_transient_and_an_unknown_model_is_told() {
    let busy = "We’re currently experiencing high demand, which may cause temporary errors.";
    assert_eq!(kind(&failed(busy)), Some(FaultKind::Transient));
    let missing = "unexpected status 404 Not Found: Error 404, url: http://127.0.0.1:18099/s/e404/v1/responses";
    assert_eq!(kind(&failed(missing)), Some(FaultKind::UnknownModel));
}

#[test]
fn a_warning_before_a_limit_and_words_about_limits_are_no_limit() {
    let warning = r#"{"type":"item.completed","item":{"id":"item_3","type":"error","message":"You've hit your usage limit warning: 90 % used"}}
{"type":"item.completed","item":{"id":"item_4","type":"agent_message","text":"You've hit your usage limit. is what the page now says; rate limit exceeded (429) is tested."}}
{"type":"item.completed","item":{"id":"item_5","type":"command_execution","command":"cat log","aggregated_output":"429 Too Many Requests","exit_code":1,"status":"failed"}}
"#;
    assert_eq!(kind(&codex(&[BEGIN, warning, END])), None);
    assert_eq!(kind(&codex(&[BEGIN, warning])), None, "also where the end is missing");
}

#[test]
fn output_that_was_cut_off_in_mid_line_keeps_what_was_said_and_invents_no_figures() {
    let whole = [BEGIN, WORK, END].concat();
    let reading = codex(&[&whole[..whole.len() - 20]]);
    assert_eq!(words(&reading), "All done.");
    assert_eq!((reading.tokens, reading.finished, reading.skipped_lines), (Tokens::default(), false, 1));
}

#[test]
fn the_last_line_needs_no_line_end() {
    assert_eq!(codex(&[BEGIN, WORK, END.trim_end()]), codex(&[BEGIN, WORK, END]));
}

#[test]
fn a_final_line_of_300_kilobytes_is_read_whole() {
    let long = "x".repeat(300_000);
    let line = WORK.replace("All done.", &long);
    let message = codex(&[BEGIN, &line, END]).final_message.unwrap();
    assert!(message.text == long && !message.truncated);
}

#[test]
fn a_line_that_is_no_record_is_passed_over_and_counted() {
    let reading = codex(&["warning: words\n\n", BEGIN, "{\"type\":\"item\n", WORK, "[1]\n", END]);
    assert_eq!((reading.skipped_lines, words(&reading)), (3, "All done."));
    assert_eq!(reading.tokens.total, Figure::whole(39069));
}
