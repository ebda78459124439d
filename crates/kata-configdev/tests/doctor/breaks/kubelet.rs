//! What is wrong with the kubelet's files.

use super::Break;
use crate::doctor::node::SETTINGS;

pub const BREAKS: &[(&str, Break)] = &[
    ("providers-not-asked", |node| node.put(PROVIDERS, &listing(""))),
    ("providers-not-found", |node| node.append(SETTINGS, ASKING)),
    ("providers-invalid", |node| {
        node.append(SETTINGS, ASKING);
        node.put(PROVIDERS, "{");
    }),
    ("provider-missing", |node| {
        node.append(SETTINGS, ASKING);
        node.put(PROVIDERS, &listing(""));
    }),
    ("provider-not-executable", |node| {
        node.append(SETTINGS, ASKING);
        node.put(PROVIDERS, &listing(""));
        node.put(PROVIDER, "");
    }),
    ("provider-access", |node| {
        node.append(SETTINGS, ASKING);
        node.put(PROVIDERS, &listing(""));
        node.put(PROVIDER, "");
        node.set_mode(PROVIDER, 0o777);
    }),
    ("provider-access", |node| {
        node.append(SETTINGS, ASKING);
        node.put(PROVIDERS, &listing(""));
        node.put(PROVIDER, "");
        node.set_mode(PROVIDER, 0o755);
        node.set_mode("etc/eks/image-credential-provider", 0o777);
    }),
    ("kubelet-docker-config", |node| {
        let auths = r#"{"auths":{"b.corp":{"auth":"cm9ib3Q6aHVudGVyMg=="}}}"#;
        node.put("var/lib/kubelet/config.json", auths);
    }),
    ("provider-pattern", |node| {
        node.append(SETTINGS, "[credential-providers]\nregistries = \"matchImages\"\n");
        node.put(PROVIDERS, include_str!("../../data/kubelet/eks.json"));
    }),
    ("provider-wants-token", |node| {
        node.append(SETTINGS, ASKING);
        node.put(PROVIDERS, &listing(TOKEN));
    }),
];

const PROVIDERS: &str = "etc/eks/image-credential-provider/config.json";
const PROVIDER: &str = "etc/eks/image-credential-provider/ecr";
const ASKING: &str = "[credential-providers]\nregistries = [\"a.corp\"]\n";
const TOKEN: &str = r#","tokenAttributes":{"serviceAccountTokenAudience":"ecr",
    "cacheType":"ServiceAccount","requireServiceAccount":true}"#;

/// The kubelet's list of one provider.
fn listing(more: &str) -> String {
    format!(
        r#"{{"apiVersion":"kubelet.config.k8s.io/v1","kind":"CredentialProviderConfig","providers":[
        {{"name":"ecr","matchImages":["a.corp"],"defaultCacheDuration":"1h",
        "apiVersion":"credentialprovider.kubelet.k8s.io/v1"{more}}}]}}"#
    )
}
