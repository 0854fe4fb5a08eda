//! The one HTTP report of a session: its final evidence, sent exactly once.
//!
//! The only place that talks to the network. Never tries again, never follows a redirect (its headers carry secrets), keeps
//! nothing that the other side says but its status, and has no say in anything else.

use std::ffi::{OsStr, OsString};

use serde::{Deserialize, Serialize};

use crate::config::Report;

/// What became of a report.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ReportOutcome {
    /// None is configured.
    #[default]
    NotRequested,
    /// The other side answered with a status from 200 to 299; what it does with the report is its own affair.
    Accepted,
    /// It did not.
    Failed,
}

/// Why a report failed, without a word of the other side.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FailureKind {
    /// The variable of a header is not set, or its value cannot stand in a header.
    Header,
    /// The address cannot be used.
    Address,
    /// The name of the host is not known.
    Name,
    /// No connection came about.
    Connect,
    /// The connection is not as safe as it has to be.
    Tls,
    /// The time was up.
    Timeout,
    /// The connection was closed, or the answer was none.
    Closed,
    /// The answer's status is not from 200 to 299.
    Status,
    /// Anything else.
    Other,
}

/// A report's outcome, with the status or the kind of failure.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Reported {
    /// What became of it.
    pub outcome: ReportOutcome,
    /// The status of the answer, if there was one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status: Option<u16>,
    /// Why it failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kind: Option<FailureKind>,
}

impl Reported {
    fn failed(kind: FailureKind) -> Self {
        Self { outcome: ReportOutcome::Failed, status: None, kind: Some(kind) }
    }

    /// The outcome that goes with a status.
    fn answered(status: u16) -> Self {
        if (200..300).contains(&status) {
            Self { outcome: ReportOutcome::Accepted, status: Some(status), kind: None }
        } else {
            Self { status: Some(status), ..Self::failed(FailureKind::Status) }
        }
    }
}

/// The reports of a whole run.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct ReportTally {
    /// The last that failed, else the last.
    #[serde(flatten)]
    reported: Reported,
    accepted: u32,
    failed: u32,
}

impl ReportTally {
    /// Counts one more.
    pub fn add(&mut self, reported: Reported) {
        match reported.outcome {
            ReportOutcome::NotRequested => return,
            ReportOutcome::Accepted => self.accepted += 1,
            ReportOutcome::Failed => self.failed += 1,
        }
        if self.failed == 0 || reported.outcome == ReportOutcome::Failed {
            self.reported = reported;
        }
    }
}

/// Sends `body`, which is JSON, once; `variable` looks up the values of the headers.
pub fn send<'v>(report: &Report, variable: impl Fn(&str) -> Option<&'v OsStr>, body: &[u8]) -> Reported {
    let config = ureq::Agent::config_builder()
        .timeout_global(Some(report.timeout))
        .http_status_as_error(false)
        .max_redirects(0)
        .proxy(None)
        .max_idle_connections(0)
        .user_agent(concat!("runner/", env!("CARGO_PKG_VERSION")))
        .build();
    let mut request = config.new_agent().post(&report.url).content_type("application/json");
    for (name, from) in &report.headers_from_env {
        let value = variable(from).map(OsStr::to_os_string).and_then(|value| OsString::into_string(value).ok());
        let Some(value) = value.filter(|value| can_stand_in_header(value.trim())) else {
            return Reported::failed(FailureKind::Header);
        };
        request = request.header(name, value.trim());
    }
    match request.send(body) {
        Ok(answer) => Reported::answered(answer.status().as_u16()),
        Err(error) => Reported::failed(kind(&error)),
    }
}

/// Whether a value is visible ASCII with spaces between (RFC 9110, section 5.5).
fn can_stand_in_header(value: &str) -> bool {
    !value.is_empty() && value.bytes().all(|byte| byte.is_ascii_graphic() || byte == b' ' || byte == b'\t')
}

