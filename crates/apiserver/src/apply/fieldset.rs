//! A set of fields as a trie of path elements, with union, difference and intersection.

use std::cmp::Ordering;

use super::element::Element;
use crate::schema::path::{MAX_PATH_BYTES, cut};

/// A set of fields. Owning a field says nothing of its children, and the other way round.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct FieldSet<'a> {
    /// Sorted by element; no branch is empty.
    nodes: Vec<Node<'a>>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Node<'a> {
    pub(super) element: Element<'a>,
    pub(super) branch: Branch<'a>,
}

/// What a set holds at one path: the path itself, and fields below it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Branch<'a> {
    pub(super) member: bool,
    pub(super) children: FieldSet<'a>,
}

impl Branch<'_> {
    pub(super) fn is_empty(&self) -> bool {
        !self.member && self.children.is_empty()
    }

    pub(super) fn union(&self, other: &Self) -> Self {
        Self { member: self.member || other.member, children: self.children.union(&other.children) }
    }
}

impl<'a> FieldSet<'a> {
    /// The set of the given paths, each a chain of field names.
    pub(crate) fn of_fields(paths: &[&[&'a str]]) -> Self {
        let mut set = Self::default();
        for path in paths {
            set.insert_fields(path);
        }
        set
    }

    fn insert_fields(&mut self, path: &[&'a str]) {
        let Some((first, rest)) = path.split_first() else { return };
        let element = Element::field(first);
        let position = match self.nodes.binary_search_by(|node| node.element.cmp(&element)) {
            Ok(position) => position,
            Err(position) => {
                self.nodes.insert(position, Node { element, branch: Branch::default() });
                position
            }
        };
        let branch = &mut self.nodes[position].branch;
        if rest.is_empty() {
            branch.member = true;
        } else {
            branch.children.insert_fields(rest);
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.nodes.is_empty()
    }

    /// How many fields are in the set.
    pub(crate) fn len(&self) -> usize {
        self.nodes.iter().map(|node| usize::from(node.branch.member) + node.branch.children.len()).sum()
    }

    pub(super) fn nodes(&self) -> &[Node<'a>] {
        &self.nodes
    }

    pub(super) fn get(&self, element: &Element<'_>) -> Option<&Branch<'a>> {
        let position = self.nodes.binary_search_by(|node| node.element.cmp(element)).ok()?;
        Some(&self.nodes[position].branch)
    }

    /// Adds what a branch holds. Elements come in order: use `from_nodes` for any order.
    pub(super) fn attach(&mut self, element: Element<'a>, branch: Branch<'a>) {
        debug_assert!(self.nodes.last().is_none_or(|last| last.element < element), "elements come in order");
        if !branch.is_empty() {
            self.nodes.push(Node { element, branch });
        }
    }

    /// The set of nodes that come in any order. Nodes of one element become one.
    pub(super) fn from_nodes(mut nodes: Vec<Node<'a>>) -> Self {
        nodes.retain(|node| !node.branch.is_empty());
        nodes.sort_by(|a, b| a.element.cmp(&b.element));
        let mut out: Vec<Node<'a>> = Vec::with_capacity(nodes.len());
        for node in nodes {
            match out.last_mut().filter(|last| last.element == node.element) {
                Some(last) => last.branch = last.branch.union(&node.branch),
                None => out.push(node),
            }
        }
        Self { nodes: out }
    }

    #[must_use]
    pub(crate) fn union(&self, other: &Self) -> Self {
        self.combine(other, |left, right| match (left, right) {
            (Some(left), Some(right)) => left.union(right),
            (Some(one), None) | (None, Some(one)) => one.clone(),
            (None, None) => Branch::default(),
        })
    }

    #[must_use]
    pub(crate) fn intersection(&self, other: &Self) -> Self {
        self.combine(other, |left, right| match (left, right) {
            (Some(left), Some(right)) => {
                Branch { member: left.member && right.member, children: left.children.intersection(&right.children) }
            }
            _ => Branch::default(),
        })
    }

    /// The fields of this set that are not in the other; children of a removed field stay.
    #[must_use]
    pub(crate) fn difference(&self, other: &Self) -> Self {
        self.combine(other, |left, right| match (left, right) {
            (Some(left), Some(right)) => {
                Branch { member: left.member && !right.member, children: left.children.difference(&right.children) }
            }
            (Some(left), None) => left.clone(),
            _ => Branch::default(),
        })
    }

    /// Like `difference`, but a field of the other set takes everything below it away too.
    #[must_use]
    pub(crate) fn difference_with_children(&self, other: &Self) -> Self {
        self.combine(other, |left, right| match (left, right) {
            (Some(_), Some(right)) if right.member => Branch::default(),
            (Some(left), Some(right)) => {
                Branch { member: left.member, children: left.children.difference_with_children(&right.children) }
            }
            (Some(left), None) => left.clone(),
            _ => Branch::default(),
        })
    }

    /// Only the fields that have no owned field below them.
    #[cfg(test)]
    #[must_use]
    pub(crate) fn leaves(&self) -> Self {
        let mut out = Self::default();
        for Node { element, branch } in &self.nodes {
            let member = branch.member && branch.children.is_empty();
            out.attach(element.clone(), Branch { member, children: branch.children.leaves() });
        }
        out
    }

    /// Only what lies under one top-level field, the field included.
    #[must_use]
    pub(crate) fn under(&self, name: &str) -> Self {
        let wanted = Element::field(name);
        Self { nodes: self.nodes.iter().filter(|node| node.element == wanted).cloned().collect() }
    }

    /// The same set, free of what it was built from.
    pub(crate) fn into_owned(self) -> FieldSet<'static> {
        let nodes = self.nodes.into_iter().map(|Node { element, branch }| Node {
            element: element.into_owned(),
            branch: Branch { member: branch.member, children: branch.children.into_owned() },
        });
        FieldSet { nodes: nodes.collect() }
    }

    /// Every field as printed in messages. On each level the fields themselves come first, then what is below them.
    pub(crate) fn to_paths(&self) -> Vec<String> {
        let mut out = Vec::with_capacity(self.len());
        self.collect_paths(&mut String::new(), &mut out);
        out
    }

    fn collect_paths(&self, prefix: &mut String, out: &mut Vec<String>) {
        out.extend(self.nodes.iter().filter(|node| node.branch.member).map(|node| format!("{prefix}{}", node.element)));
        for Node { element, branch } in &self.nodes {
            if !branch.children.is_empty() {
                let length = prefix.len();
                if length < MAX_PATH_BYTES {
                    prefix.push_str(cut(&element.to_string()));
                }
                branch.children.collect_paths(prefix, out);
                prefix.truncate(length);
            }
        }
    }

    /// Walks two sorted sets side by side and keeps what `decide` makes of each pair of branches.
    fn combine(&self, other: &Self, decide: impl Fn(Option<&Branch<'a>>, Option<&Branch<'a>>) -> Branch<'a>) -> Self {
        let mut nodes = Vec::with_capacity(self.nodes.len());
        let (mut left, mut right) = (self.nodes.iter().peekable(), other.nodes.iter().peekable());
        loop {
            let order = match (left.peek(), right.peek()) {
                (None, None) => break,
                (Some(_), None) => Ordering::Less,
                (None, Some(_)) => Ordering::Greater,
                (Some(l), Some(r)) => l.element.cmp(&r.element),
            };
            let l = if order == Ordering::Greater { None } else { left.next() };
            let r = if order == Ordering::Less { None } else { right.next() };
            let branch = decide(l.map(|node| &node.branch), r.map(|node| &node.branch));
            if let (Some(node), false) = (l.or(r), branch.is_empty()) {
                nodes.push(Node { element: node.element.clone(), branch });
            }
        }
        Self { nodes }
    }
}
