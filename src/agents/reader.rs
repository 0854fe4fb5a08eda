//! The reader of one session's output, fed as the bytes come; what it makes does not depend on how they were cut.

use jiff::Zoned;
use serde_json::Value;

use super::claude::{Claude, Flavour};
use super::codex::Codex;
use super::fault::{AgentFault, Class, Complaint, FaultKind, class_of_status};
use super::gemini::Gemini;
use super::lines::{Lines, Piece};
use super::message::FinalMessage;
use super::opencode::Opencode;
use super::prose::Prose;
use super::{Dialect, Stream, record};
use crate::tokens::{Cost, Figure, Tokens};

/// What an agent's output says about its session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reading {
    /// Whose output it was taken for.
    pub dialect: Dialect,
    /// What the agent said last.
    pub final_message: Option<FinalMessage>,
    /// What the model read and wrote, by the one definition of [`crate::tokens`].
    pub tokens: Tokens,
    /// What it cost, if that is stated.
    pub cost: Cost,
    /// The last error, if nothing was said to have gone well after it.
    pub fault: Option<AgentFault>,
    /// The agent came to its own end: the record, or the words, that end its output were read.
    pub finished: bool,
    /// Lines of standard output that could not be read: no record where each line is one, or too long, or with a gap.
    pub skipped_lines: u64,
}

/// One dialect's records, heard one after another.
pub(super) trait Listen: std::fmt::Debug {
    /// Takes a record of standard output.
    fn hear(&mut self, record: &Value);
    /// What it all said. `torn` if a record may have been lost.
    fn conclude(self: Box<Self>, torn: bool) -> Account;
}

/// What one dialect made of the output.
#[derive(Debug, Default)]
pub(super) struct Account {
    pub(super) message: Option<FinalMessage>,
    pub(super) tokens: Tokens,
    pub(super) cost: Cost,
    pub(super) complaint: Option<Complaint>,
    pub(super) finished: bool,
}

#[derive(Debug)]
enum Voice {
    Records(Box<dyn Listen>),
    Prose(Box<Prose>),
}

/// What was met in the lines besides what they say.
#[derive(Debug, Default)]
struct Notes {
    skipped: u64,
    /// A record may have been lost.
    torn: bool,
    /// The last error that standard error spoke of.
    aside: Option<Complaint>,
}

/// Reads one session's output.
#[derive(Debug)]
pub struct Reader {
    dialect: Dialect,
    stdout: Lines,
    stderr: Lines,
    voice: Voice,
    notes: Notes,
}

impl Reader {
    /// A reader that has read nothing.
    pub fn new(dialect: Dialect) -> Self {
        let voice = match dialect {
            Dialect::Codex => Voice::Records(Box::<Codex>::default()),
            Dialect::Claude => Voice::Records(Box::new(Claude::new(Flavour::Claude))),
            Dialect::Qwen => Voice::Records(Box::new(Claude::new(Flavour::Qwen))),
            Dialect::Gemini => Voice::Records(Box::<Gemini>::default()),
            Dialect::Opencode => Voice::Records(Box::<Opencode>::default()),
            Dialect::Aider | Dialect::Mini | Dialect::Plain => Voice::Prose(Box::new(Prose::new(dialect))),
        };
        Self { dialect, stdout: Lines::default(), stderr: Lines::default(), voice, notes: Notes::default() }
    }

    /// Takes the next bytes of a stream.
    pub fn feed(&mut self, stream: Stream, bytes: &[u8]) {
        if let (Voice::Prose(prose), Stream::Stdout) = (&mut self.voice, stream) {
            prose.output(bytes);
        }
        // Nothing is known of its lines.
        if self.dialect == Dialect::Plain {
            return;
        }
        let (voice, notes) = (&mut self.voice, &mut self.notes);
        match stream {
            Stream::Stdout => self.stdout.feed(bytes, &mut |piece| output(voice, notes, &piece)),
            Stream::Stderr => self.stderr.feed(bytes, &mut |piece| notes.error(&piece)),
        }
    }

    /// Says that bytes of a stream are missing here.
    pub fn gap(&mut self, stream: Stream) {
        match stream {
            Stream::Stdout => {
                if let Voice::Prose(prose) = &mut self.voice {
                    prose.gap();
                }
                self.notes.torn = true;
                self.stdout.gap();
            }
            Stream::Stderr => self.stderr.gap(),
        }
    }

