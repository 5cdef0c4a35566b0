//! Faults of a whole server, link, kind, clock or status: when they happen in a scenario, to which agent, and for how
//! long. `network::faults` has the faults of single requests.

use std::ops::Range;
use std::time::Duration;

use fleet_api::kinds::{
    AppliedWork, ClusterResourceBinding, ClusterResourcePlacement, ClusterResourceSnapshot, InternalMemberCluster,
    KindInfo, MemberCluster, Work,
};
use fleet_api::well_known::properties;
use fleet_runtime::KindId;
use jiff::SignedDuration;
use serde_json::{Value, json};

use super::TrialError;
use super::fault_mode::{FaultMode, WIDEST_CLOCK_JUMP};
use super::profile::{FaultProfile, LONGEST_PARTITION};
use super::runner::{ScenarioRunner, request};
use crate::network::HUB_SERVER;
use crate::scenario::{Action, Scenario};
use crate::state::{FORGED_CONDITION, FORGED_REASON};

/// Chance in thousandths that an incident happens after an action.
const INCIDENT: u32 = 500;
const PARTITION: Range<Duration> = Duration::from_hours(1)..LONGEST_PARTITION;
/// How long a server does not serve a kind whose CustomResourceDefinition has changed.
const UNSERVED: Range<Duration> = Duration::from_secs(1)..Duration::from_secs(40);
/// How long a clock stays skewed.
const WRONG_CLOCK: Range<Duration> = Duration::from_mins(1)..Duration::from_mins(30);
/// Most statuses that an intruder writes in one incident.
const FORGERIES: u64 = 4;
/// CustomResourceDefinitions that change, on the hub and on members.
const CHANGING_ON_HUB: [&KindInfo; 6] = [
    Work::INFO,
    InternalMemberCluster::INFO,
    ClusterResourceBinding::INFO,
    ClusterResourceSnapshot::INFO,
    ClusterResourcePlacement::INFO,
    MemberCluster::INFO,
];
const CHANGING_ON_MEMBERS: &KindInfo = AppliedWork::INFO;

impl ScenarioRunner {
    fn profile(&self) -> Option<FaultProfile> {
        if let FaultMode::WithFaults(profile) = self.fault_mode { Some(profile) } else { None }
    }

    /// Causes the incident of the fault profile, with a chance of `INCIDENT`. `performed` actions precede it; the fleet had
    /// no time to settle after those in `recent`.
    pub(super) async fn cause_incident(&mut self, performed: usize, recent: &[Action]) -> Result<(), TrialError> {
        let Some(profile) = self.profile() else { return Ok(()) };
        if profile == FaultProfile::ServerRestore {
            return self.back_up_or_restore(performed).await;
        }
        if !self.random.chance(INCIDENT) {
            return Ok(());
        }
        match profile {
            FaultProfile::ServerRestart => self.simulation.restart_hub_server().await?,
            FaultProfile::CrdChanges => self.change_a_definition().await?,
            // An eviction says whether its cluster had failed, and a forged status may say so.
            FaultProfile::ForgedStatuses if !recent.iter().any(Action::is_eviction) => {
                self.forge_statuses(&[KindId::of::<Work>()]).await?;
            }
            _ => {}
        }
        Ok(())
    }

    /// Causes the incident of the fault profile once, after the last action, and waits until the fleet has settled
    /// again.
    pub(super) async fn cause_final_incident(&mut self, scenario: &Scenario) -> Result<(), TrialError> {
        match self.profile() {
            Some(FaultProfile::Partition) => self.partition_for_hours().await,
            Some(FaultProfile::Clocks) => self.set_a_clock_far_off().await,
            // A forged heartbeat or condition of a member changes which clusters are picked, so members are forged only while nothing
            // is scheduled.
            Some(FaultProfile::ForgedStatuses) => {
                self.forge_statuses(&[KindId::of::<Work>(), KindId::of::<InternalMemberCluster>()]).await?;
            }
            _ => return Ok(()),
        }
        self.simulation.advance(self.fault_mode.settling(scenario)).await;
        Ok(())
    }

    async fn partition_for_hours(&mut self) {
        let victim = self.victim();
        let time = self.random.duration(&PARTITION);
        self.simulation.network().partition(&victim, HUB_SERVER, true);
        self.simulation.advance(time).await;
        self.simulation.network().partition(&victim, HUB_SERVER, false);
    }

    async fn set_a_clock_far_off(&mut self) {
        let victim = self.victim();
        let off = SignedDuration::try_from(self.random.duration(&(Duration::from_mins(1)..WIDEST_CLOCK_JUMP)));
        let off = off.unwrap_or_default();
        let is_fast = self.random.chance(500);
        self.simulation.set_clock(&victim, if is_fast { off } else { SignedDuration::ZERO.saturating_sub(off) });
        let time = self.random.duration(&WRONG_CLOCK);
        self.simulation.advance(time).await;
        self.simulation.set_clock(&victim, SignedDuration::ZERO);
    }

