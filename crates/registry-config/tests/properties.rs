//! What holds for every document, host and set of names.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "test code")]

use proptest::prelude::*;
use registry_config::{
    Document, MAX_NODE_ERROR_BYTES, Match, NodeError, RegistryHost, RegistryName, ResourceSource,
    ResourceUri,
};
use url::Url;

/// Pieces of documents, so that random text gets past the TOML parser.
const PIECES: [&str; 45] = [
    "[",
    "]",
    "{",
    "}",
    "\"",
    "'''",
    "\"\"\"",
    "=",
    ".",
    ",",
    "\n",
    "\\",
    "\\u0000",
    "#",
    " ",
    "true",
    "1",
    "1979-05-27",
    "[registries.\"r.corp\"]\n",
    "[registries.\".\"]\n",
    "registries",
    "[extra-env]\n",
    "HTTP_PROXY=\"http://a@b:1\"\n",
    "username=\"a\"\n",
    "password=\"b\"\n",
    "auth=\"YTpi\"\n",
    "identitytoken=\"t\"\n",
    "registrytoken=\"t\"\n",
    "ca-certs='''\n-----BEGIN CERTIFICATE-----\nMAcwADAAAwEA\n-----END CERTIFICATE-----\n'''\n",
    "-----BEGIN CERTIFICATE-----\n",
    "insecure-skip-verify=true\n",
    "plain-http=true\n",
    "mirror=\"http://m:1/p\"\n",
    "mirror-fallback=true\n",
    "credentials-uri=\"kbs:///a/b/c\"\n",
    "ca-certs-uri=\"kbs:///a/b/c\"\n",
    "password=\"sealed.YQ.YQ.YQ\"\n",
    "[decryption-keys]\n",
    "keys=[\"YQ\",\"YQ:YQ\",\"kbs:///a/b/c\"]\n",
    "keys=\"YQ,YQ:YQ\"\n",
    "[resources]\n",
    "source=\"file=/a\"\n",
    "unwrap=true\n",
    "node-error=\"a\"\n",
    "\u{e9}",
];

fn label() -> impl Strategy<Value = String> {
    "[a-cA-C]{1,2}"
}

/// Names over few labels, so that they often meet.
fn name() -> impl Strategy<Value = String> {
    let labels = proptest::collection::vec(label(), 1..4);
    (
        any::<bool>(),
        labels,
        any::<bool>(),
        proptest::option::of(prop_oneof![Just(443_u16), Just(5000)]),
    )
        .prop_map(|(is_suffix, labels, has_dot, port)| {
            let dot = |is_there| if is_there { "." } else { "" };
            let port =
                port.filter(|_| !is_suffix).map(|port| format!(":{port}")).unwrap_or_default();
            format!("{}{}{}{port}", dot(is_suffix), labels.join("."), dot(has_dot))
        })
}

fn host() -> impl Strategy<Value = String> {
    (
        proptest::collection::vec(label(), 1..5),
        proptest::option::of(prop_oneof![Just(443_u16), Just(5000)]),
    )
        .prop_map(|(labels, port)| {
            labels.join(".") + &port.map(|port| format!(":{port}")).unwrap_or_default()
        })
}

/// A document with an entry for each name; names that mean the same hosts only once.
fn document(names: &[String]) -> String {
    let mut seen = std::collections::BTreeSet::new();
    let names = names.iter().filter(|name| seen.insert(RegistryName::parse(name).unwrap()));
    names.map(|name| format!("[registries.\"{name}\"]\n")).collect()
}

fn matched(text: &str, host: &str) -> Option<String> {
    let registries = Document::parse(text.as_bytes()).unwrap().document.registries;
    match registries.entry_for(&RegistryHost::parse(host).unwrap()) {
        Match::Entry { key, .. } => Some(key.to_string()),
        Match::Defaults => None,
    }
}

