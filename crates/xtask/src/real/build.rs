//! Builds the real components from source with Go and keeps them in a cache outside of the clone. The cache is keyed by
//! version; a lock file lets concurrent builds share one result. Needs Go and a module proxy.

use super::versions::{self, RELEASES, Release};
use crate::console;
use anyhow::{Context, Result, bail};
use std::fmt::Write as _;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// Interval of progress lines during a build.
const PROGRESS_EVERY: Duration = Duration::from_secs(10);
/// Polling interval of a build; short, so that a warm build is quick.
const LOOK_EVERY: Duration = Duration::from_millis(100);

/// Paths of the five programs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Binaries {
    pub etcd: PathBuf,
    pub kube_apiserver: PathBuf,
    pub kube_controller_manager: PathBuf,
    pub kubectl: PathBuf,
    pub helm: PathBuf,
}

impl Binaries {
    fn in_cache(cache: &Path, release: Release) -> Self {
        let kubernetes = cache.join(format!("kubernetes-{}", release.version));
        Self {
            etcd: cache.join(format!("etcd-{}", versions::ETCD)).join("etcd"),
            kube_apiserver: kubernetes.join("kube-apiserver"),
            kube_controller_manager: kubernetes.join("kube-controller-manager"),
            kubectl: kubernetes.join("kubectl"),
            helm: cache.join(format!("helm-{}", versions::HELM)).join("helm"),
        }
    }

    /// Name and path of each program; servers in start order first.
    pub fn each(&self) -> [(&'static str, &Path); 5] {
        [
            ("etcd", &self.etcd),
            ("kube-apiserver", &self.kube_apiserver),
            ("kube-controller-manager", &self.kube_controller_manager),
            ("kubectl", &self.kubectl),
            ("helm", &self.helm),
        ]
    }

    fn complete(&self) -> bool {
        self.each().iter().all(|(_, path)| path.is_file())
    }
}

/// `$KUBEFLEET_CACHE`, else `$XDG_CACHE_HOME/kubefleet`, else `~/.cache/kubefleet`.
pub fn cache_dir() -> Result<PathBuf> {
    cache_dir_from(|name| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from))
}

fn cache_dir_from(variable: impl Fn(&str) -> Option<PathBuf>) -> Result<PathBuf> {
    variable("KUBEFLEET_CACHE")
        .or_else(|| variable("XDG_CACHE_HOME").map(|dir| dir.join("kubefleet")))
        .or_else(|| variable("HOME").map(|dir| dir.join(".cache/kubefleet")))
        .context("no cache directory: set KUBEFLEET_CACHE or HOME")
}

/// The programs of the release in the environment; builds them if the cache does not have them.
pub fn ensure() -> Result<Binaries> {
    ensure_release(Release::chosen()?)
}

/// The programs of a release. Waits for a concurrent build.
pub fn ensure_release(release: Release) -> Result<Binaries> {
    let cache = cache_dir()?.join("real");
    let binaries = Binaries::in_cache(&cache, release);
    if binaries.complete() {
        return Ok(binaries);
    }
    std::fs::create_dir_all(&cache).with_context(|| format!("create {}", cache.display()))?;
    let lock = File::create(cache.join("build.lock")).context("create the build lock")?;
    if lock.try_lock().is_err() {
        console::progress("another build of the real components is running; waiting for it");
        lock.lock().context("wait for the build lock")?;
    }
    if !binaries.complete() {
        build_etcd(&cache, &binaries)?;
        build_kubernetes(&cache, release, &binaries)?;
        build_helm(&cache, &binaries)?;
    }
    if !binaries.complete() {
        bail!("the build ended without all programs in {}", cache.display());
    }
    Ok(binaries)
}

fn build_etcd(cache: &Path, binaries: &Binaries) -> Result<()> {
    build_one(cache, &binaries.etcd, ("etcd", versions::ETCD), "-s -w", "go.etcd.io/etcd/server/v3")
}

fn build_helm(cache: &Path, binaries: &Binaries) -> Result<()> {
    build_one(cache, &binaries.helm, ("helm", versions::HELM), &helm_link_flags(), "helm.sh/helm/v3/cmd/helm")
}

/// A module of this name that makes one program of the same name.
fn build_one(cache: &Path, program: &Path, (name, version): (&str, &str), flags: &str, package: &str) -> Result<()> {
    if program.is_file() {
        return Ok(());
    }
    let staging = tempfile::tempdir_in(cache).context("create a build directory")?;
    go_build(&format!("{name} {version}"), name, flags, &staging.path().join(name), &[package])?;
    publish(staging.path(), program)
}

fn build_kubernetes(cache: &Path, release: Release, binaries: &Binaries) -> Result<()> {
    if [&binaries.kube_apiserver, &binaries.kube_controller_manager, &binaries.kubectl].iter().all(|p| p.is_file()) {
        return Ok(());
    }
    let staging = tempfile::tempdir_in(cache).context("create a build directory")?;
    go_build(
        &format!("kube-apiserver, kube-controller-manager and kubectl {}", release.version),
        release.module,
        &kubernetes_link_flags(release),
        staging.path(),
        &[
            "k8s.io/kubernetes/cmd/kube-apiserver",
            "k8s.io/kubernetes/cmd/kube-controller-manager",
            "k8s.io/kubernetes/cmd/kubectl",
        ],
    )?;
    for program in [&binaries.kube_apiserver, &binaries.kube_controller_manager, &binaries.kubectl] {
        publish(staging.path(), program)?;
    }
    Ok(())
}

