//! The values for lists, from the objects of the store: overviews of all runs and placements, members with their problems.

use std::collections::BTreeSet;

use fleet_api::conditions::decode_ignoring_generation;
use fleet_api::conditions::member::MemberJoined;
use fleet_api::kinds::{MemberCluster, Obj, Placement, Scope, UpdateRun};
use fleet_api::types::AgentType;
use fleet_api::well_known::labels;
use fleet_core::diagnose::{self, Inputs, Kubectl, ObservedObject};
use fleet_core::overview::{self, RunLine};
use fleet_dashboard::fleet::{Fleet, Member, Strategy};
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use super::store::{Objects, Scoped};
use crate::cli::run_inputs::RunInputs;

pub(super) fn fleet(objects: &Objects, hub_context: Option<&str>, now: Timestamp) -> Fleet {
    let members: Vec<MemberCluster> = objects.members.objects.values().cloned().collect();
    let mut fleet = Fleet::default();
    let members = scoped(&objects.cluster, members, now, &mut fleet);
    let members = scoped(&objects.namespaced, members, now, &mut fleet);
    fleet.members = with_problems(&members, hub_context, now);
    fleet
}

/// Adds the runs, placements and strategies of a scope; returns the members again.
fn scoped<S: Scope>(
    scoped: &Scoped<S>,
    members: Vec<MemberCluster>,
    now: Timestamp,
    fleet: &mut Fleet,
) -> Vec<MemberCluster> {
    let strategies = scoped.strategies.objects.iter().map(|((namespace, name), one)| Strategy {
        namespace: namespace.clone(),
        name: name.clone(),
        stages: one.spec.stages.iter().map(|stage| stage.name.clone()).collect(),
    });
    fleet.strategies.extend(strategies);
    let keys = scoped.placements.objects.keys().chain(scoped.runs.objects.keys());
    let namespaces: BTreeSet<&Option<String>> = keys.map(|(namespace, _)| namespace).collect();
    let mut members = members;
    for namespace in namespaces {
        members = of_namespace(scoped, namespace.as_deref(), members, now, fleet);
    }
    members
}

fn of_namespace<S: Scope>(
    scoped: &Scoped<S>,
    namespace: Option<&str>,
    members: Vec<MemberCluster>,
    now: Timestamp,
    fleet: &mut Fleet,
) -> Vec<MemberCluster> {
    let is_here = |metadata: &ObjectMeta| metadata.namespace.as_deref() == namespace;
    let placements: Vec<Obj<Placement, S>> =
        scoped.placements.objects.values().filter(|one| is_here(&one.metadata)).cloned().collect();
    let runs: Vec<&Obj<UpdateRun, S>> = scoped.runs.objects.values().filter(|one| is_here(&one.metadata)).collect();
    let names: BTreeSet<String> = placements
        .iter()
        .filter_map(|one| one.metadata.name.clone())
        .chain(runs.iter().map(|run| run.spec.placement_name.clone()))
        .collect();
    let mut inputs = RunInputs {
        placements,
        policy_snapshots: Vec::new(),
        bindings: Vec::new(),
        strategies: scoped.strategies.objects.values().filter(|one| is_here(&one.metadata)).cloned().collect(),
        members,
        approvals: scoped.approvals.objects.values().filter(|one| is_here(&one.metadata)).cloned().collect(),
    };
    for name in names {
        // Only the objects of one placement at a time: looking for them again for every run would take long.
        let is_of = |metadata: &ObjectMeta| is_here(metadata) && parent(metadata) == Some(name.as_str());
        inputs.policy_snapshots =
            scoped.policies.objects.values().filter(|one| is_of(&one.metadata)).cloned().collect();
        inputs.bindings = scoped.bindings.objects.values().filter(|one| is_of(&one.metadata)).cloned().collect();
        let own = runs.iter().filter(|run| run.spec.placement_name == name);
        let seen: Vec<_> = own.filter_map(|run| inputs.overview(run, now)).collect();
        if let Some(placement) = inputs.placement(&name) {
            let lines = seen.iter().map(RunLine::of).collect();
            fleet.placements.push(overview::placement(placement, &inputs.bindings, lines));
        }
        fleet.runs.extend(seen);
    }
    inputs.members
}

fn parent(metadata: &ObjectMeta) -> Option<&str> {
    metadata.labels.as_ref()?.get(labels::PARENT_PLACEMENT).map(String::as_str)
}

fn with_problems(members: &[MemberCluster], hub_context: Option<&str>, now: Timestamp) -> Vec<Member> {
    let mut inputs = Inputs::empty(now);
    inputs.kubectl = Kubectl { hub_context: hub_context.map(str::to_owned) };
    inputs.members = members.iter().cloned().map(ObservedObject::from).collect();
    members.iter().map(|one| member(one, &inputs)).collect()
}

fn member(one: &MemberCluster, inputs: &Inputs) -> Member {
    let name = one.metadata.name.clone().unwrap_or_default();
    let mut diagnosis = diagnose::cluster(inputs, &name, &[]);
    // It would say that nothing is placed here, because no placement was looked at.
    diagnosis.summary.clear();
    let status = one.status.as_ref();
    let agents = status.into_iter().flat_map(|status| &status.observed.agent_status);
    let heartbeat =
        agents.filter(|agent| agent.type_ == AgentType::MemberAgent).find_map(|agent| agent.last_received_heartbeat);
    let conditions = status.map(|status| &status.conditions[..]).unwrap_or_default();
    let properties = status.into_iter().flat_map(|status| &status.observed.properties);
    let taint = |taint: &fleet_api::types::Taint| match taint.value.as_str() {
        "" => format!("{}:{}", taint.key, taint.effect),
        value => format!("{}={value}:{}", taint.key, taint.effect),
    };
    Member {
        labels: one.metadata.labels.clone().unwrap_or_default(),
        taints: one.spec.taints.iter().map(taint).collect(),
        joined: decode_ignoring_generation::<MemberJoined>(conditions).is_true(),
        leaving: one.metadata.deletion_timestamp.is_some(),
        heartbeat,
        created: one.metadata.creation_timestamp.as_ref().map(|time| fleet_api::time::Time::new(time.0)),
        properties: properties.map(|(key, value)| (key.clone(), value.value.clone())).collect(),
        diagnosis,
        name,
    }
}
