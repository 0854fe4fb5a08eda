//! `claude` and `qwen`, which print the same records with other meanings.

use super::*;

const STEP: &str = r#"{"type":"system","subtype":"init","cwd":"/w","session_id":"ff9e8c98","tools":["Task","Bash"],"model":"claude-sonnet-4-5","permissionMode":"bypassPermissions","claude_code_version":"2.1.197"}
{"type":"assistant","message":{"id":"msg_stub000006","type":"message","role":"assistant","model":"claude-sonnet-4-5","stop_reason":null,"content":[{"type":"tool_use","id":"toolu_stub000007","name":"Bash","input":{"command":"echo hi > f"}}],"usage":{"input_tokens":12345,"cache_creation_input_tokens":0,"cache_read_input_tokens":2345,"output_tokens":1}},"parent_tool_use_id":null,"session_id":"ff9e8c98"}
{"type":"user","message":{"role":"user","content":[{"tool_use_id":"toolu_stub000007","type":"tool_result","content":"API Error: Request rejected (429) · rate limit","is_error":false}]},"parent_tool_use_id":null,"session_id":"ff9e8c98"}
"#;

const LAST: &str = r#"{"type":"assistant","message":{"id":"msg_stub000008","type":"message","role":"assistant","model":"claude-sonnet-4-5","stop_reason":null,"content":[{"type":"text","text":"All done."}],"usage":{"input_tokens":24690,"cache_creation_input_tokens":0,"cache_read_input_tokens":4690,"output_tokens":1}},"parent_tool_use_id":null,"session_id":"ff9e8c98"}
"#;

const RESULT: &str = r#"{"type":"result","subtype":"success","is_error":false,"api_error_status":null,"duration_ms":1127,"num_turns":2,"result":"All done.","stop_reason":"end_turn","session_id":"ff9e8c98","total_cost_usd":0.1437255,"usage":{"input_tokens":37035,"cache_creation_input_tokens":0,"cache_read_input_tokens":7035,"output_tokens":2034,"server_tool_use":{"web_search_requests":0}},"modelUsage":{"claude-sonnet-4-5":{"inputTokens":37035,"outputTokens":2034,"cacheReadInputTokens":7035,"cacheCreationInputTokens":0,"webSearchRequests":0,"costUSD":0.1437255,"contextWindow":200000}},"permission_denials":[]}
"#;

const RETRY: &str = r#"{"type":"system","subtype":"api_retry","attempt":8,"max_retries":10,"retry_delay_ms":35148.5,"error_status":429,"error":"rate_limit","session_id":"056efa32"}
"#;

fn claude(parts: &[&str]) -> Reading {
    read(Dialect::Claude, &parts.concat())
}

/// The last record of a session that the service refused: a success that is an error.
fn refused(status: u16, text: &str) -> Reading {
    let record = serde_json::json!({
        "type": "result", "subtype": "success", "is_error": true, "api_error_status": status, "num_turns": 1,
        "result": text, "total_cost_usd": 0, "modelUsage": {},
        "usage": {"input_tokens": 0, "cache_creation_input_tokens": 0, "cache_read_input_tokens": 0, "output_tokens": 0},
    });
    claude(&[RETRY, &record.to_string()])
}

#[test]
fn input_holds_what_came_from_the_cache_and_the_cost_is_exact() {
    let reading = claude(&[STEP, LAST, RESULT]);
    assert_eq!(words(&reading), "All done.");
    assert_eq!(reading.tokens, tokens([Some(44070), Some(7035), Some(2034), None, Some(46104)]));
    assert_eq!(reading.cost, Cost { micro_dollars: 143_726, known: true, complete: true });
    assert_eq!((kind(&reading), reading.finished, reading.skipped_lines), (None, true, 0));
}

#[test]
fn all_models_of_a_session_count() {
    let small = r#""modelUsage":{"small":{"inputTokens":5,"outputTokens":6,"cacheReadInputTokens":0,"cacheCreationInputTokens":7,"costUSD":0.1},"#;
    let reading = claude(&[STEP, LAST, &RESULT.replace("\"modelUsage\":{", small)]);
    assert_eq!(reading.tokens, tokens([Some(44082), Some(7035), Some(2040), None, Some(46122)]));
}

