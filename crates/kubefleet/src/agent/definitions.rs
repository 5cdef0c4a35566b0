//! Waits until the API server serves the CustomResourceDefinitions that an agent needs. Logs the missing kinds once with the
//! command that installs them; never installs anything.

use std::sync::Arc;

use fleet_api::kinds::{CLUSTER_GROUP, INVENTORY_GROUP, PLACEMENT_GROUP};
use fleet_runtime::{Actions, Cache, Controller, Kind, KindId, Options, PlanInput, Runtime, TaskPanicked, Triggers};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use parking_lot::Mutex;
use serde_json::Value;
use tokio::sync::oneshot;

use super::process::Stop;

/// The command that installs the missing CustomResourceDefinitions.
pub(crate) const HOW_TO_INSTALL: &str = "kubefleet crds | kubectl apply --server-side -f -";

/// The missing kinds; `None` before the first check. Clones share the state.
#[derive(Debug, Clone, Default)]
pub(crate) struct Missing(Arc<Mutex<Option<Vec<String>>>>);

impl Missing {
    /// For a readiness check.
    pub(crate) fn check(&self) -> Result<(), String> {
        match self.0.lock().as_deref() {
            None => Err("API discovery has not finished yet".to_owned()),
            Some([]) => Ok(()),
            Some(missing) => {
                Err(format!("the API server does not serve {}; run: {HOW_TO_INSTALL}", missing.join(", ")))
            }
        }
    }
}

/// The kinds that KubeFleet defines.
pub(crate) fn ours(kinds: Vec<KindId>) -> Vec<KindId> {
    let groups = [CLUSTER_GROUP, PLACEMENT_GROUP, INVENTORY_GROUP];
    kinds.into_iter().filter(|kind| groups.contains(&&*kind.group)).collect()
}

/// Returns true when all these kinds are served, or false when the process shuts down.
pub(crate) async fn all_served(
    client: kube::Client,
    needed: Vec<KindId>,
    missing: &Missing,
    stop: Stop,
) -> Result<bool, TaskPanicked> {
    let mut runtime = Runtime::new(client, Options { component: NAME.to_owned(), ..Options::default() });
    let definitions = runtime.cache(Kind::<CustomResourceDefinition>::new().slim(without_schemas));
    let (complete, completed) = oneshot::channel();
    let wait = Wait {
        definitions: definitions.clone(),
        needed,
        missing: missing.clone(),
        complete: Mutex::new(Some(complete)),
    };
    let enqueuer = runtime.controller(wait, Triggers::new().on(&definitions, |_| [ALL]), 1);
    // Without any CustomResourceDefinition there is no event that would trigger a check.
    enqueuer.enqueue(ALL);
    let mut served = false;
    let either = async {
        tokio::select! {
            _ = completed => served = true,
            () = stop.asked() => {}
        }
    };
    runtime.run(either).await?;
    Ok(served)
}

const NAME: &str = "definitions";
/// The only key: all CustomResourceDefinitions are checked together.
const ALL: &str = "all";

struct Wait {
    definitions: Cache<CustomResourceDefinition>,
    needed: Vec<KindId>,
    missing: Missing,
    complete: Mutex<Option<oneshot::Sender<()>>>,
}

impl Controller for Wait {
    const NAME: &'static str = NAME;
    type Key = &'static str;
    type Facts = ();

    fn plan(&self, _: &&'static str, _: Option<()>, _: PlanInput) -> Actions {
        let definitions = self.definitions.list();
        let served = |kind: &&KindId| definitions.iter().any(|definition| serves(definition, kind));
        let missing: Vec<String> = self.needed.iter().filter(|kind| !served(kind)).map(described).collect();
        let before = self.missing.0.lock().replace(missing.clone());
        if missing.is_empty() {
            if let Some(complete) = self.complete.lock().take() {
                let _ = complete.send(());
            }
        } else if before.as_ref() != Some(&missing) {
            let missing = missing.join(", ");
            tracing::warn!(
                missing,
                install = HOW_TO_INSTALL,
                "the API server does not serve all required kinds yet; waiting"
            );
        }
        Actions::none()
    }
}

fn described(kind: &KindId) -> String {
    format!("{kind} {}", kind.version)
}

fn serves(definition: &CustomResourceDefinition, kind: &KindId) -> bool {
    let is_it = definition.spec.group == *kind.group && definition.spec.names.plural == *kind.plural;
    let conditions = definition.status.as_ref().and_then(|status| status.conditions.as_deref()).unwrap_or_default();
    let established = conditions.iter().any(|one| one.type_ == "Established" && one.status == "True");
    is_it && established && definition.spec.versions.iter().any(|one| one.served && one.name == *kind.version)
}

/// Drops the schemas, which are large and not needed here.
fn without_schemas(definition: &mut Value) {
    let versions = definition.pointer_mut("/spec/versions").and_then(Value::as_array_mut);
    for fields in versions.into_iter().flatten().filter_map(Value::as_object_mut) {
        fields.remove("schema");
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_kind_is_served_when_its_definition_is_established_in_our_version() {
        let kind = KindId::new(PLACEMENT_GROUP, "v1beta1", "Work", "works");
        let definition = |version: &str, served: bool, established: &str| {
            let mut object = json!({
                "metadata": {"name": "works.placement.kubernetes-fleet.io"},
                "spec": {"group": PLACEMENT_GROUP, "scope": "Namespaced", "names": {"plural": "works", "kind": "Work"},
                    "versions": [{"name": version, "served": served, "storage": true,
                        "schema": {"openAPIV3Schema": {"type": "object"}}}]},
                "status": {"acceptedNames": {"plural": "works", "kind": "Work"}, "storedVersions": [],
                    "conditions": [{"type": "Established", "status": established, "lastTransitionTime": null}]},
            });
            without_schemas(&mut object);
            assert!(!object.to_string().contains("openAPIV3Schema"));
            serde_json::from_value::<CustomResourceDefinition>(object).unwrap()
        };
        assert!(serves(&definition("v1beta1", true, "True"), &kind));
        assert!(!serves(&definition("v1beta1", false, "True"), &kind));
        assert!(!serves(&definition("v1beta1", true, "False"), &kind));
        assert!(!serves(&definition("v1alpha1", true, "True"), &kind));
    }

    #[test]
    fn missing_kinds_are_reported_with_the_install_command() {
        let missing = Missing::default();
        assert!(missing.check().is_err());
        *missing.0.lock() = Some(vec!["works.placement.kubernetes-fleet.io v1beta1".to_owned()]);
        assert_eq!(
            missing.check().unwrap_err(),
            "the API server does not serve works.placement.kubernetes-fleet.io v1beta1; run: kubefleet crds | \
             kubectl apply --server-side -f -"
        );
        *missing.0.lock() = Some(Vec::new());
        assert_eq!(missing.check(), Ok(()));
        let kinds = vec![
            KindId::new("", "v1", "Namespace", "namespaces"),
            KindId::new(PLACEMENT_GROUP, "v1beta1", "Work", "works"),
        ];
        assert_eq!(ours(kinds).len(), 1);
    }
}
