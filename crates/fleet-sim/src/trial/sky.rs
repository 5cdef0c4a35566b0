//! What kind of weather a story is told in, and how much time it gets.
//!
//! Decides from the story and from the weather how long things take to settle: as long as everything that may be waited for
//! in a row. Never lets anything happen.

use std::time::Duration;

use fleet_core::placement::SnapshotPace;
use jiff::SignedDuration;

use crate::laws::Lag;
use crate::network::Weather;
use crate::story::{Story, Theme};

/// By how much an agent's clock is fast or slow at most: enough to be out of order, too little for heartbeats to count as
/// lost.
pub(super) const CLOCK_JUMP: Duration = Duration::from_secs(20);
/// Time to settle after a storm: a request that hangs (1 min), then the longest backoff (1 min) and the longest pause of a
/// watch (30 s).
const SETTLE: Duration = Duration::from_secs(150);
/// Time to settle where nothing goes wrong: a new member's agent may have to wait for its rights once or twice.
const SETTLE_IN_CALM: Duration = Duration::from_secs(40);
/// The same where rollouts go from cluster to cluster and runs wait for a while between stages.
const SETTLE_ROLLOUTS: Duration = Duration::from_mins(2);
/// A run that gets no further says so after five minutes, by clocks that may be wrong.
const RUNS_GET_STUCK: Duration = Duration::from_secs(300 + 3 * CLOCK_JUMP.as_secs());
/// Until a watch that fell silent is given up: a little more than it should have lived.
const SILENCE: Duration = Duration::from_mins(5);
/// How long an agent may act on what is no longer so: an event that is late or lost, a watch that hangs until it is given up.
const STALE: Duration = Duration::from_secs(90);
/// Clusters that a rollout may have to go through one by one where each is waited for.
const CLUSTERS_IN_A_ROW: u32 = 5;

/// What happens while a story is told.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Sky {
    Calm,
    Stormy { silences: bool },
}

impl Sky {
    /// How far behind agents may be. Times are told in whole seconds.
    pub(super) fn lag(self) -> Lag {
        let (skew, stale) = match self {
            Self::Calm => (Duration::from_secs(1), STALE),
            Self::Stormy { silences: false } => (CLOCK_JUMP * 2, STALE),
            Self::Stormy { silences: true } => (CLOCK_JUMP * 2, STALE + SILENCE),
        };
        Lag { skew: SignedDuration::try_from(skew).unwrap_or(SignedDuration::MAX), stale }
    }

    /// The weather after an action.
    pub(super) fn storm(self) -> Weather {
        match self {
            Self::Calm => Weather::calm(),
            Self::Stormy { silences: false } => Weather::stormy(),
            Self::Stormy { silences: true } => Weather::stormy_with_silences(),
        }
    }

    /// How long things take until they are as they stay, once the weather is good.
    pub(super) fn settling(self, story: &Story) -> Duration {
        let calm = if story.theme == Theme::Placing { SETTLE_IN_CALM } else { SETTLE_ROLLOUTS };
        let wrong_clocks = if self == Self::Calm { Duration::ZERO } else { CLOCK_JUMP * 2 };
        let waits = waits(story, wrong_clocks);
        match self {
            Self::Calm => calm + waits,
            Self::Stormy { silences: false } => SETTLE + waits,
            Self::Stormy { silences: true } => SETTLE + SILENCE + waits,
        }
    }
}

/// What more is waited for after the last action, in any weather.
pub(super) fn end(story: &Story) -> Duration {
    let stuck = if story.theme == Theme::Staging { RUNS_GET_STUCK } else { Duration::ZERO };
    stuck + waits(story, Duration::ZERO)
}

/// What is waited for by the clock.
fn waits(story: &Story, wrong_clocks: Duration) -> Duration {
    let SnapshotPace { minimum_interval, collection } = story.pace;
    let duration = |span: SignedDuration| Duration::try_from(span).unwrap_or_default();
    let snapshot = duration(minimum_interval) + duration(collection);
    let snapshot = if snapshot.is_zero() { snapshot } else { snapshot + wrong_clocks };
    let untracked = story.untracked_for.map_or(Duration::ZERO, |period| (period + wrong_clocks) * CLUSTERS_IN_A_ROW);
    snapshot + untracked
}
