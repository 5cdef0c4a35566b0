//! One member cluster with all its objects, in which plans of hub, agent and profile are executed.
//!
//! Simulates Kubernetes (generations, finalizers, namespace deletion) and the member's API server.

use fleet_api::conditions::member::PropertyProviderStarted;
use fleet_api::kinds::{ClusterProfile, InternalMemberCluster, MemberCluster, Work};
use fleet_api::names::{ClusterName, MemberNamespace};
use fleet_api::types::{ClusterState, MemberClusterStatus, WorkSpec};
use fleet_api::well_known::{finalizers, labels};
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::Namespace;
use k8s_openapi::api::rbac::v1::{Role, RoleBinding};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, Time};
use serde_json::{Value, json};

use crate::membership::agent::{self, Collected, Failure, Heartbeat, Memory, Probe, SpecGeneration};
use crate::membership::{hub, profile, properties};
use crate::plan::{Wake, lint};

pub(crate) const START: &str = "2026-11-15T12:00:00Z";

/// More rounds than one member needs to settle.
const ROUNDS_MAX: usize = 30;

#[derive(Debug, Clone)]
pub(crate) struct Fixture {
    pub(crate) name: ClusterName,
    pub(crate) member: Option<MemberCluster>,
    pub(crate) namespace: Option<Namespace>,
    pub(crate) role: Option<Role>,
    pub(crate) role_binding: Option<RoleBinding>,
    pub(crate) internal_member_cluster: Option<InternalMemberCluster>,
    pub(crate) works: Vec<Work>,
    pub(crate) profile: Option<ClusterProfile>,
    pub(crate) memory: Memory,
    /// Whether the agent runs at all.
    pub(crate) agent_alive: bool,
    pub(crate) probe: Probe,
    pub(crate) provider: Option<PropertyProviderStarted>,
    pub(crate) collected: Collected,
    /// The error of every attempt to start the applier or to remove a finalizer.
    pub(crate) obstacle: Option<String>,
    pub(crate) settings: hub::Settings,
    pub(crate) profile_settings: profile::Settings,
    pub(crate) now: Timestamp,
}

impl Fixture {
    /// A new MemberCluster.
    pub(crate) fn new() -> Self {
        Self::named("m1", json!({"kind": "User", "name": "agent-of-m1"}))
    }

    pub(crate) fn named(name: &str, identity: Value) -> Self {
        let now = START.parse().unwrap();
        Self {
            name: ClusterName::parse(name).unwrap(),
            member: Some(new_member(name, identity)),
            namespace: None,
            role: None,
            role_binding: None,
            internal_member_cluster: None,
            works: Vec::new(),
            profile: None,
            memory: Memory::default(),
            agent_alive: true,
            probe: Probe::Answered { status_code: 200 },
            provider: None,
            collected: properties::built_in(&[], &[], None, now),
            obstacle: None,
            settings: hub::Settings::default(),
            profile_settings: profile::Settings::default(),
            now,
        }
    }

    /// A member that has joined.
    pub(crate) fn joined() -> Self {
        let mut fixture = Self::new();
        fixture.settle();
        fixture
    }

    pub(crate) fn pass(&mut self, seconds: i64) {
        self.now += SignedDuration::from_secs(seconds);
    }

    pub(crate) fn member(&mut self) -> &mut MemberCluster {
        self.member.as_mut().unwrap()
    }

    pub(crate) fn status(&self) -> &MemberClusterStatus {
        self.member.as_ref().unwrap().status.as_ref().unwrap()
    }

    /// Changes the spec, as a user does.
    pub(crate) fn edit(&mut self, change: impl FnOnce(&mut MemberCluster)) {
        change(self.member());
        *self.member().metadata.generation.as_mut().unwrap() += 1;
    }

