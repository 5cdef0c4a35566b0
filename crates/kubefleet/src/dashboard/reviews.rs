//! Who the viewer is for the hub, and what they may do. Actions that they may not perform are not offered; the hub decides in any case.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use fleet_api::kinds::{Approval, Cluster, Family, KindInfo, Namespaced, Obj, UpdateRun};
use fleet_dashboard::run::Offers;
use http::Method;
use serde_json::{Value, json};
use tokio::sync::Mutex;
use tokio::time::Instant;

use crate::cli::connection::Hub;
use crate::cli::objects::JSON;

/// How long an answer is reused.
const REUSED_FOR: Duration = Duration::from_secs(30);
const USER: &str = "/apis/authentication.k8s.io/v1/selfsubjectreviews";
const ACCESS: &str = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews";

pub(super) struct Reviews {
    hub: Arc<Hub>,
    user: Mutex<Option<(Instant, Option<String>)>>,
    offers: Mutex<BTreeMap<Option<String>, (Instant, Offers)>>,
}

impl Reviews {
    pub(super) fn of(hub: &Arc<Hub>) -> Self {
        Self { hub: hub.clone(), user: Mutex::default(), offers: Mutex::default() }
    }

    /// The name of the user, if the hub says it.
    pub(super) async fn user(&self) -> Option<String> {
        let mut kept = self.user.lock().await;
        if let Some((_, user)) = kept.as_ref().filter(|(at, _)| at.elapsed() < REUSED_FOR) {
            return user.clone();
        }
        let review =
            self.review(USER, &json!({"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"})).await;
        let user = review.and_then(|review| Some(review["status"]["userInfo"]["username"].as_str()?.to_owned()));
        *kept = Some((Instant::now(), user.clone()));
        user
    }

    /// What the user may do with the runs of a namespace, or with cluster-scoped ones.
    pub(super) async fn offers(&self, namespace: Option<&str>) -> Offers {
        let key = namespace.map(str::to_owned);
        let mut kept = self.offers.lock().await;
        if let Some((_, offers)) = kept.get(&key).filter(|(at, _)| at.elapsed() < REUSED_FOR) {
            return *offers;
        }
        let (approval, run) = (info::<Approval>(namespace), info::<UpdateRun>(namespace));
        let (approve, change_runs, create_runs) = tokio::join!(
            self.may(namespace, approval, "patch", Some("status")),
            self.may(namespace, run, "patch", None),
            self.may(namespace, run, "create", None),
        );
        let offers = Offers { approve, change_runs, create_runs };
        kept.insert(key, (Instant::now(), offers));
        offers
    }

    /// Without an answer the action is offered: the hub refuses it if it has to.
    async fn may(&self, namespace: Option<&str>, info: &KindInfo, verb: &str, subresource: Option<&str>) -> bool {
        let review = json!({
            "apiVersion": "authorization.k8s.io/v1", "kind": "SelfSubjectAccessReview",
            "spec": {"resourceAttributes": {
                "group": info.group, "version": info.storage_version(), "resource": info.plural, "verb": verb,
                "subresource": subresource.unwrap_or_default(), "namespace": namespace.unwrap_or_default(),
            }},
        });
        self.review(ACCESS, &review).await.is_none_or(|review| review["status"]["allowed"] == true)
    }

    async fn review(&self, path: &str, review: &Value) -> Option<Value> {
        self.hub.request(Method::POST, path, JSON, Some(review)).await.ok()
    }
}

fn info<F: Family>(namespace: Option<&str>) -> &'static KindInfo {
    if namespace.is_some() { Obj::<F, Namespaced>::INFO } else { Obj::<F, Cluster>::INFO }
}