/// The kind of an error; its text stays here.
fn kind(error: &ureq::Error) -> FailureKind {
    use std::io::ErrorKind;
    use ureq::Error;
    match error {
        Error::StatusCode(_) => FailureKind::Status,
        Error::Http(_) | Error::BadUri(_) => FailureKind::Address,
        Error::HostNotFound => FailureKind::Name,
        Error::Timeout(_) => FailureKind::Timeout,
        Error::ConnectionFailed => FailureKind::Connect,
        Error::Tls(_) | Error::Rustls(_) | Error::TlsRequired => FailureKind::Tls,
        Error::Protocol(_) | Error::LargeResponseHeader(..) => FailureKind::Closed,
        Error::Io(error) => match error.kind() {
            ErrorKind::TimedOut | ErrorKind::WouldBlock => FailureKind::Timeout,
            ErrorKind::ConnectionRefused
            | ErrorKind::HostUnreachable
            | ErrorKind::NetworkUnreachable
            | ErrorKind::AddrNotAvailable => FailureKind::Connect,
            ErrorKind::ConnectionReset
            | ErrorKind::ConnectionAborted
            | ErrorKind::BrokenPipe
            | ErrorKind::UnexpectedEof => FailureKind::Closed,
            // How a TLS session that came to nothing is told.
            ErrorKind::InvalidData => FailureKind::Tls,
            _ => FailureKind::Other,
        },
        _ => FailureKind::Other,
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::io::{Read, Write};
    use std::net::{TcpListener, TcpStream};
    use std::sync::mpsc;
    use std::thread;
    use std::time::Duration;

    use super::*;

    /// What a server does with its only connection, once it has the request.
    type Answer = fn(&mut TcpStream);

    /// A server on loopback that takes connections until the report is over; gives back all requests it got.
    fn against(answer: Answer, timeout: Duration) -> (Reported, Vec<String>) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let (over, is_over) = mpsc::channel::<()>();
        let server = thread::spawn(move || {
            let mut requests = Vec::new();
            loop {
                let (mut stream, _) = listener.accept().unwrap();
                let request = request(&mut stream);
                if request.is_empty() {
                    return requests;
                }
                requests.push(request);
                answer(&mut stream);
                // Whoever answers nothing keeps the connection until the report has given up.
                if requests.len() == 1 {
                    is_over.recv().unwrap();
                }
            }
        });
        let reported = send(&report(format!("http://{address}/in?x=1"), timeout), variable, br#"{"a":1}"#);
        over.send(()).unwrap();
        // A connection that says nothing ends the server; a second report would have come before it.
        drop(TcpStream::connect(address).unwrap());
        (reported, server.join().unwrap())
    }

    fn report(url: String, timeout: Duration) -> Report {
        let headers_from_env = BTreeMap::from([("Authorization".to_owned(), "REPORT_AUTH".to_owned())]);
        Report { url, headers_from_env, timeout }
    }

    fn variable(name: &str) -> Option<&'static OsStr> {
        (name == "REPORT_AUTH").then_some(OsStr::new("Bearer hunter2\n"))
    }

    /// The whole request, which has a body of seven bytes.
    fn request(stream: &mut TcpStream) -> String {
        let mut all = Vec::new();
        let mut piece = [0; 1024];
        while !all.ends_with(br#"{"a":1}"#) {
            match stream.read(&mut piece).unwrap() {
                0 => break,
                length => all.extend_from_slice(&piece[..length]),
            }
        }
        String::from_utf8(all).unwrap()
    }

    fn says(stream: &mut TcpStream, text: &str) {
        stream.write_all(text.as_bytes()).unwrap();
    }

    const LONG: Duration = Duration::from_mins(1);

    #[test]
    fn an_accepted_report_was_one_request_with_its_headers() {
        let (reported, requests) =
            against(|stream| says(stream, "HTTP/1.1 202 Accepted\r\nContent-Length: 0\r\n\r\n"), LONG);
        assert_eq!(reported, Reported { outcome: ReportOutcome::Accepted, status: Some(202), kind: None });
        let [request] = requests.as_slice() else { panic!("{requests:?}") };
        let lower = request.to_lowercase();
        assert!(request.starts_with("POST /in?x=1 HTTP/1.1\r\n"), "{request}");
        for header in ["authorization: bearer hunter2\r\n", "content-type: application/json\r\n", "user-agent: runner/"]
        {
            assert!(lower.contains(header), "{header} in {request}");
        }
        assert!(request.ends_with("\r\n\r\n{\"a\":1}"), "{request}");
    }

    #[test]
    fn a_refused_report_is_not_tried_again() {
        let answer: Answer =
            |stream| says(stream, "HTTP/1.1 503 No\r\nRetry-After: 0\r\nContent-Length: 6\r\n\r\nsecret");
        let (reported, requests) = against(answer, LONG);
        assert_eq!(reported, Reported { status: Some(503), ..Reported::failed(FailureKind::Status) });
        assert_eq!(requests.len(), 1);
        let written = serde_json::to_string(&reported).unwrap();
        assert_eq!(written, r#"{"outcome":"failed","status":503,"kind":"status"}"#, "nothing of what the server said");
    }

    #[test]
    fn a_redirect_is_not_followed() {
        let answer: Answer =
            |stream| says(stream, "HTTP/1.1 307 There\r\nLocation: http://127.0.0.1:9/\r\nContent-Length: 0\r\n\r\n");
        let (reported, requests) = against(answer, LONG);
        assert_eq!(reported, Reported { status: Some(307), ..Reported::failed(FailureKind::Status) });
        assert_eq!(requests.len(), 1);
    }

    #[test]
    fn a_server_that_never_answers_costs_the_time_limit_and_no_more() {
        let (reported, requests) = against(|_| {}, Duration::from_secs(2));
        assert_eq!(reported, Reported::failed(FailureKind::Timeout));
        assert_eq!(requests.len(), 1);
    }

    #[test]
    fn a_server_that_closes_is_a_failure() {
        let (reported, requests) = against(|stream| stream.shutdown(std::net::Shutdown::Both).unwrap(), LONG);
        assert_eq!(reported, Reported::failed(FailureKind::Closed));
        assert_eq!(requests.len(), 1);
    }

    #[test]
    fn a_failure_is_not_hidden_by_later_reports_of_the_run() {
        let mut tally = ReportTally::default();
        let shown = |tally: &ReportTally| serde_json::to_string(tally).unwrap();
        tally.add(Reported::default());
        assert_eq!(shown(&tally), r#"{"outcome":"not_requested","accepted":0,"failed":0}"#);
        tally.add(Reported::answered(200));
        assert_eq!(shown(&tally), r#"{"outcome":"accepted","status":200,"accepted":1,"failed":0}"#);
        tally.add(Reported::answered(503));
        tally.add(Reported::answered(204));
        assert_eq!(shown(&tally), r#"{"outcome":"failed","status":503,"kind":"status","accepted":2,"failed":1}"#);
    }

    #[test]
    fn nobody_there_is_a_failure() {
        // Port 1 is kept for a service that nobody runs.
        let reported = send(&report("http://127.0.0.1:1/".to_owned(), LONG), variable, b"{}");
        assert_eq!(reported, Reported::failed(FailureKind::Connect));
    }

    #[test]
    fn a_server_that_speaks_no_tls_is_no_safe_connection() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let server = thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            says(&mut stream, "HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n");
            // Until the other side has seen enough.
            let mut rest = Vec::new();
            drop(stream.read_to_end(&mut rest));
            String::from_utf8_lossy(&rest).into_owned()
        });
        let reported = send(&report(format!("https://{address}/"), LONG), variable, b"{}");
        assert_eq!(reported, Reported::failed(FailureKind::Tls));
        assert!(!server.join().unwrap().contains("hunter2"), "no header went over it");
    }

    #[test]
    fn without_the_value_of_a_header_nothing_is_sent() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        listener.set_nonblocking(true).unwrap();
        let report = report(format!("http://{}/", listener.local_addr().unwrap()), LONG);
        for value in [None, Some("two\nlines"), Some(" ")] {
            let reported = send(&report, |_| value.map(OsStr::new), b"{}");
            assert_eq!(reported, Reported::failed(FailureKind::Header), "{value:?}");
        }
        assert!(listener.accept().is_err(), "nobody came");
    }
}
