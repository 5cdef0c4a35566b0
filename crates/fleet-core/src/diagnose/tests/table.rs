//! The order of the rules, and JSON output.

use std::collections::BTreeSet;

use super::fixture::{fleet, run};
use crate::diagnose::{self, placement, run as run_rules};

#[test]
fn the_rules_are_in_order_of_precedence() {
    let entries: Vec<&str> = run_rules::RULES.iter().flat_map(|rule| rule.entries.iter().copied()).collect();
    let expected = "UR-16 UR-04 UR-05 UR-06 UR-07 UR-08 UR-09 UR-10 UR-11 UR-12 UR-13 UR-14 UR-15 UR-30 UR-24 UR-20 UR-21 UR-22 UR-23 UR-25 UR-26 UR-27 \
        UR-28 UR-29 UR-30 UR-42 UR-40 UR-41 UR-43 UR-61 UR-60 UR-03 UR-51 UR-54 UR-55 UR-50 UR-53 UR-52 UR-02 UR-62 UR-44 UR-80";
    assert_eq!(entries.join(" "), expected);
    let of_placements: Vec<&str> =
        placement::SCHEDULING.iter().chain(placement::ROLLOUT).flat_map(|rule| rule.entries.iter().copied()).collect();
    assert_eq!(of_placements.join(" "), "PL-S3 PL-S3 PL-N2 PL-S1 PL-S2 PL-S4 UR-01 UR-81 PL-R2 PL-R1");
    let all: BTreeSet<&str> = entries.into_iter().collect();
    // All UR entries except those about placements (UR-01, UR-81) and refused requests (UR-70).
    assert_eq!(all.len(), 41, "{all:?}");
}

#[test]
fn a_diagnosis_can_be_written_as_json() {
    let status = "conditions: ['Initialized=False UpdateRunInitializedFailed: no resourceSnapshots with index `1` found for placement `/example-placement`']";
    let found = diagnose::run(&fleet().with(&run(status)).inputs());
    let json = serde_json::to_value(&found).unwrap();
    assert_eq!(json["cause"]["entry"], "UR-04");
    assert_eq!(json["cause"]["severity"], "error");
    assert_eq!(json["cause"]["fixes"][0]["steps"][0]["action"]["verb"], "create");
    assert_eq!(json["cause"]["evidence"][0]["object"]["kind"], "ClusterStagedUpdateRun");
    assert!(
        json["cause"]["fixes"][0]["steps"][0]["command"].as_str().unwrap().starts_with("kubectl create -f - <<'EOF'\n")
    );
}
