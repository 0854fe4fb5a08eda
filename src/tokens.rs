//! The five token figures of a session or of many, each with what is known about it. Pure.
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
}
