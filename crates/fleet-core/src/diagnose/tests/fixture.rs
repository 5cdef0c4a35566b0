//! A fleet written in YAML, with conditions in one line: `Progressing=False UpdateRunStuck: message`. A time may follow the type:
//! `Progressing@12:00=…`.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use fleet_api::kinds::{
    Approval, Binding, Cluster, ClusterOverride, DisruptionBudget, Eviction, Family, Member, Namespaced, Obj,
    Placement, PolicySnapshot, Scope, UpdateRun, UpdateStrategy, WorkFamily,
};
use fleet_api::yaml;
use serde_json::{Value, json};

use crate::diagnose::{Diagnosis, Finding, Inputs, MemberInputs, ObservedObject, SnapshotMetadata, Unread};

pub(super) const NOW: &str = "2026-01-01T12:30:00Z";

/// Two members, an External placement on both without a run, a strategy with two stages.
pub(super) const FLEET: &str = "
{kind: MemberCluster, metadata: {name: member1, labels: {environment: canary}}, spec: {identity: {kind: User, name: a}}, status: {
  conditions: ['Joined=True MemberClusterJoined: '],
  agentStatus: [{type: MemberAgent, conditions: ['Joined=True A: ', 'Healthy=True A: '], lastReceivedHeartbeat: '2026-01-01T12:29:30Z'}]}}
---
{kind: MemberCluster, metadata: {name: member2, labels: {environment: staging}}, spec: {identity: {kind: User, name: b}}, status: {
  conditions: ['Joined=True MemberClusterJoined: '],
  agentStatus: [{type: MemberAgent, conditions: ['Joined=True A: ', 'Healthy=True A: '], lastReceivedHeartbeat: '2026-01-01T12:29:30Z'}]}}
---
{kind: ClusterResourcePlacement, metadata: {name: example-placement}, spec: {
  resourceSelectors: [{group: '', version: v1, kind: Namespace, name: test-namespace}], strategy: {type: External}},
  status: {conditions: [
    'ClusterResourcePlacementScheduled=True SchedulingPolicyFulfilled: found all cluster needed as specified by the scheduling policy, found 2 cluster(s)']}}
---
{kind: ClusterSchedulingPolicySnapshot, metadata: {name: example-placement-0, labels: {kubernetes-fleet.io/is-latest-snapshot: 'true',
  kubernetes-fleet.io/policy-index: '0'}, annotations: {kubernetes-fleet.io/CRP-generation: '1'}}, spec: {policyHash: ''}, status: {observedCRPGeneration: 1,
  conditions: ['Scheduled=True SchedulingPolicyFulfilled: '],
  targetClusters: [{clusterName: member1, selected: true, reason: picked}, {clusterName: member2, selected: true, reason: picked}]}}
---
{kind: ClusterResourceSnapshot, metadata: {name: example-placement-0-snapshot, labels: {kubernetes-fleet.io/resource-index: '0'}}}
---
{kind: ClusterResourceBinding, metadata: {name: example-placement-member1-1}, spec: {state: Scheduled, resourceSnapshotName: '',
  schedulingPolicySnapshotName: example-placement-0, targetCluster: member1, clusterDecision: {clusterName: member1, selected: true, reason: ''}}}
---
{kind: ClusterResourceBinding, metadata: {name: example-placement-member2-2}, spec: {state: Scheduled, resourceSnapshotName: '',
  schedulingPolicySnapshotName: example-placement-0, targetCluster: member2, clusterDecision: {clusterName: member2, selected: true, reason: ''}}}
---
{kind: ClusterStagedUpdateStrategy, metadata: {name: example-strategy}, spec: {stages: [
  {name: staging, labelSelector: {matchLabels: {environment: staging}}}, {name: canary, labelSelector: {matchLabels: {environment: canary}}}]}}
";

/// The strategy of `FLEET` as a run records it.
pub(super) const COPY: &str = "stagedUpdateStrategySnapshot: {stages: [
  {name: staging, labelSelector: {matchLabels: {environment: staging}}, maxConcurrency: 1},
  {name: canary, labelSelector: {matchLabels: {environment: canary}}, maxConcurrency: 1}]}";

/// A fleet to which objects are added.
#[derive(Clone)]
pub(super) struct Fleet {
    documents: Vec<Value>,
    side: Option<(String, MemberInputs)>,
    unread: Vec<Unread>,
    /// Names of the run and the placement to diagnose.
    subjects: [String; 2],
    /// Skip documents that do not fit their kind, as if they had not been read.
    lenient: bool,
}

pub(super) fn fleet() -> Fleet {
    let subjects = ["example-run", "example-placement"].map(str::to_owned);
    Fleet { documents: Vec::new(), side: None, unread: Vec::new(), subjects, lenient: false }.with(FLEET)
}

/// A run of the example with this status.
pub(super) fn run(status: &str) -> String {
    run_in_state("Run", status)
}

pub(super) fn run_in_state(state: &str, status: &str) -> String {
    format!(
        "{{kind: ClusterStagedUpdateRun, metadata: {{name: example-run, creationTimestamp: '2026-01-01T12:00:00Z'}}, spec: {{
          placementName: example-placement, stagedRolloutStrategyName: example-strategy, state: {state}}}, status: {{{status}}}}}"
    )
}

