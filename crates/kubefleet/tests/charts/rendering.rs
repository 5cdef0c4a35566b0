//! What Helm renders is complete, our programs accept it, and contradictory values are rejected.

use std::path::Path;

use base64::Engine as _;
use expect_test::expect;
use serde_json::Value;

use crate::CHARTS;
use crate::chart::{Container, containers, helm, rendered};
use crate::values::{HUB_ALL, MEMBER_ALL};

fn of_kind<'a>(objects: &'a [Value], kind: &str) -> Vec<&'a Value> {
    objects.iter().filter(|object| object["kind"] == kind).collect()
}

fn listed(objects: &[Value]) -> String {
    let text = |value: &Value| value.as_str().unwrap_or("-").to_owned();
    let place =
        |object: &Value| [&object["kind"], &object["metadata"]["namespace"], &object["metadata"]["name"]].map(text);
    let others = objects.iter().filter(|object| object["kind"] != "CustomResourceDefinition");
    let mut lines: Vec<String> = others.map(|object| place(object).join(" ") + "\n").collect();
    lines.sort();
    lines.concat()
}

#[test]
#[ignore = "builds Helm from source when the cache is empty"]
fn helm_lint_accepts_the_charts_with_helm() {
    for chart in CHARTS {
        let said = helm(&["lint", "--strict", &format!("charts/{chart}")], "").unwrap();
        assert!(said.contains("1 chart(s) linted, 0 chart(s) failed"), "{said}");
    }
}

