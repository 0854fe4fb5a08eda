//! When a limit ends, out of the words that state it. What is not understood, lies in the past or far ahead is not known.

use std::time::Duration;

use jiff::civil::{Date, Time};
use jiff::tz::TimeZone;
use jiff::{Span, Timestamp, Zoned};

/// A limit that is said to last longer is not believed: no service has a longer period than a month.
const FARTHEST: Duration = Duration::from_hours(35 * 24);
/// A moment this long ago is still meant: it was cut to minutes, and the agent took its time to leave.
const SLACK: Duration = Duration::from_mins(10);

/// Words after which a length of time stands.
const LENGTHS: [&str; 7] =
    ["try again in ", "retry in ", "retry after ", "resets in ", "reset in ", "reset after ", "available in "];
/// Words after which a moment stands.
const MOMENTS: [&str; 8] = [
    "try again at ",
    "try again on ",
    "resets at ",
    "resets on ",
    "resets ",
    "reset at ",
    "regain access on ",
    "limit reached|",
];
const MONTHS: [&str; 12] = ["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"];

/// What a record states of a limit's end in a field of its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Reset {
    /// At this moment, in seconds or milliseconds since 1970.
    Epoch(u64),
    /// So many seconds after it was said.
    After(u64),
}

impl Reset {
    /// The moment, if it can be meant.
    pub(super) fn at(self, now: &Zoned) -> Option<Timestamp> {
        match self {
            Self::Epoch(number) => epoch(number),
            Self::After(seconds) => after(now, Duration::from_secs(seconds)),
        }
        .filter(|at| is_meant(*at, now))
    }
}

/// The moment that the first understood statement of the text names.
pub(super) fn in_text(text: &str, now: &Zoned) -> Option<Timestamp> {
    let lower = text.to_ascii_lowercase();
    let places = |cues: &'static [&'static str], is_length: bool| {
        let lower = &lower;
        cues.iter().flat_map(move |cue| lower.match_indices(cue).map(move |(at, _)| (at + cue.len(), is_length)))
    };
    let mut found: Vec<(usize, bool)> = places(&LENGTHS, true).chain(places(&MOMENTS, false)).collect();
    found.sort_unstable();
    found.into_iter().find_map(|(at, is_length)| {
        let words = Words(&lower[at..]);
        let at = if is_length { words.length().and_then(|length| after(now, length)) } else { words.moment(now) };
        at.filter(|at| is_meant(*at, now))
    })
}

fn is_meant(at: Timestamp, now: &Zoned) -> bool {
    let ahead = at.duration_since(now.timestamp());
    Duration::try_from(ahead).map_or_else(|_| ahead.unsigned_abs() <= SLACK, |ahead| ahead <= FARTHEST)
}

fn after(now: &Zoned, length: Duration) -> Option<Timestamp> {
    now.timestamp().checked_add(length).ok()
}

/// Seconds since 1970, or milliseconds where seconds would be thousands of years ahead.
fn epoch(number: u64) -> Option<Timestamp> {
    let number = i64::try_from(number).ok()?;
    if number >= 100_000_000_000 { Timestamp::from_millisecond(number) } else { Timestamp::from_second(number) }.ok()
}

/// Lower-case words, taken from the front.
#[derive(Clone, Copy)]
struct Words<'t>(&'t str);

impl<'t> Words<'t> {
    /// `3h 12m`, `3 days 4 hours`, `32.5s`; a number alone is seconds.
    fn length(mut self) -> Option<Duration> {
        let mut seconds = 0.0;
        let mut any = false;
        while let Some(number) = self.number() {
            let rest = self.skip(" ");
            let unit = rest.while_is(|byte| byte.is_ascii_lowercase());
            let one = match unit {
                "ms" | "millisecond" | "milliseconds" => 0.001,
                "s" | "sec" | "secs" | "second" | "seconds" => 1.0,
                "m" | "min" | "mins" | "minute" | "minutes" => 60.0,
                "h" | "hr" | "hrs" | "hour" | "hours" => 3600.0,
                "d" | "day" | "days" => 86_400.0,
                "w" | "week" | "weeks" => 604_800.0,
                _ if any => break,
                _ => return Duration::try_from_secs_f64(number).ok(),
            };
            (seconds, any) = (seconds + number * one, true);
            self = Words(&rest.0[unit.len()..]).skip(", ").skip("and ");
        }
        any.then(|| Duration::try_from_secs_f64(seconds).ok()).flatten()
    }

