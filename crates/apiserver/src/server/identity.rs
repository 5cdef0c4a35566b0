//! Generates uids and name suffixes, from the generator of the operating system or from a seed for reproducible
//! simulations.

use std::sync::atomic::{AtomicU64, Ordering};

use uuid::Uuid;

/// Letters and digits that cannot form words or be mistaken for each other.
const SUFFIX_ALPHABET: &[u8] = b"bcdfghjklmnpqrstvwxz2456789";

/// Characters behind a `generateName`.
const SUFFIX_LENGTH: usize = 5;

/// The source of uids, name suffixes and audit ids. Thread-safe.
#[derive(Debug)]
pub(crate) struct Identities(Source);

#[derive(Debug)]
enum Source {
    /// The operating system's cryptographic generator, whose numbers cannot be predicted.
    System,
    /// For simulations: the state of a generator whose numbers follow from the seed.
    Seeded(AtomicU64),
}

impl Identities {
    /// Draws from the operating system unless a seed is given.
    pub(crate) fn new(seed: Option<u64>) -> Self {
        Self(seed.map_or(Source::System, |seed| Source::Seeded(AtomicU64::new(seed))))
    }

    pub(crate) fn number(&self) -> u64 {
        match &self.0 {
            Source::System => {
                let (high, low) = Uuid::new_v4().as_u64_pair();
                // Six bits of a uuid are fixed; here each of them meets a random one.
                high ^ low.rotate_left(32)
            }
            Source::Seeded(state) => seeded(state),
        }
    }

    pub(crate) fn uid(&self) -> String {
        match &self.0 {
            Source::System => Uuid::new_v4().to_string(),
            Source::Seeded(state) => {
                let mut bytes = [0; 16];
                bytes[..8].copy_from_slice(&seeded(state).to_le_bytes());
                bytes[8..].copy_from_slice(&seeded(state).to_le_bytes());
                uuid::Builder::from_random_bytes(bytes).into_uuid().to_string()
            }
        }
    }

    pub(crate) fn suffix(&self) -> String {
        let mut number = self.number();
        let mut out = String::with_capacity(SUFFIX_LENGTH);
        for _ in 0..SUFFIX_LENGTH {
            let size = SUFFIX_ALPHABET.len() as u64;
            out.push(char::from(SUFFIX_ALPHABET[usize::try_from(number % size).unwrap_or(0)]));
            number /= size;
        }
        out
    }
}

/// SplitMix64: every state gives one number, and states never repeat within a process's life.
fn seeded(state: &AtomicU64) -> u64 {
    const STEP: u64 = 0x9E37_79B9_7F4A_7C15;
    let state = state.fetch_add(STEP, Ordering::Relaxed).wrapping_add(STEP);
    let mixed = (state ^ (state >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    mixed ^ (mixed >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_seed_gives_one_sequence() {
        let draw = |seed| {
            let identities = Identities::new(Some(seed));
            (identities.uid(), identities.suffix(), identities.uid())
        };
        assert_eq!(draw(7), draw(7));
        assert_ne!(draw(7), draw(8));
        assert_ne!(draw(7).0, draw(7).2);
    }

    /// The number whose mixing by SplitMix64 gave this one: every step of the mixing can be undone.
    fn unmixed(number: u64) -> u64 {
        let unshift = |mixed: u64, by: u32| (0..64 / by).fold(mixed, |out, _| mixed ^ (out >> by));
        let inverse =
            |factor: u64| (0..6).fold(factor, |out, _| out.wrapping_mul(2_u64.wrapping_sub(factor.wrapping_mul(out))));
        let number = unshift(number, 31).wrapping_mul(inverse(0x94D0_49BB_1331_11EB));
        let number = unshift(number, 27).wrapping_mul(inverse(0xBF58_476D_1CE4_E5B9));
        unshift(number, 30)
    }

    #[test]
    fn audit_18_shown_numbers_do_not_predict_the_next_one() {
        let predicted = |identities: &Identities| {
            let shown = identities.number();
            Identities::new(Some(unmixed(shown))).number() == identities.number()
        };
        assert!(predicted(&Identities::new(Some(7))), "the generator of simulations can be predicted");
        let identities = Identities::new(None);
        assert!((0..100).all(|_| !predicted(&identities)));
    }

    #[test]
    fn audit_18_every_bit_of_a_number_varies() {
        let identities = Identities::new(None);
        let (ones, zeros) =
            (0..200).map(|_| identities.number()).fold((0, 0), |(ones, zeros), n| (ones | n, zeros | !n));
        assert_eq!((ones, zeros), (u64::MAX, u64::MAX));
    }

    #[test]
    fn uids_are_random_uuids_and_suffixes_have_five_letters() {
        let identities = Identities::new(None);
        let uid = Uuid::parse_str(&identities.uid()).unwrap();
        assert_eq!(uid.get_version_num(), 4);
        let suffix = identities.suffix();
        assert_eq!(suffix.len(), 5);
        assert!(suffix.bytes().all(|b| SUFFIX_ALPHABET.contains(&b)));
    }
}
