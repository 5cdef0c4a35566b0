//! Conditions of a Work and of each manifest in it.

use super::state::condition;

/// Size of a Work, in bytes of JSON, above which its status is trimmed: 90 % of etcd's request limit (1.5 MiB), so
/// that the API server's own additions still fit.
pub const WORK_SIZE_LIMIT_BYTES: usize = 1_415_578;

condition! {
    /// Whether all manifests of the Work are applied.
    WorkApplied, WorkAppliedReason: "Applied" {
        True "AllManifestsApplied" | "WorkAppliedCompleted" => AllApplied {
            AllApplied: "All the specified manifests have been applied";
        }
        False "SomeManifestsAreNotApplied" | "WorkAppliedFailed" => SomeNotApplied {
            SomeNotApplied { applied: usize, manifests: usize }:
                "Failed to apply all manifests ({applied} of {manifests} manifests are applied)";
        }
    }
}

condition! {
    /// Whether everything that the Work applied is available. Untrackable objects count as available.
    WorkAvailable, WorkAvailableReason: "Available" {
        True "AllManifestsAvailable" | "WorkAvailable" => AllAvailable {
            AllAvailable: "All of the applied manifests are available";
        }
        True "WorkNotTrackable" | "SomeManifestsAreNotAvailabilityTrackable" => NotTrackable {
            SomeNotTrackable: "Some of the applied manifests cannot be tracked for availability";
        }
        False "SomeManifestsAreNotAvailable" | "WorkNotAvailableYet" => SomeNotAvailable {
            SomeNotAvailable { available: usize, manifests: usize }:
                "Some manifests are not available ({available} of {manifests} manifests are available)";
        }
        Unknown "WorkAvailabilityUnknown" => AvailabilityUnknown {}
    }
}

condition! {
    /// Whether all manifests have been compared with the member, if nothing is to be applied.
    WorkDiffReported, WorkDiffReportedReason: "DiffReported" {
        True "AllManifestsDiffReported" => AllReported {
            AllReported: "All the specified manifests have reported diff";
        }
        False "SomeManifestsHaveNotReportedDiff" => SomeNotReported {
            SomeNotReported { reported: usize, manifests: usize }:
                "Failed to report diff on all manifests ({reported} of {manifests} manifests have reported diff)";
        }
    }
}

condition! {
    /// The Work was too large to be stored with all details.
    WorkStatusTrimmed, WorkStatusTrimmedReason: "StatusTrimmed" {
        True "Oversized" => Oversized {
            Oversized { bytes_over_limit: usize }:
                "The status data (drift/diff details and back-reported status) has been trimmed due to size constraints ({bytes_over_limit} bytes over limit {limit})",
                limit = WORK_SIZE_LIMIT_BYTES;
        }
    }
}

condition! {
    /// Leftover objects are not deleted yet: the delete budget is used up, or other placed objects would be deleted
    /// with them. The Go agents do not have this condition.
    WorkDeletionsHeld, WorkDeletionsHeldReason: "DeletionsHeld" {
        True "DeleteBudgetExhausted" => BudgetExhausted {
            LeftOversHeld { objects: usize, limit: usize }:
                "{objects} object(s) that this Work no longer names are not deleted yet: at most {limit} object(s) are deleted on this cluster within a minute";
            WorkHeld { objects: usize, limit: usize }:
                "The {objects} object(s) of this Work are not deleted yet: at most {limit} object(s) are deleted on this cluster within a minute";
        }
        True "PlacedObjectsLeft" => PlacedObjectsLeft {
            PlacedObjectsLeft { containers: String }:
                "Not deleted yet, because objects that Works have placed there would be deleted too: {containers}";
        }
    }
}

