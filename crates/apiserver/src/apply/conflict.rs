//! The error response of an apply that would change fields of other managers, with the causes that kubectl shows.

use serde_json::json;

use super::managed::Managed;
use super::ownership::Conflicts;
use crate::error::{ApiError, Details, Reason};

/// The 409 of an apply. Managers come in the order of their identities, fields in the order of the set.
pub(super) fn conflict_error(conflicts: &Conflicts<'_>, managed: &Managed<'_>) -> ApiError {
    let mut causes = Vec::new();
    let mut lines = Vec::new();
    let mut single = String::new();
    for (identity, set) in conflicts {
        let owner = managed.entries.get(identity).map_or_else(|| identity.clone(), |entry| entry.manager.printed());
        lines.push(format!("conflicts with {owner}:"));
        for path in set.to_paths() {
            causes.push(json!({
                "reason": "FieldManagerConflict", "message": format!("conflict with {owner}"), "field": path,
            }));
            single = format!("conflict with {owner}: {path}");
            lines.push(format!("- {path}"));
        }
    }
    let message = if causes.len() == 1 {
        format!("Apply failed with 1 conflict: {single}")
    } else {
        format!("Apply failed with {} conflicts: {}", causes.len(), lines.join("\n"))
    };
    let details = Some(Details { causes, ..Details::default() });
    ApiError { reason: Reason::Conflict, message, details }
}
