//! The charts as Helm renders them, and their containers as local processes: the entry point of the image in the
//! Containerfile, the environment of the pod, and local directories for volumes.

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::LazyLock;

use serde_json::Value;

/// The root of the repository.
pub(crate) fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap()
}

/// Builds Helm if it is missing.
pub(crate) static HELM: LazyLock<PathBuf> =
    LazyLock::new(|| real_kubernetes::build::ensure().expect("the programs can be built").helm);

/// Runs Helm without the settings of this machine; returns output or error.
pub(crate) fn helm(arguments: &[&str], input: &str) -> Result<String, String> {
    let home = tempfile::tempdir().unwrap();
    let mut command = Command::new(&*HELM);
    command.args(arguments).current_dir(root()).env_clear().env("HOME", home.path());
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    // Fits into the pipe buffer.
    child.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
    let output = child.wait_with_output().unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    if output.status.success() { Ok(text(output.stdout)) } else { Err(text(output.stderr)) }
}

/// Renders a chart with these values; returns objects or error.
pub(crate) fn rendered(chart: &str, values: &str) -> Result<Vec<Value>, String> {
    let directory = format!("charts/{chart}");
    let text = helm(&["template", chart, &directory, "--namespace=fleet-system", "--values=-"], values)?;
    Ok(fleet_api::yaml::documents(&text).unwrap())
}

/// A container of a pod.
#[derive(Debug, Clone)]
pub(crate) struct Container {
    pub(crate) image: String,
    args: Vec<String>,
    environment: Vec<(String, String)>,
    /// Path in the container, and name of the volume.
    mounts: Vec<(String, String)>,
    /// The path of its readiness probe, if it has one.
    pub(crate) ready_at: Option<String>,
}

/// The containers of a pod, or of the pods of a Deployment.
pub(crate) fn containers(object: &Value) -> Vec<Container> {
    let spec = if object["spec"]["template"].is_null() { &object["spec"] } else { &object["spec"]["template"]["spec"] };
    let text = |value: &Value| value.as_str().unwrap_or_else(|| panic!("{value} is no text")).to_owned();
    let each = |value: &Value| value.as_array().cloned().unwrap_or_default();
    let variable = |entry: &Value| {
        let field = &entry["valueFrom"]["fieldRef"]["fieldPath"];
        let value = match field.as_str() {
            None => text(&entry["value"]),
            Some("metadata.namespace") => text(&object["metadata"]["namespace"]),
            Some(other) => panic!("unknown field {other}"),
        };
        (text(&entry["name"]), value)
    };
    each(&spec["containers"])
        .iter()
        .map(|container| Container {
            image: image_name(&text(&container["image"])),
            args: each(&container["args"]).iter().map(text).collect(),
            environment: each(&container["env"]).iter().map(variable).collect(),
            mounts: each(&container["volumeMounts"])
                .iter()
                .map(|mount| (text(&mount["mountPath"]), text(&mount["name"])))
                .collect(),
            ready_at: container["readinessProbe"]["httpGet"]["path"].as_str().map(str::to_owned),
        })
        .collect()
}

/// `hub-agent` of `REGISTRY/kubefleet/hub-agent:0.1.0`.
fn image_name(image: &str) -> String {
    let name = image.rsplit('/').next().unwrap_or(image);
    name.split(':').next().unwrap_or(name).to_owned()
}

impl Container {
    /// The container as a process. Volumes are directories in `volumes`.
    pub(crate) fn command(&self, volumes: &Path) -> Command {
        let entry_point = entry_point(&self.image);
        let (program, first) = entry_point.split_first().expect("an entry point names a program");
        let mut command = Command::new(program);
        command.args(first).args(self.args.iter().map(|argument| self.moved(argument, volumes)));
        command.env_clear().envs(self.environment.iter().map(|(name, value)| (name, self.moved(value, volumes))));
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    }

    /// Whether its environment has this variable.
    pub(crate) fn has_variable(&self, variable: &str) -> bool {
        self.environment.iter().any(|(name, _)| name == variable)
    }

    /// Whether this is one of its arguments.
    pub(crate) fn has_argument(&self, argument: &str) -> bool {
        self.args.iter().any(|one| one == argument)
    }

    pub(crate) fn has_flag(&self, flag: &str) -> bool {
        self.args.iter().any(|one| one.split('=').next() == Some(flag))
    }

    /// Maps a container path, alone or in a flag, to a local path.
    fn moved(&self, text: &str, volumes: &Path) -> String {
        let (flag, path) = text.split_once('=').map_or(("", text), |(flag, path)| (flag, path));
        let is_below = |rest: &&str| rest.is_empty() || rest.starts_with('/');
        let found = self
            .mounts
            .iter()
            .find_map(|(mount, volume)| Some((path.strip_prefix(mount.as_str()).filter(is_below)?, volume)));
        match found {
            Some((rest, volume)) if flag.is_empty() => format!("{}{rest}", volumes.join(volume).display()),
            Some((rest, volume)) => format!("{flag}={}{rest}", volumes.join(volume).display()),
            None => text.to_owned(),
        }
    }
}

/// The entry point of an image, as a program of this build.
fn entry_point(image: &str) -> Vec<String> {
    let words = entry_points().into_iter().find(|(name, _)| name == image);
    let (_, mut words) = words.unwrap_or_else(|| panic!("the Containerfile has no image {image}"));
    let program = match words[0].as_str() {
        "/kubefleet" => env!("CARGO_BIN_EXE_kubefleet"),
        "/kubefleet-member-agent" => env!("CARGO_BIN_EXE_kubefleet-member-agent"),
        other => panic!("{other} is no program of ours"),
    };
    program.clone_into(&mut words[0]);
    words
}

/// The images of the Containerfile and their entry points.
pub(crate) fn entry_points() -> Vec<(String, Vec<String>)> {
    let text = std::fs::read_to_string(root().join("Containerfile")).unwrap();
    let mut found = Vec::new();
    let mut stage = "";
    for line in text.lines() {
        if let Some((_, name)) = line.strip_prefix("FROM ").and_then(|line| line.split_once(" AS ")) {
            stage = name;
        }
        if let Some(words) = line.strip_prefix("ENTRYPOINT ") {
            found.push((stage.to_owned(), serde_json::from_str(words).unwrap()));
        }
    }
    found
}
