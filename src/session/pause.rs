//! A pause of the coordinator between two sessions: until a moment, or until a signal tells it to stop.

use std::time::Duration;

use jiff::Timestamp;

use super::signals::Signals;
use super::timekeeper::Reading;
use super::wait::wait;
use crate::clock::Clock;

/// The time of day is looked at this often: while the machine is suspended it goes on, and a person may set it.
const LOOK: Duration = Duration::from_secs(30);

/// Waits until the moment has come, or a stop signal; never longer than it is away now, whatever becomes of the clock.
pub fn pause(signals: &Signals, clock: Clock, until: Timestamp) {
    let start = Reading::now();
    let whole = left(clock, until);
    while signals.first().is_none() {
        let awake = whole.saturating_sub(Reading::now().awake_since(start));
        let left = left(clock, until).min(awake);
        if left.is_zero() {
            return;
        }
        wait(signals.descriptors(), Some(left.min(LOOK)));
    }
}

/// How long the moment is away.
fn left(clock: Clock, until: Timestamp) -> Duration {
    Duration::try_from(until.duration_since(clock.now())).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_moment_that_is_over_is_not_waited_for_and_a_clock_that_stands_still_holds_nobody_up() {
        pause(&Signals::none(), Clock::system(), Timestamp::UNIX_EPOCH);
        let still = Clock::fixed(|| Timestamp::UNIX_EPOCH);
        pause(&Signals::none(), still, Timestamp::from_millisecond(20).unwrap());
    }
}
