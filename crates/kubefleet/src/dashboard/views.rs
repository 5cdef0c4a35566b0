//! Reads what a page shows, from the store and, for details, from the hub.

use std::collections::BTreeMap;

use fleet_api::kinds::{Cluster, Family, Member, Namespaced, Obj, Placement, Scope, ScopeKind, Snapshot, UpdateRun};
use fleet_api::time::Time;
use fleet_api::types::UpdateRunState;
use fleet_api::well_known::labels;
use fleet_core::diagnose::Diagnosis;
use fleet_core::overview::{GateState, GateTask, PlacementOverview, RunOverview, Version, changes, history};
use fleet_dashboard::cluster as cluster_pages;
use fleet_dashboard::confirm::{self, Rollback};
use fleet_dashboard::diagnosis;
use fleet_dashboard::failure::Failure;
use fleet_dashboard::placement::{self as placement_pages, Difference, PlacementPage};
use fleet_dashboard::plan::PlanPage;
use fleet_dashboard::run::{self as run_pages, Event, RunPage};
use fleet_dashboard::shell::Section;
use fleet_dashboard::{Markup, home, inbox, path};
use fleet_runtime::Clock;
use http::{Method, StatusCode};
use k8s_openapi::api::core::v1::Event as KubeEvent;
use serde::Deserialize;
use tokio::sync::Mutex;
use tokio::time::Instant;

use super::Site;
use super::routes::{Call, Reply, no_page};
use super::store::{Key, Scoped};
use crate::cli::connection::{Hub, HubFlags};
use crate::cli::objects::{JSON, in_scope};
use crate::cli::plan::look_ahead;
use crate::cli::start::{active_runs, plan_rollback};
use crate::cli::versions::Versions;
use crate::nearest::nearest;

/// How long a diagnosis is reused, if nothing changed and if something did.
const SAME_FOR: std::time::Duration = std::time::Duration::from_secs(5);
const REUSED_FOR: std::time::Duration = std::time::Duration::from_secs(1);
/// Maximum number of remembered diagnoses and notices.
const REMEMBERED: usize = 64;
/// Maximum number of events on a page.
const EVENTS_SHOWN: usize = 30;

/// Diagnoses that were made lately. One is made at a time: each reads many objects.
#[derive(Default)]
pub(super) struct Diagnoses {
    kept: Mutex<BTreeMap<(Option<String>, String), KeptDiagnosis>>,
    notices: parking_lot::Mutex<(u64, BTreeMap<u64, String>)>,
}

struct KeptDiagnosis {
    revision: u64,
    made: Instant,
    diagnoses: Vec<Diagnosis>,
}

impl Site {
    pub(super) async fn reply(&self, call: &Call) -> anyhow::Result<Reply> {
        let path: Vec<&str> = call.path.iter().map(String::as_str).collect();
        if call.form.is_some() {
            return self.execute(call, &path).await;
        }
        match path[..] {
            [] => Ok(self.home()),
            ["inbox"] => Ok(self.inbox()),
            ["runs"] => Ok(self.runs()),
            ["runs", name] => self.run_page(call, name).await,
            ["runs", name, "diagnosis"] => {
                self.diagnosis(call, Section::Runs, &format!("run/{name}"), "run", name).await
            }
            ["runs", name, "stop"] => self.turn_page(call, name, UpdateRunState::Stop).await,
            ["runs", name, "resume"] => self.turn_page(call, name, UpdateRunState::Run).await,
            ["approvals", request] => self.approval_page(call, request).await,
            ["placements"] => Ok(self.placements()),
            ["placements", name] => self.placement_page(call, name).await,
            ["placements", name, "diagnosis"] => {
                self.diagnosis(call, Section::Placements, &format!("placement/{name}"), "placement", name).await
            }
            ["placements", name, "plan"] => self.plan_page(call, name).await,
            ["placements", name, "rollback"] => self.rollback_page(call, name).await,
            ["clusters"] => Ok(self.clusters(call)),
            ["clusters", name] => Ok(self.cluster_page(name)),
            ["clusters", name, "diagnosis"] => {
                self.diagnosis(call, Section::Clusters, &format!("cluster/{name}"), "cluster", name).await
            }
            ["diagnosis"] => self.fleet_diagnosis().await,
            _ => Ok(no_page()),
        }
    }

