//! Reads properties of clusters by name, and compares them exactly with the expressions of a policy.
//!
//! A malformed expression is an error only if a cluster is evaluated by it.

use std::cmp::Ordering;

use fleet_api::types::{IntOrString, PropertySelectorRequirement};
use fleet_api::well_known::properties::RESOURCE_PREFIX;
use k8s_values::quantity::{Format, Quantity};

use super::observed::ClusterFacts;
use super::report::{Fault, Unusable, UnusableWhy};

/// Where a property is found.
#[derive(Debug)]
pub(super) enum Property<'p> {
    Reported(&'p str),
    Resource { amount: Amount, resource: &'p str, name: &'p str },
    Malformed(&'p str),
}

/// Which amount of a resource is meant.
#[derive(Debug, Clone, Copy)]
pub(super) enum Amount {
    Total,
    Allocatable,
    Available,
}

impl<'p> Property<'p> {
    pub(super) fn named(name: &'p str) -> Self {
        let Some(rest) = name.strip_prefix(RESOURCE_PREFIX).and_then(|rest| rest.strip_prefix('/')) else {
            return Property::Reported(name);
        };
        // A resource whose name contains a dash cannot be selected.
        let (amount, resource) = match rest.split_once('-') {
            Some((amount, resource)) if !resource.is_empty() && !resource.contains('-') => (amount, resource),
            _ => return Property::Malformed(name),
        };
        let amount = match amount {
            "total" => Amount::Total,
            "allocatable" => Amount::Allocatable,
            "available" => Amount::Available,
            _ => return Property::Malformed(name),
        };
        Property::Resource { amount, resource, name }
    }

    pub(super) fn name(&self) -> &'p str {
        match self {
            Property::Reported(name) | Property::Resource { name, .. } | Property::Malformed(name) => name,
        }
    }

    /// The value that the cluster reports.
    pub(super) fn of(&self, cluster: &ClusterFacts<'_>) -> Result<Reading, Fault> {
        match *self {
            Property::Malformed(name) => Err(Fault::PropertyName { name: name.to_owned() }),
            Property::Reported(name) => {
                Ok(cluster.properties.get(name).map_or(Reading::Absent, |found| self.read(&found.value)))
            }
            Property::Resource { amount, resource, .. } => {
                let listed = cluster.usage.and_then(|usage| {
                    let list = match amount {
                        Amount::Total => &usage.capacity,
                        Amount::Allocatable => &usage.allocatable,
                        Amount::Available => &usage.available,
                    };
                    list.get(resource)
                });
                Ok(match listed {
                    None => Reading::Absent,
                    Some(IntOrString::String(text)) => self.read(text),
                    Some(IntOrString::Int(number)) => Reading::Amount(Quantity::from_i64(*number, Format::DecimalSi)),
                })
            }
        }
    }

    /// The value by which clusters are ranked, if the cluster reports it.
    pub(super) fn rank(&self, cluster: &ClusterFacts<'_>) -> Result<Result<Option<f64>, Unusable>, Fault> {
        Ok(match self.of(cluster)? {
            Reading::Absent => Ok(None),
            Reading::Unusable(value) => Err(value),
            Reading::Amount(quantity) => match quantity.as_f64() {
                value if value.is_finite() => Ok(Some(value)),
                _ => Err(Unusable::new(self.name(), &quantity.to_string(), UnusableWhy::TooLargeToRank)),
            },
        })
    }

    fn read(&self, text: &str) -> Reading {
        match text.parse() {
            Ok(quantity) => Reading::Amount(quantity),
            Err(_) => Reading::Unusable(Unusable::new(self.name(), text, UnusableWhy::NotAQuantity)),
        }
    }
}

/// The reported value of a property.
#[derive(Debug)]
pub(super) enum Reading {
    Absent,
    Amount(Quantity),
    /// Treated as absent.
    Unusable(Unusable),
}

/// One comparison of a property with a quantity, parsed once for all clusters.
#[derive(Debug)]
pub(super) struct Expression<'p> {
    property: Property<'p>,
    /// Checked only when a cluster has the property.
    test: Result<(Comparison, Quantity), Fault>,
}

/// Whether an expression holds for a cluster.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Holds {
    Yes,
    No,
    /// It does not hold because of this value.
    Unusable(Unusable),
}

type Comparison = fn(Ordering) -> bool;

impl<'p> Expression<'p> {
    pub(super) fn new(requirement: &'p PropertySelectorRequirement) -> Self {
        Self { property: Property::named(&requirement.name), test: test(requirement) }
    }

    pub(super) fn holds(&self, cluster: &ClusterFacts<'_>) -> Result<Holds, Fault> {
        let found = match self.property.of(cluster)? {
            Reading::Absent => return Ok(Holds::No),
            Reading::Unusable(value) => return Ok(Holds::Unusable(value)),
            Reading::Amount(found) => found,
        };
        let (comparison, expected) = self.test.as_ref().map_err(Clone::clone)?;
        Ok(if comparison(found.cmp(expected)) { Holds::Yes } else { Holds::No })
    }
}

