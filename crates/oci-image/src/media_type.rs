//! The media types of images, and the names of what else registries hold.

use foreign_text::shown;

pub(crate) const INDEX_TYPES: [&str; 2] = [
    "application/vnd.oci.image.index.v1+json",
    "application/vnd.docker.distribution.manifest.list.v2+json",
];

pub(crate) const MANIFEST_TYPES: [&str; 2] = [
    "application/vnd.oci.image.manifest.v1+json",
    "application/vnd.docker.distribution.manifest.v2+json",
];

pub(crate) const CONFIG_TYPES: [&str; 2] =
    ["application/vnd.oci.image.config.v1+json", "application/vnd.docker.container.image.v1+json"];

/// The layers that are tar archives, compressed or not. Which of the two is told by their first
/// bytes.
///
/// Those that must not be distributed ("foreign") come from the registry like all others, if it has
/// them: the addresses that their descriptors name are never asked.
pub(crate) const LAYER_TYPES: [&str; 11] = [
    "application/vnd.oci.image.layer.v1.tar",
    "application/vnd.oci.image.layer.v1.tar+gzip",
    "application/vnd.oci.image.layer.v1.tar+zstd",
    "application/vnd.oci.image.layer.nondistributable.v1.tar",
    "application/vnd.oci.image.layer.nondistributable.v1.tar+gzip",
    "application/vnd.oci.image.layer.nondistributable.v1.tar+zstd",
    "application/vnd.docker.image.rootfs.diff.tar",
    "application/vnd.docker.image.rootfs.diff.tar.gzip",
    "application/vnd.docker.image.rootfs.diff.tar.zstd",
    "application/vnd.docker.image.rootfs.foreign.diff.tar",
    "application/vnd.docker.image.rootfs.foreign.diff.tar.gzip",
];

/// What is behind the type of a layer that is encrypted (ocicrypt). Only OCI's own types have it:
/// who encrypts converts.
pub(crate) const ENCRYPTED: &str = "+encrypted";

/// Whether a layer that is encrypted may have this type when it is plain.
pub(crate) fn may_be_encrypted(plain_type: &str) -> bool {
    LAYER_TYPES.contains(&plain_type) && plain_type.starts_with("application/vnd.oci.")
}

/// The predecessors of image manifests, which name no digest of a configuration.
pub(crate) const SCHEMA_1_TYPES: [&str; 2] = [
    "application/vnd.docker.distribution.manifest.v1+json",
    "application/vnd.docker.distribution.manifest.v1+prettyjws",
];

/// The configuration of what has none.
const EMPTY_TYPE: &str = "application/vnd.oci.empty.v1+json";

/// What an artifact is, by the beginning of its type, for people who asked for it as an image.
const ARTIFACTS: [(&str, &str); 12] = [
    ("application/vnd.cncf.helm.", "a Helm chart"),
    ("application/vnd.cncf.flux.", "a Flux bundle"),
    ("application/vnd.cncf.model.", "an AI model"),
    ("application/vnd.docker.ai.", "an AI model"),
    ("application/vnd.docker.plugin.", "a Docker plugin"),
    ("application/vnd.docker.attestation.", "a build attestation"),
    ("application/vnd.in-toto", "a build attestation"),
    ("application/vnd.dev.cosign.", "a signature"),
    ("application/vnd.cncf.notary.", "a signature"),
    ("application/vnd.dev.sigstore.", "a signature"),
    ("application/vnd.wasm.", "a WebAssembly module"),
    ("application/vnd.unknown.config.", "an artifact pushed with ORAS"),
];

/// Words for something that is no image.
pub(crate) fn describe(media_type: &str) -> String {
    let known = ARTIFACTS.iter().find(|(beginning, _)| media_type.starts_with(beginning));
    match known {
        Some((_, what)) => format!("{what} ({})", shown(media_type).quoted()),
        None if media_type.is_empty() => "an artifact that does not say of which type".to_owned(),
        None if media_type == EMPTY_TYPE => "an artifact without a configuration".to_owned(),
        None => format!("an artifact of type {}", shown(media_type).quoted()),
    }
}