    pub(crate) fn delete_member(&mut self) {
        let now = self.now;
        let member = self.member();
        if member.metadata.deletion_timestamp.is_none() {
            member.metadata.deletion_timestamp = Some(Time(now));
            *member.metadata.generation.as_mut().unwrap() += 1;
        }
        self.drop_what_is_free();
    }

    pub(crate) fn recreate_member(&mut self) {
        assert!(self.member.is_none());
        self.member = Some(new_member(self.name.as_str(), json!({"kind": "User", "name": "agent-of-m1"})));
    }

    /// Simulates the work generator and the applier: a Work with both finalizers that Works may have.
    pub(crate) fn place(&mut self, work: &str) {
        let mut object = Work::named(work, WorkSpec::default());
        object.metadata.finalizers = Some(vec![finalizers::WORK.to_owned(), "example.com/other".to_owned()]);
        self.works.push(object);
    }

    pub(crate) fn terminate_namespace(&mut self) {
        let now = self.now;
        self.namespace.as_mut().unwrap().metadata.deletion_timestamp.get_or_insert(Time(now));
    }

    /// Simulates the namespace controller: deletes the content of a terminating namespace, except objects with
    /// finalizers.
    pub(crate) fn collect_garbage(&mut self) {
        let terminating = self.namespace.as_ref().is_some_and(|one| one.metadata.deletion_timestamp.is_some());
        if terminating {
            self.works.retain(|work| work.metadata.finalizers.as_ref().is_some_and(|all| !all.is_empty()));
            (self.role, self.role_binding, self.internal_member_cluster) = (None, None, None);
            if self.works.is_empty() {
                self.namespace = None;
            }
        }
        self.drop_what_is_free();
    }

    fn drop_what_is_free(&mut self) {
        let is_free = |metadata: &ObjectMeta| {
            metadata.deletion_timestamp.is_some() && metadata.finalizers.iter().flatten().next().is_none()
        };
        if self.member.as_ref().is_some_and(|member| is_free(&member.metadata)) {
            self.member = None;
        }
        if self.profile.as_ref().is_some_and(|profile| is_free(&profile.metadata)) {
            self.profile = None;
        }
    }

    /// Runs all controllers until none has anything to do at this time.
    pub(crate) fn settle(&mut self) {
        for _ in 0..ROUNDS_MAX {
            let mut idle = true;
            if self.member.is_some() {
                let plan = self.hub_plan();
                idle &= plan.is_idle();
                self.carry_out_hub(&plan);
            }
            let plan = self.profile_plan();
            idle &= plan.is_idle();
            self.carry_out_profile(&plan);
            if self.agent_alive {
                let plan = self.agent_plan();
                idle &= plan.is_idle();
                self.carry_out_agent(&plan);
            }
            let there =
                |fixture: &Self| [fixture.namespace.is_some(), fixture.member.is_some(), fixture.profile.is_some()];
            let before = there(self);
            self.collect_garbage();
            if idle && before == there(self) {
                return;
            }
        }
        panic!("no rest after {ROUNDS_MAX} rounds: {self:#?}");
    }

    /// Lets up to `seconds` pass, and runs all controllers at every time at which one wants to wake.
    pub(crate) fn live(&mut self, seconds: i64) {
        let end = self.now + SignedDuration::from_secs(seconds);
        self.settle();
        while let Some(next) = self.next_wake().filter(|next| *next < end) {
            assert!(next > self.now, "a wake-up at {next} where {} is now", self.now);
            self.now = next;
            self.settle();
        }
        self.now = end;
        self.settle();
    }

    pub(crate) fn next_wake(&self) -> Option<Timestamp> {
        let hub = self.member.as_ref().map(|_| self.hub_plan().wake);
        let agent = self.agent_alive.then(|| self.agent_plan().wake);
        let wakes = [hub, agent, Some(self.profile_plan().wake)];
        match wakes.into_iter().flatten().fold(Wake::OnChange, Wake::earlier) {
            Wake::OnChange => None,
            Wake::At(instant) => Some(instant),
        }
    }
}

