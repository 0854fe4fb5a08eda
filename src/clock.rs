//! The clock: made once in `main`, handed down to whoever needs the time of day.

use jiff::tz::TimeZone;
use jiff::{Timestamp, Zoned};

/// A source of the time of day; a test can fix it.
#[derive(Debug, Clone, Copy)]
pub struct Clock(fn() -> Timestamp);

impl Clock {
    /// The machine's clock.
    #[expect(clippy::disallowed_methods, reason = "this is where the clock is made")]
    pub fn system() -> Self {
        Self(Timestamp::now)
    }

    /// A clock that always answers with `source`.
    pub fn fixed(source: fn() -> Timestamp) -> Self {
        Self(source)
    }

    /// Now, in whole seconds, as `2026-11-30T03:05:12Z`.
    pub fn stamp(self) -> String {
        let now = (self.0)();
        Timestamp::from_second(now.as_second()).unwrap_or(now).to_string()
    }

    /// Now, in this machine's zone: the one in which agents tell the time.
    pub fn local(self) -> Zoned {
        self.now().to_zoned(TimeZone::system())
    }

    /// Now.
    pub fn now(self) -> Timestamp {
        (self.0)()
    }
}
