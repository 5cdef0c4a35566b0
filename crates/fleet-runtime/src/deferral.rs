//! When deferred statuses are written. A status waits for the window that its plan gives, and longer if the last write of the
//! object or the recent writes to its server took long: a slow server or a large object causes fewer writes instead of a longer
//! queue.

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
/// A deferrable status waits for this many times the mean duration of recent writes to its server. An idle server answers within
/// 5 ms, which is less than the windows of plans. If writes take 200 ms, statuses that nobody waits for take 20 s.
const LOAD_FACTOR: u32 = 100;
/// The newest write has this share of the mean; one write of 3 s on an idle server delays the next status by 19 s.
const MEAN_DIVISOR: u32 = 16;
/// A server without writes for this long is idle.
const LOAD_EXPIRES: Duration = Duration::from_secs(10);
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
    deadlines: BTreeMap<ObjectRef, Deadline>,
    flush_requested: bool,
    timer: Option<Timestamp>,
}

#[derive(Debug, Clone, Copy)]
struct Deadline {
    /// When the status was deferred first.
    since: Timestamp,
    at: Timestamp,
}

impl<Key> Default for Deferrals<Key> {
    fn default() -> Self {
        Self { by_key: BTreeMap::new(), timers: BTreeSet::new() }
    }
}

impl<Key: Ord + Clone> Deferrals<Key> {
    /// Defers the status of an object. Its first deadline counts, unless the new one is earlier.
    pub(crate) fn add(&mut self, key: &Key, object: ObjectRef, now: Timestamp, deadline: Timestamp) {
        let deadlines = &mut self.by_key.entry(key.clone()).or_default().deadlines;
        let first = deadlines.entry(object).or_insert(Deadline { since: now, at: deadline });
        first.at = first.at.min(deadline);
    }

    /// Moves deadlines that have passed, if writes have become slower since the statuses were deferred.
    pub(crate) fn postpone(&mut self, key: &Key, costs: &WriteCosts, now: Timestamp) {
        let Some(of_key) = self.by_key.get_mut(key).filter(|of_key| !of_key.flush_requested) else { return };
        for (object, deadline) in &mut of_key.deadlines {
            if deadline.at <= now {
                deadline.at = deadline.at.max(costs.deadline(object, Duration::ZERO, deadline.since, now));
            }
        }
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
        of_key.is_some_and(|of_key| of_key.deadlines.get(object).is_some_and(|deadline| of_key.is_due(*deadline, now)))
    }

    /// The objects of a key whose status must be written now.
    pub(crate) fn due(&self, key: &Key, now: Timestamp) -> Vec<ObjectRef> {
        let Some(of_key) = self.by_key.get(key) else { return Vec::new() };
        let due = of_key.deadlines.iter().filter(|(_, deadline)| of_key.is_due(**deadline, now));
        due.map(|(object, _)| object.clone()).collect()
    }

    /// Sets the timer of a key, after its statuses were written or deferred.
    pub(crate) fn arm(&mut self, key: &Key) {
        let of_key = self.by_key.get(key);
        let deadline = of_key.and_then(|of_key| of_key.deadlines.values().map(|deadline| deadline.at).min());
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
    fn is_due(&self, deadline: Deadline, now: Timestamp) -> bool {
        self.flush_requested || deadline.at <= now || deadline.at > later(now, LONGEST_DEFERRAL)
    }
}

/// What recent writes cost.
#[derive(Debug, Default)]
pub(crate) struct WriteCosts(Mutex<Costs>);

#[derive(Debug, Default)]
struct Costs {
    /// Until when further writes of an object are delayed because its last write took long.
    objects: BTreeMap<ObjectRef, Timestamp>,
    servers: BTreeMap<ClusterId, Load>,
}

/// How long recent writes to a server took.
#[derive(Debug, Clone, Copy)]
struct Load {
    mean: Duration,
    /// When the last write ended.
    at: Timestamp,
}

impl Load {
    /// Nothing if it is too old, or from before the clock was set back.
    fn mean_at(self, now: Timestamp) -> Duration {
        let is_recent = self.at <= now && now <= later(self.at, LOAD_EXPIRES);
        if is_recent { self.mean } else { Duration::ZERO }
    }
}

impl WriteCosts {
    /// A write to this server has just ended after `duration`.
    pub(crate) fn record_load(&self, server: ClusterId, duration: Duration, now: Timestamp) {
        let servers = &mut self.0.lock().servers;
        let mean = servers.get(&server).map_or(Duration::ZERO, |load| load.mean_at(now));
        let share = |of: Duration| of.checked_div(MEAN_DIVISOR).unwrap_or_default();
        let mean = mean.saturating_sub(share(mean)).saturating_add(share(duration));
        servers.insert(server, Load { mean, at: now });
    }

