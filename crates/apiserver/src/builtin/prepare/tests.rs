//! Created and updated objects, kind by kind.

use expect_test::{Expect, expect};

use super::*;
use crate::builtin::kind;

struct Fixture {
    pool: AddressPool,
    requester: Requester,
}

impl Fixture {
    fn new() -> Self {
        let requester =
            Requester { username: "jane".to_owned(), groups: vec!["dev".to_owned()], ..Requester::default() };
        Fixture { pool: AddressPool::default(), requester }
    }

    fn context(&self) -> Context<'_> {
        let now = "2026-01-01T00:00:00Z".parse().unwrap();
        Context { now, requester: &self.requester, addresses: &self.pool, dry_run: false }
    }

    fn create(&self, group: &str, name: &str, mut object: Value) -> Result<Value, Vec<FieldError>> {
        let kind = kind(group, "v1", name).unwrap();
        default(kind, &mut object).unwrap();
        prepare_create(kind, &mut object, &self.context())?;
        Ok(object)
    }

    fn update(&self, group: &str, name: &str, old: &Value, mut object: Value) -> Result<Value, Vec<FieldError>> {
        let kind = kind(group, "v1", name).unwrap();
        default(kind, &mut object).unwrap();
        prepare_update(kind, &mut object, old, &self.context())?;
        Ok(object)
    }
}

#[track_caller]
fn check_create(group: &str, name: &str, object: Value, pointer: &str, expected: &Expect) {
    let object = Fixture::new().create(group, name, object).unwrap();
    expected.assert_eq(&object.pointer(pointer).unwrap().to_string());
}

