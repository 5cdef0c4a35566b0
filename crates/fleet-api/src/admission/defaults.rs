//! Defaults beyond those of the schemas.
//!
//! Applying them twice changes nothing, and given values never change. Controllers apply the same defaults in memory,
//! because the webhook may not have run.

use serde_json::Value;

use crate::types::{
    ApplyStrategy, ApplyStrategyType, IntOrString, PlacementPolicy, PlacementSpec, PlacementType, RollingUpdateConfig,
    RolloutStrategy, RolloutStrategyType, ServerSideApplyConfig, TopologySpreadConstraint, WorkSpec,
};

/// The defaults of the placement, then those of its strategy.
pub fn fill_placement(spec: &mut PlacementSpec) {
    let policy = spec.policy.get_or_insert_with(|| PlacementPolicy {
        placement_type: Some(PlacementType::PickAll),
        ..PlacementPolicy::default()
    });
    for constraint in policy.topology_spread_constraints.iter_mut().flatten() {
        constraint.max_skew.get_or_insert(TopologySpreadConstraint::DEFAULT_MAX_SKEW);
        constraint.when_unsatisfiable.get_or_insert_default();
    }
    for toleration in policy.tolerations.iter_mut().flatten() {
        toleration.operator.get_or_insert_default();
    }
    fill_strategy(spec.strategy.get_or_insert_default());
    spec.revision_history_limit.get_or_insert(PlacementSpec::DEFAULT_REVISION_HISTORY_LIMIT);
}

fn fill_strategy(strategy: &mut RolloutStrategy) {
    if *strategy.type_.get_or_insert_default() == RolloutStrategyType::RollingUpdate {
        let config = strategy.rolling_update.get_or_insert_default();
        config.max_unavailable.get_or_insert_with(|| IntOrString::from(RollingUpdateConfig::DEFAULT_MAX_UNAVAILABLE));
        config.max_surge.get_or_insert_with(|| IntOrString::from(RollingUpdateConfig::DEFAULT_MAX_SURGE));
        config.unavailable_period_seconds.get_or_insert(RollingUpdateConfig::DEFAULT_UNAVAILABLE_PERIOD_SECONDS);
    }
    fill_apply_strategy(strategy.apply_strategy.get_or_insert_default());
}

/// Co-ownership stays absent, which means false.
pub fn fill_apply_strategy(strategy: &mut ApplyStrategy) {
    let apply_type = *strategy.type_.get_or_insert_default();
    strategy.comparison_option.get_or_insert_default();
    strategy.when_to_apply.get_or_insert_default();
    strategy.when_to_take_over.get_or_insert_default();
    if apply_type == ApplyStrategyType::ServerSideApply {
        let config = strategy.server_side_apply_config.get_or_insert(ServerSideApplyConfig::default());
        config.force.get_or_insert(false);
    }
}

/// The defaults that a member agent applies to a Work.
pub fn fill_work(spec: &mut WorkSpec) {
    fill_apply_strategy(spec.apply_strategy.get_or_insert_default());
}

/// The object with the defaults of a placement in its `spec`. Unknown fields stay, and an object with an unreadable
/// spec is left to the schema.
pub fn filled_placement(object: &Value) -> Value {
    let mut filled = object.clone();
    let Some(given) = filled.get_mut("spec") else { return filled };
    let Ok(mut spec) = serde_json::from_value::<PlacementSpec>(given.clone()) else { return filled };
    fill_placement(&mut spec);
    if let Ok(wanted) = serde_json::to_value(&spec) {
        add_missing(given, wanted);
    }
    filled
}

/// Adds fields to `given` that only `wanted` has; lists are compared item by item.
fn add_missing(given: &mut Value, wanted: Value) {
    match (given, wanted) {
        (Value::Object(given), Value::Object(wanted)) => {
            for (key, value) in wanted {
                match given.get_mut(&key).filter(|present| !present.is_null()) {
                    Some(present) => add_missing(present, value),
                    None => drop(given.insert(key, value)),
                }
            }
        }
        (Value::Array(given), Value::Array(wanted)) => {
            given.iter_mut().zip(wanted).for_each(|(given, wanted)| add_missing(given, wanted));
        }
        _ => {}
    }
}

#[cfg(test)]
#[allow(clippy::needless_pass_by_value, reason = "tables read better without a reference before every literal")]
mod tests {
    use expect_test::{Expect, expect};
    use proptest::prelude::*;
    use serde_json::json;

    use super::super::arbitrary::placement_like;
    use super::*;

