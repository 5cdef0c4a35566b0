//! Checks of security contexts of Pods and containers. Privileged containers are allowed.

use std::collections::BTreeSet;

use k8s_values::validation;
use serde_json::{Value, json};

use super::findings::{Findings, child};
use super::volumes;
use crate::builtin::values::{at, flag, list, text};
use crate::field::{Fault, FieldError, printed};

/// Longest name of a kernel setting.
const SYSCTL_MAXIMUM: usize = 253;
/// Longest path that Linux takes, without its final zero.
const PROFILE_MAXIMUM: usize = 4095;
const PROFILES: [&str; 3] = ["Localhost", "RuntimeDefault", "Unconfined"];

pub(super) fn of_pod(spec: &Value, path: &str, out: &mut Findings) {
    let context = at(spec, "securityContext");
    let path = child(path, "securityContext");
    identities(context, &["fsGroup", "runAsUser", "runAsGroup"], &path, out);
    for (index, group) in list(context, "supplementalGroups").iter().enumerate() {
        identity(group, &format!("{path}.supplementalGroups[{index}]"), out);
    }
    if flag(spec, "shareProcessNamespace") && flag(spec, "hostPID") {
        let why = "ShareProcessNamespace and HostPID cannot both be enabled";
        out.invalid(child(&path, "shareProcessNamespace"), &json!(true), why);
    }
    sysctls(spec, &child(&path, "sysctls"), out);
    let policy = |field: &str, known: &[&str], out: &mut Findings| {
        out.maybe_one_of(child(&path, field), at(context, field), known);
    };
    policy("fsGroupChangePolicy", &["Always", "OnRootMismatch"], out);
    seccomp(at(context, "seccompProfile"), &child(&path, "seccompProfile"), out);
    windows(at(context, "windowsOptions"), &child(&path, "windowsOptions"), out);
    app_armor(at(context, "appArmorProfile"), &child(&path, "appArmorProfile"), out);
    policy("supplementalGroupsPolicy", &["Merge", "Strict"], out);
    // The other one is behind a feature gate that is off by default.
    policy("seLinuxChangePolicy", &["Recursive"], out);
}

pub(super) fn of_container(context: &Value, host_users: bool, path: &str, out: &mut Findings) {
    identities(context, &["runAsUser", "runAsGroup"], path, out);
    let mount = at(context, "procMount");
    out.maybe_one_of(child(path, "procMount"), mount, &["Default", "Unmasked"]);
    if host_users && mount == "Unmasked" {
        out.invalid(child(path, "procMount"), mount, "`hostUsers` must be false to use `Unmasked`");
    }
    seccomp(at(context, "seccompProfile"), &child(path, "seccompProfile"), out);
    if at(context, "allowPrivilegeEscalation") == &Value::Bool(false) {
        let added = list(context, "capabilities.add").iter().filter(|name| *name == "CAP_SYS_ADMIN");
        let whys = flag(context, "privileged")
            .then_some("cannot set `allowPrivilegeEscalation` to false and `privileged` to true")
            .into_iter()
            .chain(
                added.map(|_| "cannot set `allowPrivilegeEscalation` to false and `capabilities.Add` CAP_SYS_ADMIN"),
            );
        for why in whys {
            let value = Some(printed_context(context));
            out.push(FieldError { fault: Fault::Invalid, path: path.to_owned(), value, detail: why.to_owned() });
        }
    }
    windows(at(context, "windowsOptions"), &child(path, "windowsOptions"), out);
    app_armor(at(context, "appArmorProfile"), &child(path, "appArmorProfile"), out);
}

/// What a pod with users of its own may not share with its host.
pub(super) fn host_users(spec: &Value, path: &str, out: &mut Findings) {
    if at(spec, "hostUsers") != &Value::Bool(false) {
        return;
    }
    for (field, shown) in [("hostNetwork", "hostNetwork"), ("hostPID", "HostPID"), ("hostIPC", "HostIPC")] {
        if flag(spec, field) {
            out.forbidden(child(path, shown), "when `hostUsers` is false");
        }
    }
    for kind in ["initContainers", "containers", "ephemeralContainers"] {
        for (index, container) in list(spec, kind).iter().enumerate() {
            if !list(container, "volumeDevices").is_empty() {
                out.forbidden(format!("{path}.{kind}[{index}].volumeDevices"), "when `hostUsers` is false");
            }
        }
    }
}

