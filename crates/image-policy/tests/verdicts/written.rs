//! A policy and the name that it is asked about, written as others read them: what is odd about
//! them is taken away, so that they can be judged again.

use image_policy::Policy;
use oci_image::named::NamedReference;
use registry_config::RegistryHost;
use serde_json::{Map, Value, json};

use super::evidence::{is_loose_base64, strict_base64};

/// A policy as it is written; nothing where it is no JSON.
pub(crate) struct Written(Value);

impl Written {
    pub(crate) fn read(text: &str) -> Self {
        Self(serde_json::from_str(text).unwrap_or_default())
    }

    /// The scopes of images of registries, as they are written.
    fn scopes(&mut self) -> Option<&mut Map<String, Value>> {
        self.0["transports"]["docker"].as_object_mut()
    }

    /// The same as others read it: keys in base64 without line breaks and bits left over. Nothing
    /// where there is no other key than ours.
    pub(crate) fn with_strict_keys(mut self) -> Option<Self> {
        let mut is_changed = false;
        each_text(&mut self.0, &mut |_, text| {
            if text.len() > 40 && is_loose_base64(text) {
                *text = strict_base64(text);
                is_changed = true;
            }
        });
        is_changed.then_some(self)
    }

    /// The same where OpenPGP signatures hold.
    pub(crate) fn with_open_pgp_fulfilled(mut self) -> Option<Self> {
        fn fulfil(value: &mut Value, is_changed: &mut bool) {
            match value {
                Value::Object(members) if members.get("type") == Some(&"signedBy".into()) => {
                    *value = json!({"type": "insecureAcceptAnything"});
                    *is_changed = true;
                }
                Value::Object(members) => {
                    members.values_mut().for_each(|one| fulfil(one, is_changed));
                }
                Value::Array(items) => items.iter_mut().for_each(|one| fulfil(one, is_changed)),
                _ => {}
            }
        }
        let mut is_changed = false;
        fulfil(&mut self.0, &mut is_changed);
        is_changed.then_some(self)
    }

    /// The same policy and the same name, in which each spelling of a host is a host of its own, as
    /// it is where texts are compared. Nothing where each host has its one spelling.
    pub(crate) fn with_hosts_as_texts(mut self, name: &str) -> Option<(Self, String)> {
        let mut is_changed = false;
        let mut as_text = |text: &mut String| {
            if let Some(changed) = with_host_as_text(text) {
                *text = changed;
                is_changed = true;
            }
        };
        let mut name = name.to_owned();
        // The one other spelling that others fold, too.
        if !name.starts_with("index.docker.io/") {
            as_text(&mut name);
        }
        if let Some(scopes) = self.scopes() {
            let changed = std::mem::take(scopes).into_iter();
            scopes.extend(changed.map(|(mut scope, requirements)| {
                as_text(&mut scope);
                (scope, requirements)
            }));
        }
        each_text(&mut self.0, &mut |member, text| match member {
            "dockerReference" | "dockerRepository" if text.starts_with("index.docker.io/") => {}
            "dockerReference" | "dockerRepository" => as_text(text),
            _ => {}
        });
        is_changed.then_some((self, name))
    }

    /// The same without the scopes of its repository that have another tag or digest than the name:
    /// where the name is believed they are for other images. Nothing where there are none.
    pub(crate) fn without_other_tags(mut self, name: &NamedReference) -> Option<Self> {
        let own = name.clone().with_default_tag().to_string();
        let repository = name.name();
        let is_other = |scope: &String| {
            let rest = scope.strip_prefix(&repository);
            *scope != own && rest.is_some_and(|rest| rest.starts_with([':', '@']))
        };
        let scopes = self.scopes()?;
        let count = scopes.len();
        scopes.retain(|scope, _| !is_other(scope));
        (scopes.len() != count).then_some(self)
    }

    /// The same without the scopes that no image can have. Nothing where there are none.
    pub(crate) fn without_scopes_of_no_image(mut self) -> Option<Self> {
        let is_of_none = |scope: &String| {
            let alone = json!({"default": [{"type": "reject"}], "transports": {"docker": {
                scope: [{"type": "reject"}],
            }}});
            Policy::parse(alone.to_string().as_bytes()).is_err()
        };
        let scopes = self.scopes()?;
        let count = scopes.len();
        scopes.retain(|scope, _| !is_of_none(scope));
        (scopes.len() != count).then_some(self)
    }

    pub(crate) fn text(&self) -> String {
        self.0.to_string()
    }
}

/// Hands on each text in the values, with the name of its member.
fn each_text(value: &mut Value, change: &mut impl FnMut(&str, &mut String)) {
    fn walk(name: &str, value: &mut Value, change: &mut impl FnMut(&str, &mut String)) {
        match value {
            Value::String(text) => change(name, text),
            Value::Array(items) => items.iter_mut().for_each(|one| walk(name, one, change)),
            Value::Object(members) => {
                for (name, one) in members {
                    walk(name, one, change);
                }
            }
            _ => {}
        }
    }
    walk("", value, change);
}

/// A name or a scope with another host in the place of one that is not written as hosts are
/// compared here; the same host for the same text.
fn with_host_as_text(name: &str) -> Option<String> {
    let (wildcard, rest) = match name.strip_prefix("*.") {
        Some(rest) => ("*.", rest),
        None => ("", name),
    };
    let (host, path) = match rest.split_once('/') {
        Some((host, path)) => (host, format!("/{path}")),
        None => (rest, String::new()),
    };
    let registry = RegistryHost::parse(host).ok()?;
    let is_host = !wildcard.is_empty() || host.contains(['.', ':']);
    if !is_host || registry.canonical() == host {
        return None;
    }
    // Labels stay labels, for wildcards.
    let (domain, port) = host.split_once(':').unwrap_or((host, ""));
    let domain = match registry.is_docker_hub() {
        true => domain.replace('.', "-") + ".test",
        false => domain.to_owned(),
    };
    let label = |label: &str| match label.bytes().any(|byte| byte.is_ascii_uppercase()) {
        true => {
            let letters = label.bytes().map(|byte| format!("{byte:x}"));
            format!("x{}", letters.collect::<String>())
        }
        false if label.is_empty() => "dot".to_owned(),
        false => label.to_owned(),
    };
    let labels: Vec<String> = domain.split('.').map(label).collect();
    let port = match port.parse::<usize>() {
        // 443 and 0443.
        Ok(443) => format!(":{}", 20_000 + port.len()),
        Ok(port) => format!(":{port}"),
        Err(_) => String::new(),
    };
    let changed = format!("{}{port}", labels.join("."));
    let registry = RegistryHost::parse(&changed).unwrap();
    assert_eq!(registry.canonical(), changed, "{host}");
    Some(format!("{wildcard}{changed}{path}"))
}

#[test]
fn each_spelling_of_a_host_is_a_host_of_its_own() {
    for name in ["registry.test:5000/team/app", "*.test", "docker.io/library/tiny", "team/app:1"] {
        assert_eq!(with_host_as_text(name), None, "{name}");
    }
    let texts = [
        "*.Test",
        "REGISTRY.test:5000/app:1",
        "Registry.test:5000/app:1",
        "registry.test:443/app",
        "registry.test:0443/app",
        "registry.test./app",
        "index.docker.io/library/tiny",
        "registry-1.docker.io/library/tiny",
    ];
    let changed = texts.map(|name| with_host_as_text(name).expect(name));
    for (at, one) in changed.iter().enumerate() {
        assert!(!changed[..at].contains(one), "{one}");
    }
    assert!(changed[1].ends_with(".test:5000/app:1"), "{}", changed[1]);
}
