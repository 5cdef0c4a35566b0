//! Resolves a name to runs, placements, member clusters and evictions, and diagnoses each of them.

use std::collections::BTreeSet;

use fleet_api::kinds::{Cluster, Namespaced, Obj, Placement, Scope, UpdateRun};
use fleet_core::diagnose::{self, Diagnosis, Inputs, ObservedObject, Unread};
use serde::Serialize;

use super::read::{Members, Reader};
use super::server::ReadError;

/// All diagnoses, and the number of objects checked.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Answer {
    /// Whether the whole fleet was checked; then only diagnoses with findings are listed.
    pub(super) whole_fleet: bool,
    pub(super) placements: usize,
    pub(super) clusters: usize,
    pub(crate) diagnoses: Vec<Diagnosis>,
    /// What could not be listed.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) unread: Vec<Unread>,
}

/// No object has this name.
#[derive(Debug)]
pub(super) struct NotFound {
    /// Existing names.
    pub(super) known: Vec<String>,
    /// What could not be read: the object may be there.
    pub(super) unread: Vec<Unread>,
}

/// The kind before the slash.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Run,
    Placement,
    Cluster,
    Eviction,
}

const KINDS: &[(Kind, &[&str])] = &[
    (Kind::Run, &["run", "csur", "sur", "clusterstagedupdaterun", "stagedupdaterun"]),
    (Kind::Placement, &["placement", "crp", "rp", "clusterresourceplacement", "resourceplacement"]),
    (Kind::Cluster, &["cluster", "member", "membercluster"]),
    (Kind::Eviction, &["eviction", "crpe", "clusterresourceplacementeviction"]),
];

/// `web`, or `run/web`. An unknown kind is treated as part of the name.
pub(super) fn parse(subject: &str) -> (Option<Kind>, &str) {
    let Some((word, name)) = subject.split_once('/') else { return (None, subject) };
    let word = word.to_lowercase();
    let found = KINDS.iter().find(|(_, words)| words.iter().any(|one| *one == word || format!("{one}s") == word));
    found.map_or((None, subject), |(kind, _)| (Some(*kind), name))
}