    fn home(&self) -> Reply {
        let view = self.store.view();
        let items = inbox::items(&view.fleet);
        let content = home::page(&view.fleet, &items, self.settings.read_only, Clock::Real.now());
        page(Section::Home, "Overview", content)
    }

    fn inbox(&self) -> Reply {
        let items = inbox::items(&self.store.view().fleet);
        page(Section::Inbox, "Inbox", inbox::page(&items, self.settings.read_only, Clock::Real.now()))
    }

    fn runs(&self) -> Reply {
        let view = self.store.view();
        page(Section::Runs, "Runs", run_pages::list_page(&view.fleet.newest_runs(), Clock::Real.now()))
    }

    fn placements(&self) -> Reply {
        let view = self.store.view();
        page(Section::Placements, "Placements", placement_pages::list_page(&view.fleet.placements, Clock::Real.now()))
    }

    fn clusters(&self, call: &Call) -> Reply {
        let view = self.store.view();
        let content = cluster_pages::list_page(&view.fleet, call.value("group"), call.value("q"), Clock::Real.now());
        page(Section::Clusters, "Clusters", content)
    }

    fn cluster_page(&self, name: &str) -> Reply {
        let view = self.store.view();
        match view.fleet.member(name) {
            Some(member) => {
                let content = cluster_pages::page(&view.fleet, member, !self.settings.read_only, Clock::Real.now());
                page(Section::Clusters, name, content)
            }
            None => self.missing(Section::Clusters, "cluster", None, name),
        }
    }

    async fn run_page(&self, call: &Call, name: &str) -> anyhow::Result<Reply> {
        let namespace = call.namespace();
        let view = self.store.view();
        let Some(run) = view.fleet.run(namespace, name) else {
            return Ok(self.missing(Section::Runs, "run", namespace, name));
        };
        let events = self.events(info::<UpdateRun>(namespace), namespace, name).await;
        let content = RunPage {
            run,
            offers: self.reviews.offers(namespace).await,
            read_only: self.settings.read_only,
            events: &events,
            all: call.is_set("all"),
            now: Clock::Real.now(),
        };
        Ok(page(Section::Runs, name, content.content()))
    }

    async fn placement_page(&self, call: &Call, name: &str) -> anyhow::Result<Reply> {
        let namespace = call.namespace();
        let view = self.store.view();
        let Some(placement) = view.fleet.placement(namespace, name) else {
            return Ok(self.missing(Section::Placements, "placement", namespace, name));
        };
        let hub = self.hub.in_namespace(namespace);
        // The page is useful without the versions, which may need other rights.
        let versions = self.versions(&hub, name).await.ok();
        let differences = self.differences(placement);
        let content = PlacementPage {
            placement,
            versions: versions.as_deref(),
            differences: &differences,
            offers: self.reviews.offers(namespace).await,
            read_only: self.settings.read_only,
            all: call.is_set("all"),
            now: Clock::Real.now(),
        };
        Ok(page(Section::Placements, name, content.content()))
    }

    /// The versions of a placement: its snapshots are read, everything else is in the store.
    async fn versions(&self, hub: &Hub, name: &str) -> anyhow::Result<Vec<Version>> {
        async fn snapshots<S: Scope>(hub: &Hub, name: &str) -> anyhow::Result<Vec<Obj<Snapshot, S>>> {
            hub.list(Some(&format!("{}={name}", labels::PARENT_PLACEMENT))).await
        }
        let namespace = hub.namespace.clone();
        if namespace.is_none() {
            let snapshots = snapshots::<Cluster>(hub, name).await?;
            return Ok(self
                .store
                .read(|objects| versions_of(&snapshots, &objects.cluster, &(namespace, name.to_owned()))));
        }
        let snapshots = snapshots::<Namespaced>(hub, name).await?;
        Ok(self.store.read(|objects| versions_of(&snapshots, &objects.namespaced, &(namespace, name.to_owned()))))
    }

