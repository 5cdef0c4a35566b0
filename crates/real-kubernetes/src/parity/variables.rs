//! The variables of a case: replaces `{{name}}`. Unknown names are kept, so that a mistake in a script is visible in the
//! transcript.

use std::collections::BTreeMap;

use fleet_api::kinds::PLACEMENT_GROUP;

/// Variables known to every case, and what earlier steps have saved.
#[derive(Debug, Clone)]
pub(super) struct Variables {
    values: BTreeMap<String, String>,
}

impl Variables {
    /// `{{id}}`, `{{ns}}`, `{{group}}` (an API group of the case's own) and path prefixes for its namespace.
    pub(super) fn of_case(id: &str) -> Self {
        let ns = format!("parity-{id}");
        let mut values = BTreeMap::new();
        for (name, prefix) in [
            ("core", "/api/v1"),
            ("apps", "/apis/apps/v1"),
            ("batch", "/apis/batch/v1"),
            ("rbac", "/apis/rbac.authorization.k8s.io/v1"),
            ("net", "/apis/networking.k8s.io/v1"),
        ] {
            values.insert(name.to_owned(), format!("{prefix}/namespaces/{ns}"));
        }
        values.insert("group".to_owned(), format!("{id}.example.com"));
        values.insert("crds".to_owned(), "/apis/apiextensions.k8s.io/v1/customresourcedefinitions".to_owned());
        values.insert("custom".to_owned(), format!("/apis/{id}.example.com/v1/namespaces/{ns}"));
        values.insert("fleet".to_owned(), format!("/apis/{PLACEMENT_GROUP}"));
        values.insert("ns".to_owned(), ns);
        values.insert("id".to_owned(), id.to_owned());
        Self { values }
    }

    pub(super) fn set(&mut self, name: &str, value: String) {
        self.values.insert(name.to_owned(), value);
    }

    pub(super) fn namespace(&self) -> &str {
        self.values.get("ns").map_or("default", String::as_str)
    }

    /// Replaces `{{name}}`, and `{{repeat:TEXT:COUNT}}` by that many copies of a text.
    pub(super) fn fill(&self, text: &str) -> String {
        let mut out = String::with_capacity(text.len());
        let mut rest = text;
        while let Some((before, after)) = rest.split_once("{{") {
            out.push_str(before);
            let Some((name, tail)) = after.split_once("}}") else {
                out.push_str("{{");
                rest = after;
                continue;
            };
            match self.value(name) {
                Some(value) => out.push_str(&value),
                None => out.extend(["{{", name, "}}"]),
            }
            rest = tail;
        }
        out.push_str(rest);
        out
    }

    fn value(&self, name: &str) -> Option<String> {
        if let Some(repeat) = name.strip_prefix("repeat:") {
            let (text, count) = repeat.rsplit_once(':')?;
            return Some(text.repeat(count.parse().ok()?));
        }
        self.values.get(name).cloned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_names_are_filled_and_unknown_ones_stay() {
        let mut variables = Variables::of_case("p1");
        variables.set("rv", "7".to_owned());
        assert_eq!(variables.fill("{{ns}}/{{rv}}/{{nope}}"), "parity-p1/7/{{nope}}");
        assert_eq!(variables.fill("{{core}}/pods"), "/api/v1/namespaces/parity-p1/pods");
        assert_eq!(variables.fill("{{repeat:ab:3}}{{"), "ababab{{");
    }
}
