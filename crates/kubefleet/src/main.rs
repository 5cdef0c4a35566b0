//! The program `kubefleet`. Decides nothing: everything is in the library.

fn main() -> std::process::ExitCode {
    kubefleet::run()
}
