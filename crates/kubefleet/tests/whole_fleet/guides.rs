//! The worked examples of the guides: every command runs in a shell with a real kubectl, and its output is compared with the
//! guide. Messages are those of the reference implementation.

use serde_json::json;

use crate::examples::{Example, GOOD_IMAGE};
use crate::fleet::{Fleet, MEMBERS};
use crate::kubelet::Kubelet;
use crate::servers::until;
use crate::user::User;

const RUN_COLUMNS: &str =
    "NAME PLACEMENT RESOURCE-SNAPSHOT-INDEX POLICY-SNAPSHOT-INDEX INITIALIZED PROGRESSING SUCCEEDED";
const REQUEST_COLUMNS: &str = "NAME UPDATE-RUN STAGE APPROVED";
const CLIENT_ERROR: &str = "failed to process the request due to a client error";
const ABORTED: &str = "The stages are aborted due to a non-recoverable error";

pub(crate) async fn worked_example(fleet: &Fleet, example: &Example) {
    let kubelet = Kubelet { fleet, namespace: example.namespace, deployment: example.deployment };
    let story = Story { fleet, example, kubelet, user: User::at(&fleet.servers, example.run) };
    story.a_placement_that_waits_for_a_run().await;
    story.a_run_of_an_index_that_does_not_exist().await;
    story.a_run_that_waits_for_an_approval_that_counts().await;
    story.a_run_that_is_stuck_because_of_an_image().await;
    story.only_what_the_user_wrote_is_placed().await;
    story.a_new_run_that_takes_the_cluster_over().await;
    story.a_run_that_is_stopped_and_resumed().await;
    story.a_placement_that_is_deleted_under_a_run().await;
}

struct Story<'a> {
    fleet: &'a Fleet,
    example: &'a Example,
    kubelet: Kubelet<'a>,
    user: User,
}

/// A condition as `kubectl describe` shows it, without its time.
fn condition(message: &str, generation: u32, reason: &str, status: &str, type_: &str) -> String {
    format!("Message: {message}\nObserved Generation: {generation}\nReason: {reason}\nStatus: {status}\nType: {type_}")
}

