//! Progress bars made of characters.

use fleet_core::overview::StageOverview;
use fleet_core::updaterun::ClusterStep;

/// `████░░░░` if half is done. Full only if everything is done.
pub(crate) fn progress_bar(done: usize, all: usize, width: usize) -> String {
    let filled = (done.min(all) * width).checked_div(all).unwrap_or(0);
    format!("{}{}", "█".repeat(filled), "░".repeat(width - filled))
}

/// The bar of a stage, with numbers: `████░░░░ 1/2`.
pub(crate) fn stage_progress_bar(stage: &StageOverview, width: usize) -> String {
    let (done, all) = (done(stage), stage.clusters.len());
    format!("{} {done}/{all}", progress_bar(done, all, width))
}

fn done(stage: &StageOverview) -> usize {
    stage.clusters.iter().filter(|cluster| cluster.state == ClusterStep::Succeeded).count()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bars_fill_as_clusters_are_done() {
        assert_eq!(progress_bar(0, 3, 12), "░░░░░░░░░░░░");
        assert_eq!(progress_bar(1, 3, 12), "████░░░░░░░░");
        assert_eq!(progress_bar(3, 3, 12), "████████████");
        assert_eq!(progress_bar(0, 0, 4), "░░░░");
        assert_eq!(progress_bar(999, 1000, 4), "███░", "not full before the end");
        assert_eq!(progress_bar(5, 3, 4), "████");
    }
}
