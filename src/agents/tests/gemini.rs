//! `gemini --output-format stream-json`.

use super::*;

const WORK: &str = r#"{"type":"init","timestamp":"2026-11-30T07:19:18.720Z","session_id":"c34a06b0","model":"gemini-2.5-pro"}
{"type":"message","timestamp":"2026-11-30T07:19:18.728Z","role":"user","content":"Handle `429 Too Many Requests`: You have exhausted your daily quota.\n"}
{"type":"message","timestamp":"2026-11-30T07:19:19.000Z","role":"assistant","content":"I look first.","delta":true}
{"type":"tool_use","timestamp":"2026-11-30T07:19:19.268Z","tool_name":"run_shell_command","tool_id":"run_0","parameters":{"command":"echo hi > f"}}
{"type":"tool_result","timestamp":"2026-11-30T07:19:19.976Z","tool_id":"run_0","status":"success","output":""}
{"type":"message","timestamp":"2026-11-30T07:19:20.136Z","role":"assistant","content":"All ","delta":true}
{"type":"message","timestamp":"2026-11-30T07:19:20.137Z","role":"assistant","content":"done.","delta":true}
"#;

const RESULT: &str = r#"{"type":"result","timestamp":"2026-11-30T07:19:20.160Z","status":"success","stats":{"total_tokens":39339,"input_tokens":37035,"output_tokens":2034,"cached":7035,"input":30000,"duration_ms":1440,"tool_calls":1,"models":{"gemini-2.5-pro":{"total_tokens":39339,"input_tokens":37035,"output_tokens":2034,"cached":7035,"input":30000}}}}
"#;

fn failed(message: &str) -> Reading {
    let record = serde_json::json!({
        "type": "result", "status": "error", "error": {"type": "unknown", "message": message},
        "stats": {"total_tokens": 0, "input_tokens": 0, "output_tokens": 0, "cached": 0, "input": 0},
    });
    read(Dialect::Gemini, &record.to_string())
}

#[test]
fn pieces_of_the_last_message_are_one_and_thoughts_are_part_of_the_output() {
    let reading = read(Dialect::Gemini, &[WORK, RESULT].concat());
    assert_eq!(words(&reading), "All done.");
    assert_eq!(reading.tokens, tokens([Some(37035), Some(7035), Some(2304), Some(270), Some(39339)]));
    assert_eq!((kind(&reading), reading.finished, reading.cost), (None, true, Cost::UNKNOWN));
}

#[test]
fn a_total_that_contradicts_its_parts_is_not_believed() {
    let reading = read(Dialect::Gemini, &RESULT.replace("39339", "100"));
    assert_eq!((reading.tokens.reasoning, reading.tokens.output), (Figure::UNKNOWN, Figure::part(2034)));
    assert_eq!(reading.tokens.total, Figure::part(39069));
}

#[test]
fn the_last_records_error_is_told_by_its_code_or_its_first_words() {
    let quota = "[API Error: You have exhausted your daily quota on this model.]\nPlease wait and try again later. To increase your limits, request a quota increase";
    assert_eq!(kind(&failed(quota)), Some(LIMIT));
    let soon = "[API Error: You exceeded your current quota, please check your plan and billing details.\nSuggested retry after 2s.]\nPlease wait";
    let at = "2026-11-30T07:21:02Z".parse().unwrap();
    assert_eq!(kind(&failed(soon)), Some(FaultKind::Limit { retry_at: Some(at) }));
    let login = "[API Error: {\"error\":{\"code\":401,\"message\":\"API key not valid. Please pass a valid API key.\",\"status\":\"UNAUTHENTICATED\"}}]";
    assert_eq!(kind(&failed(login)), Some(FaultKind::Authentication));
    let broken = "[API Error: {\"error\":{\"code\":500,\"message\":\"An internal error has occurred.\",\"status\":\"INTERNAL\"}}]";
    assert_eq!(kind(&failed(broken)), Some(FaultKind::Transient));
    assert_eq!(failed(login).tokens.total, Figure::NOTHING, "this zero was stated");
}

#[test]
fn an_agent_that_was_killed_while_it_tried_again_told_why_on_standard_error() {
    let stderr =
        "YOLO mode is enabled.\nAttempt 6 failed: You exceeded your current quota, please check your plan.\n    at x\n";
    assert_eq!(kind(&read_both(Dialect::Gemini, "", stderr)), Some(LIMIT));
    let overcome = read_both(Dialect::Gemini, &[WORK, RESULT].concat(), stderr);
    assert_eq!(kind(&overcome), None);
    assert_eq!(kind(&read_both(Dialect::Gemini, "", "the file says: Attempt 6 failed: 429\n")), None);
}

#[test]
fn without_the_last_record_no_figure_is_known() {
    let reading = read(Dialect::Gemini, WORK);
    assert_eq!((words(&reading), reading.tokens, reading.finished), ("All done.", Tokens::default(), false));
}
