//! Properties of every plan, over random fleets, policies and bindings: it equals the result of the naive scheduler,
//! it leaves nothing to do, it may be interrupted after any write, and it depends only on the facts.

use fleet_api::conditions::ConditionStatus;
use fleet_api::names::PlacementKey;
use fleet_api::types::BindingState;
use fleet_api::well_known::annotations;
use proptest::prelude::*;
use serde_json::{Value, json};

use super::fixture::{Fixture, now, old_binding};
use super::naive::{self, Decision, Status};
use crate::plan::testing::{Replan, check_every_prefix};
use crate::scheduler::{SchedulingOutcome, Write, plan};

fn label() -> impl Strategy<Value = String> {
    let region = prop_oneof![Just(""), Just(" region=a"), Just(" region=b"), Just(" region=c")];
    let env = prop_oneof![Just(""), Just(" env=x"), Just(" env=y")];
    (region, env).prop_map(|(region, env)| format!("{region}{env}"))
}

fn resources() -> impl Strategy<Value = String> {
    let nodes = prop_oneof![
        2 => Just(String::new()),
        20 => (0..6_u32).prop_map(|nodes| format!(" nodes={nodes}")),
        1 => Just(" nodes=2500m".to_owned()),
        2 => Just(" nodes=lots".to_owned()),
    ];
    let cpu = prop_oneof![
        1 => Just(String::new()),
        5 => (0..9_u32, 0..9_u32, 0..9_u32).prop_map(|(total, allocatable, available)| {
            format!(" cpu={total}/{allocatable}/{available}")
        }),
    ];
    (nodes, cpu).prop_map(|(nodes, cpu)| nodes + &cpu)
}

fn condition() -> impl Strategy<Value = &'static str> {
    prop_oneof![
        20 => Just(""),
        1 => Just(" heartbeat=6m"),
        1 => Just(" leaving"),
        1 => Just(" joined=False"),
        1 => Just(" joined=absent"),
        1 => Just(" healthy=absent"),
        1 => Just(" healthy=False:9m"),
        1 => Just(" healthy=Unknown:1m"),
        1 => Just(" silent"),
        1 => Just(" taint=k:v"),
        1 => Just(" taint=k:w taint=l:v"),
        1 => Just(" ns=other"),
        1 => Just(" ns=shop"),
        1 => Just(" ns="),
    ]
}

/// Up to forty clusters. Occasionally one reports nonsense or has a name that no binding can have.
fn fleet() -> impl Strategy<Value = String> {
    let cluster =
        (label(), resources(), condition()).prop_map(|(labels, resources, condition)| labels + &resources + condition);
    let odd = prop_oneof![12 => Just(""), 1 => Just("\nodd nodes=none"), 1 => Just("\nm.dot region=a"), 1 => Just("\nzz.dot")];
    (prop::collection::vec(cluster, 0..40), odd).prop_map(|(clusters, odd)| {
        let lines = clusters.iter().enumerate().map(|(number, words)| format!("m{number:02}{words}"));
        lines.collect::<Vec<_>>().join("\n") + odd
    })
}

fn label_selector() -> impl Strategy<Value = Value> {
    let key = prop_oneof![Just("region"), Just("env"), Just("other")];
    let values = prop::collection::vec(prop_oneof![Just("a"), Just("b"), Just("x"), Just("y")], 1..3);
    let set = (key.clone(), prop_oneof![Just("In"), Just("NotIn")], values)
        .prop_map(|(key, operator, values)| json!({"key": key, "operator": operator, "values": values}));
    let presence = (key.clone(), prop_oneof![10 => Just("Exists"), 10 => Just("DoesNotExist"), 1 => Just("Is")])
        .prop_map(|(key, operator)| json!({"key": key, "operator": operator}));
    let expressions = prop::collection::vec(prop_oneof![set, presence], 0..2);
    prop_oneof![
        Just(Value::Null),
        expressions.prop_map(|all| json!({"matchExpressions": all})),
        prop_oneof![Just("a"), Just("b")].prop_map(|region| json!({"matchLabels": {"region": region}})),
    ]
}

