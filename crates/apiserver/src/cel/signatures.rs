//! The table of functions with their types: CEL's own, its extensions, and the Kubernetes library of version 1.34.
//! `library` implements them.

use std::collections::BTreeMap;
use std::sync::{Arc, LazyLock};

use super::types::Ty;

/// One overload. A member's receiver is its first argument.
#[derive(Debug)]
pub(super) struct Signature {
    pub(super) args: Vec<Ty>,
    pub(super) result: Ty,
}

/// Functions written `f(a, b)`, operators included: name and `arguments > result` per overload.
const GLOBAL: &[(&str, &str)] = &[
    ("_==_", "A A > bool"),
    ("_!=_", "A A > bool"),
    (
        "_+_",
        "int int > int; uint uint > uint; double double > double; string string > string; bytes bytes > bytes; list<A> list<A> > list<A>; timestamp duration > timestamp; duration timestamp > timestamp; duration duration > duration",
    ),
    (
        "_-_",
        "int int > int; uint uint > uint; double double > double; timestamp timestamp > duration; timestamp duration > timestamp; duration duration > duration",
    ),
    ("_*_", "int int > int; uint uint > uint; double double > double"),
    ("_/_", "int int > int; uint uint > uint; double double > double"),
    ("_%_", "int int > int; uint uint > uint"),
    ("-_", "int > int; double > double"),
    ("!_", "bool > bool"),
    ("@in", "A list<A> > bool; A map<A,B> > bool"),
    ("_<_", COMPARISON),
    ("_<=_", COMPARISON),
    ("_>_", COMPARISON),
    ("_>=_", COMPARISON),
    ("size", "string > int; bytes > int; list<A> > int; map<A,B> > int"),
    ("type", "A > type<A>"),
    ("dyn", "A > dyn"),
    ("bool", "bool > bool; string > bool"),
    ("int", "int > int; uint > int; double > int; string > int; timestamp > int"),
    ("uint", "uint > uint; int > uint; double > uint; string > uint"),
    ("double", "double > double; int > double; uint > double; string > double"),
    (
        "string",
        "string > string; bool > string; int > string; uint > string; double > string; bytes > string; timestamp > string; duration > string; net.IP > string; net.CIDR > string",
    ),
    ("bytes", "bytes > bytes; string > bytes"),
    ("timestamp", "string > timestamp; timestamp > timestamp; int > timestamp"),
    ("duration", "string > duration; duration > duration"),
    ("matches", "string string > bool"),
    ("optional.of", "A > optional<A>"),
    ("optional.ofNonZeroValue", "A > optional<A>"),
    ("optional.none", "> optional<A>"),
    ("strings.quote", "string > string"),
    ("sets.contains", "list<A> list<A> > bool"),
    ("sets.equivalent", "list<A> list<A> > bool"),
    ("sets.intersects", "list<A> list<A> > bool"),
    ("quantity", "string > kubernetes.Quantity"),
    ("isQuantity", "string > bool"),
    ("url", "string > kubernetes.URL"),
    ("isURL", "string > bool"),
    ("ip", "string > net.IP"),
    ("isIP", "string > bool"),
    ("ip.isCanonical", "string > bool"),
    ("cidr", "string > net.CIDR"),
    ("isCIDR", "string > bool"),
    ("semver", "string > kubernetes.Semver; string bool > kubernetes.Semver"),
    ("isSemver", "string > bool; string bool > bool"),
    ("format.named", "string > optional<kubernetes.NamedFormat>"),
    ("format.dns1123Label", FORMAT),
    ("format.dns1123Subdomain", FORMAT),
    ("format.dns1035Label", FORMAT),
    ("format.qualifiedName", FORMAT),
    ("format.dns1123LabelPrefix", FORMAT),
    ("format.dns1123SubdomainPrefix", FORMAT),
    ("format.dns1035LabelPrefix", FORMAT),
    ("format.labelValue", FORMAT),
    ("format.uri", FORMAT),
    ("format.uuid", FORMAT),
    ("format.byte", FORMAT),
    ("format.date", FORMAT),
    ("format.datetime", FORMAT),
];

const FORMAT: &str = "> kubernetes.NamedFormat";
const COMPARISON: &str = "bool bool > bool; int int > bool; int uint > bool; int double > bool; uint uint > bool; uint int > bool; uint double > bool; double double > bool; double int > bool; double uint > bool; string string > bool; bytes bytes > bool; timestamp timestamp > bool; duration duration > bool";
const ORDERED: &str = "list<int> > #; list<uint> > #; list<double> > #; list<string> > #; list<bool> > #; list<bytes> > #; list<timestamp> > #; list<duration> > #";
const TIME_PART: &str = "timestamp > int; timestamp string > int";

