//! `/healthz` (the process responds) and `/readyz` (all readiness checks pass), with the names and reasons of failed checks.

use std::fmt;
use std::fmt::Write as _;
use std::sync::Arc;

use hyper::StatusCode;
use parking_lot::Mutex;

use super::serving::{Answer, Page};

type Check = Arc<dyn Fn() -> Result<(), String> + Send + Sync>;

/// The readiness checks. Clones share them.
#[derive(Clone, Default)]
pub(crate) struct Checks(Arc<Mutex<Vec<(&'static str, Check)>>>);

impl fmt::Debug for Checks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.0.lock().iter().map(|(name, _)| name)).finish()
    }
}

impl Checks {
    /// Adds or replaces a check. An error is the reason why the process is not ready.
    pub(crate) fn put(&self, name: &'static str, check: impl Fn() -> Result<(), String> + Send + Sync + 'static) {
        let mut checks = self.0.lock();
        checks.retain(|(known, _)| *known != name);
        checks.push((name, Arc::new(check)));
    }

    /// `/healthz`, `/livez`, `/readyz` and `/readyz/CHECK`; `?verbose` lists all checks.
    pub(crate) fn page(&self) -> Page {
        let checks = self.clone();
        Arc::new(move |path, query| match path.strip_prefix("/readyz") {
            Some("" | "/") => Some(checks.report(None, query == Some("verbose"))),
            Some(name) => {
                let name = name.strip_prefix('/')?;
                let known = checks.0.lock().iter().any(|(known, _)| *known == name);
                known.then(|| checks.report(Some(name), query == Some("verbose")))
            }
            None => matches!(path, "/healthz" | "/livez").then(|| Answer::text(StatusCode::OK, "ok")),
        })
    }

    fn report(&self, only: Option<&str>, verbose: bool) -> Answer {
        let checks = self.0.lock().clone();
        let mut lines = String::new();
        let mut passed = true;
        for (name, check) in checks.iter().filter(|(name, _)| only.is_none_or(|only| only == *name)) {
            match check() {
                Ok(()) => drop(writeln!(lines, "[+]{name} ok")),
                Err(why) => {
                    passed = false;
                    let _ = writeln!(lines, "[-]{name} failed: {why}");
                }
            }
        }
        match (passed, verbose) {
            (true, false) => Answer::text(StatusCode::OK, "ok"),
            (true, true) => Answer::text(StatusCode::OK, lines + "readyz check passed\n"),
            (false, _) => Answer::text(StatusCode::INTERNAL_SERVER_ERROR, lines + "readyz check failed\n"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_is_healthy_before_it_is_ready_and_reports_failed_checks() {
        let checks = Checks::default();
        checks.put("ping", || Ok(()));
        checks.put("caches", || Err("2 kinds are being listed".to_owned()));
        let page = checks.page();
        let ask = |path, query| page(path, query).map(|answer| (answer.status.as_u16(), answer.body));
        assert_eq!(ask("/healthz", None), Some((200, "ok".to_owned())));
        let failed = "[+]ping ok\n[-]caches failed: 2 kinds are being listed\nreadyz check failed\n";
        assert_eq!(ask("/readyz", None), Some((500, failed.to_owned())));
        assert_eq!(ask("/readyz/ping", None), Some((200, "ok".to_owned())));
        assert_eq!((ask("/readyz/other", None), ask("/metrics", None)), (None, None));
        checks.put("caches", || Ok(()));
        assert_eq!(ask("/readyz", None), Some((200, "ok".to_owned())));
        assert_eq!(ask("/readyz", Some("verbose")).unwrap().1, "[+]ping ok\n[+]caches ok\nreadyz check passed\n");
    }
}