impl Story<'_> {
    /// Name of the second run of the example.
    fn next_run(&self) -> String {
        format!("{}-1", self.example.run)
    }

    fn describe_placement(&self) -> String {
        format!("kubectl describe {} {}{}", self.example.placements, self.example.placement, self.example.at())
    }

    fn describe_run(&self, run: &str) -> String {
        format!("kubectl describe {} {run}{}", self.example.runs, self.example.at())
    }

    /// Checks the row of a run: its index and three conditions.
    async fn sees_run(&self, run: &str, index: &str, conditions: &str) {
        let line = format!("kubectl get {} {run}{}", self.example.runs, self.example.at());
        let row = format!("{run} {} {index} 0 {conditions}", self.example.placement);
        self.user.sees_table(&line, &[RUN_COLUMNS, &row]).await;
    }

    async fn sees_requests(&self, rows: &[&str]) {
        let line = format!("kubectl get {}{}", self.example.requests, self.example.at());
        let wanted: Vec<&str> = [REQUEST_COLUMNS].iter().chain(rows).copied().collect();
        self.user.sees_table(&line, &wanted).await;
    }

    async fn patches_state(&self, run: &str, state: &str) {
        let (kind, at) = (self.example.runs, self.example.at());
        let patch = format!(r#"'{{"spec":{{"state":"{state}"}}}}'"#);
        self.user.types(&format!("kubectl patch {kind} {run}{at} --type='merge' -p {patch}")).await;
    }

    /// The command of the guides, with the time from `date`.
    async fn approves(&self, request: &str, generation: u32) {
        let (kind, at) = (self.example.requests, self.example.at());
        let approved = format!(
            r#"'{{"status":{{"conditions":[{{"type":"Approved","status":"True","reason":"approved","message":"approved","lastTransitionTime":"'$(date -u +"%Y-%m-%dT%H:%M:%SZ")'","observedGeneration":{generation}}}]}}}}'"#
        );
        let line = format!("kubectl patch {kind} {request}{at} --type='merge' -p {approved} --subresource=status");
        self.user.types(&line).await;
    }

    async fn deletes_run(&self, run: &str) {
        self.user.types(&format!("kubectl delete {} {run}{}", self.example.runs, self.example.at())).await;
    }

    async fn a_placement_that_waits_for_a_run(&self) {
        let (example, user) = (self.example, &self.user);
        for (member, stage) in MEMBERS.iter().zip([example.second_stage, example.first_stage, example.second_stage]) {
            user.types(&format!("kubectl label membercluster {member} {}={stage}", example.stage_label)).await;
        }
        user.applies(&example.namespace_object()).await;
        if example.is_namespaced {
            user.applies(&example.namespace_placement_object()).await;
            for member in MEMBERS {
                let path = format!("/api/v1/namespaces/{}", example.namespace);
                let member = self.fleet.servers.member(member);
                until("the namespace is there", || async { member.get(&path).await.is_some() }).await;
            }
        }
        user.applies(&example.deployment_object()).await;
        user.applies(&example.placement_object()).await;
        user.applies(&example.strategy_object()).await;

        let (kind, run_kind) = (example.placement_kind, example.run_kind);
        let scheduled = "found all cluster needed as specified by the scheduling policy, found 3 cluster(s)";
        let waiting = format!(
            "Rollout is controlled by an external controller and no resource snapshot name is observed across clusters, \
             probably rollout has not started yet. To determine rollout status, check the {run_kind} resources with \
             spec.placementName matching this placement"
        );
        let conditions = [
            "Conditions:".to_owned(),
            condition(scheduled, 1, "SchedulingPolicyFulfilled", "True", &format!("{kind}Scheduled")),
            condition(
                &waiting,
                1,
                "RolloutControlledByExternalController",
                "Unknown",
                &format!("{kind}RolloutStarted"),
            ),
        ];
        let describe = self.describe_placement();
        user.reads(&describe, &conditions.join("\n")).await;
        let deciding = "In the process of deciding whether to roll out some version of the resources or not";
        for member in MEMBERS {
            let entry = [
                format!("Cluster Name: {member}"),
                "Conditions:".to_owned(),
                picked(member),
                condition(deciding, 1, "RolloutStartedUnknown", "Unknown", "RolloutStarted"),
            ];
            user.reads(&describe, &entry.join("\n")).await;
        }
        user.reads(&describe, "Events: <none>").await;
    }

    async fn a_run_of_an_index_that_does_not_exist(&self) {
        let (example, run) = (self.example, self.example.run);
        self.user.applies(&example.run_object(run, json!({"resourceSnapshotIndex": "1"}))).await;
        self.sees_run(run, "1", "False - -").await;
        let message = format!(
            "cannot continue the updateRun: failed to validate the updateRun: {CLIENT_ERROR}: no resourceSnapshots with \
             index `1` found for placement `{}`",
            example.placement_key()
        );
        let status = [
            "Conditions:".to_owned(),
            condition(&message, 1, "UpdateRunInitializedFailed", "False", "Initialized"),
            "Deletion Stage Status:\nClusters:\nStage Name: kubernetes-fleet.io/deleteStage".to_owned(),
            "Policy Observed Cluster Count: 3\nPolicy Snapshot Index Used: 0".to_owned(),
        ];
        self.user.reads(&self.describe_run(run), &status.join("\n")).await;
        self.deletes_run(run).await;
    }

    async fn a_run_that_waits_for_an_approval_that_counts(&self) {
        let (example, run, stage) = (self.example, self.example.run, self.example.first_stage);
        self.user.applies(&example.run_object(run, json!({"resourceSnapshotIndex": "0"}))).await;
        self.sees_run(run, "0", "True - -").await;
        let yaml = format!("kubectl get {} {run}{} -o yaml", example.runs, example.at());
        self.user.reads(&yaml, "state: Initialize").await;
        self.patches_state(run, "Run").await;
        self.sees_run(run, "0", "True False -").await;

        let request = format!("{run}-before-{stage}");
        self.sees_requests(&[&format!("{request} {run} {stage} -")]).await;
        let waits = format!("The updateRun is waiting for before-stage tasks in stage {stage} to complete");
        let describe = self.describe_run(run);
        self.user.reads(&describe, &condition(&waits, 2, "UpdateRunWaiting", "False", "Progressing")).await;
        let waits = "Not all before-stage tasks are completed, waiting for approval";
        self.user.reads(&describe, &condition(waits, 2, "StageUpdatingWaiting", "False", "Progressing")).await;

        self.approves(&request, 0).await;
        self.sees_requests(&[&format!("{request} {run} {stage} True")]).await;
        let yaml = format!("kubectl get {} {request}{} -o yaml", example.requests, example.at());
        let labels = [
            "kubernetes-fleet.io/isLatestUpdateRunApproval: \"true\"".to_owned(),
            format!("kubernetes-fleet.io/targetUpdateRun: {run}"),
            format!("kubernetes-fleet.io/targetUpdatingStage: {stage}"),
            "kubernetes-fleet.io/taskType: beforeStage".to_owned(),
        ];
        self.user.reads(&yaml, &labels.join("\n")).await;
        let shown = self.user.types(&yaml).await;
        assert!(shown.contains("observedGeneration: 0") && !shown.contains("ApprovalAccepted"), "{shown}");
        assert_eq!(self.kubelet.deployment("member2").await, None, "nothing starts before the approval counts");
        self.approves(&request, 1).await;
        self.user.reads(&yaml, "type: ApprovalAccepted").await;
    }

    async fn a_run_that_is_stuck_because_of_an_image(&self) {
        let (example, run, stage) = (self.example, self.example.run, self.example.first_stage);
        self.kubelet.refuses_images_on("member2").await;
        let stuck = format!(
            "The updateRun is stuck waiting for member2 cluster(s) in stage {stage} to finish updating, please check \
             placement status for potential errors"
        );
        let describe = self.describe_run(run);
        self.user.reads(&describe, &condition(&stuck, 2, "UpdateRunStuck", "False", "Progressing")).await;
        self.sees_run(run, "0", "True False -").await;
        let started = condition("Cluster update started", 2, "ClusterUpdatingStarted", "True", "Started");
        self.user.reads(&describe, &format!("Cluster Name: member2\nConditions:\n{started}")).await;

        let begun = format!(
            "Detected the new changes on the resources and started the rollout process, resourceSnapshotIndex: 0, \
             updateRun: {run}"
        );
        let waiting = format!("Work object {} is not yet available", example.work());
        let failed = "Manifest is not yet available; Fleet will check again later";
        let entry = [
            "Cluster Name: member2\nConditions:".to_owned(),
            picked("member2"),
            condition(&begun, 1, "RolloutStarted", "True", "RolloutStarted"),
            condition(
                "No override rules are configured for the selected resources",
                1,
                "NoOverrideSpecified",
                "True",
                "Overridden",
            ),
            condition(
                "All of the works are synchronized to the latest",
                1,
                "AllWorkSynced",
                "True",
                "WorkSynchronized",
            ),
            condition("All corresponding work objects are applied", 1, "AllWorkHaveBeenApplied", "True", "Applied"),
            condition(&waiting, 1, "NotAllWorkAreAvailable", "False", "Available"),
            "Failed Placements:\nCondition:".to_owned(),
            condition(failed, 1, "ManifestNotAvailableYet", "False", "Available"),
            format!("Group: apps\nKind: Deployment\nName: {}", example.deployment),
            format!("Namespace: {}\nVersion: v1", example.namespace),
        ];
        self.user.reads(&self.describe_placement(), &entry.join("\n")).await;

        self.user.types("kubectl config use-context member2").await;
        let row = format!("{} 0/3 3 0", example.deployment);
        let list = |kind: &str| format!("kubectl get {kind} -n {}", example.namespace);
        self.user.sees_table(&list("deployment"), &["NAME READY UP-TO-DATE AVAILABLE", &row]).await;
        let pods = self.user.types(&list("pods")).await;
        let refused = pods.lines().skip(1).filter(|line| line.contains("0/1     InvalidImageName   0"));
        assert_eq!((refused.count(), pods.lines().count()), (3, 4), "{pods}");
        self.user.types("kubectl config use-context hub").await;
    }

    /// ReplicaSets and Pods that the hub's controllers create for the Deployment must not be placed.
    async fn only_what_the_user_wrote_is_placed(&self) {
        let example = self.example;
        let path = format!(
            "/apis/placement.kubernetes-fleet.io/v1beta1/namespaces/fleet-member-member2/works/{}",
            example.work()
        );
        let work = self.fleet.servers.hub().get(&path).await.unwrap();
        let manifests = work["spec"]["workload"]["manifests"].as_array().unwrap();
        let kinds: Vec<&str> = manifests.iter().map(|manifest| manifest["kind"].as_str().unwrap()).collect();
        assert_eq!(kinds, if example.is_namespaced { &["Deployment"][..] } else { &["Namespace", "Deployment"] });
        let pods = self.fleet.servers.hub().list(&format!("/api/v1/namespaces/{}/pods", example.namespace)).await;
        assert!(!pods.is_empty(), "the hub has controllers");
    }

    async fn a_new_run_that_takes_the_cluster_over(&self) {
        let (example, user, stage) = (self.example, &self.user, self.example.first_stage);
        let (run, next) = (example.run, self.next_run());
        let fix = format!("deployment/{} nginx={GOOD_IMAGE} -n {}", example.deployment, example.namespace);
        user.types(&format!("kubectl set image {fix}")).await;
        user.applies(&example.run_object(&next, json!({"state": "Run"}))).await;
        let requests = format!("kubectl get {}{}", example.requests, example.at());
        user.sees_row(&requests, &format!("{next}-before-{stage} {next} {stage} -")).await;
        self.approves(&format!("{next}-before-{stage}"), 1).await;

        self.sees_run(run, "0", "True False False").await;
        let names = user.types(&format!("kubectl get {}{} -o name", example.bindings, example.at())).await;
        let name = |member: &str| {
            let begin = format!("{}-{member}-", example.placement);
            let found = names.lines().filter_map(|line| line.rsplit('/').next()).find(|name| name.starts_with(&begin));
            found.unwrap_or_else(|| panic!("{member} has no binding:\n{names}")).to_owned()
        };
        let binding = name("member2");
        let preempted = format!(
            "cannot continue the updateRun: {CLIENT_ERROR}: the binding of the updating cluster `member2` in the stage \
             `{stage}` is not up-to-date with the desired status, please check the status of binding `{}` and see if \
             there is a concurrent updateRun referencing the same placement and updating the same cluster",
            example.reference(&binding)
        );
        let conditions = [
            condition(ABORTED, 2, "UpdateRunFailed", "False", "Progressing"),
            condition(&preempted, 2, "UpdateRunFailed", "False", "Succeeded"),
        ];
        user.reads(&self.describe_run(run), &conditions.join("\n")).await;

        let bindings = format!("kubectl get {}{}", example.bindings, example.at());
        user.sees_row(&bindings, &format!("{binding} True True")).await;
        user.sees_row(&bindings, &format!("{} - -", name("member1"))).await;
        let yaml = format!("kubectl get {} {binding}{} -o yaml", example.bindings, example.at());
        user.reads(&yaml, "state: Bound\ntargetCluster: member2").await;
        user.reads(&yaml, &format!("resourceSnapshotName: {}-1-snapshot", example.placement)).await;
        let describe = format!("kubectl describe {} {binding}{}", example.bindings, example.at());
        // A run without an index shows none.
        let begun = format!(
            "Message: Detected the new changes on the resources and started the rollout process, resourceSnapshotIndex: , \
             updateRun: {next}"
        );
        user.reads(&describe, &begun).await;

        self.deletes_run(run).await;
        self.kubelet.runs_pods_on("member2").await;
        let (before, after) = (format!("{next}-before-{stage}"), format!("{next}-after-{stage}"));
        self.sees_requests(&[&format!("{after} {next} {stage} -"), &format!("{before} {next} {stage} True")]).await;
        let waits = format!("The updateRun is waiting for after-stage tasks in stage {stage} to complete");
        // The hub stores a blank index at initialization, which creates the second generation.
        let waits = condition(&waits, 2, "UpdateRunWaiting", "False", "Progressing");
        user.reads(&self.describe_run(&next), &waits).await;
        for member in ["member1", "member3"] {
            assert_eq!(self.kubelet.deployment(member).await, None, "{member} is behind a gate");
        }
        self.approves(&after, 1).await;
    }

    async fn a_run_that_is_stopped_and_resumed(&self) {
        let next = self.next_run();
        let describe = self.describe_run(&next);
        until("the second stage has begun", || async { self.kubelet.deployment("member1").await.is_some() }).await;
        self.patches_state(&next, "Stop").await;
        let stopping = "The update run is the process of stopping, waiting for all the updating/deleting clusters to \
                        finish updating before completing the stop process";
        let stopping = condition(stopping, 3, "UpdateRunStopping", "Unknown", "Progressing");
        self.user.reads(&describe, &stopping).await;
        self.kubelet.runs_pods_on("member1").await;
        let stopped = condition("The update run has been stopped", 3, "UpdateRunStopped", "False", "Progressing");
        self.user.reads(&describe, &stopped).await;
        self.sees_run(&next, "-", "True False -").await;
        assert_eq!(self.kubelet.deployment("member3").await, None, "a stop starts nothing");

        self.patches_state(&next, "Run").await;
        self.kubelet.runs_pods_on("member3").await;
        self.sees_run(&next, "-", "True False True").await;
        let done = "All stages are completed successfully";
        self.user.reads(&describe, &condition(done, 4, "UpdateRunSucceeded", "True", "Succeeded")).await;
    }

    async fn a_placement_that_is_deleted_under_a_run(&self) {
        let (example, run) = (self.example, self.example.run);
        self.user.applies(&example.run_object(run, json!({"resourceSnapshotIndex": "1", "state": "Run"}))).await;
        self.sees_run(run, "1", "True False -").await;
        let delete = format!("kubectl delete {} {}{}", example.placements, example.placement, example.at());
        self.user.types(&delete).await;
        self.sees_run(run, "1", "True False False").await;
        let message = format!(
            "cannot continue the updateRun: failed to validate the updateRun: {CLIENT_ERROR}: parent placement not found"
        );
        let conditions = [
            condition(ABORTED, 1, "UpdateRunFailed", "False", "Progressing"),
            condition(&message, 1, "UpdateRunFailed", "False", "Succeeded"),
        ];
        self.user.reads(&self.describe_run(run), &conditions.join("\n")).await;
        for member in MEMBERS {
            until("it is taken back", || async { self.kubelet.deployment(member).await.is_none() }).await;
        }
        self.user.types(&format!("kubectl delete {} --all{}", example.runs, example.at())).await;
        let left = self.user.types(&format!("kubectl get {}{}", example.requests, example.at())).await;
        assert_eq!(left, "", "a run takes its requests with it");
    }
}

/// The status of a placement for a picked member.
fn picked(member: &str) -> String {
    let message = format!(
        "Successfully scheduled resources for placement in \"{member}\" (affinity score: 0, topology spread score: 0): \
         picked by scheduling policy"
    );
    condition(&message, 1, "Scheduled", "True", "Scheduled")
}
