//! Checks the taints of a member cluster and, on deletion, the services that it still exports.

use k8s_values::validation;

use super::findings::Findings;
use super::lookups::{AdmissionLookups, Operation, Request};
use super::verdict::{Code, Verdict};
use super::{decode_object, decode_old, go_print};
use crate::kinds::MemberCluster;
use crate::types::{DeleteValidationMode, Taint};
use crate::well_known::namespaces;

pub fn admit(request: &Request, lookups: &dyn AdmissionLookups) -> Verdict {
    if request.operation == Operation::Delete {
        return decode_old(request).map_or_else(|refusal| refusal, |member| admit_leaving(&member, request, lookups));
    }
    let member: MemberCluster = match decode_object(request) {
        Ok(member) => member,
        Err(refusal) => return refusal,
    };
    Verdict::from_findings(&check_taints(&member.spec.taints), "the taints are valid")
}

fn admit_leaving(member: &MemberCluster, request: &Request, lookups: &dyn AdmissionLookups) -> Verdict {
    let mode = member.spec.delete_options.and_then(|options| options.validation_mode);
    if mode == Some(DeleteValidationMode::Skip) {
        return Verdict::allowed("the member asks to leave without validation");
    }
    if !lookups.settings().networking_agents_enabled {
        return Verdict::allowed("no networking agents, so no exported services to look for");
    }
    match lookups.service_exports(&format!("{}{}", namespaces::MEMBER_PREFIX, request.name)) {
        Err(error) => Verdict::denied(
            Code::Internal,
            format!("failed to list internalServiceExportList, please retry the request: {error}"),
        ),
        Ok(exports) => match exports.iter().find(|export| !export.being_deleted) {
            Some(export) => Verdict::forbidden(format!(
                "Please delete serviceExport {} in the member cluster before leaving, request is denied",
                export.namespaced_name,
            )),
            None => Verdict::allowed("nothing keeps the member from leaving"),
        },
    }
}

/// Findings about taints; each names the whole taint.
pub fn check_taints(taints: &[Taint]) -> Findings {
    let mut findings = Findings::none();
    for (position, taint) in taints.iter().enumerate() {
        let printed = go_print::taint(taint);
        for wrong in validation::qualified_name(&taint.key) {
            findings.add(format!("invalid taint key {printed}: {wrong}"));
        }
        for wrong in validation::label_value(&taint.value) {
            findings.add(format!("invalid taint value {printed}: {wrong}"));
        }
        if taints[..position].contains(taint) {
            findings.add(format!("taint {printed} already exists, taints must be unique"));
        }
    }
    findings
}

#[cfg(test)]
#[allow(clippy::needless_pass_by_value, reason = "tables read better without a reference before every literal")]
mod tests;
