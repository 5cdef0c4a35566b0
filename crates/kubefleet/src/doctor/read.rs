//! Reads the facts of an API server. What cannot be read is recorded as unread; secrets are looked at and dropped.

use std::fmt::Display;

use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD as BASE64, URL_SAFE_NO_PAD};
use fleet_api::kinds::{MemberCluster, PLACEMENT_API_VERSION};
use fleet_api::well_known::namespaces::{FLEET_SYSTEM, MEMBER_PREFIX};
use fleet_api::well_known::{DOMAIN, labels, webhook_configurations};
use fleet_core::diagnose::Unread;
use fleet_core::doctor::{AgentFacts, DefinitionFact, DefinitionState, Denied, ServerFacts, TokenFacts, WebhookFacts};
use fleet_core::membership::hub::MemberRole;
use fleet_runtime::{Clock, KindId};
use futures::stream::{self, StreamExt as _};
use http::Method;
use jiff::Timestamp;
use k8s_openapi::api::admissionregistration::v1::{MutatingWebhookConfiguration, ValidatingWebhookConfiguration};
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::Secret;
use kube::client::Body;
use serde_json::{Value, json};

use crate::cli::connection::{Hub, innermost};
use crate::cli::objects::{JSON, RequestFailure};
use crate::install::manifests::{self, Right};
use crate::install::target::{Named, is_established};

/// Requests that are made at the same time.
const REQUESTS_AT_ONCE: usize = 8;
/// The size of the largest resource snapshots.
const LARGE_REQUEST_BYTES: usize = 800 * 1024;
const SUBJECT_REVIEWS: &str = "/apis/authorization.k8s.io/v1/subjectaccessreviews";
/// The metric with the requests that priority and fairness has rejected.
const REJECTED: &str = "apiserver_flowcontrol_rejected_requests_total{";
/// Labels of flow schemas that requests of service accounts match.
const OF_SERVICE_ACCOUNTS: [&str; 2] = ["flow_schema=\"service-accounts\"", "flow_schema=\"fleet-agents\""];

/// The version of the API server, and how far its clock is ahead of the local one.
pub(super) async fn version(cluster: &Hub) -> anyhow::Result<(Option<String>, Option<i64>)> {
    let failed = |error: kube::Error| cluster.failed("read the version of the API server", &error);
    let request = http::Request::get("/version").body(Body::empty());
    let request = request.map_err(|error| failed(kube::Error::HttpError(error)))?;
    let answer = cluster.client.send(request).await.map_err(failed)?;
    let now = Clock::Real.now();
    let date = answer.headers().get(http::header::DATE).and_then(|value| value.to_str().ok()).and_then(date);
    let found: Value = cluster
        .request(Method::GET, "/version", JSON, None)
        .await
        .map_err(|failure| cluster.explain_failure("read the version of the API server", failure))?;
    let offset = date.map(|date| date.as_second() - now.as_second());
    Ok((found["gitVersion"].as_str().map(str::to_owned), offset))
}

/// A date of HTTP, such as `Sun, 06 Nov 1994 08:49:37 GMT`.
fn date(text: &str) -> Option<Timestamp> {
    jiff::fmt::rfc2822::parse(text).ok().map(|zoned| zoned.timestamp())
}

/// The facts of a server that does not answer.
pub(super) fn unreachable(why: &str) -> ServerFacts {
    let unread = vec![Unread { what: "the member".to_owned(), why: why.to_owned() }];
    ServerFacts { unread, ..ServerFacts::default() }
}

