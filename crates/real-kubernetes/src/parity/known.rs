//! The known differences between the embedded API server and kube-apiserver, with reasons.
//!
//! `cargo xtask parity` fails on a difference that is not listed, on an entry that no longer occurs, and always where the
//! embedded server accepts what the real one refuses.

use super::divergence::{Direction, Known};

/// Clients decide by the `reason` of a `Status`, so each refusal has one, also where kube-apiserver answers plain text.
const ALWAYS_A_STATUS: &str = "every refusal is a Status with a reason; the real server answers plain text here";

const SAYS_WHAT_IT_IS: &str =
    "the version has a suffix that distinguishes an embedded server from a real one in a bug report";

const NO_PROTOBUF_ANSWERS: &str = "bodies may be protobuf, answers are JSON or YAML, and the message says so";

const BAD_VERSION_IS_THE_CLIENTS: &str =
    "a resourceVersion that is no number is the client's mistake: 400 BadRequest, not a 500 without a reason";

const NOBODY_TAKES_IT_BACK: &str =
    "kube-controller-manager takes the taint or finalizer back later; no controller of ours would, so it is not set";

/// A selector that is dropped because it cannot be read would turn a small deletion into a large one.
const UNREADABLE_QUERY: &str = "a query that cannot be read is refused; the real server leaves its broken parts out";

const DISCOVERY_IS_READ: &str =
    "discovery is read with GET; the real server answers a POST to a group document as if it were one";

const fn stricter(case: &'static str, step: &'static str, reason: &'static str) -> Known {
    Known { case, step, reason, direction: Direction::Stricter }
}

const EMPTY_LIST_IS_NONE: &str =
    "an empty list of rules is taken for none before owners are recorded; the real server records it and then drops it";

const fn wording(case: &'static str, step: &'static str, reason: &'static str) -> Known {
    Known { case, step, reason, direction: Direction::Wording }
}

/// Every known difference. An entry names a case, a step (or `*`), why, and in which direction ours differs.
pub(super) const KNOWN: &[Known] = &[
    wording("auth/impersonation", "a group without a user", ALWAYS_A_STATUS),
    wording("bad/paths", "an unknown top path", ALWAYS_A_STATUS),
    wording("bad/paths", "delete an unknown path", ALWAYS_A_STATUS),
    stricter("bad/query-parameters", "bad escape", UNREADABLE_QUERY),
    wording("discovery/legacy", "unknown group", ALWAYS_A_STATUS),
    stricter("discovery/methods", "post", DISCOVERY_IS_READ),
    wording("discovery/version-and-health", "an unknown path", ALWAYS_A_STATUS),
    wording("kinds/node", "create", NOBODY_TAKES_IT_BACK),
    wording("kinds/storage", "claim", NOBODY_TAKES_IT_BACK),
    wording("kubectl/version", "both sides", SAYS_WHAT_IT_IS),
    wording("read/accept-headers", "an unknown type", NO_PROTOBUF_ANSWERS),
    wording("read/accept-headers", "json through a wildcard", NO_PROTOBUF_ANSWERS),
    wording("read/accept-headers", "an unknown transformation", NO_PROTOBUF_ANSWERS),
    wording("read/get-resource-version", "not a number", BAD_VERSION_IS_THE_CLIENTS),
    wording(
        "update/optimistic-concurrency",
        "a lease needs no version to be replaced but a role does not either",
        EMPTY_LIST_IS_NONE,
    ),
    wording("watch/bad-version", "garbage", BAD_VERSION_IS_THE_CLIENTS),
];

#[cfg(test)]
mod tests {
    use super::super::{command::cases_directory, script};
    use super::KNOWN;

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