/// The hub's part.
impl Fixture {
    pub(crate) fn observe_hub(&self) -> hub::Observed<'_> {
        hub::Observed {
            member: hub::MemberFacts::of(&self.name, self.member.as_ref().unwrap()),
            namespace: hub::NamespaceFacts::of(self.namespace.as_ref(), self.member.as_ref()),
            role: self.role.as_ref(),
            role_binding: self.role_binding.as_ref(),
            internal_member_cluster: self.internal_member_cluster.as_ref().map(hub::InternalMemberClusterFacts::of),
            works: self.works.iter().map(hub::WorkFacts::of).collect(),
            settings: self.settings,
        }
    }

    pub(crate) fn hub_plan(&self) -> hub::Plan {
        let plan = hub::plan(&self.observe_hub(), self.now);
        assert_eq!(lint(&plan), Vec::<String>::new());
        plan
    }

    /// Plans, executes the plan, and checks that nothing is left to do.
    pub(crate) fn run_hub(&mut self) -> hub::Plan {
        let plan = self.hub_plan();
        self.carry_out_hub(&plan);
        if self.member.is_some() {
            let again = self.hub_plan();
            assert!(again.is_idle(), "{again:#?}");
        }
        plan
    }

    /// As `run_hub`, without the plan.
    pub(crate) fn hub_acts(&mut self) {
        drop(self.run_hub());
    }

    pub(crate) fn carry_out_hub(&mut self, plan: &hub::Plan) {
        for write in &plan.writes {
            self.write_hub(write);
        }
        if let Some(new) = &plan.status {
            self.member().status = Some(new.status.clone());
        }
    }

    pub(crate) fn write_hub(&mut self, write: &hub::Write) {
        let owner = hub::owner_of(self.member.as_ref().unwrap());
        let namespace = MemberNamespace::of(&self.name).ok().map(|namespace| namespace.to_string());
        match write {
            hub::Write::AddMemberFinalizer => {
                let name = self.name.to_string();
                let metadata = &mut self.member().metadata;
                add_finalizer(metadata, finalizers::MEMBER_CLUSTER);
                metadata.labels.get_or_insert_default().insert(labels::MEMBER_NAME.to_owned(), name);
            }
            hub::Write::RemoveMemberFinalizer => {
                remove_finalizer(&mut self.member().metadata, finalizers::MEMBER_CLUSTER);
                self.drop_what_is_free();
            }
            hub::Write::CreateNamespace(new) => {
                assert!(self.namespace.replace(new.object(owner)).is_none());
                assert_eq!(self.namespace.as_ref().unwrap().metadata.name, namespace);
            }
            hub::Write::LabelNamespace(_) => {
                let metadata = &mut self.namespace.as_mut().unwrap().metadata;
                metadata.labels.get_or_insert_default().extend(hub::NewNamespace::labels());
            }
            hub::Write::DeleteNamespace { namespace: deleted } => {
                assert_eq!(Some(deleted.to_string()), namespace);
                self.terminate_namespace();
            }
            hub::Write::CreateRole(role) => {
                self.assert_open();
                assert!(self.role.replace(role.object(owner)).is_none());
            }
            hub::Write::UpdateRole(role) => self.role.as_mut().unwrap().rules = Some(role.rules.clone()),
            hub::Write::CreateRoleBinding(binding) => {
                self.assert_open();
                assert!(self.role_binding.replace(binding.object(owner)).is_none());
            }
            hub::Write::UpdateRoleBinding(binding) => {
                let found = self.role_binding.as_mut().unwrap();
                assert_eq!(found.role_ref, binding.role, "the server refuses another role");
                found.subjects = Some(vec![binding.subject.clone()]);
            }
            hub::Write::ReplaceRoleBinding(binding) => {
                assert!(self.role_binding.replace(binding.object(owner)).is_some());
            }
            hub::Write::CreateInternalMemberCluster(internal_member_cluster) => {
                self.assert_open();
                let mut object = internal_member_cluster.object(owner);
                object.metadata.generation = Some(1);
                assert!(self.internal_member_cluster.replace(object).is_none());
            }
            hub::Write::UpdateInternalMemberCluster(internal_member_cluster) => {
                let found = self.internal_member_cluster.as_mut().unwrap();
                internal_member_cluster.change(found);
                *found.metadata.generation.as_mut().unwrap() += 1;
            }
            hub::Write::RemoveWorkFinalizer { work } => self.work(work).metadata.finalizers = None,
        }
    }

    /// A server refuses new objects in a namespace that is missing or terminating.
    fn assert_open(&self) {
        assert!(self.namespace.as_ref().unwrap().metadata.deletion_timestamp.is_none());
    }

    fn work(&mut self, name: &str) -> &mut Work {
        self.works.iter_mut().find(|work| work.metadata.name.as_deref() == Some(name)).unwrap()
    }
}

