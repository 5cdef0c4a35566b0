//! The validation rules of a schema (`x-kubernetes-validations`): compiled once, evaluated on every write.
//!
//! The language is CEL with the library of kube-apiserver. It is implemented here because rules need three things
//! together that no crate offers: types taken from a schema, a budget, and the exact wording of failures. Evaluation
//! never panics and always ends: recursion is bounded by the parser, work by the budget.

mod ast;
mod check;
mod cost;
mod eval;
pub(crate) mod field_path;
mod issue;
mod lexer;
mod library;
mod operators;
mod parser;
mod rules;
mod signatures;
mod types;
mod value;

#[cfg(test)]
mod language_tests;

use serde_json::Value;

use crate::field::{Fault, FieldError};
use crate::schema::{self, Schema, validate};

pub(crate) use rules::Rules;

/// Parses the schema of a CRD and compiles its rules, with all findings of both. `path` is the schema's place in the CRD,
/// as `spec.versions[0].schema.openAPIV3Schema`.
pub(crate) fn compile_schema(path: &str, source: &Value) -> Result<(Schema, Rules), Vec<FieldError>> {
    let schema = Schema::from_openapi_at(path, source)?;
    let rules = Rules::compile(path, &schema)?;
    Ok((schema, rules))
}

/// Everything that is wrong with an object: by schema, and, if it is well-formed enough for them, by rules.
pub(crate) fn validate_object(schema: &Schema, rules: &Rules, new: &Value, old: Option<&Value>) -> Vec<FieldError> {
    with_rules(validate(schema, new, old), rules, new, old)
}

/// As `validate_object`, after a write to the status: only that is judged by schema, and called by its own paths.
pub(crate) fn validate_status(schema: &Schema, rules: &Rules, new: &Value, old: Option<&Value>) -> Vec<FieldError> {
    with_rules(schema::validate_status(schema, new, old), rules, new, old)
}

fn with_rules(mut findings: Vec<FieldError>, rules: &Rules, new: &Value, old: Option<&Value>) -> Vec<FieldError> {
    if rules.is_empty() {
        return findings;
    }
    let blocking = [Fault::NotSupported, Fault::Required, Fault::TooLong, Fault::TooMany, Fault::TypeInvalid];
    if findings.iter().any(|finding| blocking.contains(&finding.fault)) {
        let detail = "some validation rules were not checked because the object was invalid; correct the existing errors \
                      to complete validation";
        findings.push(FieldError::invalid("<nil>", &Value::Null, detail));
    } else {
        findings.extend(rules.check(new, old));
    }
    findings
}