/// The first two numbers of a release.
fn major_minor(release: Release) -> (&'static str, &'static str) {
    let mut parts = release.version.trim_start_matches('v').split('.');
    (parts.next().unwrap_or("0"), parts.next().unwrap_or("0"))
}

/// Sets the version of Helm and its default Kubernetes version.
fn helm_link_flags() -> String {
    let (major, minor) = major_minor(RELEASES[0]);
    let mut flags = format!("-s -w -X helm.sh/helm/v3/internal/version.version={}", versions::HELM);
    for package in ["pkg/chartutil", "pkg/lint/rules"] {
        for (name, value) in [("Major", major), ("Minor", minor)] {
            // Writing to a string cannot fail.
            let _ = write!(flags, " -X helm.sh/helm/v3/{package}.k8sVersion{name}={value}");
        }
    }
    flags
}

fn kubernetes_link_flags(release: Release) -> String {
    let (major, minor) = major_minor(release);
    let stamps = [
        ("gitVersion", release.version),
        ("gitMajor", major),
        ("gitMinor", minor),
        ("gitTreeState", "clean"),
        ("buildDate", versions::BUILD_DATE),
    ];
    let stamped: Vec<String> =
        stamps.iter().map(|(name, value)| format!("-X k8s.io/component-base/version.{name}={value}")).collect();
    format!("-s -w {}", stamped.join(" "))
}

/// Moves a finished program into the cache atomically.
fn publish(staging: &Path, target: &Path) -> Result<()> {
    let (Some(directory), Some(name)) = (target.parent(), target.file_name()) else {
        bail!("{} is no place for a program", target.display());
    };
    std::fs::create_dir_all(directory).with_context(|| format!("create {}", directory.display()))?;
    std::fs::rename(staging.join(name), target).with_context(|| format!("move {} into the cache", target.display()))
}

fn go_build(what: &str, module: &str, link_flags: &str, output: &Path, packages: &[&str]) -> Result<()> {
    // `-o` takes a directory for several packages, and says so by its trailing slash.
    let output = if packages.len() > 1 { output.join("") } else { output.to_owned() };
    let started = Instant::now();
    console::progress(format!("building {what} (a cold build takes several minutes)"));
    let child = Command::new("go")
        .current_dir(versions::module_root().join(module))
        .env("CGO_ENABLED", "0")
        .args(["build", "-mod=readonly", "-trimpath", "-ldflags", link_flags, "-o"])
        .arg(output)
        .args(packages)
        .stdin(Stdio::null())
        .spawn()
        .context("start `go build`: is Go on the PATH?")?;
    wait_with_progress(child, what, started)?;
    console::progress(format!("built {what} in {} s", started.elapsed().as_secs()));
    Ok(())
}

fn wait_with_progress(mut child: Child, what: &str, started: Instant) -> Result<()> {
    let mut said = Instant::now();
    loop {
        if let Some(status) = child.try_wait().context("wait for `go build`")? {
            if status.success() {
                return Ok(());
            }
            bail!("`go build` of {what} failed ({status}); its messages are above");
        }
        if said.elapsed() >= PROGRESS_EVERY {
            said = Instant::now();
            console::progress(format!("  still building {what}: {} s", started.elapsed().as_secs()));
        }
        std::thread::sleep(LOOK_EVERY);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use expect_test::expect;

    fn cache_with(variables: &[(&str, &str)]) -> String {
        let lookup = |name: &str| variables.iter().find(|(key, _)| *key == name).map(|(_, value)| PathBuf::from(value));
        match cache_dir_from(lookup) {
            Ok(path) => path.display().to_string(),
            Err(error) => error.to_string(),
        }
    }

    #[test]
    fn the_most_specific_variable_names_the_cache() {
        let all = [("KUBEFLEET_CACHE", "/k"), ("XDG_CACHE_HOME", "/x"), ("HOME", "/h")];
        assert_eq!(cache_with(&all), "/k");
        assert_eq!(cache_with(&all[1..]), "/x/kubefleet");
        assert_eq!(cache_with(&all[2..]), "/h/.cache/kubefleet");
        assert_eq!(cache_with(&[]), "no cache directory: set KUBEFLEET_CACHE or HOME");
    }

    #[test]
    fn link_flags_stamp_the_version_and_nothing_of_the_machine() {
        expect!["-s -w -X k8s.io/component-base/version.gitVersion=v1.34.4 -X k8s.io/component-base/version.gitMajor=1 -X k8s.io/component-base/version.gitMinor=34 -X k8s.io/component-base/version.gitTreeState=clean -X k8s.io/component-base/version.buildDate=2026-02-10T00:00:00Z"]
            .assert_eq(&kubernetes_link_flags(RELEASES[0]));
        expect!["-s -w -X helm.sh/helm/v3/internal/version.version=v3.19.5 -X helm.sh/helm/v3/pkg/chartutil.k8sVersionMajor=1 -X helm.sh/helm/v3/pkg/chartutil.k8sVersionMinor=34 -X helm.sh/helm/v3/pkg/lint/rules.k8sVersionMajor=1 -X helm.sh/helm/v3/pkg/lint/rules.k8sVersionMinor=34"]
            .assert_eq(&helm_link_flags());
    }

    #[test]
    fn a_missing_program_makes_the_cache_incomplete() {
        let cache = tempfile::tempdir().expect("temp dir");
        let binaries = Binaries::in_cache(cache.path(), RELEASES[0]);
        for (_, path) in binaries.each() {
            assert!(!binaries.complete());
            std::fs::create_dir_all(path.parent().expect("parent")).expect("mkdir");
            std::fs::write(path, "").expect("write");
        }
        assert!(binaries.complete());
    }
}
