//! The `kubefleet` binary: parses the command line and hands over to one module per verb. Decides nothing itself.

fn main() {}
