//! Completion candidates: contexts from the kubeconfig, other names from the hub. Maps the id of an argument to the kind of
//! names that it takes.

use fleet_api::kinds::{
    Approval, Cluster, Family, Member, Obj, Placement, Scope, ScopeKind, Snapshot, UpdateRun, UpdateStrategy,
};
use fleet_api::well_known::labels;
use fleet_runtime::KindId;
use k8s_openapi::api::core::v1::Namespace;

use super::Candidate;
use super::place::{Expected, Place};
use crate::cli::connection::{Hub, HubFlags};
use crate::cli::objects::in_scope;

/// Where candidates come from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Sort {
    /// From the declared commands and flags.
    Declared,
    /// Files, completed by the shell.
    Files,
    /// Free text, such as a new name.
    Nothing,
    Hub(Named),
}

/// The kind of a name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Named {
    Contexts,
    Namespaces,
    Runs,
    /// Stages of the run in an earlier argument.
    Stages,
    Placements,
    RunsAndPlacements,
    Strategies,
    Clusters,
    /// Approval requests.
    Approvals,
    /// Versions of the placement in an earlier argument.
    Versions,
    /// Subjects of `diagnose`.
    Anything,
}

/// The source of candidates for a place.
pub(super) fn sort(place: &Place<'_>) -> Sort {
    let Expected::Value(argument) = place.expected else { return Sort::Declared };
    if !argument.get_possible_values().is_empty() {
        return Sort::Declared;
    }
    let value_name = argument.get_value_names().and_then(|names| names.first()).map(clap::builder::Str::as_str);
    if matches!(value_name, Some("FILE" | "DIR")) {
        return Sort::Files;
    }
    let named = match (place.verb.get_name(), argument.get_id().as_str()) {
        (_, "context" | "hub_context") | ("join", "cluster") => Named::Contexts,
        (_, "namespace") => Named::Namespaces,
        (_, "run") => Named::Runs,
        (_, "stage") => Named::Stages,
        (_, "placement") => Named::Placements,
        (_, "strategy") => Named::Strategies,
        (_, "cluster" | "cluster_name") => Named::Clusters,
        (_, "index" | "from" | "to") => Named::Versions,
        ("approve", "name") => Named::Approvals,
        ("status", "name") => Named::RunsAndPlacements,
        ("diagnose", "subject") => Named::Anything,
        _ => return Sort::Nothing,
    };
    Sort::Hub(named)
}

/// The connection flags and earlier arguments.
#[derive(Debug)]
pub(super) struct Question {
    sort: Sort,
    flags: HubFlags,
    run: Option<String>,
    placement: Option<String>,
    /// `run` or `placement` before a name.
    kind: Option<String>,
}

impl Question {
    pub(super) fn new(sort: Sort, place: &Place<'_>) -> Self {
        let last = |id: &str| place.last(id).map(str::to_owned);
        let names_the_member = matches!(place.verb.get_name(), "join" | "leave");
        let flags = HubFlags {
            namespace: last("namespace"),
            context: last(if names_the_member { "hub_context" } else { "context" }),
            kubeconfig: last("kubeconfig").map(Into::into),
        };
        Self { sort, flags, run: last("run"), placement: last("placement"), kind: last("name") }
    }

    /// Blocks until the hub has answered.
    pub(super) fn ask(&self) -> anyhow::Result<Vec<Candidate>> {
        let Sort::Hub(named) = self.sort else { return Ok(Vec::new()) };
        if named == Named::Contexts {
            return Ok(self.flags.contexts()?.into_iter().map(|name| Candidate::new(name, "")).collect());
        }
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        runtime.block_on(async {
            let hub = self.flags.connect().await?;
            in_scope!(hub, names(&hub, named, self))
        })
    }
}

async fn names<S: Scope>(hub: &Hub, named: Named, question: &Question) -> anyhow::Result<Vec<Candidate>> {
    match named {
        Named::Contexts => Ok(Vec::new()),
        Named::Namespaces => {
            let all: Vec<Namespace> = hub.list_kind(&KindId::of::<Namespace>(), None, None).await?;
            Ok(all.into_iter().filter_map(|one| Some(Candidate::new(one.metadata.name?, ""))).collect())
        }
        Named::Runs => runs::<S>(hub).await,
        Named::Stages => stages::<S>(hub, question.run.as_deref().unwrap_or_default()).await,
        Named::Placements => placements::<S>(hub).await,
        Named::RunsAndPlacements => match question.kind.as_deref() {
            Some(kind) if kind.contains("run") || kind.ends_with("sur") => runs::<S>(hub).await,
            Some(_) => placements::<S>(hub).await,
            None => Ok([runs::<S>(hub).await?, placements::<S>(hub).await?].concat()),
        },
        Named::Strategies => strategies::<S>(hub).await,
        Named::Clusters => clusters(hub).await,
        Named::Approvals => approvals::<S>(hub).await,
        Named::Versions => versions::<S>(hub, question.placement.as_deref().unwrap_or_default()).await,
        Named::Anything => {
            let (runs, placements) = (runs::<S>(hub).await?, placements::<S>(hub).await?);
            let clusters = if S::KIND == ScopeKind::Cluster { clusters(hub).await? } else { Vec::new() };
            Ok([runs, placements, clusters].concat())
        }
    }
}

