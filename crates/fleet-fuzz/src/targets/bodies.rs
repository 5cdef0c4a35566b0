//! Request bodies and the values in them: whatever is accepted can be printed, stored and read again.

use apiserver::internals::{parse_json, parse_protobuf, parse_yaml, stored};
use fleet_api::yaml;
use k8s_values::Quantity;
use serde_json::{Value, json};

pub(super) const WORDS: &[&str] =
    &["metadata", "resourceVersion", "name", "kind", "apiVersion", "{", "}", "\"metadata\":"];
pub(super) const YAML_WORDS: &[&str] = &[
    "---\n",
    "- ",
    "? ",
    ": ",
    "&a ",
    "*a",
    "<<: *a\n",
    "|\n  ",
    ">-\n",
    "!!str ",
    "!!binary ",
    "# ",
    "\t",
    "{a: ",
    "[",
];
pub(super) const QUANTITY_WORDS: &[&str] = &[
    "Ki",
    "Mi",
    "Gi",
    "Ti",
    "Pi",
    "Ei",
    "n",
    "u",
    "m",
    "k",
    "M",
    "G",
    "T",
    "P",
    "E",
    "e",
    "e-",
    "E+",
    ".",
    "+",
    "000000000",
];

/// Output of YAML may be longer than its input by so much: each alias repeats what it stands for.
const YAML_GROWTH_MAX: usize = 1000;

pub(super) fn json(input: &[u8]) {
    let Ok((value, _)) = parse_json(input) else { return };
    let printed = value.to_string();
    let again = parse_json(printed.as_bytes());
    assert!(again.is_ok(), "{again:?}: {printed}");
    let (again, duplicates) = again.unwrap_or_default();
    assert_eq!(again, value, "printing is no fixpoint");
    assert!(duplicates.is_empty(), "a printed document has repeated fields");
    stored_form(value);
}

/// What is stored reads as the object with its revision.
fn stored_form(mut object: Value) {
    if !object.is_object() {
        return;
    }
    let bytes = stored(&object, 7);
    if !object["metadata"].is_object() {
        object["metadata"] = json!({});
    }
    object["metadata"]["resourceVersion"] = json!("7");
    let stored: Value = serde_json::from_slice(&bytes).unwrap_or_default();
    assert_eq!(stored, object, "the stored form is another object");
}

pub(super) fn yaml(input: &[u8]) {
    let Ok(value) = parse_yaml(input) else { return };
    let printed = value.to_string();
    assert!(
        printed.len() <= (1 + input.len()) * YAML_GROWTH_MAX,
        "{} bytes of YAML became {} bytes of JSON",
        input.len(),
        printed.len()
    );
    let again = parse_json(printed.as_bytes());
    assert!(again.is_ok(), "what was read as YAML is no JSON: {again:?}");
    let text = yaml::to_string(&value);
    match yaml::documents(&text) {
        Ok(documents) => {
            let wanted = if value.is_null() { Vec::new() } else { vec![value] };
            assert_eq!(documents, wanted, "{text}");
        }
        Err(error) => assert!(value.is_null(), "{error}: {text}"),
    }
}

pub(super) fn protobuf(input: &[u8]) {
    for (api_version, kind) in [("", ""), ("v1", "Pod"), ("apps/v1", "Deployment"), ("v1", "Namespace")] {
        let Ok(object) = parse_protobuf(input, (api_version, kind)) else { continue };
        let printed = object.to_string();
        let again = parse_json(printed.as_bytes());
        assert!(again.is_ok(), "{again:?}: {printed}");
        assert_eq!(again.unwrap_or_default().0, object, "printing is no fixpoint");
    }
}

pub(super) fn quantity(input: &[u8]) {
    let Ok(text) = std::str::from_utf8(input) else { return };
    if let Ok(quantity) = text.parse::<Quantity>() {
        let printed = quantity.to_string();
        let again = printed.parse::<Quantity>();
        assert_eq!(again.as_ref(), Ok(&quantity), "{text} is printed as {printed}");
        assert_eq!(again.map(|again| again.to_string()), Ok(printed));
        // With a binary suffix a sum may be larger than what is read: as in Kubernetes, reading stops at the largest 64-bit integer.
        let sum = &quantity + &quantity;
        assert!(sum.to_string().parse::<Quantity>().is_ok(), "twice {text} is printed as {sum}");
        for quantity in [quantity, sum] {
            let _ = (quantity.as_i64(), quantity.as_milli(), quantity.as_f64(), quantity.rounded_up_to_milli());
        }
    }
}