impl<M: Members> Reader<'_, M> {
    /// All objects of this name in a namespace, or cluster-scoped.
    pub(super) async fn about(&self, namespace: Option<&str>, subject: &str) -> Result<Answer, NotFound> {
        match namespace {
            Some(_) => self.about_in::<Namespaced>(namespace, subject).await,
            None => self.about_in::<Cluster>(namespace, subject).await,
        }
    }

    async fn about_in<S: Scope>(&self, namespace: Option<&str>, subject: &str) -> Result<Answer, NotFound> {
        let common = self.common::<S>(namespace).await;
        let (kind, name) = parse(subject);
        let is = |wanted: Kind| kind.is_none_or(|kind| kind == wanted);
        let mut diagnoses = Vec::new();
        if is(Kind::Run) && common.runs.iter().any(|run| run.name() == name) {
            diagnoses.push(diagnose::run(&self.of_run::<S>(&common, name).await));
        }
        if is(Kind::Placement) && common.placement_names.iter().any(|placement| placement == name) {
            diagnoses.push(diagnose::placement(&self.with_newest_run::<S>(&common, name).await));
        }
        if is(Kind::Cluster) && common.members.iter().any(|member| member.name() == name) {
            diagnoses.push(self.about_cluster(&common, name).await);
        }
        if is(Kind::Eviction)
            && let Some(eviction) = common.evictions.iter().find(|one| one.name() == name)
        {
            let inputs = self.of_placement::<S>(&common, &eviction.spec.placement_name).await;
            diagnoses.push(diagnose::eviction(&inputs, name));
        }
        if diagnoses.is_empty() {
            return Err(NotFound { known: names(&common), unread: common.unread });
        }
        Ok(Answer {
            whole_fleet: false,
            placements: common.placement_names.len(),
            clusters: common.members.len(),
            diagnoses,
            unread: Vec::new(),
        })
    }

    /// The inputs of a placement with the approvals of its newest run.
    async fn with_newest_run<S: Scope>(&self, common: &Inputs, name: &str) -> Inputs {
        let newest = common.runs_of(name).first().map(|run| run.name().to_owned());
        match newest {
            Some(run) => self.of_run::<S>(common, &run).await,
            None => self.of_placement::<S>(common, name).await,
        }
    }

    /// A cluster with all placements on it, of all scopes.
    async fn about_cluster(&self, common: &Inputs, name: &str) -> Diagnosis {
        let mut placements = Vec::new();
        let cluster_scoped = self.common::<Cluster>(None).await;
        for placement in &cluster_scoped.placement_names {
            placements.push(self.of_placement::<Cluster>(&cluster_scoped, placement).await);
        }
        let mut subject = common.clone();
        for namespace in self.namespaces(&mut subject.unread).await {
            let common = self.common::<Namespaced>(Some(&namespace)).await;
            for placement in &common.placement_names {
                placements.push(self.of_placement::<Namespaced>(&common, placement).await);
            }
        }
        diagnose::cluster(&subject, name, &placements)
    }

    /// All problems of the fleet.
    pub(super) async fn everything(&self, namespace: Option<&str>) -> Answer {
        let mut answer =
            Answer { whole_fleet: true, placements: 0, clusters: 0, diagnoses: Vec::new(), unread: Vec::new() };
        if namespace.is_none() {
            let common = self.common::<Cluster>(None).await;
            answer.clusters = common.members.len();
            let members = common.members.iter().map(|member| diagnose::cluster(&common, member.name(), &[]));
            answer.diagnoses.extend(members);
            self.all_of::<Cluster>(&common, &mut answer).await;
        }
        let places = match namespace {
            Some(namespace) => vec![namespace.to_owned()],
            None => self.namespaces(&mut answer.unread).await,
        };
        for place in places {
            let common = self.common::<Namespaced>(Some(&place)).await;
            self.all_of::<Namespaced>(&common, &mut answer).await;
        }
        let has_findings = |one: &Diagnosis| one.cause.is_some() || !one.notices.is_empty() || !one.unread.is_empty();
        answer.diagnoses.retain(has_findings);
        answer.diagnoses.sort_by_key(|one| std::cmp::Reverse(one.severity()));
        answer
    }

    /// All placements of a scope with their newest runs, and runs that have no placement.
    async fn all_of<S: Scope>(&self, common: &Inputs, answer: &mut Answer) {
        answer.placements += common.placement_names.len();
        answer.unread.extend(common.unread.iter().cloned());
        for placement in &common.placement_names {
            answer.diagnoses.push(diagnose::placement(&self.with_newest_run::<S>(common, placement).await));
        }
        let wanted: BTreeSet<&str> = common.runs.iter().map(|run| run.spec.placement_name.as_str()).collect();
        for missing in wanted.into_iter().filter(|name| !common.placement_names.iter().any(|one| one == name)) {
            if let Some(run) = common.runs_of(missing).first() {
                answer.diagnoses.push(diagnose::run(&self.of_run::<S>(common, run.name()).await));
            }
        }
    }

    /// Namespaces that have placements or runs, as far as these can be listed.
    async fn namespaces(&self, unread: &mut Vec<Unread>) -> Vec<String> {
        let placements = self.hub.list_metadata::<Placement, Namespaced>(None, "").await;
        let runs = self.hub.list_metadata::<UpdateRun, Namespaced>(None, "").await;
        let mut places = BTreeSet::new();
        let kinds = [Obj::<Placement, Namespaced>::INFO.plural, Obj::<UpdateRun, Namespaced>::INFO.plural];
        for (what, found) in kinds.into_iter().zip([placements, runs]) {
            match found {
                Ok(found) => places.extend(found.into_iter().filter_map(|one| one.namespace)),
                // Older hubs have no namespaced kinds.
                Err(ReadError::NoSuchKind { .. }) => {}
                Err(error) => unread.push(Unread { what: what.to_owned(), why: error.to_string() }),
            }
        }
        places.into_iter().collect()
    }
}

fn names(common: &Inputs) -> Vec<String> {
    let runs = common.runs.iter().map(ObservedObject::name);
    let others =
        common.members.iter().map(ObservedObject::name).chain(common.evictions.iter().map(ObservedObject::name));
    runs.chain(common.placement_names.iter().map(String::as_str)).chain(others).map(str::to_owned).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_kind_may_precede_the_name() {
        assert_eq!(parse("web"), (None, "web"));
        assert_eq!(parse("run/web"), (Some(Kind::Run), "web"));
        assert_eq!(parse("CRP/web"), (Some(Kind::Placement), "web"));
        assert_eq!(parse("memberclusters/east"), (Some(Kind::Cluster), "east"));
        assert_eq!(parse("eviction/e1"), (Some(Kind::Eviction), "e1"));
        assert_eq!(parse("shop/web"), (None, "shop/web"));
    }
}
