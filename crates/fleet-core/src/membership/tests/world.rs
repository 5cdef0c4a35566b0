//! One member cluster with everything that hub and agent keep of it, in which plans of all three are carried out.
//!
//! Plays Kubernetes (generations, finalizers, namespaces that take their content along) and the cluster that the agent
//! looks at. Decides nothing that a plan decides.

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

use crate::membership::agent::{self, Collected, Memory, Order, Probe, Setback, Sounding};
use crate::membership::{hub, profile, properties};
use crate::plan::{Wake, lint};

pub(crate) const START: &str = "2026-11-15T12:00:00Z";

/// More rounds than any fleet of one member needs to come to rest.
const ROUNDS_MAX: usize = 30;

#[derive(Debug, Clone)]
pub(crate) struct World {
    pub(crate) name: ClusterName,
    pub(crate) member: Option<MemberCluster>,
    pub(crate) namespace: Option<Namespace>,
    pub(crate) role: Option<Role>,
    pub(crate) role_binding: Option<RoleBinding>,
    pub(crate) mailbox: Option<InternalMemberCluster>,
    pub(crate) works: Vec<Work>,
    pub(crate) profile: Option<ClusterProfile>,
    pub(crate) memory: Memory,
    /// Whether the agent runs at all.
    pub(crate) agent_alive: bool,
    pub(crate) probe: Probe,
    pub(crate) provider: Option<PropertyProviderStarted>,
    pub(crate) collected: Collected,
    /// What every attempt to start the applier or to release a Work runs into.
    pub(crate) obstacle: Option<String>,
    pub(crate) settings: hub::Settings,
    pub(crate) profile_settings: profile::Settings,
    pub(crate) now: Timestamp,
}

impl World {
    /// A MemberCluster that nobody has seen yet.
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
            mailbox: None,
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
        let mut world = Self::new();
        world.settle();
        world
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

    /// Plays the work generator and the applier: a Work with both finalizers that Works may have.
    pub(crate) fn place(&mut self, work: &str) {
        let mut object = Work::named(work, WorkSpec::default());
        object.metadata.finalizers = Some(vec![finalizers::WORK.to_owned(), "example.com/other".to_owned()]);
        self.works.push(object);
    }

    pub(crate) fn terminate_namespace(&mut self) {
        let now = self.now;
        self.namespace.as_mut().unwrap().metadata.deletion_timestamp.get_or_insert(Time(now));
    }

    /// Plays the namespace controller: what a terminating namespace has goes, unless a finalizer holds it.
    pub(crate) fn collect_garbage(&mut self) {
        let terminating = self.namespace.as_ref().is_some_and(|one| one.metadata.deletion_timestamp.is_some());
        if terminating {
            self.works.retain(|work| work.metadata.finalizers.as_ref().is_some_and(|all| !all.is_empty()));
            (self.role, self.role_binding, self.mailbox) = (None, None, None);
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

    /// Lets everybody work until nobody has anything to do, at this moment.
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
            let there = |world: &Self| [world.namespace.is_some(), world.member.is_some(), world.profile.is_some()];
            let before = there(self);
            self.collect_garbage();
            if idle && before == there(self) {
                return;
            }
        }
        panic!("no rest after {ROUNDS_MAX} rounds: {self:#?}");
    }

    /// Lets time pass up to `seconds`, with everybody working at every instant that somebody wants to be woken at.
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
impl World {
    pub(crate) fn observe_hub(&self) -> hub::Observed<'_> {
        hub::Observed {
            member: hub::MemberFacts::of(&self.name, self.member.as_ref().unwrap()),
            namespace: hub::NamespaceFacts::of(self.namespace.as_ref()),
            role: self.role.as_ref(),
            role_binding: self.role_binding.as_ref(),
            mailbox: self.mailbox.as_ref().map(hub::MailboxFacts::of),
            works: self.works.iter().map(hub::WorkFacts::of).collect(),
            settings: self.settings,
        }
    }

    pub(crate) fn hub_plan(&self) -> hub::Plan {
        let plan = hub::plan(&self.observe_hub(), self.now);
        assert_eq!(lint(&plan), Vec::<String>::new());
        plan
    }

    /// Plans, carries the plan out, and checks that nothing is left to do.
    pub(crate) fn run_hub(&mut self) -> hub::Plan {
        let plan = self.hub_plan();
        self.carry_out_hub(&plan);
        if self.member.is_some() {
            let again = self.hub_plan();
            assert!(again.is_idle(), "{again:#?}");
        }
        plan
    }

    /// As `run_hub`, where only the world matters.
    pub(crate) fn hub_acts(&mut self) {
        drop(self.run_hub());
    }

    pub(crate) fn carry_out_hub(&mut self, plan: &hub::Plan) {
        for write in &plan.writes {
            self.write_hub(write);
        }
        if let Some(status) = &plan.status {
            self.member().status = Some(status.clone());
        }
    }

