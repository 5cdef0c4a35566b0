//! Random numbers from a seed. The same seed gives the same numbers in the same order on every machine.

use std::ops::Range;
use std::time::Duration;

use fleet_runtime::Seeds;

#[derive(Debug)]
pub struct Random(Seeds);

impl Random {
    pub fn new(seed: u64) -> Self {
        Self(Seeds::starting_with(seed))
    }

    /// A separate source for one purpose, so that additional draws here do not shift the draws there.
    #[must_use]
    pub fn fork(&mut self) -> Self {
        Self::new(self.number())
    }

    pub fn number(&mut self) -> u64 {
        self.0.next()
    }

    /// A number below `end`; 0 if `end` is 0.
    pub fn below(&mut self, end: u64) -> u64 {
        let wide = u128::from(self.number()) * u128::from(end);
        u64::try_from(wide >> 64).unwrap_or(0)
    }

    pub fn index(&mut self, length: usize) -> usize {
        usize::try_from(self.below(length as u64)).unwrap_or(0)
    }

    pub fn chance(&mut self, per_mille: u32) -> bool {
        self.below(1000) < u64::from(per_mille)
    }

    pub fn pick<'a, T>(&mut self, from: &'a [T]) -> Option<&'a T> {
        from.get(self.index(from.len()))
    }

    pub fn duration(&mut self, range: &Range<Duration>) -> Duration {
        let width = range.end.saturating_sub(range.start).as_millis();
        range.start.saturating_add(Duration::from_millis(self.below(u64::try_from(width).unwrap_or(u64::MAX))))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_seed_gives_one_sequence_and_forks_are_independent() {
        let draw = |seed| {
            let mut random = Random::new(seed);
            let mut fork = random.fork();
            [random.number(), fork.number(), random.number(), fork.number()]
        };
        assert_eq!(draw(1), draw(1));
        assert_ne!(draw(1), draw(2));
        let mut unused = Random::new(1);
        let _ = unused.fork();
        assert_eq!(
            [unused.number(), unused.number()],
            [draw(1)[0], draw(1)[2]],
            "draws of a fork do not affect its parent"
        );
    }

    #[test]
    fn numbers_stay_in_their_ranges_and_reach_both_ends() {
        let mut random = Random::new(3);
        let drawn: Vec<u64> = (0..200).map(|_| random.below(5)).collect();
        assert_eq!((drawn.iter().min(), drawn.iter().max()), (Some(&0), Some(&4)));
        assert_eq!(random.below(0), 0);
        assert_eq!(random.pick::<u8>(&[]), None);
        let range = Duration::from_millis(10)..Duration::from_millis(12);
        assert!((0..100).all(|_| range.contains(&random.duration(&range))));
    }

    #[test]
    fn chances_hold_in_the_long_run() {
        let mut random = Random::new(4);
        let hits = (0..10_000).filter(|_| random.chance(250)).count();
        assert!((2_300..2_700).contains(&hits), "{hits}");
        assert!(!random.chance(0) && random.chance(1000));
    }
}