    fn differences(&self, placement: &PlacementOverview) -> Vec<Difference> {
        let key = (placement.namespace.clone(), placement.name.clone());
        self.store.read(|objects| match placement.namespace {
            None => differences_of(&objects.cluster, &key),
            Some(_) => differences_of(&objects.namespaced, &key),
        })
    }

    async fn plan_page(&self, call: &Call, name: &str) -> anyhow::Result<Reply> {
        let namespace = call.namespace();
        let view = self.store.view();
        let Some(placement) = view.fleet.placement(namespace, name) else {
            return Ok(self.missing(Section::Placements, "placement", namespace, name));
        };
        let hub = self.hub.in_namespace(namespace);
        let versions: Vec<u32> =
            self.versions(&hub, name).await.unwrap_or_default().iter().map(|version| version.index).collect();
        let strategy = Some(call.value("strategy")).filter(|one| !one.is_empty());
        let index: Option<u32> = call.value("index").parse().ok();
        let forecast = match strategy {
            Some(strategy) => {
                let wanted = (name, strategy, index);
                Some(in_scope!(hub, look_ahead(&hub, wanted, &self.settings.propagation))?)
            }
            None => None,
        };
        let newest = placement.runs.first().and_then(|run| view.fleet.run(namespace, &run.name));
        let chosen = PlanPage {
            namespace,
            placement: name,
            strategies: &view.fleet.strategies,
            strategy: strategy.or_else(|| newest.map(|run| run.strategy.as_str())),
            index,
            versions: &versions,
            forecast: forecast.as_ref(),
            may_start: self.reviews.offers(namespace).await.create_runs,
        };
        let content = chosen.content(&self.shell(call).await);
        Ok(page(Section::Placements, &format!("Plan a run of {name}"), content))
    }

    async fn rollback_page(&self, call: &Call, name: &str) -> anyhow::Result<Reply> {
        if !self.exists("placement", call.namespace(), name) {
            return Ok(self.missing(Section::Placements, "placement", call.namespace(), name));
        }
        let hub = self.hub.in_namespace(call.namespace());
        let to: Option<u32> = call.value("to").parse().ok();
        let plan = in_scope!(hub, rollback(&hub, name, to))?;
        let content = confirm::rollback(&self.shell(call).await, &plan);
        Ok(page(Section::Placements, &format!("Roll back {name}"), content))
    }

    async fn turn_page(&self, call: &Call, name: &str, wanted: UpdateRunState) -> anyhow::Result<Reply> {
        let namespace = call.namespace();
        let view = self.store.view();
        let Some(run) = view.fleet.run(namespace, name) else {
            return Ok(self.missing(Section::Runs, "run", namespace, name));
        };
        let content = confirm::turn(&self.shell(call).await, run, wanted);
        let verb = if wanted == UpdateRunState::Stop { "Stop" } else { "Resume" };
        Ok(page(Section::Runs, &format!("{verb} run {name}"), content))
    }

    async fn approval_page(&self, call: &Call, request: &str) -> anyhow::Result<Reply> {
        let namespace = call.namespace();
        let view = self.store.view();
        let Some(run) = self.run_of(namespace, request).and_then(|name| view.fleet.run(namespace, &name)) else {
            return Ok(self.missing(Section::Runs, "approval request", namespace, request));
        };
        let is_open = run.stages.iter().flat_map(|stage| stage.before.iter().chain(&stage.after)).any(|gate| {
            gate.state == GateState::Open && matches!(&gate.task, GateTask::Approval { request: one } if one == request)
        });
        if is_open {
            let what = "Somebody has approved this stage already. Nothing is left to do.";
            let failure = Failure::new("Already approved", what, "")
                .next(path::run(namespace, &run.name), format!("Run {}", run.name));
            return Ok(Reply::Failure(StatusCode::CONFLICT, Section::Runs, failure));
        }
        let hub = self.hub.in_namespace(namespace);
        let differences = in_scope!(hub, next_changes(&hub, run, request)).ok().flatten();
        let content = confirm::approve(&self.shell(call).await, run, request, differences.as_deref());
        Ok(page(Section::Runs, "Approve", content))
    }

