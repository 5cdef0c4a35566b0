//! Wherever the embedded API server is known to differ from kube-apiserver, it says so here, with the reason.
//! `cargo xtask parity` fails on a difference that is not listed, on an entry that is no longer seen, and always where
//! we would accept what the real server refuses.

use xtask::parity::Known;

/// Every known difference. An entry names a case, a step (or `*`), why, and in which direction ours differs.
pub(crate) const KNOWN: &[Known] = &[];

#[cfg(test)]
mod tests {
    use super::KNOWN;
    use xtask::parity::{command::cases_directory, script};

    #[test]
    fn every_known_difference_names_a_case_and_a_step_that_exist_and_a_reason() {
        let cases = script::load(&cases_directory()).expect("the cases can be read");
        for known in KNOWN {
            let case = cases.iter().find(|case| case.name == known.case);
            let case = case.unwrap_or_else(|| panic!("no case is named {:?}", known.case));
            let step = known.step == "*" || case.steps.iter().any(|step| step.name == known.step);
            assert!(step, "{} has no step {:?}", known.case, known.step);
            assert!(!known.reason.is_empty(), "{} / {} gives no reason", known.case, known.step);
        }
    }

    #[test]
    fn no_difference_is_listed_twice() {
        for (index, known) in KNOWN.iter().enumerate() {
            let twin = KNOWN[..index].iter().find(|other| other.case == known.case && other.step == known.step);
            assert_eq!(twin, None, "{} / {}", known.case, known.step);
        }
    }
}