/// The five rules once more, by comparing every name with the host instead of looking candidates
/// up.
fn matched_by_definition(names: &[String], host: &str) -> Option<String> {
    let host = host.to_ascii_lowercase();
    let (domain, port) = host.split_once(':').unwrap_or((&host, "443"));
    let rank = |name: &RegistryName| {
        let shown = name.to_string();
        if let Some(suffix) = shown.strip_prefix('.') {
            let is_below =
                suffix.is_empty() || format!("{domain}.").ends_with(&format!(".{suffix}"));
            return is_below.then_some((0, suffix.len()));
        }
        match shown.split_once(':') {
            Some((literal, own)) => (literal == domain && own == port).then_some((2, 0)),
            None => (shown == format!("{domain}.")).then_some((1, 0)),
        }
    };
    let names = names.iter().map(|name| RegistryName::parse(name).unwrap());
    let best = names.filter_map(|name| Some((rank(&name)?, name))).max_by_key(|(rank, _)| *rank);
    best.map(|(_, name)| name.to_string())
}

/// Texts that stand out in any output, and that some rule or other refuses.
fn secret() -> impl Strategy<Value = String> {
    prop_oneof!["[a-zA-Z0-9]{20}", "[a-z0-9]{10}[ :@/%?#\\t\\r\\n\\\\\"'é=-]{1,3}[a-z0-9]{10}"]
}

fn toml_string(text: &str) -> String {
    let escaped = text.chars().map(|c| {
        if c.is_ascii_alphanumeric() { c.to_string() } else { format!("\\u{:04x}", u32::from(c)) }
    });
    format!("\"{}\"", escaped.collect::<String>())
}

