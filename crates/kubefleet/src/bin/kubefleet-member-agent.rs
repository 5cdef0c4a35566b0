//! The member agent and nothing else, for members on which every megabyte counts: `kubefleet member-agent` in a program of a
//! fraction of the size, most of which an idle agent never touches. Decides nothing: everything is in the library.

fn main() -> std::process::ExitCode {
    kubefleet::run_member_agent()
}