    /// The run of an approval request.
    pub(super) fn run_of(&self, namespace: Option<&str>, request: &str) -> Option<String> {
        let key: Key = (namespace.map(str::to_owned), request.to_owned());
        self.store.read(|objects| match namespace {
            None => objects.cluster.approvals.objects.get(&key).map(|one| one.spec.parent_stage_rollout.clone()),
            Some(_) => objects.namespaced.approvals.objects.get(&key).map(|one| one.spec.parent_stage_rollout.clone()),
        })
    }

    async fn diagnosis(
        &self,
        call: &Call,
        section: Section,
        subject: &str,
        noun: &'static str,
        name: &str,
    ) -> anyhow::Result<Reply> {
        let namespace = call.namespace();
        if !self.exists(noun, namespace, name) {
            return Ok(self.missing(section, noun, namespace, name));
        }
        let diagnoses = self.diagnose(namespace, subject).await?;
        let actions = !self.settings.read_only;
        if call.part {
            let content = diagnoses.first().map(|one| diagnosis::content(one, "part", actions));
            return Ok(Reply::Part(content.unwrap_or_default()));
        }
        let title = format!("Diagnosis of {noun} {name}");
        let content = diagnosis::page(&title, &diagnoses, actions);
        Ok(page(section, &title, content))
    }

    async fn fleet_diagnosis(&self) -> anyhow::Result<Reply> {
        let diagnoses = self.diagnose(None, "").await?;
        let content = diagnosis::page("Diagnosis of the fleet", &diagnoses, !self.settings.read_only);
        Ok(page(Section::Diagnosis, "Diagnosis", content))
    }

    /// A diagnosis, or one that was made a moment ago.
    async fn diagnose(&self, namespace: Option<&str>, subject: &str) -> anyhow::Result<Vec<Diagnosis>> {
        let key = (namespace.map(str::to_owned), subject.to_owned());
        let revision = self.store.revision();
        let mut kept = self.diagnoses.kept.lock().await;
        if let Some(one) = kept.get(&key) {
            let age = one.made.elapsed();
            if age < REUSED_FOR || (age < SAME_FOR && one.revision == revision) {
                return Ok(one.diagnoses.clone());
            }
        }
        let hub = self.hub.in_namespace(namespace);
        let flags = HubFlags { namespace: key.0.clone(), context: hub.context.clone(), ..self.settings.flags.clone() };
        let answer = crate::diagnose::answer(&hub, &flags, Some(subject).filter(|one| !one.is_empty())).await?;
        if kept.len() >= REMEMBERED {
            kept.clear();
        }
        let diagnoses = answer.diagnoses;
        kept.insert(key, KeptDiagnosis { revision, made: Instant::now(), diagnoses: diagnoses.clone() });
        Ok(diagnoses)
    }

    /// The latest events about an object; none if they cannot be read.
    async fn events(&self, kind: &str, namespace: Option<&str>, name: &str) -> Vec<Event> {
        #[derive(Deserialize)]
        struct List {
            items: Vec<KubeEvent>,
        }
        // Events of cluster-scoped objects are in the namespace `default`.
        let place = namespace.unwrap_or("default");
        let path = format!(
            "/api/v1/namespaces/{place}/events?fieldSelector=involvedObject.name%3D{name}%2CinvolvedObject.kind%3D{kind}&limit=200"
        );
        let Ok(found) = self.hub.request::<List>(Method::GET, &path, JSON, None).await else { return Vec::new() };
        let mut events: Vec<Event> = found.items.into_iter().map(event).collect();
        events.sort_by_key(|one| std::cmp::Reverse(one.last));
        events.truncate(EVENTS_SHOWN);
        events
    }

