//! `opencode run --format json`.

use super::*;

const FIRST: &str = r#"{"type":"step_start","timestamp":1796023213775,"sessionID":"ses_dd4a","part":{"id":"prt_1","messageID":"msg_1","sessionID":"ses_dd4a","snapshot":"4f5a578b","type":"step-start"}}
{"type":"text","timestamp":1796023213776,"sessionID":"ses_dd4a","part":{"id":"prt_9","messageID":"msg_1","type":"text","text":"I look first."}}
{"type":"tool_use","timestamp":1796023214402,"sessionID":"ses_dd4a","part":{"type":"tool","tool":"bash","callID":"call_stub000016","state":{"status":"completed","input":{"command":"echo hi > f"},"output":"429 rate limit exceeded","title":"echo hi > f"},"id":"prt_2","messageID":"msg_1"}}
{"type":"step_finish","timestamp":1796023214666,"sessionID":"ses_dd4a","part":{"id":"prt_3","reason":"tool-calls","snapshot":"1f87b743","messageID":"msg_1","type":"step-finish","tokens":{"total":13023,"input":10000,"output":588,"reasoning":90,"cache":{"write":0,"read":2345}},"cost":0.0408735}}
"#;

const SECOND: &str = r#"{"type":"step_start","timestamp":1796023215711,"sessionID":"ses_dd4a","part":{"id":"prt_4","messageID":"msg_2","type":"step-start"}}
{"type":"text","timestamp":1796023215711,"sessionID":"ses_dd4a","part":{"id":"prt_5","messageID":"msg_2","type":"text","text":"All done.","time":{"start":1796023215668,"end":1796023215680}}}
{"type":"step_finish","timestamp":1796023215912,"sessionID":"ses_dd4a","part":{"id":"prt_6","reason":"stop","messageID":"msg_2","type":"step-finish","tokens":{"total":26046,"input":20000,"output":1176,"reasoning":180,"cache":{"write":0,"read":4690}},"cost":0.081747}}
"#;

const ERROR: &str = r#"{"type":"error","timestamp":1796023243080,"sessionID":"ses_dd4a","error":{"name":"APIError","data":{"message":"Incorrect API key provided: test-key.","statusCode":401,"isRetryable":false,"responseHeaders":{"content-length":"138","server":"stub-model/1"},"responseBody":"{}"}}}
"#;

fn opencode(parts: &[&str]) -> Reading {
    read(Dialect::Opencode, &parts.concat())
}

/// The figures of both steps.
fn both() -> Tokens {
    tokens([Some(37035), Some(7035), Some(2034), Some(270), Some(39069)])
}

#[test]
fn figures_and_cost_of_all_steps_are_added_up() {
    let reading = opencode(&[FIRST, SECOND]);
    assert_eq!((words(&reading), reading.tokens), ("All done.", both()));
    assert_eq!(reading.cost, Cost { micro_dollars: 122_621, known: true, complete: true });
    assert_eq!((kind(&reading), reading.finished), (None, true));
}

#[test]
fn a_sum_with_a_lost_record_or_an_unfinished_step_is_a_part() {
    let step = SECOND.lines().next().unwrap();
    let whole = tokens([Some(12345), Some(2345), Some(678), Some(90), Some(13023)]);
    assert_eq!(opencode(&[FIRST]).tokens, whole);
    assert_eq!(opencode(&[FIRST, step]).tokens, whole.as_parts());
    assert!(!opencode(&[FIRST, step]).finished && !opencode(&[FIRST]).finished);
    let cut = opencode(&[FIRST, SECOND, "{\"type\":\"step_fin"]);
    assert_eq!((cut.tokens, cut.cost.complete, cut.skipped_lines), (both().as_parts(), false, 1));
    let words = opencode(&["plugin: words\n", FIRST, SECOND]);
    assert_eq!((words.tokens, words.skipped_lines), (both(), 1), "words are no lost record");
    let mut reader = Reader::new(Dialect::Opencode);
    reader.feed(Stream::Stdout, FIRST.as_bytes());
    reader.gap(Stream::Stdout);
    reader.feed(Stream::Stdout, SECOND.as_bytes());
    assert!(!reader.finish(&now()).tokens.input.complete);
}

#[test]
fn a_line_over_the_bound_costs_no_memory_and_makes_sums_parts() {
    let long = "x".repeat(crate::agents::LINE_READ + 1);
    let reading = opencode(&[FIRST, &long, "\n", SECOND]);
    assert_eq!((reading.tokens, reading.skipped_lines), (both().as_parts(), 1));
}

#[test]
fn an_error_counts_by_its_status_unless_the_agent_went_on() {
    assert_eq!(kind(&opencode(&[ERROR])), Some(FaultKind::Authentication));
    assert_eq!(kind(&opencode(&[FIRST, ERROR, SECOND])), None);
    assert_eq!(opencode(&[ERROR]).tokens, Tokens::default());
    let limit = ERROR
        .replace("\"statusCode\":401", "\"statusCode\":429")
        .replace("\"content-length\":\"138\"", "\"retry-after\":\"60\"");
    let at = "2026-11-30T07:22:00Z".parse().unwrap();
    assert_eq!(kind(&opencode(&[&limit])), Some(FaultKind::Limit { retry_at: Some(at) }));
    assert_eq!(kind(&opencode(&[&ERROR.replace("401", "503")])), Some(FaultKind::Transient));
    let unknown = r#"{"type":"error","error":{"name":"ProviderModelNotFoundError","data":{"providerID":"stub"}}}"#;
    assert_eq!(kind(&opencode(&[unknown])), Some(FaultKind::UnknownModel));
}
