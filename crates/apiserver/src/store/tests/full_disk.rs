//! A full disk: reads continue, writes are refused and leave no trace, and writes work again once there is room.

use std::collections::BTreeMap;
use std::time::Duration;

use parking_lot::Mutex;

use super::power_loss::opened;
use super::simulated_disk::SimulatedDisk;
use super::*;
use crate::auth::{Attributes, Rbac, Target, User};
use crate::discovery::info::health;
use crate::store::file_log::FileLog;
use crate::testing::{Fixture, builder};

/// Far longer than the log waits before it tries again.
const PATIENCE: Duration = Duration::from_mins(1);

/// Waits until writes are accepted again.
async fn writable(log: &FileLog) {
    let mut errors = log.write_errors();
    let accepted = tokio::time::timeout(PATIENCE, errors.wait_for(Option::is_none)).await;
    assert!(accepted.is_ok_and(|known| known.is_ok()), "writes are still refused");
}

/// Keeps the value of every object as commits say.
#[derive(Default)]
struct Mirror(Mutex<BTreeMap<String, String>>);

impl CommitObserver for Mirror {
    fn committed(&self, _: &StorageKey, kind: ChangeKind, entry: &Entry) {
        match kind {
            ChangeKind::Put => drop(self.0.lock().insert(entry.key.to_string(), entry.parse()["value"].to_string())),
            ChangeKind::Delete => drop(self.0.lock().remove(&*entry.key)),
        }
    }
}

fn everything(store: &Store) -> Vec<String> {
    printed(&store.peek_list(&resource(), None, None, usize::MAX, None).unwrap().entries)
}

#[tokio::test]
async fn audit_15_writes_that_do_not_fit_are_undone_and_reads_continue() {
    let disk = SimulatedDisk::new(None);
    let (log, _) = opened(&disk).unwrap();
    let store = Store::new("c", log.clone(), HistoryLimits::default());
    let other = Store::new("other", log.clone(), HistoryLimits::default());
    store.commit(vec![put("a", 1, Expect::Any), put("b", 1, Expect::Any)], &[]).await.unwrap();
    let mut watch = store.watch(&resource(), store.revision()).unwrap();
    let mirror = Arc::new(Mirror::default());
    store.observe_commits(mirror.clone());
    for round in 0..3 {
        let (before, revision) = (everything(&store), store.revision());
        // Not even the first of three writes fits.
        disk.set_room(Some(40));
        let writes =
            [vec![put("a", 7, Expect::Any)], vec![delete("b", Expect::Any)], vec![put("c", 7, Expect::Absent)]];
        let writes = writes.map(|changes| {
            let store = store.clone();
            async move { store.commit(changes, &[]).await }
        });
        let reading = async { store.list(&resource(), None, None, usize::MAX, None).await };
        let (outcomes, list) = futures::future::join(futures::future::join_all(writes), reading).await;
        for outcome in outcomes {
            assert!(matches!(outcome, Err(StoreError::LogFailed(_))), "round {round}: {outcome:?}");
        }
        assert_eq!((printed(&list.unwrap().entries), everything(&store)), (before.clone(), before.clone()));
        assert_eq!(store.revision(), revision, "as if nothing had been written");
        let mirrored: Vec<_> = mirror.0.lock().iter().map(|(key, value)| format!("{key}={value}@")).collect();
        assert!(before.iter().zip(&mirrored).all(|(stored, seen)| stored.starts_with(&**seen)), "{mirrored:?}");
        assert_eq!(mirrored.len(), before.len(), "observers are notified of undone writes");
        assert_eq!(printed(&store.get(&resource(), "a").await.unwrap()), [before[0].clone()]);
        assert!(store.get(&resource(), "c").await.unwrap().is_none());
        assert!(store.write_error().is_some_and(|why| why.contains("no storage space")), "{:?}", store.write_error());
        let refused = other.commit(vec![put("x", 1, Expect::Any)], &[]).await;
        assert!(matches!(refused, Err(StoreError::LogFailed(_))), "all clusters share the disk");

        disk.set_room(None);
        writable(&log).await;
        let value = 10 + round;
        let made = store.commit(vec![put("a", value, Expect::Any)], &[]).await.unwrap();
        assert!(made[0].revision > revision + 1, "a revision that was lost is not given again");
        assert_eq!(everything(&store)[0], format!("a={value}@{}", made[0].revision));
        let events = watch.next().await.unwrap();
        assert_eq!(printed(events.iter().map(|e| &e.entry)), printed(&made), "watches never see what was lost");
    }
    let expected = (everything(&store), store.revision());
    drop((store, other, log, watch));
    let (log, stores) = opened(&disk).unwrap();
    assert_eq!((everything(&stores["c"]), stores["c"].revision()), expected);
    drop((stores, log));
}

