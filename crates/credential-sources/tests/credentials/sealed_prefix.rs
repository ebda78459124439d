//! A password that begins with `sealed.`, which the document refuses as a `password`.
//!
//! The fuzzer found that a docker configuration with such a password was left out of the document.

use std::path::Path;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use credential_sources::certs_d::{self, Directory, HostsToml};
use credential_sources::docker_config::Widening;
use credential_sources::kubelet::answer;
use credential_sources::kubelet::protocol::{Response, Version};
use credential_sources::registry_file::Import;
use credential_sources::secretgen::{SourceFile, import};
use credential_sources::{Offer, merge, registries_yaml};
use registry_config::{Credentials, Document, Match, RegistryHost};

const PASSWORDS: [&str; 4] = ["sealed.", "sealed.p--", "sealed.p:q", "sealed.YQ.YQ.YQ"];

/// The pair that a document has for the registry.
fn pair(document: &[u8]) -> (String, String) {
    let document = Document::parse(document).unwrap().document;
    let host = RegistryHost::parse("reg.corp").unwrap();
    let Match::Entry { entry, .. } = document.registries.entry_for(&host) else {
        panic!("no entry")
    };
    let Credentials::Basic { username, password } = &entry.credentials else {
        panic!("{:?}", entry.credentials)
    };
    (username.clone(), password.expose().to_owned())
}

fn offered(offers: &[Offer]) -> (String, String) {
    let merged = merge(b"", offers).unwrap();
    let losers = merged.origins.iter().flat_map(|origin| &origin.losers);
    assert_eq!(losers.count(), 0);
    pair(&merged.text)
}

fn file(text: &str) -> (String, String) {
    let file = SourceFile { name: "file", text: text.as_bytes() };
    let imported = import(&[file], None, Widening::Refused);
    assert!(imported.findings.is_empty() && imported.faults.is_empty());
    offered(&imported.offers)
}

fn plugin(auth: &str) -> (String, String) {
    let text = format!(
        "{{\"kind\":\"CredentialProviderResponse\",\"cacheKeyType\":\"Registry\",\
        \"apiVersion\":\"credentialprovider.kubelet.k8s.io/v1\",\"auth\":{auth}}}"
    );
    let response = Response::parse(text.as_bytes(), Version::V1).unwrap();
    let host = RegistryHost::parse("reg.corp").unwrap();
    let (offers, findings) = answer::offers(&host, None, &[("plugin", &response)]);
    assert!(findings.is_empty());
    offered(&offers)
}

fn registry_file(import: Import) -> (String, String) {
    let written = import.write(None);
    assert!(written.report.faults.is_empty(), "{written:?}");
    pair(written.document.unwrap().expose().as_bytes())
}

fn k3s(auth: &str) -> (String, String) {
    let text = format!("configs: {{reg.corp: {{auth: {{{auth}}}}}}}\n");
    let import = registries_yaml::read(text.as_bytes(), "registries.yaml", &mut |_: &Path| {
        Err("no file".to_owned())
    });
    registry_file(import)
}

fn containerd(authorization: &str) -> (String, String) {
    let text = format!("[header]\nAuthorization = \"{authorization}\"\n");
    let directory = Directory {
        name: "reg.corp".to_owned(),
        path: "/etc/containerd/certs.d/reg.corp".into(),
        hosts_toml: Some(Ok(HostsToml(text.into_bytes().into()))),
        files: Vec::new(),
    };
    registry_file(certs_d::read(vec![directory], &mut |_: &Path| Err("no file".to_owned())))
}

#[test]
fn no_source_loses_it() {
    for password in PASSWORDS {
        let base64 = STANDARD.encode(format!("u:{password}"));
        let entry = format!("{{\"reg.corp\":{{\"username\":\"u\",\"password\":\"{password}\"}}}}");
        let config = format!("{{\"auths\":{entry}}}");
        let with_auth = format!("{{\"auths\":{{\"reg.corp\":{{\"auth\":\"{base64}\"}}}}}}");
        let secret = |kind: &str, text: &str| {
            format!(
                "apiVersion: v1\nkind: Secret\nmetadata: {{name: s}}\ntype: kubernetes.io/{kind}\n\
                data: {{.{kind}: {}}}\n",
                STANDARD.encode(text)
            )
        };
        let pair = format!("username: u, password: \"{password}\"");
        for (source, found) in [
            ("config.json", file(&config)),
            ("config.json with auth", file(&with_auth)),
            (".dockercfg", file(&entry)),
            ("a secret", file(&secret("dockerconfigjson", &config))),
            ("an old secret", file(&secret("dockercfg", &entry))),
            ("plugin", plugin(&entry)),
            ("registries.yaml", k3s(&pair)),
            ("registries.yaml with auth", k3s(&format!("auth: {base64}"))),
            ("hosts.toml", containerd(&format!("Basic {base64}"))),
        ] {
            assert_eq!(found, ("u".to_owned(), password.to_owned()), "{source}");
        }
    }
}
