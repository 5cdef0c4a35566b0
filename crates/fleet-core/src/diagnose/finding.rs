//! Findings with evidence and fixes, as values that can be printed or written as JSON.

use std::fmt;

use fleet_api::kinds::{Family, KindInfo, ScopeKind};
use serde::Serialize;
use serde_json::Value;

/// Everything that was found out about one subject.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Diagnosis {
    pub subject: ObjectRef,
    /// The current state in one sentence.
    pub summary: String,
    /// The one root cause, if something is wrong or waited for.
    pub cause: Option<Finding>,
    /// What else was noticed, the worst first.
    pub notices: Vec<Finding>,
    /// What could not be read, so that nothing can be said about it.
    pub unread: Vec<Unread>,
}

impl Diagnosis {
    /// The worst severity; `None` without findings.
    pub fn severity(&self) -> Option<Severity> {
        self.cause.iter().chain(&self.notices).map(|finding| finding.severity).max()
    }
}

/// In ascending order of severity.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Severity {
    /// Not a problem, but a user may be waiting for it.
    Information,
    Warning,
    Error,
}

/// One problem or notice.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Finding {
    /// Its entry in docs/TROUBLESHOOTING.md, such as `UR-40`.
    pub entry: &'static str,
    /// The entry that explains the cause further down the chain, such as `PL-V1` below `UR-40`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub because_of: Option<&'static str>,
    pub severity: Severity,
    /// The cause in one sentence.
    pub title: String,
    /// Why it happens, and its consequences.
    pub explanation: String,
    /// What was seen, in the order of the chain: run, stage, cluster, binding, Work, object, Pod.
    pub evidence: Vec<Evidence>,
    /// What to do; the first is recommended, the others are alternatives to it.
    pub fixes: Vec<Fix>,
}

impl Finding {
    pub(super) fn new(entry: &'static str, severity: Severity, title: impl Into<String>) -> Self {
        Self {
            entry,
            because_of: None,
            severity,
            title: title.into(),
            explanation: String::new(),
            evidence: Vec::new(),
            fixes: Vec::new(),
        }
    }

    pub(super) fn error(entry: &'static str, title: impl Into<String>) -> Self {
        Self::new(entry, Severity::Error, title)
    }

    pub(super) fn warning(entry: &'static str, title: impl Into<String>) -> Self {
        Self::new(entry, Severity::Warning, title)
    }

    pub(super) fn information(entry: &'static str, title: impl Into<String>) -> Self {
        Self::new(entry, Severity::Information, title)
    }

    pub(super) fn because(mut self, explanation: impl Into<String>) -> Self {
        self.explanation = explanation.into();
        self
    }

    pub(super) fn with_evidence(
        mut self,
        object: &ObjectRef,
        field: impl Into<String>,
        value: impl Into<String>,
    ) -> Self {
        self.evidence.push(Evidence { object: object.clone(), field: field.into(), value: value.into() });
        self
    }

    pub(super) fn fix(mut self, what: impl Into<String>, steps: Vec<Step>) -> Self {
        if !steps.is_empty() {
            self.fixes.push(Fix { what: what.into(), steps });
        }
        self
    }

    /// The entry that explains the root cause, at the end of the chain.
    pub fn root_entry(&self) -> &'static str {
        self.because_of.unwrap_or(self.entry)
    }
}

/// An object, a field and its value.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Evidence {
    pub object: ObjectRef,
    pub field: String,
    pub value: String,
}

/// A reference to an object on the hub or on a member.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ObjectRef {
    pub api_version: String,
    pub kind: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub namespace: Option<String>,
    pub name: String,
    /// The member that it is on; absent for objects on the hub.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub member: Option<String>,
}

impl ObjectRef {
    /// An object of a Fleet kind on the hub; with a namespace it is of the namespaced kind.
    pub fn of<F: Family>(namespace: Option<&str>, name: &str) -> Self {
        let info = kind_of::<F>(namespace);
        Self {
            api_version: info.map(KindInfo::api_version).unwrap_or_default(),
            kind: info.map_or("", |info| info.kind).to_owned(),
            namespace: namespace.map(str::to_owned),
            name: name.to_owned(),
            member: None,
        }
    }

    /// Any object by its group, which is empty for Kubernetes' own first kinds.
    pub fn named(group: &str, version: &str, kind: &str, namespace: &str, name: &str) -> Self {
        let api_version = if group.is_empty() { version.to_owned() } else { format!("{group}/{version}") };
        Self {
            api_version,
            kind: kind.to_owned(),
            namespace: Some(namespace.to_owned()).filter(|namespace| !namespace.is_empty()),
            name: name.to_owned(),
            member: None,
        }
    }

    #[must_use]
    pub fn on(mut self, member: &str) -> Self {
        self.member = Some(member.to_owned());
        self
    }
}

impl fmt::Display for ObjectRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ", self.kind)?;
        if let Some(namespace) = &self.namespace {
            write!(f, "{namespace}/")?;
        }
        f.write_str(&self.name)?;
        if let Some(member) = &self.member {
            write!(f, " on {member}")?;
        }
        Ok(())
    }
}

/// The kind of a family in the scope that a namespace implies, or the only one that it has.
pub(super) fn kind_of<F: Family>(namespace: Option<&str>) -> Option<&'static KindInfo> {
    let (wanted, other) = if namespace.is_some() { (F::NAMESPACED, F::CLUSTER) } else { (F::CLUSTER, F::NAMESPACED) };
    wanted.or(other).filter(|info| namespace.is_some() || info.scope == ScopeKind::Cluster)
}

/// Steps that, taken in order, fix a problem.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Fix {
    pub what: String,
    pub steps: Vec<Step>,
}

impl Fix {
    /// Whether all steps have an action without placeholders, so that no user decision is needed.
    pub fn is_complete(&self) -> bool {
        self.steps.iter().all(|step| step.action.is_some() && step.fill_in.is_empty())
    }
}

/// One step of a fix.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Step {
    pub what: String,
    /// To be pasted into a shell.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub command: String,
    /// The same for machines. Absent if the step needs a user's judgement.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub action: Option<Action>,
    /// Words in angle brackets that the user must replace in command and action, such as `<image>`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub fill_in: Vec<String>,
}

/// What a step does, for machines.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase", tag = "verb")]
pub enum Action {
    Create {
        manifest: Value,
        /// The member to create it on; absent for the hub.
        #[serde(skip_serializing_if = "Option::is_none")]
        member: Option<String>,
    },
    #[serde(rename_all = "camelCase")]
    Patch {
        object: ObjectRef,
        #[serde(skip_serializing_if = "Option::is_none")]
        subresource: Option<&'static str>,
        patch_type: PatchType,
        patch: Value,
    },
    Delete {
        object: ObjectRef,
    },
}

/// The patch type.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum PatchType {
    Merge,
    /// Lists of Kubernetes' own kinds are merged by their keys.
    Strategic,
}

impl PatchType {
    pub fn media_type(self) -> &'static str {
        match self {
            PatchType::Merge => "application/merge-patch+json",
            PatchType::Strategic => "application/strategic-merge-patch+json",
        }
    }
}

/// Something that could not be read, and why.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Unread {
    pub what: String,
    pub why: String,
}