#[test]
fn a_status_sent_with_create_is_dropped() {
    let pod = json!({"spec": {"containers": [{"name": "c", "image": "i:1", "resources": {"limits": {"cpu": "1", "memory": "1Gi"}}}]}, "status": {"phase": "Running"}});
    check_create("", "Pod", pod, "/status", &expect![[r#"{"phase":"Pending","qosClass":"Guaranteed"}"#]]);
    check_create(
        "",
        "Pod",
        json!({"spec": {"containers": [{}], "schedulingGates": [{"name": "g"}]}}),
        "/status",
        &expect![[
            r#"{"conditions":[{"lastProbeTime":null,"lastTransitionTime":"2026-01-01T00:00:00Z","message":"Scheduling is blocked due to non-empty scheduling gates","reason":"SchedulingGated","status":"False","type":"PodScheduled"}],"phase":"Pending","qosClass":"BestEffort"}"#
        ]],
    );
    check_create("apps", "Deployment", json!({"status": {"replicas": 4}}), "/status", &expect![["{}"]]);
    check_create("", "Node", json!({"status": {"phase": "x"}}), "/status/phase", &expect![[r#""x""#]]);
    check_create(
        "",
        "Namespace",
        json!({"metadata": {"name": "n"}, "spec": {"finalizers": ["a.b/c"]}}),
        "",
        &expect![[
            r#"{"metadata":{"labels":{"kubernetes.io/metadata.name":"n"},"name":"n"},"spec":{"finalizers":["a.b/c","kubernetes"]},"status":{"phase":"Active"}}"#
        ]],
    );
    check_create(
        "",
        "PersistentVolume",
        json!({}),
        "/status",
        &expect![[r#"{"lastPhaseTransitionTime":"2026-01-01T00:00:00Z","phase":"Pending"}"#]],
    );
    check_create(
        "",
        "PersistentVolumeClaim",
        json!({"spec": {"dataSource": {"kind": "PersistentVolumeClaim", "name": "c"}}}),
        "",
        &expect![[
            r#"{"metadata":{},"spec":{"dataSource":{"apiGroup":null,"kind":"PersistentVolumeClaim","name":"c"},"dataSourceRef":{"apiGroup":null,"kind":"PersistentVolumeClaim","name":"c"},"resources":{},"volumeMode":"Filesystem"},"status":{"phase":"Pending"}}"#
        ]],
    );
    check_create(
        "apiregistration.k8s.io",
        "APIService",
        json!({"spec": {}}),
        "/status",
        &expect![[
            r#"{"conditions":[{"lastTransitionTime":"2026-01-01T00:00:00Z","message":"Local APIServices are always available","reason":"Local","status":"True","type":"Available"}]}"#
        ]],
    );
    check_create(
        "certificates.k8s.io",
        "CertificateSigningRequest",
        json!({"spec": {"username": "root"}}),
        "/spec",
        &expect![[r#"{"groups":["dev"],"request":null,"signerName":"","username":"jane"}"#]],
    );
    check_create(
        "",
        "ServiceAccount",
        json!({"secrets": [{"name": "s", "kind": "Secret"}]}),
        "/secrets",
        &expect![[r#"[{"name":"s"}]"#]],
    );
}

#[test]
fn generation_starts_and_moves_with_the_spec_only() {
    let fixture = Fixture::new();
    let old = fixture.create("apps", "Deployment", json!({"metadata": {"generation": 7}})).unwrap();
    assert_eq!(at(&old, "metadata.generation"), &json!(1));
    let mut new = old.clone();
    new["metadata"]["labels"] = json!({"a": "b"});
    new["status"] = json!({"replicas": 9});
    let same = fixture.update("apps", "Deployment", &old, new.clone()).unwrap();
    assert_eq!(at(&same, "metadata.generation"), &json!(1));
    assert_eq!(at(&same, "status"), &json!({}));
    new["metadata"]["annotations"] = json!({"a": "b"});
    assert_eq!(at(&fixture.update("apps", "Deployment", &old, new.clone()).unwrap(), "metadata.generation"), &json!(2));
    new["spec"]["replicas"] = json!(3);
    assert_eq!(at(&fixture.update("apps", "Deployment", &old, new).unwrap(), "metadata.generation"), &json!(2));
    let map = fixture.create("", "ConfigMap", json!({})).unwrap();
    assert!(at(&map, "metadata.generation").is_null());
    let changed = fixture.update("", "ConfigMap", &map, json!({"data": {"a": "b"}})).unwrap();
    assert!(at(&changed, "metadata.generation").is_null());
}

#[test]
fn a_status_write_changes_the_status_only() {
    let fixture = Fixture::new();
    let kind = kind("apps", "v1", "Deployment").unwrap();
    let old = fixture.create("apps", "Deployment", json!({"metadata": {"labels": {"a": "b"}}})).unwrap();
    let mut new = json!({"metadata": {"annotations": {"x": "y"}}, "spec": {"replicas": 9}, "status": {"replicas": 2, "readyReplicas": 0}});
    prepare_status_update(kind, &mut new, &old, &fixture.context());
    assert_eq!(at(&new, "spec"), at(&old, "spec"));
    assert_eq!(at(&new, "status"), &json!({"replicas": 2}));
    assert_eq!(at(&new, "metadata"), &json!({"annotations": {"x": "y"}, "labels": {"a": "b"}, "generation": 1}));
}

#[test]
fn a_job_selects_by_its_uid() {
    let job =
        json!({"metadata": {"name": "j", "uid": "u"}, "spec": {"template": {"metadata": {"labels": {"a": "b"}}}}});
    check_create(
        "batch",
        "Job",
        job.clone(),
        "/spec/selector",
        &expect![[r#"{"matchLabels":{"batch.kubernetes.io/controller-uid":"u"}}"#]],
    );
    check_create(
        "batch",
        "Job",
        job.clone(),
        "/spec/template/metadata",
        &expect![[
            r#"{"labels":{"a":"b","batch.kubernetes.io/controller-uid":"u","batch.kubernetes.io/job-name":"j","controller-uid":"u","job-name":"j"}}"#
        ]],
    );
    check_create(
        "batch",
        "Job",
        job.clone(),
        "/metadata",
        &expect![[
            r#"{"generation":1,"labels":{"a":"b","batch.kubernetes.io/controller-uid":"u","batch.kubernetes.io/job-name":"j","controller-uid":"u","job-name":"j"},"name":"j","uid":"u"}"#
        ]],
    );
    let mut manual = job;
    manual["spec"]["manualSelector"] = json!(true);
    check_create("batch", "Job", manual, "/spec/template/metadata/labels", &expect![[r#"{"a":"b"}"#]]);
}

#[test]
fn a_daemon_set_counts_its_templates() {
    let fixture = Fixture::new();
    let old = fixture.create("apps", "DaemonSet", json!({})).unwrap();
    let count = |set: &Value| at(set, "metadata.annotations")["deprecated.daemonset.template.generation"].clone();
    assert_eq!(count(&old), json!("1"));
    let mut new = old.clone();
    new["metadata"]["annotations"] = json!({});
    new["spec"]["minReadySeconds"] = json!(1);
    let new = fixture.update("apps", "DaemonSet", &old, new).unwrap();
    assert_eq!(count(&new), json!("1"));
    let mut third = new.clone();
    third["spec"]["template"]["metadata"]["labels"] = json!({"a": "b"});
    assert_eq!(count(&fixture.update("apps", "DaemonSet", &new, third).unwrap()), json!("2"));
}

#[test]
fn services_are_allocated_addresses_and_ports_and_keep_them() {
    let fixture = Fixture::new();
    let first =
        fixture.create("", "Service", json!({"spec": {"ports": [{"port": 80}], "selector": {"a": "b"}}})).unwrap();
    expect![[r#"{"clusterIP":"10.96.0.1","clusterIPs":["10.96.0.1"],"internalTrafficPolicy":"Cluster","ipFamilies":["IPv4"],"ipFamilyPolicy":"SingleStack","ports":[{"port":80,"protocol":"TCP","targetPort":80}],"selector":{"a":"b"},"sessionAffinity":"None","type":"ClusterIP"}"#]].assert_eq(&first["spec"].to_string());
    let change = json!({"spec": {"type": "NodePort", "ports": [{"port": 81}], "selector": {"a": "b"}}});
    let second = fixture.update("", "Service", &first, change).unwrap();
    expect![[r#"{"clusterIP":"10.96.0.1","clusterIPs":["10.96.0.1"],"externalTrafficPolicy":"Cluster","internalTrafficPolicy":"Cluster","ipFamilies":["IPv4"],"ipFamilyPolicy":"SingleStack","ports":[{"nodePort":30000,"port":81,"protocol":"TCP","targetPort":81}],"selector":{"a":"b"},"sessionAffinity":"None","type":"NodePort"}"#]].assert_eq(&second["spec"].to_string());
    let mut third = second.clone();
    third["spec"]["type"] = json!("ClusterIP");
    let third = fixture.update("", "Service", &second, third).unwrap();
    settle(kind("", "v1", "Service").unwrap(), &third, &second, true, &fixture.pool);
    expect![[r#"{"clusterIP":"10.96.0.1","clusterIPs":["10.96.0.1"],"internalTrafficPolicy":"Cluster","ipFamilies":["IPv4"],"ipFamilyPolicy":"SingleStack","ports":[{"port":81,"protocol":"TCP","targetPort":81}],"selector":{"a":"b"},"sessionAffinity":"None","type":"ClusterIP"}"#]].assert_eq(&third["spec"].to_string());
    assert_eq!(fixture.pool.take_port(Some(30_000), false), Ok(30_000), "the node port came back");
    let service = kind("", "v1", "Service").unwrap();
    release(service, &third, &fixture.pool);
    assert_eq!(fixture.pool.take_ip(None, true), Ok("10.96.0.1".to_owned()), "the address came back");
}

#[test]
fn headless_and_foreign_services() {
    check_create(
        "",
        "Service",
        json!({"spec": {"clusterIP": "None", "selector": {"a": "b"}}}),
        "/spec",
        &expect![[
            r#"{"clusterIP":"None","clusterIPs":["None"],"internalTrafficPolicy":"Cluster","ipFamilies":["IPv4"],"ipFamilyPolicy":"SingleStack","selector":{"a":"b"},"sessionAffinity":"None","type":"ClusterIP"}"#
        ]],
    );
    check_create(
        "",
        "Service",
        json!({"spec": {"clusterIP": "None"}}),
        "/spec",
        &expect![[
            r#"{"clusterIP":"None","clusterIPs":["None"],"internalTrafficPolicy":"Cluster","ipFamilies":["IPv4","IPv6"],"ipFamilyPolicy":"RequireDualStack","sessionAffinity":"None","type":"ClusterIP"}"#
        ]],
    );
    check_create(
        "",
        "Service",
        json!({"spec": {"type": "ExternalName", "externalName": "a.b"}}),
        "/spec",
        &expect![[r#"{"externalName":"a.b","sessionAffinity":"None","type":"ExternalName"}"#]],
    );
    let errors = Fixture::new()
        .create("", "Service", json!({"spec": {"ipFamilyPolicy": "RequireDualStack", "ports": [{"port": 1}]}}))
        .unwrap_err();
    expect![[r#"spec.ipFamilyPolicy: Invalid value: "RequireDualStack": this cluster is not configured for dual-stack services"#]].assert_eq(&errors[0].to_string());
    let errors = Fixture::new()
        .create("", "Service", json!({"spec": {"clusterIP": "1.2.3.4", "ports": [{"port": 1}]}}))
        .unwrap_err();
    expect![[r#"spec.clusterIPs: Invalid value: ["1.2.3.4"]: failed to allocate IP 1.2.3.4: the provided IP (1.2.3.4) is not in the valid range. The range of valid IPs is 10.96.0.0/16"#]].assert_eq(&errors[0].to_string());
}

#[test]
fn a_definition_remembers_every_storage_version() {
    let fixture = Fixture::new();
    let version = |name: &str, storage: bool| json!({"name": name, "storage": storage});
    let definition = |versions: Value| json!({"spec": {"names": {"kind": "A"}, "versions": versions}});
    let old = fixture
        .create("apiextensions.k8s.io", "CustomResourceDefinition", definition(json!([version("v1", true)])))
        .unwrap();
    let new = definition(json!([version("v1", false), version("v2", true)]));
    let new = fixture.update("apiextensions.k8s.io", "CustomResourceDefinition", &old, new).unwrap();
    assert_eq!(at(&new, "status.storedVersions"), &json!(["v1", "v2"]));
}