impl Fleet {
    /// Adds objects; one of the same kind and name is replaced.
    pub(super) fn with(mut self, text: &str) -> Self {
        for mut document in yaml::documents(text).unwrap_or_else(|error| panic!("{error}: {text}")) {
            spell_out(&mut document);
            self.documents.retain(|one| key(one) != key(&document));
            self.documents.push(document);
        }
        self
    }

    /// Merges into an object that is there.
    pub(super) fn edit(mut self, kind: &str, name: &str, change: &str) -> Self {
        let mut change = yaml::documents(change).unwrap().remove(0);
        spell_out(&mut change);
        let found = self.documents.iter_mut().find(|one| one["kind"] == kind && one["metadata"]["name"] == name);
        merge(found.unwrap_or_else(|| panic!("no {kind} {name}")), &change);
        self
    }

    pub(super) fn without(mut self, kind: &str, name: &str) -> Self {
        self.documents.retain(|one| one["kind"] != kind || one["metadata"]["name"] != name);
        self
    }

    pub(super) fn member_inputs(mut self, cluster: &str, side: MemberInputs) -> Self {
        self.side = Some((cluster.to_owned(), side));
        self
    }

    pub(super) fn unread(mut self, what: &str, why: &str) -> Self {
        self.unread.push(Unread { what: what.to_owned(), why: why.to_owned() });
        self
    }

    pub(super) fn inputs(&self) -> Inputs {
        let mut inputs = Inputs::empty(NOW.parse().unwrap());
        inputs.runs = self.all::<UpdateRun, Cluster>();
        inputs.run = Some(self.subjects[0].clone());
        inputs.strategies = self.all::<UpdateStrategy, Cluster>();
        inputs.strategies_elsewhere = self.all::<UpdateStrategy, Namespaced>();
        inputs.approvals = self.all::<Approval, Cluster>();
        inputs.placement = self.all::<Placement, Cluster>().into_iter().find(|one| one.name() == self.subjects[1]);
        inputs.placement_names = self.all::<Placement, Cluster>().iter().map(|one| one.name().to_owned()).collect();
        inputs.policy_snapshots = self.all::<PolicySnapshot, Cluster>();
        let snapshots = self.documents.iter().filter(|one| one["kind"] == "ClusterResourceSnapshot");
        inputs.resource_snapshots = snapshots
            .map(|one| SnapshotMetadata { metadata: serde_json::from_value(one["metadata"].clone()).unwrap() })
            .collect();
        inputs.bindings = self.all::<Binding, Cluster>();
        inputs.works = self.all::<WorkFamily, Namespaced>();
        inputs.members = self.all::<Member, Cluster>();
        inputs.cluster_overrides = self.all::<ClusterOverride, Cluster>();
        let snapshots = self.documents.iter().filter(|one| one["kind"] == "ClusterResourceOverrideSnapshot");
        inputs.override_snapshots =
            Some(snapshots.map(|one| serde_json::from_value(one["metadata"].clone()).unwrap()).collect());
        inputs.evictions = self.all::<Eviction, Cluster>();
        inputs.budget = self.all::<DisruptionBudget, Cluster>().into_iter().next();
        inputs.member_inputs.extend(self.side.clone());
        inputs.unread.clone_from(&self.unread);
        inputs
    }

    fn all<F: Family, S: Scope>(&self) -> Vec<ObservedObject<F>> {
        let info = Obj::<F, S>::INFO;
        let of_kind = self.documents.iter().filter(|one| one["kind"] == info.kind);
        let decoded = of_kind.filter_map(|one| {
            let mut one = one.clone();
            one["apiVersion"] = json!(info.api_version());
            match serde_json::from_value::<Obj<F, S>>(one.clone()) {
                Ok(object) => Some(object),
                Err(_) if self.lenient => None,
                Err(error) => panic!("{error}: {one}"),
            }
        });
        decoded.map(ObservedObject::from).collect()
    }

    /// Every string in the objects, including keys of maps, except kinds of documents.
    pub(super) fn strings(&self) -> BTreeSet<String> {
        let mut found = BTreeSet::new();
        for document in self.documents.iter().flat_map(|one| [&one["metadata"], &one["spec"], &one["status"]]) {
            collect(document, &mut found);
        }
        if let Some((_, side)) = &self.side {
            let all = json!({"objects": side.objects, "pods": side.pods, "events": side.events});
            collect(&all, &mut found);
        }
        found
    }

    /// The same fleet with one string replaced everywhere, also inside messages.
    pub(super) fn with_text(mut self, old: &str, new: &str) -> Self {
        self.lenient = true;
        for document in &mut self.documents {
            for part in ["metadata", "spec", "status"] {
                let changed = with_text(&document[part], old, new);
                document[part] = changed;
            }
        }
        self.subjects = self.subjects.map(|one| one.replace(old, new));
        if let Some((cluster, side)) = &mut self.side {
            *cluster = cluster.replace(old, new);
            side.objects = side.objects.iter().map(|one| with_text(one, old, new)).collect();
            side.pods = side
                .pods
                .iter()
                .filter_map(|one| serde_json::from_value(with_text(&json!(one), old, new)).ok())
                .collect();
            side.events = side
                .events
                .iter()
                .filter_map(|one| serde_json::from_value(with_text(&json!(one), old, new)).ok())
                .collect();
        }
        self
    }
}