fn property_name() -> impl Strategy<Value = &'static str> {
    prop_oneof![
        10 => Just("kubernetes-fleet.io/node-count"),
        10 => Just("resources.kubernetes-fleet.io/available-cpu"),
        5 => Just("resources.kubernetes-fleet.io/total-cpu"),
        2 => Just("example.com/nowhere"),
        1 => Just("resources.kubernetes-fleet.io/total-ephemeral-storage"),
    ]
}

fn required_term() -> impl Strategy<Value = Value> {
    let operator = prop_oneof![Just("Gt"), Just("Ge"), Just("Lt"), Just("Le"), Just("Eq"), Just("Ne")];
    let value = prop_oneof![15 => Just("3"), 15 => Just("2500m"), 15 => Just("1"), 1 => Just("many")];
    let expression = (property_name(), operator, value)
        .prop_map(|(name, operator, value)| json!({"name": name, "operator": operator, "values": [value]}));
    let properties = prop_oneof![
        2 => Just(Value::Null),
        1 => prop::collection::vec(expression, 0..3).prop_map(|all| json!({"matchExpressions": all})),
    ];
    (label_selector(), properties)
        .prop_map(|(labels, properties)| json!({"labelSelector": labels, "propertySelector": properties}))
}

fn preferred_term() -> impl Strategy<Value = Value> {
    let sorter = (property_name(), prop_oneof![Just("Ascending"), Just("Descending")])
        .prop_map(|(name, order)| json!({"name": name, "sortOrder": order}));
    let sorter = prop_oneof![Just(Value::Null), sorter];
    let weight = prop_oneof![1 => Just(0), 4 => -20..=20_i32];
    (weight, label_selector(), sorter).prop_map(|(weight, labels, sorter)| {
        json!({"weight": weight, "preference": {"labelSelector": labels, "propertySorter": sorter}})
    })
}

fn tolerations() -> impl Strategy<Value = Value> {
    let one = prop_oneof![
        Just(json!({"key": "k", "operator": "Exists"})),
        Just(json!({"key": "k", "value": "v"})),
        Just(json!({"key": "l", "value": "v", "operator": "Equal", "effect": "NoSchedule"})),
        Just(json!({"operator": "Exists"})),
    ];
    prop::collection::vec(one, 0..3).prop_map(Value::Array)
}

fn spread() -> impl Strategy<Value = Value> {
    let action = prop_oneof![Just(json!("DoNotSchedule")), Just(json!("ScheduleAnyway")), Just(Value::Null)];
    let skew = prop_oneof![Just(json!(1)), Just(json!(2)), Just(json!(3)), Just(Value::Null)];
    let keys = prop_oneof![
        2 => Just(vec![]),
        1 => Just(vec!["region"]),
        1 => Just(vec!["env"]),
        1 => Just(vec!["env", "region"]),
        1 => Just(vec!["region", "missing"]),
    ];
    (keys, prop::collection::vec((skew, action), 2)).prop_map(|(keys, rest)| {
        let constraints = keys
            .iter()
            .zip(rest)
            .map(|(key, (skew, action))| json!({"topologyKey": key, "maxSkew": skew, "whenUnsatisfiable": action}));
        constraints.collect()
    })
}

fn policy() -> impl Strategy<Value = String> {
    let required = prop_oneof![Just(vec![]).boxed(), prop::collection::vec(required_term(), 0..3).boxed()];
    let preferred = prop::collection::vec(preferred_term(), 0..3);
    let names = prop::collection::btree_set((0..45_u32).prop_map(|number| format!("m{number:02}")), 0..8);
    let affinity = (required, preferred).prop_map(|(required, preferred)| {
        json!({"clusterAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": {"clusterSelectorTerms": required},
            "preferredDuringSchedulingIgnoredDuringExecution": preferred,
        }})
    });
    let number = prop_oneof![0..6_u32, 0..30_u32];
    (0..4_u32, number, affinity, tolerations(), spread(), names).prop_map(
        |(kind, number, affinity, tolerations, spread, names)| {
            let policy = match kind {
                0 => json!({"placementType": "PickAll", "affinity": affinity, "tolerations": tolerations}),
                1 => json!({"placementType": "PickFixed", "clusterNames": names}),
                _ => json!({
                    "placementType": "PickN", "numberOfClusters": number, "affinity": affinity,
                    "tolerations": tolerations, "topologySpreadConstraints": spread,
                }),
            };
            policy.to_string()
        },
    )
}