/// The hub, without its version.
pub(super) async fn hub(hub: &Hub) -> ServerFacts {
    let mut facts = ServerFacts { context: hub.context.clone(), ..ServerFacts::default() };
    let deployment = common(hub, &mut facts, manifests::HUB_AGENT, &manifests::hub_definitions()).await;
    let arguments = deployment.as_ref().map(arguments).unwrap_or_default();
    let serves = |flag: &str| !arguments.contains(&format!("{flag}=false"));
    if deployment.is_some() {
        let needed = manifests::hub_rights().into_iter().filter(|right| {
            // Flags of the agent that make permissions unnecessary.
            let is_everything = right.resource == "*" && right.group == "*" && right.verb != "patch";
            let is_webhook = right.group == "admissionregistration.k8s.io";
            (!is_everything || serves("--place-secrets")) && (!is_webhook || serves("--enable-webhook"))
        });
        let denied = denied(hub, &service_account("hub-agent-sa"), needed.collect()).await;
        facts.denied = or_unread(&mut facts, "the permissions of the hub agent", denied);
        if serves("--enable-webhook") {
            let webhooks = webhooks(hub).await;
            facts.webhooks = or_unread(&mut facts, "the webhooks", webhooks.map(Some));
        }
    }
    facts.large_request_refused = large_request(hub).await;
    let rejected = rejected_requests(hub).await;
    facts.rejected_requests = or_unread(&mut facts, "the metrics of the API server", rejected.map(Some));
    facts
}

pub(super) async fn member(member: &Hub) -> ServerFacts {
    let mut facts = ServerFacts { context: member.context.clone(), ..ServerFacts::default() };
    let found = version(member).await;
    (facts.kubernetes, facts.clock_offset_seconds) = or_unread(&mut facts, "the version", found);
    let deployment = common(member, &mut facts, manifests::MEMBER_AGENT, &manifests::member_definitions()).await;
    let Some(deployment) = deployment else { return facts };
    let denied = denied(member, &service_account("member-agent-sa"), manifests::member_rights()).await;
    facts.denied = or_unread(&mut facts, "the permissions of the member agent", denied);
    let token = token(member, &deployment).await;
    facts.token = or_unread(&mut facts, "the token for the hub", token);
    facts
}

/// What hub and members have in common. Returns the Deployment of the agent.
async fn common(cluster: &Hub, facts: &mut ServerFacts, agent: &str, definitions: &[Value]) -> Option<Value> {
    for definition in definitions {
        let name = definition["metadata"]["name"].as_str().unwrap_or_default().to_owned();
        match cluster.find_any(&Named::of(definition)).await {
            Ok(found) => {
                let state = definition_state(found.as_ref(), definition);
                facts.definitions.extend(state.map(|state| DefinitionFact { name, state }));
            }
            Err(error) => {
                facts.unread.push(Unread { what: format!("CustomResourceDefinition {name}"), why: error.to_string() });
                break;
            }
        }
    }
    let named = Named { kind: KindId::of::<Deployment>(), namespace: Some(FLEET_SYSTEM), name: agent };
    let deployment = match cluster.find_any(&named).await {
        Ok(deployment) => deployment,
        Err(error) => {
            facts.unread.push(Unread { what: format!("the Deployment {agent}"), why: error.to_string() });
            return None;
        }
    };
    facts.agent = Some(deployment.as_ref().map_or(AgentFacts::Missing, agent_facts));
    deployment
}

fn definition_state(found: Option<&Value>, ours: &Value) -> Option<DefinitionState> {
    let Some(found) = found else { return Some(DefinitionState::Missing) };
    if is_established(Some(found)).is_err() {
        return Some(DefinitionState::NotServed);
    }
    (!covers(&found["spec"], &ours["spec"])).then_some(DefinitionState::Different)
}

/// Whether everything of ours is in what was found. The API server adds defaults.
fn covers(found: &Value, ours: &Value) -> bool {
    match (found, ours) {
        (Value::Object(found), Value::Object(ours)) => {
            ours.iter().all(|(key, ours)| found.get(key).is_some_and(|found| covers(found, ours)))
        }
        (Value::Array(found), Value::Array(ours)) => {
            found.len() == ours.len() && found.iter().zip(ours).all(|(found, ours)| covers(found, ours))
        }
        (found, ours) => found == ours,
    }
}

