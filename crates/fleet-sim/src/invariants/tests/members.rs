//! Invariants of agents' writes to members.

use super::*;
use crate::state::FORGED_REASON;

fn map(value: &str, owned: bool) -> Value {
    let owners = if owned { json!([{"kind": "AppliedWork", "name": "w"}]) } else { json!([]) };
    json!({"kind": "ConfigMap", "metadata": {"name": "m", "namespace": "shop", "ownerReferences": owners}, "data": {"k": value}})
}

/// A member with a Work that contains a ConfigMap and has this strategy.
fn with_work(strategy: Value) -> Writes {
    let mut writes = Writes::of(json!({}));
    writes.write(HUB, HUB_SERVER, "POST", &format!("{API}/namespaces/fleet-member-a/works"), work(strategy));
    writes
}

fn work(strategy: Value) -> Value {
    json!({
        "metadata": {"name": "w", "namespace": "fleet-member-a", "finalizers": ["x"]},
        "spec": {"applyStrategy": strategy, "workload": {"manifests": [map("1", false)]}},
    })
}

#[test]
fn only_objects_that_the_hub_deselected_are_deleted() {
    let mut writes = with_work(json!({}));
    writes.later(100);
    writes.on_member("a", "POST", map("1", true));
    writes.on_member("a", "DELETE", map("1", true));
    writes.check(expect!["configmaps shop/m is deleted on a although the hub wants it"]);
    writes.on_member(USER, "POST", map("1", true));
    writes.on_member(USER, "DELETE", map("1", true));
    writes.check(expect![""]);
    let mut other = map("1", false);
    other["metadata"]["name"] = "other".into();
    writes.on_member("a", "DELETE", other);
    writes.check(expect!["configmaps shop/other is deleted on a although it was never placed there"]);
    let applied_work = json!({"metadata": {"name": "w", "finalizers": ["x"]}});
    writes.write("a", "a", "POST", &format!("{API}/appliedworks"), applied_work.clone());
    writes.write("a", "a", "DELETE", &format!("{API}/appliedworks"), deleting(applied_work.clone()));
    writes.check(expect!["the AppliedWork w is deleted on a although the hub wants it"]);
    writes.write(
        HUB,
        HUB_SERVER,
        "DELETE",
        &format!("{API}/namespaces/fleet-member-a/works"),
        deleting(work(json!({}))),
    );
    writes.write("a", "a", "DELETE", &format!("{API}/appliedworks"), deleting(applied_work));
    writes.on_member("a", "DELETE", map("1", true));
    writes.check(expect![""]);
}

#[test]
fn nothing_is_rewritten_needlessly() {
    let mut writes = with_work(json!({}));
    let in_generation = |generation: u32| {
        let mut map = map("1", true);
        map["metadata"]["generation"] = generation.into();
        map
    };
    let settled = 2 * LAG.stale.as_secs() + 10;
    writes.on_member("a", "POST", in_generation(1));
    writes.later(settled);
    writes.on_member(USER, "PATCH", in_generation(3));
    writes.on_member("a", "PATCH", in_generation(4));
    writes.later(settled);
    let mut other = work(json!({}));
    other["spec"]["workload"]["manifests"][0]["data"]["k"] = "2".into();
    writes.write(HUB, HUB_SERVER, "PATCH", &format!("{API}/namespaces/fleet-member-a/works"), other);
    writes.on_member("a", "PATCH", in_generation(5));
    writes.on_member("a", "PATCH", in_generation(5));
    writes.check(expect![""]);
    writes.later(settled);
    // A new object of the same name counts separately.
    writes.on_member("a", "POST", in_generation(1));
    writes.on_member(USER, "PATCH", in_generation(2));
    writes.on_member("a", "PATCH", in_generation(3));
    writes.check(expect![""]);
    writes.later(settled);
    writes.on_member("a", "PATCH", in_generation(4));
    writes.check(expect!["configmaps shop/m is rewritten on a although nothing has changed"]);
}

#[test]
fn nothing_is_taken_over_or_applied_against_the_strategy() {
    for (strategy, there, expected) in [
        (json!({"whenToTakeOver": "Always"}), "other", expect![""]),
        (json!({"whenToTakeOver": "IfNoDiff"}), "1", expect![""]),
        (
            json!({"whenToTakeOver": "IfNoDiff"}),
            "other",
            expect!["configmaps shop/m is changed on a although it may not be taken over"],
        ),
        (
            json!({"whenToTakeOver": "Never"}),
            "1",
            expect!["configmaps shop/m is changed on a although it may not be taken over"],
        ),
    ] {
        let mut writes = with_work(strategy);
        writes.on_member(USER, "POST", map(there, false));
        writes.on_member("a", "PATCH", map("1", true));
        writes.check(expected);
    }
    let mut writes = with_work(json!({"whenToTakeOver": "Never"}));
    writes.on_member(USER, "POST", map("other", false));
    writes.on_member("a", "POST", map("1", true));
    writes.check(expect![""]);
    let mut writes = with_work(json!({"type": "ReportDiff"}));
    writes.on_member("a", "POST", map("1", true));
    writes.check(expect!["configmaps shop/m is changed on a although differences are only to be reported"]);
    writes.write(HUB, HUB_SERVER, "PATCH", &format!("{API}/namespaces/fleet-member-a/works"), work(json!({})));
    writes.on_member("a", "PATCH", map("2", true));
    writes.check(expect![""]);
}

