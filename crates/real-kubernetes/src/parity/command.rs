//! `cargo xtask parity`: starts the servers, runs the cases on both, prints the differences.

use super::compare::{self, Difference};
use super::divergence::Known;
use super::known::KNOWN;
use super::script::{self, Case};
use super::target::Target;
use super::transcript::Transcript;
use super::{crds, runner};
use crate::signals::StopRequest;
use crate::{Options, RealCluster};
use anyhow::{Context, Result, bail};
use apiserver::{Embedded, ROOT_CLUSTER, User};
use clap::Args;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;
use tokio::sync::Semaphore;
use tokio::task::JoinSet;
use xtask::console;

/// Run one suite of scripts on a real kube-apiserver and on another server, and compare the answers.
#[derive(Debug, Args)]
pub struct Parity {
    /// Only cases whose `area/name` contains this text.
    #[arg(long, value_name = "TEXT")]
    filter: Option<String>,
    /// The server to compare with the real one; defaults to the embedded server.
    #[arg(long, value_name = "URL", requires = "token")]
    against: Option<String>,
    /// Compare two real servers, to test the suite itself.
    #[arg(long, conflicts_with = "against")]
    real_twice: bool,
    /// Bearer token of an administrator of that server.
    #[arg(long, value_name = "TOKEN")]
    token: Option<String>,
    /// CA of that server, as PEM.
    #[arg(long, value_name = "FILE")]
    ca: Option<PathBuf>,
    /// Write the real server's transcripts below this directory.
    #[arg(long, value_name = "DIR")]
    record: Option<PathBuf>,
    /// Directory of CRDs for the cases of area `fleet`.
    #[arg(long, value_name = "DIR", default_value_os_t = repository().join("config/crd"))]
    crds: PathBuf,
    /// How many cases run at the same time.
    #[arg(long, value_name = "N", default_value_t = 6)]
    jobs: usize,
    /// Print the names of the cases and stop.
    #[arg(long)]
    list: bool,
}

fn repository() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// Where the cases are.
pub(super) fn cases_directory() -> PathBuf {
    repository().join("crates/apiserver/tests/parity/cases")
}

impl Parity {
    /// Runs all cases, or until a termination signal; the servers stop with it.
    pub async fn execute(self) -> Result<()> {
        let mut stop = StopRequest::listen()?;
        tokio::select! {
            outcome = self.compare_servers() => outcome,
            () = stop.received() => bail!("stopped"),
        }
    }

    async fn compare_servers(&self) -> Result<()> {
        let mut cases = script::load(&cases_directory())?;
        let wanted = self.filter.as_deref().unwrap_or_default();
        cases.retain(|case| case.name.contains(wanted));
        let have_crds = self.crds.is_dir();
        if !have_crds {
            let before = cases.len();
            cases.retain(|case| !case.name.starts_with("fleet/"));
            if cases.len() < before {
                console::progress(format!("{} fleet cases skipped: no {}", before - cases.len(), self.crds.display()));
            }
        }
        if self.list {
            for case in &cases {
                console::line(&case.name);
            }
            return Ok(());
        }
        if cases.is_empty() {
            bail!("no case is named like {wanted:?}");
        }
        let started = Instant::now();
        let count = if self.real_twice { 2 } else { 1 };
        let cluster = RealCluster::start(&Options { count, controller_manager: true, ..Options::default() }).await?;
        let embedded = Embedded::start(apiserver::Options::default()).await?;
        let listening = embedded.listen(SocketAddr::from((Ipv4Addr::LOCALHOST, 0)), &[]).await?;
        console::progress(format!("servers ready after {:.1} s", started.elapsed().as_secs_f64()));
        let (real, ours) = self.targets(&cluster, &embedded, listening.address())?;
        if have_crds {
            crds::load(&self.crds, &real).await?;
            crds::load(&self.crds, &ours).await?;
        }
        // Known differences of the embedded server do not apply between two real ones.
        let known = if self.real_twice { &[] } else { KNOWN };
        self.run_all(&cases, Arc::new(real), Arc::new(ours), known).await
    }

    fn targets(&self, cluster: &RealCluster, embedded: &Embedded, address: SocketAddr) -> Result<(Target, Target)> {
        let kubectl = &cluster.kubectl_path;
        let real = |name: &str, index: usize| {
            Target::new(name, &cluster.servers[index].url, &cluster.token, &cluster.ca_pem, kubectl)
        };
        let ours = match (&self.against, &self.token) {
            (Some(url), Some(token)) => {
                let ca = self.ca.as_deref().map(read).transpose()?.unwrap_or_default();
                Target::new("ours", url, token, &ca, kubectl)?
            }
            _ if self.real_twice => real("second real", 1)?,
            _ => {
                let admin = User {
                    uid: "kubernetes-admin".to_owned(),
                    ..User::authenticated("kubernetes-admin", ["system:masters".to_owned()])
                };
                let token = embedded.issue_token(ROOT_CLUSTER, admin);
                let url = embedded.url(address, ROOT_CLUSTER);
                Target::new("ours", &url, token.expose(), embedded.authority().ca_pem(), kubectl)?
            }
        };
        Ok((real("real", 0)?, ours))
    }

