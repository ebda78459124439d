//! One document put below another of the same author: what the upper one leaves open comes from the
//! lower one, key by key.
//!
//! Keys that only mean something together count as one: those of the credentials, of the roots, of
//! the mirror, and the tables `[extra-env]`, `[resources]` and `[image-policy]`. A flag that weakens
//! the transport is never added to an entry that the upper document writes itself.

use crate::problem::{Findings, Place};
use crate::{Document, Origin, Problems, Registry};

impl Document {
    /// Completes this document by a lower one, both of `origin`. Returns the keys of the lower one
    /// that lost, as dotted paths.
    ///
    /// # Errors
    ///
    /// Mirrors that neither document alone makes impossible, but the two together do.
    pub fn complete(&mut self, below: Self, origin: Origin) -> Result<Vec<String>, Problems> {
        let mut lost = told([
            ("extra-env", self.has_extra_env && below.has_extra_env),
            ("resources", fill(&mut self.resources, below.resources)),
            ("image-policy", fill(&mut self.image_policy, below.image_policy)),
        ]);
        if !self.has_extra_env {
            (self.has_extra_env, self.extra_env) = (below.has_extra_env, below.extra_env);
        }
        for (name, entry) in below.registries.0 {
            let Some(own) = self.registries.0.get_mut(&name) else {
                self.registries.0.insert(name, entry);
                continue;
            };
            let keys = own.complete(entry).into_iter();
            lost.extend(keys.map(|key| format!("registries.\"{name}\".{key}")));
        }
        let keys = &mut self.decryption_keys;
        if keys.all.is_empty() {
            keys.all = below.decryption_keys.all;
        }
        for (name, of) in below.decryption_keys.of {
            keys.of.entry(name).or_insert(of);
        }
        let findings = Findings::of(origin);
        for (name, entry) in self.registries.iter() {
            let entry = (name, entry);
            for (_, rule) in self.registries.mirror_problems(entry, origin) {
                let key = format!("registries.\"{name}\".mirror");
                findings.problem(Place { line: 0, key }, rule);
            }
        }
        findings.into_result().map(|_| lost)
    }
}

impl Registry {
    /// The keys of `below` that lost.
    fn complete(&mut self, below: Self) -> Vec<String> {
        let has_credentials = self.wants_anonymous
            || self.credentials_uri.is_some()
            || !self.credentials.is_anonymous();
        let has_roots = self.ca_certs.is_some() || self.ca_certs_uri.is_some();
        let has_mirror = !self.mirrors.is_empty() || !self.blocked.is_empty();
        let is_plain = self.plain_http;
        let lost = told([
            ("credentials-uri", has_credentials && below.credentials_uri.is_some()),
            ("ca-certs", has_roots && below.ca_certs.is_some()),
            ("mirror", has_mirror && !below.mirrors.is_empty()),
            ("plain-http", !is_plain && below.plain_http),
        ]);
        if !has_credentials {
            (self.credentials, self.also) = (below.credentials, below.also);
            self.credentials_uri = below.credentials_uri;
            self.credentials_optional = below.credentials_optional;
        }
        if !has_roots {
            (self.ca_certs, self.ca_certs_uri) = (below.ca_certs, below.ca_certs_uri);
        }
        if self.client.is_none() && !self.wants_anonymous {
            self.client = below.client;
        }
        if self.addresses.is_empty() {
            self.addresses = below.addresses;
        }
        if !has_mirror {
            (self.mirrors, self.mirror_fallback) = (below.mirrors, below.mirror_fallback);
            self.blocked = below.blocked;
        }
        lost
    }
}

/// Takes what the upper document leaves open. Returns whether the lower one loses.
fn fill<T>(own: &mut Option<T>, below: Option<T>) -> bool {
    let is_lost = own.is_some() && below.is_some();
    *own = own.take().or(below);
    is_lost
}