    /// Names of a kind with their pages.
    fn names(&self, noun: &str, namespace: Option<&str>) -> Vec<(String, String)> {
        let fleet = &self.store.view().fleet;
        let here = |one: Option<&str>| one == namespace;
        match noun {
            "run" => {
                let runs = fleet.runs.iter().filter(|one| here(one.namespace.as_deref()));
                runs.map(|one| (one.name.clone(), path::run(namespace, &one.name))).collect()
            }
            "placement" => {
                let placements = fleet.placements.iter().filter(|one| here(one.namespace.as_deref()));
                placements.map(|one| (one.name.clone(), path::placement(namespace, &one.name))).collect()
            }
            "cluster" => fleet.members.iter().map(|one| (one.name.clone(), path::cluster(&one.name))).collect(),
            _ => Vec::new(),
        }
    }

    fn exists(&self, noun: &str, namespace: Option<&str>, name: &str) -> bool {
        self.names(noun, namespace).iter().any(|(one, _)| one == name)
    }

    /// The page for an object that does not exist: deleted, or a wrong name.
    pub(super) fn missing(&self, section: Section, noun: &str, namespace: Option<&str>, name: &str) -> Reply {
        let plural = match noun {
            "run" => info_plural::<UpdateRun>(namespace),
            "placement" => info_plural::<Placement>(namespace),
            "cluster" => Obj::<Member, Cluster>::INFO.plural,
            _ => "",
        };
        let all = match section {
            Section::Runs => ("/runs", "All runs"),
            Section::Placements => ("/placements", "All placements"),
            _ => ("/clusters", "All clusters"),
        };
        let key: Key = (namespace.map(str::to_owned), name.to_owned());
        let place = namespace.map_or_else(String::new, |namespace| format!(" in namespace {namespace}"));
        let mut failure = match self.store.deleted(plural, &key) {
            Some(at) => Failure::new(
                &format!("The {noun} {name} was deleted"),
                format!("It was deleted{place} at {}.", Time::new(at)),
                "",
            ),
            None => Failure::new(
                &format!("There is no {noun} {name}"),
                format!("No {noun} of this name exists{place}."),
                "",
            ),
        };
        let names = self.names(noun, namespace);
        let near = nearest(name, names.iter().map(|(name, _)| name.as_str()));
        failure.near = names.iter().filter(|(one, _)| near.contains(&one.as_str())).cloned().collect();
        Reply::Failure(StatusCode::NOT_FOUND, section, failure.next(all.0, all.1))
    }

    /// Remembers the result of an action until its page is shown; returns its number.
    pub(super) fn keep_notice(&self, text: String) -> u64 {
        let mut kept = self.diagnoses.notices.lock();
        kept.0 += 1;
        let id = kept.0;
        kept.1.insert(id, text);
        if kept.1.len() > REMEMBERED {
            kept.1.pop_first();
        }
        id
    }

    pub(super) fn notice(&self, id: &str) -> Option<String> {
        self.diagnoses.notices.lock().1.get(&id.parse().ok()?).cloned()
    }
}

fn page(section: Section, title: &str, content: Markup) -> Reply {
    Reply::Page { section, title: title.to_owned(), content }
}

fn info<F: Family>(namespace: Option<&str>) -> &'static str {
    let info = if namespace.is_some() { F::NAMESPACED } else { F::CLUSTER };
    info.map_or("", |info| info.kind)
}

fn info_plural<F: Family>(namespace: Option<&str>) -> &'static str {
    let info = if namespace.is_some() { F::NAMESPACED } else { F::CLUSTER };
    info.map_or("", |info| info.plural)
}

fn event(event: KubeEvent) -> Event {
    let series = event.series.as_ref();
    let micro = event.event_time.as_ref().map(|time| time.0);
    let last = series.and_then(|series| series.last_observed_time.as_ref()).map(|time| time.0);
    let last = last.or(event.last_timestamp.as_ref().map(|time| time.0)).or(micro);
    Event {
        warning: event.type_.as_deref() == Some("Warning"),
        reason: event.reason.unwrap_or_default(),
        message: event.message.unwrap_or_default(),
        last: last.map(Time::new),
        count: series.and_then(|series| series.count).or(event.count).unwrap_or(1),
    }
}

fn parent(labels: Option<&BTreeMap<String, String>>) -> Option<&str> {
    labels?.get(labels::PARENT_PLACEMENT).map(String::as_str)
}

