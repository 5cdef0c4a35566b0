//! When deferred statuses are written. A status waits for the window that its plan gives, and longer if the last write of the
//! object took long: a slow server or a large object causes fewer writes instead of a longer queue.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use jiff::Timestamp;
use parking_lot::Mutex;

use crate::clock::later;
use crate::key::ObjectKey;
use crate::kind::KindId;
use crate::write::{ClusterId, Write};

/// Deferrable statuses of one object are written at most once per this many durations of its last write. A tenth of the time of a
/// connection is enough for one object.
const COST_FACTOR: u32 = 10;
/// Longest deferral. Users see a change within a minute, and a crash loses no more than that.
pub const LONGEST_DEFERRAL: Duration = Duration::from_mins(1);
/// Costs that delay a write by less than this are not remembered.
const SMALLEST_DELAY: Duration = Duration::from_millis(100);
/// Number of remembered costs from which expired ones are removed.
const COSTS_BEFORE_CLEANUP: usize = 1024;

/// Identifies an object on one of the servers of a runtime.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct ObjectRef {
    pub(crate) cluster: ClusterId,
    pub(crate) kind: KindId,
    pub(crate) key: ObjectKey,
}

impl ObjectRef {
    pub(crate) fn of(write: &Write) -> Self {
        Self { cluster: write.cluster, kind: write.kind.clone(), key: write.key.clone() }
    }
}

/// The deferred statuses of one controller, by the key whose plan deferred them.
#[derive(Debug)]
pub(crate) struct Deferrals<Key> {
    by_key: BTreeMap<Key, OfKey>,
    /// When to flush which key.
    timers: BTreeSet<(Timestamp, Key)>,
}

#[derive(Debug, Default)]
struct OfKey {
    deadlines: BTreeMap<ObjectRef, Timestamp>,
    flush_requested: bool,
    timer: Option<Timestamp>,
}

impl<Key> Default for Deferrals<Key> {
    fn default() -> Self {
        Self { by_key: BTreeMap::new(), timers: BTreeSet::new() }
    }
}

impl<Key: Ord + Clone> Deferrals<Key> {
    /// Defers the status of an object. Its first deadline counts, unless the new one is earlier.
    pub(crate) fn add(&mut self, key: &Key, object: ObjectRef, deadline: Timestamp) {
        let deadlines = &mut self.by_key.entry(key.clone()).or_default().deadlines;
        let first = deadlines.get(&object).copied().unwrap_or(deadline);
        deadlines.insert(object, first.min(deadline));
    }

    /// The status of this object was written or dropped.
    pub(crate) fn remove(&mut self, key: &Key, object: &ObjectRef) {
        let Some(of_key) = self.by_key.get_mut(key) else { return };
        of_key.deadlines.remove(object);
        if of_key.deadlines.is_empty() {
            self.set_timer(key, None);
            self.by_key.remove(key);
        }
    }

    /// All statuses of this key are due.
    pub(crate) fn request_flush(&mut self, key: &Key) {
        if let Some(of_key) = self.by_key.get_mut(key) {
            of_key.flush_requested = true;
            self.set_timer(key, Some(Timestamp::MIN));
        }
    }

    /// Whether the status of this object must be written now if it has changed.
    pub(crate) fn is_due(&self, key: &Key, object: &ObjectRef, now: Timestamp) -> bool {
        let of_key = self.by_key.get(key);
        of_key.is_some_and(|of_key| of_key.deadlines.get(object).is_some_and(|at| of_key.is_due(*at, now)))
    }

    /// The objects of a key whose status must be written now.
    pub(crate) fn due(&self, key: &Key, now: Timestamp) -> Vec<ObjectRef> {
        let Some(of_key) = self.by_key.get(key) else { return Vec::new() };
        let due = of_key.deadlines.iter().filter(|(_, at)| of_key.is_due(**at, now));
        due.map(|(object, _)| object.clone()).collect()
    }

    /// Sets the timer of a key, after its statuses were written or deferred.
    pub(crate) fn arm(&mut self, key: &Key) {
        let deadline = self.by_key.get(key).and_then(|of_key| of_key.deadlines.values().min().copied());
        self.set_timer(key, deadline);
    }

    /// The next key whose timer has fired, without its timer. A key that is being reconciled flushes itself and arms its timer
    /// again.
    pub(crate) fn take_due_key(&mut self, now: Timestamp) -> Option<Key> {
        let key = match (self.timers.first(), self.timers.last()) {
            (Some((at, key)), _) if *at <= now => key.clone(),
            (_, Some((at, key))) if *at > later(now, LONGEST_DEFERRAL) => key.clone(),
            _ => return None,
        };
        self.set_timer(&key, None);
        Some(key)
    }

    /// When the next timer fires.
    pub(crate) fn next_due(&self) -> Option<Timestamp> {
        self.timers.first().map(|(at, _)| *at)
    }

    /// Removes everything.
    pub(crate) fn take_all(&mut self) -> Vec<(Key, Vec<ObjectRef>)> {
        self.timers.clear();
        let all = std::mem::take(&mut self.by_key);
        all.into_iter().map(|(key, of_key)| (key, of_key.deadlines.into_keys().collect())).collect()
    }

    fn set_timer(&mut self, key: &Key, at: Option<Timestamp>) {
        let Some(of_key) = self.by_key.get_mut(key) else { return };
        let before = std::mem::replace(&mut of_key.timer, at);
        if let Some(before) = before {
            self.timers.remove(&(before, key.clone()));
        }
        self.timers.extend(at.map(|at| (at, key.clone())));
    }
}