/// All objects of a kind, with descriptions.
async fn all<F: Family, S: Scope>(hub: &Hub, about: impl Fn(&Obj<F, S>) -> String) -> anyhow::Result<Vec<Candidate>> {
    let found = hub.list::<F, S>(None).await?;
    Ok(found.iter().filter_map(|one| Some(Candidate::new(one.metadata.name.as_deref()?, about(one)))).collect())
}

async fn runs<S: Scope>(hub: &Hub) -> anyhow::Result<Vec<Candidate>> {
    all::<UpdateRun, S>(hub, |run| format!("run of placement {}", run.spec.placement_name)).await
}

async fn placements<S: Scope>(hub: &Hub) -> anyhow::Result<Vec<Candidate>> {
    all::<Placement, S>(hub, |_| "placement".to_owned()).await
}

async fn clusters(hub: &Hub) -> anyhow::Result<Vec<Candidate>> {
    all::<Member, Cluster>(hub, |_| "member cluster".to_owned()).await
}

async fn approvals<S: Scope>(hub: &Hub) -> anyhow::Result<Vec<Candidate>> {
    all::<Approval, S>(hub, |request| format!("run {}", request.spec.parent_stage_rollout)).await
}

async fn strategies<S: Scope>(hub: &Hub) -> anyhow::Result<Vec<Candidate>> {
    let about = |strategy: &Obj<UpdateStrategy, S>| {
        let stages: Vec<&str> = strategy.spec.stages.iter().map(|stage| stage.name.as_str()).collect();
        format!("stages {}", stages.join(", "))
    };
    all::<UpdateStrategy, S>(hub, about).await
}

async fn stages<S: Scope>(hub: &Hub, run: &str) -> anyhow::Result<Vec<Candidate>> {
    let run = hub.get::<UpdateRun, S>(run).await?;
    let status = run.and_then(|run| run.status);
    let stages = status.iter().flat_map(|status| &status.stages_status);
    Ok(stages.map(|stage| Candidate::new(&stage.stage_name, "")).collect())
}

async fn versions<S: Scope>(hub: &Hub, placement: &str) -> anyhow::Result<Vec<Candidate>> {
    let snapshots = hub.list::<Snapshot, S>(Some(&format!("{}={placement}", labels::PARENT_PLACEMENT))).await?;
    let index = |one: &Obj<Snapshot, S>| one.metadata.labels.as_ref()?.get(labels::RESOURCE_INDEX)?.parse::<u32>().ok();
    let mut indices: Vec<u32> = snapshots.iter().filter_map(index).collect();
    indices.sort_unstable();
    indices.dedup();
    Ok(indices.into_iter().map(|index| Candidate::new(index.to_string(), "version")).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::completion::place::find;

    /// Arguments with free text.
    const FREE: &[&str] =
        &["approve timeout", "drain timeout", "draincluster timeout", "uncordon timeout", "run name", "rollback name"];
    const FREE_ABOUT_PROPAGATION: &[&str] = &[
        "plan skipped_propagating_apis",
        "plan allowed_propagating_apis",
        "plan skipped_propagating_namespaces",
        "diff skipped_propagating_apis",
        "diff allowed_propagating_apis",
        "diff skipped_propagating_namespaces",
    ];
    const FREE_ABOUT_INSTALLATION: &[&str] = &[
        "join registry",
        "join tag",
        "join label",
        "join hub_url",
        "join timeout",
        "leave timeout",
        "uninstall timeout",
        "mcp skipped_propagating_apis",
        "mcp allowed_propagating_apis",
        "mcp skipped_propagating_namespaces",
        "dashboard address",
        "dashboard skipped_propagating_apis",
        "dashboard allowed_propagating_apis",
        "dashboard skipped_propagating_namespaces",
    ];
    const FREE_ELSEWHERE: &[&str] = &[
        "up members",
        "up listen",
        "up dashboard",
        "demo dashboard",
        "diagnose refused",
        "hub-agent flags",
        "member-agent flags",
        "refresh-token words",
    ];

    #[test]
    fn every_argument_with_a_value_has_completion_or_is_free_text() {
        let mut root = crate::Cli::tree();
        root.build();
        let mut free = Vec::new();
        for verb in root.get_subcommands().filter(|verb| verb.get_name() != "help") {
            for argument in verb.get_arguments().filter(|one| one.get_action().takes_values()) {
                let mut place = find(&root, &[String::new()]);
                (place.verb, place.expected) = (verb, Expected::Value(argument));
                if sort(&place) == Sort::Nothing {
                    free.push(format!("{} {}", verb.get_name(), argument.get_id()));
                }
            }
        }
        let mut expected: Vec<&str> = [FREE, FREE_ABOUT_PROPAGATION, FREE_ABOUT_INSTALLATION, FREE_ELSEWHERE].concat();
        expected.sort_unstable();
        free.sort_unstable();
        assert_eq!(free, expected);
    }
}