fn versions_of<S: Scope>(snapshots: &[Obj<Snapshot, S>], scoped: &Scoped<S>, (namespace, name): &Key) -> Vec<Version> {
    let bindings = scoped.bindings.objects.values().filter(|one| one.metadata.namespace == *namespace);
    let bindings: Vec<_> = bindings.filter(|one| parent(one.metadata.labels.as_ref()) == Some(name)).cloned().collect();
    let runs = scoped.runs.objects.values().filter(|one| one.metadata.namespace == *namespace);
    let runs: Vec<_> = runs.filter(|one| one.spec.placement_name == *name).cloned().collect();
    history(snapshots, &bindings, &runs)
}

fn differences_of<S: Scope>(scoped: &Scoped<S>, (namespace, name): &Key) -> Vec<Difference> {
    let mut all = Vec::new();
    let bindings = scoped.bindings.objects.values().filter(|one| one.metadata.namespace == *namespace);
    for binding in bindings.filter(|one| parent(one.metadata.labels.as_ref()) == Some(name)) {
        let Some(status) = &binding.status else { continue };
        let drifted = status.drifted_placements.iter().map(|one| (true, &one.resource, &one.observed_drifts));
        let diffed = status.diffed_placements.iter().map(|one| (false, &one.resource, &one.observed_diffs));
        all.extend(drifted.chain(diffed).map(|(drifted, resource, fields)| {
            Difference {
                cluster: binding.spec.target_cluster.clone(),
                drifted,
                resource: match resource.namespace.as_str() {
                    "" => format!("{} {}", resource.kind, resource.name),
                    namespace => format!("{} {namespace}/{}", resource.kind, resource.name),
                },
                fields: fields
                    .iter()
                    .map(|one| (one.path.clone(), one.value_in_hub.clone(), one.value_in_member.clone()))
                    .collect(),
            }
        }));
    }
    all
}

/// A rollback as the command plans it.
pub(super) async fn rollback<S: Scope>(hub: &Hub, name: &str, to: Option<u32>) -> anyhow::Result<Rollback> {
    let versions = Versions::<S>::read(hub, name).await?;
    let plan = plan_rollback(hub, &versions, to, None).await?;
    let all = versions.all();
    let clusters = all.iter().filter(|version| version.index != plan.to).flat_map(|version| version.clusters.clone());
    let active = active_runs(hub, &versions).await?;
    Ok(Rollback {
        namespace: (S::KIND == ScopeKind::Namespaced).then(|| hub.namespace.clone()).flatten(),
        placement: name.to_owned(),
        strategy: plan.strategy,
        from: plan.from,
        to: plan.to,
        changes: plan.changes,
        versions: all.iter().map(|version| version.index).collect(),
        clusters: clusters.collect(),
        active_runs: active.into_iter().map(|run| run.name).collect(),
    })
}

/// The changes on the clusters that an approval lets continue: from the version of the first of them. `None` if nothing can be said.
async fn next_changes<S: Scope>(
    hub: &Hub,
    run: &RunOverview,
    request: &str,
) -> anyhow::Result<Option<Vec<fleet_core::overview::Change>>> {
    let is =
        |gate: &fleet_core::overview::Gate| matches!(&gate.task, GateTask::Approval { request: one } if one == request);
    let before = run.stages.iter().position(|stage| stage.before.iter().any(is));
    let after = run.stages.iter().position(|stage| stage.after.iter().any(is)).map(|index| index + 1);
    let Some(stage) = before.or(after).and_then(|index| run.stages.get(index)).filter(|stage| !stage.removes) else {
        return Ok(None);
    };
    let from = stage.clusters.iter().find_map(|cluster| cluster.resource_index);
    let Some(to) = run.resource_index else { return Ok(None) };
    let versions = Versions::<S>::read(hub, &run.placement).await?;
    let before = from.map(|from| versions.snapshot_resources(from)).transpose()?.unwrap_or_default();
    Ok(Some(changes(&before, &versions.snapshot_resources(to)?)))
}
