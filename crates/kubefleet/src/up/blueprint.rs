//! The members of a fleet and the behaviour of their workloads: the default fleet, and members that the hub already has.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;

use anyhow::Context as _;
use fleet_sim::member::SimulatedMember;
use fleet_sim::workloads::Behaviours;
use serde_json::Value;

/// Labels of the first members, which the stages of the examples select.
const LABELS: [&[(&str, &str)]; 3] = [
    &[("environment", "canary"), ("order", "2")],
    &[("environment", "staging")],
    &[("environment", "canary"), ("order", "1")],
];

/// A fleet to start.
#[derive(Debug, Clone)]
pub(crate) struct Blueprint {
    pub(crate) members: Vec<Planned>,
    /// Behaviour of workloads in members that the hub already has and that are not listed.
    pub(crate) others: Arc<Behaviours>,
}

/// A member to start.
#[derive(Debug, Clone)]
pub(crate) struct Planned {
    pub(crate) member: SimulatedMember,
    pub(crate) behaviours: Arc<Behaviours>,
    /// Whether the hub already has the MemberCluster. It may be leaving, so it is not created again.
    pub(crate) is_known: bool,
}

impl Blueprint {
    /// `member1`, `member2`… The first three have the labels of the guides.
    pub(crate) fn usual(count: u16, behaviours: Behaviours) -> anyhow::Result<Self> {
        let others = Arc::new(behaviours);
        let planned = |number: u16| {
            let labels = LABELS.get(usize::from(number) - 1).copied().unwrap_or_default();
            let member = simulated(&format!("member{number}"))?.labelled(labels);
            Ok(Planned { member, behaviours: others.clone(), is_known: false })
        };
        let members = (1..=count).map(planned).collect::<anyhow::Result<_>>()?;
        Ok(Self { members, others })
    }

    /// Appends members that the hub already has. Their labels are on the hub.
    pub(crate) fn with_known(mut self, known: Vec<String>) -> anyhow::Result<Self> {
        let planned: BTreeSet<String> = self.members.iter().map(|planned| planned.member.name.to_string()).collect();
        let mut known: Vec<String> = known.into_iter().filter(|name| !planned.contains(name)).collect();
        // `member10` comes after `member9`.
        known.sort_by_key(|name| (name.len(), name.clone()));
        for name in known {
            let (member, behaviours) = (simulated(&name)?, self.others.clone());
            self.members.push(Planned { member, behaviours, is_known: true });
        }
        Ok(self)
    }
}

fn simulated(name: &str) -> anyhow::Result<SimulatedMember> {
    let member = SimulatedMember::new(name).with_context(|| format!("cannot simulate the member {name}"))?;
    Ok(member.applying())
}

/// The validated rules of a behaviour file.
pub(super) fn rules(path: &Path) -> anyhow::Result<Vec<Value>> {
    let text = std::fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))?;
    let unusable = || format!("cannot use {}", path.display());
    Behaviours::from_yaml(&text).with_context(unusable)?;
    let value: Value = serde_saphyr::from_str(&text).with_context(unusable)?;
    Ok(value.as_array().cloned().unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(blueprint: &Blueprint) -> Vec<&str> {
        blueprint.members.iter().map(|planned| planned.member.name.as_str()).collect()
    }

    #[test]
    fn the_default_fleet_has_the_labels_of_the_guides() {
        let blueprint = Blueprint::usual(4, Behaviours::default()).unwrap();
        assert_eq!(names(&blueprint), ["member1", "member2", "member3", "member4"]);
        let labels = |index: usize| format!("{:?}", blueprint.members[index].member.labels);
        assert_eq!(labels(0), r#"{"environment": "canary", "order": "2"}"#);
        assert_eq!(labels(1), r#"{"environment": "staging"}"#);
        assert_eq!(labels(2), r#"{"environment": "canary", "order": "1"}"#);
        assert_eq!(labels(3), "{}");
    }

    #[test]
    fn members_of_the_hub_follow_the_requested_members() {
        let blueprint = Blueprint::usual(1, Behaviours::default()).unwrap();
        let known = ["member1", "member10", "member9"].map(str::to_owned).to_vec();
        assert_eq!(names(&blueprint.with_known(known).unwrap()), ["member1", "member9", "member10"]);
    }
}
