//! One healthy fleet, and each thing broken in it.

use std::fmt::Write as _;

use expect_test::{Expect, expect};
use fleet_api::kinds::MemberCluster;
use jiff::Timestamp;
use serde_json::json;

use super::*;

fn now() -> Timestamp {
    "2026-01-02T03:04:05Z".parse().unwrap()
}

fn agent(version: &str) -> AgentFacts {
    AgentFacts::Installed { version: version.to_owned(), wanted: 1, available: 1, by_helm: false }
}

fn server(context: &str) -> ServerFacts {
    ServerFacts {
        context: Some(context.to_owned()),
        kubernetes: Some("v1.34.4".to_owned()),
        clock_offset_seconds: Some(1),
        agent: Some(agent("0.2.0")),
        rejected_requests: Some(0),
        ..ServerFacts::default()
    }
}

fn member_cluster(heartbeat: &str) -> MemberCluster {
    let joined = json!({"type": "Joined", "status": "True", "reason": "r", "message": "", "lastTransitionTime": heartbeat,
        "observedGeneration": 1});
    let agent = json!({"type": "MemberAgent", "lastReceivedHeartbeat": heartbeat, "conditions": [
        {"type": "Joined", "status": "True", "reason": "r", "message": "", "lastTransitionTime": heartbeat}]});
    serde_json::from_value(json!({"metadata": {"name": "east", "generation": 1},
        "spec": {"identity": {"kind": "ServiceAccount", "name": "east", "namespace": "fleet-system"}},
        "status": {"conditions": [joined], "agentStatus": [agent]}}))
    .unwrap()
}

/// A fleet with one member, in which everything is fine.
fn healthy() -> Facts {
    let hub = ServerFacts { webhooks: Some(WebhookFacts::default()), ..server("hub") };
    let east = ServerFacts { token: Some(TokenFacts { expires: None }), ..server("east") };
    let object = member_cluster("2026-01-02T03:04:00Z");
    let member = MemberFacts { object, denied: Vec::new(), server: Some(east) };
    Facts { now: now(), program: "0.2.1".to_owned(), hub, members: vec![member] }
}

fn check(change: impl FnOnce(&mut Facts), expected: Expect) {
    let mut facts = healthy();
    change(&mut facts);
    let report = examine(&facts);
    let mut out = String::new();
    for one in &report.findings {
        assert!(!one.explanation.is_empty() && one.fix.steps.iter().any(|step| !step.command.is_empty()), "{one:?}");
        writeln!(out, "{:?} {:?} {}: {}", one.severity, one.check, one.subject, one.title).unwrap();
        for step in &one.fix.steps {
            writeln!(out, "  $ {}", step.command).unwrap();
        }
    }
    for one in &report.unchecked {
        writeln!(out, "unchecked {}: {}", one.what, one.why).unwrap();
    }
    expected.assert_eq(&out);
}

fn east(facts: &mut Facts) -> &mut ServerFacts {
    facts.members[0].server.as_mut().unwrap()
}

fn denied(namespace: Option<&str>) -> Denied {
    Denied {
        user: "system:serviceaccount:fleet-system:east".to_owned(),
        verb: "list".to_owned(),
        resource: "works.placement.kubernetes-fleet.io".to_owned(),
        namespace: namespace.map(str::to_owned),
    }
}

#[test]
fn a_healthy_fleet_has_no_findings() {
    check(|_| {}, expect![""]);
}

