//! Deterministic pseudo-random bits for generated names and jitter.
//!
//! Must not change between releases: a name that was generated before an answer was lost must be generated again.
//! Never use them for secrets.

/// The step of splitmix64: 2^64 divided by the golden ratio, odd, so that a counter takes all values.
pub const STEP: u64 = 0x9e37_79b9_7f4a_7c15;

/// The output function of splitmix64: well mixed bits for each state of a counter with the step `STEP`.
pub fn mixed(state: u64) -> u64 {
    let a = (state ^ (state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let b = (a ^ (a >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    b ^ (b >> 31)
}

/// FNV-1a of a text, started with these bits.
pub fn hashed(begun: u64, text: &str) -> u64 {
    let step = |hash: u64, byte: u8| (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3);
    text.bytes().fold(begun ^ 0xcbf2_9ce4_8422_2325, step)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_answers_of_the_published_generator() {
        // The first numbers of splitmix64 from 0, and the test vectors of FNV-1a.
        assert_eq!(
            [1, 2].map(|count: u64| mixed(STEP.wrapping_mul(count))),
            [0xe220_a839_7b1d_cdaf, 0x6e78_9e6a_a1b9_65f4]
        );
        assert_eq!([hashed(0, ""), hashed(0, "a")], [0xcbf2_9ce4_8422_2325, 0xaf63_dc4c_8601_ec8c]);
    }
}