/// A report of the member's agent on the current version of its Work.
fn report(writes: &mut Writes, mut work: Value, generation: i64) {
    work["metadata"]["generation"] = generation.into();
    work["status"] = json!({"conditions": [{"type": "Applied", "observedGeneration": generation}]});
    writes.write("a", HUB_SERVER, "PATCH", &format!("{API}/namespaces/fleet-member-a/works"), work);
}

#[test]
fn audit_20_deleting_and_recreating_a_desired_object_right_after_a_work_change_fails() {
    let mut writes = with_work(json!({}));
    writes.later(100);
    writes.on_member("a", "POST", map("1", true));
    let mut other = work(json!({}));
    other["metadata"]["generation"] = 2.into();
    other["spec"]["workload"]["manifests"][0]["data"]["k"] = "2".into();
    writes.write(HUB, HUB_SERVER, "PATCH", &format!("{API}/namespaces/fleet-member-a/works"), other);
    writes.later(1);
    writes.on_member("a", "DELETE", map("1", true));
    writes.on_member("a", "POST", map("2", true));
    writes.check(expect!["configmaps shop/m is deleted on a although the hub wants it"]);
}

#[test]
fn audit_20_a_version_that_the_agent_has_reported_on_excuses_no_deletion_for_an_older_one() {
    let without = |generation: i64| {
        let mut work = work(json!({}));
        work["metadata"]["generation"] = generation.into();
        work["spec"]["workload"]["manifests"] = json!([]);
        work
    };
    let works = format!("{API}/namespaces/fleet-member-a/works");
    for (reported, expected) in
        [(false, expect![""]), (true, expect!["configmaps shop/m is deleted on a although the hub wants it"])]
    {
        let mut writes = with_work(json!({}));
        writes.later(100);
        writes.on_member("a", "POST", map("1", true));
        writes.write(HUB, HUB_SERVER, "PATCH", &works, without(2));
        writes.later(5);
        let mut again = work(json!({}));
        again["metadata"]["generation"] = 3.into();
        writes.write(HUB, HUB_SERVER, "PATCH", &works, again.clone());
        if reported {
            report(&mut writes, again, 3);
        }
        writes.on_member("a", "DELETE", map("1", true));
        writes.check(expected);
    }
}

#[test]
fn audit_20_a_restore_of_the_hub_excuses_no_deletion_of_an_object_of_its_work() {
    let mut writes = with_work(json!({}));
    writes.later(100);
    writes.on_member("a", "POST", map("1", true));
    writes.restore(&[("Work", work(json!({})))]);
    writes.check(expect![""]);
    writes.later(100);
    writes.on_member("a", "DELETE", map("1", true));
    writes.check(expect!["configmaps shop/m is deleted on a although the hub wants it"]);
}

#[test]
fn audit_20_needless_rewrites_of_config_maps_count() {
    let mut writes = with_work(json!({}));
    writes.later(100);
    writes.on_member("a", "POST", map("1", true));
    writes.later(2 * LAG.stale.as_secs() + 10);
    writes.on_member("a", "PATCH", map("2", true));
    writes.check(expect!["configmaps shop/m is rewritten on a although nothing has changed"]);
    writes.on_member("a", "PATCH", map("2", true));
    writes.check(expect!["configmaps shop/m is rewritten on a although nothing has changed"]);
    // One edit of a user justifies two writes: one to own the object, one to apply its manifest.
    writes.on_member(USER, "PATCH", map("by hand", true));
    writes.on_member("a", "PATCH", map("by hand", true));
    writes.on_member("a", "PATCH", map("1", true));
    writes.check(expect![""]);
    writes.on_member("a", "PATCH", map("2", true));
    writes.check(expect!["configmaps shop/m is rewritten on a although nothing has changed"]);
}

/// A Deployment that a Work contains.
fn workload(image: &str, owned: bool) -> Value {
    let owners = if owned { json!([{"kind": "AppliedWork", "name": "w"}]) } else { json!([]) };
    let template = json!({"spec": {"containers": [{"name": "main", "image": image}]}});
    let metadata = json!({"name": "web", "namespace": "shop", "ownerReferences": owners});
    json!({"kind": "Deployment", "metadata": metadata, "spec": {"template": template}})
}