fn identities(context: &Value, fields: &[&str], path: &str, out: &mut Findings) {
    for field in fields {
        identity(at(context, field), &child(path, field), out);
    }
}

fn identity(value: &Value, path: &str, out: &mut Findings) {
    if value.as_i64().is_some_and(|id| !(0..=i64::from(i32::MAX)).contains(&id)) {
        out.invalid(path, value, validation::between(0, i64::from(i32::MAX)));
    }
}

fn sysctls(spec: &Value, path: &str, out: &mut Findings) {
    const SEGMENT: &str = "[a-z0-9]([-_a-z0-9]*[a-z0-9])?";
    let mut known = BTreeSet::new();
    for (index, setting) in list(spec, "securityContext.sysctls").iter().enumerate() {
        let (name, path) = (text(setting, "name"), format!("{path}[{index}].name"));
        let is_new = known.insert(name);
        if name.is_empty() {
            out.required(path.clone(), "");
        } else if name.len() > SYSCTL_MAXIMUM || !name.split(['.', '/']).all(is_sysctl_segment) {
            let pattern = format!("^({SEGMENT}[\\./])*{SEGMENT}$");
            let why = format!("must have at most {SYSCTL_MAXIMUM} characters and match regex {pattern}");
            out.invalid(path.clone(), &json!(name), why);
        } else if !is_new {
            out.duplicate(path.clone(), &json!(name));
        }
        let plain = name.replace('/', ".");
        let of_processes = ["kernel.shm", "kernel.msg", "fs.mqueue."].iter().any(|start| plain.starts_with(start));
        if flag(spec, "hostNetwork") && plain.starts_with("net.") {
            out.invalid(path, &json!(name), "may not be specified when 'hostNetwork' is true");
        } else if flag(spec, "hostIPC") && (of_processes || plain == "kernel.sem") {
            out.invalid(path, &json!(name), "may not be specified when 'hostIPC' is true");
        }
    }
}

fn is_sysctl_segment(segment: &str) -> bool {
    let plain = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    let bytes = segment.as_bytes();
    bytes.first().is_some_and(|byte| plain(*byte))
        && bytes.last().is_some_and(|byte| plain(*byte))
        && bytes.iter().all(|byte| plain(*byte) || matches!(byte, b'-' | b'_'))
}

fn seccomp(profile: &Value, path: &str, out: &mut Findings) {
    if profile.is_null() {
        return;
    }
    let kind = text(profile, "type");
    if kind.is_empty() {
        out.required(child(path, "type"), "type is required when seccompProfile is set");
    } else if !PROFILES.contains(&kind) {
        out.not_supported(child(path, "type"), &json!(kind), &PROFILES);
    }
    let (file, path) = (at(profile, "localhostProfile"), child(path, "localhostProfile"));
    match (kind == "Localhost", file.as_str()) {
        (true, None) => out.required(path, "must be set when seccomp type is Localhost"),
        (true, Some(file)) => volumes::relative(file, &path, out),
        (false, Some(file)) => {
            let value = Some(format!("{{\"Type\":{},\"LocalhostProfile\":{}}}", json!(kind), json!(file)));
            let detail = "can only be set when seccomp type is Localhost".to_owned();
            out.push(FieldError { fault: Fault::Invalid, path, value, detail });
        }
        (false, None) => {}
    }
}

