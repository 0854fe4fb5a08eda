//! What the agent's own output says of a session: read while it runs, and put on record when it is over.
//!
//! Nothing here decides what becomes of the task: an agent's word is no evidence of its work.

use jiff::Zoned;

use crate::agents::{Reader, Stream};
use crate::evidence::{MessageRecord, RunRecord};
use crate::session::{ExecutionResult, Exit};
use crate::tokens::{Cost, Tokens};

use super::prepare::Command;

/// The reader of one session's output.
pub(super) struct Listener(Reader);

impl Listener {
    /// A reader of what the command will print.
    pub(super) fn new(command: &Command) -> Self {
        Self(Reader::new(command.agent.dialect))
    }

    /// Takes output as it is read.
    pub(super) fn hear(&mut self, stream: Stream, bytes: &[u8]) {
        self.0.feed(stream, bytes);
    }

    /// Output is missing here.
    pub(super) fn miss(&mut self, stream: Stream) {
        self.0.gap(stream);
    }

    /// Puts on record what was read, and gives what the agent said last if its dialect tells; `now` is the session's end.
    pub(super) fn note(self, record: &mut RunRecord, result: &ExecutionResult, now: &Zoned) -> Option<String> {
        if result.pid.is_none() {
            nothing_ran(record);
            return None;
        }
        let reading = self.0.finish(now);
        let reading = match result.exit {
            Some(Exit::Code(code)) => reading.with_exit_status(code),
            _ => reading,
        };
        record.tokens = reading.tokens;
        record.cost = reading.cost;
        record.agent_fault = reading.fault;
        record.skipped_lines = reading.skipped_lines;
        let message = reading.final_message?;
        record.final_message = Some(MessageRecord { bytes: message.text.len(), truncated: message.truncated });
        Some(message.text)
    }
}

/// Puts on record that there was no agent that could have used anything.
pub(super) fn nothing_ran(record: &mut RunRecord) {
    (record.tokens, record.cost) = (Tokens::NOTHING, Cost::NOTHING);
}