#[test]
fn audit_20_take_over_and_report_diff_are_checked_for_every_kind() {
    let deployments = "/apis/apps/v1/namespaces/shop/deployments";
    let with = |strategy: Value| {
        let mut writes = Writes::of(json!({}));
        let mut work = work(strategy);
        work["spec"]["workload"]["manifests"] = json!([workload("web:1", false)]);
        writes.write(HUB, HUB_SERVER, "POST", &format!("{API}/namespaces/fleet-member-a/works"), work);
        writes
    };
    let mut writes = with(json!({"type": "ReportDiff"}));
    writes.write(USER, "a", "POST", deployments, workload("web:2", true));
    writes.write("a", "a", "PATCH", deployments, workload("web:1", true));
    writes.check(expect!["deployments shop/web is changed on a although differences are only to be reported"]);
    let mut labelled = workload("web:1", true);
    labelled["metadata"]["labels"] = json!({"app": "x"});
    writes.write("a", "a", "PATCH", deployments, labelled);
    writes.check(expect!["deployments shop/web is changed on a although differences are only to be reported"]);
    for (image, expected) in [
        ("web:1", expect![""]),
        ("web:2", expect!["deployments shop/web is changed on a although it may not be taken over"]),
    ] {
        let mut writes = with(json!({"whenToTakeOver": "IfNoDiff"}));
        writes.write(USER, "a", "POST", deployments, workload(image, false));
        writes.write("a", "a", "PATCH", deployments, workload("web:1", true));
        writes.check(expected);
    }
}

#[test]
fn audit_20_an_object_may_be_owned_but_not_changed_where_differences_are_only_reported() {
    let deployments = "/apis/apps/v1/namespaces/shop/deployments";
    let changed = "deployments shop/web is changed on a although differences are only to be reported";
    let not_taken_over = "deployments shop/web is changed on a although it may not be taken over";
    let foreign = |mut object: Value| {
        object["metadata"]["ownerReferences"] = json!([{"kind": "Application", "name": "shop"}]);
        object
    };
    let (there, wanted) = (workload("web:2", false), workload("web:1", true));
    for (take_over, before, after, expected) in [
        ("Always", there.clone(), workload("web:2", true), ""),
        ("Always", there.clone(), wanted.clone(), changed),
        ("Always", foreign(there.clone()), workload("web:2", true), changed),
        ("Always", workload("web:2", true), foreign(there.clone()), changed),
        ("Never", there.clone(), workload("web:2", true), not_taken_over),
        ("IfNoDiff", there, workload("web:2", true), not_taken_over),
        ("IfNoDiff", workload("web:1", false), wanted, ""),
    ] {
        let mut writes = Writes::of(json!({}));
        let mut work = work(json!({"type": "ReportDiff", "whenToTakeOver": take_over}));
        work["spec"]["workload"]["manifests"] = json!([workload("web:1", false)]);
        writes.write(HUB, HUB_SERVER, "POST", &format!("{API}/namespaces/fleet-member-a/works"), work);
        writes.write(USER, "a", "POST", deployments, before);
        writes.write("a", "a", "PATCH", deployments, after);
        assert_eq!(writes.violations(), expected, "{take_over}");
    }
}

#[test]
fn audit_20_a_forged_report_does_not_count_as_one_of_the_agent() {
    let works = format!("{API}/namespaces/fleet-member-a/works");
    let version = |generation: i64, manifests: Value, conditions: Value| {
        let mut work = work(json!({}));
        work["metadata"]["generation"] = generation.into();
        work["spec"]["workload"]["manifests"] = manifests;
        work["status"] = json!({"conditions": conditions});
        work
    };
    for (reason, expected) in [
        (FORGED_REASON, expect![""]),
        ("AllManifestsApplied", expect!["configmaps shop/m is deleted on a although the hub wants it"]),
    ] {
        let mut writes = Writes::of(json!({}));
        let reported = json!([
            {"type": "Applied", "reason": "AllManifestsApplied", "observedGeneration": 1},
            {"type": "Other", "reason": reason, "observedGeneration": 3},
        ]);
        writes.write(HUB, HUB_SERVER, "POST", &works, version(1, json!([map("1", false)]), json!([])));
        writes.on_member("a", "POST", map("1", true));
        writes.write(HUB, HUB_SERVER, "PATCH", &works, version(2, json!([]), json!([])));
        writes.write(HUB, HUB_SERVER, "PATCH", &works, version(3, json!([map("1", false)]), json!([])));
        // The agent keeps foreign conditions in the status that it writes.
        writes.write("a", HUB_SERVER, "PATCH", &works, version(3, json!([map("1", false)]), reported));
        writes.on_member("a", "DELETE", map("1", true));
        writes.check(expected);
    }
}

#[test]
fn audit_20_a_missing_object_may_be_created_and_applied_but_not_rewritten_again() {
    let mut writes = with_work(json!({}));
    let in_generation = |generation: u32| {
        let mut map = map("1", true);
        map["metadata"]["generation"] = generation.into();
        map
    };
    writes.on_member("a", "POST", in_generation(1));
    writes.later(2 * LAG.stale.as_secs() + 10);
    // The server has deleted the object with its namespace.
    writes.on_member("a", "POST", in_generation(1));
    writes.on_member("a", "PATCH", in_generation(2));
    writes.check(expect![""]);
    writes.on_member("a", "PATCH", in_generation(3));
    writes.check(expect!["configmaps shop/m is rewritten on a although nothing has changed"]);
}
