//! A stand-in for the kubelets of a member. The servers have controllers but no nodes, so this sets the status of Pods;
//! everything else is done by the real controllers.

use real_kubernetes::pods;
use serde_json::Value;

use crate::fleet::Fleet;
use crate::servers::until;

/// The Deployment whose Pods get a status.
pub(crate) struct Kubelet<'a> {
    pub(crate) fleet: &'a Fleet,
    pub(crate) namespace: &'a str,
    pub(crate) deployment: &'a str,
}

impl Kubelet<'_> {
    /// Marks Pods as running until the Deployment is available in its current version.
    pub(crate) async fn runs_pods_on(&self, member: &str) {
        until(&format!("{} is available on {member}", self.deployment), || async {
            let now = jiff::Timestamp::now().strftime("%Y-%m-%dT%H:%M:%SZ").to_string();
            let Some(deployment) = self.deployment(member).await else { return false };
            // Pods of an earlier version keep their failed image.
            let is_meant = |pod: &&Value| image(&pod["spec"]) == image(&deployment["spec"]["template"]["spec"]);
            for pod in self.pods(member).await.iter().filter(is_meant).filter(|pod| !pods::is_ready(pod)) {
                self.set_status(member, pod, pods::running(pod, &now)).await;
            }
            pods::is_rolled_out(&deployment)
        })
        .await;
    }

    /// Reports an image pull error for all Pods of the Deployment.
    pub(crate) async fn refuses_images_on(&self, member: &str) {
        until(&format!("{} has its pods on {member}", self.deployment), || async {
            let wanted = self.deployment(member).await.and_then(|one| one["spec"]["replicas"].as_u64());
            wanted == u64::try_from(self.pods(member).await.len()).ok()
        })
        .await;
        for pod in self.pods(member).await {
            self.set_status(member, &pod, pods::invalid_image(&pod)).await;
        }
    }

    pub(crate) async fn deployment(&self, member: &str) -> Option<Value> {
        let path = format!("/apis/apps/v1/namespaces/{}/deployments/{}", self.namespace, self.deployment);
        self.fleet.servers.member(member).get(&path).await
    }

    async fn pods(&self, member: &str) -> Vec<Value> {
        self.fleet.servers.member(member).list(&format!("/api/v1/namespaces/{}/pods", self.namespace)).await
    }

    async fn set_status(&self, member: &str, pod: &Value, status: Value) {
        let name = pod["metadata"]["name"].as_str().unwrap();
        let path = format!("/api/v1/namespaces/{}/pods/{name}/status", self.namespace);
        // The Pod may have been deleted by its controller.
        self.fleet.servers.member(member).try_merge(&path, status).await;
    }
}

fn image(pod: &Value) -> &Value {
    &pod["containers"][0]["image"]
}
