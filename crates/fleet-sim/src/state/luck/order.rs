//! Who of several comes first.
//!
//! Decides where a list has no order of its own, and where a message tells of the first of several. That all of them are
//! there, and that something is told, must be the same everywhere.

use fleet_api::conditions::run_message::RunMessage;
use serde_json::Value;

use super::{Leeway, each_object};

/// Behind this comes the name of a cluster that waits for others than the hub's rolling update: of several, the one that was
/// found first.
const A_CLUSTER_IS: &str = "controlled by an external controller and cluster ";

pub(super) fn forget_who_came_first(object: &mut Value, leeway: &Leeway) {
    let is_left_behind = object["kind"].as_str().is_some_and(|kind| kind.ends_with("StagedUpdateRun"))
        && object["metadata"]["name"].as_str().is_some_and(|name| leeway.left_behind.contains(name));
    let conditions = object.pointer_mut("/status/conditions").and_then(Value::as_array_mut).into_iter().flatten();
    for condition in conditions {
        let Some(Value::String(message)) = condition.get_mut("message") else { continue };
        let told = message.split_once(A_CLUSTER_IS).and_then(|(front, rest)| Some((front, rest.split_once(' ')?.1)));
        if let Some((front, state)) = told.filter(|(_, state)| state.starts_with("is in RolloutStarted")) {
            *message = format!("{front}{A_CLUSTER_IS}some {state}");
        } else if is_left_behind && tells_of_a_leave(message) {
            "a member has left".clone_into(message);
        }
    }
}

/// A run's checks learn one after the other that a member is on its way out, by way of its labels, its binding or the policy's
/// count; the first that does ends the run.
fn tells_of_a_leave(message: &str) -> bool {
    matches!(
        RunMessage::read(message),
        RunMessage::ClusterCountOutdated | RunMessage::StageMembershipChanged | RunMessage::ClustersInNoStage { .. }
    )
}

/// Clusters that are equally good stand in the order in which they were found, conditions in that of their writers.
pub(super) fn sort_clusters(object: &mut Value) {
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
    fn the_order_of_clusters_is_luck() {
        let placement = |names: [&str; 2]| {
            let entries = names.map(|name| json!({"clusterName": name}));
            compared(json!({"metadata": {"name": "web"}, "status": {"placementStatuses": entries}}))
        };
        assert_eq!(placement(["east", "west"]), placement(["west", "east"]));
        assert_ne!(placement(["east", "west"]), placement(["east", "north"]));
    }

    #[test]
    fn the_order_of_conditions_is_luck() {
        let with = |types: [&str; 2]| {
            let conditions = types.map(|type_| json!({"type": type_}));
            compared(json!({"metadata": {"name": "web"}, "status": {"conditions": conditions}}))
        };
        assert_eq!(with(["Applied", "Overridden"]), with(["Overridden", "Applied"]));
        assert_ne!(with(["Applied", "Overridden"]), with(["Available", "Overridden"]));
    }

    fn said(message: &str, leeway: &Leeway) -> String {
        let status = json!({"conditions": [{"type": "RolloutStarted", "message": message}]});
        let run = json!({"kind": "ClusterStagedUpdateRun", "metadata": {"name": "run1"}, "status": status});
        compared_with(run, leeway)
    }

    #[test]
    fn which_cluster_is_told_of_is_luck_and_that_one_is_told_of_is_not() {
        let external = |rest: &str| {
            said(&format!("Rollout is controlled by an external controller and {rest}"), &Leeway::default())
        };
        let waits = |cluster: &str| external(&format!("cluster {cluster} is in RolloutStarted Unknown state"));
        assert_eq!(waits("east"), waits("west"));
        assert_ne!(waits("east"), external("all is well"));
    }

    #[test]
    fn which_check_saw_a_member_leave_is_luck_and_any_other_fault_is_not() {
        let (sizes, unplaced, preempted, gone) = (
            "the number of clusters in index `0` stage has changed, new: 1, existing: 2",
            "failed to process the request due to a client error: some clusters are not placed in any stage, total: 1, showing up to 10: m1",
            "the binding `b` is updating to another version",
            "failed to process the request due to a client error: referenced updateStrategy not found: `/stages`",
        );
        let aborted = |why: &str, leeway: &Leeway| said(&format!("cannot continue the updateRun: {why}"), leeway);
        let left = Leeway { left_behind: ["run1".to_owned()].into(), ..Leeway::default() };
        assert_eq!(aborted(sizes, &left), aborted(unplaced, &left));
        assert_ne!(aborted(sizes, &left), aborted(preempted, &left));
        assert_ne!(aborted(sizes, &left), aborted(gone, &left));
        assert_ne!(aborted(sizes, &Leeway::default()), aborted(unplaced, &Leeway::default()), "nobody left");
        let other = Leeway { left_behind: ["run2".to_owned()].into(), ..Leeway::default() };
        assert_ne!(aborted(sizes, &other), aborted(unplaced, &other), "nobody left this one");
    }
}
