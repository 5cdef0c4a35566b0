//! Conditions of approval requests (ClusterApprovalRequest, ApprovalRequest).
//!
//! `Approved` belongs to the user, who may choose any reason: compare only its status.

use super::state::condition;

condition! {
    /// The user's answer. The states are what `kubectl fleet approve` writes.
    Approved, ApprovedReason: "Approved" {
        True "ClusterApprovalRequestApproved" => ClusterRequestApproved {
            ClusterRequestApproved: "ClusterApprovalRequest has been approved";
        }
        True "ApprovalRequestApproved" => RequestApproved {
            RequestApproved: "ApprovalRequest has been approved";
        }
    }
}

condition! {
    /// The run has accepted the approval; withdrawing it has no effect any more.
    ApprovalAccepted, ApprovalAcceptedReason: "ApprovalAccepted" {
        True "ApprovalRequestApprovalAccepted" => Accepted {
            Accepted: "The approval request has been approved and cannot be reverted";
        }
    }
}
