//! Any bytes, cut in any way.

use proptest::prelude::*;

use super::*;

/// Lines that readers look into, whole, broken, and of wrong types.
const LINES: [&str; 22] = [
    r#"{"type":"turn.completed","usage":{"input_tokens":1,"cached_input_tokens":2,"output_tokens":18446744073709551615}}"#,
    r#"{"type":"turn.failed","error":{"message":"You’ve hit your usage limit, try again at 3:34 AM."}}"#,
    r#"{"type":"error","message":"Reconnecting... 3/5 (unexpected status 401"}"#,
    r#"{"type":"item.completed","item":{"type":"agent_message","text":"words ä"}}"#,
    r#"{"type":"assistant","message":{"id":"a","content":[{"type":"text","text":"x"}],"usage":{"input_tokens":1,"output_tokens":2}}}"#,
    r#"{"type":"assistant","message":{"id":7,"content":{},"usage":[]},"parent_tool_use_id":1}"#,
    r#"{"type":"result","subtype":"success","is_error":true,"api_error_status":429,"result":"resets 3pm","modelUsage":{"m":{"inputTokens":-1}}}"#,
    r#"{"type":"result","status":"error","error":{"message":"[API Error: {\"error\":{\"code\":500}}]"},"stats":{"total_tokens":1,"input_tokens":2}}"#,
    r#"{"type":"result","result":"[API Error: 500 x]","total_cost_usd":-1e300,"num_turns":0}"#,
    r#"{"type":"system","subtype":"api_retry","error_status":429,"error":"rate_limit"}"#,
    r#"{"type":"rate_limit_event","rate_limit_info":{"status":"rejected","resetsAt":1796026800}}"#,
    r#"{"type":"step_finish","part":{"tokens":{"input":18446744073709551615,"cache":{"read":5}},"cost":1}}"#,
    r#"{"type":"step_start"}"#,
    r#"{"type":"error","error":{"name":"APIError","data":{"statusCode":429,"responseHeaders":{"retry-after":"5"}}}}"#,
    r#"{"type":"message","role":"assistant","content":"ö"}"#,
    "Tokens: 12k sent, 678 received. Cost: $0.05 message, $0.12 session.",
    "litellm.RateLimitError: x",
    "mini-swe-agent (step 1, $0.25):",
    "Exit:",
    "Attempt 1 failed: 429",
    "{",
    "",
];

fn a_line() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![
        6 => (0..LINES.len()).prop_map(|at| LINES[at].as_bytes().to_vec()),
        1 => prop::collection::vec(any::<u8>(), 0..20),
        1 => (0..LINES.len(), 0..60_usize).prop_map(|(at, cut)| LINES[at].as_bytes()[..cut.min(LINES[at].len())].to_vec()),
    ]
}

fn streams() -> impl Strategy<Value = Vec<(bool, Vec<u8>)>> {
    let line_end = prop_oneof![9 => Just("\n"), 1 => Just("\r\n"), 1 => Just("")];
    let line = (any::<bool>(), a_line(), line_end)
        .prop_map(|(is_error, line, end)| (is_error, [line, end.as_bytes().to_vec()].concat()));
    prop::collection::vec(line, 0..12)
}

fn read_in(dialect: Dialect, parts: &[(bool, Vec<u8>)], sizes: &[usize]) -> Reading {
    let mut reader = Reader::new(dialect);
    let mut sizes = sizes.iter().cycle();
    for (is_error, bytes) in parts {
        let stream = if *is_error { Stream::Stderr } else { Stream::Stdout };
        let mut rest = bytes.as_slice();
        while !rest.is_empty() {
            let size = sizes.next().map_or(rest.len(), |size| (*size).min(rest.len()));
            reader.feed(stream, &rest[..size]);
            rest = &rest[size..];
        }
    }
    reader.finish(&now())
}

proptest! {
    #[test]
    fn any_bytes_in_any_chunking_give_the_same_and_never_a_panic(
        parts in streams(), sizes in prop::collection::vec(1..40_usize, 1..6)
    ) {
        for dialect in Dialect::ALL {
            let whole = read_in(dialect, &parts, &[]);
            prop_assert_eq!(&read_in(dialect, &parts, &sizes), &whole);
            prop_assert_eq!(&read_in(dialect, &parts, &[1]), &whole);
            // How the two streams came in between each other is chance.
            let mut apart = parts.clone();
            apart.sort_by_key(|(is_error, _)| *is_error);
            prop_assert_eq!(&read_in(dialect, &apart, &sizes), &whole);
        }
    }

    #[test]
    fn a_figure_that_is_not_known_is_never_called_complete(parts in streams()) {
        for dialect in Dialect::ALL {
            let Tokens { input, cached_input, output, reasoning, total } = read_in(dialect, &parts, &[]).tokens;
            for figure in [input, cached_input, output, reasoning, total] {
                prop_assert!(figure.known || (figure == Figure::UNKNOWN));
            }
        }
    }
}
