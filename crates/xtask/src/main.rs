//! The project's own chores: test, codegen.

fn main() {}