impl OfKey {
    /// A deadline that is too far away was set before the clock was set back.
    fn is_due(&self, deadline: Timestamp, now: Timestamp) -> bool {
        self.flush_requested || deadline <= now || deadline > later(now, LONGEST_DEFERRAL)
    }
}

/// Until when further writes of an object are delayed because its last write took long.
#[derive(Debug, Default)]
pub(crate) struct WriteCosts(Mutex<BTreeMap<ObjectRef, Timestamp>>);

impl WriteCosts {
    /// A write of this object has just ended after `duration`.
    pub(crate) fn record(&self, object: &ObjectRef, duration: Duration, now: Timestamp) {
        let delay = duration.saturating_mul(COST_FACTOR);
        let mut costs = self.0.lock();
        if delay < SMALLEST_DELAY {
            costs.remove(object);
            return;
        }
        if costs.len() >= COSTS_BEFORE_CLEANUP {
            costs.retain(|_, until| *until > now);
        }
        costs.insert(object.clone(), later(now, delay));
    }

    /// The deadline of a status that is deferred now for `window`.
    pub(crate) fn deadline(&self, object: &ObjectRef, window: Duration, now: Timestamp) -> Timestamp {
        let wanted = later(now, window);
        let affordable = self.0.lock().get(object).copied().unwrap_or(wanted);
        wanted.max(affordable).min(later(now, LONGEST_DEFERRAL))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn object(name: &str) -> ObjectRef {
        let kind = KindId::new("", "v1", "ConfigMap", "configmaps");
        ObjectRef { cluster: ClusterId::MAIN, kind, key: ObjectKey::namespaced("ns", name) }
    }

    fn at(milliseconds: i64) -> Timestamp {
        Timestamp::from_millisecond(milliseconds).unwrap()
    }

    #[test]
    fn the_first_deadline_counts_until_the_status_is_written() {
        let mut deferrals = Deferrals::default();
        deferrals.add(&"key", object("a"), at(1000));
        deferrals.add(&"key", object("a"), at(1500));
        deferrals.add(&"key", object("b"), at(1200));
        deferrals.arm(&"key");
        assert_eq!((deferrals.next_due(), deferrals.take_due_key(at(999))), (Some(at(1000)), None));
        assert_eq!(deferrals.take_due_key(at(1000)), Some("key"));
        assert_eq!((deferrals.next_due(), deferrals.take_due_key(at(1000))), (None, None), "until it is armed again");
        assert_eq!(deferrals.due(&"key", at(1000)), [object("a")]);
        assert!(deferrals.is_due(&"key", &object("a"), at(1000)) && !deferrals.is_due(&"key", &object("b"), at(1000)));
        deferrals.remove(&"key", &object("a"));
        deferrals.add(&"key", object("a"), at(2000));
        deferrals.arm(&"key");
        assert_eq!(deferrals.next_due(), Some(at(1200)));
        deferrals.remove(&"key", &object("a"));
        deferrals.remove(&"key", &object("b"));
        assert_eq!((deferrals.next_due(), deferrals.take_all()), (None, vec![]));
    }

    #[test]
    fn a_flush_makes_everything_due_that_a_key_has_deferred() {
        let mut deferrals = Deferrals::default();
        deferrals.request_flush(&"key");
        deferrals.add(&"key", object("a"), at(1000));
        assert_eq!(deferrals.due(&"key", at(0)), [], "requested before anything was deferred");
        deferrals.request_flush(&"key");
        assert_eq!(deferrals.take_due_key(at(0)), Some("key"));
        assert_eq!(deferrals.due(&"key", at(0)), [object("a")]);
        assert_eq!(deferrals.take_all(), [("key", vec![object("a")])]);
    }

    #[test]
    fn a_deadline_from_before_the_clock_was_set_back_is_due() {
        let mut deferrals = Deferrals::default();
        deferrals.add(&"key", object("a"), at(7_200_000));
        deferrals.arm(&"key");
        assert_eq!((deferrals.take_due_key(at(7_199_000)), deferrals.due(&"key", at(7_199_000))), (None, vec![]));
        assert_eq!((deferrals.take_due_key(at(0)), deferrals.due(&"key", at(0))), (Some("key"), vec![object("a")]));
    }

    #[test]
    fn a_slow_write_delays_the_next_one_by_ten_times_its_duration_and_at_most_a_minute() {
        let costs = WriteCosts::default();
        let second = Duration::from_secs(1);
        assert_eq!(costs.deadline(&object("a"), second, at(0)), at(1000));
        costs.record(&object("a"), Duration::from_millis(500), at(0));
        assert_eq!(costs.deadline(&object("a"), second, at(0)), at(5000));
        assert_eq!(costs.deadline(&object("a"), second, at(4500)), at(5500), "the window counts from now");
        assert_eq!(costs.deadline(&object("b"), second, at(0)), at(1000), "other objects are not delayed");
        costs.record(&object("a"), Duration::from_secs(30), at(10_000));
        assert_eq!(costs.deadline(&object("a"), second, at(10_000)), at(70_000));
        costs.record(&object("a"), Duration::from_millis(5), at(20_000));
        assert_eq!(costs.deadline(&object("a"), second, at(20_000)), at(21_000), "the last write counts");
    }

    #[test]
    fn costs_that_have_expired_are_forgotten() {
        let costs = WriteCosts::default();
        for number in 0..COSTS_BEFORE_CLEANUP {
            costs.record(&object(&number.to_string()), Duration::from_secs(1), at(0));
        }
        costs.record(&object("new"), Duration::from_secs(1), at(60_000));
        assert_eq!(costs.0.lock().len(), 1);
    }
}