proptest! {
    #[test]
    fn any_pieces_are_read_or_refused(pieces in proptest::collection::vec(proptest::sample::select(&PIECES[..]), 0..40)) {
        let text = pieces.concat();
        let lines = text.lines().count();
        for read in [Document::parse, Document::parse_measured] {
            match read(text.as_bytes()) {
                Ok(checked) => {
                    prop_assert!(checked.warnings.iter().all(|warning| (1..=lines).contains(&warning.line)));
                    let written = checked.document.to_toml().unwrap();
                    let again = read(written.as_bytes()).unwrap().document;
                    prop_assert_eq!(again.redacted(), checked.document.redacted());
                    prop_assert_eq!(again.to_toml().unwrap(), written);
                }
                Err(problems) => {
                    prop_assert!(problems.iter().count() > 0);
                    prop_assert!(problems.iter().all(|problem| problem.line <= lines + 1));
                }
            }
        }
    }

    #[test]
    fn any_reference_has_one_form(text in "kbs(\\+[a-z-]{0,3})?:/{1,4}[a-c.:@#%/?]{0,16}") {
        if let Ok(uri) = ResourceUri::parse(&text) {
            prop_assert_eq!(ResourceUri::parse(&uri.to_string()), Ok(uri));
        }
    }

    #[test]
    fn any_source_has_one_form(text in "(cdh=unix:|file=)[a-c/.]{0,16}") {
        if let Ok(source) = ResourceSource::parse(&text) {
            prop_assert_eq!(ResourceSource::parse(&source.to_string()), Ok(source));
        }
    }

    #[test]
    fn any_reason_of_a_node_is_read_back(reason in proptest::collection::vec(any::<char>(), 0..2048)) {
        let reason = String::from_iter(reason);
        let written = NodeError::new(&reason);
        let text = written.to_document();
        let read = Document::parse(text.as_bytes()).unwrap().document.node_error;
        prop_assert_eq!(read.as_ref(), Some(&written));
        prop_assert!(!written.to_string().contains(char::is_control));
        let table: toml::Table = text.parse().unwrap();
        let kept = table["node-error"].as_str().unwrap();
        if reason.len() <= MAX_NODE_ERROR_BYTES {
            prop_assert!(kept == reason || reason.is_empty());
        } else {
            let start = kept.strip_suffix('…').unwrap();
            prop_assert!(reason.starts_with(start) && kept.len() + 3 >= MAX_NODE_ERROR_BYTES);
        }
    }

    #[test]
    fn any_host_has_one_spelling_that_urls_agree_with(text in "[a-zA-Z0-9.:_x\\[\\]-]{1,24}") {
        let Ok(host) = RegistryHost::parse(&text) else { return Ok(()) };
        prop_assert_eq!(&RegistryHost::parse(&host.to_string()).unwrap(), &host);
        // Not every "xn--" label is one.
        if let Ok(url) = Url::parse(&format!("https://{text}/")) {
            prop_assert_eq!(RegistryHost::of_url(&url), Some(host));
        }
    }

    #[test]
    fn any_name_has_one_normal_form(text in "[a-zA-Z0-9.:\\[\\]-]{1,16}") {
        if let Ok(name) = RegistryName::parse(&text) {
            prop_assert_eq!(RegistryName::parse(&name.to_string()), Ok(name));
        }
    }

    #[test]
    fn order_of_entries_changes_nothing(
        (names, shuffled) in proptest::collection::vec(name(), 0..12).prop_flat_map(|names| (Just(names.clone()), Just(names).prop_shuffle())),
        host in host(),
    ) {
        let expected = matched_by_definition(&names, &host);
        prop_assert_eq!(matched(&document(&names), &host), expected.clone());
        prop_assert_eq!(matched(&document(&shuffled), &host), expected);
    }

    #[test]
    fn suffix_matches_at_label_boundaries_only(prefix in "[a-z0-9]{0,3}", dot in "\\.?", domain in "[a-c]{1,3}(\\.[a-c]{1,3}){0,2}") {
        let host = format!("{prefix}{dot}{domain}");
        if RegistryHost::parse(&host).is_ok() {
            let is_below = !prefix.is_empty() && !dot.is_empty();
            prop_assert_eq!(matched(&format!("[registries.\".{domain}\"]"), &host).is_some(), is_below);
            prop_assert_eq!(matched(&format!("[registries.\"{domain}\"]"), &host).is_some(), host == domain);
        }
    }

    #[test]
    fn no_value_is_ever_shown(
        secret in secret(),
        key in proptest::sample::select(&["password", "auth", "identitytoken", "registrytoken", "ca-certs", "mirror", "token", "credentials-uri", "ca-certs-uri", "sealed", "keys"][..]),
        encode in any::<bool>(),
        more in proptest::sample::select(&["", "username = \"robot\"\n", "username = \"robot\"\npassword = \"x\"\n", "plain-http = 1\n", "= broken"][..]),
        variable in proptest::sample::select(&["HTTP_PROXY", "https_proxy", "PATH"][..]),
    ) {
        use base64::Engine as _;
        let value = if encode && key == "auth" {
            base64::engine::general_purpose::STANDARD.encode(format!("robot:{secret}"))
        } else if key == "sealed" {
            let encoded = base64::engine::general_purpose::URL_SAFE_NO_PAD.encode(&secret);
            format!("sealed.{encoded}.{encoded}.{encoded}")
        } else {
            secret.clone()
        };
        // The last table of the text, so that the key may belong to another.
        let key = match (key, encode) {
            ("sealed", true) => "password",
            ("sealed", false) => "credentials-uri",
            ("keys", _) => "[decryption-keys]\nkeys",
            _ => key,
        };
        let proxy = format!("http://robot:{secret}@proxy.corp:3128");
        let text = format!(
            "[extra-env]\n{variable} = \
            {}\n[registries.\"robot:{}@r.corp\"]\n[registries.\"r.corp\"]\n{more}{key} = {}\n",
            toml_string(&proxy),
            "hunter2hunter2",
            toml_string(&value),
        );
        let readers = [Document::parse, Document::parse_measured];
        for (text, read) in [text.clone(), text.replacen("[registries.\"robot:hunter2hunter2@r.corp\"]\n", "", 1), format!("{text}\nmore = \"{secret}")].iter().flat_map(|text| readers.map(|read| (text, read))) {
            let shown = match read(text.as_bytes()) {
                Err(problems) => format!("{problems}\n{problems:?}"),
                Ok(checked) => {
                    let written = checked.document.to_toml().unwrap();
                    let again = read(written.as_bytes()).unwrap().document;
                    prop_assert_eq!(again.to_toml().unwrap(), written);
                    let json = serde_json::to_string(&checked.document).unwrap();
                    format!("{checked:?}\n{}\n{json}", checked.document.redacted())
                }
            };
            for hidden in [&secret[..10], &secret[secret.len() - 10..], value.as_str(), "hunter2"] {
                // A mirror's address is shown where it is one.
                let is_shown = shown.to_lowercase().contains(&hidden.to_lowercase());
                prop_assert!(!is_shown || (key == "mirror" && shown.contains("mirror = ")), "{}", shown);
            }
        }
    }
}