condition! {
    /// The result of applying one manifest.
    ManifestApplied, ManifestAppliedReason: "Applied" {
        True "Applied" => Applied {
            Applied: "Manifest has been applied successfully";
        }
        True "AppliedWithFailedDriftDetection" => AppliedWithFailedDriftDetection {
            AppliedWithFailedDriftDetection: "AppliedWithFailedDriftDetection";
        }
        // Written before the first apply, so that the object is recognised as ours after a crash.
        False "PreparingToProcess" => PreparingToProcess {
            PreparingToProcess: "The manifest is being prepared for processing.";
        }
        False "DecodingErred" => DecodingErred {
            DecodingErred { error: String }: "Failed to apply the manifest (error: {error})";
        }
        False "FoundGenerateName" => FoundGenerateName {
            FoundGenerateName { error: String }: "Failed to apply the manifest (error: {error})";
        }
        False "Duplicated" => Duplicated {
            Duplicated { error: String }: "Failed to apply the manifest (error: {error})";
        }
        // The Go agents do not have this reason: the member's own policy denies the object.
        False "DeniedByMemberPolicy" => Denied {
            Denied { error: String }: "Failed to apply the manifest (error: {error})";
        }
        False "FailedToFindObjInMemberCluster" => FailedToFindObject {
            FailedToFindObject { error: String }: "Failed to apply the manifest (error: {error})";
        }
        False "FailedToTakeOver" => FailedToTakeOver {
            FailedToTakeOver { error: String }: "Failed to apply the manifest (error: {error})";
        }
        False "NotTakenOver" => NotTakenOver {
            NotTakenOver { error: String }: "Failed to apply the manifest (error: {error})";
        }
        False "FailedToRunDriftDetection" => FailedToRunDriftDetection {
            FailedToRunDriftDetection { error: String }: "Failed to apply the manifest (error: {error})";
        }
        False "FoundDrifts" => FoundDrifts {
            FoundDrifts { error: String }: "Failed to apply the manifest (error: {error})";
        }
        False "FoundDriftsInDegradedMode" => FoundDriftsInDegradedMode {
            FoundDriftsInDegradedMode { error: String }: "Failed to apply the manifest (error: {error})";
        }
        False "ManifestApplyFailed" => ApplyFailed {
            ApplyFailed { error: String }: "Failed to apply the manifest (error: {error})";
            Unexpected { result: String, error: String }:
                "An unexpected apply result is yielded ({result}, error: {error})";
        }
    }
}

condition! {
    /// Whether the object of a manifest is available. Absent if the check was skipped.
    ManifestAvailable, ManifestAvailableReason: "Available" {
        True "Available" => Available {
            Available: "Manifest is available";
        }
        False "ManifestNotAvailableYet" => NotYet {
            NotYet: "Manifest is not yet available; Fleet will check again later";
        }
        True "NotTrackable" => NotTrackable {
            NotTrackable:
                "Manifest's availability is not trackable; Fleet assumes that the applied manifest is available";
        }
        False "Failed" => Failed {
            Failed { error: String }: "Failed to track the availability of the applied manifest (error = {error})";
        }
    }
}

condition! {
    /// The result of comparing one manifest with the live object, if nothing is to be applied.
    ManifestDiffReported, ManifestDiffReportedReason: "DiffReported" {
        True "NoDiffFound" => NoDiffFound {
            NoDiffFound: "No diff has been found between the hub cluster and the member cluster";
        }
        True "FoundDiff" => FoundDiff {
            FoundDiff: "Diff has been found between the hub cluster and the member cluster";
        }
        True "FoundDiffInDegradedMode" => FoundDiffInDegradedMode {
            FoundDiffInDegradedMode:
                "Diff has been found in degraded mode: cannot perform partial comparison as the member cluster API server rejected the manifest object (object is invalid)";
        }
        False "FailedToReportDiff" => FailedToReportDiff {
            FailedToReportDiff { error: String }:
                "Failed to report the diff between the hub cluster and the member cluster (error = {error})";
            /// The manifest could not be compared.
            Blocked { result: ManifestAppliedReason, error: String }:
                "An error blocks the diff reporting process ({result}, error: {error})";
        }
    }
}
