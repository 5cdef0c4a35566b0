//! Fresh uids and name suffixes.
//!
//! Decides how they look. From the operating system's randomness, or from a seed, so that a simulation gives the same
//! objects every time.

use std::sync::atomic::{AtomicU64, Ordering};

use uuid::Uuid;

/// Letters and digits that cannot form words or be mistaken for each other.
const SUFFIX_ALPHABET: &[u8] = b"bcdfghjklmnpqrstvwxz2456789";

/// Characters behind a `generateName`.
const SUFFIX_LENGTH: usize = 5;

/// A stream of pseudo-random numbers that many threads may draw from.
#[derive(Debug)]
pub struct Identities(AtomicU64);

impl Identities {
    pub fn new(seed: Option<u64>) -> Self {
        let seed = seed.unwrap_or_else(|| Uuid::new_v4().as_u64_pair().0);
        Self(AtomicU64::new(seed))
    }

    /// SplitMix64: every state gives one number, and states never repeat within a process's life.
    pub fn number(&self) -> u64 {
        const STEP: u64 = 0x9E37_79B9_7F4A_7C15;
        let state = self.0.fetch_add(STEP, Ordering::Relaxed).wrapping_add(STEP);
        let mixed = (state ^ (state >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ (mixed >> 31)
    }

    pub fn uid(&self) -> String {
        let mut bytes = [0; 16];
        bytes[..8].copy_from_slice(&self.number().to_le_bytes());
        bytes[8..].copy_from_slice(&self.number().to_le_bytes());
        uuid::Builder::from_random_bytes(bytes).into_uuid().to_string()
    }

    pub fn suffix(&self) -> String {
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
