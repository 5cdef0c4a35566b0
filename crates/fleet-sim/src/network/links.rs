//! Partitions between clients and servers, servers that are down, and kinds that a server does not serve. They last
//! until they are ended, unlike the faults of single requests in `faults`.

use std::collections::{BTreeMap, BTreeSet};

/// The state of all links of a simulation.
#[derive(Debug, Default)]
pub(super) struct Links {
    /// Actor and server.
    partitions: BTreeSet<(String, String)>,
    down: BTreeSet<String>,
    /// How often each server was restarted.
    starts: BTreeMap<String, u64>,
    /// Server and plural of kinds that the server does not serve.
    unserved: BTreeSet<(String, String)>,
}

/// Why a request does not reach its server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Obstacle {
    Partition,
    ServerDown,
    KindNotServed,
}

impl Links {
    pub(super) fn set_partitioned(&mut self, actor: &str, server: &str, is_partitioned: bool) {
        let link = (actor.to_owned(), server.to_owned());
        if is_partitioned {
            self.partitions.insert(link)
        } else {
            self.partitions.remove(&link)
        };
    }

    pub(super) fn set_down(&mut self, server: &str, is_down: bool) {
        if is_down {
            self.down.insert(server.to_owned());
            *self.starts.entry(server.to_owned()).or_default() += 1;
        } else {
            self.down.remove(server);
        }
    }

    pub(super) fn set_unserved(&mut self, server: &str, plural: &str, is_unserved: bool) {
        let kind = (server.to_owned(), plural.to_owned());
        if is_unserved {
            self.unserved.insert(kind)
        } else {
            self.unserved.remove(&kind)
        };
    }

    /// How often a server was stopped. A watch that began before the last stop is broken.
    pub(super) fn starts(&self, server: &str) -> u64 {
        self.starts.get(server).copied().unwrap_or(0)
    }

    pub(super) fn obstacle(&self, actor: &str, server: &str, path: &str) -> Option<Obstacle> {
        let names = |plural: &str| {
            let path = path.split('?').next().unwrap_or_default();
            // Compares whole segments: the name of a CustomResourceDefinition begins with the plural as well.
            path.split('/').any(|part| part == plural)
        };
        if self.partitions.iter().any(|(one, other)| one == actor && other == server) {
            Some(Obstacle::Partition)
        } else if self.down.contains(server) {
            Some(Obstacle::ServerDown)
        } else if self.unserved.iter().any(|(one, plural)| one == server && names(plural)) {
            Some(Obstacle::KindNotServed)
        } else {
            None
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const WORKS: &str = "/apis/placement.kubernetes-fleet.io/v1beta1/namespaces/a/works/w?limit=1";

    #[test]
    fn obstacles_concern_one_link_one_server_or_one_kind() {
        let mut links = Links::default();
        assert_eq!(links.obstacle("m1", "", WORKS), None);
        links.set_unserved("", "works", true);
        assert_eq!(links.obstacle("m1", "", WORKS), Some(Obstacle::KindNotServed));
        assert_eq!(links.obstacle("m1", "m1", WORKS), None);
        assert_eq!(links.obstacle("m1", "", "/apis/g/v1/customresourcedefinitions/works.placement"), None);
        links.set_down("", true);
        assert_eq!(links.obstacle("m1", "", WORKS), Some(Obstacle::ServerDown));
        links.set_partitioned("m1", "", true);
        assert_eq!(links.obstacle("m1", "", WORKS), Some(Obstacle::Partition));
        assert_eq!(links.obstacle("m2", "", WORKS), Some(Obstacle::ServerDown));
        links.set_partitioned("m1", "", false);
        links.set_down("", false);
        links.set_unserved("", "works", false);
        assert_eq!((links.obstacle("m1", "", WORKS), links.starts("")), (None, 1));
    }
}
