//! Explains errors at the start of a fleet in one line, with a hint. Never changes a data directory.

use std::io::{self, ErrorKind};
use std::path::Path;

use apiserver::{EmbeddedError, RecoveryError, StartError};
use std::net::SocketAddr;

use crate::output::Hinted;

/// Explains a start error with a hint.
pub(super) fn explain(error: EmbeddedError, data_dir: Option<&Path>) -> anyhow::Error {
    let hint = match &error {
        EmbeddedError::Listen { address, source } => {
            let what = format!("cannot listen on {address}: {source}");
            return Hinted { what, hint: elsewhere(*address, source).to_owned() }.into();
        }
        EmbeddedError::Storage(StartError::Storage(storage)) => match storage.recovery_hint() {
            Some(way) => way.replace("another directory", "another directory with --data-dir"),
            None => of_storage(storage).to_owned(),
        },
        _ => "choose another directory with --data-dir, or use --in-memory".to_owned(),
    };
    let what = format!("{:#}", anyhow::Error::new(error));
    match data_dir {
        Some(_) => Hinted { what, hint }.into(),
        None => anyhow::anyhow!(what),
    }
}

fn elsewhere(address: SocketAddr, source: &io::Error) -> &'static str {
    match source.kind() {
        ErrorKind::AddrInUse => "the port is in use, perhaps by another `kubefleet up`; try --listen 127.0.0.1:0",
        ErrorKind::PermissionDenied => "ports below 1024 need privileges; try --listen 127.0.0.1:6443",
        ErrorKind::AddrNotAvailable if !address.ip().is_loopback() => {
            "this machine does not have that address; try --listen 127.0.0.1:6443"
        }
        _ => "try --listen 127.0.0.1:6443",
    }
}

fn of_storage(error: &RecoveryError) -> &'static str {
    match error {
        RecoveryError::Refused { .. } => "stop that process, or choose another directory with --data-dir",
        RecoveryError::Io { source, .. } => match source.kind() {
            ErrorKind::PermissionDenied | ErrorKind::ReadOnlyFilesystem => {
                "permission denied; choose another directory with --data-dir, or use --in-memory"
            }
            ErrorKind::StorageFull | ErrorKind::QuotaExceeded => {
                "the disk is full; free some space, or choose another directory with --data-dir"
            }
            _ => "choose another directory with --data-dir, or use --in-memory",
        },
        // These errors contain their own remedy.
        RecoveryError::Damaged { .. }
        | RecoveryError::Missing { .. }
        | RecoveryError::Format { .. }
        | RecoveryError::Exposed { .. } => "choose another directory with --data-dir, or use --in-memory",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message_and_hint(error: impl Into<EmbeddedError>) -> (String, String) {
        let error = explain(error.into(), Some(Path::new("data")));
        let hinted: &Hinted = error.downcast_ref().expect("a hint");
        (hinted.what.clone(), hinted.hint.clone())
    }

    fn of_directory(error: RecoveryError) -> (String, String) {
        message_and_hint(StartError::Storage(error))
    }

    #[test]
    fn every_start_error_has_its_hint() {
        let path = || "data/log-1".into();
        let io = |kind: ErrorKind| RecoveryError::Io { path: path(), source: kind.into() };
        let (what, hint) = of_directory(io(ErrorKind::PermissionDenied));
        assert_eq!(what, "cannot read or write data/log-1: permission denied");
        assert!(hint.starts_with("permission denied"), "{hint}");
        let damaged = |is_last_write| RecoveryError::Damaged { path: path(), at: 7, is_last_write };
        let (what, hint) = of_directory(damaged(false));
        assert_eq!(what, "data/log-1 is damaged at byte 7, before its end");
        assert!(hint.starts_with("nothing was changed") && hint.ends_with("directory with --data-dir"), "{hint}");
        let (what, hint) = of_directory(damaged(true));
        assert_eq!(what, "data/log-1 is damaged at byte 7, in its last write");
        assert!(hint.ends_with("keep a copy and run `truncate --size=7 data/log-1`"), "{hint}");
        assert!(of_directory(io(ErrorKind::StorageFull)).1.starts_with("the disk is full"));
        let listen = |kind: ErrorKind| {
            let address = "10.9.8.7:443".parse().unwrap();
            message_and_hint(EmbeddedError::Listen { address, source: kind.into() }).1
        };
        assert!(listen(ErrorKind::PermissionDenied).starts_with("ports below 1024"));
        assert!(listen(ErrorKind::AddrNotAvailable).starts_with("this machine does not have"));
        assert!(listen(ErrorKind::AddrInUse).starts_with("the port is in use"));
    }
}
