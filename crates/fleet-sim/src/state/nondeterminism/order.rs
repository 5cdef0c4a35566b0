//! The order of lists without a defined order, and messages that name the first of several objects. The entries
//! themselves, and the existence of the message, are compared.

use fleet_api::conditions::run_message::RunMessage;
use serde_json::Value;

use super::{Tolerance, each_object};

/// Text of a placement's message before the name of a cluster that waits for an external rollout. If several wait, the
/// message names the first one that was found.
const A_CLUSTER_IS: &str = "controlled by an external controller and cluster ";

pub(super) fn remove_names_of_first(object: &mut Value, tolerance: &Tolerance) {
    let has_leaves = object["kind"].as_str().is_some_and(|kind| kind.ends_with("StagedUpdateRun"))
        && object["metadata"]["name"].as_str().is_some_and(|name| tolerance.runs_with_leaves.contains(name));
    let conditions = object.pointer_mut("/status/conditions").and_then(Value::as_array_mut).into_iter().flatten();
    for condition in conditions {
        let Some(Value::String(message)) = condition.get_mut("message") else { continue };
        let strategies =
            message.split_once(A_CLUSTER_IS).and_then(|(front, rest)| Some((front, rest.split_once(' ')?.1)));
        if let Some((front, state)) = strategies.filter(|(_, state)| state.starts_with("is in RolloutStarted")) {
            *message = format!("{front}{A_CLUSTER_IS}some {state}");
        } else if has_leaves && is_caused_by_a_leave(message) {
            "a member has left".clone_into(message);
        }
    }
}

/// Whether a run failed because a member left. Several checks of a run notice that, by labels, bindings or the number
/// of clusters; the first one ends the run with its message.
fn is_caused_by_a_leave(message: &str) -> bool {
    matches!(
        RunMessage::read(message),
        RunMessage::ClusterCountOutdated | RunMessage::StageMembershipChanged | RunMessage::ClustersInNoStage { .. }
    )
}

/// Clusters with equal scores are listed in the order in which they were found, conditions and finalizers in the order
/// of their writers.
pub(super) fn sort_lists(object: &mut Value) {
    if let Some(finalizers) = object.pointer_mut("/metadata/finalizers").and_then(Value::as_array_mut) {
        finalizers.sort_by_cached_key(|one| one.as_str().unwrap_or_default().to_owned());
    }
    for list in ["targetClusters", "placementStatuses"] {
        if let Some(clusters) = object.get_mut("status").and_then(|status| status.get_mut(list)?.as_array_mut()) {
            clusters.sort_by_cached_key(|one| one["clusterName"].as_str().unwrap_or_default().to_owned());
        }
    }
    each_object(object, &mut |map| {
        if let Some(Value::Array(conditions)) = map.get_mut("conditions") {
            conditions.sort_by_cached_key(|one| one["type"].as_str().unwrap_or_default().to_owned());
        }
    });
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::tests::{compared, compared_with};
    use super::*;

    #[test]
    fn the_order_of_clusters_is_ignored() {
        let placement = |names: [&str; 2]| {
            let entries = names.map(|name| json!({"clusterName": name}));
            compared(json!({"metadata": {"name": "web"}, "status": {"placementStatuses": entries}}))
        };
        assert_eq!(placement(["east", "west"]), placement(["west", "east"]));
        assert_ne!(placement(["east", "west"]), placement(["east", "north"]));
    }

    #[test]
    fn audit_20_the_order_of_finalizers_is_ignored_and_their_number_is_not() {
        let with = |finalizers: &[&str]| compared(json!({"metadata": {"name": "web", "finalizers": finalizers}}));
        assert_eq!(with(&["a", "b"]), with(&["b", "a"]));
        assert_ne!(with(&["a", "b"]), with(&["a"]));
        assert_ne!(with(&["a", "b"]), with(&["a", "b", "b"]));
    }

    #[test]
    fn the_order_of_conditions_is_ignored() {
        let with = |types: [&str; 2]| {
            let conditions = types.map(|type_| json!({"type": type_}));
            compared(json!({"metadata": {"name": "web"}, "status": {"conditions": conditions}}))
        };
        assert_eq!(with(["Applied", "Overridden"]), with(["Overridden", "Applied"]));
        assert_ne!(with(["Applied", "Overridden"]), with(["Available", "Overridden"]));
    }

    fn condition_text(message: &str, tolerance: &Tolerance) -> String {
        let status = json!({"conditions": [{"type": "RolloutStarted", "message": message}]});
        let run = json!({"kind": "ClusterStagedUpdateRun", "metadata": {"name": "run1"}, "status": status});
        compared_with(run, tolerance)
    }

    #[test]
    fn the_name_of_the_reported_cluster_is_ignored_and_its_presence_is_not() {
        let external = |rest: &str| {
            condition_text(
                &format!("Rollout is controlled by an external controller and {rest}"),
                &Tolerance::default(),
            )
        };
        let waits = |cluster: &str| external(&format!("cluster {cluster} is in RolloutStarted Unknown state"));
        assert_eq!(waits("east"), waits("west"));
        assert_ne!(waits("east"), external("all is well"));
    }

    #[test]
    fn the_check_that_noticed_a_leave_is_ignored_and_other_faults_are_not() {
        let (sizes, unplaced, preempted, missing) = (
            "the number of clusters in index `0` stage has changed, new: 1, existing: 2",
            "failed to process the request due to a client error: some clusters are not placed in any stage, total: 1, showing up to 10: m1",
            "the binding `b` is updating to another version",
            "failed to process the request due to a client error: referenced updateStrategy not found: `/stages`",
        );
        let aborted = |why: &str, tolerance: &Tolerance| {
            condition_text(&format!("cannot continue the updateRun: {why}"), tolerance)
        };
        let left = Tolerance { runs_with_leaves: ["run1".to_owned()].into(), ..Tolerance::default() };
        assert_eq!(aborted(sizes, &left), aborted(unplaced, &left));
        assert_ne!(aborted(sizes, &left), aborted(preempted, &left));
        assert_ne!(aborted(sizes, &left), aborted(missing, &left));
        assert_ne!(aborted(sizes, &Tolerance::default()), aborted(unplaced, &Tolerance::default()), "no member left");
        let other = Tolerance { runs_with_leaves: ["run2".to_owned()].into(), ..Tolerance::default() };
        assert_ne!(aborted(sizes, &other), aborted(unplaced, &other), "no member left during this run");
    }
}
