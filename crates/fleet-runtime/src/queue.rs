//! The work queue of a controller as a plain data structure. The current time is an argument; nothing here waits.
//!
//! Changes come before due wake-ups, and those before the first list; within each, first in, first out. A key is never handed
//! out twice at the same time. Failed keys are retried with exponential backoff. If the clock is set back, all timers fire,
//! because it is unknown how long they have waited.

use std::collections::BTreeMap;
use std::time::Duration;

use jiff::Timestamp;

use crate::clock::{is_set_back, later};

/// First retry delay. Short, because most failures come from a server that is restarting or busy.
pub const FIRST_RETRY: Duration = Duration::from_millis(100);
/// Longest retry delay; delays double up to this. A fixed cause is noticed within a minute.
pub const LONGEST_RETRY: Duration = Duration::from_mins(1);
/// Longest retry delay of a failed key after a change. Not zero: the failing reconcile may cause the change itself.
pub const LONGEST_RETRY_AFTER_CHANGE: Duration = Duration::from_secs(1);
/// Consecutive conflicts that are retried at once. More mean that two writers contend, and count as failures.
pub const CONFLICTS_AT_ONCE: u32 = 5;
/// Shortest delay of a wake-up, so that a plan with a wake-up in the past cannot keep a worker busy forever.
pub const EARLIEST_WAKE: Duration = Duration::from_millis(10);

/// The backoff of failed keys.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Retry {
    /// See `FIRST_RETRY`.
    pub first: Duration,
    /// See `LONGEST_RETRY`.
    pub longest: Duration,
}

impl Default for Retry {
    fn default() -> Self {
        Self { first: FIRST_RETRY, longest: LONGEST_RETRY }
    }
}

impl Retry {
    /// The delay after this many failures in a row.
    pub fn delay(self, failures: u32) -> Duration {
        let doubled = 1u32.checked_shl(failures.saturating_sub(1)).unwrap_or(u32::MAX);
        self.first.saturating_mul(doubled).min(self.longest)
    }
}

/// Why a key is reconciled, most urgent first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Reason {
    /// An object that triggers it changed.
    Change,
    /// The wake-up of its last plan is due, or it is retried after a failure.
    Wake,
    /// It was in the first list after the start.
    Initial,
}

impl Reason {
    pub fn label(self) -> &'static str {
        match self {
            Self::Change => "change",
            Self::Wake => "wake",
            Self::Initial => "initial",
        }
    }
}

/// Order among keys with the same reason; lower comes first.
pub type Rank = u8;
/// The default rank.
pub const FIRST_RANK: Rank = 0;

/// A key that was handed out and must be returned by `done`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Taken<K> {
    pub key: K,
    pub reason: Reason,
    /// Since when it was due.
    pub since: Timestamp,
}

/// The result of a reconcile.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Done {
    Settled {
        wake: Option<Timestamp>,
    },
    /// Only deferred statuses were written: a timer that is set stays.
    Flushed,
    Failed,
    /// Another client changed the object first; the cache has its version.
    Conflict,
    /// The reconcile was interrupted: the key returns to the queue as it was.
    Cancelled,
}

/// Keys with their place in the queue, timer, and retry state.
#[derive(Debug)]
pub struct Queue<K> {
    keys: BTreeMap<K, State>,
    ready: BTreeMap<(Reason, Rank, u64), K>,
    timers: BTreeMap<(Timestamp, u64), K>,
    /// The number of the last position, for first in, first out.
    positions: u64,
    /// The time of the last `take`.
    latest: Timestamp,
    retry: Retry,
}

#[derive(Debug, Default)]
struct State {
    ready: Option<Position>,
    timer: Option<(Timestamp, u64)>,
    in_flight: Option<InFlight>,
    failures: u32,
    conflicts: u32,
    /// The timer was set by a change that is batched with others.
    is_batched: bool,
}