#[test]
fn versions_that_are_not_tested_together_are_reported() {
    check(
        |facts| facts.hub.kubernetes = Some("v1.31.9".to_owned()),
        expect![[r#"
        Warning Versions hub: Kubernetes v1.31.9 is not one of the tested versions, 1.32 to 1.35
          $ kubectl --context hub version
    "#]],
    );
    check(
        |facts| east(facts).kubernetes = Some("v1.36.0-alpha.1".to_owned()),
        expect![[r#"
        Warning Versions member east: Kubernetes v1.36.0-alpha.1 is not one of the tested versions, 1.32 to 1.35
          $ kubectl --context east version
    "#]],
    );
    check(|facts| east(facts).agent = Some(agent("0.1.9")), expect![""]);
    check(
        |facts| east(facts).agent = Some(agent("0.0.1")),
        expect![[r#"
        Warning Versions member east: the agent has version 0.0.1, this program 0.2.1
          $ kubefleet join east --context east
        Warning Versions member east: the member agent has version 0.0.1, the hub agent 0.2.0
          $ kubefleet join east --context east
    "#]],
    );
    check(|facts| facts.hub.agent = Some(agent("latest")), expect![""]);
}

#[test]
fn definitions_must_be_installed_served_and_equal() {
    let of = |name: &str, state| DefinitionFact { name: name.to_owned(), state };
    check(
        |facts| facts.hub.definitions = vec![of("a", DefinitionState::Missing), of("b", DefinitionState::Missing)],
        expect![[r#"
            Error Definitions hub: CustomResourceDefinitions are not installed: a and 1 more
              $ kubefleet install hub --context hub
        "#]],
    );
    check(
        |facts| facts.hub.definitions = vec![of("a", DefinitionState::NotServed)],
        expect![[r#"
        Error Definitions hub: CustomResourceDefinitions are installed, but the API server does not serve them: a
          $ kubefleet install hub --context hub
    "#]],
    );
    check(
        |facts| {
            east(facts).definitions = vec![of("appliedworks", DefinitionState::Different)];
            east(facts).agent =
                Some(AgentFacts::Installed { version: "0.2.0".to_owned(), wanted: 1, available: 1, by_helm: true });
        },
        expect![[r#"
            Warning Definitions member east: CustomResourceDefinitions are those of another release: appliedworks
              $ helm upgrade member-agent charts/member-agent --kube-context east -n fleet-system --reuse-values
        "#]],
    );
}

#[test]
fn an_agent_must_be_installed_and_run() {
    check(
        |facts| facts.hub.agent = Some(AgentFacts::Missing),
        expect![[r#"
        Error Agent hub: the hub agent is not installed in namespace fleet-system
          $ kubefleet install hub --context hub
    "#]],
    );
    check(
        |facts| {
            east(facts).agent =
                Some(AgentFacts::Installed { version: "0.2.0".to_owned(), wanted: 2, available: 0, by_helm: false });
        },
        expect![[r#"
            Error Agent member east: 0 of 2 pods of the member agent are available
              $ kubectl --context east -n fleet-system describe pods -l app.kubernetes.io/name=member-agent
              $ kubectl --context east -n fleet-system logs deployment/member-agent --tail=50
        "#]],
    );
}

#[test]
fn missing_permissions_are_named() {
    check(
        |facts| facts.hub.denied = vec![denied(None); 5],
        expect![[r#"
        Error Permissions hub: system:serviceaccount:fleet-system:east may not: list works.placement.kubernetes-fleet.io, list works.placement.kubernetes-fleet.io, list works.placement.kubernetes-fleet.io, 2 more
          $ kubefleet install hub --context hub
          $ kubectl --context hub auth can-i list works.placement.kubernetes-fleet.io --as system:serviceaccount:fleet-system:east
    "#]],
    );
    check(
        |facts| facts.members[0].denied = vec![denied(Some("fleet-member-east"))],
        expect![[r#"
        Error Permissions member east: system:serviceaccount:fleet-system:east may not: list works.placement.kubernetes-fleet.io in fleet-member-east
          $ kubectl --context hub -n fleet-system rollout restart deployment/hub-agent
          $ kubectl --context hub auth can-i list works.placement.kubernetes-fleet.io --as system:serviceaccount:fleet-system:east -n fleet-member-east
    "#]],
    );
}

#[test]
fn webhooks_must_exist_be_reachable_and_trusted() {
    let failing = |failure: &str| WebhookFacts { failure: Some(failure.to_owned()), ..WebhookFacts::default() };
    check(
        |facts| facts.hub.webhooks = Some(failing("dial tcp: connection refused")),
        expect![[r#"
        Error Webhooks hub: the API server cannot reach the webhooks: dial tcp: connection refused
          $ kubectl --context hub -n fleet-system rollout restart deployment/hub-agent
          $ kubectl --context hub -n fleet-system logs deployment/hub-agent --tail=50
    "#]],
    );
    check(
        |facts| facts.hub.webhooks = Some(failing("x509: unknown authority")),
        expect![[r#"
        Error Webhooks hub: the API server does not trust the certificate of the webhooks: x509: unknown authority
          $ kubectl --context hub -n fleet-system rollout restart deployment/hub-agent
          $ kubectl --context hub -n fleet-system logs deployment/hub-agent --tail=50
    "#]],
    );
    let missing = WebhookFacts { missing: vec!["fleet-validating".to_owned()], ..WebhookFacts::default() };
    check(
        |facts| facts.hub.webhooks = Some(missing),
        expect![[r#"
        Warning Webhooks hub: webhook configurations do not exist: fleet-validating
          $ kubectl --context hub -n fleet-system rollout restart deployment/hub-agent
          $ kubectl --context hub -n fleet-system logs deployment/hub-agent --tail=50
    "#]],
    );
    let without_ca = WebhookFacts { without_ca: vec!["fleet-validating".to_owned()], ..WebhookFacts::default() };
    check(
        |facts| facts.hub.webhooks = Some(without_ca),
        expect![[r#"
        Warning Webhooks hub: webhook configurations have no CA: fleet-validating
          $ kubectl --context hub -n fleet-system rollout restart deployment/hub-agent
          $ kubectl --context hub -n fleet-system logs deployment/hub-agent --tail=50
    "#]],
    );
}

#[test]
fn clocks_heartbeats_and_tokens_are_compared_with_the_time() {
    check(
        |facts| facts.hub.clock_offset_seconds = Some(11),
        expect![[r#"
        Warning Clock hub: the clock of the API server is 11 s ahead of that of this machine
          $ kubectl --context hub get --raw /version -v=8
    "#]],
    );
    check(
        |facts| east(facts).clock_offset_seconds = Some(-600),
        expect![[r#"
        Warning Clock member east: the clock of the API server is 600 s behind that of this machine
          $ kubectl --context east get --raw /version -v=8
    "#]],
    );
    check(
        |facts| facts.members[0].object = member_cluster("2026-01-02T02:00:00Z"),
        expect![[r#"
        Error Heartbeat member east: The agent of cluster east has sent no heartbeat since 2026-01-02T02:00:00Z
          $ kubectl --context east -n fleet-system logs deployment/member-agent --tail=50
          $ kubectl --context east -n fleet-system describe pods -l app.kubernetes.io/name=member-agent
    "#]],
    );
    let expires = |text: &str| Some(TokenFacts { expires: Some(text.parse().unwrap()) });
    check(
        |facts| east(facts).token = expires("2026-01-02T04:00:00Z"),
        expect![[r#"
        Warning Token member east: the token for the hub expires at 2026-01-02T04:00:00Z
          $ kubefleet join east --context east
    "#]],
    );
    check(
        |facts| east(facts).token = expires("2026-01-02T03:00:00Z"),
        expect![[r#"
        Error Token member east: the token for the hub expired at 2026-01-02T03:00:00Z
          $ kubefleet join east --context east
    "#]],
    );
    check(|facts| east(facts).token = expires("2026-02-02T03:00:00Z"), expect![""]);
}

#[test]
fn limits_that_were_hit_are_reported() {
    check(
        |facts| facts.hub.rejected_requests = Some(7),
        expect![[r#"
        Warning Limits hub: the API server has rejected 7 requests of service accounts: too many at once
          $ kubectl --context hub apply -f - <<'EOF'
        apiVersion: flowcontrol.apiserver.k8s.io/v1
        kind: FlowSchema
        metadata:
          name: fleet-agents
        spec:
          priorityLevelConfiguration:
            name: workload-high
          matchingPrecedence: 900
          distinguisherMethod:
            type: ByUser
          rules:
          - subjects:
            - kind: Group
              group:
                name: system:serviceaccounts:fleet-system
            resourceRules:
            - verbs: ['*']
              apiGroups: ['*']
              resources: ['*']
              namespaces: ['*']
              clusterScope: true
        EOF
    "#]],
    );
    check(
        |facts| facts.hub.large_request_refused = Some("413 Request Entity Too Large".to_owned()),
        expect![[r#"
        Error Limits hub: a request as large as a resource snapshot is refused: 413 Request Entity Too Large
          $ kubectl --context hub config view --minify
    "#]],
    );
}

#[test]
fn unread_objects_are_not_reported_as_healthy() {
    check(
        |facts| facts.members[0].server = None,
        expect![[r#"
        unchecked member east: the kubeconfig has no context named east
    "#]],
    );
    check(
        |facts| {
            facts.hub.unread.push(Unread { what: "the metrics".to_owned(), why: "forbidden".to_owned() });
            facts.hub.rejected_requests = None;
        },
        expect![[r#"
            unchecked the metrics: forbidden
        "#]],
    );
}

#[test]
fn names_of_contexts_cannot_become_commands() {
    check(
        |facts| {
            facts.hub.context = Some("$(id); x".to_owned());
            facts.hub.clock_offset_seconds = Some(60);
        },
        expect![[r#"
            Warning Clock hub: the clock of the API server is 60 s ahead of that of this machine
              $ kubectl --context '$(id); x' get --raw /version -v=8
        "#]],
    );
}