    /// A time stamp, or a date, a time of day or both, in the zone it names or else in that of `now`.
    fn moment(self, now: &Zoned) -> Option<Timestamp> {
        let token = self.while_is(|byte| byte.is_ascii_graphic() && !b",)]".contains(&byte)).trim_end_matches('.');
        if let Ok(at) = token.to_ascii_uppercase().parse::<Timestamp>() {
            return Some(at);
        }
        let digits = self.while_is(|byte| byte.is_ascii_digit());
        if digits.len() >= 10 {
            return epoch(digits.parse().ok()?);
        }
        let (date, rest) = self.date(now);
        let rest = rest.skip(", ").skip("at ");
        let (time, rest) = match (rest.time(), date) {
            (Some((time, rest)), _) => (time, rest),
            (None, Some(_)) => (Time::midnight(), rest),
            (None, None) => return None,
        };
        let zone = rest.zone(now)?;
        let today = now.with_time_zone(zone.clone()).date();
        let at = date.unwrap_or(today).to_datetime(time).to_zoned(zone).ok()?;
        let is_over = now.timestamp().duration_since(at.timestamp()) > SLACK.try_into().ok()?;
        let later = match date {
            None if is_over => at.checked_add(Span::new().days(1)).ok()?,
            _ => at,
        };
        Some(later.timestamp())
    }

    /// `2026-12-01`, `dec 4th, 2026` or `dec 4`; what is left is the same if there is none.
    fn date(self, now: &Zoned) -> (Option<Date>, Self) {
        self.try_date(now).map_or((None, self), |(date, rest)| (Some(date), rest))
    }

    fn try_date(self, now: &Zoned) -> Option<(Date, Self)> {
        if let Some(iso) = self.0.get(..10)
            && let Ok(date) = iso.parse()
        {
            return Some((date, Words(&self.0[10..]).skip(" ")));
        }
        let name = self.while_is(|byte| byte.is_ascii_lowercase());
        let month = MONTHS.iter().position(|month| name.starts_with(month))?;
        let mut rest = Words(&self.0[name.len()..]).skip(". ");
        let day: i8 = rest.digits(2)?.parse().ok()?;
        let ordinal = ["st", "nd", "rd", "th"].into_iter().find(|ordinal| rest.0.starts_with(ordinal));
        rest = Words(&rest.0[ordinal.map_or(0, str::len)..]).skip(", ");
        let mut after_year = rest;
        let stated = after_year.digits(4).filter(|year| year.len() == 4).and_then(|year| year.parse::<i16>().ok());
        let month = i8::try_from(month + 1).ok()?;
        if let Some(year) = stated {
            return Some((Date::new(year, month, day).ok()?, after_year.skip(" ")));
        }
        let date = Date::new(now.year(), month, day).ok()?;
        // Without a year the next such day is meant.
        let is_past = date < now.date().yesterday().ok()?;
        Some((if is_past { Date::new(now.year() + 1, month, day).ok()? } else { date }, rest))
    }

    /// `3:34 am`, `3pm` or `15:04`.
    fn time(mut self) -> Option<(Time, Self)> {
        let mut hour: i8 = self.digits(2)?.parse().ok()?;
        let mut minute = None;
        while let Some(rest) = self.0.strip_prefix(':') {
            self = Words(rest);
            let part: i8 = self.digits(2)?.parse().ok()?;
            minute.get_or_insert(part);
        }
        let half = self.skip(" ");
        let is_half = |half: &str| ["am", "pm"].contains(&half);
        match half.0.get(..2).filter(|half| is_half(half)) {
            Some(half) if (1..=12).contains(&hour) => hour = hour % 12 + if half == "pm" { 12 } else { 0 },
            Some(_) => return None,
            // A number alone is no time of day.
            None => minute = Some(minute?),
        }
        let rest = if half.0.get(..2).is_some_and(is_half) { Words(&half.0[2..]) } else { self };
        Some((Time::new(hour, minute.unwrap_or(0), 0, 0).ok()?, rest))
    }

    /// The zone that follows: that of `now` if none does, nothing if it is one that is not known here.
    fn zone(self, now: &Zoned) -> Option<TimeZone> {
        let rest = self.skip(" ");
        let local = now.time_zone();
        let name = rest.0.strip_prefix('(').and_then(|rest| rest.split_once(')')).map(|(name, _)| name);
        let word = rest.while_is(|byte| byte.is_ascii_lowercase());
        match name.unwrap_or(word) {
            "utc" | "gmt" | "z" => Some(TimeZone::UTC),
            name if name.is_empty() || rest.0.as_bytes()[0] != b'(' => Some(local.clone()),
            name => local.iana_name().filter(|local| local.eq_ignore_ascii_case(name)).map(|_| local.clone()),
        }
    }

    fn number(&mut self) -> Option<f64> {
        let text = self.while_is(|byte| byte.is_ascii_digit() || byte == b'.');
        let number = text.trim_end_matches('.').parse().ok()?;
        self.0 = &self.0[text.len()..];
        Some(number)
    }

