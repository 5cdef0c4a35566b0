//! Labels, annotations and spec of a Work: the object to create, or the patch for an existing one. Labels of other
//! writers are kept.

use std::collections::BTreeMap;

use fleet_api::hashes::{cluster_override_list_hash, override_list_hash};
use fleet_api::kinds::{Obj, Work};
use fleet_api::names::Index;
use fleet_api::types::{ApplyStrategy, EmbeddedObject, EnvelopeIdentifier, ReportBackStrategy, WorkSpec, Workload};
use fleet_api::well_known::{annotations, finalizers, labels};
use serde_json::{Value, json};

use super::observed::{BindingFacts, Observed, ReportBack, WorkFacts, mirroring};

/// What a Work was made from. A Work with the same source as the binding is not written again.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WorkSource {
    /// Master snapshot of the group.
    pub snapshot: String,
    pub index: Index,
    pub overrides_hash: String,
    pub cluster_overrides_hash: String,
}

impl WorkSource {
    pub(super) fn of(binding: &BindingFacts<'_>, index: Index) -> Self {
        // The Go agents write an empty list as null.
        let overrides = Some(binding.overrides).filter(|list| !list.is_empty());
        let cluster_overrides = Some(binding.cluster_overrides).filter(|list| !list.is_empty());
        Self {
            snapshot: binding.resource_snapshot.to_owned(),
            index,
            overrides_hash: override_list_hash(overrides),
            cluster_overrides_hash: cluster_override_list_hash(cluster_overrides),
        }
    }

    /// Snapshots are immutable, so a Work with this source has the same content.
    pub(super) fn is_on(&self, work: &WorkFacts<'_>) -> bool {
        work.index == Some(self.index)
            && work.overrides_hash == Some(&self.overrides_hash)
            && work.cluster_overrides_hash == Some(&self.cluster_overrides_hash)
    }

    fn label(&self) -> (String, String) {
        (labels::PARENT_RESOURCE_SNAPSHOT_INDEX.to_owned(), self.index.to_string())
    }

    fn annotations(&self) -> BTreeMap<String, String> {
        BTreeMap::from([
            (annotations::PARENT_RESOURCE_SNAPSHOT.to_owned(), self.snapshot.clone()),
            (annotations::PARENT_OVERRIDES_HASH.to_owned(), self.overrides_hash.clone()),
            (annotations::PARENT_CLUSTER_OVERRIDES_HASH.to_owned(), self.cluster_overrides_hash.clone()),
        ])
    }
}

/// How the member treats a Work.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Strategies {
    pub apply: Option<ApplyStrategy>,
    pub report_back: Option<ReportBackStrategy>,
}

impl Strategies {
    /// Uses the report-back strategy of `existing` if the placement is unknown.
    pub(super) fn wanted(observed: &Observed<'_>, existing: Option<&WorkFacts<'_>>) -> Self {
        Self {
            apply: observed.binding.apply_strategy.cloned(),
            report_back: match observed.report_back {
                ReportBack::As(strategy) => mirroring(strategy),
                ReportBack::Unknown => existing.and_then(|work| work.report_back),
            },
        }
    }

    pub(super) fn are_on(&self, work: &WorkFacts<'_>) -> bool {
        meaning(self.apply.as_ref()) == meaning(work.apply_strategy) && self.report_back == work.report_back
    }
}

/// An apply strategy with defaults, which the API server adds to the stored object.
fn meaning(strategy: Option<&ApplyStrategy>) -> impl PartialEq + use<> {
    let strategy = strategy.cloned().unwrap_or_default();
    (
        (strategy.comparison_option(), strategy.when_to_apply(), strategy.strategy_type()),
        (strategy.allow_co_ownership(), strategy.force(), strategy.when_to_take_over()),
    )
}

/// A Work to create.
#[derive(Debug, Clone, PartialEq)]
pub struct NewWork {
    pub name: String,
    /// The member's namespace.
    pub namespace: String,
    /// The labels that never change.
    pub labels: BTreeMap<String, String>,
    pub source: WorkSource,
    pub strategies: Strategies,
    pub manifests: Vec<EmbeddedObject>,
}

impl NewWork {
    pub fn into_object(self) -> Work {
        let spec = WorkSpec {
            workload: Some(Workload { manifests: self.manifests }),
            apply_strategy: self.strategies.apply,
            report_back_strategy: self.strategies.report_back,
        };
        let mut object = Obj::named(self.name, spec).in_namespace(self.namespace);
        object.metadata.labels = Some(self.labels.into_iter().chain([self.source.label()]).collect());
        object.metadata.annotations = Some(self.source.annotations());
        // The member agent needs this finalizer; adding it here saves a write.
        object.metadata.finalizers = Some(vec![finalizers::WORK.to_owned()]);
        object
    }
}

/// Labels for finding the Works of a binding.
pub(super) fn labels_of(observed: &Observed<'_>, envelope: Option<&EnvelopeIdentifier>) -> BTreeMap<String, String> {
    let mut all = BTreeMap::from([
        (labels::PARENT_PLACEMENT.to_owned(), observed.placement.name.to_string()),
        (labels::PARENT_BINDING.to_owned(), observed.binding.name.to_owned()),
    ]);
    if let Some(namespace) = &observed.placement.namespace {
        all.insert(labels::PARENT_PLACEMENT_NAMESPACE.to_owned(), namespace.to_string());
    }
    if let Some(envelope) = envelope {
        let kind = envelope.type_.unwrap_or_default();
        all.insert(labels::ENVELOPE_KIND.to_owned(), kind.to_string());
        all.insert(labels::ENVELOPE_NAME.to_owned(), envelope.name.clone());
        if !envelope.namespace.is_empty() {
            all.insert(labels::ENVELOPE_NAMESPACE.to_owned(), envelope.namespace.clone());
        }
    }
    all
}

/// A change of an existing Work.
#[derive(Debug, Clone, PartialEq)]
pub struct WorkChange {
    pub name: String,
    pub strategies: Strategies,
    /// `None` if the manifests do not change.
    pub content: Option<NewContent>,
}

#[derive(Debug, Clone, PartialEq)]
pub struct NewContent {
    pub source: WorkSource,
    pub manifests: Vec<EmbeddedObject>,
}

impl WorkChange {
    /// A JSON merge patch with complete values instead of a diff, so that the stored manifests need not be known.
    pub fn into_merge_patch(self) -> Value {
        let Strategies { apply: apply_strategy, report_back: report_back_strategy } = self.strategies;
        let Some(NewContent { source, manifests }) = self.content else {
            let spec = WorkSpec { workload: None, apply_strategy, report_back_strategy };
            return json!({"spec": spec.replacing_strategies()});
        };
        let spec = WorkSpec { workload: Some(Workload { manifests }), apply_strategy, report_back_strategy };
        let (index_label, index) = source.label();
        let mut patch = json!({"metadata": {"labels": {index_label: index}, "annotations": source.annotations()}});
        patch["spec"] = spec.replacing();
        patch
    }
}
