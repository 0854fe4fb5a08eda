//! `aider` and `mini`, which print text for people only, and agents of which nothing is known.

use super::Dialect;
use super::fault::Complaint;
use super::message::{Tail, WORDS_KEPT};
use super::reader::Account;
use crate::tokens::{Cost, Figure, Tokens};

/// What was read so far.
#[derive(Debug)]
pub(super) struct Prose {
    dialect: Dialect,
    last: Tail,
    sums: Option<Tokens>,
    cost: Cost,
    complaint: Option<Complaint>,
    /// The agent said that it ends, and what it ends with follows.
    exits: bool,
    finished: bool,
}

impl Prose {
    pub(super) fn new(dialect: Dialect) -> Self {
        Self {
            dialect,
            last: if dialect == Dialect::Plain { Tail::new(WORDS_KEPT) } else { Tail::default() },
            sums: None,
            cost: Cost::UNKNOWN,
            complaint: None,
            exits: false,
            finished: false,
        }
    }

    /// Takes standard output as it comes.
    pub(super) fn output(&mut self, bytes: &[u8]) {
        self.last.push(bytes);
    }

    /// Bytes of standard output are missing here.
    pub(super) fn gap(&mut self) {
        self.last.gap();
    }

    /// Takes a line of standard output.
    pub(super) fn line(&mut self, line: &str) {
        match self.dialect {
            Dialect::Aider => self.aider(line),
            Dialect::Mini => self.mini(line),
            _ => {}
        }
    }

    fn aider(&mut self, line: &str) {
        if let Some(report) = line.strip_prefix("Tokens: ") {
            let tokens = report_of(report);
            self.sums = Some(self.sums.map_or(tokens, |sums| sums.and(&tokens)));
            (self.complaint, self.finished) = (None, true);
        } else if line.starts_with("litellm.") || line.starts_with("Invalid command: /") {
            (self.complaint, self.finished) = (Some(Complaint::new(line)), false);
        }
        // The report may go on after its figures or on a line of its own; the second sum is that of the session.
        let is_report = line.starts_with("Tokens: ") || line.starts_with("Cost: $");
        if let Some((_, costs)) = line.split_once("Cost: $").filter(|_| is_report) {
            let session = costs.split_once(" message, $").and_then(|(_, rest)| rest.split_once(" session"));
            self.cost = session.map_or(Cost::UNKNOWN, |(dollars, _)| dollars_of(dollars));
        }
    }

    fn mini(&mut self, line: &str) {
        let line = line.trim();
        if let Some(words) = line.strip_prefix("Exit:") {
            (self.exits, self.complaint, self.finished) = (true, None, true);
            self.ends_with(words);
        } else if let Some((_, dollars)) =
            line.strip_prefix("mini-swe-agent (step ").and_then(|rest| rest.split_once(", $"))
        {
            self.exits = false;
            // What a step says was paid before it; nothing at all where the model's prices are not known.
            let cost = dollars.split_once(')').map_or(Cost::UNKNOWN, |(dollars, _)| dollars_of(dollars));
            self.cost = if cost.micro_dollars > 0 { cost.as_part() } else { Cost::UNKNOWN };
        } else if self.exits {
            self.ends_with(line);
        }
    }

    /// The first words after the agent's own "exit" say why.
    fn ends_with(&mut self, words: &str) {
        let words = words.trim();
        if !words.is_empty() {
            self.exits = false;
            self.complaint = words.starts_with("litellm.").then(|| Complaint::new(words));
        }
    }

    pub(super) fn conclude(self, torn: bool) -> Account {
        Account {
            message: self.last.finish(),
            // Rounded, and an estimate where the answer was streamed: never the whole truth.
            tokens: self.sums.unwrap_or_default().as_parts(),
            cost: if torn { self.cost.as_part() } else { self.cost },
            complaint: self.complaint,
            finished: self.finished || self.dialect == Dialect::Plain,
        }
    }
}

/// `12k sent, 3.1k cache write, 2k cache hit, 678 received.`
fn report_of(report: &str) -> Tokens {
    let mut tokens = Tokens::default();
    let figures = report.split_once('.').map_or(report, |_| report.split(" Cost:").next().unwrap_or(report));
    for part in figures.trim_end().trim_end_matches('.').split(", ") {
        let Some((number, what)) = part.split_once(' ') else { continue };
        let Some(count) = count_of(number) else { continue };
        match what {
            "sent" => tokens.input = count,
            "cache hit" => tokens.cached_input = count,
            "received" => tokens.output = count,
            _ => {}
        }
    }
    if tokens.input.known && tokens.output.known {
        tokens.total = tokens.input.and(tokens.output);
    }
    tokens
}

/// `678`, `1.2k` or `12k`.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "the range is checked before")]
fn count_of(text: &str) -> Option<Figure> {
    let (number, unit) = text.strip_suffix('k').map_or((text, 1.0), |number| (number, 1000.0));
    let count = (number.replace(',', "").parse::<f64>().ok()? * unit).round();
    (0.0..1e15).contains(&count).then(|| Figure::part(count as u64))
}

fn dollars_of(text: &str) -> Cost {
    text.trim().parse().map_or(Cost::UNKNOWN, Cost::of_dollars)
}