    /// A deferrable write of this object has just ended after `duration`.
    pub(crate) fn record(&self, object: &ObjectRef, duration: Duration, now: Timestamp) {
        let delay = duration.saturating_mul(COST_FACTOR);
        let costs = &mut self.0.lock().objects;
        if delay < SMALLEST_DELAY {
            costs.remove(object);
            return;
        }
        if costs.len() >= COSTS_BEFORE_CLEANUP {
            costs.retain(|_, until| *until > now);
        }
        costs.insert(object.clone(), later(now, delay));
    }

    /// The deadline of a status that is deferred for `window` since this time.
    pub(crate) fn deadline(&self, object: &ObjectRef, window: Duration, since: Timestamp, now: Timestamp) -> Timestamp {
        let costs = self.0.lock();
        let load = costs.servers.get(&object.cluster).map_or(Duration::ZERO, |load| load.mean_at(now));
        let wanted = later(since, window.max(load.saturating_mul(LOAD_FACTOR)));
        let affordable = costs.objects.get(object).copied().unwrap_or(wanted);
        wanted.max(affordable).min(later(since, LONGEST_DEFERRAL))
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

    /// The deadline of a status that is deferred now for a second.
    fn deadline(costs: &WriteCosts, object: &ObjectRef, now: Timestamp) -> Timestamp {
        costs.deadline(object, Duration::from_secs(1), now, now)
    }

    #[test]
    fn the_first_deadline_counts_until_the_status_is_written() {
        let mut deferrals = Deferrals::default();
        deferrals.add(&"key", object("a"), at(0), at(1000));
        deferrals.add(&"key", object("a"), at(0), at(1500));
        deferrals.add(&"key", object("b"), at(0), at(1200));
        deferrals.arm(&"key");
        assert_eq!((deferrals.next_due(), deferrals.take_due_key(at(999))), (Some(at(1000)), None));
        assert_eq!(deferrals.take_due_key(at(1000)), Some("key"));
        assert_eq!((deferrals.next_due(), deferrals.take_due_key(at(1000))), (None, None), "until it is armed again");
        assert_eq!(deferrals.due(&"key", at(1000)), [object("a")]);
        assert!(deferrals.is_due(&"key", &object("a"), at(1000)) && !deferrals.is_due(&"key", &object("b"), at(1000)));
        deferrals.remove(&"key", &object("a"));
        deferrals.add(&"key", object("a"), at(0), at(2000));
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
        deferrals.add(&"key", object("a"), at(0), at(1000));
        assert_eq!(deferrals.due(&"key", at(0)), [], "requested before anything was deferred");
        deferrals.request_flush(&"key");
        assert_eq!(deferrals.take_due_key(at(0)), Some("key"));
        assert_eq!(deferrals.due(&"key", at(0)), [object("a")]);
        assert_eq!(deferrals.take_all(), [("key", vec![object("a")])]);
    }

    #[test]
    fn a_deadline_from_before_the_clock_was_set_back_is_due() {
        let mut deferrals = Deferrals::default();
        deferrals.add(&"key", object("a"), at(7_199_000), at(7_200_000));
        deferrals.arm(&"key");
        assert_eq!((deferrals.take_due_key(at(7_199_000)), deferrals.due(&"key", at(7_199_000))), (None, vec![]));
        assert_eq!((deferrals.take_due_key(at(0)), deferrals.due(&"key", at(0))), (Some("key"), vec![object("a")]));
    }

    #[test]
    fn a_slow_write_delays_the_next_one_by_ten_times_its_duration_and_at_most_a_minute() {
        let costs = WriteCosts::default();
        assert_eq!(deadline(&costs, &object("a"), at(0)), at(1000));
        costs.record(&object("a"), Duration::from_millis(500), at(0));
        assert_eq!(deadline(&costs, &object("a"), at(0)), at(5000));
        assert_eq!(deadline(&costs, &object("a"), at(4500)), at(5500), "the window counts from now");
        assert_eq!(deadline(&costs, &object("b"), at(0)), at(1000), "other objects are not delayed");
        costs.record(&object("a"), Duration::from_secs(30), at(10_000));
        assert_eq!(deadline(&costs, &object("a"), at(10_000)), at(70_000));
        costs.record(&object("a"), Duration::from_millis(5), at(20_000));
        assert_eq!(deadline(&costs, &object("a"), at(20_000)), at(21_000), "the last write counts");
    }

    #[test]
    fn slow_writes_to_a_server_delay_the_statuses_of_all_its_objects() {
        let costs = WriteCosts::default();
        for _ in 0..200 {
            costs.record_load(ClusterId::MAIN, Duration::from_millis(5), at(0));
        }
        assert_eq!(deadline(&costs, &object("a"), at(0)), at(1000), "an idle server does not count");
        for _ in 0..200 {
            costs.record_load(ClusterId::MAIN, Duration::from_millis(200), at(0));
        }
        let loaded = deadline(&costs, &object("a"), at(0));
        assert!(at(19_900) < loaded && loaded <= at(20_000), "{loaded}");
        assert_eq!(deadline(&costs, &object("a"), at(11_000)), at(12_000), "no writes for ten seconds");
        let other = ObjectRef { cluster: ClusterId(1), ..object("a") };
        assert_eq!(deadline(&costs, &other, at(0)), at(1000), "another server");
        for _ in 0..200 {
            costs.record_load(ClusterId::MAIN, Duration::from_secs(9), at(0));
        }
        assert_eq!(deadline(&costs, &object("a"), at(0)), at(60_000), "never longer than a minute");
    }

    #[test]
    fn a_deadline_moves_if_the_server_has_become_slow_and_never_beyond_a_minute() {
        let (mut deferrals, costs) = (Deferrals::default(), WriteCosts::default());
        deferrals.add(&"key", object("a"), at(0), at(1000));
        deferrals.postpone(&"key", &costs, at(1000));
        assert!(deferrals.is_due(&"key", &object("a"), at(1000)), "nothing has changed");
        for _ in 0..200 {
            costs.record_load(ClusterId::MAIN, Duration::from_secs(9), at(1000));
        }
        deferrals.postpone(&"key", &costs, at(999));
        assert!(deferrals.is_due(&"key", &object("a"), at(1000)), "it had not passed");
        deferrals.postpone(&"key", &costs, at(1000));
        assert_eq!(deferrals.due(&"key", at(59_999)), []);
        costs.record_load(ClusterId::MAIN, Duration::from_secs(9), at(60_000));
        deferrals.postpone(&"key", &costs, at(60_000));
        assert_eq!(deferrals.due(&"key", at(60_000)), [object("a")]);
    }

    #[test]
    fn a_requested_flush_is_not_postponed() {
        let (mut deferrals, costs) = (Deferrals::default(), WriteCosts::default());
        deferrals.add(&"key", object("a"), at(0), at(0));
        deferrals.request_flush(&"key");
        for _ in 0..200 {
            costs.record_load(ClusterId::MAIN, Duration::from_secs(9), at(0));
        }
        deferrals.postpone(&"key", &costs, at(0));
        assert_eq!(deferrals.due(&"key", at(0)), [object("a")]);
    }

    #[test]
    fn costs_that_have_expired_are_forgotten() {
        let costs = WriteCosts::default();
        for number in 0..COSTS_BEFORE_CLEANUP {
            costs.record(&object(&number.to_string()), Duration::from_secs(1), at(0));
        }
        costs.record(&object("new"), Duration::from_secs(1), at(60_000));
        assert_eq!(costs.0.lock().objects.len(), 1);
    }
}