    fn check(spec: Value, expected: Expect) {
        let filled = filled_placement(&json!({"spec": spec}));
        expected.assert_eq(&serde_json::to_string_pretty(&filled["spec"]).unwrap());
    }

    #[test]
    fn an_almost_empty_placement_gets_all_defaults() {
        check(
            json!({"resourceSelectors": []}),
            expect![[r#"
            {
              "policy": {
                "placementType": "PickAll"
              },
              "resourceSelectors": [],
              "revisionHistoryLimit": 10,
              "strategy": {
                "applyStrategy": {
                  "comparisonOption": "PartialComparison",
                  "type": "ClientSideApply",
                  "whenToApply": "Always",
                  "whenToTakeOver": "Always"
                },
                "rollingUpdate": {
                  "maxSurge": "25%",
                  "maxUnavailable": "25%",
                  "unavailablePeriodSeconds": 60
                },
                "type": "RollingUpdate"
              }
            }"#]],
        );
    }

    #[test]
    fn each_default_is_independent() {
        check(
            json!({
                "resourceSelectors": [],
                "policy": {
                    "topologySpreadConstraints": [{"topologyKey": "zone"}, {"topologyKey": "rack", "maxSkew": 3, "whenUnsatisfiable": "ScheduleAnyway"}],
                    "tolerations": [{"key": "a"}, {"key": "b", "operator": "Exists"}],
                },
                "strategy": {"rollingUpdate": {"maxSurge": 1}, "applyStrategy": {"type": "ServerSideApply"}},
                "revisionHistoryLimit": 3,
            }),
            expect![[r#"
                {
                  "policy": {
                    "tolerations": [
                      {
                        "key": "a",
                        "operator": "Equal"
                      },
                      {
                        "key": "b",
                        "operator": "Exists"
                      }
                    ],
                    "topologySpreadConstraints": [
                      {
                        "maxSkew": 1,
                        "topologyKey": "zone",
                        "whenUnsatisfiable": "DoNotSchedule"
                      },
                      {
                        "maxSkew": 3,
                        "topologyKey": "rack",
                        "whenUnsatisfiable": "ScheduleAnyway"
                      }
                    ]
                  },
                  "resourceSelectors": [],
                  "revisionHistoryLimit": 3,
                  "strategy": {
                    "applyStrategy": {
                      "comparisonOption": "PartialComparison",
                      "serverSideApplyConfig": {
                        "force": false
                      },
                      "type": "ServerSideApply",
                      "whenToApply": "Always",
                      "whenToTakeOver": "Always"
                    },
                    "rollingUpdate": {
                      "maxSurge": 1,
                      "maxUnavailable": "25%",
                      "unavailablePeriodSeconds": 60
                    },
                    "type": "RollingUpdate"
                  }
                }"#]],
        );
    }

    #[test]
    fn an_external_strategy_gets_no_rolling_update() {
        check(
            json!({"resourceSelectors": [], "policy": {"placementType": "PickFixed"}, "strategy": {"type": "External"}}),
            expect![[r#"
            {
              "policy": {
                "placementType": "PickFixed"
              },
              "resourceSelectors": [],
              "revisionHistoryLimit": 10,
              "strategy": {
                "applyStrategy": {
                  "comparisonOption": "PartialComparison",
                  "type": "ClientSideApply",
                  "whenToApply": "Always",
                  "whenToTakeOver": "Always"
                },
                "type": "External"
              }
            }"#]],
        );
    }

    #[test]
    fn unknown_fields_and_unreadable_specs_are_unchanged() {
        let filled =
            filled_placement(&json!({"spec": {"resourceSelectors": [], "other": 1, "policy": null}, "data": 2}));
        assert_eq!((&filled["spec"]["other"], &filled["data"]), (&json!(1), &json!(2)));
        assert_eq!(filled["spec"]["policy"], json!({"placementType": "PickAll"}));
        for object in [json!({"spec": {"policy": 7}}), json!({}), json!(null)] {
            assert_eq!(filled_placement(&object), object);
        }
    }

    #[test]
    fn a_work_gets_an_apply_strategy() {
        let mut spec = WorkSpec::default();
        fill_work(&mut spec);
        expect![[r#"{"applyStrategy":{"comparisonOption":"PartialComparison","whenToApply":"Always","type":"ClientSideApply","whenToTakeOver":"Always"}}"#]].assert_eq(&serde_json::to_string(&spec).unwrap());
    }

    proptest! {
        #[test]
        fn applying_defaults_twice_changes_nothing_more(object in placement_like()) {
            let once = filled_placement(&object);
            prop_assert_eq!(filled_placement(&once), once);
        }
    }
}
