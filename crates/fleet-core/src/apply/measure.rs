//! Size and fingerprint of a value as JSON, without writing it out.
//!
//! Fingerprints are for comparisons within one process and must never be stored.

use std::hash::{DefaultHasher, Hasher as _};
use std::io;

use serde::Serialize;

/// The size of a value as compact JSON, in bytes.
pub fn bytes_of(value: &impl Serialize) -> usize {
    let mut count = Count(0);
    match serde_json::to_writer(&mut count, value) {
        Ok(()) => count.0,
        // A value that cannot be serialized has no size.
        Err(_) => 0,
    }
}

/// A number that is equal for equal JSON, and different otherwise except for rare collisions.
pub fn fingerprint_of(value: &impl Serialize) -> u64 {
    let mut print = Print(DefaultHasher::new());
    match serde_json::to_writer(&mut print, value) {
        Ok(()) => print.0.finish(),
        Err(_) => 0,
    }
}

struct Count(usize);

impl io::Write for Count {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0 += bytes.len();
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

struct Print(DefaultHasher);

impl io::Write for Print {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.write(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn the_size_of_a_value_is_the_length_of_its_json() {
        for value in [json!(null), json!({"a": [1, 2.5, "ä\n"], "b": {}}), json!("x".repeat(9000))] {
            assert_eq!(bytes_of(&value), value.to_string().len());
        }
    }

    #[test]
    fn only_equal_json_has_equal_fingerprints() {
        let prints: std::collections::BTreeSet<u64> =
            [json!({"a": 1}), json!({"a": 2}), json!({"a": "1"}), json!([]), json!({})]
                .iter()
                .map(fingerprint_of)
                .collect();
        assert_eq!(prints.len(), 5);
        assert_eq!(fingerprint_of(&json!({"a": 1, "b": 2})), fingerprint_of(&json!({"b": 2, "a": 1})));
    }
}
