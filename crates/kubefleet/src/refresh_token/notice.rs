//! That the Secret has changed, told to the keeper at once.
//!
//! Decides nothing. The keeper does not wait for this: it has the token also where only reading the Secret is allowed, and
//! then notices a change when it next fetches the token.

use fleet_runtime::{Actions, Controller, Kind, Marks, Moment, ObjectKey, Runtime, Triggers};
use k8s_openapi::api::core::v1::Secret;
use serde_json::Value;

use super::keeper::TOKEN;

struct Notice {
    keeper: Marks<&'static str>,
}

impl Controller for Notice {
    const NAME: &'static str = "secret-notice";
    type Key = &'static str;
    type Facts = ();

    fn plan(&self, _: &&'static str, (): (), _: Moment) -> Actions {
        self.keeper.mark(TOKEN);
        Actions::none()
    }
}

/// Marks the keeper's key whenever this Secret changes.
pub(super) fn follow(runtime: &mut Runtime, secret: &ObjectKey, keeper: Marks<&'static str>) {
    let kind = Kind::<Secret>::new().in_namespace(secret.namespace().unwrap_or_default());
    let kind = kind.with_fields(format!("metadata.name={}", secret.name())).slim(without_content);
    let changes = runtime.cache(kind);
    runtime.controller(Notice { keeper }, Triggers::new().on(&changes, |_| [TOKEN]), 1);
}

/// That it has changed is all that is of interest; what is secret is not held.
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
    fn nothing_secret_is_held() {
        let mut secret =
            json!({"kind": "Secret", "metadata": {"name": "a"}, "type": "Opaque", "data": {"token": "aHVzaA=="}});
        without_content(&mut secret);
        assert_eq!(secret, json!({"kind": "Secret", "metadata": {"name": "a"}}));
    }
}
