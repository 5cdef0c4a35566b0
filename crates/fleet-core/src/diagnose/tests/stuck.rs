//! Runs that are stuck, down to the Pod (UR-40 to UR-44, PL-V1, PL-A1, PL-D1).

use expect_test::{Expect, expect};
use serde_json::json;

use super::fixture::{COPY, Fleet, fleet, rendered, run, run_in_state};
use crate::diagnose::{self, MemberInputs};

const STUCK: &str = "'Progressing@12:06=False UpdateRunStuck: The updateRun is stuck waiting for member2 cluster(s) in stage staging to finish updating, please check placement status for potential errors'";

fn status(progressing: &str) -> String {
    format!(
        "{COPY}, resourceSnapshotIndexUsed: '0', conditions: ['Initialized=True UpdateRunInitializedSuccessfully: ', {progressing}],
          stagesStatus: [{{stageName: staging, startTime: '2026-01-01T12:00:00Z', conditions: ['Progressing=True StageUpdatingStarted: '],
            clusters: [{{clusterName: member2, conditions: ['Started=True ClusterUpdatingStarted: Cluster update started']}}]}},
            {{stageName: canary, clusters: [{{clusterName: member1}}]}}]"
    )
}

/// The binding of `member2` with these conditions.
fn binding(conditions: &str, failed: &str) -> String {
    format!(
        "{{spec: {{state: Bound, resourceSnapshotName: example-placement-0-snapshot}}, status: {{failedPlacements: [{failed}], conditions: [
          'RolloutStarted=True RolloutStarted: ', {conditions}]}}}}"
    )
}

const UP_TO_APPLIED: &str = "'Overridden=True NoOverrideSpecified: ', 'WorkSynchronized=True AllWorkSynced: ', 'Applied=True AllWorkHaveBeenApplied: '";
const UNAVAILABLE: &str =
    "'Available=False NotAllWorkAreAvailable: Work object example-placement-work is not yet available'";
const WEB: &str = "{group: apps, version: v1, kind: Deployment, name: web, namespace: test-namespace, condition:
    'Available=False ManifestNotAvailableYet: Manifest is not yet available; Fleet will check again later'}";

fn stuck(binding: &str) -> Fleet {
    fleet().with(&run(&status(STUCK))).edit("ClusterResourceBinding", "example-placement-member2-2", binding)
}

pub(super) fn unavailable() -> Fleet {
    stuck(&binding(&format!("{UP_TO_APPLIED}, {UNAVAILABLE}"), WEB))
}

fn check(fleet: &Fleet, expected: Expect) {
    expected.assert_eq(&rendered(&diagnose::run(&fleet.inputs())));
}

/// A Deployment `web` whose one Pod is in this state.
pub(super) fn side(pod_status: serde_json::Value) -> MemberInputs {
    let deployment = json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web", "namespace": "test-namespace"},
        "spec": {"replicas": 2, "selector": {"matchLabels": {"app": "web"}}}, "status": {"readyReplicas": 0}});
    let pod = json!({"metadata": {"name": "web-1-x", "namespace": "test-namespace", "labels": {"app": "web"}}, "spec": {"containers": []}, "status": pod_status});
    let event = json!({"metadata": {"name": "e"}, "type": "Warning", "reason": "Failed", "message": "something failed", "lastTimestamp": "2026-01-01T12:01:00Z",
        "involvedObject": {"kind": "Pod", "name": "web-1-x", "namespace": "test-namespace"}});
    MemberInputs {
        applied_works: Vec::new(),
        objects: vec![deployment],
        pods: vec![serde_json::from_value(pod).unwrap()],
        events: vec![serde_json::from_value(event).unwrap()],
    }
}

pub(super) fn waiting(reason: &str) -> serde_json::Value {
    json!({"containerStatuses": [{"name": "web", "image": "nginx:1:2", "imageID": "", "ready": false, "restartCount": 0,
        "state": {"waiting": {"reason": reason, "message": "why"}}, "lastState": {"terminated": {"exitCode": 3}}}]})
}

