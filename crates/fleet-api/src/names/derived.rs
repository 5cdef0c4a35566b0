//! Names of objects that controllers create: the formula of each, and how it is parsed.
//!
//! Names are parsed from the right, because the appended parts never contain the separator.

use std::fmt;

use k8s_values::validation;

use super::{
    ClusterName, Index, NameError, NamespaceName, OverrideName, PlacementKey, PlacementName, RunName, StageName,
};
use crate::hashes::envelope_suffix;
use crate::types::EnvelopeType;
use crate::well_known::namespaces::MEMBER_PREFIX;

/// `<placement>-<index>`
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PolicySnapshotName {
    pub placement: PlacementName,
    pub index: Index,
}

impl PolicySnapshotName {
    pub fn parse(text: &str) -> Option<Self> {
        let (placement, index) = text.rsplit_once('-')?;
        Some(Self { placement: PlacementName::parse(placement).ok()?, index: Index::parse(index)? })
    }
}

impl fmt::Display for PolicySnapshotName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}", self.placement, self.index)
    }
}

/// Which snapshot of a group: the master, or the one with this subindex.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum SnapshotPart {
    Master,
    Sub(Index),
}

/// `<placement>-<index>-snapshot` for the master, `<placement>-<index>-<subindex>` for the others.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ResourceSnapshotName {
    pub placement: PlacementName,
    pub index: Index,
    pub part: SnapshotPart,
}

const MASTER_SUFFIX: &str = "snapshot";

impl ResourceSnapshotName {
    pub fn parse(text: &str) -> Option<Self> {
        let (rest, last) = text.rsplit_once('-')?;
        let part = if last == MASTER_SUFFIX { SnapshotPart::Master } else { SnapshotPart::Sub(Index::parse(last)?) };
        let (placement, index) = rest.rsplit_once('-')?;
        Some(Self { placement: PlacementName::parse(placement).ok()?, index: Index::parse(index)?, part })
    }
}

impl fmt::Display for ResourceSnapshotName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.part {
            SnapshotPart::Master => write!(f, "{}-{}-{MASTER_SUFFIX}", self.placement, self.index),
            SnapshotPart::Sub(subindex) => write!(f, "{}-{}-{subindex}", self.placement, self.index),
        }
    }
}

/// `<override>-<index>`
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct OverrideSnapshotName {
    pub override_name: OverrideName,
    pub index: Index,
}

impl OverrideSnapshotName {
    pub fn parse(text: &str) -> Option<Self> {
        let (name, index) = text.rsplit_once('-')?;
        Some(Self { override_name: OverrideName::parse(name).ok()?, index: Index::parse(index)? })
    }
}

impl fmt::Display for OverrideSnapshotName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}", self.override_name, self.index)
    }
}

/// Eight characters that make a binding's name unique: the start of a random UUID.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BindingSuffix(String);

impl BindingSuffix {
    const LENGTH: usize = 8;

    /// From random bits of the caller.
    pub fn from_bits(bits: u32) -> Self {
        Self(format!("{bits:08x}"))
    }

    fn parse(text: &str) -> Option<Self> {
        let is_hex = text.bytes().all(|byte| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte));
        (text.len() == Self::LENGTH && is_hex).then(|| Self(text.to_owned()))
    }
}

/// `<placement, cut>-<cluster, cut>-<8 characters>`: a DNS label of at most 63 bytes.
///
/// The two names are cut and cannot be parsed: bindings have a label and a spec for that.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct BindingName(String);

impl BindingName {
    /// Number of bytes of the placement's name that are kept.
    const PLACEMENT_BYTES: usize = 26;
    /// Number of bytes of the cluster's name that are kept: 26 + 27 + 8 and two dashes are 63.
    const CLUSTER_BYTES: usize = 27;

    /// Fails for names with dots in the kept part: the result must be a DNS label.
    pub fn new(placement: &PlacementName, cluster: &ClusterName, suffix: &BindingSuffix) -> Result<Self, NameError> {
        let placement = cut(placement.as_str(), Self::PLACEMENT_BYTES);
        let cluster = cut(cluster.as_str(), Self::CLUSTER_BYTES);
        let text = format!("{placement}-{cluster}-{}", suffix.0);
        let complaints = validation::dns1123_label(&text);
        if complaints.is_empty() { Ok(Self(text)) } else { Err(NameError { text, what: "binding", complaints }) }
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The suffix of a binding's name, if it has our format.
    pub fn suffix(text: &str) -> Option<BindingSuffix> {
        BindingSuffix::parse(text.rsplit_once('-')?.1)
    }
}

impl fmt::Display for BindingName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Names are ASCII, so a byte is a character.
fn cut(text: &str, bytes: usize) -> &str {
    text.get(..bytes).unwrap_or(text)
}

/// `drain-eviction-<placement>-<cluster>-<8 characters>`: an eviction that drains a cluster.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct DrainEvictionName(String);

impl DrainEvictionName {
    /// Always a DNS subdomain: its parts are, and 15 + 63 + 1 + 63 + 1 + 8 bytes are less than 253.
    pub fn new(placement: &PlacementName, cluster: &ClusterName, suffix: &BindingSuffix) -> Self {
        Self(format!("{}{}", Self::prefix(placement, cluster), suffix.0))
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Whether an eviction of this name drains the cluster of the placement. The two names cannot be parsed, because
    /// they may contain dashes.
    pub fn is_one(text: &str, placement: &PlacementName, cluster: &ClusterName) -> bool {
        let prefix = Self::prefix(placement, cluster);
        text.strip_prefix(prefix.as_str()).is_some_and(|rest| BindingSuffix::parse(rest).is_some())
    }

    fn prefix(placement: &PlacementName, cluster: &ClusterName) -> String {
        format!("drain-eviction-{placement}-{cluster}-")
    }
}

impl fmt::Display for DrainEvictionName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// The prefix of the names of a placement's Works: `<placement>` or `<namespace>.<placement>`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct WorkBase(String);

impl WorkBase {
    pub fn of(placement: &PlacementKey) -> Self {
        Self(match &placement.namespace {
            Some(namespace) => format!("{namespace}.{}", placement.name),
            None => placement.name.to_string(),
        })
    }
}

impl fmt::Display for WorkBase {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Identifies the envelope of a Work: 16 hex digits of a hash.
type EnvelopeSuffix = String;

/// Which part of a placement's content a Work contains.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum WorkPart {
    /// The resources of one snapshot.
    Snapshot(SnapshotPart),
    /// The content of an envelope in that snapshot.
    Envelope(SnapshotPart, EnvelopeSuffix),
}

/// `<base>-work`, `<base>-<subindex>`, or one of these with `-envelope-<16 hex digits>`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct WorkName {
    pub base: WorkBase,
    pub part: WorkPart,
}

const MASTER_WORK_SUFFIX: &str = "work";
const ENVELOPE_INFIX: &str = "-envelope-";
const ENVELOPE_SUFFIX_LENGTH: usize = 16;

impl WorkName {
    pub fn of_snapshot(placement: &PlacementKey, part: SnapshotPart) -> Self {
        Self { base: WorkBase::of(placement), part: WorkPart::Snapshot(part) }
    }

