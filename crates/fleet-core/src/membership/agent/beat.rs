//! When the agent looks at its cluster again.
//!
//! Decides the instant of the next heartbeat and of the next attempt after a failure. Heartbeats of many members are
//! spread a little, so that the hub does not get them all at once. Never reads a clock.

use fleet_api::bits;
use jiff::{SignedDuration, Timestamp};

use super::observed::{MailboxFacts, Memory, Setback, Sounding};
use crate::membership::after;

/// After a failure the agent tries again this soon; each further failure doubles it.
pub const FIRST_RETRY_AFTER: SignedDuration = SignedDuration::from_secs(1);
/// Attempts to join or leave are at most this far apart: they wait for a hub or cluster that may be back any moment.
const RETRY_AT_LEAST_EVERY: SignedDuration = SignedDuration::from_mins(1);
/// Doublings that are counted. More would only make numbers that do not fit.
const DOUBLINGS_MAX: u32 = 20;

/// When the heartbeat after this look is due: a period later, give or take a twentieth, or sooner if the look failed.
pub fn next_beat(sounding: &Sounding, heartbeat_period_seconds: i32, seed: u64) -> Timestamp {
    let period = SignedDuration::from_secs(i64::from(heartbeat_period_seconds.max(1)));
    let share = u128::from(mixed(seed, sounding.taken_at)) * (period.as_millis() / 10).unsigned_abs();
    let spread = SignedDuration::from_millis(i64::try_from(share >> 64).unwrap_or(0));
    let regular = period - period / 20 + spread;
    let wait = match sounding.failed_in_a_row {
        0 => regular,
        failures => regular.min(backoff(failures)),
    };
    after(sounding.taken_at, wait)
}

/// The last look and the instant up to which it counts; nothing if it does not count any more, be it that a heartbeat is
/// due, that the hub asks for something else, or that the clock was set back.
pub(super) fn valid_until<'s>(
    sounding: &'s Sounding,
    mailbox: &MailboxFacts<'_>,
    seed: u64,
    now: Timestamp,
) -> Option<(&'s Sounding, Timestamp)> {
    let until = next_beat(sounding, mailbox.heartbeat_period_seconds, seed);
    let counts = sounding.order.is_that_of(mailbox) && sounding.taken_at <= now && now < until;
    counts.then_some((sounding, until))
}

/// The last setback in what the hub asks for now, and when to try again; nothing once that time has come.
pub(super) fn setback<'m>(
    memory: &'m Memory,
    mailbox: &MailboxFacts<'_>,
    now: Timestamp,
) -> Option<(&'m Setback, Timestamp)> {
    let setback = memory.setback_of(mailbox)?;
    let retry_at = after(setback.at, backoff(setback.in_a_row).min(RETRY_AT_LEAST_EVERY));
    (setback.at <= now && now < retry_at).then_some((setback, retry_at))
}

fn backoff(failures: u32) -> SignedDuration {
    FIRST_RETRY_AFTER * (1_i32 << failures.saturating_sub(1).min(DOUBLINGS_MAX))
}

/// Bits that differ from heartbeat to heartbeat and from agent to agent, and are the same for the same heartbeat.
fn mixed(seed: u64, beat: Timestamp) -> u64 {
    let bits = seed ^ beat.as_millisecond().cast_unsigned();
    bits::mixed(bits.wrapping_add(bits::STEP))
}