#[test]
#[ignore = "builds Helm from source when the cache is empty"]
fn objects_have_the_names_that_upgrades_and_agents_rely_on_with_helm() {
    let hub = rendered("hub-agent", "").unwrap();
    expect![[r#"
        ClusterRole - hub-agent-role
        ClusterRoleBinding - hub-agent-role-binding
        Deployment fleet-system hub-agent
        Role fleet-system hub-agent-inventory
        Role fleet-system hub-agent-lease
        RoleBinding fleet-system hub-agent-inventory
        RoleBinding fleet-system hub-agent-lease
        Service fleet-system fleetwebhook
        ServiceAccount fleet-system hub-agent-sa
        ValidatingAdmissionPolicy - hub-agent-namespace-writes
        ValidatingAdmissionPolicyBinding - hub-agent-namespace-writes
    "#]]
    .assert_eq(&listed(&hub));
    expect![[r#"
        Certificate fleet-elsewhere fleet-webhook-certificate
        ClusterRole - the-hub-agent-role
        ClusterRoleBinding - the-hub-agent-role-binding
        ConfigMap fleet-elsewhere the-hub-agent-config
        Deployment fleet-elsewhere the-hub-agent
        Issuer fleet-elsewhere fleet-selfsigned-issuer
        NetworkPolicy fleet-elsewhere the-hub-agent
        PodDisruptionBudget fleet-elsewhere the-hub-agent
        Role fleet-elsewhere the-hub-agent-lease
        Role fleet-system the-hub-agent-inventory
        RoleBinding fleet-elsewhere the-hub-agent-lease
        RoleBinding fleet-system the-hub-agent-inventory
        Service fleet-elsewhere fleetwebhook
        ServiceAccount fleet-elsewhere the-hub-agent-sa
    "#]]
    .assert_eq(&listed(&rendered("hub-agent", HUB_ALL).unwrap()));
    let member = rendered("member-agent", "").unwrap();
    expect![[r#"
        ClusterRole - member-agent-role
        ClusterRoleBinding - member-agent-cluster-admin-binding
        Deployment fleet-system member-agent
        ServiceAccount fleet-system member-agent-sa
    "#]]
    .assert_eq(&listed(&member));
    expect![[r#"
        ClusterRole - the-member-agent-role
        ClusterRoleBinding - the-member-agent-cluster-admin-binding
        Deployment fleet-elsewhere the-member-agent
        NetworkPolicy fleet-elsewhere the-member-agent
        PodDisruptionBudget fleet-elsewhere the-member-agent
        Secret fleet-elsewhere cloud-config
        ServiceAccount fleet-elsewhere the-member-agent-sa
    "#]]
    .assert_eq(&listed(&rendered("member-agent", MEMBER_ALL).unwrap()));

    let definitions = |objects: &[Value]| {
        let all = of_kind(objects, "CustomResourceDefinition");
        let kept = |one: &&Value| one["metadata"]["annotations"]["helm.sh/resource-policy"] == "keep";
        assert!(all.iter().all(kept), "no uninstallation takes what is stored");
        all.len()
    };
    assert_eq!((definitions(&hub), definitions(&member)), (27, 1));
}

#[test]
#[ignore = "builds Helm from source when the cache is empty"]
fn pods_run_without_rights_on_their_machine_and_are_probed_with_helm() {
    for (chart, port) in [("hub-agent", "healthz"), ("member-agent", "hubhealthz")] {
        let objects = rendered(chart, "").unwrap();
        let pod = &of_kind(&objects, "Deployment")[0]["spec"]["template"]["spec"];
        assert_eq!(pod["securityContext"]["runAsUser"], 65532);
        assert_eq!(pod["securityContext"]["runAsNonRoot"], true);
        for container in pod["containers"].as_array().unwrap() {
            let security = &container["securityContext"];
            assert_eq!(security["readOnlyRootFilesystem"], true);
            assert_eq!(security["allowPrivilegeEscalation"], false);
            assert_eq!(security["capabilities"]["drop"][0], "ALL");
        }
        let agent = &pod["containers"][0];
        let ports = agent["ports"].as_array().unwrap();
        assert!(ports.iter().any(|one| one["name"] == port && one["containerPort"] == 8081), "{ports:?}");
        for (probe, path) in [("livenessProbe", "/healthz"), ("readinessProbe", "/readyz")] {
            let asked = &agent[probe]["httpGet"];
            assert_eq!((asked["path"].as_str(), asked["port"].as_str()), (Some(path), Some(port)));
        }
    }
}

/// The containers of the Deployment.
fn deployed(objects: &[Value]) -> Vec<Container> {
    containers(of_kind(objects, "Deployment")[0])
}

/// Starts a container with an unreachable cluster: an error about the connection means that the flags were accepted.
fn is_understood(container: &Container, volumes: &Path, also: &[&str]) {
    let nowhere = volumes.join("nowhere");
    let output =
        container.command(volumes).arg(format!("--kubeconfig={}", nowhere.display())).args(also).output().unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    let expected = format!("cannot read the kubeconfig {}", nowhere.display());
    assert!(output.status.code() == Some(1) && said.contains(&expected), "{container:?}\n{said}");
}

/// Addresses that a hub agent opens before it connects.
const NO_ADDRESSES: [&str; 2] = ["--health-probe-bind-address=0", "--metrics-bind-address=0"];

#[test]
#[ignore = "builds Helm from source when the cache is empty"]
fn the_hub_agent_understands_its_command_line_with_helm() {
    let everything_off = "{enableWebhook: false, enablePprof: false, logFileMaxSize: 0, additionalConfigData: {a: b}}";
    for values in ["", HUB_ALL, everything_off, "{logFileMaxSize: '10000000'}", "{enableAdmissionPolicyManager: true}"]
    {
        let objects = rendered("hub-agent", values).unwrap();
        let volumes = tempfile::tempdir().unwrap();
        for map in of_kind(&objects, "ConfigMap") {
            let directory = volumes.path().join("additional-config");
            std::fs::create_dir_all(&directory).unwrap();
            for (name, text) in map["data"].as_object().unwrap() {
                std::fs::write(directory.join(name), text.as_str().unwrap()).unwrap();
            }
        }
        for container in deployed(&objects) {
            is_understood(&container, volumes.path(), &NO_ADDRESSES);
        }
    }
}

/// A certificate and its key, as in a Secret.
fn write_identity(directory: &Path) -> String {
    let key = rcgen::KeyPair::generate().unwrap();
    let certificate = rcgen::CertificateParams::new(vec!["east".to_owned()]).unwrap().self_signed(&key).unwrap().pem();
    std::fs::create_dir_all(directory).unwrap();
    for (name, text) in [("tls.key", &key.serialize_pem()), ("tls.crt", &certificate), ("ca.crt", &certificate)] {
        std::fs::write(directory.join(name), text).unwrap();
    }
    base64::engine::general_purpose::STANDARD.encode(certificate)
}

#[test]
#[ignore = "builds Helm from source when the cache is empty"]
fn the_member_agent_understands_its_command_line_and_environment_with_helm() {
    let volumes = tempfile::tempdir().unwrap();
    let authority = write_identity(&volumes.path().join("identity"));
    std::fs::create_dir(volumes.path().join("provider-token")).unwrap();
    std::fs::write(volumes.path().join("provider-token/token"), "token").unwrap();
    let (hub, trust) = ("hubURL: 'https://hub.test:6443', memberClusterName: east", format!("hubCA: {authority}"));
    let cases = [
        (format!("config: {{{hub}, {trust}}}"), "HUB_CERTIFICATE_AUTHORITY"),
        (format!("config: {{{hub}, hubCA: ''}}"), ""),
        (format!("{{useCAAuth: true, {MOUNTED}, config: {{{hub}, {trust}, {PATHS}}}}}"), "HUB_CERTIFICATE_AUTHORITY"),
        (MEMBER_ALL.to_owned(), "CA_BUNDLE"),
    ];
    for (values, trusted_by) in cases {
        let objects = rendered("member-agent", &values).unwrap();
        let agents = deployed(&objects);
        let set = ["CA_BUNDLE", "HUB_CERTIFICATE_AUTHORITY"].into_iter().filter(|name| agents[0].has_variable(name));
        assert_eq!(set.collect::<Vec<_>>().join(" "), trusted_by, "{values}");
        assert_eq!(agents.len(), if values.contains("useCAAuth") { 1 } else { 2 }, "{values}");
        is_understood(&agents[0], volumes.path(), &[]);
        if let [_, side_car] = &agents[..] {
            is_understood(side_car, volumes.path(), &[]);
        }
    }
}

const MOUNTED: &str = "extraVolumes: [{name: identity, secret: {secretName: a}}], \
                       extraVolumeMounts: [{name: identity, mountPath: /identity}]";
const PATHS: &str = "identityKey: /identity/tls.key, identityCert: /identity/tls.crt";

#[test]
#[ignore = "builds Helm from source when the cache is empty"]
fn only_values_that_are_set_become_flags_with_helm() {
    let hub = |values: &str| deployed(&rendered("hub-agent", values).unwrap()).remove(0);
    let member = |values: &str| deployed(&rendered("member-agent", values).unwrap()).remove(0);
    let skip = "--work-applier-requeue-rate-limiter-skip-to-fast-backoff-for-available-or-diff-reported-work-objs";
    assert!(!hub("").has_flag("--log_file_max_size"), "a value that is not set is no value");
    assert!(hub("logFileMaxSize: 10000000").has_argument("--log_file_max_size=10000000"), "not as 1e+07");
    assert!(
        hub("enableWebhook: false").has_argument("--enable-guard-rail=false"),
        "there is no guard rail without webhooks"
    );
    assert!(hub("").has_argument("--whitelisted-users=system:serviceaccount:fleet-system:hub-agent-sa"));
    assert!(!hub("").has_flag("--place-secrets") && !hub("").has_flag("--allowed-propagating-apis"));
    let placed = hub("{placeSecrets: false, placeableAPIGroups: [apps, example.com]}");
    assert!(placed.has_argument("--place-secrets=false"));
    assert!(placed.has_argument(
        "--allowed-propagating-apis=v1/ConfigMap,Endpoints,LimitRange,Namespace,PersistentVolume,PersistentVolumeClaim,\
         PodTemplate,ReplicationController,ResourceQuota,Service,ServiceAccount;\
         placement.kubernetes-fleet.io/v1beta1/ClusterResourceEnvelope,ResourceEnvelope;apps;example.com"
    ));
    assert!(!member("").has_flag(skip));
    assert!(member(MEMBER_ALL).has_argument(&format!("{skip}=false")), "it can be turned off");
    assert!(member("tlsClientInsecure: true").has_argument("--tls-insecure=true"));
}

#[test]
#[ignore = "builds Helm from source when the cache is empty"]
fn last_07_prices_come_from_a_config_map_with_helm() {
    let deployment = |values: &str| of_kind(&rendered("member-agent", values).unwrap(), "Deployment")[0].clone();
    let volume = |deployment: &Value| {
        let volumes = deployment["spec"]["template"]["spec"]["volumes"].as_array().cloned().unwrap_or_default();
        volumes.into_iter().find(|volume| volume["name"] == "prices").map(|volume| volume["configMap"]["name"].clone())
    };
    let set = deployment("{propertyProvider: azure, prices: {configMap: machine-prices, key: east.yaml}}");
    assert_eq!(volume(&set), Some(Value::from("machine-prices")));
    assert!(containers(&set)[0].has_argument("--price-file=/etc/kubefleet/prices/east.yaml"));
    for without in ["propertyProvider: azure", "prices: {configMap: machine-prices}"] {
        let unset = deployment(without);
        assert_eq!(volume(&unset), None, "{without}");
        assert!(!containers(&unset)[0].has_flag("--price-file"), "{without}");
    }
}

#[test]
#[ignore = "builds Helm from source when the cache is empty"]
fn last_08_the_chart_tracks_jobs_and_ingresses_only_if_enabled_with_helm() {
    let member = |values: &str| deployed(&rendered("member-agent", values).unwrap()).remove(0);
    assert!(member("").has_argument("--track-jobs-and-ingresses=false"));
    assert!(member("trackJobsAndIngresses: true").has_argument("--track-jobs-and-ingresses=true"));
}

#[test]
#[ignore = "builds Helm from source when the cache is empty"]
fn contradictory_values_are_refused_with_helm() {
    let cases = [
        ("hub-agent", "replicaCount: 2", "replicaCount > 1 requires useCertManager=true"),
        ("hub-agent", "useCertManager: true", "useCertManager=true requires enableWorkload=true"),
        (
            "hub-agent",
            "{enableAdmissionPolicyManager: true, admissionPolicyManagerConfigName: a}",
            "admissionPolicyManagerConfigName=a is no key of additionalConfigData",
        ),
        ("member-agent", "config: {provider: vault}", "config.provider=vault must be secret or azure"),
    ];
    for (chart, values, why) in cases {
        let said = rendered(chart, values).unwrap_err();
        assert!(said.contains(why), "{values}: {said}");
    }
    rendered("hub-agent", "{replicaCount: 2, useCertManager: true, enableWorkload: true}").unwrap();
}

#[test]
#[ignore = "builds Helm from source when the cache is empty"]
fn audit_19_network_policies_open_only_configured_ports_with_helm() {
    let opened = |chart: &str, values: &str| {
        let objects = rendered(chart, values).unwrap();
        let mut ports = Vec::new();
        for rule in of_kind(&objects, "NetworkPolicy")[0]["spec"]["ingress"].as_array().unwrap() {
            let who = if rule["from"].is_null() { "everybody" } else { "some" };
            ports.extend(rule["ports"].as_array().unwrap().iter().map(|port| format!("{} {who}", port["port"])));
        }
        ports.join(", ")
    };
    let from = "[{podSelector: {}}]";
    let enabled = "networkPolicy: {enabled: true}";
    assert_eq!(opened("hub-agent", enabled), "8081 everybody, 9443 everybody");
    assert_eq!(opened("hub-agent", &format!("{{{enabled}, enableWebhook: false}}")), "8081 everybody");
    let both = format!("networkPolicy: {{enabled: true, metricsFrom: {from}, webhooksFrom: {from}}}");
    assert_eq!(opened("hub-agent", &both), "8081 everybody, 8080 some, 9443 some");
    assert_eq!(opened("member-agent", enabled), "8081 everybody, 8091 everybody");
    let metrics = format!("networkPolicy: {{enabled: true, metricsFrom: {from}}}");
    assert_eq!(opened("member-agent", &metrics), "8081 everybody, 8091 everybody, 8080 some, 8090 some");
}

/// `--reuse-values` from an earlier release lacks the new values.
#[test]
#[ignore = "builds Helm from source when the cache is empty"]
fn audit_19_a_release_without_the_new_values_is_unchanged_with_helm() {
    let none = "placeSecrets: null, placeableAPIGroups: null, limitNamespaceWrites: null, networkPolicy: null, \
                podDisruptionBudget: null";
    assert_eq!(rendered("hub-agent", &format!("{{{none}}}")).unwrap(), rendered("hub-agent", "").unwrap());
    let none = "{networkPolicy: null, podDisruptionBudget: null}";
    assert_eq!(rendered("member-agent", none).unwrap(), rendered("member-agent", "").unwrap());
}