/// Functions written `receiver.f(a)`; the receiver is the first argument.
const MEMBER: &[(&str, &str)] = &[
    ("size", "string > int; bytes > int; list<A> > int; map<A,B> > int"),
    ("contains", "string string > bool"),
    ("startsWith", "string string > bool"),
    ("endsWith", "string string > bool"),
    ("matches", "string string > bool"),
    ("charAt", "string int > string"),
    ("indexOf", "string string > int; string string int > int; list<A> A > int"),
    ("lastIndexOf", "string string > int; string string int > int; list<A> A > int"),
    ("lowerAscii", "string > string"),
    ("upperAscii", "string > string"),
    ("replace", "string string string > string; string string string int > string"),
    ("split", "string string > list<string>; string string int > list<string>"),
    ("substring", "string int > string; string int int > string"),
    ("trim", "string > string"),
    ("format", "string list<dyn> > string"),
    ("join", "list<string> > string; list<string> string > string"),
    ("find", "string string > string"),
    ("findAll", "string string > list<string>; string string int > list<string>"),
    ("isSorted", ORDERED),
    ("min", ORDERED),
    ("max", ORDERED),
    ("sum", "list<int> > int; list<uint> > uint; list<double> > double; list<duration> > duration"),
    ("hasValue", "optional<A> > bool"),
    ("value", "optional<A> > A"),
    ("or", "optional<A> optional<A> > optional<A>"),
    ("orValue", "optional<A> A > A"),
    ("getFullYear", TIME_PART),
    ("getMonth", TIME_PART),
    ("getDate", TIME_PART),
    ("getDayOfMonth", TIME_PART),
    ("getDayOfWeek", TIME_PART),
    ("getDayOfYear", TIME_PART),
    ("getHours", "timestamp > int; timestamp string > int; duration > int"),
    ("getMinutes", "timestamp > int; timestamp string > int; duration > int"),
    ("getSeconds", "timestamp > int; timestamp string > int; duration > int"),
    ("getMilliseconds", "timestamp > int; timestamp string > int; duration > int"),
    ("isGreaterThan", "kubernetes.Quantity kubernetes.Quantity > bool; kubernetes.Semver kubernetes.Semver > bool"),
    ("isLessThan", "kubernetes.Quantity kubernetes.Quantity > bool; kubernetes.Semver kubernetes.Semver > bool"),
    ("compareTo", "kubernetes.Quantity kubernetes.Quantity > int; kubernetes.Semver kubernetes.Semver > int"),
    ("sign", "kubernetes.Quantity > int"),
    ("isInteger", "kubernetes.Quantity > bool"),
    ("asInteger", "kubernetes.Quantity > int"),
    ("asApproximateFloat", "kubernetes.Quantity > double"),
    (
        "add",
        "kubernetes.Quantity kubernetes.Quantity > kubernetes.Quantity; kubernetes.Quantity int > kubernetes.Quantity",
    ),
    (
        "sub",
        "kubernetes.Quantity kubernetes.Quantity > kubernetes.Quantity; kubernetes.Quantity int > kubernetes.Quantity",
    ),
    ("getScheme", "kubernetes.URL > string"),
    ("getHost", "kubernetes.URL > string"),
    ("getHostname", "kubernetes.URL > string"),
    ("getPort", "kubernetes.URL > string"),
    ("getEscapedPath", "kubernetes.URL > string"),
    ("getQuery", "kubernetes.URL > map<string,list<string>>"),
    ("family", "net.IP > int"),
    ("isUnspecified", "net.IP > bool"),
    ("isLoopback", "net.IP > bool"),
    ("isLinkLocalMulticast", "net.IP > bool"),
    ("isLinkLocalUnicast", "net.IP > bool"),
    ("isGlobalUnicast", "net.IP > bool"),
    ("containsIP", "net.CIDR string > bool; net.CIDR net.IP > bool"),
    ("containsCIDR", "net.CIDR string > bool; net.CIDR net.CIDR > bool"),
    ("ip", "net.CIDR > net.IP"),
    ("prefixLength", "net.CIDR > int"),
    ("masked", "net.CIDR > net.CIDR"),
    ("major", "kubernetes.Semver > int"),
    ("minor", "kubernetes.Semver > int"),
    ("patch", "kubernetes.Semver > int"),
    ("validate", "kubernetes.NamedFormat string > optional<list<string>>"),
];

type Table = BTreeMap<&'static str, Vec<Signature>>;

static GLOBALS: LazyLock<Table> = LazyLock::new(|| table(GLOBAL));
static MEMBERS: LazyLock<Table> = LazyLock::new(|| table(MEMBER));

