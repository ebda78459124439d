//! The kubelet's credential-provider plugins: programs of the node that know a registry's password
//! of the hour.
//!
//! The protocol is that of Kubernetes 1.26 and later (`CredentialProviderConfig`, and the group
//! `credentialprovider.kubelet.k8s.io`, each in v1, v1beta1 and v1alpha1), with the kubelet's own
//! rules for what matches what. What a plugin answers can become a user name and a password in the
//! document and nothing else.
//!
//! The kubelet asks for an image, this project for a registry: when a sandbox is made, its images
//! are not known. So the question is about an image that need not exist, [`probe`], and answers
//! for that image alone are not used.
//!
//! In the order of their use:
//! - [`flags`]: where the kubelet was told that they are. [`config`]: its list of plugins.
//!   [`matching`]: which of them is asked for a registry.
//! - [`protocol`]: question and answer, for both sides. [`duration`]: how Go writes times.
//! - [`run`]: plugins as processes, side by side. [`answer`]: what becomes an offer.

pub mod answer;
pub mod config;
pub mod duration;
pub mod flags;
pub mod matching;
pub mod protocol;
pub mod run;

use registry_config::RegistryHost;

/// The repository that is asked about; it need not exist.
pub const PROBE: &str = "probe";

/// The image that plugins are asked about for a registry, without tag, as the kubelet writes it.
#[must_use]
pub fn probe(host: &RegistryHost) -> String {
    // The kubelet's name for an image of Docker Hub without an organisation.
    let repository = if host.is_docker_hub() { "library/probe" } else { "probe" };
    format!("{host}/{repository}")
}
