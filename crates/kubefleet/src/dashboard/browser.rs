//! Opens a browser on a desktop. Without one the printed link is enough.

use std::process::{Command, Stdio};

/// Asks the desktop to open a link; does nothing without a desktop.
pub(super) fn open(link: &str) {
    let has_desktop = ["DISPLAY", "WAYLAND_DISPLAY"].iter().any(|name| std::env::var_os(name).is_some());
    let program = match std::env::consts::OS {
        "macos" => "open",
        _ if has_desktop => "xdg-open",
        _ => return,
    };
    let started =
        Command::new(program).arg(link).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn();
    // The link is printed anyway. Waiting in a thread reaps the process.
    if let Ok(mut child) = started {
        std::thread::spawn(move || drop(child.wait()));
    }
}
