//! Resource selectors and cluster selectors.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{LabelSelector, nullable, words};

words! {
    /// How much of a selected namespace is meant.
    SelectionScope = NamespaceWithResources { NamespaceOnly, NamespaceWithResources, NamespaceWithResourceSelectors }
}

/// One group of resources. All given fields must match; without name and labelSelector every object of the kind does.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(inline)]
pub struct ResourceSelectorTerm {
    /// API group; empty for the core group.
    pub group: String,
    /// API version, such as v1.
    pub version: String,
    /// Kind, such as Namespace.
    pub kind: String,
    /// Name of one object. Cannot stand together with labelSelector.
    #[serde(default, skip_serializing_if = "String::is_empty", deserialize_with = "nullable")]
    pub name: String,
    /// Labels that objects must carry. Cannot stand together with name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub label_selector: Option<LabelSelector>,
    /// For a core/v1 Namespace: only the Namespace itself, the Namespace with all that is in it, or the Namespace with what the
    /// other selectors pick. Has no effect on other kinds.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("default" = "NamespaceWithResources"))]
    pub selection_scope: Option<SelectionScope>,
}

impl ResourceSelectorTerm {
    pub fn selection_scope(&self) -> SelectionScope {
        self.selection_scope.unwrap_or_default()
    }

    /// Whether the core/v1 Namespace kind is selected.
    pub fn is_namespace(&self) -> bool {
        self.group.is_empty() && self.version == "v1" && self.kind == "Namespace"
    }
}

/// One group of clusters: by labels, by properties, or ranked by a property.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(inline)]
pub struct ClusterSelectorTerm {
    /// Labels that a member cluster must carry.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub label_selector: Option<LabelSelector>,
    /// Requirements on observed properties, such as its node count. Only where clusters are required, not where they are preferred.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub property_selector: Option<PropertySelector>,
    /// Ranks clusters by an observed property. Only where clusters are preferred.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub property_sorter: Option<PropertySorter>,
}

/// Requirements on observed properties; all of them must hold.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(inline)]
pub struct PropertySelector {
    /// The requirements, joined by AND.
    pub match_expressions: Vec<PropertySelectorRequirement>,
}

/// One comparison of a property with a quantity.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(inline)]
pub struct PropertySelectorRequirement {
    /// Name of the property, such as kubernetes-fleet.io/node-count.
    pub name: String,
    /// Gt, Ge, Lt, Le, Eq or Ne.
    pub operator: String,
    /// Exactly one quantity.
    #[schemars(extend("maxItems" = 1))]
    pub values: Vec<String>,
}

words! {
    /// Which end of a ranking comes first.
    SortOrder = Ascending { Ascending, Descending }
}

/// Ranks clusters by the value of a property.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(inline)]
pub struct PropertySorter {
    /// Name of the property.
    pub name: String,
    /// Descending prefers large values, Ascending small ones.
    pub sort_order: SortOrder,
}

/// The clusters that one override rule applies to.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(inline)]
pub struct ClusterSelector {
    /// Groups of clusters, joined by OR. An empty list means every member cluster.
    #[schemars(length(max = 10))]
    pub cluster_selector_terms: Vec<ClusterSelectorTerm>,
}
