//! Writes and awaits objects of any kind on one cluster: server-side apply with our field manager, deletion, and a watch of one
//! object with progress.

use std::pin::pin;
use std::time::{Duration, Instant};

use fleet_api::well_known::labels::MANAGED_BY;
use fleet_runtime::KindId;
use futures::StreamExt as _;
use http::Method;
use kube::core::WatchEvent;
use serde_json::{Value, json};

use super::manifests::kind_of;
use crate::cli::connection::Hub;
use crate::cli::objects::{JSON, RequestFailure, names_an_object};
use crate::output::{Hinted, progress};

const APPLY: &str = "application/apply-patch+yaml";
/// The field manager of everything that the commands apply.
const FIELD_MANAGER: &str = "kubefleet";
/// How often a command that waits says so.
const PROGRESS_EVERY: Duration = Duration::from_secs(10);
/// The tool of the charts, as it calls itself in the label of its objects.
const HELM: &str = "Helm";

/// What happens to fields that somebody else has set to other values.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Conflicts {
    Overwrite,
    Refuse,
}

/// An object by kind and name.
#[derive(Debug)]
pub(crate) struct Named<'a> {
    pub(crate) kind: KindId,
    pub(crate) namespace: Option<&'a str>,
    pub(crate) name: &'a str,
}

impl<'a> Named<'a> {
    pub(crate) fn of(object: &'a Value) -> Self {
        let text = |field: &str| object["metadata"][field].as_str();
        Self { kind: kind_of(object), namespace: text("namespace"), name: text("name").unwrap_or_default() }
    }

    fn path(&self) -> String {
        self.kind.object_path(self.namespace, self.name, None)
    }

    fn describe(&self) -> String {
        format!("{} {:?}", self.kind.kind, self.name)
    }
}

impl Hub {
    /// `context east (https://east:6443)`
    pub(crate) fn place(&self) -> String {
        match &self.context {
            Some(context) => format!("context {context} ({})", self.server),
            None => self.server.clone(),
        }
    }

    pub(crate) async fn find_any(&self, named: &Named<'_>) -> anyhow::Result<Option<Value>> {
        match self.request(Method::GET, &named.path(), JSON, None).await {
            Ok(object) => Ok(Some(object)),
            Err(RequestFailure::Refused(error)) if names_an_object(&error) => Ok(None),
            // A missing namespace or kind has no objects.
            Err(RequestFailure::Refused(kube::Error::Api(status))) if status.code == 404 => Ok(None),
            Err(failure) => Err(self.explain_failure(&format!("read the {}", named.describe()), failure)),
        }
    }

    /// Creates the object or changes the fields that we apply.
    pub(crate) async fn apply_any(&self, object: &Value, conflicts: Conflicts) -> anyhow::Result<Value> {
        let named = Named::of(object);
        let force = conflicts == Conflicts::Overwrite;
        let path = format!("{}?fieldManager={FIELD_MANAGER}&force={force}", named.path());
        let answer = self.request(Method::PATCH, &path, APPLY, Some(object)).await;
        answer.map_err(|failure| self.explain_failure(&format!("apply the {}", named.describe()), failure))
    }

    /// Deletes an object, what it owns first. Returns false if it does not exist.
    pub(crate) async fn delete_any(&self, named: &Named<'_>) -> anyhow::Result<bool> {
        let options = json!({"apiVersion": "v1", "kind": "DeleteOptions", "propagationPolicy": "Foreground"});
        match self.request::<Value>(Method::DELETE, &named.path(), JSON, Some(&options)).await {
            Ok(_) => Ok(true),
            Err(RequestFailure::Refused(kube::Error::Api(status))) if status.code == 404 => Ok(false),
            Err(failure) => Err(self.explain_failure(&format!("delete the {}", named.describe()), failure)),
        }
    }

    /// Fails if Helm manages the object.
    pub(crate) async fn refuse_helm(&self, named: &Named<'_>, instead: &str) -> anyhow::Result<()> {
        let found = self.find_any(named).await?.unwrap_or_default();
        if found["metadata"]["labels"][MANAGED_BY] != HELM {
            return Ok(());
        }
        Err(Hinted {
            what: format!("the {} of {} was installed with Helm", named.describe(), self.place()),
            hint: format!("use {instead}"),
        }
        .into())
    }

