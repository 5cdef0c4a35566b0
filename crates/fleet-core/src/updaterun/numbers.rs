//! Whole numbers in labels, annotations and specs, read as Go reads them.
//!
//! Decides what is a number and, where there is none, why not.

use std::num::IntErrorKind;

use fleet_api::conditions::run_fault::SortingLabelProblem;

/// A base-10 integer of machine size; a sign and leading zeros are fine.
pub(super) fn integer(text: &str) -> Result<i64, SortingLabelProblem> {
    text.parse::<i64>().map_err(|error| match error.kind() {
        IntErrorKind::PosOverflow | IntErrorKind::NegOverflow => SortingLabelProblem::OutOfRange,
        _ => SortingLabelProblem::NotAnInteger,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_read_as_go_reads_them() {
        for (text, number) in [("007", 7), ("-3", -3), ("+3", 3), ("9223372036854775807", i64::MAX)] {
            assert_eq!(integer(text), Ok(number), "{text}");
        }
        for text in ["", " 1", "1 ", "1_000", "0x1", "1.0", "one", "+", "-"] {
            assert_eq!(integer(text), Err(SortingLabelProblem::NotAnInteger), "{text:?}");
        }
        assert_eq!(integer("9223372036854775808"), Err(SortingLabelProblem::OutOfRange));
    }
}