#[test]
fn a_success_that_is_an_error_is_an_error() {
    let text = "API Error: Request rejected (429) · This request would exceed your account's rate limit. Please try again later.";
    assert_eq!(refused(429, text).fault, Some(AgentFault { kind: LIMIT, text: text.to_owned() }));
    assert_eq!(kind(&refused(401, "Invalid API key · Fix external API key")), Some(FaultKind::Authentication));
    assert_eq!(kind(&refused(500, "API Error: 500 Internal server error.")), Some(FaultKind::Transient));
    assert_eq!(kind(&refused(404, "There's an issue with the selected model (x).")), Some(FaultKind::UnknownModel));
    assert_eq!(refused(401, "Invalid API key").tokens.input, Figure::NOTHING, "this zero was stated by the agent");
}

#[test]
fn a_limit_ends_when_its_words_or_a_rejecting_event_say() {
    let text = "API Error: Request rejected (429) · You have reached your specified API usage limits. You will regain access on 2026-12-01 at 00:00 UTC.";
    let at = |text: &str| FaultKind::Limit { retry_at: Some(text.parse().unwrap()) };
    assert_eq!(kind(&refused(429, text)), Some(at("2026-12-01T00:00:00Z")));
    let event = |status: &str| {
        format!(
            "{{\"type\":\"rate_limit_event\",\"rate_limit_info\":{{\"status\":\"{status}\",\"resetsAt\":1796026800,\"rateLimitType\":\"five_hour\"}}}}\n"
        )
    };
    let old = r#"{"type":"result","subtype":"success","is_error":true,"result":"You've hit your limit","num_turns":1}"#;
    assert_eq!(kind(&claude(&[&event("rejected"), old])), Some(at("2026-11-30T08:20:00Z")));
    assert_eq!(kind(&claude(&[&event("allowed_warning"), STEP, LAST, RESULT])), None, "a warning is no limit");
    assert_eq!(kind(&claude(&[&event("allowed_warning"), old])), Some(LIMIT), "and its time is not the limit's");
}

#[test]
fn a_prompt_and_an_answer_that_talk_about_rate_limits_are_no_limit() {
    let talk = "You've hit your usage limit. That is what the error says at 90 % of your limit (429).";
    let reading = claude(&[STEP, &LAST.replace("All done.", talk), &RESULT.replace("All done.", talk)]);
    assert_eq!((kind(&reading), words(&reading)), (None, talk));
}

#[test]
fn an_error_that_was_overcome_is_none_and_one_that_was_not_is_told() {
    assert_eq!(kind(&claude(&[STEP, RETRY, LAST])), None);
    let killed = claude(&[STEP, LAST, RETRY]);
    assert_eq!((kind(&killed), killed.finished), (Some(LIMIT), false));
}

#[test]
fn a_prompt_taken_for_a_command_is_told_although_all_is_called_well() {
    let line = r#"{"type":"result","subtype":"success","is_error":false,"num_turns":0,"result":"Unknown command: /fix","total_cost_usd":0,"usage":{"input_tokens":0,"output_tokens":0},"modelUsage":{}}"#;
    assert_eq!(kind(&claude(&[line])), Some(FaultKind::UnknownCommand));
    assert_eq!(kind(&claude(&[&line.replace("\"num_turns\":0", "\"num_turns\":3")])), None, "the model said this");
}

#[test]
fn after_a_dropped_connection_the_figures_of_the_models_count() {
    let zeros = RESULT
        .replace("\"usage\":{\"input_tokens\":37035", "\"usage\":{\"input_tokens\":0")
        .replace("\"output_tokens\":2034", "\"output_tokens\":0");
    assert_eq!(claude(&[STEP, LAST, &zeros]).tokens, claude(&[STEP, LAST, RESULT]).tokens);
}

#[test]
fn zeros_after_an_answer_were_not_counted_and_are_unknown() {
    let zeros = r#"{"type":"result","subtype":"success","is_error":false,"num_turns":2,"result":"All done.","total_cost_usd":0.14,"usage":{"input_tokens":0,"cache_read_input_tokens":0,"output_tokens":0}}"#;
    let reading = claude(&[STEP, LAST, zeros]);
    assert_eq!((reading.tokens, reading.cost.micro_dollars), (Tokens::default(), 140_000));
}

