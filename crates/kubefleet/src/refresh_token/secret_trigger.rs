//! Enqueues the token refresher when the Secret changes. The refresher does not depend on it: without permission to watch the
//! Secret, a change is noticed at the next fetch.

use fleet_runtime::{Actions, Controller, Enqueuer, Kind, ObjectKey, PlanInput, Runtime, Triggers};
use k8s_openapi::api::core::v1::Secret;
use serde_json::Value;

use super::refresher::TOKEN;

struct SecretTrigger {
    refresher: Enqueuer<&'static str>,
}

impl Controller for SecretTrigger {
    const NAME: &'static str = "secret-notice";
    type Key = &'static str;
    type Facts = ();

    fn plan(&self, _: &&'static str, _: Option<()>, _: PlanInput) -> Actions {
        self.refresher.enqueue(TOKEN);
        Actions::none()
    }
}

/// Enqueues the refresher when this Secret changes.
pub(super) fn follow(runtime: &mut Runtime, secret: &ObjectKey, refresher: Enqueuer<&'static str>) {
    let kind = Kind::<Secret>::new().in_namespace(secret.namespace().unwrap_or_default());
    let kind = kind.with_fields(format!("metadata.name={}", secret.name())).slim(without_content);
    let changes = runtime.cache(kind);
    runtime.controller(SecretTrigger { refresher }, Triggers::new().on(&changes, |_| [TOKEN]), 1);
}

/// Drops the content, so that the cache holds no secrets.
fn without_content(secret: &mut Value) {
    if let Some(fields) = secret.as_object_mut() {
        fields.retain(|name, _| matches!(name.as_str(), "apiVersion" | "kind" | "metadata"));
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_cache_holds_no_secret_content() {
        let mut secret =
            json!({"kind": "Secret", "metadata": {"name": "a"}, "type": "Opaque", "data": {"token": "aHVzaA=="}});
        without_content(&mut secret);
        assert_eq!(secret, json!({"kind": "Secret", "metadata": {"name": "a"}}));
    }
}
