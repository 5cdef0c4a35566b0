//! Taints and tolerations. They never affect clusters that are already picked.

use fleet_api::types::{PlacementPolicy, Taint, Toleration, TolerationOperator};

/// The first taint that the policy does not tolerate.
pub(super) fn untolerated<'c>(taints: &'c [Taint], policy: Option<&PlacementPolicy>) -> Option<&'c Taint> {
    let tolerations = policy.and_then(|policy| policy.tolerations.as_deref()).unwrap_or_default();
    taints.iter().find(|taint| !tolerations.iter().any(|toleration| tolerates(toleration, taint)))
}

fn tolerates(toleration: &Toleration, taint: &Taint) -> bool {
    let same_effect = toleration.effect.is_none_or(|effect| effect == taint.effect);
    same_effect
        && match toleration.operator() {
            TolerationOperator::Exists => toleration.key.is_empty() || toleration.key == taint.key,
            TolerationOperator::Equal => toleration.key == taint.key && toleration.value == taint.value,
        }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scheduler::tests::fixture::{Fleet, policy};

    fn check(taints: &str, tolerations: &str, expected: Option<&str>) {
        let fleet = Fleet::parse(&format!("m {taints}"));
        let policy = policy(&format!("{{tolerations: [{tolerations}]}}"));
        let facts = fleet.facts();
        assert_eq!(untolerated(facts[0].taints, Some(&policy)).map(|taint| taint.key.as_str()), expected);
    }

    #[test]
    fn tolerations() {
        check("", "", None);
        check("taint=a:1", "", Some("a"));
        check("taint=a:1", "{key: a, value: '1'}", None);
        check("taint=a:1", "{key: a, value: '2'}", Some("a"));
        check("taint=a:1", "{key: b, value: '1', operator: Equal}", Some("a"));
        check("taint=a:1", "{key: a, operator: Exists}", None);
        check("taint=a:1", "{key: b, operator: Exists}", Some("a"));
        check("taint=a:1", "{operator: Exists, effect: NoSchedule}", None);
        check("taint=a:1 taint=b:1 taint=c:1", "{key: a, operator: Exists}", Some("b"));
    }

    #[test]
    fn without_a_policy_no_taint_is_tolerated() {
        let fleet = Fleet::parse("m taint=a:1");
        assert!(untolerated(fleet.facts()[0].taints, None).is_some());
    }
}