    /// `namespace` is empty for a ClusterResourceEnvelope.
    pub fn of_envelope(
        placement: &PlacementKey,
        part: SnapshotPart,
        kind: EnvelopeType,
        namespace: &str,
        name: &str,
    ) -> Self {
        let suffix = envelope_suffix(kind, namespace, name);
        Self { base: WorkBase::of(placement), part: WorkPart::Envelope(part, suffix) }
    }

    pub fn parse(text: &str) -> Option<Self> {
        let envelope = text.rsplit_once(ENVELOPE_INFIX).filter(|(_, suffix)| {
            suffix.len() == ENVELOPE_SUFFIX_LENGTH && suffix.bytes().all(|byte| byte.is_ascii_hexdigit())
        });
        let (base, last) = envelope.map_or(text, |(snapshot, _)| snapshot).rsplit_once('-')?;
        let snapshot =
            if last == MASTER_WORK_SUFFIX { SnapshotPart::Master } else { SnapshotPart::Sub(Index::parse(last)?) };
        let part = match envelope {
            Some((_, suffix)) => WorkPart::Envelope(snapshot, suffix.to_owned()),
            None => WorkPart::Snapshot(snapshot),
        };
        Some(Self { base: WorkBase(base.to_owned()), part })
    }
}

impl fmt::Display for WorkName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (WorkPart::Snapshot(snapshot) | WorkPart::Envelope(snapshot, _)) = &self.part;
        match snapshot {
            SnapshotPart::Master => write!(f, "{}-{MASTER_WORK_SUFFIX}", self.base)?,
            SnapshotPart::Sub(subindex) => write!(f, "{}-{subindex}", self.base)?,
        }
        match &self.part {
            WorkPart::Snapshot(_) => Ok(()),
            WorkPart::Envelope(_, suffix) => write!(f, "{ENVELOPE_INFIX}{suffix}"),
        }
    }
}

/// Whether an approval is before or after its stage.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum GatePosition {
    Before,
    After,
}

impl GatePosition {
    fn word(self) -> &'static str {
        match self {
            GatePosition::Before => "before",
            GatePosition::After => "after",
        }
    }
}

/// `<run>-before-<stage>` or `<run>-after-<stage>`
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ApprovalRequestName {
    pub run: RunName,
    pub position: GatePosition,
    pub stage: StageName,
}

impl ApprovalRequestName {
    pub fn parse(text: &str) -> Option<Self> {
        let (rest, stage) = text.rsplit_once('-')?;
        let (run, word) = rest.rsplit_once('-')?;
        let position = [GatePosition::Before, GatePosition::After].into_iter().find(|p| p.word() == word)?;
        Some(Self { run: RunName::parse(run).ok()?, position, stage: StageName::parse(stage).ok()? })
    }
}

impl fmt::Display for ApprovalRequestName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}-{}", self.run, self.position.word(), self.stage)
    }
}

/// `fleet-member-<cluster>`: the member's namespace on the hub.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct MemberNamespace(NamespaceName);

impl MemberNamespace {
    /// Fails for clusters whose name is longer than 50 bytes or has dots: no such namespace can exist.
    pub fn of(cluster: &ClusterName) -> Result<Self, NameError> {
        NamespaceName::parse(&format!("{MEMBER_PREFIX}{cluster}")).map(Self)
    }

    pub fn as_str(&self) -> &str {
        self.0.as_str()
    }

    /// The member of a namespace.
    pub fn cluster_of(namespace: &str) -> Option<ClusterName> {
        ClusterName::parse(namespace.strip_prefix(MEMBER_PREFIX)?).ok()
    }
}

impl fmt::Display for MemberNamespace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.0, f)
    }
}

/// `fleet-role-<cluster>`
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MemberRoleName(pub ClusterName);

impl fmt::Display for MemberRoleName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "fleet-role-{}", self.0)
    }
}

/// `fleet-rolebinding-<cluster>`
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MemberRoleBindingName(pub ClusterName);

impl fmt::Display for MemberRoleBindingName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "fleet-rolebinding-{}", self.0)
    }
}
