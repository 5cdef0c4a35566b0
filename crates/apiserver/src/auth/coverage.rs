//! Whether the rules of a user cover the rules that the user wants to grant.
//!
//! Does not expand verbs × groups × resources × names: items of a list that are allowed by the same rules are compared
//! once. The amount of work and the length of the answer have fixed limits.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use super::rule::{ALL, PolicyRule, combined, url_covers};

/// Units of work for one comparison; a unit handles 64 held rules. A user with 2,000 rules who grants a role of 1,000
/// rules needs about a third of it. All units take less than a tenth of a second and 64 MiB.
const MAX_WORK: usize = 1 << 23;

/// Length in bytes of what a refusal lists, so that its answer stays below the size of a request.
const MAX_LISTED_BYTES: usize = 1 << 20;

/// The wanted rules that are not covered.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Coverage {
    Covered,
    /// One line per resource or URL, sorted. `complete` is false if not all of them are listed.
    Missing {
        lines: Vec<String>,
        complete: bool,
    },
    /// The comparison needs more than `MAX_WORK`.
    TooComplex,
}

/// Compares what is wanted with what is held.
pub(crate) fn coverage(held: &[PolicyRule], wanted: &[PolicyRule]) -> Coverage {
    let held: BTreeSet<&PolicyRule> = held.iter().collect();
    let held = HeldRules::of(&held.into_iter().collect::<Vec<_>>());
    let mut budget = Budget(MAX_WORK);
    let mut missing = Missing::default();
    for rule in wanted {
        for part in [held.resource_part(rule, &mut budget), held.url_part(rule, &mut budget)] {
            if part.and_then(|part| missing.add_uncovered(&part, &mut budget)).is_err() {
                return if missing.is_empty() { Coverage::TooComplex } else { missing.listed(false) };
            }
        }
    }
    if missing.is_empty() { Coverage::Covered } else { missing.listed(true) }
}

/// The comparison ends early: too much work, or enough is listed.
#[derive(Debug)]
struct Exhausted;

#[derive(Debug)]
struct Budget(usize);

impl Budget {
    fn spend(&mut self, work: usize) -> Result<(), Exhausted> {
        self.0 = self.0.checked_sub(work).ok_or(Exhausted)?;
        Ok(())
    }
}

/// A set of held rules, one bit each.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct RuleSet(Vec<u64>);

impl RuleSet {
    fn insert(&mut self, rule: usize) {
        if let Some(word) = self.0.get_mut(rule / 64) {
            *word |= 1 << (rule % 64);
        }
    }

    fn and(&self, other: &Self) -> Self {
        Self(self.0.iter().zip(&other.0).map(|(a, b)| a & b).collect())
    }

    fn meets(&self, other: &Self) -> bool {
        self.0.iter().zip(&other.0).any(|(a, b)| a & b != 0)
    }

    fn is_empty(&self) -> bool {
        self.0.iter().all(|word| *word == 0)
    }
}

/// Which held rules name an item in one of their lists.
#[derive(Debug)]
struct Named<'a> {
    /// Rules that allow every item.
    all: RuleSet,
    by_item: HashMap<&'a str, Vec<usize>>,
}

impl<'a> Named<'a> {
    fn of(
        held: &[&'a PolicyRule],
        list: impl Fn(&'a PolicyRule) -> &'a [String],
        all: impl Fn(&[String]) -> bool,
    ) -> Self {
        let mut out = Self { all: RuleSet(vec![0; held.len().div_ceil(64)]), by_item: HashMap::new() };
        for (number, rule) in held.iter().enumerate() {
            let items = list(rule);
            if all(items) {
                out.all.insert(number);
            }
            for item in items {
                out.by_item.entry(item).or_default().push(number);
            }
        }
        out
    }

    /// The rules that allow every item or name one of these.
    fn allowing(&self, items: &[&str], budget: &mut Budget) -> Result<RuleSet, Exhausted> {
        budget.spend(1 + self.all.0.len())?;
        let mut out = self.all.clone();
        for rules in items.iter().filter_map(|item| self.by_item.get(item)) {
            budget.spend(rules.len() / 64)?;
            for rule in rules {
                out.insert(*rule);
            }
        }
        Ok(out)
    }
}

/// The held rules, indexed by what they name.
#[derive(Debug)]
struct HeldRules<'a> {
    everything: RuleSet,
    verbs: Named<'a>,
    groups: Named<'a>,
    resources: Named<'a>,
    names: Named<'a>,
    urls: Named<'a>,
}

/// One wanted list: every item, and the held rules that allow it.
type Items<'w> = Vec<(&'w str, RuleSet)>;

