//! Refuses placements and related kinds in reserved namespaces.
//!
//! Members write in the namespaces `fleet-member-…`. Objects placed from a namespace reach other members, so nothing
//! may be placed from one in which a member can write. There are no exempt users.

use std::sync::LazyLock;

use serde_json::Value;

use super::lookups::Request;
use super::verdict::Verdict;
use crate::kinds::{
    ClusterResourcePlacementStatus, Family, KindInfo, KindVisitor, Obj, PLACEMENT_GROUP, Scope, ScopeKind, Work,
    visit_kinds,
};
use crate::well_known::namespaces;

/// The kinds that are neither admitted nor served in reserved namespaces: all namespaced kinds of the placement group
/// except those that the hub itself writes there (Works and copies of placements' statuses).
pub fn refused_kinds() -> &'static [&'static KindInfo] {
    static KINDS: LazyLock<Vec<&'static KindInfo>> = LazyLock::new(|| {
        struct Collect(Vec<&'static KindInfo>);
        impl KindVisitor for Collect {
            fn visit<F: Family, S: Scope>(&mut self) {
                self.0.push(Obj::<F, S>::INFO);
            }
        }
        let mut all = Collect(Vec::new());
        visit_kinds(&mut all);
        let written_by_hub = [Work::INFO.kind, ClusterResourcePlacementStatus::INFO.kind];
        all.0.retain(|info| {
            info.group == PLACEMENT_GROUP && info.scope == ScopeKind::Namespaced && !written_by_hub.contains(&info.kind)
        });
        all.0
    });
    &KINDS
}

/// Whether controllers must ignore an object of one of the [`refused_kinds`]. An object that is being deleted is not
/// ignored, because its finalizers must be removed.
pub fn is_ignored(object: &Value) -> bool {
    let metadata = &object["metadata"];
    metadata["namespace"].as_str().is_some_and(namespaces::is_reserved) && metadata["deletionTimestamp"].is_null()
}

pub(super) fn admit(request: &Request) -> Verdict {
    let namespace = &request.namespace;
    if !namespaces::is_reserved(namespace) {
        return Verdict::allowed("the namespace is not reserved");
    }
    let prefixes = namespaces::RESERVED_PREFIXES.join(" or ");
    let kind = &request.request_kind.kind;
    Verdict::forbidden(format!(
        "namespace {namespace} is reserved (its name starts with {prefixes}), so a {kind} in it is never acted on; use another namespace"
    ))
}

#[cfg(test)]
mod tests {
    use expect_test::expect;
    use serde_json::json;

    use super::super::fake_lookups::{FakeLookups, RP, object, request};
    use super::super::lookups::{AdmissionLookups as _, Operation};
    use super::super::webhooks::{Handler, configurations};
    use super::super::{Verdict, judge};
    use super::*;
    use crate::kinds::ResourceOverride;

    #[test]
    fn audit_06_the_kinds_that_reserved_namespaces_must_not_have() {
        let plurals: Vec<&str> = refused_kinds().iter().map(|info| info.plural).collect();
        expect![[r#"
            approvalrequests
            resourcebindings
            resourceenvelopes
            resourceoverrides
            resourceoverridesnapshots
            resourceplacements
            resourcesnapshots
            schedulingpolicysnapshots
            stagedupdateruns
            stagedupdatestrategies"#]]
        .assert_eq(&{
            let mut sorted = plurals;
            sorted.sort_unstable();
            sorted.join("\n")
        });
    }

    fn verdict(operation: Operation, info: &KindInfo, namespace: &str, change: impl Fn(&mut Value)) -> Verdict {
        let kind = format!("{}/v1beta1/{}", info.group, info.kind);
        let mut made = object(&kind, "x", json!({}));
        made["metadata"]["namespace"] = json!(namespace);
        change(&mut made);
        let asked = Request { resource: info.plural.to_owned(), ..request(operation, &kind, made) };
        let lookups = FakeLookups::default();
        let all = configurations(lookups.settings());
        let mut entries = all.iter().flat_map(|one| &one.entries);
        let entry = entries.find(|entry| entry.handler == Handler::ReservedNamespaces).unwrap();
        assert!(entry.matches(&asked, &lookups), "the API server asks about {asked:?}");
        judge(entry.handler, &asked, &lookups).from_entry(&entry.name)
    }

    #[test]
    fn audit_06_reserved_namespaces_refuse_placements_and_related_kinds() {
        for namespace in ["fleet-member-a", "fleet-system", "kube-system", "fleet-x", "kube-x"] {
            for info in refused_kinds() {
                for operation in [Operation::Create, Operation::Update] {
                    let refused = verdict(operation, info, namespace, |_| {});
                    let expected = format!(
                        "admission webhook \"fleet.reservednamespaces.validating\" denied the request: namespace \
                         {namespace} is reserved (its name starts with fleet- or kube-), so a {} in it is never acted \
                         on; use another namespace",
                        info.kind
                    );
                    assert_eq!(refused, Verdict::forbidden(expected), "{operation:?}");
                }
            }
        }
    }

    #[test]
    fn audit_06_terminating_objects_in_a_reserved_namespace_may_be_finalized() {
        let going = |made: &mut Value| made["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
        assert!(verdict(Operation::Update, ResourceOverride::INFO, "fleet-member-a", going).is_allowed());
        let mut made = object(RP, "x", json!({}));
        made["metadata"]["namespace"] = json!("fleet-member-a");
        assert!(is_ignored(&made));
        going(&mut made);
        assert!(!is_ignored(&made));
        made["metadata"] = json!({"namespace": "shop"});
        assert!(!is_ignored(&made));
    }
}
