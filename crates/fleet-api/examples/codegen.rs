//! `cargo xtask codegen`: writes the generated files that are committed. A test keeps them up to date.

// Arithmetic on times can panic; `clippy.toml` lists the types for which it is allowed.
#![cfg_attr(not(test), warn(clippy::arithmetic_side_effects))]

use std::fs;
use std::io::{self, Write as _};
use std::path::Path;

use fleet_api::kinds::{all_crds, crd_yaml};

/// The directory of the CRDs. `charts/hub-agent/files/definitions` and the one file of the member agent's chart link to it; Helm
/// packages the targets of links.
const DEFINITIONS: &str = "config/crd";

fn main() -> io::Result<()> {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(DEFINITIONS);
    // Remove the files of renamed or dropped kinds.
    let _ = fs::remove_dir_all(&directory);
    fs::create_dir_all(&directory)?;
    let definitions = all_crds();
    for definition in &definitions {
        fs::write(directory.join(definition.file_name()), crd_yaml(definition))?;
    }
    writeln!(io::stdout(), "{DEFINITIONS}: {} files", definitions.len())
}