impl State {
    fn is_backing_off(&self) -> bool {
        self.failures > 0 && self.in_flight.is_none() && self.ready.is_none()
    }
}

#[derive(Debug, Clone, Copy)]
struct Position {
    reason: Reason,
    rank: Rank,
    number: u64,
    since: Timestamp,
}

#[derive(Debug, Clone, Copy)]
struct InFlight {
    reason: Reason,
    since: Timestamp,
    /// Enqueued while in flight: why and when.
    again: Option<(Reason, Timestamp)>,
    /// Enqueued while in flight by `enqueue_by`.
    by: Option<Timestamp>,
}

impl<K> Default for Queue<K> {
    fn default() -> Self {
        Self::new(Retry::default())
    }
}

impl<K> Queue<K> {
    pub fn new(retry: Retry) -> Self {
        let (keys, ready, timers) = (BTreeMap::new(), BTreeMap::new(), BTreeMap::new());
        Self { keys, ready, timers, positions: 0, latest: Timestamp::MIN, retry }
    }
}

impl<K: Ord + Clone> Queue<K> {
    /// Enqueues a key. A key that is already queued keeps the more urgent of both reasons.
    pub fn enqueue(&mut self, key: K, reason: Reason, now: Timestamp) {
        self.enqueue_ranked(key, reason, FIRST_RANK, now);
    }

    /// As `enqueue`, with a rank among keys with the same reason. A change of a key that backs off shortens the backoff.
    pub fn enqueue_ranked(&mut self, key: K, reason: Reason, rank: Rank, now: Timestamp) {
        let state = self.keys.entry(key.clone()).or_default();
        if reason == Reason::Change && state.is_backing_off() {
            state.is_batched = true;
            let delay = self.retry.delay(state.failures).min(LONGEST_RETRY_AFTER_CHANGE);
            return self.wake_by(key, later(now, delay));
        }
        self.push(key, reason, rank, now);
    }

    fn push(&mut self, key: K, reason: Reason, rank: Rank, now: Timestamp) {
        let state = self.keys.entry(key.clone()).or_default();
        if let Some(in_flight) = &mut state.in_flight {
            let (urgent, since) = in_flight.again.unwrap_or((reason, now));
            in_flight.again = Some((urgent.min(reason), since));
            return;
        }
        let since = match state.ready {
            Some(position) if (position.reason, position.rank) <= (reason, rank) => return,
            Some(position) => {
                self.ready.remove(&(position.reason, position.rank, position.number));
                position.since
            }
            None => now,
        };
        self.positions += 1;
        state.ready = Some(Position { reason, rank, number: self.positions, since });
        self.ready.insert((reason, rank, self.positions), key);
    }

    /// Enqueues a key at `due`, unless it is reconciled earlier anyway. A burst of changes is reconciled once.
    pub fn enqueue_by(&mut self, key: K, due: Timestamp) {
        let state = self.keys.entry(key.clone()).or_default();
        if let Some(in_flight) = &mut state.in_flight {
            in_flight.by = Some(in_flight.by.map_or(due, |by| by.min(due)));
        } else if state.ready.is_none() {
            state.is_batched = true;
            self.wake_by(key, due);
        }
    }

    /// The next due key. It must be returned by `done`.
    pub fn take(&mut self, now: Timestamp) -> Option<Taken<K>> {
        self.wake_due(now);
        let (_, key) = self.ready.pop_first()?;
        let state = self.keys.entry(key.clone()).or_default();
        let (reason, since) =
            state.ready.take().map_or((Reason::Change, now), |position| (position.reason, position.since));
        if let Some(timer) = state.timer.take() {
            self.timers.remove(&timer);
        }
        state.is_batched = false;
        state.in_flight = Some(InFlight { reason, since, again: None, by: None });
        Some(Taken { key, reason, since })
    }

