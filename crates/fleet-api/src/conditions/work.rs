//! Conditions of a Work and of each manifest in it.
//!
//! Decides their words and sentences. Never decides the result of an apply; `{error}` comes from there.

use super::state::condition;

/// Size of a Work, in bytes of JSON, above which its status is trimmed: 90 % of what etcd takes in one request
/// (1.5 MiB), so that the API server's own additions still fit.
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
    /// Whether everything that the Work applied is available. What cannot be tracked counts as available.
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
    /// Whether all manifests have been compared with the member, where that is all there is to do.
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
    /// The Work was too large to be stored with all its details.
    WorkStatusTrimmed, WorkStatusTrimmedReason: "StatusTrimmed" {
        True "Oversized" => Oversized {
            Oversized { bytes_over_limit: usize }:
                "The status data (drift/diff details and back-reported status) has been trimmed due to size constraints ({bytes_over_limit} bytes over limit {limit})",
                limit = WORK_SIZE_LIMIT_BYTES;
        }
    }
}

condition! {
    /// Objects that are no longer wanted are kept for a while, because this member has deleted much already. Beyond the
    /// vocabulary of the Go agents.
    WorkDeletionsHeld, WorkDeletionsHeldReason: "DeletionsHeld" {
        True "DeleteBudgetExhausted" => BudgetExhausted {
            LeftOversHeld { objects: usize, limit: usize }:
                "{objects} object(s) that this Work no longer names are not deleted yet: at most {limit} object(s) are deleted on this cluster within a minute";
            WorkHeld { objects: usize, limit: usize }:
                "The {objects} object(s) of this Work are not deleted yet: at most {limit} object(s) are deleted on this cluster within a minute";
        }
    }
}

condition! {
    /// What became of applying one manifest.
    ManifestApplied, ManifestAppliedReason: "Applied" {
        True "Applied" => Applied {
            Applied: "Manifest has been applied successfully";
        }
        True "AppliedWithFailedDriftDetection" => AppliedWithFailedDriftDetection {
            AppliedWithFailedDriftDetection: "AppliedWithFailedDriftDetection";
        }
        // Written ahead of the first apply, so that an object which then appears can be told to be ours.
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
    /// Whether what one manifest describes is available. Absent when the check was skipped.
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
    /// How one manifest compares with the live object, where nothing is to be applied.
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
            /// The manifest did not get as far as a comparison.
            Blocked { result: ManifestAppliedReason, error: String }:
                "An error blocks the diff reporting process ({result}, error: {error})";
        }
    }
}
