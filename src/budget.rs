//! Budgets: what a task or a run may use, what is counted against it, and in which words it is used up. Pure.
//!
//! A figure that an agent did not state is unknown: it adds nothing to a sum, and every sum says of how many sessions that is so.

use serde::{Deserialize, Serialize};

use crate::tokens::{Cost, Figure, Tokens};

/// What sessions may use together; what is left out has no bound.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Budget {
    /// How many there may be.
    pub sessions: Option<u32>,
    /// How long their processes may run, in seconds.
    pub wall_seconds: Option<u64>,
    /// How many tokens they may read and write.
    pub tokens: Option<u64>,
    /// What they may cost, in millionths of a US dollar.
    pub micro_dollars: Option<u64>,
}

/// The budgets of each task and of a run.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Budgets {
    /// Of each task over all roles, since a person last answered for it.
    pub task: Budget,
    /// Of the run.
    pub run: Budget,
}

impl Budgets {
    /// Whether anything is bounded.
    pub fn is_any(&self) -> bool {
        *self != Self::default()
    }
}

/// What sessions used together.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Used {
    /// How many there were, less those that a usage limit ended.
    pub sessions: u32,
    /// How many there were.
    pub begun: u32,
    /// How long their processes ran, in milliseconds.
    pub wall_ms: Figure,
    /// What they read and wrote.
    pub tokens: Figure,
    /// What they cost.
    pub cost: Cost,
    /// Of how many each of these figures is not wholly known.
    pub unknown: Unknown,
}

/// Of how many sessions a figure is not wholly known.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Unknown {
    /// How long they ran.
    pub wall_ms: u32,
    /// What they read and wrote.
    pub tokens: u32,
    /// What they cost.
    pub cost: u32,
}

impl Used {
    /// There was no session.
    pub const NOTHING: Self = Self {
        sessions: 0,
        begun: 0,
        wall_ms: Figure::NOTHING,
        tokens: Figure::NOTHING,
        cost: Cost::NOTHING,
        unknown: Unknown { wall_ms: 0, tokens: 0, cost: 0 },
    };

    /// One session, as far as it is known.
    pub fn session(wall_ms: Figure, tokens: &Tokens, cost: Cost) -> Self {
        // What was read or written alone is a part of the whole.
        let tokens = if tokens.total.known { tokens.total } else { tokens.input.and(tokens.output).as_part() };
        let unless = |complete: bool| u32::from(!complete);
        let unknown =
            Unknown { wall_ms: unless(wall_ms.complete), tokens: unless(tokens.complete), cost: unless(cost.complete) };
        Self { sessions: 1, begun: 1, wall_ms, tokens, cost, unknown }
    }

    /// One session of which nothing is known but that it began.
    pub fn unknown_session() -> Self {
        Self::session(Figure::UNKNOWN, &Tokens::default(), Cost::UNKNOWN)
    }

    /// The same, of which so many count as sessions.
    #[must_use]
    pub fn with_sessions(self, sessions: u32) -> Self {
        Self { sessions, ..self }
    }

    /// The sum with what others used.
    #[must_use]
    pub fn and(self, other: Self) -> Self {
        let unknown = Unknown {
            wall_ms: self.unknown.wall_ms.saturating_add(other.unknown.wall_ms),
            tokens: self.unknown.tokens.saturating_add(other.unknown.tokens),
            cost: self.unknown.cost.saturating_add(other.unknown.cost),
        };
        Self {
            sessions: self.sessions.saturating_add(other.sessions),
            begun: self.begun.saturating_add(other.begun),
            wall_ms: self.wall_ms.and(other.wall_ms),
            tokens: self.tokens.and(other.tokens),
            cost: self.cost.and(other.cost),
            unknown,
        }
    }

    /// What of the budget is used up, with the figures; nothing if another session may begin.
    pub fn up(&self, budget: &Budget) -> Option<String> {
        let used_up: Vec<String> =
            self.lines(budget).into_iter().filter(Line::is_used_up).map(|line| line.text).collect();
        (!used_up.is_empty()).then(|| used_up.join(", "))
    }

    /// What the budget bounds and is not wholly known, with the figures.
    pub fn in_the_dark(&self, budget: &Budget) -> Option<String> {
        let dark: Vec<String> =
            self.lines(budget).into_iter().filter(|line| line.unknown > 0).map(|line| line.text).collect();
        (!dark.is_empty()).then(|| dark.join(", "))
    }

    /// A line for each figure that the budget bounds.
    fn lines(&self, budget: &Budget) -> Vec<Line> {
        let of = |unknown: u32| match (unknown, self.begun) {
            (0, _) => String::new(),
            (1, 1) => " (1 session unknown)".to_owned(),
            (unknown, begun) => format!(" ({unknown} of {begun} sessions unknown)"),
        };
        let line = |(used, bound): (u64, u64), unknown: u32, text: String| Line {
            used,
            bound,
            unknown,
            text: text + &of(unknown),
        };
        let sessions = budget.sessions.map(|bound| {
            line((self.sessions.into(), bound.into()), 0, format!("sessions {} of {bound}", self.sessions))
        });
        let wall = budget.wall_seconds.map(|bound| {
            let text = format!("wall time {} s of {bound} s", self.wall_ms.value / 1000);
            line((self.wall_ms.value, bound.saturating_mul(1000)), self.unknown.wall_ms, text)
        });
        let tokens = budget.tokens.map(|bound| {
            line((self.tokens.value, bound), self.unknown.tokens, format!("tokens {} of {bound}", self.tokens.value))
        });
        let cost = budget.micro_dollars.map(|bound| {
            let text = format!("cost {} of {} dollars", dollars(self.cost.micro_dollars), dollars(bound));
            line((self.cost.micro_dollars, bound), self.unknown.cost, text)
        });
        [sessions, wall, tokens, cost].into_iter().flatten().collect()
    }
}