/// A wanted rule's resources or URLs as up to four lists whose combinations are wanted.
#[derive(Debug)]
struct Part<'w> {
    /// HeldRules rules that can cover this part at all.
    held: RuleSet,
    groups: Items<'w>,
    /// Resources, or URLs if `is_url`.
    resources: Items<'w>,
    names: Items<'w>,
    verbs: Items<'w>,
    is_url: bool,
    has_names: bool,
}

impl<'a> HeldRules<'a> {
    fn of(held: &[&'a PolicyRule]) -> Self {
        let has_all = |items: &[String]| items.iter().any(|item| item == ALL);
        let mut everything = RuleSet(vec![0; held.len().div_ceil(64)]);
        (0..held.len()).for_each(|rule| everything.insert(rule));
        Self {
            everything,
            verbs: Named::of(held, |rule| &rule.verbs, has_all),
            groups: Named::of(held, |rule| &rule.api_groups, has_all),
            resources: Named::of(held, |rule| &rule.resources, has_all),
            names: Named::of(held, |rule| &rule.resource_names, <[String]>::is_empty),
            urls: Named::of(held, |rule| &rule.non_resource_urls, has_all),
        }
    }

    fn resource_part<'w>(&self, wanted: &'w PolicyRule, budget: &mut Budget) -> Result<Part<'w>, Exhausted> {
        let names = if wanted.resource_names.is_empty() {
            vec![("", self.names.all.clone())]
        } else {
            each(&wanted.resource_names, |name| self.names.allowing(&[name], budget))?
        };
        Ok(Part {
            held: self.everything.clone(),
            groups: each(&wanted.api_groups, |group| self.groups.allowing(&[group], budget))?,
            resources: each(&wanted.resources, |resource| self.allowing_resource(resource, budget))?,
            names,
            verbs: each(&wanted.verbs, |verb| self.verbs.allowing(&[verb], budget))?,
            is_url: false,
            has_names: !wanted.resource_names.is_empty(),
        })
    }

    fn url_part<'w>(&self, wanted: &'w PolicyRule, budget: &mut Budget) -> Result<Part<'w>, Exhausted> {
        Ok(Part {
            held: self.names.all.clone(),
            groups: vec![("", self.everything.clone())],
            resources: each(&wanted.non_resource_urls, |url| self.allowing_url(url, budget))?,
            names: vec![("", self.everything.clone())],
            verbs: each(&wanted.verbs, |verb| self.verbs.allowing(&[verb], budget))?,
            is_url: true,
            has_names: false,
        })
    }

    fn allowing_resource(&self, resource: &str, budget: &mut Budget) -> Result<RuleSet, Exhausted> {
        let (main, sub) = resource.split_once('/').unwrap_or((resource, ""));
        let full = combined(main, sub);
        let of_any = format!("*/{sub}");
        let items = [full.as_str(), of_any.as_str()];
        self.resources.allowing(if sub.is_empty() { &items[..1] } else { &items }, budget)
    }

    fn allowing_url(&self, url: &str, budget: &mut Budget) -> Result<RuleSet, Exhausted> {
        let mut out = self.urls.allowing(&[url], budget)?;
        for (pattern, rules) in self.urls.by_item.iter().filter(|(item, _)| item.ends_with('*')) {
            budget.spend(1 + pattern.len() / 64)?;
            if url_covers(pattern, url) {
                budget.spend(rules.len() / 64)?;
                for rule in rules {
                    out.insert(*rule);
                }
            }
        }
        Ok(out)
    }
}

fn each<'w>(
    items: &'w [String],
    mut allowing: impl FnMut(&'w str) -> Result<RuleSet, Exhausted>,
) -> Result<Items<'w>, Exhausted> {
    items.iter().map(|item| Ok((item.as_str(), allowing(item)?))).collect()
}