    /// Watches an object until `look` returns a value. `look` gets `None` while the object does not exist, and returns
    /// the present state in words as an error.
    pub(crate) async fn wait_for<T>(
        &self,
        named: &Named<'_>,
        patience: Duration,
        mut look: impl FnMut(Option<&Value>) -> Result<T, String>,
    ) -> anyhow::Result<T> {
        let begun = Instant::now();
        let mut state = String::new();
        let mut look = |object: Option<&Value>| match look(object) {
            Ok(done) => Some(done),
            Err(now) => {
                if now != state {
                    progress(&format!("    {now}"));
                }
                state = now;
                None
            }
        };
        let waiting = async {
            let mut waiting = pin!(self.watch_one(named, &mut look));
            let mut ticks = tokio::time::interval(PROGRESS_EVERY);
            ticks.tick().await;
            loop {
                tokio::select! {
                    done = &mut waiting => return done,
                    _ = ticks.tick() => progress(&format!("    still waiting, {} s", begun.elapsed().as_secs())),
                }
            }
        };
        match tokio::time::timeout(patience, waiting).await {
            Ok(done) => done,
            Err(_) => Err(anyhow::anyhow!("after {} s: {state}", patience.as_secs())),
        }
    }

    async fn watch_one<T>(
        &self,
        named: &Named<'_>,
        look: &mut impl FnMut(Option<&Value>) -> Option<T>,
    ) -> anyhow::Result<T> {
        let failed = |error: &kube::Error| self.failed(format!("watch the {}", named.describe()), error);
        let only = format!("fieldSelector=metadata.name%3D{}", named.name);
        let path = format!("{}?{only}", named.kind.collection_path(named.namespace));
        loop {
            let list: Value = self
                .request(Method::GET, &path, JSON, None)
                .await
                .map_err(|failure| self.explain_failure(&format!("watch the {}", named.describe()), failure))?;
            if let Some(done) = look(list["items"].get(0)) {
                return Ok(done);
            }
            let revision = list["metadata"]["resourceVersion"].as_str().unwrap_or_default();
            let request = http::Request::get(format!("{path}&watch=true&resourceVersion={revision}"));
            let request = request.body(Vec::new()).map_err(|error| failed(&kube::Error::HttpError(error)))?;
            let events = self.client.request_events::<Value>(request).await.map_err(|error| failed(&error))?;
            let mut events = pin!(events);
            while let Some(Ok(event)) = events.next().await {
                let seen = match &event {
                    WatchEvent::Added(object) | WatchEvent::Modified(object) => look(Some(object)),
                    WatchEvent::Deleted(_) => look(None),
                    WatchEvent::Bookmark(_) => None,
                    WatchEvent::Error(_) => break,
                };
                if let Some(done) = seen {
                    return Ok(done);
                }
            }
        }
    }

    /// Waits until an object is gone.
    pub(crate) async fn wait_until_gone(&self, named: &Named<'_>, patience: Duration) -> anyhow::Result<()> {
        let what = named.describe();
        let look = |object: Option<&Value>| match object {
            None => Ok(()),
            Some(_) => Err(format!("{what} is being deleted")),
        };
        self.wait_for(named, patience, look).await
    }
}

/// Whether the pods of a Deployment run its current version.
pub(crate) fn rolled_out(deployment: Option<&Value>) -> Result<(), String> {
    let Some(deployment) = deployment else { return Err("the Deployment does not exist yet".to_owned()) };
    let number = |field: &str| deployment["status"][field].as_i64().unwrap_or_default();
    let wanted = deployment["spec"]["replicas"].as_i64().unwrap_or(1);
    let is_current = number("observedGeneration") >= deployment["metadata"]["generation"].as_i64().unwrap_or_default();
    if is_current && number("updatedReplicas") >= wanted && number("availableReplicas") >= wanted {
        return Ok(());
    }
    Err(format!("{} of {wanted} pods of the agent are available", number("availableReplicas")))
}

/// Whether the API server serves the kind of a CustomResourceDefinition.
pub(crate) fn is_established(definition: Option<&Value>) -> Result<(), String> {
    let conditions = definition.and_then(|one| one["status"]["conditions"].as_array()).map(Vec::as_slice);
    let is_it = |one: &Value| one["type"] == "Established" && one["status"] == "True";
    let name = definition.and_then(|one| one["metadata"]["name"].as_str()).unwrap_or_default();
    if conditions.unwrap_or_default().iter().any(is_it) { Ok(()) } else { Err(format!("{name} is not served yet")) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rollout_is_complete_when_all_pods_of_the_current_version_are_available() {
        let deployment = |generation: i64, updated: i64, available: i64| {
            json!({"metadata": {"generation": 2}, "spec": {"replicas": 2}, "status": {
                "observedGeneration": generation, "updatedReplicas": updated, "availableReplicas": available}})
        };
        assert_eq!(rolled_out(Some(&deployment(2, 2, 2))), Ok(()));
        for (generation, updated, available) in [(1, 2, 2), (2, 1, 2), (2, 2, 1)] {
            assert!(rolled_out(Some(&deployment(generation, updated, available))).is_err());
        }
        assert!(rolled_out(Some(&json!({"metadata": {"generation": 1}}))).is_err(), "no status yet");
        assert!(rolled_out(None).is_err());
    }
}
