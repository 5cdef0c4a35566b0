//! URLs, IP addresses and address ranges.

use std::collections::BTreeMap;
use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::rc::Rc;

use super::super::eval::Evaluation;
use super::super::value::{Evaluated, Fault, Key, Val};

#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::cel) struct Url {
    scheme: String,
    host: String,
    path: String,
    query: String,
}

impl Url {
    /// An absolute URL, or a path that starts with a slash.
    fn parse(text: &str) -> Option<Self> {
        if text.bytes().any(|byte| byte <= b' ' || byte == 0x7f) {
            return None;
        }
        let text = text.split_once('#').map_or(text, |(before, _)| before);
        let (text, query) = text.split_once('?').unwrap_or((text, ""));
        if text.starts_with('/') && !text.starts_with("//") {
            return Some(Self {
                scheme: String::new(),
                host: String::new(),
                path: text.to_owned(),
                query: query.to_owned(),
            });
        }
        let (scheme, rest) = text.split_once(':')?;
        let starts_well = scheme.starts_with(|c: char| c.is_ascii_alphabetic());
        if !starts_well || !scheme.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"+-.".contains(&byte)) {
            return None;
        }
        let rest = rest.strip_prefix("//").or_else(|| rest.starts_with('/').then_some(rest))?;
        let (authority, path) = rest.find('/').map_or((rest, ""), |at| rest.split_at(at));
        let host = authority.rsplit_once('@').map_or(authority, |(_, host)| host);
        let port = host.rsplit_once(':').filter(|(_, port)| !port.contains(']'));
        if port.is_some_and(|(name, port)| {
            !port.bytes().all(|b| b.is_ascii_digit()) || name.contains(':') && !name.ends_with(']')
        }) {
            return None;
        }
        Some(Self {
            scheme: scheme.to_ascii_lowercase(),
            host: host.to_owned(),
            path: path.to_owned(),
            query: query.to_owned(),
        })
    }

    fn host_and_port(&self) -> (&str, &str) {
        match self.host.rsplit_once(':').filter(|(_, port)| !port.contains(']')) {
            Some((name, port)) => (name, port),
            None => (&self.host, ""),
        }
    }

    fn query_map<'a>(&self) -> Val<'a> {
        let mut map: BTreeMap<Key, Vec<Val<'a>>> = BTreeMap::new();
        for pair in self.query.split('&').filter(|pair| !pair.is_empty()) {
            let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
            map.entry(Key::Text(decoded(key).into())).or_default().push(Val::text(decoded(value)));
        }
        Val::Map(Rc::new(map.into_iter().map(|(key, values)| (key, Val::list(values))).collect()))
    }
}

fn decoded(text: &str) -> String {
    let mut out = Vec::with_capacity(text.len());
    let bytes = text.as_bytes();
    let mut at = 0;
    while at < bytes.len() {
        let code = (bytes[at] == b'%').then(|| text.get(at + 1..at + 3)).flatten();
        match (bytes[at], code.and_then(|digits| u8::from_str_radix(digits, 16).ok())) {
            (_, Some(byte)) => {
                out.push(byte);
                at += 2;
            }
            (b'+', None) => out.push(b' '),
            (byte, None) => out.push(byte),
        }
        at += 1;
    }
    String::from_utf8_lossy(&out).into_owned()
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::cel) struct Cidr {
    address: IpAddr,
    length: u8,
}

impl fmt::Display for Cidr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.address, self.length)
    }
}

impl Cidr {
    fn parse(text: &str) -> Option<Self> {
        let (address, length) = text.split_once('/')?;
        let address = parse_ip(address)?;
        let most = if address.is_ipv4() { 32 } else { 128 };
        let plain = length.bytes().all(|b| b.is_ascii_digit()) && (length == "0" || !length.starts_with('0'));
        let length = length.parse().ok().filter(|length| plain && *length <= most)?;
        Some(Self { address, length })
    }

    fn masked(self) -> Self {
        let address = match self.address {
            IpAddr::V4(v4) => {
                let mask = u32::MAX.checked_shl(32 - u32::from(self.length)).unwrap_or_default();
                IpAddr::V4(Ipv4Addr::from(u32::from(v4) & mask))
            }
            IpAddr::V6(v6) => {
                let mask = u128::MAX.checked_shl(128 - u32::from(self.length)).unwrap_or_default();
                IpAddr::V6(Ipv6Addr::from(u128::from(v6) & mask))
            }
        };
        Self { address, length: self.length }
    }

    fn contains(self, address: IpAddr) -> bool {
        address.is_ipv4() == self.address.is_ipv4()
            && Self { address, length: self.length }.masked().address == self.masked().address
    }
}

/// IPv4 addresses inside IPv6, and zones, are not taken.
fn parse_ip(text: &str) -> Option<IpAddr> {
    let address: IpAddr = text.parse().ok()?;
    let mapped = matches!(address, IpAddr::V6(v6) if v6.to_ipv4_mapped().is_some());
    (!mapped).then_some(address)
}

fn is_link_local(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(v4) => v4.is_link_local(),
        IpAddr::V6(v6) => v6.is_unicast_link_local(),
    }
}

