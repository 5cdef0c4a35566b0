//! One RBAC policy rule: what it allows, what it covers, and how it is printed.

use serde_json::{Value, json};

use super::user::User;

pub(super) const ALL: &str = "*";

/// A rule of a Role or ClusterRole.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct PolicyRule {
    pub(crate) api_groups: Vec<String>,
    pub(crate) resources: Vec<String>,
    pub(crate) non_resource_urls: Vec<String>,
    pub(crate) resource_names: Vec<String>,
    pub(crate) verbs: Vec<String>,
}

/// The attributes of an access check.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Target<'a> {
    Resource { group: &'a str, resource: &'a str, subresource: &'a str, namespace: &'a str, name: &'a str },
    Path(&'a str),
}

/// One question to the authorizer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Attributes<'a> {
    pub(crate) user: &'a User,
    pub(crate) verb: &'a str,
    pub(crate) target: Target<'a>,
}

impl Attributes<'_> {
    /// The namespace whose RoleBindings count too; empty for cluster scope.
    pub(crate) fn namespace(&self) -> &str {
        match self.target {
            Target::Resource { namespace, .. } => namespace,
            Target::Path(_) => "",
        }
    }

    /// The sentence of a refusal.
    pub(crate) fn refusal(&self) -> String {
        let Attributes { user: User { name: user, .. }, verb, target } = self;
        match *target {
            Target::Path(path) => format!("User {user:?} cannot {verb} path {path:?}"),
            Target::Resource { group, resource, subresource, namespace, .. } => {
                let full = combined(resource, subresource);
                let start = format!("User {user:?} cannot {verb} resource {full:?} in API group {group:?}");
                if namespace.is_empty() {
                    format!("{start} at the cluster scope")
                } else {
                    format!("{start} in the namespace {namespace:?}")
                }
            }
        }
    }
}

impl PolicyRule {
    /// Reads a rule as stored; anything that is not a list of strings counts as empty and so grants nothing.
    pub(crate) fn from_value(value: &Value) -> Self {
        let list = |key: &str| -> Vec<String> {
            let items = value.get(key).and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
            items.iter().filter_map(Value::as_str).map(str::to_owned).collect()
        };
        Self {
            api_groups: list("apiGroups"),
            resources: list("resources"),
            non_resource_urls: list("nonResourceURLs"),
            resource_names: list("resourceNames"),
            verbs: list("verbs"),
        }
    }

    pub(crate) fn to_value(&self) -> Value {
        let mut out = json!({"verbs": self.verbs});
        let lists = [
            ("apiGroups", &self.api_groups),
            ("resources", &self.resources),
            ("nonResourceURLs", &self.non_resource_urls),
            ("resourceNames", &self.resource_names),
        ];
        for (key, list) in lists {
            if !list.is_empty() {
                out[key] = json!(list);
            }
        }
        out
    }

    pub(crate) fn allows(&self, asked: &Attributes<'_>) -> bool {
        if !has_or_all(&self.verbs, asked.verb) {
            return false;
        }
        match asked.target {
            Target::Path(path) => self.non_resource_urls.iter().any(|url| url_matches(url, path)),
            Target::Resource { group, resource, subresource, name, .. } => {
                has_or_all(&self.api_groups, group)
                    && self.resource_matches(resource, subresource)
                    && (self.resource_names.is_empty() || has(&self.resource_names, name))
            }
        }
    }

    fn resource_matches(&self, resource: &str, subresource: &str) -> bool {
        let full = combined(resource, subresource);
        self.resources.iter().any(|granted| {
            granted == ALL
                || *granted == full
                || (!subresource.is_empty() && granted.strip_prefix("*/").is_some_and(|sub| sub == subresource))
        })
    }

    /// The form that escalation errors print.
    pub(crate) fn compact(&self) -> String {
        let parts = [
            ("APIGroups", &self.api_groups),
            ("Resources", &self.resources),
            ("NonResourceURLs", &self.non_resource_urls),
            ("ResourceNames", &self.resource_names),
            ("Verbs", &self.verbs),
        ];
        let texts: Vec<String> = parts
            .iter()
            .filter(|(_, list)| !list.is_empty())
            .map(|(name, list)| format!("{name}:{}", quoted_list(list)))
            .collect();
        format!("{{{}}}", texts.join(", "))
    }
}

/// A list as Go prints it with `%q`: `["a" "b"]`.
pub(crate) fn quoted_list(list: &[String]) -> String {
    let quoted: Vec<String> = list.iter().map(|text| format!("{text:?}")).collect();
    format!("[{}]", quoted.join(" "))
}

pub(super) fn combined(resource: &str, subresource: &str) -> String {
    if subresource.is_empty() { resource.to_owned() } else { format!("{resource}/{subresource}") }
}