    async fn run_all(&self, cases: &[Case], real: Arc<Target>, ours: Arc<Target>, known: &[Known]) -> Result<()> {
        let started = Instant::now();
        let slots = Arc::new(Semaphore::new(self.jobs.max(1)));
        let mut running = JoinSet::new();
        for case in cases {
            let (case, real, ours, slots) = (case.clone(), real.clone(), ours.clone(), slots.clone());
            running.spawn(async move {
                let _slot = slots.acquire_owned().await;
                let (a, b) = run_on_both(&case, &real, &ours).await?;
                Ok::<_, anyhow::Error>((case, a, b))
            });
        }
        let (mut differences, mut failures) = (Vec::new(), 0);
        let (mut finished, mut steps) = (0, 0);
        while let Some(pair) = running.join_next().await {
            let (case, a, b) = pair.context("a case was cut off")??;
            finished += 1;
            steps += a.answers.len();
            self.record(&a)?;
            let found = compare::compare(&a, &b, known);
            for difference in found.iter().filter(|difference| difference.known.is_none()) {
                print_difference(difference);
            }
            differences.extend(found);
            for failure in compare::failures(&case, &a, &b) {
                console::line(format!("--- {failure}"));
                failures += 1;
            }
        }
        let names: Vec<&str> = cases.iter().map(|case| case.name.as_str()).collect();
        let idle = compare::unused(known, &names, &differences);
        for entry in &idle {
            console::line(format!(
                "known difference no longer seen: {} / {}: {}",
                entry.case, entry.step, entry.reason
            ));
        }
        let new = differences.iter().filter(|difference| difference.known.is_none()).count();
        console::line(format!(
            "{finished} cases, {steps} steps in {:.1} s: {new} differences, {} known, {failures} steps failed",
            started.elapsed().as_secs_f64(),
            differences.len() - new
        ));
        if new > 0 || !idle.is_empty() {
            bail!("the servers differ");
        }
        if failures > 0 {
            bail!("{failures} steps did not do what their scripts have them for");
        }
        Ok(())
    }

    fn record(&self, transcript: &Transcript) -> Result<()> {
        let Some(directory) = &self.record else { return Ok(()) };
        let path = directory.join(format!("{}.txt", transcript.case));
        if let Some(parent) = path.parent() {
            std::fs::create_dir_all(parent).with_context(|| format!("create {}", parent.display()))?;
        }
        std::fs::write(&path, transcript.render()).with_context(|| format!("write {}", path.display()))
    }
}

async fn run_on_both(case: &Case, real: &Target, ours: &Target) -> Result<(Transcript, Transcript)> {
    let id: String = format!("p{}", uuid::Uuid::new_v4().simple()).chars().take(9).collect();
    let (a, b) = tokio::join!(runner::run(real, case, &id), runner::run(ours, case, &id));
    Ok((a?, b?))
}

fn print_difference(difference: &Difference) {
    let mark = if difference.too_lenient { " (accepts what the real server refuses)" } else { "" };
    console::line(format!("--- {} / {}{mark}\n{}", difference.case, difference.step, difference.diff));
}

fn read(path: &Path) -> Result<String> {
    std::fs::read_to_string(path).with_context(|| format!("read {}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Below this number the suite no longer covers the areas it was written for.
    const FEWEST_CASES: usize = 400;

    #[test]
    fn last_10_there_are_four_hundred_cases_and_every_one_can_be_read() {
        let cases = script::load(&cases_directory()).expect("the cases can be read");
        assert!(cases.len() >= FEWEST_CASES, "{} cases", cases.len());
    }

    #[test]
    fn a_recorded_transcript_is_stored_under_its_case() {
        let directory = tempfile::tempdir().expect("temp dir");
        let parity = Parity {
            filter: None,
            against: None,
            real_twice: false,
            token: None,
            ca: None,
            record: Some(directory.path().to_owned()),
            crds: PathBuf::new(),
            jobs: 1,
            list: false,
        };
        parity.record(&Transcript { case: "area/name".to_owned(), answers: Vec::new() }).expect("recorded");
        assert!(directory.path().join("area/name.txt").is_file());
    }
}
