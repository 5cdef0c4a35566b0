//! Aggregated ClusterRoles: their rules are those of the ClusterRoles that they select.

use std::sync::Arc;

use serde_json::{Value, json};

use super::act::{self, AttemptResult};
use super::{StoreEvent, Wake};
use crate::auth::PolicyRule;
use crate::auth::rbac::{RBAC_GROUP, aggregated_rules};
use crate::registry::StorageKey;
use crate::server::Cluster;

fn cluster_roles() -> StorageKey {
    StorageKey::new(RBAC_GROUP, "clusterroles")
}

#[derive(Debug, Default)]
pub(super) struct Roles {
    dirty: bool,
}

impl Roles {
    pub(super) fn observe(&mut self, event: &StoreEvent) {
        let (StoreEvent::Changed(resource, _) | StoreEvent::Relisted(resource, _)) = event;
        self.dirty |= *resource == cluster_roles();
    }

    pub(super) async fn work(&mut self, cluster: &Arc<Cluster>) -> Wake {
        if !std::mem::take(&mut self.dirty) {
            return Wake::OnChange;
        }
        let Ok(listing) = cluster.store().peek_list(&cluster_roles(), None, None, usize::MAX, None) else {
            return Wake::OnChange;
        };
        let all: Vec<Value> = listing.entries.iter().map(|entry| entry.parse()).collect();
        let mut wake = Wake::OnChange;
        for (entry, role) in listing.entries.iter().zip(&all).filter(|(_, role)| role["aggregationRule"].is_object()) {
            let rules: Vec<Value> = aggregated_rules(role, &all).iter().map(PolicyRule::to_value).collect();
            if role["rules"] == json!(rules) {
                continue;
            }
            let outcome = act::edit(cluster, &cluster_roles(), entry, &[], |role| role["rules"] = json!(rules)).await;
            if outcome == AttemptResult::Failed {
                self.dirty = true;
                wake = Wake::retry();
            }
        }
        wake
    }
}
