//! What is odd about a policy and the name that it is asked about.

use oci_image::named::NamedReference;
use puller_config::RegistryHost;
use serde_json::Value;

use crate::evidence::is_loose_base64;
use crate::registry::Registry;

/// A policy as it is written; nothing where it is no JSON.
pub(crate) struct Written(Value);

impl Written {
    pub(crate) fn read(text: &str) -> Self {
        Self(serde_json::from_str(text).unwrap_or_default())
    }

    /// The scopes of images of registries, as they are written.
    fn scopes(&self) -> Vec<String> {
        let scopes = self.0["transports"]["docker"].as_object();
        scopes
            .into_iter()
            .flatten()
            .map(|(scope, _)| scope.clone())
            .collect()
    }

    /// Whether the policy has a key in base64 that others read.
    pub(crate) fn has_loose_key(&self) -> bool {
        fn is_in(value: &Value) -> bool {
            match value {
                Value::String(text) => text.len() > 40 && is_loose_base64(text),
                Value::Array(items) => items.iter().any(is_in),
                Value::Object(members) => members.values().any(is_in),
                _ => false,
            }
        }
        is_in(&self.0)
    }

    /// Whether the reference, a scope or a name in the policy has a host in another spelling than
    /// the one in which hosts are compared here.
    pub(crate) fn has_odd_host(&self, reference: &str) -> bool {
        fn names(value: &Value, found: &mut Vec<String>) {
            match value {
                Value::String(text) => found.push(text.clone()),
                Value::Array(items) => items.iter().for_each(|item| names(item, found)),
                Value::Object(members) => members.values().for_each(|one| names(one, found)),
                _ => {}
            }
        }
        let mut found = self.scopes();
        found.push(reference.to_owned());
        names(&self.0, &mut found);
        found.iter().any(|name| {
            let name = name.strip_prefix("*.").unwrap_or(name);
            let host = name.split('/').next().unwrap_or_default();
            let is_host = host.contains(['.', ':']);
            let registry = RegistryHost::parse(host).ok().filter(|_| is_host);
            registry.is_some_and(|registry| registry.canonical() != host)
        })
    }

    /// Whether the repository has scopes of other tags than the one that is written; or one content
    /// has a scope that its name does not lead to.
    pub(crate) fn has_stripped_tag(&self, registry: &Registry, reference: &NamedReference) -> bool {
        let scopes = self.scopes();
        let name = reference.name();
        let is_own = |scope: &String| *scope == reference.to_string();
        let is_of_tag = |scope: &String| scope.starts_with(&format!("{name}:"));
        let contents = registry.resolve(reference).into_iter().flat_map(|named| {
            let below = registry.instances(&named).into_iter();
            below
                .map(|(_, digest)| digest)
                .chain([named.clone()])
                .collect::<Vec<_>>()
        });
        let mut of_contents = contents.map(|digest| format!("{name}@{digest}"));
        let is_of_content = of_contents.any(|scope| scopes.contains(&scope));
        is_of_content
            || scopes
                .iter()
                .any(|scope| is_of_tag(scope) && !is_own(scope))
    }
}
