//! Names parse back, limits hold, and formulas give KubeFleet's names.

use proptest::prelude::*;

use super::*;
use crate::types::EnvelopeType;

fn placement(text: &str) -> PlacementName {
    PlacementName::parse(text).unwrap()
}

fn cluster(text: &str) -> ClusterName {
    ClusterName::parse(text).unwrap()
}

#[test]
fn every_declared_name_has_a_limit_and_refuses_invalid_names() {
    for (name, max, accepts) in DECLARED {
        assert!(accepts(&"a".repeat((*max).min(63))), "{name} takes a name of its longest length");
        assert!(!accepts(&"a".repeat(max + 1)), "{name} refuses one byte more");
        for bad in ["", "A", "a_b", "-a", "a-", "a b", "a/b", "ä"] {
            assert!(!accepts(bad), "{name} refuses {bad:?}");
        }
    }
}

#[test]
fn an_error_says_which_name_is_invalid() {
    let error = StageName::parse("Canary-1").unwrap_err();
    assert_eq!(
        error.to_string(),
        "\"Canary-1\" cannot be the name of a stage: must consist of lower case letters and digits"
    );
    let error = ClusterName::parse(&"m".repeat(64)).unwrap_err();
    assert!(error.to_string().ends_with("must be no more than 63 bytes"), "{error}");
}

#[test]
fn indices_are_decimal_without_padding() {
    assert_eq!(Index::parse("0"), Some(Index(0)));
    assert_eq!(Index::parse("17"), Some(Index(17)));
    for bad in ["", "00", "01", "+1", "-1", "1.0", "x", "99999999999"] {
        assert_eq!(Index::parse(bad), None, "{bad:?}");
    }
    assert_eq!(Index(9).next(), Index(10));
}

#[test]
fn formulas_give_the_references_texts() {
    let crp = PlacementKey::cluster_scoped(placement("web"));
    let rp = PlacementKey::namespaced(NamespaceName::parse("app").unwrap(), placement("web"));
    assert_eq!(PolicySnapshotName { placement: placement("web"), index: Index(3) }.to_string(), "web-3");
    let snapshot = |part| ResourceSnapshotName { placement: placement("web"), index: Index(3), part }.to_string();
    assert_eq!(snapshot(SnapshotPart::Master), "web-3-snapshot");
    assert_eq!(snapshot(SnapshotPart::Sub(Index(0))), "web-3-0");
    assert_eq!(WorkName::of_snapshot(&crp, SnapshotPart::Master).to_string(), "web-work");
    assert_eq!(WorkName::of_snapshot(&rp, SnapshotPart::Sub(Index(1))).to_string(), "app.web-1");
    let envelope = WorkName::of_envelope(&rp, SnapshotPart::Master, EnvelopeType::ResourceEnvelope, "app", "env");
    assert_eq!(envelope.to_string(), "app.web-work-envelope-7efbd00be75b5f4b");
    assert_eq!(MemberNamespace::of(&cluster("member1")).unwrap().to_string(), "fleet-member-member1");
    assert_eq!(MemberRoleName(cluster("member1")).to_string(), "fleet-role-member1");
    assert_eq!(MemberRoleBindingName(cluster("member1")).to_string(), "fleet-rolebinding-member1");
    let request = ApprovalRequestName {
        run: RunName::parse("run-after-x").unwrap(),
        position: GatePosition::Before,
        stage: StageName::parse("canary").unwrap(),
    };
    assert_eq!(request.to_string(), "run-after-x-before-canary");
    assert_eq!(ApprovalRequestName::parse("run-after-x-before-canary"), Some(request));
    assert_eq!(crp.to_string(), "web");
    assert_eq!(rp.to_string(), "app/web");
}

#[test]
fn binding_names_are_cut_to_a_dns_label() {
    let suffix = BindingSuffix::from_bits(0x00ab_cdef);
    let short = BindingName::new(&placement("web"), &cluster("member1"), &suffix).unwrap();
    assert_eq!(short.as_str(), "web-member1-00abcdef");
    let long = BindingName::new(&placement(&"p".repeat(63)), &cluster(&"c".repeat(63)), &suffix).unwrap();
    assert_eq!(long.as_str().len(), 63);
    assert_eq!(BindingName::suffix(long.as_str()), Some(suffix.clone()));
    assert!(BindingName::new(&placement("a.b"), &cluster("member1"), &suffix).is_err());
    assert!(BindingName::new(&placement(&format!("{}.b", "a".repeat(30))), &cluster("member1"), &suffix).is_ok());
}