fn is_link_local_multicast(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(v4) => v4.octets()[..3] == [224, 0, 0],
        IpAddr::V6(v6) => v6.segments()[0] & 0xff0f == 0xff02,
    }
}

fn is_global_unicast(address: IpAddr) -> bool {
    let broadcast = matches!(address, IpAddr::V4(v4) if v4.is_broadcast());
    !broadcast
        && !address.is_unspecified()
        && !address.is_loopback()
        && !address.is_multicast()
        && !is_link_local(address)
}

pub(super) fn call<'a>(evaluation: &mut Evaluation<'a>, name: &str, args: &[Val<'a>]) -> Option<Evaluated<'a>> {
    let texts = args.iter().filter(|arg| matches!(arg, Val::Text(_)));
    if let Err(fault) = evaluation.charge_walk(texts.map(Val::size).sum()) {
        return Some(Err(fault));
    }
    urls(name, args).or_else(|| addresses(name, args))
}

fn urls<'a>(name: &str, args: &[Val<'a>]) -> Option<Evaluated<'a>> {
    Some(Ok(match (name, args) {
        ("isURL", [Val::Text(text)]) => Val::Bool(Url::parse(text).is_some()),
        ("url", [Val::Text(text)]) => {
            let parsed = Url::parse(text).map(|url| Val::Url(url.into()));
            return Some(parsed.ok_or_else(|| {
                let text = &**text;
                Fault::new(format!(
                    "URL parse error during conversion from string: parse {text:?}: invalid URI for request"
                ))
            }));
        }
        ("getScheme", [Val::Url(url)]) => Val::text(url.scheme.as_str()),
        ("getHost", [Val::Url(url)]) => Val::text(url.host.as_str()),
        ("getHostname", [Val::Url(url)]) => Val::text(url.host_and_port().0.trim_matches(['[', ']'])),
        ("getPort", [Val::Url(url)]) => Val::text(url.host_and_port().1),
        ("getEscapedPath", [Val::Url(url)]) => Val::text(url.path.as_str()),
        ("getQuery", [Val::Url(url)]) => url.query_map(),
        _ => return None,
    }))
}

fn addresses<'a>(name: &str, args: &[Val<'a>]) -> Option<Evaluated<'a>> {
    let bad_ip = |text: &str| {
        Fault::new(format!(
            "IP Address {text:?} parse error during conversion from string: ParseAddr({text:?}): unable to parse IP"
        ))
    };
    let bad_cidr =
        |text: &str| Fault::new(format!("network address parse error during conversion from string: {text:?}"));
    Some(Ok(match (name, args) {
        ("isIP", [Val::Text(text)]) => Val::Bool(parse_ip(text).is_some()),
        ("isCIDR", [Val::Text(text)]) => Val::Bool(Cidr::parse(text).is_some()),
        ("ip", [Val::Text(text)]) => return Some(parse_ip(text).map(Val::Ip).ok_or_else(|| bad_ip(text))),
        ("cidr", [Val::Text(text)]) => return Some(Cidr::parse(text).map(Val::Cidr).ok_or_else(|| bad_cidr(text))),
        ("ip.isCanonical", [Val::Text(text)]) => {
            return Some(parse_ip(text).map(|ip| Val::Bool(ip.to_string() == **text)).ok_or_else(|| bad_ip(text)));
        }
        ("family", [Val::Ip(address)]) => Val::Int(if address.is_ipv4() { 4 } else { 6 }),
        ("isUnspecified", [Val::Ip(address)]) => Val::Bool(address.is_unspecified()),
        ("isLoopback", [Val::Ip(address)]) => Val::Bool(address.is_loopback()),
        ("isLinkLocalUnicast", [Val::Ip(address)]) => Val::Bool(is_link_local(*address)),
        ("isLinkLocalMulticast", [Val::Ip(address)]) => Val::Bool(is_link_local_multicast(*address)),
        ("isGlobalUnicast", [Val::Ip(address)]) => Val::Bool(is_global_unicast(*address)),
        ("ip", [Val::Cidr(cidr)]) => Val::Ip(cidr.address),
        ("prefixLength", [Val::Cidr(cidr)]) => Val::Int(i64::from(cidr.length)),
        ("masked", [Val::Cidr(cidr)]) => Val::Cidr(cidr.masked()),
        ("containsIP", [Val::Cidr(cidr), Val::Ip(address)]) => Val::Bool(cidr.contains(*address)),
        ("containsIP", [Val::Cidr(cidr), Val::Text(text)]) => {
            return Some(parse_ip(text).map(|ip| Val::Bool(cidr.contains(ip))).ok_or_else(|| bad_ip(text)));
        }
        ("containsCIDR", [Val::Cidr(cidr), other]) => {
            let inner = match other {
                Val::Cidr(inner) => *inner,
                Val::Text(text) => match Cidr::parse(text) {
                    Some(inner) => inner,
                    None => return Some(Err(bad_cidr(text))),
                },
                _ => return Some(Err(Fault::no_overload())),
            };
            Val::Bool(inner.length >= cidr.length && cidr.contains(inner.address))
        }
        _ => return None,
    }))
}