/// The facts of a binding: state, of the latest policy, deleting, has a past, score.
type Past = (u8, bool, bool, bool, Option<(i32, i32)>);

fn pasts() -> impl Strategy<Value = Vec<Option<Past>>> {
    let score = prop::option::weighted(0.9, (-3..3_i32, -3..3_i32));
    let past = (0..3_u8, prop::bool::ANY, prop::bool::weighted(0.1), prop::bool::weighted(0.95), score);
    prop::collection::vec(prop::option::weighted(0.3, past), 45)
}

fn fixture() -> impl Strategy<Value = Fixture> {
    (fleet(), policy(), pasts(), prop::bool::weighted(0.2), prop::bool::ANY).prop_map(
        |(fleet, policy, pasts, namespaced, held)| {
            let mut fixture = Fixture::new(&fleet);
            fixture.set_policy(&policy);
            fixture.has_finalizer = held;
            if namespaced {
                fixture.key = PlacementKey::parse("shop/web").unwrap();
            }
            for (number, past) in pasts.into_iter().enumerate() {
                if let Some(past) = past {
                    add_binding(&mut fixture, &format!("m{number:02}"), past);
                }
            }
            make_reachable(&mut fixture);
            fixture
        },
    )
}

fn add_binding(fixture: &mut Fixture, cluster: &str, (state, latest, deleting, has_past, score): Past) {
    let state = [BindingState::Scheduled, BindingState::Bound, BindingState::Unscheduled][usize::from(state)].clone();
    let name = format!("web-{cluster}-00000000");
    let mut binding = old_binding(&name, cluster, &state, if latest { "web-0" } else { "web-old" });
    binding.spec.cluster_decision.cluster_score = score.map(|(affinity, topology)| {
        serde_json::from_value(json!({"affinityScore": affinity, "priorityScore": topology})).unwrap()
    });
    if deleting {
        binding.metadata.deletion_timestamp = Some(serde_json::from_value(json!(now())).unwrap());
    }
    if state == BindingState::Unscheduled && has_past {
        let annotation = (annotations::PREVIOUS_BINDING_STATE.to_owned(), "Bound".to_owned());
        binding.metadata.annotations = Some([annotation].into());
    }
    fixture.bindings.push(binding);
}

/// With spread constraints, bindings of an older policy are gone after the first round, so they never exist beside
/// those of the latest one, unless a plan was interrupted.
fn make_reachable(fixture: &mut Fixture) {
    let policy = fixture.snapshots[0].spec.policy.as_ref().unwrap();
    let spread = policy.topology_spread_constraints.as_ref().is_some_and(|all| !all.is_empty());
    let any_latest = fixture.bindings.iter().any(|binding| binding.spec.scheduling_policy_snapshot_name == "web-0");
    if spread && any_latest {
        for binding in &mut fixture.bindings {
            "web-0".clone_into(&mut binding.spec.scheduling_policy_snapshot_name);
        }
    }
}

/// What a rollout might do in between: binds some bindings, removes unscheduled ones.
fn roll_out(fixture: &mut Fixture) {
    fixture.bindings.retain(|binding| binding.spec.state != BindingState::Unscheduled);
    for binding in fixture.bindings.iter_mut().step_by(2) {
        binding.spec.state = BindingState::Bound;
    }
}

fn decisions(fixture: &Fixture) -> Vec<Decision> {
    let status = fixture.snapshots[0].status.as_ref().unwrap();
    let decision = |one: &fleet_api::types::ClusterDecision| {
        let score = one.cluster_score.map(|it| (it.affinity_score.unwrap(), it.topology_spread_score.unwrap()));
        (one.cluster_name.clone(), one.selected, score, one.reason.clone())
    };
    status.target_clusters.iter().map(decision).collect()
}

fn in_order(mut decisions: Vec<Decision>) -> Vec<Decision> {
    decisions.sort();
    decisions
}

