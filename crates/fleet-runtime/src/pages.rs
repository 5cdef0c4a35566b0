//! The pages of a list: one request path per page, until the server has no more.

use std::fmt::Write as _;

use serde::Deserialize;

use crate::decode::PageMetadata;
use crate::watch::escaped;

/// Objects per page of a list, as in client-go.
pub const PAGE_SIZE: usize = 500;

/// The paths of the pages of one list.
#[derive(Debug)]
pub struct Pages {
    first: String,
    next: Option<String>,
}

/// One page of a list, with objects of a Rust type.
#[derive(Debug, Deserialize)]
pub struct PageOf<T> {
    #[serde(default)]
    metadata: PageMetadata,
    pub items: Vec<T>,
}

impl<T> PageOf<T> {
    /// The token of the next page, if there is one.
    pub fn more(&self) -> Option<&str> {
        self.metadata.more()
    }
}

impl Pages {
    /// The pages of the list at `path`, which may have a query, with further options.
    pub fn new(path: &str, options: &[(&str, Option<&str>)]) -> Self {
        Self::of_size(PAGE_SIZE, path, options)
    }

    /// As `new`, with another number of objects per page.
    pub fn of_size(size: usize, path: &str, options: &[(&str, Option<&str>)]) -> Self {
        let mut first = format!("{path}{}limit={size}", if path.contains('?') { '&' } else { '?' });
        for (option, value) in options.iter().filter_map(|(option, value)| Some((option, (*value)?))) {
            // Writing to a text cannot fail.
            let _ = write!(first, "&{option}={}", escaped(value));
        }
        Self { next: Some(first.clone()), first }
    }

    /// The path of the next page; `None` after the last one. After each page the caller calls `continue_at`.
    pub fn next_path(&mut self) -> Option<String> {
        self.next.take()
    }

    /// Continues with the token of the page that was just read, if it has one.
    pub fn continue_at(&mut self, token: Option<&str>) {
        self.next = token.map(|token| format!("{}&continue={}", self.first, escaped(token)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_follow_continue_tokens_and_keep_the_options() {
        let mut pages = Pages::new("/api/v1/pods", &[("labelSelector", Some("a in (b)")), ("fieldSelector", None)]);
        let first = "/api/v1/pods?limit=500&labelSelector=a%20in%20%28b%29";
        assert_eq!(pages.next_path().as_deref(), Some(first));
        pages.continue_at(Some("a+b="));
        assert_eq!(pages.next_path(), Some(format!("{first}&continue=a%2Bb%3D")));
        pages.continue_at(None);
        assert_eq!(pages.next_path(), None);
        assert_eq!(Pages::of_size(2, "/pods?watch=0", &[]).next_path().as_deref(), Some("/pods?watch=0&limit=2"));
    }

    #[test]
    fn an_empty_token_ends_the_list() {
        let more = |text: &str| serde_json::from_str::<PageOf<u8>>(text).unwrap().more().map(str::to_owned);
        assert_eq!(more(r#"{"items":[1],"metadata":{"continue":"t"}}"#).as_deref(), Some("t"));
        assert_eq!((more(r#"{"items":[],"metadata":{"continue":""}}"#), more(r#"{"items":[]}"#)), (None, None));
    }
}
