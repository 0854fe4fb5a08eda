//! The five token figures of a session or of many, and what it cost, each with what is known about it. Pure.
//!
//! One definition for all agents, whatever their own is: `input` is everything the model read, `cached_input` the part of it
//! that came from a cache; `output` is everything it wrote, `reasoning` the part of it that is not shown; `total` is input and
//! output. A figure that nobody stated is unknown, never zero.

use serde::{Deserialize, Serialize};

/// A count of tokens, or what is known of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Figure {
    /// The sum of what was stated, in tokens; 0 if nothing was.
    pub value: u64,
    /// Whether anything was stated.
    pub known: bool,
    /// Whether everything was stated, so that `value` is the whole and not a part.
    pub complete: bool,
}

impl Figure {
    /// Nothing was stated.
    pub const UNKNOWN: Self = Self { value: 0, known: false, complete: false };
    /// There was nothing to count: a known, complete zero.
    pub const NOTHING: Self = Self { value: 0, known: true, complete: true };

    /// A count that is the whole.
    pub const fn whole(value: u64) -> Self {
        Self { value, known: true, complete: true }
    }

    /// A count of which more may be missing.
    pub const fn part(value: u64) -> Self {
        Self { value, known: true, complete: false }
    }

    /// The same count, of which more may be missing.
    #[must_use]
    pub fn as_part(self) -> Self {
        Self { complete: false, ..self }
    }

    /// The sum with another run's figure: known if either is, complete if both are; a sum that does not fit is no whole.
    #[must_use]
    pub fn and(self, other: Self) -> Self {
        let sum = self.value.checked_add(other.value);
        Self {
            value: sum.unwrap_or(u64::MAX),
            known: self.known || other.known,
            complete: self.complete && other.complete && sum.is_some(),
        }
    }
}

impl Default for Figure {
    fn default() -> Self {
        Self::UNKNOWN
    }
}

/// The five figures.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Tokens {
    /// Everything the model read.
    #[serde(default)]
    pub input: Figure,
    /// The part of the input that came from a cache.
    #[serde(default)]
    pub cached_input: Figure,
    /// Everything the model wrote.
    #[serde(default)]
    pub output: Figure,
    /// The part of the output that is not shown.
    #[serde(default)]
    pub reasoning: Figure,
    /// Input and output together.
    #[serde(default)]
    pub total: Figure,
}

impl Tokens {
    /// There was no session to count: known, complete zeros.
    pub const NOTHING: Self = Self {
        input: Figure::NOTHING,
        cached_input: Figure::NOTHING,
        output: Figure::NOTHING,
        reasoning: Figure::NOTHING,
        total: Figure::NOTHING,
    };

    /// The same figures, of each of which more may be missing.
    #[must_use]
    pub fn as_parts(&self) -> Self {
        Self {
            input: self.input.as_part(),
            cached_input: self.cached_input.as_part(),
            output: self.output.as_part(),
            reasoning: self.reasoning.as_part(),
            total: self.total.as_part(),
        }
    }

    /// The sum with another session's figures, field by field.
    #[must_use]
    pub fn and(self, other: &Self) -> Self {
        Self {
            input: self.input.and(other.input),
            cached_input: self.cached_input.and(other.cached_input),
            output: self.output.and(other.output),
            reasoning: self.reasoning.and(other.reasoning),
            total: self.total.and(other.total),
        }
    }
}

/// What was paid, in millionths of a US dollar, or what is known of it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Cost {
    /// The sum of what was stated; 0 if nothing was.
    pub micro_dollars: u64,
    /// Whether anything was stated.
    pub known: bool,
    /// Whether everything was stated.
    pub complete: bool,
}

impl Cost {
    /// Nothing was stated.
    pub const UNKNOWN: Self = Self { micro_dollars: 0, known: false, complete: false };
    /// There was nothing to pay for: a known, complete zero.
    pub const NOTHING: Self = Self { micro_dollars: 0, known: true, complete: true };

    /// A sum of dollars that is the whole, rounded to a millionth; unknown if it is no sum of money.
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "the range is checked before")]
    pub fn of_dollars(dollars: f64) -> Self {
        let micro = (dollars * 1e6).round();
        if !(0.0..1e15).contains(&micro) {
            return Self::UNKNOWN;
        }
        Self { micro_dollars: micro as u64, known: true, complete: true }
    }

    /// The same sum, of which more may be missing.
    #[must_use]
    pub fn as_part(self) -> Self {
        Self { complete: false, ..self }
    }

    /// The sum with another session's cost, by the rules of [`Figure::and`].
    #[must_use]
    pub fn and(self, other: Self) -> Self {
        let figure = |cost: Self| Figure { value: cost.micro_dollars, known: cost.known, complete: cost.complete };
        let Figure { value: micro_dollars, known, complete } = figure(self).and(figure(other));
        Self { micro_dollars, known, complete }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unknown_is_never_zero_and_a_sum_with_it_is_a_part() {
        assert_ne!(Figure::UNKNOWN, Figure::whole(0));
        assert_eq!(Figure::whole(3).and(Figure::UNKNOWN), Figure::part(3));
        assert_eq!(Figure::UNKNOWN.and(Figure::UNKNOWN), Figure::UNKNOWN);
        assert_eq!(Figure::NOTHING.and(Figure::whole(3)), Figure::whole(3));
    }

    #[test]
    fn a_sum_that_does_not_fit_is_no_whole() {
        assert_eq!(Figure::whole(u64::MAX).and(Figure::whole(1)), Figure::part(u64::MAX));
    }

    #[test]
    fn figures_are_summed_field_by_field() {
        let one = Tokens { input: Figure::whole(5), ..Tokens::NOTHING };
        let two = Tokens { input: Figure::whole(2), ..Tokens::default() };
        let sum = one.and(&two);
        assert_eq!(sum.input, Figure::whole(7));
        assert_eq!(sum.output, Figure::part(0));
    }

    #[test]
    fn money_is_counted_in_whole_millionths_and_what_is_no_money_is_unknown() {
        assert_eq!(Cost::of_dollars(0.143_725_5).micro_dollars, 143_726);
        assert_eq!(Cost::of_dollars(0.0), Cost::NOTHING);
        for no_money in [f64::NAN, f64::INFINITY, -0.01, 1e12] {
            assert_eq!(Cost::of_dollars(no_money), Cost::UNKNOWN, "{no_money}");
        }
        let sum = Cost::of_dollars(0.5).and(Cost::of_dollars(0.25));
        assert_eq!((sum.micro_dollars, sum.known, sum.complete), (750_000, true, true));
        assert_eq!(sum.and(Cost::UNKNOWN), sum.as_part());
    }
}