/// The agent's part.
impl Fixture {
    pub(crate) fn observe_agent(&self) -> agent::Observed<'_> {
        agent::Observed {
            internal_member_cluster: self.internal_member_cluster.as_ref().map(agent::InternalMemberClusterFacts::of),
            works: self.works.iter().map(agent::WorkFacts::of).collect(),
            memory: &self.memory,
            seed: 7,
        }
    }

    pub(crate) fn agent_plan(&self) -> agent::Plan {
        let plan = agent::plan(&self.observe_agent(), self.now);
        assert_eq!(lint(&plan), Vec::<String>::new());
        plan
    }

    /// Plans and executes, collects a heartbeat if the plan requests one, and plans again. Then nothing may be left.
    pub(crate) fn run_agent(&mut self) -> agent::Plan {
        let mut plan = self.agent_plan();
        self.carry_out_agent(&plan);
        if plan.writes.contains(&agent::Write::CollectHeartbeat) {
            plan = self.agent_plan();
            self.carry_out_agent(&plan);
        }
        if self.obstacle.is_none() {
            let again = self.agent_plan();
            assert!(again.is_idle(), "{again:#?}");
        }
        plan
    }

    /// As `run_agent`, without the plan.
    pub(crate) fn agent_acts(&mut self) {
        drop(self.run_agent());
    }

    /// As the controller does: a failed write ends the plan and is remembered; the failure is forgotten when all
    /// writes succeed.
    pub(crate) fn carry_out_agent(&mut self, plan: &agent::Plan) {
        for write in &plan.writes {
            if let Err(error) = self.write_agent(write) {
                let requested_by = SpecGeneration::of(self.internal_member_cluster.as_ref().unwrap());
                self.memory.failure = Some(Failure::next(&self.memory, requested_by, error, self.now));
                return;
            }
        }
        if !plan.writes.is_empty() {
            self.memory.failure = None;
        }
        if let Some(status) = &plan.status {
            self.internal_member_cluster.as_mut().unwrap().status = Some(status.clone());
        }
    }

    pub(crate) fn write_agent(&mut self, write: &agent::Write) -> Result<(), String> {
        match write {
            agent::Write::StartApplier | agent::Write::RemoveWorkFinalizer { .. } if self.obstacle.is_some() => {
                return Err(self.obstacle.clone().unwrap());
            }
            agent::Write::StartApplier => self.memory.applier_running = true,
            agent::Write::StopApplier => self.memory.applier_running = false,
            agent::Write::CollectHeartbeat => {
                let requested_by = SpecGeneration::of(self.internal_member_cluster.as_ref().unwrap());
                self.memory.heartbeat = Some(Heartbeat::next(
                    &self.memory,
                    requested_by,
                    self.now,
                    self.probe,
                    self.provider.clone(),
                    self.collected.clone(),
                ));
            }
            agent::Write::RemoveWorkFinalizer { work } => {
                remove_finalizer(&mut self.work(work).metadata, finalizers::WORK);
            }
        }
        Ok(())
    }

    pub(crate) fn restart_agent(&mut self) {
        self.memory = Memory::default();
    }

    pub(crate) fn request(&mut self, state: &str) {
        let internal_member_cluster = self.internal_member_cluster.as_mut().unwrap();
        internal_member_cluster.spec.state = ClusterState::from(state.to_owned());
        *internal_member_cluster.metadata.generation.as_mut().unwrap() += 1;
    }
}