#[test]
fn evictions_of_a_drain_are_recognised_by_name() {
    let suffix = BindingSuffix::from_bits(0x00ab_cdef);
    let name = DrainEvictionName::new(&placement("web"), &cluster("member-1"), &suffix);
    assert_eq!(name.as_str(), "drain-eviction-web-member-1-00abcdef");
    assert!(DrainEvictionName::is_one(name.as_str(), &placement("web"), &cluster("member-1")));
    assert!(!DrainEvictionName::is_one(name.as_str(), &placement("web"), &cluster("member")));
    assert!(!DrainEvictionName::is_one(
        "drain-eviction-web-member-1-1-00abcdef",
        &placement("web"),
        &cluster("member-1")
    ));
    let long = DrainEvictionName::new(&placement(&"p".repeat(63)), &cluster(&"c".repeat(63)), &suffix);
    assert_eq!(validation::dns1123_subdomain(long.as_str()), Vec::<String>::new());
}

#[test]
fn a_member_name_over_fifty_bytes_has_no_namespace() {
    assert!(MemberNamespace::of(&cluster(&"m".repeat(50))).is_ok());
    assert!(MemberNamespace::of(&cluster(&"m".repeat(51))).is_err());
    assert_eq!(MemberNamespace::cluster_of("fleet-member-member1"), Some(cluster("member1")));
    assert_eq!(MemberNamespace::cluster_of("fleet-system"), None);
}

#[test]
fn a_key_with_two_slashes_is_refused() {
    let error = PlacementKey::parse("a/b/c").unwrap_err();
    assert_eq!(error.to_string(), "\"a/b/c\" is not a placement key; it is either NAME or NAMESPACE/NAME");
}

fn name() -> impl Strategy<Value = String> {
    // Names that look like our own suffixes are the hard cases of parsing.
    prop_oneof!["[a-z0-9]([a-z0-9-]{0,20}[a-z0-9])?", "[a-z]{1,4}(-(0|12|work|snapshot|before|after|envelope)){0,3}"]
}

fn part() -> impl Strategy<Value = SnapshotPart> {
    prop_oneof![Just(SnapshotPart::Master), any::<u32>().prop_map(|subindex| SnapshotPart::Sub(Index(subindex)))]
}

proptest! {
    #[test]
    fn derived_names_parse_back(
        owner in name(), stage in "[a-z0-9]{1,10}", index in any::<u32>(), part in part(), after in any::<bool>(),
        namespace in proptest::option::of("[a-z][a-z0-9-]{0,10}[a-z0-9]"),
    ) {
        let index = Index(index);
        let policy = PolicySnapshotName { placement: placement(&owner), index };
        prop_assert_eq!(PolicySnapshotName::parse(&policy.to_string()), Some(policy));
        let snapshot = ResourceSnapshotName { placement: placement(&owner), index, part };
        prop_assert_eq!(ResourceSnapshotName::parse(&snapshot.to_string()), Some(snapshot));
        let frozen = OverrideSnapshotName { override_name: OverrideName::parse(&owner).unwrap(), index };
        prop_assert_eq!(OverrideSnapshotName::parse(&frozen.to_string()), Some(frozen));
        let position = if after { GatePosition::After } else { GatePosition::Before };
        let request = ApprovalRequestName {
            run: RunName::parse(&owner).unwrap(), position, stage: StageName::parse(&stage).unwrap(),
        };
        prop_assert_eq!(ApprovalRequestName::parse(&request.to_string()), Some(request));
        let key = PlacementKey { namespace: namespace.map(|n| NamespaceName::parse(&n).unwrap()), name: placement(&owner) };
        prop_assert_eq!(PlacementKey::parse(&key.to_string()), Ok(key.clone()));
        let work = WorkName::of_snapshot(&key, part);
        prop_assert_eq!(WorkName::parse(&work.to_string()), Some(work));
        let enveloped = WorkName::of_envelope(&key, part, EnvelopeType::ClusterResourceEnvelope, "", &owner);
        prop_assert_eq!(WorkName::parse(&enveloped.to_string()), Some(enveloped));
    }

    #[test]
    fn reading_any_text_never_panics(text in ".{0,80}") {
        let _ = (
            PolicySnapshotName::parse(&text), ResourceSnapshotName::parse(&text), WorkName::parse(&text),
            ApprovalRequestName::parse(&text), PlacementKey::parse(&text).is_ok(), BindingName::suffix(&text),
            MemberNamespace::cluster_of(&text), OverrideSnapshotName::parse(&text),
        );
    }
}