    /// At most `most` digits, at least one.
    fn digits(&mut self, most: usize) -> Option<&'t str> {
        let digits = self.while_is(|byte| byte.is_ascii_digit());
        if digits.is_empty() || digits.len() > most {
            return None;
        }
        self.0 = &self.0[digits.len()..];
        Some(digits)
    }

    /// The words from where the first of these characters, or this word, is over.
    fn skip(self, what: &str) -> Self {
        match what.strip_suffix(' ') {
            Some(word) if word.chars().all(|letter| letter.is_ascii_lowercase()) && !word.is_empty() => {
                Words(self.0.strip_prefix(what).unwrap_or(self.0))
            }
            _ => Words(self.0.trim_start_matches(|letter| what.contains(letter))),
        }
    }

    fn while_is(self, is: impl Fn(u8) -> bool) -> &'t str {
        let length = self.0.bytes().take_while(|byte| is(*byte)).count();
        &self.0[..length]
    }
}

#[cfg(test)]
mod tests {
    use jiff::Zoned;
    use proptest::prelude::*;

    use super::{Reset, in_text};

    fn now() -> Zoned {
        "2026-11-30T23:50:20+01:00[+01:00]".parse().unwrap()
    }

    #[test]
    fn a_stated_end_is_understood() {
        for (text, wanted) in [
            ("try again in 3h 12m.", "2026-12-01T02:02:20Z"),
            ("Try again in 3 days 4 hours 5 minutes.", "2026-12-04T02:55:20Z"),
            ("Please try again in 20s. Visit", "2026-11-30T22:50:40Z"),
            ("Please try again in 1h, 2 minutes and 3 seconds", "2026-11-30T23:52:23Z"),
            ("Your quota will reset after 3h12m5s.", "2026-12-01T02:02:25Z"),
            ("retry after 30", "2026-11-30T22:50:50Z"),
            ("or try again at 3:34 AM.", "2026-12-01T02:34:00Z"),
            ("or try again at 11:45 PM.", "2026-11-30T22:45:00Z"),
            ("or try again at Dec 4th, 2026 3:34 PM.", "2026-12-04T14:34:00Z"),
            ("resets 3pm", "2026-12-01T14:00:00Z"),
            ("resets 12am (UTC)", "2026-12-01T00:00:00Z"),
            ("resets Dec 4, 5:30pm (UTC)", "2026-12-04T17:30:00Z"),
            ("resets Jan 1", "2026-12-31T23:00:00Z"),
            ("You will regain access on 2026-12-01 at 00:00 UTC.", "2026-12-01T00:00:00Z"),
            ("resets at 2026-12-01T08:00:00+02:00.", "2026-12-01T06:00:00Z"),
            ("Claude AI usage limit reached|1796101200", "2026-12-01T05:00:00Z"),
        ] {
            let at = in_text(text, &now()).map(|at| at.to_string());
            assert_eq!(at.as_deref(), Some(wanted), "{text}");
        }
    }

    #[test]
    fn what_is_not_understood_is_not_known() {
        for text in [
            "try again later",
            "try again in a moment",
            "try again at 3",
            "try again at 13pm",
            "try again at 25:00",
            "resets 3pm (Mars/Olympus)",
            "try again in 400 days",
            "resets at 2020-01-01T00:00:00Z",
            "limit reached|12",
            "resets Feb 30",
            "the test resets 12",
            "resets Dec",
            "try again in 99999999999999999999999999999999999 d",
        ] {
            assert_eq!(in_text(text, &now()), None, "{text}");
        }
    }

    #[test]
    fn fields_of_their_own_are_seconds_or_milliseconds_or_a_wait() {
        let stated = |reset: Reset| reset.at(&now()).map(|at| at.to_string());
        assert_eq!(stated(Reset::Epoch(1_796_101_200)).as_deref(), Some("2026-12-01T05:00:00Z"));
        assert_eq!(stated(Reset::Epoch(1_796_101_200_000)).as_deref(), Some("2026-12-01T05:00:00Z"));
        assert_eq!(stated(Reset::After(60)).as_deref(), Some("2026-11-30T22:51:20Z"));
        assert_eq!((stated(Reset::Epoch(0)), stated(Reset::After(u64::MAX))), (None, None));
    }

    proptest! {
        #[test]
        fn any_words_are_a_moment_or_none_and_never_a_panic(
            text in "(try again (in|at|on) |resets (at )?|limit reached[|])([0-9]{1,12}|[ :.,hmsdt()-]|am|pm|utc|dec|jan |th|ä){0,10}"
        ) {
            let _either = in_text(&text, &now());
        }
    }
}
