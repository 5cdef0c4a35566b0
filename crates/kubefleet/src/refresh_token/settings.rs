//! The flags of `refresh-token`: names and defaults of the Go side-car, and which of them are required.

use std::path::PathBuf;

use fleet_runtime::ObjectKey;

use super::azure::Identity;
use super::source::Source;
use crate::agent::flags::rows::flag;
use crate::agent::flags::{self, Flag, Flags, Problem, Refusal, Shape};
use crate::agent::logging;

/// The settings from the command line.
#[derive(Debug)]
pub(super) struct Settings {
    pub(super) source: Source,
    pub(super) file: PathBuf,
    /// Kubeconfig of the cluster with the Secret; `None` for `KUBECONFIG` or the pod.
    pub(super) kubeconfig: Option<PathBuf>,
}

/// The Azure application of AKS API servers.
const DEFAULT_SCOPE: &str = "6dae42f8-4368-4678-94ff-3960e28e3630";

const COMMON: &[Flag] = &[flag("file-path", "/config/token", Shape::Text, "File that the token is written to")];

const SECRET: &[Flag] = &[
    flag("name", "", Shape::Text, "Name of the Secret; required"),
    flag("namespace", "", Shape::Text, "Namespace of the Secret; required"),
    flag("kubeconfig", "", Shape::Text, "Path to a kubeconfig; defaults to KUBECONFIG, then the pod's service account"),
];

const AZURE: &[Flag] = &[
    flag("clientid", "", Shape::Text, "Client id of the managed identity; required"),
    flag("scope", DEFAULT_SCOPE, Shape::Text, "Scope of the token"),
];

pub(super) fn help() -> String {
    let of = |title: &str, table| format!("Flags{title}:\n{}", flags::help(&[table]));
    [of(" of secret", SECRET), of(" of azure", AZURE), of("", COMMON), flags::help(&[logging::FLAGS])].concat()
}

/// Parses the source of the token (the first argument that is not a flag) and the flags around it. `endpoint` overrides the
/// endpoint of managed identities.
pub(super) fn read(words: &[String], endpoint: Option<&str>) -> Result<(Settings, Flags), Refusal> {
    let place = words.iter().position(|word| !word.starts_with('-')).unwrap_or(words.len());
    let mut rest = words.to_vec();
    let from = if place < rest.len() { Some(rest.remove(place)) } else { None };
    let parsed = |table| Flags::parse(&[table, COMMON, logging::FLAGS], &rest);
    let (source, flags) = match from.as_deref() {
        Some("secret") => {
            let flags = parsed(SECRET)?;
            let [namespace, name] = required(&flags, ["namespace", "name"])?;
            (Source::Secret(ObjectKey::namespaced(namespace, name)), flags)
        }
        Some("azure") => {
            let flags = parsed(AZURE)?;
            let [client_id] = required(&flags, ["clientid"])?;
            let identity = Identity::new(client_id, flags.text("scope"), endpoint).map_err(refused)?;
            (Source::Azure(identity), flags)
        }
        _ if words.iter().any(|word| matches!(word.as_str(), "-h" | "--help")) => return Err(Refusal::HelpRequested),
        Some(other) => return Err(refused(format!("{other:?} must be secret or azure"))),
        None => return Err(refused("the source of the token is missing: secret or azure".to_owned())),
    };
    // Only one of the tables declares it.
    let kubeconfig = matches!(source, Source::Secret(_)).then(|| flags.text("kubeconfig"));
    let kubeconfig = kubeconfig.filter(|path| !path.is_empty()).map(PathBuf::from);
    Ok((Settings { source, file: flags.text("file-path").into(), kubeconfig }, flags))
}

fn refused(what: String) -> Refusal {
    Refusal::Problems(vec![Problem::new(what)])
}

/// The values of required flags; reports all missing ones at once.
fn required<const N: usize>(flags: &Flags, names: [&'static str; N]) -> Result<[String; N], Refusal> {
    let missing: Vec<Problem> = names
        .iter()
        .filter(|name| flags.text(name).is_empty())
        .map(|name| Problem::new(format!("--{name} is required")))
        .collect();
    if missing.is_empty() { Ok(names.map(|name| flags.text(name).to_owned())) } else { Err(Refusal::Problems(missing)) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read_line(line: &str) -> Result<Settings, String> {
        let words: Vec<String> = line.split_whitespace().map(str::to_owned).collect();
        read(&words, None).map(|(settings, _)| settings).map_err(|refusal| refusal.describe())
    }

    #[test]
    fn the_command_line_of_the_chart_is_parsed() {
        let settings =
            read_line("secret --name=hub-kubeconfig-secret --namespace=default --file-path=/config/token --v=5")
                .unwrap();
        let Source::Secret(key) = settings.source else { panic!("{:?}", settings.source) };
        assert_eq!(key, ObjectKey::namespaced("default", "hub-kubeconfig-secret"));
        assert_eq!((settings.file, settings.kubeconfig), (PathBuf::from("/config/token"), None));

        let settings = read_line("azure --clientid=me").unwrap();
        let Source::Azure(identity) = settings.source else { panic!("{:?}", settings.source) };
        assert_eq!(identity, Identity::new("me".to_owned(), DEFAULT_SCOPE, None).unwrap());
        assert_eq!(settings.file, PathBuf::from("/config/token"));
    }

    #[test]
    fn the_source_may_follow_flags_and_equal_a_value() {
        let settings = read_line("--v=2 secret --name secret --namespace azure --kubeconfig=/k --file-path t").unwrap();
        let Source::Secret(key) = settings.source else { panic!("{:?}", settings.source) };
        assert_eq!(key, ObjectKey::namespaced("azure", "secret"));
        assert_eq!((settings.file, settings.kubeconfig), (PathBuf::from("t"), Some(PathBuf::from("/k"))));
    }

    #[test]
    fn missing_and_unknown_flags_are_named() {
        let refused = |line| read_line(line).unwrap_err();
        assert_eq!(refused("secret"), "--namespace is required\n--name is required");
        assert_eq!(refused("azure --clientid="), "--clientid is required");
        assert_eq!(refused("azure --name=x"), "unknown flag --name");
        assert_eq!(refused("--v=5"), "the source of the token is missing: secret or azure");
        assert_eq!(refused("vault"), "\"vault\" must be secret or azure");
        assert_eq!((refused("--help"), refused("secret -h")), ("help".to_owned(), "help".to_owned()));
        for flag in ["--name", "--clientid", "--scope", "--file-path", "--kubeconfig", "--v"] {
            assert!(help().contains(&format!("  {flag}")), "{flag}");
        }
    }
}