fn agent_facts(deployment: &Value) -> AgentFacts {
    let image = deployment.pointer("/spec/template/spec/containers/0/image").and_then(Value::as_str);
    let tag = image.and_then(|image| image.rsplit('/').next()?.split_once(':')).map_or("latest", |(_, tag)| tag);
    AgentFacts::Installed {
        version: tag.split('@').next().unwrap_or_default().to_owned(),
        wanted: deployment["spec"]["replicas"].as_i64().unwrap_or(1),
        available: deployment["status"]["availableReplicas"].as_i64().unwrap_or_default(),
        by_helm: deployment["metadata"]["labels"][labels::MANAGED_BY] == "Helm",
    }
}

fn arguments(deployment: &Value) -> Vec<String> {
    let arguments = deployment.pointer("/spec/template/spec/containers/0/args").and_then(Value::as_array);
    arguments.into_iter().flatten().filter_map(Value::as_str).map(str::to_owned).collect()
}

fn service_account(name: &str) -> (String, Vec<String>) {
    let groups = ["system:serviceaccounts", "system:authenticated"].map(str::to_owned);
    let own = format!("system:serviceaccounts:{FLEET_SYSTEM}");
    (format!("system:serviceaccount:{FLEET_SYSTEM}:{name}"), [&groups[..], &[own]].concat())
}

/// The permissions that a user does not have.
async fn denied(
    cluster: &Hub,
    (user, groups): &(String, Vec<String>),
    needed: Vec<Right>,
) -> anyhow::Result<Vec<Denied>> {
    let reviews = stream::iter(needed).map(|right| async move {
        let attributes = json!({"group": right.group, "resource": right.resource, "subresource": right.subresource,
            "name": right.name, "verb": right.verb, "namespace": right.namespace});
        let review = json!({"apiVersion": "authorization.k8s.io/v1", "kind": "SubjectAccessReview",
            "spec": {"user": user, "groups": groups, "resourceAttributes": attributes}});
        let answer: Result<Value, RequestFailure> =
            cluster.request(Method::POST, SUBJECT_REVIEWS, JSON, Some(&review)).await;
        let answer = answer.map_err(|failure| cluster.explain_failure("check permissions", failure))?;
        let is_allowed = answer["status"]["allowed"] == true;
        anyhow::Ok((!is_allowed).then(|| right.denied(user)))
    });
    let answers: Vec<anyhow::Result<Option<Denied>>> = reviews.buffered(REQUESTS_AT_ONCE).collect().await;
    let mut denied = answers.into_iter().filter_map(Result::transpose).collect::<anyhow::Result<Vec<Denied>>>()?;
    denied.dedup();
    Ok(denied)
}

/// The permissions in its namespace on the hub that the identity of a member does not have; none if that cannot be checked.
pub(super) async fn denied_to_member(hub: &Hub, object: &MemberCluster) -> Vec<Denied> {
    let identity = &object.spec.identity;
    let user = match identity.kind.as_str() {
        "ServiceAccount" => format!("system:serviceaccount:{}:{}", identity.namespace, identity.name),
        "User" => identity.name.clone(),
        _ => return Vec::new(),
    };
    let namespace = format!("{MEMBER_PREFIX}{}", object.metadata.name.as_deref().unwrap_or_default());
    let is_ours = |group: &str| group.ends_with(DOMAIN);
    let rules = serde_json::to_value(MemberRole::rules()).unwrap_or_default();
    let needed = manifests::rights_of(&rules, Some(&namespace)).into_iter().filter(|right| is_ours(&right.group));
    denied(hub, &(user, Vec::new()), needed.collect()).await.unwrap_or_default()
}

