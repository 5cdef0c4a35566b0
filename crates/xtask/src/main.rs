//! The project's own chores: test, codegen.

mod codegen_builtin;

use std::path::PathBuf;

use clap::Parser;

#[derive(Parser)]
#[command(name = "xtask", about = "The project's own chores")]
enum Chore {
    /// Writes the table of built-in schemas from the pinned Kubernetes Go modules.
    CodegenBuiltin {
        #[arg(long, default_value = "crates/apiserver/src/builtin/schemas.json")]
        output: PathBuf,
    },
}

#[allow(clippy::print_stdout, reason = "a chore reports to the person who ran it")]
fn main() -> anyhow::Result<()> {
    match Chore::parse() {
        Chore::CodegenBuiltin { output } => println!("{}", codegen_builtin::run(&output)?),
    }
    Ok(())
}