fn has(list: &[String], text: &str) -> bool {
    list.iter().any(|item| item == text)
}

fn has_or_all(list: &[String], text: &str) -> bool {
    list.iter().any(|item| item == ALL || item == text)
}

fn url_matches(granted: &str, path: &str) -> bool {
    granted == ALL || url_covers(granted, path)
}

pub(super) fn url_covers(granted: &str, path: &str) -> bool {
    granted == path || (granted.ends_with('*') && path.starts_with(granted.trim_end_matches('*')))
}

#[cfg(test)]
pub(super) mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::auth::coverage::{Coverage, coverage};
    use expect_test::{Expect, expect};

    pub(in crate::auth) fn rule(text: &str) -> PolicyRule {
        // "verbs groups resources names" with commas, "-" for none, a resource starting with "/" is a URL.
        let words: Vec<Vec<String>> =
            text.split(' ')
                .map(|word| {
                    if word == "-" {
                        Vec::new()
                    } else {
                        word.split(',').map(|item| item.replace("core", "")).collect()
                    }
                })
                .collect();
        let (urls, resources) = words[2].iter().cloned().partition(|item| item.starts_with('/') || words[1].is_empty());
        PolicyRule {
            verbs: words[0].clone(),
            api_groups: words[1].clone(),
            resources,
            non_resource_urls: urls,
            resource_names: words.get(3).cloned().unwrap_or_default(),
        }
    }

    fn allows(rule_text: &str, verb: &str, target: Target<'_>) -> bool {
        rule(rule_text).allows(&Attributes { user: &User::default(), verb, target })
    }

    fn on(full: &'static str, name: &'static str) -> Target<'static> {
        let (path, group) = full.split_once('.').unwrap_or((full, ""));
        let (resource, subresource) = path.split_once('/').unwrap_or((path, ""));
        Target::Resource { group, resource, subresource, namespace: "", name }
    }

    #[test]
    fn a_rule_allows_only_its_verbs_and_resources() {
        let table = [
            ("get core pods", "get", on("pods", "a"), true),
            ("get core pods", "list", on("pods", ""), false),
            ("* core pods", "impersonate", on("pods", ""), true),
            ("get core pods", "get", on("pods.apps", ""), false),
            ("get * pods", "get", on("pods.apps", ""), true),
            ("get core pods", "get", on("pods/log", "a"), false),
            ("get core pods/log", "get", on("pods/log", "a"), true),
            ("get core */log", "get", on("pods/log", "a"), true),
            ("get core */log", "get", on("log", "a"), false),
            ("get core *", "get", on("pods/log", "a"), true),
            ("get core pods a,b", "get", on("pods", "b"), true),
            ("get core pods a,b", "get", on("pods", "c"), false),
            ("list core pods a", "list", on("pods", ""), false),
            ("get - /healthz", "get", Target::Path("/healthz"), true),
            ("get - /healthz", "get", Target::Path("/healthz/ping"), false),
            ("get - /healthz/*", "get", Target::Path("/healthz/ping"), true),
            ("get - *", "get", Target::Path("/anything"), true),
            ("get core *", "get", Target::Path("/anything"), false),
            ("get - *", "get", on("pods", ""), false),
        ];
        for (text, verb, target, expected) in table {
            assert_eq!(allows(text, verb, target), expected, "{text} / {verb} {target:?}");
        }
    }

    /// Rights compared one by one: slow, and plainly what Kubernetes means.
    impl PolicyRule {
        /// Equivalent rules with one verb, one resource (or URL) and at most one name each.
        fn breakdown(&self) -> Vec<PolicyRule> {
            let one = |text: &String| vec![text.clone()];
            let mut out = Vec::new();
            for group in &self.api_groups {
                for resource in &self.resources {
                    for verb in &self.verbs {
                        let simple = PolicyRule {
                            api_groups: one(group),
                            resources: one(resource),
                            verbs: one(verb),
                            ..PolicyRule::default()
                        };
                        if self.resource_names.is_empty() {
                            out.push(simple.clone());
                        }
                        out.extend(
                            self.resource_names
                                .iter()
                                .map(|name| PolicyRule { resource_names: one(name), ..simple.clone() }),
                        );
                    }
                }
            }
            for url in &self.non_resource_urls {
                for verb in &self.verbs {
                    out.push(PolicyRule { non_resource_urls: one(url), verbs: one(verb), ..PolicyRule::default() });
                }
            }
            out
        }

        /// Whether this rule grants everything that `simple`, a broken-down rule, grants.
        fn covers(&self, simple: &PolicyRule) -> bool {
            let all_or_star =
                |own: &[String], wanted: &[String]| has(own, ALL) || wanted.iter().all(|item| has(own, item));
            all_or_star(&self.verbs, &simple.verbs)
                && all_or_star(&self.api_groups, &simple.api_groups)
                && simple.resources.iter().all(|resource| {
                    let (main, sub) = resource.split_once('/').unwrap_or((resource, ""));
                    self.resource_matches(main, sub)
                })
                && simple
                    .non_resource_urls
                    .iter()
                    .all(|url| self.non_resource_urls.iter().any(|own| url_covers(own, url)))
                && (self.resource_names.is_empty()
                    || (!simple.resource_names.is_empty()
                        && simple.resource_names.iter().all(|name| has(&self.resource_names, name))))
        }
    }

    /// The parts of `wanted` that no rule of `owned` covers, as sorted lines; empty if all is covered.
    pub(in crate::auth) fn expanded_uncovered(owned: &[PolicyRule], wanted: &[PolicyRule]) -> Vec<String> {
        let missing = wanted
            .iter()
            .flat_map(PolicyRule::breakdown)
            .filter(|simple| !owned.iter().any(|rule| rule.covers(simple)));
        let mut by_resource: BTreeMap<PolicyRule, Vec<String>> = BTreeMap::new();
        let mut lines = Vec::new();
        for rule in missing {
            if rule.non_resource_urls.is_empty() {
                let key = PolicyRule { verbs: Vec::new(), ..rule.clone() };
                by_resource.entry(key).or_default().extend(rule.verbs);
            } else {
                lines.push(rule.compact());
            }
        }
        lines.extend(by_resource.into_iter().map(|(rule, verbs)| PolicyRule { verbs, ..rule }.compact()));
        lines.sort();
        lines.dedup();
        lines
    }

    fn check_uncovered(owned: &[&str], wanted: &[&str], expected: &Expect) {
        let rules = |texts: &[&str]| -> Vec<PolicyRule> { texts.iter().map(|text| rule(text)).collect() };
        let lines = match coverage(&rules(owned), &rules(wanted)) {
            Coverage::Missing { lines, complete: true } => lines,
            Coverage::Covered => Vec::new(),
            other => panic!("{other:?}"),
        };
        assert_eq!(lines, expanded_uncovered(&rules(owned), &rules(wanted)));
        expected.assert_eq(&lines.join("\n"));
    }

    #[test]
    fn uncovered_rules_are_listed_by_resource() {
        check_uncovered(&["get,list core pods"], &["get core pods"], &expect![[""]]);
        check_uncovered(
            &["get core pods"],
            &["get,list,watch core,apps pods"],
            &expect![[r#"
            {APIGroups:[""], Resources:["pods"], Verbs:["list" "watch"]}
            {APIGroups:["apps"], Resources:["pods"], Verbs:["get" "list" "watch"]}"#]],
        );
        check_uncovered(
            &["get core pods a"],
            &["get core pods a,b"],
            &expect![[r#"{APIGroups:[""], Resources:["pods"], ResourceNames:["b"], Verbs:["get"]}"#]],
        );
        check_uncovered(
            &["get core pods a"],
            &["get core pods"],
            &expect![[r#"{APIGroups:[""], Resources:["pods"], Verbs:["get"]}"#]],
        );
        check_uncovered(
            &["get - /healthz/*"],
            &["get - /healthz/x,/metrics"],
            &expect![[r#"{NonResourceURLs:["/metrics"], Verbs:["get"]}"#]],
        );
        check_uncovered(
            &["* * *"],
            &["get core pods/log", "get - /x"],
            &expect![[r#"{NonResourceURLs:["/x"], Verbs:["get"]}"#]],
        );
    }

    #[test]
    fn a_refusal_names_user_verb_resource_and_scope() {
        let user = User::authenticated("jane", []);
        let ask = |target| Attributes { user: &user, verb: "list", target }.refusal();
        let pods = |namespace| Target::Resource { group: "", resource: "pods", subresource: "", namespace, name: "" };
        expect![[r#"User "jane" cannot list resource "pods" in API group "" in the namespace "ns""#]]
            .assert_eq(&ask(pods("ns")));
        expect![[r#"User "jane" cannot list resource "pods" in API group "" at the cluster scope"#]]
            .assert_eq(&ask(pods("")));
        expect![[r#"User "jane" cannot list path "/x""#]].assert_eq(&ask(Target::Path("/x")));
    }

    #[test]
    fn a_rule_reads_back_as_written() {
        let value = json!({"verbs": ["get"], "apiGroups": [""], "resources": ["pods"], "resourceNames": ["a"]});
        assert_eq!(PolicyRule::from_value(&value).to_value(), value);
    }
}
