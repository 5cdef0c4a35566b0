//! Allocation of cluster IPs and node ports for Services.

use std::collections::BTreeSet;
use std::fmt::Debug;
use std::net::Ipv4Addr;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Allocates addresses and ports. The error says why a requested one is not available.
pub(crate) trait ServiceAddresses: Debug + Send + Sync {
    /// A free cluster address, or the wanted one. With `dry_run` it stays free.
    fn take_ip(&self, wanted: Option<&str>, dry_run: bool) -> Result<String, String>;
    fn free_ip(&self, address: &str);
    /// A free node port, or the wanted one.
    fn take_port(&self, wanted: Option<u16>, dry_run: bool) -> Result<u16, String>;
    fn free_port(&self, port: u16);
}

/// Node ports of a cluster by default.
const NODE_PORTS: std::ops::RangeInclusive<u16> = 30_000..=32_767;

/// A pool of IPv4 addresses and node ports in memory. After a restart the stored services are taken again by name.
#[derive(Debug)]
pub(crate) struct AddressPool {
    network: u32,
    prefix: u8,
    taken: Mutex<Taken>,
}

#[derive(Debug, Default)]
struct Taken {
    addresses: BTreeSet<u32>,
    ports: BTreeSet<u16>,
}

impl AddressPool {
    /// A pool of the addresses of `network/prefix`; the first and the last address are never given.
    pub(crate) fn new(network: Ipv4Addr, prefix: u8) -> Self {
        let prefix = prefix.clamp(8, 30);
        let network = u32::from(network) & !host_mask(prefix);
        AddressPool { network, prefix, taken: Mutex::default() }
    }

    fn lock(&self) -> MutexGuard<'_, Taken> {
        self.taken.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn cidr(&self) -> String {
        format!("{}/{}", Ipv4Addr::from(self.network), self.prefix)
    }
}

impl Default for AddressPool {
    /// The range that most clusters are installed with: the 254 addresses that kube-apiserver takes when it is given
    /// none are too few for a hub that holds the Services of many teams.
    fn default() -> Self {
        AddressPool::new(Ipv4Addr::new(10, 96, 0, 0), 16)
    }
}

fn host_mask(prefix: u8) -> u32 {
    u32::MAX >> prefix
}

impl ServiceAddresses for AddressPool {
    fn take_ip(&self, wanted: Option<&str>, dry_run: bool) -> Result<String, String> {
        let mut taken = self.lock();
        let last = self.network | host_mask(self.prefix);
        let address = if let Some(text) = wanted {
            let Ok(address) = text.parse::<Ipv4Addr>().map(u32::from) else {
                return Err(format!("failed to allocate IP {text}: not a valid IP"));
            };
            if address <= self.network || address >= last {
                let range = self.cidr();
                return Err(format!(
                    "failed to allocate IP {text}: the provided IP ({text}) is not in the valid range. The range of valid IPs is {range}"
                ));
            }
            if taken.addresses.contains(&address) {
                return Err(format!("failed to allocate IP {text}: provided IP is already allocated"));
            }
            address
        } else {
            let free = (self.network + 1..last).find(|address| !taken.addresses.contains(address));
            free.ok_or("failed to allocate a serviceIP: range is full")?
        };
        if !dry_run {
            taken.addresses.insert(address);
        }
        Ok(Ipv4Addr::from(address).to_string())
    }

    fn free_ip(&self, address: &str) {
        if let Ok(address) = address.parse::<Ipv4Addr>() {
            self.lock().addresses.remove(&u32::from(address));
        }
    }

    fn take_port(&self, wanted: Option<u16>, dry_run: bool) -> Result<u16, String> {
        let mut taken = self.lock();
        let port = match wanted {
            Some(port) if !NODE_PORTS.contains(&port) => {
                let (first, last) = (NODE_PORTS.start(), NODE_PORTS.end());
                return Err(format!(
                    "provided port is not in the valid range. The range of valid ports is {first}-{last}"
                ));
            }
            Some(port) if taken.ports.contains(&port) => return Err("provided port is already allocated".to_owned()),
            Some(port) => port,
            None => NODE_PORTS.clone().find(|port| !taken.ports.contains(port)).ok_or("range is full")?,
        };
        if !dry_run {
            taken.ports.insert(port);
        }
        Ok(port)
    }

    fn free_port(&self, port: u16) {
        self.lock().ports.remove(&port);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_allocated_once_and_released() {
        let pool = AddressPool::new(Ipv4Addr::new(10, 96, 0, 0), 30);
        assert_eq!(pool.take_ip(None, true), Ok("10.96.0.1".to_owned()));
        assert_eq!(pool.take_ip(Some("10.96.0.2"), false), Ok("10.96.0.2".to_owned()));
        assert_eq!(pool.take_ip(None, false), Ok("10.96.0.1".to_owned()));
        assert_eq!(pool.take_ip(None, false), Err("failed to allocate a serviceIP: range is full".to_owned()));
        assert!(pool.take_ip(Some("10.96.0.2"), false).unwrap_err().ends_with("already allocated"));
        assert!(pool.take_ip(Some("10.97.0.1"), false).unwrap_err().ends_with("10.96.0.0/30"));
        pool.free_ip("10.96.0.2");
        assert_eq!(pool.take_ip(None, false), Ok("10.96.0.2".to_owned()));
    }

    #[test]
    fn ports_are_allocated_once_and_within_the_range() {
        let pool = AddressPool::default();
        assert_eq!(pool.take_port(None, false), Ok(30_000));
        assert_eq!(pool.take_port(Some(30_000), false), Err("provided port is already allocated".to_owned()));
        assert!(pool.take_port(Some(80), false).unwrap_err().ends_with("30000-32767"));
        pool.free_port(30_000);
        assert_eq!(pool.take_port(Some(30_000), true), Ok(30_000));
    }
}