/// The webhook configurations, and a placement as a dry run, for which the API server must call them.
async fn webhooks(hub: &Hub) -> anyhow::Result<WebhookFacts> {
    let mut facts = WebhookFacts::default();
    for (kind, name) in [
        (KindId::of::<MutatingWebhookConfiguration>(), webhook_configurations::MUTATING),
        (KindId::of::<ValidatingWebhookConfiguration>(), webhook_configurations::VALIDATING),
    ] {
        let Some(found) = hub.find_any(&Named { kind, namespace: None, name }).await? else {
            facts.missing.push(name.to_owned());
            continue;
        };
        let webhooks = found["webhooks"].as_array().map(Vec::as_slice).unwrap_or_default();
        let has_ca = |one: &Value| one["clientConfig"]["caBundle"].as_str().is_some_and(|ca| !ca.is_empty());
        if !webhooks.iter().all(has_ca) {
            facts.without_ca.push(name.to_owned());
        }
    }
    let placement = json!({"apiVersion": PLACEMENT_API_VERSION, "kind": "ClusterResourcePlacement",
        "metadata": {"name": "kubefleet-doctor"},
        "spec": {"resourceSelectors": [{"group": "", "version": "v1", "kind": "Namespace", "name": "default"}]}});
    let path = format!("{}?dryRun=All", manifests::kind_of(&placement).collection_path(None));
    if let Err(RequestFailure::Refused(kube::Error::Api(status))) =
        hub.request::<Value>(Method::POST, &path, JSON, Some(&placement)).await
        && status.message.contains("failed calling webhook")
    {
        let first = status.message.lines().next().unwrap_or_default();
        facts.failure = Some(first.rsplit_once("failed to call webhook: ").map_or(first, |(_, why)| why).to_owned());
    }
    Ok(facts)
}

/// Why a request as large as a snapshot is refused. The API server only validates it.
async fn large_request(hub: &Hub) -> Option<String> {
    let object = json!({"apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {"name": "kubefleet-doctor", "namespace": "default"},
        "data": {"large": "x".repeat(LARGE_REQUEST_BYTES)}});
    let path = format!("{}?dryRun=All", manifests::kind_of(&object).collection_path(Some("default")));
    match hub.request::<Value>(Method::POST, &path, JSON, Some(&object)).await {
        Err(RequestFailure::Refused(kube::Error::Api(status))) if status.code == 413 => {
            Some(status.message.lines().next().unwrap_or_default().to_owned())
        }
        Err(RequestFailure::Refused(error @ (kube::Error::Service(_) | kube::Error::HyperError(_)))) => {
            Some(innermost(&error))
        }
        _ => None,
    }
}

/// The requests of service accounts that priority and fairness has rejected.
async fn rejected_requests(hub: &Hub) -> anyhow::Result<u64> {
    let failed = |error: kube::Error| hub.failed("read the metrics of the API server", &error);
    let request = http::Request::get("/metrics").body(Vec::new());
    let text = hub.client.request_text(request.map_err(|error| failed(kube::Error::HttpError(error)))?).await;
    Ok(rejected(&text.map_err(failed)?))
}

fn rejected(metrics: &str) -> u64 {
    let is_ours = |line: &&str| line.starts_with(REJECTED) && OF_SERVICE_ACCOUNTS.iter().any(|one| line.contains(one));
    let values = metrics.lines().filter(is_ours).filter_map(|line| line.rsplit(' ').next()?.parse::<u64>().ok());
    values.sum()
}

/// When the token of the agent expires. Returns `None` without a Secret, as with a managed identity or a certificate.
async fn token(member: &Hub, deployment: &Value) -> anyhow::Result<Option<TokenFacts>> {
    let Some((namespace, name)) = token_place(deployment) else { return Ok(None) };
    let named = Named { kind: KindId::of::<Secret>(), namespace: Some(&namespace), name: &name };
    let Some(secret) = member.find_any(&named).await? else { return Ok(None) };
    let Some(token) = secret["data"]["token"].as_str().and_then(|data| BASE64.decode(data).ok()) else {
        return Ok(None);
    };
    Ok(Some(TokenFacts { expires: expiry(&String::from_utf8_lossy(&token)) }))
}