fn app_armor(profile: &Value, path: &str, out: &mut Findings) {
    if profile.is_null() {
        return;
    }
    let (kind, file) = (text(profile, "type"), at(profile, "localhostProfile"));
    let file_path = child(path, "localhostProfile");
    match kind {
        "Localhost" => {
            let plain = file.as_str().unwrap_or_default();
            if plain.trim() != plain {
                out.invalid(file_path.clone(), file, "must not be padded with whitespace");
            } else if plain.is_empty() {
                out.required(file_path.clone(), "must be set when AppArmor type is Localhost");
            }
            if plain.len() > PROFILE_MAXIMUM {
                out.push(FieldError::too_long(file_path, PROFILE_MAXIMUM));
            }
        }
        "RuntimeDefault" | "Unconfined" if !file.is_null() => {
            out.invalid(file_path, file, "can only be set when AppArmor type is Localhost");
        }
        "RuntimeDefault" | "Unconfined" => {}
        "" => out.required(child(path, "type"), "type is required when appArmorProfile is set"),
        _ => out.not_supported(child(path, "type"), &json!(kind), &PROFILES),
    }
}

/// Longest contents of a credential specification.
const CREDENTIALS_MAXIMUM_KIB: usize = 64;

fn windows(options: &Value, path: &str, out: &mut Findings) {
    if let Some(name) = at(options, "gmsaCredentialSpecName").as_str() {
        out.messages(&child(path, "gmsaCredentialSpecName"), name, validation::dns1123_subdomain(name));
    }
    let credentials = at(options, "gmsaCredentialSpec");
    match credentials.as_str().map(str::len) {
        Some(0) => {
            let why = "gmsaCredentialSpec cannot be an empty string";
            out.invalid(child(path, "gmsaCredentialSpec"), credentials, why);
        }
        Some(size) if size > CREDENTIALS_MAXIMUM_KIB * 1024 => {
            let why = format!("gmsaCredentialSpec size must be under {CREDENTIALS_MAXIMUM_KIB} KiB");
            out.invalid(child(path, "gmsaCredentialSpec"), credentials, why);
        }
        _ => {}
    }
    if let Some(user) = at(options, "runAsUserName").as_str() {
        for why in user_name_problems(user) {
            out.invalid(child(path, "runAsUserName"), &json!(user), why);
        }
    }
}

/// A Windows user, with or without a domain before a backslash.
fn user_name_problems(whole: &str) -> Vec<&'static str> {
    if whole.is_empty() {
        return vec!["runAsUserName cannot be an empty string"];
    }
    if whole.chars().any(|c| c.is_ascii_control()) {
        return vec!["runAsUserName cannot contain control characters"];
    }
    let mut parts = whole.split('\\');
    let (first, second) = (parts.next().unwrap_or_default(), parts.next());
    if parts.next().is_some() {
        return vec!["runAsUserName cannot contain more than one backslash"];
    }
    let (domain, user) = second.map_or((None, first), |user| (Some(first), user));
    let only_dots = !user.is_empty() && user.chars().all(|c| c == '.' || c == ' ');
    let checks = [
        (
            domain.is_some_and(|domain| domain.len() >= 256),
            "runAsUserName's Domain length must be under 256 characters",
        ),
        (
            domain.is_some_and(|domain| !is_net_bios_name(domain) && !is_dns_name(domain)),
            "runAsUserName's Domain doesn't match the NetBios nor the DNS format",
        ),
        (user.is_empty(), "runAsUserName's User cannot be empty"),
        (user.len() > 104, "runAsUserName's User length must not be longer than 104 characters"),
        (only_dots, "runAsUserName's User cannot contain only periods or spaces"),
        (
            user.contains(['"', '/', '\\', ':', ';', '|', '=', ',', '+', '*', '?', '<', '>', '@', '[', ']']),
            r#"runAsUserName's User cannot contain the following characters: "/\:;|=,+*?<>@[]"#,
        ),
    ];
    checks.into_iter().filter(|(wrong, _)| *wrong).map(|(_, why)| why).collect()
}

fn is_net_bios_name(domain: &str) -> bool {
    (1..=15).contains(&domain.chars().count())
        && !domain.starts_with('.')
        && !domain.contains(['\\', '/', ':', '*', '?', '"', '<', '>', '|'])
}

fn is_dns_name(domain: &str) -> bool {
    domain.split('.').all(|label| {
        let bytes = label.as_bytes();
        (1..=63).contains(&bytes.len())
            && bytes.iter().all(|byte| byte.is_ascii_alphanumeric() || *byte == b'-')
            && !label.starts_with('-')
            && !label.ends_with('-')
    })
}

