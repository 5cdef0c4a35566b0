//! How many objects may be deleted: a mass deletion is slowed down, so that a person has time to notice it.
//!
//! Decides from the deletions of the last minute and the number of objects that this member holds. Never decides what is to
//! be deleted.

use std::collections::VecDeque;

use jiff::{SignedDuration, Timestamp};

/// The time within which deletions count together.
pub const WINDOW: SignedDuration = SignedDuration::from_mins(1);

/// How much may be deleted within `WINDOW`: the larger of the two.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limit {
    pub objects: usize,
    /// Of all objects that the Works of this member have placed.
    pub percent: usize,
}

impl Default for Limit {
    /// Enough for any one application at once, and for a fleet-wide mistake not to be over within a minute.
    fn default() -> Self {
        Self { objects: 200, percent: 20 }
    }
}

impl Limit {
    /// In objects.
    pub fn of(self, placed: usize) -> usize {
        self.objects.max(placed.saturating_mul(self.percent) / 100)
    }
}

/// Deletions of the last minute.
#[derive(Debug, Clone, Default)]
pub struct Budget {
    spent: VecDeque<(Timestamp, usize)>,
}

impl Budget {
    /// How many of `wanted` single deletions may be made now; they are counted as made.
    pub fn take_some(&mut self, wanted: usize, limit: usize, now: Timestamp) -> usize {
        let granted = wanted.min(self.room(limit, now));
        self.spend(granted, now);
        granted
    }

    /// Whether all of `wanted` deletions, which happen together, may be made now; only then are they counted as made.
    pub fn take_all(&mut self, wanted: usize, limit: usize, now: Timestamp) -> bool {
        let granted = wanted <= self.room(limit, now);
        if granted {
            self.spend(wanted, now);
        }
        granted
    }

    /// How many deletions may be made now.
    pub fn room(&mut self, limit: usize, now: Timestamp) -> usize {
        // A limit of nothing would keep everything for ever.
        limit.max(1).saturating_sub(self.spent_at(now))
    }

    /// When there will be room that is not there now.
    pub fn next_room(&self, now: Timestamp) -> Timestamp {
        let oldest = self.spent.front().map_or(now, |(at, _)| *at);
        oldest.checked_add(WINDOW).unwrap_or(Timestamp::MAX).max(now)
    }

    fn spend(&mut self, objects: usize, now: Timestamp) {
        if objects > 0 {
            self.spent.push_back((now, objects));
        }
    }

    fn spent_at(&mut self, now: Timestamp) -> usize {
        let is_over = |at: Timestamp| at.checked_add(WINDOW).is_ok_and(|end| end <= now);
        while self.spent.front().is_some_and(|(at, _)| is_over(*at)) {
            self.spent.pop_front();
        }
        self.spent.iter().map(|(_, objects)| objects).sum()
    }
}