pub(super) fn overloads(name: &str, member: bool) -> Option<&'static [Signature]> {
    (if member { &MEMBERS } else { &GLOBALS }).get(name).map(Vec::as_slice)
}

pub(super) fn is_global(name: &str) -> bool {
    GLOBALS.contains_key(name)
}

/// The type that is written with this name in an expression.
pub(super) fn type_named(name: &str) -> Option<Ty> {
    Some(match name {
        "bool" => Ty::Bool,
        "int" => Ty::Int,
        "uint" => Ty::Uint,
        "double" => Ty::Double,
        "string" => Ty::Text,
        "bytes" => Ty::Bytes,
        "null_type" => Ty::Null,
        "type" => Ty::Type(Arc::new(Ty::Dyn)),
        "list" => Ty::List(Arc::new(Ty::Dyn)),
        "map" => Ty::Map(Arc::new((Ty::Dyn, Ty::Dyn))),
        "google.protobuf.Duration" => Ty::Duration,
        "google.protobuf.Timestamp" => Ty::Timestamp,
        "optional_type" => Ty::Optional(Arc::new(Ty::Dyn)),
        _ => Ty::Opaque(OPAQUE.into_iter().find(|opaque| *opaque == name)?),
    })
}

const OPAQUE: [&str; 6] =
    ["kubernetes.Quantity", "kubernetes.URL", "net.IP", "net.CIDR", "kubernetes.Semver", "kubernetes.NamedFormat"];

fn table(rows: &[(&'static str, &str)]) -> Table {
    rows.iter()
        .map(|(name, overloads)| (*name, overloads.split(';').map(|one| signature(name, one)).collect()))
        .collect()
}

/// `#` as result stands for the item type of the list, or for bool if the function's name asks a question.
fn signature(name: &str, text: &str) -> Signature {
    let (args, result) = text.split_once('>').map_or((text, ""), |_| {
        let at = text.rfind(" > ").map_or_else(|| text.find("> ").unwrap_or_default(), |at| at + 1);
        (text[..at].trim(), text[at + 1..].trim())
    });
    let args: Vec<Ty> = args.split_whitespace().map(ty).collect();
    let result = match (result, args.first()) {
        ("#", Some(Ty::List(item))) if name != "isSorted" => (**item).clone(),
        ("#", _) => Ty::Bool,
        (name, _) => ty(name),
    };
    Signature { args, result }
}

fn ty(text: &str) -> Ty {
    if let Some(inner) = text.strip_suffix('>') {
        let (name, inner) = inner.split_once('<').unwrap_or((inner, "dyn"));
        return match name {
            "list" => Ty::List(Arc::new(ty(inner))),
            "optional" => Ty::Optional(Arc::new(ty(inner))),
            "type" => Ty::Type(Arc::new(ty(inner))),
            _ => {
                let (key, value) = inner.split_once(',').unwrap_or(("dyn", "dyn"));
                Ty::Map(Arc::new((ty(key), ty(value))))
            }
        };
    }
    match text {
        "dyn" => Ty::Dyn,
        "timestamp" => Ty::Timestamp,
        "duration" => Ty::Duration,
        "A" | "B" => Ty::Param(text.chars().next().unwrap_or('A')),
        _ => type_named(text).unwrap_or(Ty::Dyn),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(name: &str, member: bool) -> Vec<String> {
        let print = |signature: &Signature| {
            let args: Vec<String> = signature.args.iter().map(ToString::to_string).collect();
            format!("({}) {}", args.join(", "), signature.result)
        };
        overloads(name, member).unwrap().iter().map(print).collect()
    }

    #[test]
    fn signatures_of_the_table_are_parsed() {
        assert_eq!(shown("optional.none", false), ["() optional_type(A)"]);
        assert_eq!(shown("orValue", true), ["(optional_type(A), A) A"]);
        assert_eq!(shown("getQuery", true), ["(kubernetes.URL) map(string, list(string))"]);
        assert_eq!(shown("max", true)[0], "(list(int)) int");
        assert_eq!(shown("isSorted", true)[0], "(list(int)) bool");
    }

    #[test]
    fn no_name_in_the_table_is_misspelled() {
        let is_known = |text: &str| {
            let parts = text.split(|c: char| "<>, ;".contains(c)).filter(|part| !part.is_empty());
            let known = ["dyn", "timestamp", "duration", "A", "B", "#", "optional", "type"];
            parts.into_iter().all(|part| known.contains(&part) || type_named(part).is_some())
        };
        for (name, overloads) in GLOBAL.iter().chain(MEMBER) {
            assert!(is_known(overloads), "{name}: {overloads}");
        }
    }
}