/// The ClusterProfile's part.
impl Fixture {
    pub(crate) fn observe_profile(&self) -> profile::Observed<'_> {
        profile::Observed {
            cluster: &self.name,
            member: self.member.as_ref().map(profile::MemberFacts::of),
            profile: self.profile.as_ref().map(profile::ProfileFacts::of),
            settings: self.profile_settings,
        }
    }

    pub(crate) fn profile_plan(&self) -> profile::Plan {
        let plan = profile::plan(&self.observe_profile(), self.now);
        assert_eq!(lint(&plan), Vec::<String>::new());
        plan
    }

    /// Plans, executes the plan, and checks that nothing is left to do.
    pub(crate) fn run_profile(&mut self) -> profile::Plan {
        let plan = self.profile_plan();
        self.carry_out_profile(&plan);
        let again = self.profile_plan();
        assert!(again.is_idle(), "{again:#?}");
        plan
    }

    /// As `run_profile`, without the plan.
    pub(crate) fn inventory_acts(&mut self) {
        drop(self.run_profile());
    }

    pub(crate) fn carry_out_profile(&mut self, plan: &profile::Plan) {
        for write in &plan.writes {
            self.write_profile(write);
        }
        if let Some(status) = &plan.status {
            self.profile.as_mut().unwrap().status = Some(status.clone());
        }
    }

    pub(crate) fn write_profile(&mut self, write: &profile::Write) {
        match write {
            profile::Write::AddMemberFinalizer => {
                add_finalizer(&mut self.member().metadata, finalizers::CLUSTER_PROFILE);
            }
            profile::Write::RemoveMemberFinalizer => {
                remove_finalizer(&mut self.member().metadata, finalizers::CLUSTER_PROFILE);
                self.drop_what_is_free();
            }
            profile::Write::CreateProfile(wanted) => {
                let mut object = wanted.object();
                object.metadata.generation = Some(1);
                assert!(self.profile.replace(object).is_none());
            }
            profile::Write::UpdateProfile(wanted) => {
                let found = self.profile.as_mut().unwrap();
                assert_eq!(found.spec.cluster_manager, wanted.spec().cluster_manager, "the server refuses another one");
                if found.spec != wanted.spec() {
                    *found.metadata.generation.as_mut().unwrap() += 1;
                }
                found.spec = wanted.spec();
                found.metadata.labels.get_or_insert_default().extend(profile::WantedProfile::labels());
            }
            profile::Write::DeleteProfile { .. } => {
                let now = self.now;
                self.profile.as_mut().unwrap().metadata.deletion_timestamp = Some(Time(now));
                self.drop_what_is_free();
            }
        }
    }
}

fn new_member(name: &str, identity: Value) -> MemberCluster {
    let spec = serde_json::from_value(json!({"identity": identity})).unwrap();
    let mut member = MemberCluster::named(name, spec);
    member.metadata.generation = Some(1);
    member.metadata.uid = Some(format!("uid-of-{name}"));
    member
}

fn add_finalizer(metadata: &mut ObjectMeta, finalizer: &str) {
    let all = metadata.finalizers.get_or_insert_default();
    if !all.iter().any(|one| one == finalizer) {
        all.push(finalizer.to_owned());
    }
}

fn remove_finalizer(metadata: &mut ObjectMeta, finalizer: &str) {
    metadata.finalizers.get_or_insert_default().retain(|one| one != finalizer);
}