/// The rules that allow every item.
fn allowing_each(items: &Items<'_>, everything: &RuleSet) -> RuleSet {
    items.iter().fold(everything.clone(), |all, (_, rules)| all.and(rules))
}

/// Whether one of `rules` allows every combination of the lists, or for each combination another one does.
fn covers(rules: &RuleSet, lists: &[BTreeSet<&RuleSet>], budget: &mut Budget) -> Result<bool, Exhausted> {
    budget.spend(1 + rules.0.len())?;
    if rules.is_empty() {
        return Ok(false);
    }
    let Some((first, rest)) = lists.split_first() else { return Ok(true) };
    for allowing in first {
        if !covers(&rules.and(allowing), rest, budget)? {
            return Ok(false);
        }
    }
    Ok(true)
}

impl Part<'_> {
    fn lists(&self) -> [&Items<'_>; 4] {
        [&self.groups, &self.resources, &self.names, &self.verbs]
    }

    fn is_covered(&self, budget: &mut Budget) -> Result<bool, Exhausted> {
        if self.lists().iter().any(|list| list.is_empty()) {
            return Ok(true);
        }
        let all = self.lists().iter().fold(self.held.clone(), |all, list| allowing_each(list, &all));
        if !all.is_empty() {
            return Ok(true);
        }
        // Items that the same rules allow are looked at once.
        let mut lists = self.lists().map(|list| list.iter().map(|(_, rules)| rules).collect::<BTreeSet<_>>());
        lists.sort_by_key(BTreeSet::len);
        covers(&self.held, &lists, budget)
    }
}

/// The uncovered rules, grouped by resource.
#[derive(Debug, Default)]
struct Missing {
    by_resource: BTreeMap<PolicyRule, Vec<String>>,
    urls: Vec<String>,
    bytes: usize,
}

impl Missing {
    fn is_empty(&self) -> bool {
        self.by_resource.is_empty() && self.urls.is_empty()
    }

    fn add_uncovered(&mut self, part: &Part<'_>, budget: &mut Budget) -> Result<(), Exhausted> {
        if part.is_covered(budget)? {
            return Ok(());
        }
        let every_verb = allowing_each(&part.verbs, &part.held);
        for (group, by_group) in &part.groups {
            let by_group = part.held.and(by_group);
            for (resource, by_resource) in &part.resources {
                let by_resource = by_group.and(by_resource);
                let mut names = Vec::new();
                for (name, by_name) in &part.names {
                    let rules = by_resource.and(by_name);
                    budget.spend(1 + 3 * rules.0.len())?;
                    if !rules.meets(&every_verb) {
                        names.push((*name, rules));
                    }
                }
                for (verb, by_verb) in &part.verbs {
                    for (name, rules) in &names {
                        budget.spend(1 + rules.0.len())?;
                        if !rules.meets(by_verb) {
                            self.add(part, [*group, *resource, *name], verb)?;
                        }
                    }
                }
            }
        }
        Ok(())
    }

    fn add(&mut self, part: &Part<'_>, [group, resource, name]: [&str; 3], verb: &str) -> Result<(), Exhausted> {
        self.bytes += group.len() + resource.len() + name.len() + verb.len();
        if self.bytes > MAX_LISTED_BYTES && !self.is_empty() {
            return Err(Exhausted);
        }
        let one = |item: &str| vec![item.to_owned()];
        if part.is_url {
            let rule = PolicyRule { non_resource_urls: one(resource), verbs: one(verb), ..PolicyRule::default() };
            self.urls.push(rule.compact());
        } else {
            let key = PolicyRule {
                api_groups: one(group),
                resources: one(resource),
                resource_names: if part.has_names { one(name) } else { Vec::new() },
                ..PolicyRule::default()
            };
            self.by_resource.entry(key).or_default().push(verb.to_owned());
        }
        Ok(())
    }

    fn listed(self, complete: bool) -> Coverage {
        let mut lines = self.urls;
        lines.extend(self.by_resource.into_iter().map(|(rule, verbs)| PolicyRule { verbs, ..rule }.compact()));
        lines.sort();
        lines.dedup();
        Coverage::Missing { lines, complete }
    }
}

#[cfg(test)]
#[path = "coverage_tests.rs"]
mod tests;
