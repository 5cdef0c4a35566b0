//! The delete budget: a mass deletion is slowed down, so that a person has time to notice it.
//!
//! The deletions of the last minute are recorded on the member, so that the limit also holds across restarts of the
//! agent.

use std::collections::{BTreeMap, VecDeque};

use jiff::{SignedDuration, Timestamp};

/// The window in which deletions are counted.
pub const WINDOW: SignedDuration = SignedDuration::from_mins(1);

/// The fraction of `Limit::objects` that may be deleted without a record on the member, so that usual deletions cost
/// no extra write.
const UNRECORDED_PART: usize = 10;

/// The maximum number of deletions within `WINDOW`: the larger of the two.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limit {
    pub objects: usize,
    /// Percentage of all objects that the Works of this member have placed.
    pub percent: usize,
}

impl Default for Limit {
    /// Enough to delete any single application at once, but a fleet-wide mistake takes longer than a minute.
    fn default() -> Self {
        Self { objects: 200, percent: 20 }
    }
}

impl Limit {
    /// The limit as a number of objects.
    pub fn of(self, placed: usize) -> usize {
        self.objects.max(placed.saturating_mul(self.percent) / 100)
    }

    /// The number of deletions in the last minute that need no record.
    pub fn unrecorded(self) -> usize {
        self.objects / UNRECORDED_PART
    }
}

/// Deletions of the last minute.
#[derive(Debug, Clone, Default)]
pub struct Budget {
    /// Oldest first.
    spent: VecDeque<Spent>,
    /// The number of the newest entry.
    newest: u64,
    unrecorded_max: usize,
}

#[derive(Debug, Clone, Copy)]
struct Spent {
    at: Timestamp,
    objects: usize,
    number: u64,
    recorded: bool,
}

/// The deletions of the last minute as the text of an annotation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Record {
    /// `<time>=<objects>`, separated by spaces; at most one entry per second.
    pub text: String,
    /// The newest entry that it contains.
    number: u64,
}

impl Budget {
    /// The budget of an agent that started at `since`, restored from the records of earlier agents. Their unrecorded
    /// deletions (at most `unrecorded_max`) count as made at that time.
    pub fn resumed<'a>(
        records: impl IntoIterator<Item = &'a str>,
        unrecorded_max: usize,
        since: Timestamp,
        now: Timestamp,
    ) -> Self {
        let mut budget = Self { unrecorded_max, ..Self::default() };
        // Each record contains all deletions of its last minute, so the largest number for a second is the right one.
        let mut by_second: BTreeMap<Timestamp, usize> = BTreeMap::new();
        for (at, objects) in records.into_iter().flat_map(entries_of) {
            let known = by_second.entry(at.min(now)).or_default();
            *known = objects.max(*known);
        }
        for (at, objects) in by_second {
            budget.spend(objects, at, true);
        }
        budget.spend(unrecorded_max, since, false);
        budget.spent.make_contiguous().sort_by_key(|spent| spent.at);
        budget
    }

    /// Grants as many of `wanted` single deletions as possible, and counts them.
    pub fn take_some(&mut self, wanted: usize, limit: usize, now: Timestamp) -> usize {
        let granted = wanted.min(self.room(limit, now));
        self.spend(granted, now, false);
        granted
    }

    /// Grants all of `wanted` deletions or none, and counts them if granted.
    pub fn take_all(&mut self, wanted: usize, limit: usize, now: Timestamp) -> bool {
        let granted = wanted <= self.room(limit, now);
        if granted {
            self.spend(wanted, now, false);
        }
        granted
    }

    /// Returns deletions that were granted at this time and not made.
    pub fn give_back(&mut self, objects: usize, granted_at: Timestamp) {
        let is_it = |spent: &Spent| spent.at == granted_at && spent.objects == objects && !spent.recorded;
        if let Some(place) = self.spent.iter().rposition(is_it) {
            self.spent.remove(place);
        }
    }

    /// How many deletions may be made now.
    pub fn room(&mut self, limit: usize, now: Timestamp) -> usize {
        // A limit of zero would block all deletions for ever.
        limit.max(1).saturating_sub(self.spent_at(now))
    }

    /// When more deletions will be possible; `None` if there were none in the last minute.
    pub fn next_room(&self, now: Timestamp) -> Option<Timestamp> {
        let oldest = self.spent.front()?.at;
        Some(oldest.checked_add(WINDOW).unwrap_or(Timestamp::MAX).max(now))
    }

    /// The record to store before the granted deletions are made; `None` if few of them are unrecorded.
    pub fn due_record(&mut self, now: Timestamp) -> Option<Record> {
        self.drop_old(now);
        let unrecorded = self.spent.iter().filter(|spent| !spent.recorded).map(|spent| spent.objects);
        (sum(unrecorded) > self.unrecorded_max).then(|| self.record(now)).flatten()
    }

    /// All deletions of the last minute; `None` if there are none.
    pub fn record(&mut self, now: Timestamp) -> Option<Record> {
        self.drop_old(now);
        let mut by_second: BTreeMap<Timestamp, usize> = BTreeMap::new();
        for spent in &self.spent {
            let known = by_second.entry(next_second(spent.at)).or_default();
            *known = known.saturating_add(spent.objects);
        }
        let entries: Vec<String> = by_second.iter().map(|(at, objects)| format!("{at}={objects}")).collect();
        (!entries.is_empty()).then(|| Record { text: entries.join(" "), number: self.newest })
    }

    /// The record has been stored.
    pub fn recorded(&mut self, record: &Record) {
        self.spent.iter_mut().filter(|spent| spent.number <= record.number).for_each(|spent| spent.recorded = true);
    }

    fn spend(&mut self, objects: usize, at: Timestamp, recorded: bool) {
        if objects > 0 {
            self.newest = self.newest.saturating_add(1);
            self.spent.push_back(Spent { at, objects, number: self.newest, recorded });
        }
    }

    fn spent_at(&mut self, now: Timestamp) -> usize {
        self.drop_old(now);
        sum(self.spent.iter().map(|spent| spent.objects))
    }

    fn drop_old(&mut self, now: Timestamp) {
        while self.spent.front().is_some_and(|spent| is_over(spent.at, now)) {
            self.spent.pop_front();
        }
    }
}

/// Whether a record contains a deletion of the last minute.
pub fn is_current(record: &str, now: Timestamp) -> bool {
    entries_of(record).any(|(at, _)| !is_over(at, now))
}

fn is_over(at: Timestamp, now: Timestamp) -> bool {
    at.checked_add(WINDOW).is_ok_and(|end| end <= now)
}

/// The entries of a record; unreadable ones are skipped.
fn entries_of(record: &str) -> impl Iterator<Item = (Timestamp, usize)> {
    record.split_ascii_whitespace().filter_map(|entry| {
        let (at, objects) = entry.split_once('=')?;
        Some((at.parse().ok()?, objects.parse().ok()?))
    })
}

/// Rounds up to whole seconds: a record must not let deletions expire too soon.
fn next_second(at: Timestamp) -> Timestamp {
    let seconds = at.as_second().saturating_add(i64::from(at.subsec_nanosecond() > 0));
    Timestamp::from_second(seconds).unwrap_or(at)
}

fn sum(objects: impl Iterator<Item = usize>) -> usize {
    objects.fold(0, usize::saturating_add)
}
