//! Service addresses and node ports that no two Services of a cluster share.
//!
//! Decides which is handed out next. What is in use is read from the stored Services on the first need, and anew when
//! everything seems taken (deleted Services give theirs back that way).

use std::collections::BTreeSet;
use std::net::Ipv4Addr;
use std::sync::Arc;

use parking_lot::Mutex;
use serde_json::Value;

use crate::registry::{Allocate, StorageKey};
use crate::store::Store;

/// 10.96.0.0/16; the first address is the API server's own.
const FIRST_ADDRESS: u32 = 0x0A60_0002;
const LAST_ADDRESS: u32 = 0x0A60_FFFE;
const FIRST_PORT: u32 = 30_000;
const LAST_PORT: u32 = 32_767;

pub(crate) struct Allocations {
    store: Arc<Store>,
    state: Mutex<Option<State>>,
}

struct State {
    addresses: Pool,
    ports: Pool,
}

struct Pool {
    used: BTreeSet<u32>,
    next: u32,
    first: u32,
    last: u32,
}

impl Pool {
    fn new(first: u32, last: u32, used: impl Iterator<Item = u32>) -> Self {
        Self { used: used.filter(|n| (first..=last).contains(n)).collect(), next: first, first, last }
    }

    fn take(&mut self) -> Option<u32> {
        let size = self.last - self.first + 1;
        for _ in 0..size {
            let candidate = self.next;
            self.next = if candidate == self.last { self.first } else { candidate + 1 };
            if self.used.insert(candidate) {
                return Some(candidate);
            }
        }
        None
    }
}

impl Allocations {
    pub(crate) fn new(store: Arc<Store>) -> Self {
        Self { store, state: Mutex::new(None) }
    }

    fn take(&self, pick: impl Fn(&mut State) -> Option<u32>) -> Option<u32> {
        let mut state = self.state.lock();
        let fresh = state.is_none();
        let current = state.get_or_insert_with(|| self.read());
        if let Some(taken) = pick(current) {
            return Some(taken);
        }
        if fresh {
            return None;
        }
        *current = self.read();
        pick(current)
    }

    fn read(&self) -> State {
        let services = StorageKey::new("", "services");
        let listed = self.store.peek_list(&services, None, None, usize::MAX, None);
        let objects: Vec<Value> = listed.map(|l| l.entries.iter().map(|e| e.parse()).collect()).unwrap_or_default();
        let address = |text: &Value| text.as_str()?.parse::<Ipv4Addr>().ok().map(u32::from);
        let addresses = objects.iter().filter_map(|o| address(&o["spec"]["clusterIP"]));
        let port = |port: &Value| port["nodePort"].as_u64().and_then(|n| u32::try_from(n).ok());
        let ports = objects.iter().flat_map(|o| o["spec"]["ports"].as_array().into_iter().flatten().filter_map(port));
        State {
            addresses: Pool::new(FIRST_ADDRESS, LAST_ADDRESS, addresses),
            ports: Pool::new(FIRST_PORT, LAST_PORT, ports),
        }
    }
}

impl Allocate for Allocations {
    fn cluster_ip(&self) -> Option<String> {
        self.take(|state| state.addresses.take()).map(|n| Ipv4Addr::from(n).to_string())
    }

    fn node_port(&self) -> Option<u16> {
        self.take(|state| state.ports.take()).and_then(|n| u16::try_from(n).ok())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::{Action, Change, Encoded, Expect, HistoryLimits, Index, MemoryLog};
    use serde_json::json;

    #[tokio::test]
    async fn what_a_stored_service_uses_is_not_handed_out_again() {
        let store = Store::new("c", Arc::new(MemoryLog), HistoryLimits::default());
        let service = json!({"spec": {"clusterIP": "10.96.0.2", "ports": [{"nodePort": 30_000}]}});
        let action = Action::Put { body: Encoded::new(&service), index: Index::default(), shape: 1 };
        let resource = StorageKey::new("", "services");
        let change = Change { resource, key: "default/a".into(), expect: Expect::Absent, action };
        store.commit(vec![change], &[]).await.unwrap();
        let allocations = Allocations::new(store);
        assert_eq!(allocations.cluster_ip().as_deref(), Some("10.96.0.3"));
        assert_eq!(allocations.cluster_ip().as_deref(), Some("10.96.0.4"));
        assert_eq!(allocations.node_port(), Some(30_001));
    }

    #[test]
    fn an_exhausted_pool_says_so() {
        let mut pool = Pool::new(1, 2, [2].into_iter());
        assert_eq!((pool.take(), pool.take()), (Some(1), None));
    }
}
