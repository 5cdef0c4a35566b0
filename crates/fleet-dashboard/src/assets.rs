//! The files that pages refer to, compiled into the program.

/// A file and its media type.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Asset {
    pub content_type: &'static str,
    pub content: &'static str,
}

pub const STYLE: &str = include_str!("assets/dashboard.css");
pub const SCRIPT: &str = include_str!("assets/dashboard.js");
const ICON: &str = include_str!("assets/icon.svg");

/// The asset at a path below `/assets/`.
pub fn find(name: &str) -> Option<Asset> {
    let asset = |content_type, content| Some(Asset { content_type, content });
    match name {
        "dashboard.css" => asset("text/css; charset=utf-8", STYLE),
        "dashboard.js" => asset("text/javascript; charset=utf-8", SCRIPT),
        "icon.svg" => asset("image/svg+xml", ICON),
        _ => None,
    }
}
