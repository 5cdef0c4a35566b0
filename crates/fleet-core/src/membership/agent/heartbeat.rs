//! When the next heartbeat is due, and when a failed attempt to join or leave is retried.
//!
//! Heartbeats are spread a little, so that the hub does not receive those of many members at the same moment.

use fleet_api::bits;
use jiff::{SignedDuration, Timestamp};

use super::observed::{Failure, Heartbeat, InternalMemberClusterFacts, Memory};
use crate::membership::after;

/// Delay before the first retry after a failure; each further failure doubles it.
pub const FIRST_RETRY_AFTER: SignedDuration = SignedDuration::from_secs(1);
/// Longest delay between attempts to join or leave, because the hub or the cluster may be back at any moment.
const RETRY_AT_LEAST_EVERY: SignedDuration = SignedDuration::from_mins(1);
/// Further failures do not double the delay again; larger numbers would overflow.
const DOUBLINGS_MAX: u32 = 20;

/// When the next heartbeat is due: one period after this one, plus or minus a twentieth, or sooner if this one
/// failed.
pub fn next_heartbeat(heartbeat: &Heartbeat, heartbeat_period_seconds: i32, seed: u64) -> Timestamp {
    let period = SignedDuration::from_secs(i64::from(heartbeat_period_seconds.max(1)));
    let share = u128::from(mixed(seed, heartbeat.collected_at)) * (period.as_millis() / 10).unsigned_abs();
    let spread = SignedDuration::from_millis(i64::try_from(share >> 64).unwrap_or(0));
    let twentieth = SignedDuration::from_millis(i64::try_from(period.as_millis() / 20).unwrap_or(0));
    let regular = period.saturating_sub(twentieth).saturating_add(spread);
    let wait = match heartbeat.failed_in_a_row {
        0 => regular,
        failures => regular.min(backoff(failures)),
    };
    after(heartbeat.collected_at, wait)
}

/// The last heartbeat and the instant until which it is valid. Returns `None` if the next heartbeat is due, if the
/// hub has changed the InternalMemberCluster, or if the clock was set back.
pub(super) fn valid_until<'s>(
    heartbeat: &'s Heartbeat,
    internal_member_cluster: &InternalMemberClusterFacts<'_>,
    seed: u64,
    now: Timestamp,
) -> Option<(&'s Heartbeat, Timestamp)> {
    let until = next_heartbeat(heartbeat, internal_member_cluster.heartbeat_period_seconds, seed);
    let counts =
        heartbeat.requested_by.matches(internal_member_cluster) && heartbeat.collected_at <= now && now < until;
    counts.then_some((heartbeat, until))
}

/// The last failure of the current request and when to retry. Returns `None` if a retry is due.
pub(super) fn failure<'m>(
    memory: &'m Memory,
    internal_member_cluster: &InternalMemberClusterFacts<'_>,
    now: Timestamp,
) -> Option<(&'m Failure, Timestamp)> {
    let failure = memory.failure_for(internal_member_cluster)?;
    let retry_at = after(failure.at, backoff(failure.in_a_row).min(RETRY_AT_LEAST_EVERY));
    (failure.at <= now && now < retry_at).then_some((failure, retry_at))
}

fn backoff(failures: u32) -> SignedDuration {
    FIRST_RETRY_AFTER.saturating_mul(1_i32 << failures.saturating_sub(1).min(DOUBLINGS_MAX))
}

/// Bits that differ between heartbeats and between agents, but are the same for the same heartbeat.
fn mixed(seed: u64, beat: Timestamp) -> u64 {
    let bits = seed ^ beat.as_millisecond().cast_unsigned();
    bits::mixed(bits.wrapping_add(bits::STEP))
}