fn told<const N: usize>(keys: [(&str, bool); N]) -> Vec<String> {
    let lost = keys.into_iter().filter(|(_, is_lost)| *is_lost);
    lost.map(|(key, _)| key.to_owned()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Document {
        Document::parse_measured(text.as_bytes()).unwrap().document
    }

    const URI: &str = "credentials-uri = \"kbs:///a/b/c\"\ncredentials-optional = true\n";

    #[test]
    fn the_upper_document_wins_key_by_key() {
        let entry = |keys: &str| format!("[registries.\"r.corp\"]\n{keys}");
        let mirror = |host: &str| format!("mirror = \"https://{host}\"\n");
        let blocked = "mirrors = [{prefix = \"a\", fallback = false}]\n";
        let fallback = mirror("n") + "mirror-fallback = true\n";
        let proxy = |port: u16| format!("[extra-env]\nHTTPS_PROXY = \"http://p:{port}\"\n");
        let keys = |of: &str, key: &str| format!("[decryption-keys{of}]\nkeys = [{key:?}]\n");
        let none = "[extra-env]\n".to_owned();
        let source = |name: &str| format!("[resources]\nsource = \"file=/{name}\"\n");
        for (upper, lower, expected, lost) in [
            (String::new(), proxy(1), proxy(1), ""),
            (proxy(2), proxy(1), proxy(2), "extra-env"),
            // An empty table says that there is no proxy.
            (none.clone(), proxy(1), none, "extra-env"),
            (source("a"), String::new(), source("a"), ""),
            (String::new(), source("b"), source("b"), ""),
            (source("a"), source("b"), source("a"), "resources"),
            (entry(""), entry(URI), entry(URI), ""),
            (
                entry("registrytoken = \"t\"\n"),
                entry(URI),
                entry("registrytoken = \"t\"\n"),
                "credentials-uri",
            ),
            (
                entry("ca-certs = \"none\"\n"),
                entry(URI),
                entry(&format!("ca-certs = \"none\"\n{URI}")),
                "",
            ),
            (
                entry("ca-certs-uri = \"kbs:///a/b/d\"\n"),
                entry("ca-certs = \"none\"\n"),
                entry("ca-certs-uri = \"kbs:///a/b/d\"\n"),
                "ca-certs",
            ),
            (entry(""), entry(&fallback), entry(&fallback), ""),
            (entry(&mirror("m")), entry(&fallback), entry(&mirror("m")), "mirror"),
            (entry(blocked), entry(&fallback), entry(blocked), "mirror"),
            (entry(""), entry(blocked), entry(blocked), ""),
            (entry(""), entry("plain-http = true\n"), entry(""), "plain-http"),
            (
                keys("", "YQ=="),
                keys("", "Yg==") + &keys(".\"a.corp\"", "Yw=="),
                keys("", "YQ==") + &keys(".\"a.corp\"", "Yw=="),
                "",
            ),
            // Of one registry in two spellings.
            (
                entry(""),
                "[registries.\"R.corp.\"]\nmirror = \"https://n\"\n".to_owned(),
                entry(&mirror("n")),
                "",
            ),
        ] {
            let mut document = parse(&upper);
            let told = document.complete(parse(&lower), Origin::Measured).unwrap().join(" ");
            assert_eq!(document.redacted(), parse(&expected).redacted(), "{upper}+{lower}");
            assert_eq!(document.has_extra_env, parse(&expected).has_extra_env);
            assert!(told.ends_with(lost) && told.is_empty() == lost.is_empty(), "{told}");
        }
        let mut upper = parse("[registries.\"m.corp\"]\n");
        let lower = "[registries.\"m.corp\"]\nplain-http = true\n\
             [registries.\"r.corp\"]\nmirror = \"http://m.corp\"\n";
        let error = upper.complete(parse(lower), Origin::Measured).unwrap_err().to_string();
        assert!(error.starts_with("registries.\"r.corp.\".mirror: "), "{error}");
    }
}