    /// What the output says. `now` is the end of the session, by which relative times and times of day are understood, in the
    /// zone that the agent ran in.
    pub fn finish(self, now: &Zoned) -> Reading {
        let Self { dialect, stdout, stderr, mut voice, mut notes } = self;
        if dialect != Dialect::Plain {
            stdout.finish(&mut |piece| output(&mut voice, &mut notes, &piece));
            stderr.finish(&mut |piece| notes.error(&piece));
        }
        let account = match voice {
            Voice::Records(listen) => listen.conclude(notes.torn),
            Voice::Prose(prose) => prose.conclude(notes.torn),
        };
        // What standard error says was tried again counts only for an agent that did not come to its end.
        let aside = notes.aside.filter(|_| !account.finished);
        let mut reading = Reading {
            dialect,
            final_message: account.message,
            tokens: account.tokens,
            cost: account.cost,
            fault: account.complaint.or(aside).map(|complaint| complaint.judge(now)),
            finished: account.finished,
            skipped_lines: notes.skipped,
        };
        if reading.tokens.input == Figure::NOTHING && reading.broke_off() {
            // The service may have read much before it broke off.
            (reading.tokens, reading.cost) = (reading.tokens.as_parts(), reading.cost.as_part());
        }
        reading
    }
}

impl Reading {
    /// The last answer may have been begun and never ended, unlike one that was refused.
    fn broke_off(&self) -> bool {
        self.fault.as_ref().is_some_and(|fault| matches!(fault.kind, FaultKind::Transient | FaultKind::Other))
    }

    /// What the agent's exit status adds where its output names no cause.
    ///
    /// Gemini exits with the HTTP status modulo 256, so that a refused login looks like the end by a signal, and with 41 where
    /// it has no login at all. Other agents' statuses say nothing of the cause.
    #[must_use]
    pub fn with_exit_status(mut self, code: i32) -> Self {
        let is_unclear = self.fault.as_ref().is_none_or(|fault| fault.kind == FaultKind::Other);
        if self.dialect != Dialect::Gemini || !is_unclear {
            return self;
        }
        let http = [401, 403, 404, 408, 429, 500, 502, 503, 504].into_iter().find(|status| status % 256 == code);
        let class = match (code, http) {
            (41, _) => Some(Class::Authentication),
            (_, Some(status)) => u16::try_from(status).ok().and_then(class_of_status),
            _ => None,
        };
        let kind = match class {
            Some(Class::Authentication) => FaultKind::Authentication,
            Some(Class::Limit) => FaultKind::Limit { retry_at: None },
            Some(Class::Transient) => FaultKind::Transient,
            Some(Class::UnknownModel) => FaultKind::UnknownModel,
            _ => return self,
        };
        let text = self.fault.map_or_else(|| format!("exit status {code}"), |fault| fault.text);
        self.fault = Some(AgentFault { kind, text });
        self
    }
}

fn output(voice: &mut Voice, notes: &mut Notes, piece: &Piece<'_>) {
    let line = match piece {
        Piece::Lost => {
            (notes.skipped, notes.torn) = (notes.skipped + 1, true);
            return;
        }
        Piece::Line(line) => *line,
    };
    match voice {
        Voice::Prose(prose) => prose.line(&String::from_utf8_lossy(line)),
        Voice::Records(listen) => match record::parse(line) {
            Some(record) => listen.hear(&record),
            None if line.trim_ascii().is_empty() => {}
            None => {
                notes.skipped += 1;
                // What does not even begin as a record is words.
                notes.torn |= line.trim_ascii_start().starts_with(b"{");
            }
        },
    }
}

impl Notes {
    /// Takes a line of standard error: only what announces itself as an error that is met by trying again is one.
    fn error(&mut self, piece: &Piece<'_>) {
        let Piece::Line(line) = piece else { return };
        let line = String::from_utf8_lossy(&line[..line.len().min(4096)]);
        let attempt =
            line.strip_prefix("Attempt ").and_then(|rest| rest.split_once(" failed: ")).map(|(_, words)| words);
        let retry =
            line.strip_prefix("Retrying ").and_then(|rest| rest.split_once(" as it raised ")).map(|(_, words)| words);
        let complaint = attempt.or(retry).map(Complaint::new).filter(Complaint::is_recognised);
        self.aside = complaint.or(self.aside.take());
    }
}