    /// A user edits a CustomResourceDefinition: its watches end, and its kind is not served for a while.
    async fn change_a_definition(&mut self) -> Result<(), TrialError> {
        let members = self.simulation.members();
        let on_member = self.random.pick(&members).cloned().filter(|_| self.random.chance(300));
        let (server, kind) = match on_member {
            Some(member) => (member, CHANGING_ON_MEMBERS),
            None => (HUB_SERVER.to_owned(), CHANGING_ON_HUB[self.random.index(CHANGING_ON_HUB.len())]),
        };
        let client = if server == HUB_SERVER { self.simulation.user() } else { self.simulation.user_of(&server) };
        let definition = format!("/apis/apiextensions.k8s.io/v1/customresourcedefinitions/{}", kind.crd_name());
        let description = format!("changed {}", self.random.number());
        let mut changed = request(&client, "GET", &definition, &Value::Null).await.1;
        for version in changed["spec"]["versions"].as_array_mut().into_iter().flatten() {
            version["schema"]["openAPIV3Schema"]["description"] = description.as_str().into();
        }
        request(&client, "PUT", &definition, &changed).await;
        let time = self.random.duration(&UNSERVED);
        self.simulation.network().stop_serving(&server, kind.plural, true);
        self.simulation.advance(time).await;
        self.simulation.network().stop_serving(&server, kind.plural, false);
        Ok(())
    }

    /// An intruder with the credentials of a member's agent writes garbage that the schema allows into statuses. Then
    /// the agent restarts and repairs them.
    async fn forge_statuses(&mut self, kinds: &[KindId]) -> Result<(), TrialError> {
        let members = self.simulation.members();
        let Some(member) = self.random.pick(&members).cloned() else { return Ok(()) };
        let Some((client, namespace)) = self.simulation.intruder(&member) else { return Ok(()) };
        let namespace = namespace.as_str();
        for _ in 0..=self.random.below(FORGERIES) {
            let kind = &kinds[self.random.index(kinds.len())];
            let list = request(&client, "GET", &kind.collection_path(Some(namespace)), &Value::Null).await;
            let names: Vec<String> = list.1["items"]
                .as_array()
                .into_iter()
                .flatten()
                .filter_map(|object| object["metadata"]["name"].as_str().map(str::to_owned))
                .collect();
            let Some(name) = self.random.pick(&names).cloned() else { continue };
            let path = kind.object_path(Some(namespace), &name, Some("status"));
            let status = if &*kind.kind == "Work" { self.forged_work_status() } else { self.forged_member_status() };
            request(&client, "PATCH", &path, &json!({"status": status})).await;
        }
        self.simulation.restart_member(&member)?;
        Ok(())
    }

    fn forged_work_status(&mut self) -> Value {
        let text = self.forged_text();
        let generation = [0, -1, 1, i64::from(i32::MAX), i64::MAX][self.random.index(5)];
        let status = ["True", "False", "Unknown"][self.random.index(3)];
        let conditions: Vec<Value> = ["Applied", "Available", FORGED_CONDITION]
            .map(|type_| {
                json!({"type": type_, "status": status, "reason": FORGED_REASON, "message": text,
                    "observedGeneration": generation, "lastTransitionTime": "9999-12-31T23:59:59Z"})
            })
            .into();
        let ordinal = [0, 1, 7, i64::from(i32::MAX)][self.random.index(4)];
        let manifest = json!({
            "identifier": {"ordinal": ordinal, "group": text, "version": "v1", "kind": text, "resource": text,
                "namespace": text, "name": text},
            "conditions": conditions,
            "driftDetails": {"observationTime": "0001-01-01T00:00:00Z", "firstDriftedObservedTime": "9999-12-31T23:59:59Z",
                "observedInMemberClusterGeneration": generation, "observedDrifts": [{"path": text, "valueInMember": text}]},
            "backReportedStatus": {"observationTime": "9999-12-31T23:59:59Z", "observedStatus": {"status": text}},
        });
        json!({"conditions": conditions, "manifestConditions": [manifest.clone(), manifest]})
    }

    fn forged_member_status(&mut self) -> Value {
        let text = self.forged_text();
        let heartbeat = ["0001-01-01T00:00:00Z", "9999-12-31T23:59:59Z"][self.random.index(2)];
        let status = ["True", "False", "Unknown"][self.random.index(3)];
        let conditions: Vec<Value> = ["Joined", "Healthy", FORGED_CONDITION]
            .map(|type_| {
                json!({"type": type_, "status": status, "reason": FORGED_REASON, "message": text,
                    "observedGeneration": i64::MAX, "lastTransitionTime": heartbeat})
            })
            .into();
        let property = json!({"value": text, "observationTime": heartbeat});
        json!({
            "conditions": conditions,
            "properties": {properties::NODE_COUNT: property},
            "agentStatus": [{"type": "MemberAgent", "conditions": conditions, "lastReceivedHeartbeat": heartbeat}],
        })
    }

    fn forged_text(&mut self) -> String {
        let texts = ["", "x", "$(reboot)\n; #", "\u{1b}[2J\u{202e}", "99999999999999999999999999"];
        if self.random.chance(200) { "long".repeat(1000) } else { texts[self.random.index(texts.len())].to_owned() }
    }
}
