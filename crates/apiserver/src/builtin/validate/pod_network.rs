//! Checks of DNS settings and host aliases of Pods.

use std::net::IpAddr;

use k8s_values::validation;
use serde_json::{Value, json};

use super::findings::{Findings, child};
use crate::builtin::values::{at, list, text};

/// What the resolver of a container can hold.
const NAMESERVERS: usize = 3;
const SEARCHES: usize = 32;
const SEARCH_CHARACTERS: usize = 2048;

pub(super) fn dns(spec: &Value, path: &str, out: &mut Findings) {
    let (config, path) = (at(spec, "dnsConfig"), child(path, "dnsConfig"));
    let servers = list(config, "nameservers");
    if text(spec, "dnsPolicy") == "None" {
        if config.is_null() {
            out.required(path, "must provide `dnsConfig` when `dnsPolicy` is None");
            return;
        }
        if servers.is_empty() {
            let why = "must provide at least one DNS nameserver when `dnsPolicy` is None";
            out.required(child(&path, "nameservers"), why);
            return;
        }
    }
    if servers.len() > NAMESERVERS {
        let why = format!("must not have more than {NAMESERVERS} nameservers");
        out.invalid(child(&path, "nameservers"), at(config, "nameservers"), why);
    }
    for (index, server) in servers.iter().enumerate() {
        address(server, &format!("{path}.nameservers[{index}]"), out);
    }
    searches(config, &child(&path, "searches"), out);
    for (index, option) in list(config, "options").iter().enumerate() {
        if text(option, "name").is_empty() {
            out.required(format!("{path}.options[{index}]"), "must not be empty");
        }
    }
}

fn searches(config: &Value, path: &str, out: &mut Findings) {
    let searches: Vec<&str> = list(config, "searches").iter().filter_map(Value::as_str).collect();
    if searches.len() > SEARCHES {
        let why = format!("must not have more than {SEARCHES} search paths");
        out.invalid(path, at(config, "searches"), why);
    }
    if searches.join(" ").len() > SEARCH_CHARACTERS {
        let why =
            format!("must not have more than {SEARCH_CHARACTERS} characters (including spaces) in the search list");
        out.invalid(path, at(config, "searches"), why);
    }
    for (index, search) in searches.iter().enumerate().filter(|(_, search)| **search != ".") {
        let search = search.strip_suffix('.').unwrap_or(search);
        out.messages(&format!("{path}[{index}]"), search, validation::subdomain_with_underscores(search));
    }
}

pub(super) fn host_aliases(spec: &Value, path: &str, out: &mut Findings) {
    for (index, alias) in list(spec, "hostAliases").iter().enumerate() {
        let path = format!("{path}.hostAliases[{index}]");
        address(&json!(text(alias, "ip")), &child(&path, "ip"), out);
        for (number, name) in list(alias, "hostnames").iter().enumerate() {
            let name = name.as_str().unwrap_or_default();
            out.messages(&format!("{path}.hostnames[{number}]"), name, validation::dns1123_subdomain(name));
        }
    }
}

fn address(value: &Value, path: &str, out: &mut Findings) {
    if value.as_str().is_none_or(|text| text.parse::<IpAddr>().is_err()) {
        out.invalid(path, value, super::network::NOT_AN_ADDRESS);
    }
}
