//! `completion`: scripts by which shells complete our command lines.
//!
//! Decides nothing: the scripts follow from the declared verbs and flags.

use std::io;

use clap_complete::{Shell, generate};

use crate::output::print;

/// Print a script by which a shell completes verbs and flags
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  source <(kubefleet completion bash)
  kubefleet completion zsh > \"${fpath[1]}/_kubefleet\"
  kubefleet completion fish | source")]
pub(crate) struct Args {
    /// The shell
    #[arg(value_enum)]
    shell: Shell,
}

/// The script for a command as it is called.
pub(crate) fn run(args: &Args, mut command: clap::Command, name: &str) -> anyhow::Result<()> {
    let mut script = Vec::new();
    generate(args.shell, &mut command, name, &mut script);
    let script = String::from_utf8(script).map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))?;
    print(&script)
}