/// Fields of a struct: how Go calls them, how JSON does, and what is printed for absent ones.
type Fields<'a> = &'a [(&'a str, &'a str, &'a str)];

/// A container's context as kube-apiserver prints its own struct.
fn printed_context(context: &Value) -> String {
    let part = |value: &Value, fields: Fields<'_>| {
        if value.is_null() {
            return "null".to_owned();
        }
        let shown = fields.iter().map(|(name, field, absent)| {
            let value = at(value, field);
            let value = if value.is_null() { (*absent).to_owned() } else { printed(value) };
            format!("\"{name}\":{value}")
        });
        format!("{{{}}}", shown.collect::<Vec<_>>().join(","))
    };
    let structs: [(&str, &str, Fields<'_>); 5] = [
        ("Capabilities", "capabilities", &[("Add", "add", "null"), ("Drop", "drop", "null")]),
        (
            "SELinuxOptions",
            "seLinuxOptions",
            &[("User", "user", "\"\""), ("Role", "role", "\"\""), ("Type", "type", "\"\""), ("Level", "level", "\"\"")],
        ),
        (
            "WindowsOptions",
            "windowsOptions",
            &[
                ("GMSACredentialSpecName", "gmsaCredentialSpecName", "null"),
                ("GMSACredentialSpec", "gmsaCredentialSpec", "null"),
                ("RunAsUserName", "runAsUserName", "null"),
                ("HostProcess", "hostProcess", "null"),
            ],
        ),
        (
            "SeccompProfile",
            "seccompProfile",
            &[("Type", "type", "\"\""), ("LocalhostProfile", "localhostProfile", "null")],
        ),
        (
            "AppArmorProfile",
            "appArmorProfile",
            &[("Type", "type", "\"\""), ("LocalhostProfile", "localhostProfile", "null")],
        ),
    ];
    let [capabilities, se_linux, windows, seccomp, app_armor] =
        structs.map(|(name, field, fields)| format!("\"{name}\":{}", part(at(context, field), fields)));
    let plain = |name: &str, field: &str| format!("\"{name}\":{}", printed(at(context, field)));
    let all = [
        capabilities,
        plain("Privileged", "privileged"),
        se_linux,
        windows,
        plain("RunAsUser", "runAsUser"),
        plain("RunAsGroup", "runAsGroup"),
        plain("RunAsNonRoot", "runAsNonRoot"),
        plain("ReadOnlyRootFilesystem", "readOnlyRootFilesystem"),
        plain("AllowPrivilegeEscalation", "allowPrivilegeEscalation"),
        plain("ProcMount", "procMount"),
        seccomp,
        app_armor,
    ];
    format!("{{{}}}", all.join(","))
}

/// Windows containers that run in the host's own processes: all of a pod's or none.
pub(super) fn host_process(spec: &Value, path: &str, out: &mut Findings) {
    let of_pod = at(spec, "securityContext.windowsOptions.hostProcess").as_bool();
    let (mut all, mut chosen) = (0, 0);
    for kind in ["initContainers", "containers", "ephemeralContainers"] {
        for (index, container) in list(spec, kind).iter().enumerate() {
            all += 1;
            let own = at(container, "securityContext.windowsOptions.hostProcess").as_bool();
            if let (Some(pod), Some(own)) = (of_pod, own)
                && pod != own
            {
                let why = format!("pod hostProcess value must be identical if both are specified, was {pod}");
                let path = format!("{path}.{kind}[{index}].securityContext.windowsOptions.hostProcess");
                out.invalid(path, &json!(own), why);
            }
            chosen += usize::from(own.or(of_pod) == Some(true));
        }
    }
    if chosen > 0 && chosen != all {
        let why = "If pod contains any hostProcess containers then all containers must be HostProcess containers";
        out.invalid(path, &json!(""), why);
    }
    if chosen > 0 && !flag(spec, "hostNetwork") {
        let why = "hostNetwork must be true if pod contains any hostProcess containers";
        out.invalid(child(path, "hostNetwork"), &json!(false), why);
    }
}
