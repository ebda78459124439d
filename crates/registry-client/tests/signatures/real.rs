//! Recorded signatures in Debian's `docker-registry`, which has no API for referrers.

use oci_image::digest::Digest;
use serde_json::{Value, json};
use test_http::pki::Authority;
use vm_harness::process::run_checked;
use vm_harness::{Registry, Scratch};

use crate::signatures::found::comparable;
use crate::signatures::recorded;
use crate::signatures::registry::EVERYWHERE;
use crate::signatures::shelf::{INDEX, MANIFEST, digest_of};
use crate::support::{PASSWORD, USER, entry, once, open_named, run};

/// By whom it was signed, and how many signatures there are.
const REPOSITORIES: [(&str, usize); 5] = [
    ("team/cosign2-two", 2),
    ("team/skopeo-p256", 1),
    ("team/cosign3-legacy", 1),
    ("team/cosign3-bundle", 1),
    ("team/cosign2-referrers", 1),
];

/// What pushes to a registry, as everybody does.
struct Pusher<'r> {
    scratch: &'r Scratch,
    registry: &'r Registry,
}

impl Pusher<'_> {
    fn curl(&self, arguments: &[&str], content: &[u8], url: &str) -> String {
        let content = self.scratch.write("content", content).unwrap();
        let content = format!("@{}", content.display());
        let config = self.scratch.path().join("curl.config");
        let config = config.display().to_string();
        let fixed =
            ["--silent", "--show-error", "--fail", "--config", &config, "--data-binary", &content];
        let output = run_checked(self.scratch, "curl", [&fixed, arguments, &[url]].concat());
        String::from_utf8(output.unwrap().stdout).unwrap()
    }

    fn url(&self, repository: &str, path: &str) -> String {
        let port = self.registry.port();
        format!("https://localhost:{port}/v2/{repository}/{path}")
    }

    fn blob(&self, repository: &str, content: &[u8]) {
        let begin = ["--request", "POST", "--dump-header", "-"];
        let answer = self.curl(&begin, b"", &self.url(repository, "blobs/uploads/"));
        let header = |line: &str| {
            let (name, value) = line.split_once(": ")?;
            let is_it = name.eq_ignore_ascii_case("location");
            is_it.then(|| value.trim().to_owned())
        };
        let location = answer.lines().find_map(header).unwrap();
        let url = format!("{location}&digest={}", digest_of(content));
        let kind = "Content-Type: application/octet-stream";
        self.curl(&["--request", "PUT", "--header", kind], content, &url);
    }

    fn manifest(&self, repository: &str, name: &str, kind: &str, content: &[u8]) {
        let url = self.url(repository, &format!("manifests/{name}"));
        let kind = format!("Content-Type: {kind}");
        self.curl(&["--request", "PUT", "--header", &kind], content, &url);
    }

    /// Pushes what lies beside an image. Configurations were not recorded, so a manifest gets
    /// another one; its layers stay.
    fn push(&self, recorded: &recorded::Registry, repository: &str) {
        self.blob(repository, b"{}");
        let beside = recorded.repositories[repository].iter();
        for (tag, digest) in beside.filter(|(tag, _)| tag.starts_with("sha256-")) {
            let mut document: Value = json_of(recorded, digest);
            let Some(entries) = document["manifests"].as_array_mut() else {
                let text = self.with_layers(recorded, repository, document);
                self.manifest(repository, tag, MANIFEST, text.as_bytes());
                continue;
            };
            for entry in entries {
                let artifact = json_of(recorded, entry["digest"].as_str().unwrap());
                let text = self.with_layers(recorded, repository, artifact);
                let digest = digest_of(text.as_bytes()).to_string();
                self.manifest(repository, &digest, MANIFEST, text.as_bytes());
                entry["digest"] = digest.into();
                entry["size"] = text.len().into();
            }
            self.manifest(repository, tag, INDEX, document.to_string().as_bytes());
        }
    }

    fn with_layers(
        &self,
        recorded: &recorded::Registry,
        repository: &str,
        mut manifest: Value,
    ) -> String {
        for layer in manifest["layers"].as_array().unwrap() {
            self.blob(repository, &recorded.blobs[layer["digest"].as_str().unwrap()]);
        }
        let empty = digest_of(b"{}").to_string();
        manifest["config"] = json!({
            "mediaType": "application/vnd.oci.empty.v1+json", "digest": empty, "size": 2,
        });
        manifest.to_string()
    }
}

fn json_of(recorded: &recorded::Registry, digest: &str) -> Value {
    serde_json::from_slice(&recorded.blobs[digest]).unwrap()
}

#[test]
fn debians_registry_gives_what_was_pushed() {
    let scratch = Scratch::new().unwrap();
    let authority = Authority::new("test").unwrap();
    let registry = Registry::start(&scratch, &authority, &["localhost"], USER, PASSWORD).unwrap();
    let ca = scratch.write("ca.pem", authority.certificate()).unwrap();
    let config = format!("user = \"{USER}:{PASSWORD}\"\ncacert = \"{}\"\n", ca.display());
    scratch.write("curl.config", config).unwrap();
    let pusher = Pusher { scratch: &scratch, registry: &registry };
    let recorded = recorded::Registry::recorded();
    let host = format!("localhost:{}", registry.port());
    let document = entry(&host, USER, PASSWORD, authority.certificate());
    for (repository, count) in REPOSITORIES {
        pusher.push(&recorded, repository);
        let image = Digest::parse(&recorded.repositories[repository]["1.0"]).unwrap();
        let found = run(async {
            let client = open_named(&document, &host, repository, &once()).unwrap();
            client.signatures(&image).await
        });
        let found = found.unwrap().kept.into_iter().map(comparable);
        let want = recorded.signatures(repository, &image, &EVERYWHERE).unwrap();
        let want = want.1.into_iter().map(comparable);
        let (found, want): (Vec<_>, Vec<_>) = (found.collect(), want.collect());
        assert_eq!((found.len(), &found), (count, &want), "{repository}");
        // It says 404 to the API, and then has the index under the tag or has it not.
        let api = format!("GET /v2/{repository}/referrers/{image}");
        assert_eq!(registry.statuses(&api), [404], "{repository}");
        let fallback = format!("GET /v2/{repository}/manifests/{}", image.file_name());
        let is_there = recorded.repositories[repository].contains_key(&image.file_name());
        let status = if is_there { 200 } else { 404 };
        assert_eq!(registry.statuses(&fallback).last(), Some(&status), "{repository}");
    }
}
