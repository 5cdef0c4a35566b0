//! Whether a member cluster's taints can be used, and whether a member may leave.
//!
//! Decides from the object and, at deletion, from the services that it still exports. Never looks at placements.

use super::findings::Findings;
use super::verdict::{Code, Verdict};
use super::world::{Operation, Request, World};
use super::{MEMBER_NAMESPACE_PREFIX, decode_object, decode_old, go_print};
use crate::grammar;
use crate::kinds::MemberCluster;
use crate::types::{DeleteValidationMode, Taint};

pub fn admit(request: &Request, world: &dyn World) -> Verdict {
    if request.operation == Operation::Delete {
        return decode_old(request).map_or_else(|refusal| refusal, |member| admit_leaving(&member, request, world));
    }
    let member: MemberCluster = match decode_object(request) {
        Ok(member) => member,
        Err(refusal) => return refusal,
    };
    let findings = check_taints(&member.spec.taints);
    if findings.is_empty() {
        Verdict::allowed("Member cluster has valid fields")
    } else {
        Verdict::forbidden(findings.to_string())
    }
}

fn admit_leaving(member: &MemberCluster, request: &Request, world: &dyn World) -> Verdict {
    let mode = member.spec.delete_options.and_then(|options| options.validation_mode);
    if mode == Some(DeleteValidationMode::Skip) {
        return Verdict::allowed(
            "Skipping validation for member cluster DELETE when the validation mode is set to skip",
        );
    }
    if !world.settings().networking_agents_enabled {
        return Verdict::allowed("Networking agents disabled; skipping ServiceExport validation");
    }
    match world.service_exports(&format!("{MEMBER_NAMESPACE_PREFIX}{}", request.name)) {
        Err(error) => Verdict::denied(
            Code::Internal,
            format!("failed to list internalServiceExportList, please retry the request: {error}"),
        ),
        Ok(exports) => match exports.iter().find(|export| !export.being_deleted) {
            Some(export) => Verdict::forbidden(format!(
                "Please delete serviceExport {} in the member cluster before leaving, request is denied",
                export.namespaced_name,
            )),
            None => Verdict::allowed("Member cluster is ready to leave"),
        },
    }
}

/// Findings about taints, each naming the whole taint.
pub fn check_taints(taints: &[Taint]) -> Findings {
    let mut findings = Findings::none();
    for (position, taint) in taints.iter().enumerate() {
        let printed = go_print::taint(taint);
        for wrong in grammar::qualified_name(&taint.key) {
            findings.add(format!("invalid taint key {printed}: {wrong}"));
        }
        for wrong in grammar::label_value(&taint.value) {
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
