//! What a DaemonSet says of itself, and the change that makes its pods remove what they installed.

use serde::Deserialize;
use serde_json::{Value, json};

/// The argument that makes the installer remove everything.
pub const REMOVE: &str = "--remove";

/// The container of the DaemonSet that is the installer.
pub const CONTAINER: &str = "installer";

/// The part of a DaemonSet (apps/v1) that counts here.
#[derive(Debug, Default, Deserialize)]
pub struct DaemonSet {
    metadata: Metadata,
    spec: Spec,
    #[serde(default)]
    status: Status,
}

#[derive(Debug, Default, Deserialize)]
struct Metadata {
    #[serde(default)]
    generation: i64,
}

#[derive(Debug, Default, Deserialize)]
struct Spec {
    template: Template,
}

#[derive(Debug, Default, Deserialize)]
struct Template {
    spec: PodSpec,
}

#[derive(Debug, Default, Deserialize)]
struct PodSpec {
    containers: Vec<Container>,
}

#[derive(Debug, Default, Deserialize)]
struct Container {
    name: String,
    #[serde(default)]
    args: Vec<String>,
}

/// How many nodes, of each kind.
#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq, Eq)]
#[serde(default, rename_all = "camelCase")]
struct Status {
    observed_generation: i64,
    desired_number_scheduled: u32,
    updated_number_scheduled: u32,
    number_ready: u32,
}

/// How far the removal is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Progress {
    /// The controller has not seen the change.
    Unseen,
    /// So many nodes have the changed pod, and on so many the pod is ready.
    Underway {
        /// Nodes that the DaemonSet is for.
        nodes: u32,
        /// Of these, with the changed pod.
        changed: u32,
        /// Of all, with a ready pod.
        ready: u32,
    },
    /// It is for no node, and says nothing of what is on those that it was for.
    NoNodes,
    /// Every node is clean.
    Done {
        /// Nodes that the DaemonSet is for.
        nodes: u32,
    },
}

impl std::fmt::Display for Progress {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Unseen => write!(formatter, "the cluster has not begun to change the pods"),
            Self::Underway { nodes, changed, ready } => write!(
                formatter,
                "of {nodes} nodes {changed} have the pod that removes everything, and on {ready} \
                the pod is ready"
            ),
            Self::NoNodes => {
                write!(formatter, "no node has the labels that the DaemonSet selects by")
            }
            Self::Done { nodes } => write!(formatter, "clean nodes: {nodes}"),
        }
    }
}

impl DaemonSet {
    /// Reads the API server's answer; the error says what is wrong with it.
    ///
    /// # Errors
    ///
    /// What is wrong, in words.
    pub fn parse(json: &[u8]) -> Result<Self, String> {
        // The error of serde_json names a place and a type, never what stands there.
        serde_json::from_slice(json).map_err(|error| error.to_string())
    }

    /// The strategic merge patch that makes all pods at once remove what they installed.
    ///
    /// # Errors
    ///
    /// What keeps this DaemonSet from being the installer's, in words.
    pub fn removing(&self) -> Result<Value, String> {
        let containers = &self.spec.template.spec.containers;
        let Some(installer) = containers.iter().find(|one| one.name == CONTAINER) else {
            return Err(format!("it has no container {CONTAINER:?}"));
        };
        let mut arguments = installer.args.clone();
        if !arguments.iter().any(|argument| argument == REMOVE) {
            arguments.push(REMOVE.into());
        }
        // Nothing that anybody waits for runs in the pods, so that none has to wait for another;
        // with OnDelete none would ever change.
        let rolling = json!({"maxUnavailable": "100%", "maxSurge": 0});
        let containers = json!([{"name": CONTAINER, "args": arguments}]);
        Ok(json!({"spec": {
            "updateStrategy": {"type": "RollingUpdate", "rollingUpdate": rolling},
            "template": {"spec": {"containers": containers}},
        }}))
    }

    /// How far it is.
    #[must_use]
    pub fn progress(&self) -> Progress {
        let Status {
            observed_generation,
            desired_number_scheduled: nodes,
            updated_number_scheduled: changed,
            number_ready: ready,
        } = self.status;
        if observed_generation < self.metadata.generation {
            Progress::Unseen
        } else if nodes == 0 {
            Progress::NoNodes
        } else if changed >= nodes && ready >= nodes {
            Progress::Done { nodes }
        } else {
            Progress::Underway { nodes, changed, ready }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn daemon_set(status: &str) -> DaemonSet {
        let text = format!(
            r#"{{"metadata": {{"generation": 3, "name": "x"}}, "spec": {{"template": {{"spec":
            {{"containers": [{{"name": "other"}}, {{"name": "installer", "args": ["install"]}}]}}
            }}}}, "status": {status}}}"#
        );
        DaemonSet::parse(text.as_bytes()).unwrap()
    }

    #[test]
    fn it_is_done_when_each_node_has_the_changed_pod_and_that_is_ready() {
        let progress = |observed, nodes, changed, ready| {
            daemon_set(&format!(
                r#"{{"observedGeneration": {observed}, "desiredNumberScheduled": {nodes},
                "updatedNumberScheduled": {changed}, "numberReady": {ready}}}"#
            ))
            .progress()
        };
        assert_eq!(progress(2, 2, 2, 2), Progress::Unseen);
        // All are ready, and one of them is the pod from before.
        let underway = progress(3, 2, 1, 2);
        assert!(matches!(underway, Progress::Underway { changed: 1, .. }));
        assert!(matches!(progress(3, 2, 2, 1), Progress::Underway { .. }));
        assert_eq!(progress(3, 2, 2, 2), Progress::Done { nodes: 2 });
        assert_eq!(progress(3, 0, 0, 0), Progress::NoNodes);
        // A DaemonSet that no controller has looked at yet.
        assert_eq!(daemon_set("{}").progress(), Progress::Unseen);
    }

    #[test]
    fn the_change_adds_one_argument_once() {
        let patch = daemon_set("{}").removing().unwrap();
        let container = &patch["spec"]["template"]["spec"]["containers"][0];
        let wanted = json!({"name": "installer", "args": ["install", "--remove"]});
        assert_eq!(*container, wanted);
        let text = br#"{"metadata": {}, "spec": {"template": {"spec": {"containers":
            [{"name": "installer", "args": ["install", "--remove"]}]}}}}"#;
        let patch = DaemonSet::parse(text).unwrap().removing().unwrap();
        assert_eq!(patch["spec"]["template"]["spec"]["containers"][0], wanted);
        let text = br#"{"metadata": {}, "spec": {"template": {"spec": {"containers": []}}}}"#;
        let error = DaemonSet::parse(text).unwrap().removing().unwrap_err();
        assert!(error.contains("installer"));
    }
}