fn test(requirement: &PropertySelectorRequirement) -> Result<(Comparison, Quantity), Fault> {
    let property = || requirement.name.clone();
    let [value] = requirement.values.as_slice() else {
        return Err(Fault::ValueCount { property: property(), count: requirement.values.len() });
    };
    let quantity = value.parse().map_err(|source| Fault::ExpectedQuantity {
        property: property(),
        value: value.clone(),
        source,
    })?;
    let comparison: Comparison = match requirement.operator.as_str() {
        "Gt" => Ordering::is_gt,
        "Ge" => Ordering::is_ge,
        "Lt" => Ordering::is_lt,
        "Le" => Ordering::is_le,
        "Eq" => Ordering::is_eq,
        "Ne" => Ordering::is_ne,
        operator => return Err(Fault::Operator { property: property(), operator: operator.to_owned() }),
    };
    Ok((comparison, quantity))
}

#[cfg(test)]
mod tests {
    use expect_test::{Expect, expect};

    use super::*;
    use crate::scheduler::tests::fixture::Fleet;

    const CLUSTER: &str = "m cpu=4/3/2500m gpu=1Ki nodes=3 version=v1.30";

    fn check(name: &str, operator: &str, values: &[&str], expected: Expect) {
        let fleet = Fleet::parse(CLUSTER);
        let requirement = PropertySelectorRequirement {
            name: name.to_owned(),
            operator: operator.to_owned(),
            values: values.iter().map(|&value| value.to_owned()).collect(),
        };
        let verdict = Expression::new(&requirement).holds(&fleet.facts()[0]);
        expected.assert_eq(&match verdict {
            Ok(Holds::Yes) => "true".to_owned(),
            Ok(Holds::No) => "false".to_owned(),
            Ok(Holds::Unusable(value)) => format!("false: {value}"),
            Err(fault) => fault.to_string(),
        });
    }

    #[test]
    fn operators_compare_exactly() {
        let available = "resources.kubernetes-fleet.io/available-cpu";
        for (operator, below, equal, above) in [
            ("Gt", "true", "false", "false"),
            ("Ge", "true", "true", "false"),
            ("Lt", "false", "false", "true"),
            ("Le", "false", "true", "true"),
            ("Eq", "false", "true", "false"),
            ("Ne", "true", "false", "true"),
        ] {
            for (value, expected) in [("2499m", below), ("2.5", equal), ("2500000001n", above)] {
                let fleet = Fleet::parse(CLUSTER);
                let requirement = PropertySelectorRequirement {
                    name: available.to_owned(),
                    operator: operator.to_owned(),
                    values: vec![value.to_owned()],
                };
                let holds = Expression::new(&requirement).holds(&fleet.facts()[0]).unwrap();
                assert_eq!((holds == Holds::Yes).to_string(), expected, "2500m {operator} {value}");
            }
        }
    }

    #[test]
    fn amounts_of_resources() {
        check("resources.kubernetes-fleet.io/total-cpu", "Eq", &["4"], expect!["true"]);
        check("resources.kubernetes-fleet.io/allocatable-cpu", "Eq", &["3"], expect!["true"]);
        check("resources.kubernetes-fleet.io/total-gpu", "Eq", &["1024"], expect!["true"]);
        check("kubernetes-fleet.io/node-count", "Eq", &["3"], expect!["true"]);
    }

    #[test]
    fn an_absent_property_never_matches_and_hides_a_malformed_expression() {
        check("resources.kubernetes-fleet.io/total-memory", "Ne", &["4"], expect!["false"]);
        check("example.com/nothing", "What", &[], expect!["false"]);
    }

    #[test]
    fn malformed_expressions_stop_the_scheduling() {
        let node_count = "kubernetes-fleet.io/node-count";
        check(
            node_count,
            "Gt",
            &[],
            expect![[r#"property "kubernetes-fleet.io/node-count" is compared with 0 values instead of one"#]],
        );
        check(
            node_count,
            "Gt",
            &["many"],
            expect![[r#"property "kubernetes-fleet.io/node-count" is compared with "many", which is no quantity"#]],
        );
        check(
            node_count,
            "gt",
            &["1"],
            expect![[
                r#"property "kubernetes-fleet.io/node-count" is compared by "gt", which is none of Gt, Ge, Lt, Le, Eq and Ne"#
            ]],
        );
    }

    #[test]
    fn audit_08_a_value_that_is_not_a_quantity_counts_as_absent() {
        for (operator, values) in [("Gt", &["1"][..]), ("What", &[])] {
            check(
                "k8s.io/k8s-version",
                operator,
                values,
                expect![[r#"false: property "k8s.io/k8s-version" has the value "v1.30", which is not a quantity"#]],
            );
        }
    }

    #[test]
    fn unknown_property_names() {
        for name in ["total-ephemeral-storage", "total", "total-", "-cpu", "free-cpu", ""] {
            let name = format!("resources.kubernetes-fleet.io/{name}");
            let requirement =
                PropertySelectorRequirement { name: name.clone(), operator: "Gt".to_owned(), values: Vec::new() };
            let fleet = Fleet::parse(CLUSTER);
            let fault = Expression::new(&requirement).holds(&fleet.facts()[0]).unwrap_err();
            assert_eq!(fault, Fault::PropertyName { name });
        }
    }
}