fn collect(value: &Value, found: &mut BTreeSet<String>) {
    match value {
        Value::String(text) if !text.is_empty() => {
            found.insert(text.clone());
        }
        Value::Array(items) => items.iter().for_each(|one| collect(one, found)),
        Value::Object(fields) => {
            for (name, value) in fields {
                // Only keys of maps that users fill.
                if name.contains(['-', '/']) || ["environment", "app"].contains(&name.as_str()) {
                    found.insert(name.clone());
                }
                collect(value, found);
            }
        }
        _ => {}
    }
}

fn with_text(value: &Value, old: &str, new: &str) -> Value {
    match value {
        Value::String(text) => json!(text.replace(old, new)),
        Value::Array(items) => items.iter().map(|one| with_text(one, old, new)).collect(),
        Value::Object(fields) => fields
            .iter()
            .map(|(name, one)| {
                let name = if name == old { new.to_owned() } else { name.clone() };
                (name, with_text(one, old, new))
            })
            .collect(),
        other => other.clone(),
    }
}

fn key(document: &Value) -> (String, String, String) {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    (text(&document["kind"]), text(&document["metadata"]["namespace"]), text(&document["metadata"]["name"]))
}

fn merge(into: &mut Value, change: &Value) {
    let Value::Object(fields) = change else {
        *into = change.clone();
        return;
    };
    if !into.is_object() {
        *into = json!({});
    }
    for (name, value) in fields {
        if value.is_null() {
            into.as_object_mut().unwrap().remove(name);
        } else {
            merge(&mut into[name], value);
        }
    }
}

/// Expands conditions that are texts to objects; the default generation is 1.
fn spell_out(value: &mut Value) {
    match value {
        Value::Array(items) => items.iter_mut().for_each(spell_out),
        Value::Object(fields) => {
            if let Some(metadata) = fields.get_mut("metadata").filter(|metadata| metadata["generation"].is_null()) {
                metadata["generation"] = json!(1);
            }
            for (name, field) in fields.iter_mut() {
                match (name.as_str(), &mut *field) {
                    ("conditions", Value::Array(list)) => list.iter_mut().for_each(condition),
                    ("condition", one) => condition(one),
                    _ => {}
                }
                spell_out(field);
            }
        }
        _ => {}
    }
}

fn condition(value: &mut Value) {
    let Some(text) = value.as_str() else { return };
    let (type_, rest) = text.split_once('=').unwrap();
    let (type_, time) = type_.split_once('@').unwrap_or((type_, "12:00"));
    let (words, message) = rest.split_once(':').unwrap_or((rest, ""));
    let (status, reason) = words.split_once(' ').unwrap();
    let (reason, generation) = reason.split_once('#').unwrap_or((reason, "1"));
    *value = json!({"type": type_, "status": status, "reason": reason, "message": message.trim_start(),
        "observedGeneration": generation.parse::<i64>().unwrap(), "lastTransitionTime": format!("2026-01-01T{time}:00Z")});
}

/// The command that creates a run again. `rendered` abbreviates it to one line.
const NEXT_RUN: &str = "\
kubectl create -f - <<'EOF'
apiVersion: placement.kubernetes-fleet.io/v1beta1
kind: ClusterStagedUpdateRun
metadata:
  name: example-run-2
spec:
  placementName: example-placement
  stagedRolloutStrategyName: example-strategy
  state: Run
EOF";

/// The cause with its fixes, and one line per notice.
pub(super) fn rendered(diagnosis: &Diagnosis) -> String {
    let mut out = format!("{}\n", diagnosis.summary);
    match &diagnosis.cause {
        Some(cause) => whole(&mut out, cause),
        None => out.push_str("nothing\n"),
    }
    for notice in &diagnosis.notices {
        let _ = writeln!(out, "also {} {:?}: {}", notice.entry, notice.severity, notice.title);
    }
    for unread in &diagnosis.unread {
        let _ = writeln!(out, "unread {}: {}", unread.what, unread.why);
    }
    out
}

fn whole(out: &mut String, finding: &Finding) {
    let root = finding.because_of.map(|root| format!(" {root}")).unwrap_or_default();
    let _ = writeln!(out, "{}{root} {:?}: {}", finding.entry, finding.severity, finding.title);
    for evidence in &finding.evidence {
        let _ = writeln!(out, "  {} {} = {}", evidence.object, evidence.field, evidence.value);
    }
    for fix in &finding.fixes {
        let _ = writeln!(out, "{}:", fix.what);
        for step in &fix.steps {
            let command = if step.command.is_empty() { "by hand" } else { &step.command };
            let command = command.replace(NEXT_RUN, "kubectl create … example-run-2");
            let _ = writeln!(out, "  {}", command.replace('\n', "\n  "));
        }
    }
}