    pub(crate) fn write_hub(&mut self, write: &hub::Write) {
        let owner = hub::owner_of(self.member.as_ref().unwrap());
        let namespace = MemberNamespace::of(&self.name).ok().map(|namespace| namespace.to_string());
        match write {
            hub::Write::HoldMember => {
                let name = self.name.to_string();
                let metadata = &mut self.member().metadata;
                add_finalizer(metadata, finalizers::MEMBER_CLUSTER);
                metadata.labels.get_or_insert_default().insert(labels::MEMBER_NAME.to_owned(), name);
            }
            hub::Write::ReleaseMember => {
                remove_finalizer(&mut self.member().metadata, finalizers::MEMBER_CLUSTER);
                self.drop_what_is_free();
            }
            hub::Write::CreateNamespace(new) => {
                assert!(self.namespace.replace(new.object(owner)).is_none());
                assert_eq!(self.namespace.as_ref().unwrap().metadata.name, namespace);
            }
            hub::Write::MarkNamespace(_) => {
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
            hub::Write::CreateMailbox(mailbox) => {
                self.assert_open();
                let mut object = mailbox.object(owner);
                object.metadata.generation = Some(1);
                assert!(self.mailbox.replace(object).is_none());
            }
            hub::Write::UpdateMailbox(mailbox) => {
                let found = self.mailbox.as_mut().unwrap();
                mailbox.change(found);
                *found.metadata.generation.as_mut().unwrap() += 1;
            }
            hub::Write::ReleaseWork { work } => self.work(work).metadata.finalizers = None,
        }
    }

    /// A server takes nothing new into a namespace that is not there or going.
    fn assert_open(&self) {
        assert!(self.namespace.as_ref().unwrap().metadata.deletion_timestamp.is_none());
    }

    fn work(&mut self, name: &str) -> &mut Work {
        self.works.iter_mut().find(|work| work.metadata.name.as_deref() == Some(name)).unwrap()
    }
}

/// The agent's part.
impl World {
    pub(crate) fn observe_agent(&self) -> agent::Observed<'_> {
        agent::Observed {
            mailbox: self.mailbox.as_ref().map(agent::MailboxFacts::of),
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

    /// Plans and carries out, looks at the cluster if that was the plan, and plans again. Then nothing may be left.
    pub(crate) fn run_agent(&mut self) -> agent::Plan {
        let mut plan = self.agent_plan();
        self.carry_out_agent(&plan);
        if plan.writes.contains(&agent::Write::TakeSounding) {
            plan = self.agent_plan();
            self.carry_out_agent(&plan);
        }
        if self.obstacle.is_none() {
            let again = self.agent_plan();
            assert!(again.is_idle(), "{again:#?}");
        }
        plan
    }

    /// As `run_agent`, where only the world matters.
    pub(crate) fn agent_acts(&mut self) {
        drop(self.run_agent());
    }

    /// As the shell does: a write that fails ends the plan and is remembered; when all succeed, that is forgotten.
    pub(crate) fn carry_out_agent(&mut self, plan: &agent::Plan) {
        for write in &plan.writes {
            if let Err(error) = self.write_agent(write) {
                let order = Order::of(self.mailbox.as_ref().unwrap());
                self.memory.setback = Some(Setback::next(&self.memory, order, error, self.now));
                return;
            }
        }
        if !plan.writes.is_empty() {
            self.memory.setback = None;
        }
        if let Some(status) = &plan.status {
            self.mailbox.as_mut().unwrap().status = Some(status.clone());
        }
    }

    pub(crate) fn write_agent(&mut self, write: &agent::Write) -> Result<(), String> {
        match write {
            agent::Write::StartApplier | agent::Write::ReleaseWork { .. } if self.obstacle.is_some() => {
                return Err(self.obstacle.clone().unwrap());
            }
            agent::Write::StartApplier => self.memory.applier_running = true,
            agent::Write::StopApplier => self.memory.applier_running = false,
            agent::Write::TakeSounding => {
                let order = Order::of(self.mailbox.as_ref().unwrap());
                self.memory.sounding = Some(Sounding::next(
                    &self.memory,
                    order,
                    self.now,
                    self.probe,
                    self.provider.clone(),
                    self.collected.clone(),
                ));
            }
            agent::Write::ReleaseWork { work } => remove_finalizer(&mut self.work(work).metadata, finalizers::WORK),
        }
        Ok(())
    }

    pub(crate) fn restart_agent(&mut self) {
        self.memory = Memory::default();
    }

    pub(crate) fn order(&mut self, state: &str) {
        let mailbox = self.mailbox.as_mut().unwrap();
        mailbox.spec.state = ClusterState::from(state.to_owned());
        *mailbox.metadata.generation.as_mut().unwrap() += 1;
    }
}

/// The inventory's part.
impl World {
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

    /// Plans, carries the plan out, and checks that nothing is left to do.
    pub(crate) fn run_profile(&mut self) -> profile::Plan {
        let plan = self.profile_plan();
        self.carry_out_profile(&plan);
        let again = self.profile_plan();
        assert!(again.is_idle(), "{again:#?}");
        plan
    }

    /// As `run_profile`, where only the world matters.
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
            profile::Write::HoldMember => add_finalizer(&mut self.member().metadata, finalizers::CLUSTER_PROFILE),
            profile::Write::ReleaseMember => {
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
