//! Which key is looked at next.
//!
//! Decides order (user changes before due wake-ups before the first list, first come first served within each), that
//! one key is never in two hands, when a failed key is tried again and when a sleeping one wakes (all of them do when the
//! clock was turned back: nobody knows how long they have slept). A plain data structure: the present moment is an
//! argument, nothing here waits.

use std::collections::BTreeMap;
use std::time::Duration;

use jiff::Timestamp;

use crate::clock::{is_turned_back, later};

/// First delay after a failure. Short: most failures are a server that is restarting or busy.
pub const FIRST_RETRY: Duration = Duration::from_millis(100);
/// Longest delay after failures, doubled each time until here. A repaired cause is noticed within a minute.
pub const LONGEST_RETRY: Duration = Duration::from_mins(1);
/// A key that failed while something about it changed waits no longer than this. Not zero: the change may be its own.
pub const LONGEST_RETRY_AFTER_CHANGE: Duration = Duration::from_secs(1);
/// Conflicts in a row after which one counts as a failure. More than that is two writers in a fight.
pub const CONFLICTS_AT_ONCE: u32 = 5;
/// A wake-up that has passed already comes after this long, so that a wrong one cannot keep a worker busy for ever.
pub const EARLIEST_WAKE: Duration = Duration::from_millis(10);

/// How long a key waits that failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Retry {
    /// After the first failure; see `FIRST_RETRY`.
    pub first: Duration,
    /// At most, however often it failed; see `LONGEST_RETRY`.
    pub longest: Duration,
}

impl Default for Retry {
    fn default() -> Self {
        Self { first: FIRST_RETRY, longest: LONGEST_RETRY }
    }
}

impl Retry {
    /// The delay before the n-th try after a failure.
    pub fn delay(self, failures: u32) -> Duration {
        let doubled = 1u32.checked_shl(failures.saturating_sub(1)).unwrap_or(u32::MAX);
        self.first.saturating_mul(doubled).min(self.longest)
    }
}

/// Why a key is looked at; the first is the most urgent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Reason {
    /// Something that concerns it changed.
    Change,
    /// The moment came that its last plan asked for, or it is tried again after a failure.
    Wake,
    /// It was there when this process started.
    Initial,
}

impl Reason {
    pub fn word(self) -> &'static str {
        match self {
            Self::Change => "change",
            Self::Wake => "wake",
            Self::Initial => "initial",
        }
    }
}

/// Place among keys with the same reason; lower ones come first.
pub type Rank = u8;
/// The rank of keys of which nobody says otherwise.
pub const FIRST_RANK: Rank = 0;

/// A key that was handed out, until `done`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Taken<K> {
    pub key: K,
    pub reason: Reason,
    /// Since when it was due.
    pub since: Timestamp,
    /// Since when its plans have wanted soft writes that were not made.
    pub soft_since: Option<Timestamp>,
}

/// How a reconcile ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Done {
    Settled {
        wake: Option<Timestamp>,
        /// Soft writes are wanted since then and have been put off.
        soft_since: Option<Timestamp>,
    },
    Failed,
    /// Somebody else wrote first; the cache knows by now.
    Conflict,
    /// It was not its fault: back to where it came from.
    Cancelled,
}

/// Keys and what is known about when to look at them.
#[derive(Debug)]
pub struct Queue<K> {
    keys: BTreeMap<K, State>,
    ready: BTreeMap<(Reason, Rank, u64), K>,
    timers: BTreeMap<(Timestamp, u64), K>,
    /// Numbers places, so that the first come is the first served.
    places: u64,
    /// The moment of the last `take`.
    latest: Timestamp,
    retry: Retry,
}

#[derive(Debug, Default)]
struct State {
    ready: Option<Place>,
    timer: Option<(Timestamp, u64)>,
    flight: Option<Flight>,
    failures: u32,
    conflicts: u32,
    soft_since: Option<Timestamp>,
    /// The timer stands for a change that is looked at together with others.
    gathers: bool,
}

#[derive(Debug, Clone, Copy)]
struct Place {
    reason: Reason,
    rank: Rank,
    number: u64,
    since: Timestamp,
}

#[derive(Debug, Clone, Copy)]
struct Flight {
    reason: Reason,
    since: Timestamp,
    /// Marked while in flight: by what, since when.
    again: Option<(Reason, Timestamp)>,
    /// Marked while in flight for a look by then.
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
        Self { keys, ready, timers, places: 0, latest: Timestamp::MIN, retry }
    }
}

impl<K: Ord + Clone> Queue<K> {
    /// Asks for a look at this key. Asking twice is asking once, at the more urgent of the two.
    pub fn mark(&mut self, key: K, reason: Reason, now: Timestamp) {
        self.mark_ranked(key, reason, FIRST_RANK, now);
    }

