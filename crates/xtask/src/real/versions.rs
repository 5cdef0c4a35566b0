//! Versions of the real components. The Go modules under `hack/real` pin the same versions; a test below compares them.

use std::path::PathBuf;

/// Release of kube-apiserver, kube-controller-manager and kubectl.
pub const KUBERNETES: &str = "v1.34.4";
/// Release of the etcd behind them.
pub const ETCD: &str = "v3.6.5";
/// Release of Helm: the last one that is made for this release of Kubernetes.
pub const HELM: &str = "v3.19.5";
/// Build date of the binaries, fixed for reproducible builds.
pub const BUILD_DATE: &str = "2026-02-10T00:00:00Z";

/// The directory that holds the three Go modules.
pub fn module_root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../hack/real")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn go_mod(module: &str) -> String {
        std::fs::read_to_string(module_root().join(module).join("go.mod")).expect("the Go module is in the repository")
    }

    #[test]
    fn go_modules_pin_the_versions_named_here() {
        assert!(go_mod("kubernetes").contains(&format!("k8s.io/kubernetes {KUBERNETES}\n")));
        assert!(go_mod("etcd").contains(&format!("go.etcd.io/etcd/server/v3 {ETCD}\n")));
        assert!(go_mod("helm").contains(&format!("helm.sh/helm/v3 {HELM}\n")));
    }

    #[test]
    fn every_staging_module_is_replaced_by_its_release() {
        let release = KUBERNETES.replacen("v1.", "v0.", 1);
        let replaced: Vec<String> =
            go_mod("kubernetes").lines().filter(|l| l.contains("=>")).map(str::to_owned).collect();
        assert!(replaced.len() > 20, "{} replacements", replaced.len());
        assert!(replaced.iter().all(|line| line.ends_with(&release)), "{replaced:?}");
    }

    #[test]
    fn helm_speaks_with_the_client_of_the_same_release() {
        let release = KUBERNETES.replacen("v1.", "v0.", 1);
        assert!(go_mod("helm").contains(&format!("\tk8s.io/client-go {release} ")));
    }
}
