//! Who may see the pages. A one-time link sets a cookie that scripts and other sites cannot use; requests with an unexpected Host
//! header are refused, so that a name that is resolved to this address does not help another site; forms have a token.
//!
//! Codes, cookies and tokens are never logged. Only the one-time code is part of an address.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD as BASE64;
use parking_lot::Mutex;
use ring::rand::{SecureRandom as _, SystemRandom};
use subtle::ConstantTimeEq as _;

use crate::output::progress;

/// Maximum number of browsers; the oldest session ends for a new one.
const SESSIONS: usize = 32;

/// The doors of one dashboard.
#[derive(Debug)]
pub(super) struct Access {
    address: SocketAddr,
    inner: Mutex<Inner>,
}

#[derive(Default)]
struct Inner {
    /// The code of the link, until it was used.
    code: Option<String>,
    sessions: Vec<Session>,
}

impl std::fmt::Debug for Inner {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Inner").field("sessions", &self.sessions.len()).finish_non_exhaustive()
    }
}

/// A signed-in browser.
#[derive(Clone)]
struct Session {
    cookie: String,
    /// The token of its forms.
    token: String,
}

impl Access {
    pub(super) fn new(address: SocketAddr) -> anyhow::Result<Self> {
        let inner = Inner { code: Some(secret()?), sessions: Vec::new() };
        Ok(Self { address, inner: Mutex::new(inner) })
    }

    /// The link with the code.
    pub(super) fn link(&self) -> String {
        let code = self.inner.lock().code.clone().unwrap_or_default();
        format!("http://{}/login?code={code}", reachable(self.address))
    }

    /// Exchanges the code for a cookie, once.
    pub(super) fn sign_in(&self, code: &str) -> Option<String> {
        let (cookie, token) = (secret().ok()?, secret().ok()?);
        let mut inner = self.inner.lock();
        if !inner.code.as_deref().is_some_and(|expected| equal(expected, code)) {
            return None;
        }
        inner.code = None;
        if inner.sessions.len() >= SESSIONS {
            inner.sessions.remove(0);
        }
        inner.sessions.push(Session { cookie: cookie.clone(), token });
        Some(format!("{}={cookie}; Path=/; HttpOnly; SameSite=Strict", self.cookie_name()))
    }

    /// Prints a new link if the last one was used: somebody without a session wants to see the pages.
    pub(super) fn offer_link(&self) {
        let mut inner = self.inner.lock();
        if inner.code.is_none() {
            inner.code = secret().ok();
            drop(inner);
            progress(&format!("another browser asked for the dashboard; a link for it:\n{}", self.link()));
        }
    }

    /// The form token of the session that the cookies belong to.
    pub(super) fn session(&self, cookies: &str) -> Option<String> {
        let name = self.cookie_name();
        let mut values = cookies.split(';').filter_map(|one| one.trim().strip_prefix(&name)?.strip_prefix('='));
        let inner = self.inner.lock();
        values
            .find_map(|value| inner.sessions.iter().find(|one| equal(&one.cookie, value)))
            .map(|one| one.token.clone())
    }

    /// Browsers send cookies to all ports of a host.
    fn cookie_name(&self) -> String {
        format!("kubefleet-{}", self.address.port())
    }

    /// Whether a Host header names this server: an address or `localhost`, with the port.
    pub(super) fn is_expected_host(&self, host: &str) -> bool {
        let Some((name, port)) = host.rsplit_once(':') else { return false };
        if port.parse() != Ok(self.address.port()) {
            return false;
        }
        let name = name.trim_start_matches('[').trim_end_matches(']');
        match name.parse::<IpAddr>() {
            Ok(ip) if self.address.ip().is_unspecified() => !ip.is_unspecified(),
            Ok(ip) => ip == self.address.ip(),
            Err(_) => name.eq_ignore_ascii_case("localhost"),
        }
    }

    /// Whether the Origin header of a form is this server.
    pub(super) fn is_own_origin(&self, origin: &str) -> bool {
        origin.strip_prefix("http://").is_some_and(|host| self.is_expected_host(host))
    }
}