    /// As `mark`, among other keys with the same reason by rank.
    pub fn mark_ranked(&mut self, key: K, reason: Reason, rank: Rank, now: Timestamp) {
        let state = self.keys.entry(key.clone()).or_default();
        if let Some(flight) = &mut state.flight {
            let (urgent, since) = flight.again.unwrap_or((reason, now));
            flight.again = Some((urgent.min(reason), since));
            return;
        }
        let since = match state.ready {
            Some(place) if (place.reason, place.rank) <= (reason, rank) => return,
            Some(place) => {
                self.ready.remove(&(place.reason, place.rank, place.number));
                place.since
            }
            None => now,
        };
        self.places += 1;
        state.ready = Some(Place { reason, rank, number: self.places, since });
        self.ready.insert((reason, rank, self.places), key);
    }

    /// Asks for a look at this key by then, unless one comes anyway: changes that come in crowds are looked at once.
    pub fn mark_by(&mut self, key: K, due: Timestamp) {
        let state = self.keys.entry(key.clone()).or_default();
        if let Some(flight) = &mut state.flight {
            flight.by = Some(flight.by.map_or(due, |by| by.min(due)));
        } else if state.ready.is_none() {
            state.gathers = true;
            self.wake_by(key, due);
        }
    }

    /// The next key, if one is due. It must be given back by `done`.
    pub fn take(&mut self, now: Timestamp) -> Option<Taken<K>> {
        self.wake_due(now);
        let (_, key) = self.ready.pop_first()?;
        let state = self.keys.entry(key.clone()).or_default();
        let (reason, since) = state.ready.take().map_or((Reason::Change, now), |place| (place.reason, place.since));
        if let Some(timer) = state.timer.take() {
            self.timers.remove(&timer);
        }
        state.gathers = false;
        state.flight = Some(Flight { reason, since, again: None, by: None });
        let soft_since = state.soft_since.map(|since| since.min(now));
        Some(Taken { key, reason, since, soft_since })
    }

    /// Gives a taken key back.
    pub fn done(&mut self, key: &K, done: Done, now: Timestamp) {
        let Some(state) = self.keys.get_mut(key) else { return };
        let Some(flight) = state.flight.take() else { return };
        let mut mark = flight.again;
        let mut wake = None;
        match done {
            Done::Settled { wake: at, soft_since } => {
                (state.failures, state.conflicts, state.soft_since) = (0, 0, soft_since);
                state.gathers = flight.by.is_some() && mark.is_none();
                wake = at.map(|at| at.max(later(now, EARLIEST_WAKE))).into_iter().chain(flight.by).min();
            }
            Done::Conflict if state.conflicts < CONFLICTS_AT_ONCE => {
                state.conflicts += 1;
                mark = Some((Reason::Change, mark.map_or(now, |(_, since)| since)));
            }
            Done::Failed | Done::Conflict => {
                state.failures = state.failures.saturating_add(1);
                let changed = mark.take().is_some() || flight.by.is_some();
                let longest = if changed { LONGEST_RETRY_AFTER_CHANGE } else { Duration::MAX };
                wake = Some(later(now, self.retry.delay(state.failures).min(longest)));
            }
            Done::Cancelled => {
                let again = mark.map_or(flight.reason, |(reason, _)| reason.min(flight.reason));
                mark = Some((again, flight.since));
            }
        }
        let forgotten = mark.is_none() && wake.is_none() && state.soft_since.is_none();
        if let Some(at) = wake {
            self.wake_by(key.clone(), at);
        }
        if let Some((reason, since)) = mark {
            self.mark(key.clone(), reason, since);
        }
        if forgotten {
            self.keys.remove(key);
        }
    }

    /// Sets the timer of a key, unless it has an earlier one.
    fn wake_by(&mut self, key: K, at: Timestamp) {
        let state = self.keys.entry(key.clone()).or_default();
        if state.timer.is_some_and(|(earlier, _)| earlier <= at) {
            return;
        }
        if let Some(timer) = state.timer.take() {
            self.timers.remove(&timer);
        }
        self.places += 1;
        state.timer = Some((at, self.places));
        self.timers.insert((at, self.places), key);
    }

    /// When `take` may next have something that it does not have now; `None` if only a mark can help.
    pub fn next_due(&self) -> Option<Timestamp> {
        self.timers.first_key_value().map(|((at, _), _)| *at)
    }

    /// Keys that wait for a worker.
    pub fn depth(&self) -> usize {
        self.ready.len()
    }

    /// Whether nothing is due or in flight and no change waits for others; wake-ups may be set.
    pub fn is_idle(&self) -> bool {
        self.ready.is_empty() && self.keys.values().all(|state| state.flight.is_none() && !state.gathers)
    }

    fn wake_due(&mut self, now: Timestamp) {
        let before = std::mem::replace(&mut self.latest, now);
        let wakes_all = is_turned_back(before, now);
        while let Some(timer) = self.timers.first_entry() {
            let at = timer.key().0.min(now);
            if timer.key().0 > now && !wakes_all {
                return;
            }
            let key = timer.remove();
            let mut reason = Reason::Wake;
            if let Some(state) = self.keys.get_mut(&key) {
                state.timer = None;
                if std::mem::take(&mut state.gathers) {
                    reason = Reason::Change;
                }
            }
            self.mark(key, reason, at);
        }
    }
}

#[cfg(test)]
mod tests;
