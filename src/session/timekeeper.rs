//! The session's clock: time the machine was awake, and time it was suspended, apart.

use std::time::Duration;

use rustix::time::{ClockId, Timespec, clock_gettime};

/// Two clocks at one instant (`clock_gettime(2)`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Reading {
    /// Stands still while the machine is suspended.
    awake: Duration,
    /// Goes on.
    all: Duration,
}

impl Reading {
    /// Both clocks now. Where there is no clock that counts suspended time, none is ever seen.
    pub(crate) fn now() -> Self {
        Self { awake: duration(clock_gettime(ClockId::Monotonic)), all: duration(clock_gettime(INCLUDING_SUSPEND)) }
    }

    /// The time the machine was awake since `start`: what limits count.
    pub(crate) fn awake_since(self, start: Self) -> Duration {
        self.awake.saturating_sub(start.awake)
    }

    /// The time it was suspended since `start`.
    pub(crate) fn suspended_since(self, start: Self) -> Duration {
        self.all.saturating_sub(start.all).saturating_sub(self.awake_since(start))
    }
}

#[cfg(target_os = "linux")]
const INCLUDING_SUSPEND: ClockId = ClockId::Boottime;
#[cfg(not(target_os = "linux"))]
const INCLUDING_SUSPEND: ClockId = ClockId::Monotonic;

fn duration(time: Timespec) -> Duration {
    let seconds = u64::try_from(time.tv_sec).unwrap_or_default();
    Duration::new(seconds, u32::try_from(time.tv_nsec).unwrap_or_default())
}

#[cfg(test)]
impl Reading {
    /// A reading made by hand, in seconds.
    pub(crate) fn of(awake: u64, all: u64) -> Self {
        Self { awake: Duration::from_secs(awake), all: Duration::from_secs(all) }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::Reading;

    #[test]
    fn suspended_time_is_told_and_not_counted() {
        let start = Reading::of(100, 5_000);
        let end = Reading::of(160, 5_060 + 3 * 3600);
        assert_eq!(end.awake_since(start), Duration::from_mins(1));
        assert_eq!(end.suspended_since(start), Duration::from_hours(3));
    }

    #[test]
    fn clocks_read_one_after_the_other_never_give_a_negative_time() {
        let start = Reading::of(100, 100);
        assert_eq!(Reading::of(160, 159).suspended_since(start), Duration::ZERO);
    }
}