#[test]
fn ur_40_an_invalid_image() {
    check(
        &unavailable().member_inputs("member2", side(waiting("InvalidImageName"))),
        expect![[r#"
            Run example-run is stuck: stage 1 of 2 (staging), 0 of 2 clusters done, 1 updating.
            UR-40 PL-V1 Error: Deployment test-namespace/web on member2 is not available: "nginx:1:2" is not a valid image reference
              ClusterStagedUpdateRun example-run status.conditions[Progressing] = False UpdateRunStuck: The updateRun is stuck waiting for member2 cluster(s) in stage staging to finish updating, please check placement status for potential errors
              ClusterStagedUpdateRun example-run stage staging, cluster member2: conditions[Started] = True ClusterUpdatingStarted: Cluster update started since 2026-01-01T12:00:00Z
              ClusterResourceBinding example-placement-member2-2 status.conditions[Available] for member2 = False NotAllWorkAreAvailable: Work object example-placement-work is not yet available
              Deployment test-namespace/web on member2 condition[Available] = False ManifestNotAvailableYet: Manifest is not yet available; Fleet will check again later
              Deployment test-namespace/web on member2 status = 0 of 2 ready
              Pod test-namespace/web-1-x on member2 status.containerStatuses[web].state.waiting = InvalidImageName (image nginx:1:2)
              Pod test-namespace/web-1-x on member2 event Failed = something failed
            name an image that exists:
              kubectl patch deployment web -n test-namespace --type=strategic -p '{"spec":{"template":{"spec":{"containers":[{"image":"<image>","name":"web"}]}}}}'
              kubectl delete csur example-run
              kubectl create … example-run-2
        "#]],
    );
}

#[test]
fn ur_40_the_member_was_not_read() {
    let fleet = unavailable().unread("cluster member2 itself", "the kubeconfig has no context named member2");
    check(
        &fleet,
        expect![[r#"
            Run example-run is stuck: stage 1 of 2 (staging), 0 of 2 clusters done, 1 updating.
            UR-40 PL-V1 Error: Deployment test-namespace/web on member2 is not available
              ClusterStagedUpdateRun example-run status.conditions[Progressing] = False UpdateRunStuck: The updateRun is stuck waiting for member2 cluster(s) in stage staging to finish updating, please check placement status for potential errors
              ClusterStagedUpdateRun example-run stage staging, cluster member2: conditions[Started] = True ClusterUpdatingStarted: Cluster update started since 2026-01-01T12:00:00Z
              ClusterResourceBinding example-placement-member2-2 status.conditions[Available] for member2 = False NotAllWorkAreAvailable: Work object example-placement-work is not yet available
              Deployment test-namespace/web on member2 condition[Available] = False ManifestNotAvailableYet: Manifest is not yet available; Fleet will check again later
            inspect the member, then fix the resource on the hub:
              kubectl --context member2 get deployment,pods,events -n test-namespace
              kubectl edit deployment web -n test-namespace
              kubectl delete csur example-run
              kubectl create … example-run-2
            unread cluster member2 itself: the kubeconfig has no context named member2
        "#]],
    );
}

#[test]
fn ur_40_older_wordings_give_the_same() {
    for words in [
        "The updateRun is stuck waiting for cluster member2 in stage staging to finish updating, please check placement status for potential errors",
        "The updateRun is stuck waiting for 1 cluster(s) in stage staging to finish updating, please check crp status for potential errors",
    ] {
        let fleet = unavailable()
            .with(&run(&status(&format!("'Progressing=False UpdateRunStuck: {words}'"))))
            .member_inputs("member2", side(waiting("ErrImagePull")));
        let cause = diagnose::run(&fleet.inputs()).cause.unwrap();
        assert_eq!((cause.entry, cause.because_of), ("UR-40", Some("PL-V1")));
        assert!(cause.title.contains("cannot be pulled (ErrImagePull)"), "{}", cause.title);
    }
}

#[test]
fn the_problem_of_the_pod_is_the_cause() {
    let title = |status: serde_json::Value| {
        diagnose::run(&unavailable().member_inputs("member2", side(status)).inputs()).cause.unwrap().title
    };
    let unschedulable = json!({"phase": "Pending", "conditions": [{"type": "PodScheduled", "status": "False", "message": "0/3 nodes are available"}]});
    let not_ready = json!({"phase": "Running", "conditions": [{"type": "Ready", "status": "False", "message": "containers with unready status: [web]"}]});
    let titles = [
        waiting("ImagePullBackOff"),
        waiting("CrashLoopBackOff"),
        waiting("CreateContainerConfigError"),
        unschedulable,
        not_ready,
        json!({}),
    ];
    expect![[r#"
        Deployment test-namespace/web on member2 is not available: image "nginx:1:2" cannot be pulled (ImagePullBackOff)
        Deployment test-namespace/web on member2 is not available: container web crashes (CrashLoopBackOff, exit code 3)
        Deployment test-namespace/web on member2 is not available: container web cannot be created (CreateContainerConfigError: why)
        Deployment test-namespace/web on member2 is not available: no node of member2 can run its Pods (0/3 nodes are available)
        Deployment test-namespace/web on member2 is not available: containers with unready status: [web]
        Deployment test-namespace/web on member2 is not available: something failed"#]].assert_eq(&titles.map(title).join("\n"));
}

#[test]
fn ur_40_with_an_older_snapshot_a_rollback_is_offered() {
    let fleet = unavailable()
        .with("{kind: ClusterResourceSnapshot, metadata: {name: example-placement-1-snapshot, labels: {kubernetes-fleet.io/resource-index: '1'}}}")
        .edit("ClusterResourceBinding", "example-placement-member2-2", "{spec: {resourceSnapshotName: example-placement-1-snapshot}}")
        .member_inputs("member2", side(waiting("ErrImagePull")));
    let fixes = diagnose::run(&fleet.inputs()).cause.unwrap().fixes;
    let last = fixes.last().unwrap();
    assert_eq!(last.what, "go back to snapshot 0");
    assert!(
        last.is_complete() && last.steps.last().unwrap().command.contains("resourceSnapshotIndex: \"0\""),
        "{last:?}"
    );
}

#[test]
fn ur_41_applying_fails() {
    let failed = "{version: v1, kind: Namespace, name: test-namespace, condition:
        'Applied=False FailedToTakeOver: Failed to apply the manifest (error: failed to take over a pre-existing object: the object is already owned by some other sources(s) and co-ownership is disallowed)'}";
    let conditions = "'Overridden=True NoOverrideSpecified: ', 'WorkSynchronized=True AllWorkSynced: ', 'Applied=False NotAllWorkHaveBeenApplied: Work object example-placement-work has failed to apply'";
    check(
        &stuck(&binding(conditions, failed)),
        expect![[r#"
            Run example-run is stuck: stage 1 of 2 (staging), 0 of 2 clusters done, 1 updating.
            UR-41 PL-A1 Error: Namespace test-namespace on member2 has other owners
              ClusterStagedUpdateRun example-run status.conditions[Progressing] = False UpdateRunStuck: The updateRun is stuck waiting for member2 cluster(s) in stage staging to finish updating, please check placement status for potential errors
              ClusterStagedUpdateRun example-run stage staging, cluster member2: conditions[Started] = True ClusterUpdatingStarted: Cluster update started since 2026-01-01T12:00:00Z
              ClusterResourceBinding example-placement-member2-2 status.conditions[Applied] for member2 = False NotAllWorkHaveBeenApplied: Work object example-placement-work has failed to apply
              Namespace test-namespace on member2 condition[Applied] = False FailedToTakeOver: Failed to apply the manifest (error: failed to take over a pre-existing object: the object is already owned by some other sources(s) and co-ownership is disallowed)
            share the object with its other owners:
              kubectl patch crp example-placement --type=merge -p '{"spec":{"strategy":{"applyStrategy":{"allowCoOwnership":true}}}}'
              kubectl delete csur example-run
              kubectl create … example-run-2
        "#]],
    );
}

#[test]
fn ur_41_the_member_is_silent() {
    let fleet = stuck(&binding("'Overridden=True NoOverrideSpecified: ', 'WorkSynchronized=True AllWorkSynced: '", ""))
        .edit(
            "MemberCluster",
            "member2",
            "{status: {agentStatus: [{type: MemberAgent, lastReceivedHeartbeat: '2026-01-01T12:01:00Z'}]}}",
        );
    check(
        &fleet,
        expect![[r#"
            Run example-run is stuck: stage 1 of 2 (staging), 0 of 2 clusters done, 1 updating.
            UR-41 PL-Q2 Error: The agent of cluster member2 has sent no heartbeat since 2026-01-01T12:01:00Z
              ClusterStagedUpdateRun example-run status.conditions[Progressing] = False UpdateRunStuck: The updateRun is stuck waiting for member2 cluster(s) in stage staging to finish updating, please check placement status for potential errors
              ClusterStagedUpdateRun example-run stage staging, cluster member2: conditions[Started] = True ClusterUpdatingStarted: Cluster update started since 2026-01-01T12:00:00Z
              ClusterResourceBinding example-placement-member2-2 status.conditions[WorkSynchronized] for member2 = True AllWorkSynced
              MemberCluster member2 status.agentStatus[MemberAgent].lastReceivedHeartbeat = 2026-01-01T12:01:00Z, 1740 s ago; the heartbeat period is 60 s
            start the member's agent:
              by hand
        "#]],
    );
}

#[test]
fn ur_42_a_run_gets_stuck_while_it_stops() {
    let fleet = unavailable()
        .with(&run_in_state("Stop", &status(STUCK)))
        .member_inputs("member2", side(waiting("InvalidImageName")));
    let cause = diagnose::run(&fleet.inputs()).cause.unwrap();
    assert_eq!((cause.entry, cause.because_of), ("UR-42", Some("PL-V1")));
    assert!(cause.explanation.starts_with("A run that is asked to stop lets"), "{}", cause.explanation);
}

#[test]
fn ur_43_differences_cannot_be_reported() {
    let failed = "{version: v1, kind: Namespace, name: test-namespace, condition: 'DiffReported=False FailedToReportDiff: Failed to report the diff (error = dry run refused)'}";
    let conditions = "'Overridden=True NoOverrideSpecified: ', 'WorkSynchronized=True AllWorkSynced: ', 'DiffReported=False NotAllWorkHaveDiffReported: Work object example-placement-work has failed to report diff'";
    let fleet = stuck(&binding(conditions, failed)).edit(
        "ClusterResourcePlacement",
        "example-placement",
        "{spec: {strategy: {applyStrategy: {type: ReportDiff}}}}",
    );
    check(
        &fleet,
        expect![[r#"
            Run example-run is stuck: stage 1 of 2 (staging), 0 of 2 clusters done, 1 updating.
            UR-43 PL-D1 Error: Namespace test-namespace on member2 cannot be compared with the hub
              ClusterStagedUpdateRun example-run status.conditions[Progressing] = False UpdateRunStuck: The updateRun is stuck waiting for member2 cluster(s) in stage staging to finish updating, please check placement status for potential errors
              ClusterStagedUpdateRun example-run stage staging, cluster member2: conditions[Started] = True ClusterUpdatingStarted: Cluster update started since 2026-01-01T12:00:00Z
              ClusterResourceBinding example-placement-member2-2 status.conditions[DiffReported] for member2 = False NotAllWorkHaveDiffReported: Work object example-placement-work has failed to report diff
              Namespace test-namespace on member2 condition[DiffReported] = False FailedToReportDiff: Failed to report the diff (error = dry run refused)
            fix what the member reports:
              kubectl edit namespace test-namespace
              kubectl delete csur example-run
              kubectl create … example-run-2
        "#]],
    );
}

#[test]
fn ur_44_no_cluster_was_started() {
    let fleet = unavailable()
        .with(&run(&status("'Progressing=True UpdateRunProgressing: '")
            .replace("'Started=True ClusterUpdatingStarted: Cluster update started'", "")))
        .member_inputs("member2", side(waiting("InvalidImageName")));
    let cause = diagnose::run(&fleet.inputs()).cause.unwrap();
    assert_eq!((cause.entry, cause.because_of), ("UR-44", Some("PL-V1")));
}

#[test]
fn a_workload_that_just_starts_is_not_reported() {
    let starting = UNAVAILABLE.replace("'Available=", "'Available@12:29=");
    let progressing = status("'Progressing=True UpdateRunProgressing: '");
    let young = |side: Option<MemberInputs>| {
        let fleet = stuck(&binding(&format!("{UP_TO_APPLIED}, {}", starting.replace("12:29", "12:30")), WEB))
            .with(&run(&progressing));
        match side {
            Some(side) => fleet.member_inputs("member2", side),
            None => fleet,
        }
    };
    check(
        &young(None),
        expect![[r#"
        Run example-run is progressing: stage 1 of 2 (staging), 0 of 2 clusters done, 1 updating.
        nothing
    "#]],
    );
    let unready = json!({"conditions": [{"type": "Ready", "status": "False"}]});
    assert_eq!(diagnose::run(&young(Some(side(unready))).inputs()).severity(), None);
    assert!(
        diagnose::run(&young(Some(side(waiting("InvalidImageName")))).inputs()).severity().is_some(),
        "an image that is none stays none"
    );
}