impl Default for Used {
    fn default() -> Self {
        Self::NOTHING
    }
}

/// One figure beside its bound.
struct Line {
    used: u64,
    bound: u64,
    unknown: u32,
    text: String,
}

impl Line {
    fn is_used_up(&self) -> bool {
        self.used >= self.bound
    }
}

/// Millionths as dollars: two decimals, or as many as it takes.
fn dollars(micro: u64) -> String {
    let (whole, rest) = (micro / 1_000_000, format!("{:06}", micro % 1_000_000));
    format!("{whole}.{}{}", &rest[..2], rest[2..].trim_end_matches('0'))
}

/// The millionths of a sum of money that is written with at most six decimals.
pub fn micro_dollars(amount: f64) -> Option<u64> {
    // The shortest decimal text of a number is the one that it was written as, and never has an exponent.
    let text = format!("{amount}");
    let (whole, decimals) = text.split_once('.').unwrap_or((&text, ""));
    let is_digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    if whole.is_empty() || decimals.len() > 6 || !is_digits(whole) || !is_digits(decimals) {
        return None;
    }
    let millionths: u64 = format!("{decimals:0<6}").parse().ok()?;
    whole.parse::<u64>().ok()?.checked_mul(1_000_000)?.checked_add(millionths)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn session(wall_ms: u64, tokens: u64, micro: u64) -> Used {
        let tokens = Tokens { total: Figure::whole(tokens), ..Tokens::default() };
        let cost = Cost { micro_dollars: micro, known: true, complete: true };
        Used::session(Figure::whole(wall_ms), &tokens, cost)
    }

    #[test]
    fn a_budget_is_used_up_when_any_of_its_figures_is_reached_and_the_figures_are_named() {
        let used = session(61_500, 70_000, 1_250_000).and(session(61_400, 50_000, 0));
        let none = Budget::default();
        for (budget, wanted) in [
            (none, None),
            (Budget { sessions: Some(3), ..none }, None),
            (Budget { sessions: Some(2), ..none }, Some("sessions 2 of 2")),
            (Budget { wall_seconds: Some(123), ..none }, None),
            (Budget { wall_seconds: Some(122), ..none }, Some("wall time 122 s of 122 s")),
            (Budget { tokens: Some(120_001), ..none }, None),
            (Budget { tokens: Some(100_000), ..none }, Some("tokens 120000 of 100000")),
            (Budget { micro_dollars: Some(1_250_001), ..none }, None),
            (Budget { micro_dollars: Some(1_200_500), ..none }, Some("cost 1.25 of 1.2005 dollars")),
            (
                Budget { sessions: Some(1), tokens: Some(1), micro_dollars: Some(u64::MAX), ..none },
                Some("sessions 2 of 1, tokens 120000 of 1"),
            ),
        ] {
            assert_eq!(used.up(&budget).as_deref(), wanted, "{budget:?}");
        }
        let all = Budget { sessions: Some(1), wall_seconds: Some(1), tokens: Some(1), micro_dollars: Some(1) };
        assert_eq!(Used::NOTHING.up(&all), None);
    }

    #[test]
    fn what_is_unknown_adds_nothing_and_is_always_said() {
        let part = Tokens { input: Figure::whole(5), ..Tokens::default() };
        let used = session(1_000, 100, 7).and(Used::unknown_session()).and(Used::session(
            Figure::whole(500),
            &part,
            Cost::of_dollars(0.5).as_part(),
        ));
        assert_eq!((used.begun, used.tokens, used.cost.micro_dollars), (3, Figure::part(105), 500_007));
        let budget = Budget { tokens: Some(105), micro_dollars: Some(1_000_000), ..Budget::default() };
        assert_eq!(used.up(&budget).as_deref(), Some("tokens 105 of 105 (2 of 3 sessions unknown)"));
        let dark =
            "tokens 105 of 105 (2 of 3 sessions unknown), cost 0.500007 of 1.00 dollars (2 of 3 sessions unknown)";
        assert_eq!(used.in_the_dark(&budget).as_deref(), Some(dark));
        let alone = Used::unknown_session();
        assert_eq!(
            alone.in_the_dark(&budget).as_deref(),
            Some("tokens 0 of 105 (1 session unknown), cost 0.00 of 1.00 dollars (1 session unknown)")
        );
        assert_eq!((alone.up(&budget), alone.in_the_dark(&Budget::default())), (None, None));
    }

    #[test]
    fn a_session_that_a_limit_ended_is_none_and_what_it_used_is_counted_all_the_same() {
        let used = session(1_000, 100, 7).with_sessions(0).and(session(1_000, 100, 7));
        assert_eq!((used.sessions, used.begun, used.tokens.value), (1, 2, 200));
    }

    #[test]
    fn money_is_read_as_it_is_written() {
        for (written, wanted) in [
            (1.0, Some(1_000_000)),
            (0.1, Some(100_000)),
            (2.55, Some(2_550_000)),
            (0.000_001, Some(1)),
            (999_999.999_999, Some(999_999_999_999)),
            (0.000_000_1, None),
            (1.234_567_8, None),
            (-1.0, None),
            (f64::NAN, None),
            (f64::INFINITY, None),
            (1e300, None),
        ] {
            assert_eq!(micro_dollars(written), wanted, "{written}");
        }
    }

    proptest! {
        #[test]
        fn any_sum_of_money_survives_its_own_text(micro in 0..1_000_000_000_000_u64) {
            prop_assert_eq!(micro_dollars(dollars(micro).parse().unwrap()), Some(micro));
        }
    }
}