    /// Takes a key that is neither due nor in flight, to write its deferred statuses. It must be returned by `done`.
    pub fn take_idle(&mut self, key: &K, now: Timestamp) -> bool {
        let state = self.keys.entry(key.clone()).or_default();
        let is_idle = state.ready.is_none() && state.in_flight.is_none();
        if is_idle {
            state.in_flight = Some(InFlight { reason: Reason::Change, since: now, again: None, by: None });
        }
        is_idle
    }

    /// Returns a taken key.
    pub fn done(&mut self, key: &K, done: Done, now: Timestamp) {
        let Some(state) = self.keys.get_mut(key) else { return };
        let Some(in_flight) = state.in_flight.take() else { return };
        let mut enqueue = in_flight.again;
        let mut wake = None;
        match done {
            Done::Settled { wake: at } => {
                (state.failures, state.conflicts) = (0, 0);
                state.is_batched = in_flight.by.is_some() && enqueue.is_none();
                wake = at.map(|at| at.max(later(now, EARLIEST_WAKE))).into_iter().chain(in_flight.by).min();
            }
            Done::Flushed => {
                state.is_batched |= in_flight.by.is_some();
                wake = in_flight.by;
            }
            Done::Conflict if state.conflicts < CONFLICTS_AT_ONCE => {
                state.conflicts += 1;
                enqueue = Some((Reason::Change, enqueue.map_or(now, |(_, since)| since)));
            }
            Done::Failed | Done::Conflict => {
                state.failures = state.failures.saturating_add(1);
                let changed = enqueue.take().is_some() || in_flight.by.is_some();
                let longest = if changed { LONGEST_RETRY_AFTER_CHANGE } else { Duration::MAX };
                wake = Some(later(now, self.retry.delay(state.failures).min(longest)));
            }
            Done::Cancelled => {
                let again = enqueue.map_or(in_flight.reason, |(reason, _)| reason.min(in_flight.reason));
                enqueue = Some((again, in_flight.since));
            }
        }
        let is_forgotten = enqueue.is_none() && wake.is_none() && state.timer.is_none();
        if let Some(at) = wake {
            self.wake_by(key.clone(), at);
        }
        if let Some((reason, since)) = enqueue {
            self.push(key.clone(), reason, FIRST_RANK, since);
        }
        if is_forgotten {
            self.keys.remove(key);
        }
    }

    /// Sets the timer of a key, unless an earlier one is set.
    fn wake_by(&mut self, key: K, at: Timestamp) {
        let state = self.keys.entry(key.clone()).or_default();
        if state.timer.is_some_and(|(earlier, _)| earlier <= at) {
            return;
        }
        if let Some(timer) = state.timer.take() {
            self.timers.remove(&timer);
        }
        self.positions += 1;
        state.timer = Some((at, self.positions));
        self.timers.insert((at, self.positions), key);
    }

    /// When the next timer fires.
    pub fn next_due(&self) -> Option<Timestamp> {
        self.timers.first_key_value().map(|((at, _), _)| *at)
    }

    /// The number of keys that wait for a worker.
    pub fn depth(&self) -> usize {
        self.ready.len()
    }

    /// Whether no key is due or in flight and no change is being batched. Wake-ups may be set.
    pub fn is_idle(&self) -> bool {
        self.ready.is_empty() && self.keys.values().all(|state| state.in_flight.is_none() && !state.is_batched)
    }

    fn wake_due(&mut self, now: Timestamp) {
        let before = std::mem::replace(&mut self.latest, now);
        let wakes_all = is_set_back(before, now);
        while let Some(timer) = self.timers.first_entry() {
            let at = timer.key().0.min(now);
            if timer.key().0 > now && !wakes_all {
                return;
            }
            let key = timer.remove();
            let mut reason = Reason::Wake;
            if let Some(state) = self.keys.get_mut(&key) {
                state.timer = None;
                if std::mem::take(&mut state.is_batched) {
                    reason = Reason::Change;
                }
            }
            self.push(key, reason, FIRST_RANK, at);
        }
    }
}

#[cfg(test)]
mod tests;
