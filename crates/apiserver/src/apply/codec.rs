//! The stored form of a field set: the `fieldsV1` object of a managedFields entry. Keys of an unknown kind are skipped,
//! because later versions may write them.

use serde_json::{Map, Value};

use super::element::{Element, ElementFault};
use super::fieldset::{Branch, FieldSet, Node};

/// The key that says "this path itself", beside the keys of the fields below it.
const SELF_KEY: &str = ".";

impl<'a> FieldSet<'a> {
    /// Reads a `fieldsV1` object; `null` is the empty set.
    pub(crate) fn from_fields(fields: &'a Value) -> Result<Self, String> {
        read_branch(fields).map(|branch| branch.children)
    }

    /// The `fieldsV1` object.
    pub(crate) fn to_fields(&self) -> Value {
        Value::Object(self.nodes().iter().map(|node| (node.element.to_text(), branch_fields(&node.branch))).collect())
    }

    /// The `fieldsV1` text with the keys in the order of the elements, byte for byte as kube-apiserver stores it.
    #[cfg(test)]
    pub(crate) fn to_json(&self) -> String {
        let mut out = String::new();
        write_nodes(self.nodes(), false, &mut out);
        out
    }
}

fn read_branch(fields: &Value) -> Result<Branch<'_>, String> {
    let mut branch = Branch::default();
    // The keys come in the order of their texts, which is not that of the elements: `i:10` stands before `i:9`.
    let mut nodes = Vec::new();
    match fields {
        Value::Null => {}
        Value::Object(entries) => {
            for (key, below) in entries {
                if key == SELF_KEY {
                    branch.member = true;
                    continue;
                }
                match Element::parse(key) {
                    Ok(element) => nodes.push(Node { element, branch: read_branch(below)? }),
                    Err(ElementFault::Unknown) => {}
                    Err(ElementFault::Malformed(why)) => return Err(format!("parsing key as path element: {why}")),
                }
            }
        }
        other => return Err(format!("expected an object of fields, got {other}")),
    }
    branch.children = FieldSet::from_nodes(nodes);
    branch.member |= branch.children.is_empty();
    Ok(branch)
}

fn branch_fields(branch: &Branch<'_>) -> Value {
    let mut out = Map::new();
    if branch.member && !branch.children.is_empty() {
        out.insert(SELF_KEY.to_owned(), Value::Object(Map::new()));
    }
    out.extend(branch.children.nodes().iter().map(|node| (node.element.to_text(), branch_fields(&node.branch))));
    Value::Object(out)
}

#[cfg(test)]
fn write_nodes(nodes: &[Node<'_>], with_self: bool, out: &mut String) {
    out.push('{');
    if with_self && !nodes.is_empty() {
        out.push_str("\".\":{}");
    }
    for (position, node) in nodes.iter().enumerate() {
        if position > 0 || with_self {
            out.push(',');
        }
        out.push_str(&super::element::html_escaped(&Value::String(node.element.to_text()).to_string()));
        out.push(':');
        write_nodes(node.branch.children.nodes(), node.branch.member, out);
    }
    out.push('}');
}