#[test]
fn usage_split_over_messages_is_added_up_once_for_each_and_is_a_part() {
    // One message comes in as many records as it has blocks, each with the same figures.
    let reading = claude(&[STEP, LAST, LAST, &LAST[..LAST.len() - 30]]);
    let wanted = tokens([Some(44070), Some(7035), Some(2), None, Some(44072)]).as_parts();
    assert_eq!((reading.tokens, reading.cost), (wanted, Cost::UNKNOWN));
    assert_eq!((words(&reading), reading.finished, reading.skipped_lines), ("All done.", false, 1));
}

#[test]
fn an_interrupted_session_still_states_its_figures() {
    let end = RESULT.replace("\"subtype\":\"success\"", "\"subtype\":\"error_during_execution\"");
    let reading = claude(&[STEP, LAST, &end.replace("\"result\":\"All done.\",", "")]);
    assert_eq!((kind(&reading), reading.tokens.total), (Some(FaultKind::Other), Figure::whole(46104)));
}

#[test]
fn a_result_of_300_kilobytes_is_read_whole() {
    let long = "x".repeat(300_000);
    let reading = claude(&[STEP, &RESULT.replace("All done.", &long)]);
    assert_eq!((words(&reading), reading.tokens.output), (long.as_str(), Figure::whole(2034)));
}

const QWEN: &str = r#"{"type":"system","subtype":"init","uuid":"1c0a76e7","cwd":"/w","model":"stub-model","permission_mode":"yolo","qwen_code_version":"0.15.10"}
{"type":"assistant","uuid":"c6fd4139","parent_tool_use_id":null,"message":{"id":"c6fd4139","type":"message","role":"assistant","model":"stub-model","content":[{"type":"tool_use","id":"call_stub000012","name":"run_shell_command","input":{"command":"echo hi > f"}}],"stop_reason":"tool_use","usage":{"input_tokens":12345,"output_tokens":678,"cache_read_input_tokens":2345,"total_tokens":13023}}}
{"type":"assistant","uuid":"6d1c9245","parent_tool_use_id":null,"message":{"id":"6d1c9245","type":"message","role":"assistant","model":"stub-model","content":[{"type":"text","text":"All done."}],"stop_reason":null,"usage":{"input_tokens":24690,"output_tokens":1356,"cache_read_input_tokens":4690,"total_tokens":26046}}}
"#;

const QWEN_RESULT: &str = r#"{"type":"result","subtype":"success","uuid":"3ed00742","is_error":false,"duration_ms":14206,"num_turns":2,"result":"All done.","usage":{"input_tokens":37035,"output_tokens":2034,"cache_read_input_tokens":7035,"total_tokens":39069},"permission_denials":[]}
"#;

#[test]
fn qwens_input_holds_the_cached_part_already() {
    let reading = read(Dialect::Qwen, &[QWEN, QWEN_RESULT].concat());
    assert_eq!(reading.tokens, tokens([Some(37035), Some(7035), Some(2034), None, Some(39069)]));
    assert_eq!((words(&reading), kind(&reading), reading.cost), ("All done.", None, Cost::UNKNOWN));
    let cut_off = read(Dialect::Qwen, QWEN);
    assert_eq!(cut_off.tokens, tokens([Some(37035), Some(7035), Some(2034), None, Some(39069)]).as_parts());
}

#[test]
fn qwens_success_with_exit_status_0_on_a_401_is_a_refused_login() {
    let text = "[API Error: 401 Incorrect API key provided: test-key.]";
    let line = r#"{"type":"result","subtype":"success","is_error":false,"num_turns":1,"result":"TEXT","usage":{"input_tokens":0,"output_tokens":0,"cache_read_input_tokens":0}}"#;
    let reading = read(Dialect::Qwen, &line.replace("TEXT", text));
    assert_eq!(reading.fault, Some(AgentFault { kind: FaultKind::Authentication, text: text.to_owned() }));
    assert_eq!(reading.tokens.input, Figure::NOTHING, "nothing was read");
    let dropped = "[API Error: Model stream ended without a finish reason.]";
    for text in [dropped, "[API Error: 500 The server had an error]"] {
        let transient = read(Dialect::Qwen, &line.replace("TEXT", text));
        assert_eq!(kind(&transient), Some(FaultKind::Transient), "{text}");
        assert_eq!(transient.tokens.input, Figure::part(0), "nobody knows what was read before it broke off");
    }
}

#[test]
fn silence_is_no_figure_and_no_fault() {
    let reading = read(Dialect::Qwen, "");
    assert_eq!((reading.tokens, kind(&reading), reading.finished), (Tokens::default(), None, false));
}