fn selected_only(decisions: Vec<Decision>) -> Vec<Decision> {
    in_order(decisions.into_iter().filter(|decision| decision.1).collect())
}

fn check_status(fixture: &Fixture, written: bool, expected: &Status) -> Result<(), TestCaseError> {
    let found = decisions(fixture);
    if written {
        prop_assert_eq!(&found, &expected.decisions);
    } else if expected.examined {
        prop_assert_eq!(in_order(found), in_order(expected.decisions.clone()));
    } else {
        prop_assert_eq!(selected_only(found), in_order(expected.decisions.clone()));
    }
    let condition = &fixture.snapshots[0].status.as_ref().unwrap().conditions[0];
    prop_assert_eq!(condition.status == ConditionStatus::True, expected.fulfilled);
    Ok(())
}

/// Plans, compares with the naive scheduler, and executes the plan.
fn check_against_naive(fixture: &mut Fixture) -> Result<(), TestCaseError> {
    let expected = naive::run(fixture);
    let plan = fixture.plan();
    fixture.apply(&plan);
    prop_assert_eq!(matches!(plan.report.outcome, SchedulingOutcome::Stopped(_)), expected.stopped);
    prop_assert_eq!(naive::rows(fixture), expected.rows);
    match &expected.status {
        // The order of a status without examined clusters depends on what else there was to do.
        Some(status) => check_status(fixture, plan.status.is_some() && status.examined, status)?,
        None => prop_assert!(plan.status.is_none()),
    }
    prop_assert!(fixture.plan().is_idle(), "{:#?}", fixture.plan());
    Ok(())
}

impl Replan for Fixture {
    type Write = Write;
    /// The state without names of bindings.
    type Place = String;

    fn writes(&self) -> Vec<Write> {
        self.plan().writes
    }

    fn execute(&mut self, write: &Write) {
        self.write(write);
    }

    fn reconcile(&mut self) {
        let plan = self.plan();
        self.apply(&plan);
    }

    fn place(&self) -> String {
        let explained = self.snapshots[0].status.as_ref().map(|status| {
            let conditions: Vec<_> = status.conditions.iter().map(|one| (one.status, one.message.clone())).collect();
            (status.observed_crp_generation, conditions, in_order(decisions(self)))
        });
        format!("{:#?} {explained:#?} {}", naive::rows(self), self.has_finalizer)
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn plans_agree_with_the_naive_scheduler(
        mut fixture in fixture(), second in policy(), number in 0..20_usize,
    ) {
        check_against_naive(&mut fixture)?;
        roll_out(&mut fixture);
        fixture.set_number(number);
        check_against_naive(&mut fixture)?;
        fixture.set_policy(&second);
        check_against_naive(&mut fixture)?;
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(150))]

    #[test]
    fn audit_20_a_plan_may_be_cut_short_after_any_write(mut fixture in fixture(), second in policy()) {
        check_every_prefix(&fixture)?;
        let plan = fixture.plan();
        fixture.apply(&plan);
        fixture.set_policy(&second);
        check_every_prefix(&fixture)?;
        fixture.deleting = true;
        fixture.has_finalizer = true;
        check_every_prefix(&fixture)?;
    }

    #[test]
    fn the_order_of_the_facts_does_not_matter(
        (fixture, clusters, bindings) in fixture().prop_flat_map(|fixture| {
            let clusters = Just((0..fixture.fleet.clusters.len()).collect::<Vec<_>>()).prop_shuffle();
            let bindings = Just((0..fixture.bindings.len()).collect::<Vec<_>>()).prop_shuffle();
            (Just(fixture), clusters, bindings)
        }),
    ) {
        let observed = fixture.observe();
        let mut shuffled = observed.clone();
        shuffled.clusters = clusters.iter().map(|&index| observed.clusters[index].clone()).collect();
        shuffled.bindings = bindings.iter().map(|&index| observed.bindings[index].clone()).collect();
        let first = plan(&observed, now());
        prop_assert_eq!(&plan(&shuffled, now()), &first);
        prop_assert_eq!(&plan(&observed, now()), &first);
    }
}
