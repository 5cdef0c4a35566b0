//! Versions of the real components. The Go modules under `hack/real` pin the same versions; a test below compares them.

use std::path::PathBuf;

use anyhow::{Result, bail};

/// A release of kube-apiserver, kube-controller-manager and kubectl that tests can run on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Release {
    pub version: &'static str,
    /// The Go module that pins it.
    pub module: &'static str,
}

/// The release that the test command uses, and those of the oldest and the newest supported minor version.
pub const RELEASES: [Release; 3] = [
    Release { version: "v1.34.4", module: "kubernetes" },
    Release { version: "v1.32.2", module: "kubernetes-1.32" },
    Release { version: "v1.35.4", module: "kubernetes-1.35" },
];
/// The minor version that tests run on instead of the first release, such as `1.32`.
pub const CHOICE: &str = "KUBEFLEET_KUBERNETES";
/// Release of the etcd behind them.
pub const ETCD: &str = "v3.6.5";
/// Release of Helm: the last one that is made for this release of Kubernetes.
pub const HELM: &str = "v3.19.5";
/// Build date of the binaries, fixed for reproducible builds.
pub const BUILD_DATE: &str = "2026-02-10T00:00:00Z";

/// The directory that holds the Go modules.
pub fn module_root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../hack/real")
}

impl Release {
    /// The release in the environment.
    pub fn chosen() -> Result<Self> {
        match std::env::var(CHOICE) {
            Ok(minor) if !minor.is_empty() => Self::of(&minor),
            _ => Ok(RELEASES[0]),
        }
    }

    /// The release of a minor version such as `1.32`.
    pub fn of(minor: &str) -> Result<Self> {
        let Some(found) = RELEASES.into_iter().find(|release| release.minor() == minor) else {
            let known: Vec<String> = RELEASES.iter().map(Self::minor).collect();
            bail!("no release of Kubernetes {minor} is pinned; there are {}", known.join(", "));
        };
        Ok(found)
    }

    /// `1.34` of `v1.34.4`.
    pub fn minor(&self) -> String {
        let version = self.version.trim_start_matches('v');
        version.rsplit_once('.').map_or(version, |(minor, _)| minor).to_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn go_mod(module: &str) -> String {
        std::fs::read_to_string(module_root().join(module).join("go.mod")).expect("the Go module is in the repository")
    }

    #[test]
    fn go_modules_pin_the_versions_named_here() {
        for release in RELEASES {
            assert!(go_mod(release.module).contains(&format!("k8s.io/kubernetes {}\n", release.version)));
        }
        assert!(go_mod("etcd").contains(&format!("go.etcd.io/etcd/server/v3 {ETCD}\n")));
        assert!(go_mod("helm").contains(&format!("helm.sh/helm/v3 {HELM}\n")));
    }

    #[test]
    fn every_staging_module_is_replaced_by_its_release() {
        for Release { version, module } in RELEASES {
            let release = version.replacen("v1.", "v0.", 1);
            let replaced: Vec<String> =
                go_mod(module).lines().filter(|l| l.contains("=>")).map(str::to_owned).collect();
            assert!(replaced.len() > 20, "{} replacements", replaced.len());
            assert!(replaced.iter().all(|line| line.ends_with(&release)), "{replaced:?}");
        }
    }

    #[test]
    fn a_release_is_chosen_by_its_minor_version() {
        assert_eq!(Release::of("1.32").unwrap().version, "v1.32.2");
        let error = Release::of("1.20").unwrap_err().to_string();
        assert_eq!(error, "no release of Kubernetes 1.20 is pinned; there are 1.34, 1.32, 1.35");
    }

    #[test]
    fn helm_speaks_with_the_client_of_the_same_release() {
        let release = RELEASES[0].version.replacen("v1.", "v0.", 1);
        assert!(go_mod("helm").contains(&format!("\tk8s.io/client-go {release} ")));
    }
}
