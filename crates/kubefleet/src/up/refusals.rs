//! What usually goes wrong when a fleet is started, in one line, with what to do about it.
//!
//! Decides the hint from the error's kind. Never touches what is there: a directory that is damaged or in use stays so.

use std::io::{self, ErrorKind};
use std::path::Path;

use apiserver::embedded::EmbeddedError;
use apiserver::server::StartError;
use apiserver::store::file_log::RecoveryError;
use std::net::SocketAddr;

use crate::output::Hinted;

/// An error of the server's as a user can use it.
pub(super) fn explain(error: EmbeddedError, data_dir: Option<&Path>) -> anyhow::Error {
    let hint = match &error {
        EmbeddedError::Listen { address, source } => {
            let what = format!("cannot listen on {address}: {source}");
            return Hinted { what, hint: elsewhere(*address, source).to_owned() }.into();
        }
        EmbeddedError::Storage(StartError::Storage(storage)) => of_storage(storage),
        _ => "choose another directory with --data-dir, or use --in-memory",
    };
    let what = format!("{:#}", anyhow::Error::new(error));
    match data_dir {
        Some(_) => Hinted { what, hint: hint.to_owned() }.into(),
        None => anyhow::anyhow!(what),
    }
}

fn elsewhere(address: SocketAddr, source: &io::Error) -> &'static str {
    match source.kind() {
        ErrorKind::AddrInUse => {
            "another program (perhaps another `kubefleet up`) has that port; try --listen 127.0.0.1:0"
        }
        ErrorKind::PermissionDenied => "ports below 1024 need privileges; try --listen 127.0.0.1:6443",
        ErrorKind::AddrNotAvailable if !address.ip().is_loopback() => {
            "this machine does not have that address; try --listen 127.0.0.1:6443"
        }
        _ => "try --listen 127.0.0.1:6443",
    }
}

fn of_storage(error: &RecoveryError) -> &'static str {
    match error {
        RecoveryError::Refused { .. } => "end that process, or choose another directory with --data-dir",
        RecoveryError::Damaged { .. } => {
            "nothing was changed; put a backup in its place, or begin anew in another directory with --data-dir"
        }
        RecoveryError::Io { source, .. } => match source.kind() {
            ErrorKind::PermissionDenied | ErrorKind::ReadOnlyFilesystem => {
                "you may not write there; choose a directory of your own with --data-dir, or use --in-memory"
            }
            ErrorKind::StorageFull | ErrorKind::QuotaExceeded => {
                "the disk is full; make room, or choose another directory with --data-dir"
            }
            _ => "choose another directory with --data-dir, or use --in-memory",
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(error: impl Into<EmbeddedError>) -> (String, String) {
        let error = explain(error.into(), Some(Path::new("data")));
        let hinted: &Hinted = error.downcast_ref().expect("a hint");
        (hinted.what.clone(), hinted.hint.clone())
    }

    fn of_directory(error: RecoveryError) -> (String, String) {
        told(StartError::Storage(error))
    }

    #[test]
    fn every_refusal_has_a_hint_of_its_own() {
        let path = || "data/log-1".into();
        let io = |kind: ErrorKind| RecoveryError::Io { path: path(), source: kind.into() };
        let (what, hint) = of_directory(io(ErrorKind::PermissionDenied));
        assert_eq!(what, "cannot read or write data/log-1: permission denied");
        assert!(hint.starts_with("you may not write there"), "{hint}");
        let (what, hint) = of_directory(RecoveryError::Damaged { path: path(), at: 7 });
        assert_eq!(what, "data/log-1 is damaged at byte 7, before its end");
        assert!(hint.starts_with("nothing was changed"), "{hint}");
        assert!(of_directory(io(ErrorKind::StorageFull)).1.starts_with("the disk is full"));
        let listen = |kind: ErrorKind| {
            let address = "10.9.8.7:443".parse().unwrap();
            told(EmbeddedError::Listen { address, source: kind.into() }).1
        };
        assert!(listen(ErrorKind::PermissionDenied).starts_with("ports below 1024"));
        assert!(listen(ErrorKind::AddrNotAvailable).starts_with("this machine does not have"));
        assert!(listen(ErrorKind::AddrInUse).starts_with("another program"));
    }
}