/// 256 random bits.
fn secret() -> anyhow::Result<String> {
    let mut bytes = [0; 32];
    SystemRandom::new().fill(&mut bytes).map_err(|_| anyhow::anyhow!("the system has no random numbers"))?;
    Ok(BASE64.encode(bytes))
}

/// Compares without telling by the time taken where the texts differ.
pub(super) fn equal(one: &str, other: &str) -> bool {
    one.as_bytes().ct_eq(other.as_bytes()).into()
}

/// An address that a browser on this machine can use.
fn reachable(address: SocketAddr) -> SocketAddr {
    let ip = match address.ip() {
        IpAddr::V4(ip) if ip.is_unspecified() => Ipv4Addr::LOCALHOST.into(),
        IpAddr::V6(ip) if ip.is_unspecified() => Ipv6Addr::LOCALHOST.into(),
        ip => ip,
    };
    SocketAddr::new(ip, address.port())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn access(address: &str) -> Access {
        Access::new(address.parse().unwrap()).unwrap()
    }

    fn code(access: &Access) -> String {
        access.link().split_once("code=").unwrap().1.to_owned()
    }

    #[test]
    fn a_link_works_once_and_its_cookie_is_for_this_port() {
        let access = access("127.0.0.1:8765");
        let code = code(&access);
        assert_eq!(access.sign_in("wrong"), None);
        let cookie = access.sign_in(&code).unwrap();
        assert!(
            cookie.starts_with("kubefleet-8765=") && cookie.ends_with("; Path=/; HttpOnly; SameSite=Strict"),
            "{cookie}"
        );
        assert_eq!(access.sign_in(&code), None);
        let pair = cookie.split(';').next().unwrap();
        assert!(access.session(&format!("other=1; {pair}")).is_some());
        assert_eq!(access.session(&pair.replace("8765", "8766")), None);
        assert_eq!(access.session("kubefleet-8765="), None);
        assert_eq!(access.session(""), None);
    }

    #[test]
    fn an_empty_code_never_signs_in() {
        let access = access("127.0.0.1:1");
        let _ = access.sign_in(&code(&access));
        assert_eq!(access.sign_in(""), None);
    }

    #[test]
    fn a_used_link_is_replaced_on_demand() {
        let access = access("127.0.0.1:1");
        let first = code(&access);
        access.offer_link();
        assert_eq!(code(&access), first, "an unused link stays valid");
        access.sign_in(&first).unwrap();
        access.offer_link();
        assert!(access.sign_in(&code(&access)).is_some());
    }

    #[test]
    fn only_a_limited_number_of_browsers_stays_signed_in() {
        let access = access("127.0.0.1:1");
        let mut pairs = Vec::new();
        for _ in 0..=SESSIONS {
            access.offer_link();
            let cookie = access.sign_in(&code(&access)).unwrap();
            pairs.push(cookie.split(';').next().unwrap().to_owned());
        }
        assert_eq!(access.session(&pairs[0]), None);
        assert!(pairs[1..].iter().all(|pair| access.session(pair).is_some()));
    }

    #[test]
    fn only_our_own_names_are_accepted_as_host() {
        let local = access("127.0.0.1:8765");
        for host in ["127.0.0.1:8765", "localhost:8765", "LOCALHOST:8765"] {
            assert!(local.is_expected_host(host), "{host}");
        }
        for host in [
            "",
            "localhost",
            "127.0.0.1",
            "localhost:80",
            "evil.example:8765",
            "127.0.0.2:8765",
            "localhost.evil.example:8765",
        ] {
            assert!(!local.is_expected_host(host), "{host}");
        }
        assert!(access("[::1]:1").is_expected_host("[::1]:1"));
        let everywhere = access("0.0.0.0:80");
        assert!(everywhere.is_expected_host("192.0.2.1:80") && !everywhere.is_expected_host("evil.example:80"));
        assert!(local.is_own_origin("http://localhost:8765"));
        for origin in ["null", "https://localhost:8765", "http://evil.example:8765", "http://localhost:8766"] {
            assert!(!local.is_own_origin(origin), "{origin}");
        }
    }

    #[test]
    fn secrets_are_not_in_debug_output() {
        let access = access("127.0.0.1:1");
        let code = code(&access);
        assert!(!format!("{access:?}").contains(&code));
    }
}