#[tokio::test]
async fn audit_15_a_snapshot_that_does_not_fit_loses_nothing() {
    let disk = SimulatedDisk::new(None);
    let (log, _) = opened(&disk).unwrap();
    let store = Store::new("c", log.clone(), HistoryLimits::default());
    store.commit(vec![put("a", 1, Expect::Any)], &[]).await.unwrap();
    // The new log cannot be begun, then the snapshot cannot be written; then both can.
    for (round, room) in [(2, Some(10)), (3, Some(100)), (4, None)] {
        disk.set_room(room);
        log.compact();
        // Only when the snapshot is done the next job is taken.
        log.compact();
        drop(store.commit(vec![put("b", 1, Expect::Any)], &[]).await);
        disk.set_room(None);
        writable(&log).await;
        store.commit(vec![put("a", round, Expect::Any)], &[]).await.unwrap();
        let found = opened(&disk.now().after_kill(None)).unwrap().1["c"].clone();
        assert_eq!((everything(&found), found.revision()), (everything(&store), store.revision()), "round {round}");
    }
    drop((store, log));
    let (_log, stores) = opened(&disk).unwrap();
    assert_eq!(everything(&stores["c"])[0][..3], *"a=4");
}

#[tokio::test]
async fn audit_15_clients_get_a_clear_error_and_the_etcd_check_fails_until_there_is_room() {
    let disk = SimulatedDisk::new(None);
    let (log, stores) = opened(&disk).unwrap();
    let fixture = Fixture::of(builder().opened(log.clone(), stores)).await;
    let (maps, map) = ("/api/v1/namespaces/default/configmaps", |name: &str| json!({"metadata": {"name": name}}));
    fixture.ok("POST", maps, map("a")).await;
    let check = |endpoint: &str| health(endpoint, Some("etcd"), &fixture.cluster.checks(), &[]).unwrap();
    let whole = |endpoint: &str| health(endpoint, None, &fixture.cluster.checks(), &[]).unwrap();
    assert_eq!((check("livez"), whole("livez").0), ((200, "ok".to_owned()), 200));

    disk.set_room(Some(0));
    let refusal = "503 ServiceUnavailable: the data directory of this API server cannot be written (no storage space); \
                   objects can still be read";
    for _ in 0..2 {
        assert_eq!(fixture.refused("POST", maps, map("b")).await, refusal);
        assert_eq!(fixture.refused("DELETE", &format!("{maps}/a"), json!({})).await, refusal);
        assert_eq!(fixture.ok("GET", maps, json!(null)).await["items"].as_array().unwrap().len(), 1);
        fixture.ok("GET", &format!("{maps}/a"), json!(null)).await;
    }
    for endpoint in ["livez", "readyz"] {
        assert_eq!(check(endpoint).0, 500);
        let (status, text) = whole(endpoint);
        assert_eq!((status, text.lines().next()), (500, Some("[-]etcd failed: reason withheld")));
    }

    disk.set_room(None);
    writable(&log).await;
    assert_eq!((check("readyz").0, whole("readyz").0), (200, 200));
    fixture.ok("POST", maps, map("b")).await;
    assert_eq!(fixture.ok("GET", maps, json!(null)).await["items"].as_array().unwrap().len(), 2);
    fixture.server.close().await;
}

/// A ClusterRole for everything, or its binding to the user "eve".
fn access(plural: &str, object: &serde_json::Value) -> Change {
    let action = Action::Put { body: Encoded::new(object), index: Index::of(object), shape: 1 };
    let resource = StorageKey::new("rbac.authorization.k8s.io", plural);
    Change { resource, key: "all".into(), expect: Expect::Any, action }
}

#[tokio::test]
async fn audit_15_a_role_binding_that_could_not_be_stored_grants_nothing() {
    let disk = SimulatedDisk::new(None);
    let (log, _) = opened(&disk).unwrap();
    let store = Store::new("c", log.clone(), HistoryLimits::default());
    let rbac: Arc<Rbac> = Arc::default();
    store.observe_commits(rbac.clone());
    let role = json!({
        "metadata": {"name": "all"}, "rules": [{"apiGroups": [""], "resources": ["pods"], "verbs": ["list"]}],
    });
    let binding = json!({
        "metadata": {"name": "all"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "all"},
        "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "eve"}],
    });
    store.commit(vec![access("clusterroles", &role)], &[]).await.unwrap();
    let eve = User { name: "eve".to_owned(), ..User::default() };
    let target = Target::Resource { group: "", resource: "pods", subresource: "", namespace: "", name: "" };
    let is_allowed = || rbac.authorize(&Attributes { user: &eve, verb: "list", target }).is_allowed();
    disk.set_room(Some(0));
    let written = store.commit(vec![access("clusterrolebindings", &binding)], &[]).await;
    assert!(matches!(written, Err(StoreError::LogFailed(_))), "{written:?}");
    assert!(!is_allowed());
    disk.set_room(None);
    writable(&log).await;
    store.commit(vec![access("clusterrolebindings", &binding)], &[]).await.unwrap();
    assert!(is_allowed());
    drop((store, log));
}
