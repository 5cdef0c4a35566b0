//! Checks cluster properties in affinities: names, requirements, and whether a set of requirements can be satisfied.

use std::collections::BTreeMap;

use k8s_values::{Quantity, go, validation};

use super::findings::Findings;
use super::go_print;
use crate::types::{PropertySelector, PropertySelectorRequirement, PropertySorter};

/// Properties with this prefix are amounts of a resource, as in `resources.kubernetes-fleet.io/total-cpu`.
pub const RESOURCE_PREFIX: &str = "resources.kubernetes-fleet.io/";
/// The types of amounts, sorted as they are printed.
pub const CAPACITY_TYPES: [&str; 3] = ["allocatable", "available", "total"];

/// Checks each requirement, then those on the same property together.
pub(super) fn check_selector(selector: &PropertySelector) -> Findings {
    let mut findings = Findings::none();
    let mut by_name: BTreeMap<&str, Vec<&PropertySelectorRequirement>> = BTreeMap::new();
    for requirement in &selector.match_expressions {
        let name = &requirement.name;
        if let Err(wrong) = check_name(name) {
            findings.add(format!("invalid property name {name}: {wrong}"));
        }
        if let Err(wrong) = Requirement::read(requirement) {
            findings.add(format!("invalid requirement on property {name}: {wrong}"));
        }
        by_name.entry(name).or_default().push(requirement);
    }
    for (name, requirements) in by_name {
        // Malformed ones have been reported; the others must still be satisfiable together.
        let readable: Vec<Requirement> =
            requirements.into_iter().filter_map(|one| Requirement::read(one).ok()).collect();
        if let Err(wrong) = check_satisfiable(&readable) {
            findings.add(format!("inconsistent requirements on property {name}: {wrong}"));
        }
    }
    findings
}

/// The type restricts the sort order; see `messages` for unknown orders.
pub(super) fn check_sorter(sorter: &PropertySorter) -> Findings {
    check_name(&sorter.name).err().into_iter().collect()
}

/// Whether a text can be the name of a property.
pub fn check_name(name: &str) -> Result<(), String> {
    if let Some(amount) = name.strip_prefix(RESOURCE_PREFIX) {
        let Some((capacity_type, _)) = amount.split_once('-') else {
            let form = "[PREFIX]/[CAPACITY_TYPE]-[RESOURCE_NAME]";
            return Err(format!("invalid resource property name {name}, expected format is {form}"));
        };
        if !CAPACITY_TYPES.contains(&capacity_type) {
            let known = go_print::list(&CAPACITY_TYPES);
            return Err(format!(
                "invalid capacity type in resource property name {name}, supported values are {known}"
            ));
        }
        return fine_or(&validation::qualified_name(name), |wrong| {
            format!("property name {name} is not valid: {wrong}")
        });
    }
    let Some((first, rest)) = name.split_once('/') else {
        return fine_or(&validation::qualified_name(name), |wrong| {
            format!("property name {name} is not valid: {wrong}")
        });
    };
    let (as_domain, as_name) = (validation::dns1123_subdomain(first), validation::qualified_name(first));
    if !as_domain.is_empty() && !as_name.is_empty() {
        return Err(format!(
            "property name first segment {first} is not valid: it is neither a valid DNS subdomain ({}) nor a valid qualified name ({})",
            as_domain.join("; "),
            as_name.join("; "),
        ));
    }
    rest.split('/').try_for_each(|segment| {
        let explain = |wrong| format!("property name segment {segment} is not valid: {wrong}");
        fine_or(&validation::qualified_name(segment), explain)
    })
}

fn fine_or(wrong: &[String], explain: impl FnOnce(String) -> String) -> Result<(), String> {
    if wrong.is_empty() { Ok(()) } else { Err(explain(wrong.join("; "))) }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Operator {
    Gt,
    Ge,
    Lt,
    Le,
    Eq,
    Ne,
}

/// A parsed requirement.
struct Requirement {
    operator: Operator,
    value: Quantity,
}

impl Requirement {
    fn read(requirement: &PropertySelectorRequirement) -> Result<Self, String> {
        let operator = match requirement.operator.as_str() {
            "Gt" => Operator::Gt,
            "Ge" => Operator::Ge,
            "Lt" => Operator::Lt,
            "Le" => Operator::Le,
            "Eq" => Operator::Eq,
            "Ne" => Operator::Ne,
            other => return Err(format!("unsupported operator {other}")),
        };
        let [text] = &requirement.values[..] else {
            let count = requirement.values.len();
            return Err(format!("operator {} requires exactly one value, got {count}", requirement.operator));
        };
        let value = text
            .parse()
            .map_err(|error| format!("value {} is not a valid resource.Quantity: {error}", go::quoted(text)))?;
        Ok(Self { operator, value })
    }
}

/// A bound; a `strict` one excludes its own value.
#[derive(Clone, Copy)]
struct Bound<'a> {
    value: &'a Quantity,
    strict: bool,
}

/// Whether some value satisfies all requirements; the first contradiction if not.
fn check_satisfiable(requirements: &[Requirement]) -> Result<(), String> {
    let wanted = the_one_value(requirements)?;
    if let Some(wanted) = wanted
        && requirements.iter().any(|one| one.operator == Operator::Ne && one.value == *wanted)
    {
        return Err(format!("conflicting Eq and Ne on same value {wanted}"));
    }
    // The tightest bounds: at equal values the strict one is tighter.
    let lower = bounds(requirements, Operator::Gt, Operator::Ge)
        .reduce(|held, next| if (next.value, next.strict) > (held.value, held.strict) { next } else { held });
    let upper = bounds(requirements, Operator::Lt, Operator::Le)
        .reduce(|held, next| if (next.value, held.strict) < (held.value, next.strict) { next } else { held });
    if let (Some(lower), Some(upper)) = (lower, upper)
        && (lower.value > upper.value || lower.value == upper.value && (lower.strict || upper.strict))
    {
        return Err(format!("lower bound ({}) and upper bound ({}) exclude all values", lower.value, upper.value));
    }
    let Some(wanted) = wanted else { return Ok(()) };
    if let Some(lower) = lower.filter(|lower| wanted < lower.value || wanted == lower.value && lower.strict) {
        return Err(format!("eq value {wanted} violates lower bound {}", lower.value));
    }
    if let Some(upper) = upper.filter(|upper| wanted > upper.value || wanted == upper.value && upper.strict) {
        return Err(format!("eq value {wanted} violates upper bound {}", upper.value));
    }
    Ok(())
}

/// The value that Eq requires; of several ways to write it, the last.
fn the_one_value(requirements: &[Requirement]) -> Result<Option<&Quantity>, String> {
    let mut wanted: Option<&Quantity> = None;
    for Requirement { value, .. } in requirements.iter().filter(|one| one.operator == Operator::Eq) {
        if let Some(before) = wanted.filter(|before| *before != value) {
            return Err(format!("conflicting Eq values {before} and {value}"));
        }
        wanted = Some(value);
    }
    Ok(wanted)
}

fn bounds(requirements: &[Requirement], strict: Operator, inclusive: Operator) -> impl Iterator<Item = Bound<'_>> {
    requirements
        .iter()
        .filter(move |one| one.operator == strict || one.operator == inclusive)
        .map(move |one| Bound { value: &one.value, strict: one.operator == strict })
}

#[cfg(test)]
#[allow(clippy::needless_pass_by_value, reason = "tables read better without a reference before every literal")]
mod tests;
