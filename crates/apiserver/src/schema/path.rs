//! How the place of a finding is written: `spec.list[0].name`, `spec.map[key]`.
//!
//! Decides only the notation. An empty text is the root of the object, which Kubernetes prints as `<nil>`.

/// The path of a named field below `parent`.
pub(crate) fn child(parent: &str, name: &str) -> String {
    if parent.is_empty() { name.to_owned() } else { format!("{parent}.{name}") }
}

/// The path of a map entry below `parent`.
pub(crate) fn key(parent: &str, name: &str) -> String {
    format!("{parent}[{name}]")
}

/// The path of a list item below `parent`.
pub(crate) fn index(parent: &str, position: usize) -> String {
    format!("{parent}[{position}]")
}

/// The path as a message shows it.
pub(crate) fn shown(path: &str) -> String {
    if path.is_empty() { "<nil>".to_owned() } else { path.to_owned() }
}

#[test]
fn the_root_is_shown_as_nil_and_never_leaves_a_dot() {
    assert_eq!(key(&child(&index(&child("", "list"), 2), "labels"), "a/b"), "list[2].labels[a/b]");
    assert_eq!(shown(""), "<nil>");
}
