//! The member agent and its side-car, for members on which every megabyte counts: `kubefleet member-agent` and `kubefleet
//! refresh-token` in a program of a fraction of the size, most of which an idle agent never touches. Decides nothing: everything is
//! in the library.

fn main() -> std::process::ExitCode {
    kubefleet::run_member_agent()
}