/// Namespace and name of the Secret that the side-car reads.
fn token_place(deployment: &Value) -> Option<(String, String)> {
    let side_car = deployment.pointer("/spec/template/spec/containers/1/args")?.as_array()?;
    let flag = |name: &str| side_car.iter().find_map(|word| Some(word.as_str()?.strip_prefix(name)?.to_owned()));
    (side_car.first()? == "secret").then_some(())?;
    Some((flag("--namespace=")?, flag("--name=")?))
}

/// The claim `exp` of a JSON Web Token; its signature does not matter here.
fn expiry(token: &str) -> Option<Timestamp> {
    let payload = URL_SAFE_NO_PAD.decode(token.trim().split('.').nth(1)?).ok()?;
    let claims: Value = serde_json::from_slice(&payload).ok()?;
    Timestamp::from_second(claims["exp"].as_i64()?).ok()
}

fn or_unread<T: Default>(facts: &mut ServerFacts, what: &str, found: Result<T, impl Display>) -> T {
    found.unwrap_or_else(|error| {
        facts.unread.push(Unread { what: what.to_owned(), why: error.to_string() });
        T::default()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_date_of_a_response_is_read() {
        let read = date("Sun, 06 Nov 1994 08:49:37 GMT").unwrap();
        assert_eq!(read.to_string(), "1994-11-06T08:49:37Z");
        assert_eq!(date("yesterday"), None);
    }

    #[test]
    fn only_rejections_of_service_accounts_are_counted() {
        let metrics = "# HELP x\n\
            apiserver_flowcontrol_rejected_requests_total{flow_schema=\"service-accounts\",reason=\"queue-full\"} 3\n\
            apiserver_flowcontrol_rejected_requests_total{flow_schema=\"global-default\",reason=\"queue-full\"} 9\n\
            apiserver_flowcontrol_rejected_requests_total{flow_schema=\"service-accounts\",reason=\"time-out\"} 4\n";
        assert_eq!(rejected(metrics), 7);
        assert_eq!(rejected(""), 0);
    }

    #[test]
    fn the_expiry_of_a_token_is_read_without_trusting_it() {
        let token = |claims: &str| format!("e30.{}.x", URL_SAFE_NO_PAD.encode(claims));
        assert_eq!(expiry(&token("{\"exp\": 0}")).unwrap().to_string(), "1970-01-01T00:00:00Z");
        assert_eq!(expiry(&token("{}")), None, "it never expires");
        for bad in ["", "a.b", "not a token", &token("{\"exp\": 99999999999999999}"), &token("\u{0}")] {
            assert_eq!(expiry(bad), None, "{bad:?}");
        }
    }

    #[test]
    fn defaults_that_the_server_adds_are_no_difference() {
        let ours = json!({"versions": [{"name": "v1", "schema": {"type": "object"}}]});
        let stored = json!({"conversion": {"strategy": "None"}, "versions": [{"name": "v1", "schema": {"type": "object"}, "x": 1}]});
        assert!(covers(&stored, &ours));
        let older = json!({"versions": [{"name": "v1", "schema": {"type": "string"}}]});
        assert!(!covers(&older, &ours) && !covers(&json!({"versions": []}), &ours));
    }

    #[test]
    fn versions_and_tokens_are_found_in_deployments() {
        let deployment = |image: &str, side_car: Value| {
            json!({"spec": {"replicas": 2, "template": {"spec": {"containers": [{"image": image}, {"args": side_car}]}}},
                "status": {"availableReplicas": 1}})
        };
        let secret = json!(["secret", "--name=hub-kubeconfig-secret", "--namespace=default", "--v=5"]);
        let found = deployment("mirror:5000/kubefleet/member-agent:0.1.0@sha256:00", secret);
        let expected = AgentFacts::Installed { version: "0.1.0".to_owned(), wanted: 2, available: 1, by_helm: false };
        assert_eq!(agent_facts(&found), expected);
        assert_eq!(token_place(&found), Some(("default".to_owned(), "hub-kubeconfig-secret".to_owned())));
        assert_eq!(token_place(&deployment("x", json!(["azure", "--clientid=me"]))), None);
    }
}
