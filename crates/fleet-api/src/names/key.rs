//! The key of a placement of either scope: `name` or `namespace/name`.

use std::fmt;

use super::{NameError, NamespaceName, PlacementName};

/// A placement of either scope.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PlacementKey {
    /// `None` for a ClusterResourcePlacement.
    pub namespace: Option<NamespaceName>,
    pub name: PlacementName,
}

/// Why a text is not a placement's key.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is not a placement key; it is either NAME or NAMESPACE/NAME")]
pub struct PlacementKeyError(pub String, #[source] pub NameError);

impl PlacementKey {
    pub fn cluster_scoped(name: PlacementName) -> Self {
        Self { namespace: None, name }
    }

    pub fn namespaced(namespace: NamespaceName, name: PlacementName) -> Self {
        Self { namespace: Some(namespace), name }
    }

    pub fn parse(text: &str) -> Result<Self, PlacementKeyError> {
        let wrong = |cause| PlacementKeyError(text.to_owned(), cause);
        match text.split_once('/') {
            None => PlacementName::parse(text).map(Self::cluster_scoped).map_err(wrong),
            Some((namespace, name)) => {
                let namespace = NamespaceName::parse(namespace).map_err(wrong)?;
                Ok(Self::namespaced(namespace, PlacementName::parse(name).map_err(wrong)?))
            }
        }
    }
}

impl fmt::Display for PlacementKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.namespace {
            Some(namespace) => write!(f, "{namespace}/{}", self.name),
            None => write!(f, "{}", self.name),
        }
    }
}
