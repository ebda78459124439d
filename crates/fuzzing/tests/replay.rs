//! Every fuzz target holds for every input that is kept beside it.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "test code")]

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

const HERE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests");

macro_rules! replay {
    ($($name:ident: $path:literal;)+) => {
        $(
            #[path = $path]
            mod $name;

            #[test]
            fn $name() {
                replay($path, $name::run);
            }
        )+

        const TARGETS: &[&str] = &[$($path),+];
    };
}

replay! {
    hub_answer: "../../cdh-client/fuzz/fuzz_targets/hub_answer.rs";
    offline: "../../cdh-client/fuzz/fuzz_targets/offline.rs";
    cdh: "../../cdh-config/fuzz/fuzz_targets/cdh.rs";
    image: "../../config-image/fuzz/fuzz_targets/image.rs";
    certs_d: "../../credential-sources/fuzz/fuzz_targets/certs_d.rs";
    client_identity: "../../credential-sources/fuzz/fuzz_targets/client_identity.rs";
    containerd_config: "../../credential-sources/fuzz/fuzz_targets/containerd_config.rs";
    crio_config: "../../credential-sources/fuzz/fuzz_targets/crio_config.rs";
    decryption_secret: "../../credential-sources/fuzz/fuzz_targets/decryption_secret.rs";
    docker_config: "../../credential-sources/fuzz/fuzz_targets/docker_config.rs";
    kubelet: "../../credential-sources/fuzz/fuzz_targets/kubelet.rs";
    merge: "../../credential-sources/fuzz/fuzz_targets/merge.rs";
    registries_conf: "../../credential-sources/fuzz/fuzz_targets/registries_conf.rs";
    registries_yaml: "../../credential-sources/fuzz/fuzz_targets/registries_yaml.rs";
    secret_manifest: "../../credential-sources/fuzz/fuzz_targets/secret_manifest.rs";
    systemd_unit: "../../credential-sources/fuzz/fuzz_targets/systemd_unit.rs";
    credentials_for: "../../docker-config/fuzz/fuzz_targets/credentials_for.rs";
    json: "../../foreign-text/fuzz/fuzz_targets/json.rs";
    bundle: "../../image-policy/fuzz/fuzz_targets/bundle.rs";
    judge: "../../image-policy/fuzz/fuzz_targets/judge.rs";
    key: "../../image-policy/fuzz/fuzz_targets/key.rs";
    kept: "../../image-policy/fuzz/fuzz_targets/kept.rs";
    payload: "../../image-policy/fuzz/fuzz_targets/payload.rs";
    policy: "../../image-policy/fuzz/fuzz_targets/policy.rs";
    signature_manifest: "../../image-policy/fuzz/fuzz_targets/signature_manifest.rs";
    inflate: "../../inflate/fuzz/fuzz_targets/inflate.rs";
    initdata: "../../initdata/fuzz/fuzz_targets/initdata.rs";
    evidence: "../../initdata-processor/fuzz/fuzz_targets/evidence.rs";
    monitor: "../../kata-configdev/fuzz/fuzz_targets/monitor.rs";
    settings: "../../kata-configdev/fuzz/fuzz_targets/settings.rs";
    spec: "../../kata-configdev/fuzz/fuzz_targets/spec.rs";
    annotations: "../../keys/fuzz/fuzz_targets/annotations.rs";
    options: "../../keys/fuzz/fuzz_targets/options.rs";
    packet: "../../keys/fuzz/fuzz_targets/packet.rs";
    jwe: "../../keys/fuzz/fuzz_targets/jwe.rs";
    private_key: "../../keys/fuzz/fuzz_targets/private_key.rs";
    archive: "../../layer-unpack/fuzz/fuzz_targets/archive.rs";
    layer: "../../layer-unpack/fuzz/fuzz_targets/layer.rs";
    request: "../../memory-disk/fuzz/fuzz_targets/request.rs";
    list: "../../node-installer/fuzz/fuzz_targets/list.rs";
    mounts: "../../node-installer/fuzz/fuzz_targets/mounts.rs";
    manifest: "../../oci-image/fuzz/fuzz_targets/manifest.rs";
    reference: "../../oci-image/fuzz/fuzz_targets/reference.rs";
    version: "../../program-version/fuzz/fuzz_targets/version.rs";
    document: "../../registry-config/fuzz/fuzz_targets/document.rs";
    resource_uri: "../../registry-config/fuzz/fuzz_targets/resource_uri.rs";
    challenge: "../../registry-client/fuzz/fuzz_targets/challenge.rs";
}

/// Runs a target over its seeds. The name printed last is that of the input that fails.
fn replay(target: &str, run: fn(&[u8])) {
    let seeds = fuzzing::seeds(&Path::new(HERE).join(target)).expect("a directory of seeds");
    assert!(!seeds.is_empty(), "a target without seeds is not replayed");
    for seed in seeds {
        println!("{}", seed.display());
        run(&fs::read(&seed).unwrap());
    }
}

/// A target that is written but not listed would never run.
#[test]
fn every_target_is_listed_here_and_in_the_manifest() {
    let listed: BTreeSet<PathBuf> =
        TARGETS.iter().map(|target| Path::new(HERE).join(target).canonicalize().unwrap()).collect();
    let mut written = BTreeSet::new();
    for room in fs::read_dir(Path::new(HERE).join("../..")).unwrap() {
        let Ok(targets) = fs::read_dir(room.unwrap().path().join("fuzz/fuzz_targets")) else {
            continue;
        };
        written.extend(targets.map(|target| target.unwrap().path().canonicalize().unwrap()));
    }
    assert_eq!(listed, written);
    let manifest = fs::read_to_string(Path::new(HERE).join("../Cargo.toml")).unwrap();
    for target in TARGETS {
        let path = target.trim_start_matches("../");
        assert!(manifest.contains(&format!("path = \"../{path}\"")), "{path}");
    }
}
