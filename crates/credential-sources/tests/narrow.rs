//! What a document without the secrets of others gives to the pulls of a list, and to all others:
//! compared by the very rules that the guest pulls by.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "test code")]

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::sync::{Arc, LazyLock};

use credential_sources::narrow;
use proptest::prelude::*;
use pull_route::{Account, PlacedDocument, Plan, Settings, Step};
use puller_config::{Credentials, DecryptionKey, Document, OnlyRegistries, RegistryHost};

const NAMES: [&str; 16] = [
    "a.corp",
    "a.corp:5000",
    "a.corp/team",
    "a.corp:5000/team",
    "a.corp/team/app",
    "a.corp/other",
    "b.corp",
    "b.corp/team",
    "m.corp",
    "m.corp:5000",
    "n.lab",
    ".corp",
    ".lab",
    ".",
    "docker.io",
    "docker.io/library",
];

const MIRRORS: [&str; 5] = [
    "",
    "mirror = \"https://m.corp\"\n",
    "mirrors = [\"https://m.corp:5000\", {url = \"https://n.lab\", prefix = \"team\"}]\n\
     mirror-fallback = true\n",
    "mirrors = [{url = \"https://b.corp/x\", prefix = \"team/app\"}]\nmirror-fallback = true\n",
    "mirror = \"https://a.corp\"\n",
];

const LISTED: [&str; 11] = [
    "a.corp",
    "a.corp:5000",
    "a.corp/team",
    "a.corp/team/app",
    "a.corp:443/team",
    "b.corp",
    "b.corp/other",
    "m.corp",
    "docker.io/library/alpine",
    "x.lab",
    "other.example",
];

/// With ports and names that no entry has, for all those that none has.
const HOSTS: [&str; 12] = [
    "a.corp",
    "a.corp:5000",
    "a.corp:7",
    "b.corp",
    "b.corp:5000",
    "m.corp",
    "m.corp:5000",
    "m.corp:7",
    "n.lab",
    "x.lab",
    "docker.io",
    "other.example",
];

const REPOSITORIES: [&str; 8] =
    ["team", "team/x", "team/app", "team/app/x", "team-b", "other", "library/alpine", "x"];

static CLIENT: LazyLock<String> = LazyLock::new(|| {
    let key = rcgen::generate_simple_self_signed(vec!["robot".to_owned()]).unwrap();
    format!(
        "client-cert = '''\n{}'''\nclient-key = '''\n{}'''\n",
        key.cert.pem(),
        key.signing_key.serialize_pem()
    )
});

/// An entry's name, who the puller is, mirrors, and what else it says.
type Entry = (usize, u8, usize, [bool; 5]);

/// Every secret is another one.
fn document(entries: &[Entry], keys: &[usize]) -> String {
    let mut text = "[extra-env]\nHTTPS_PROXY = \"http://u:proxy@p.corp:1\"\n".to_owned();
    let mut seen = BTreeSet::new();
    for (name, who, mirror, flags) in entries {
        let (name, number) = (NAMES[*name], *name);
        if !seen.insert(name) {
            continue;
        }
        writeln!(text, "[registries.\"{name}\"]").unwrap();
        let pair =
            |which: &str| format!("username = \"u\"\npassword = \"secret-{number}-{which}\"\n");
        match who {
            0 => {}
            1 => text += &pair("own"),
            2 => writeln!(text, "registrytoken = \"secret-{number}-token\"").unwrap(),
            3 => text += "credentials-uri = \"kbs:///a/b/c\"\n",
            _ => {
                text += &pair("own");
                writeln!(text, "also = [{{identitytoken = \"secret-{number}-also\"}}]").unwrap();
            }
        }
        if name.contains('/') {
            continue;
        }
        text += MIRRORS[*mirror];
        let [client, forbids, skips, plain, web] = flags;
        for (is_there, key) in [
            (*client, CLIENT.as_str()),
            (*forbids, "ca-certs = \"none\"\n"),
            (*skips, "insecure-skip-verify = true\n"),
            (*plain, "plain-http = true\n"),
            (*web && !*forbids, "ca-certs-uri = \"kbs:///a/b/ca\"\n"),
        ] {
            if is_there {
                text += key;
            }
        }
    }
    text += "[decryption-keys]\nkeys = [\"YWxs\", \"kbs:///a/b/key\"]\n";
    for number in keys.iter().collect::<BTreeSet<_>>() {
        let name = NAMES[*number];
        if !name.starts_with('.') {
            writeln!(text, "[decryption-keys.\"{name}\"]\nkeys = [\"{}\"]", key(*number)).unwrap();
        }
    }
    text
}

/// Base64 of some bytes of its own.
fn key(number: usize) -> String {
    format!("a2V5{}", ["AAAA", "BBBB", "CCCC", "DDDD"][number % 4].repeat(number / 4 + 1))
}

fn settings(document: &Document) -> Settings {
    let configuration = PlacedDocument {
        document: Arc::new(document.clone()),
        path: "/imagepuller.toml".into(),
        is_present: true,
    };
    Settings::new(PlacedDocument::default(), configuration)
}

fn secret(credentials: &Credentials) -> String {
    match credentials {
        Credentials::Anonymous => String::new(),
        Credentials::Basic { password, .. } => password.expose().to_owned(),
        Credentials::RegistryToken(token) | Credentials::IdentityToken { token, .. } => {
            token.expose().to_owned()
        }
    }
}

fn secrets(step: &Step) -> Vec<String> {
    match step.account() {
        Account::Given(accounts) => {
            let accounts = accounts.iter();
            accounts.map(|account| secret(&account.credentials)).collect()
        }
        Account::Anonymous(_) | Account::Fetched { .. } => Vec::new(),
    }
}

fn steps(plan: &Plan) -> impl Iterator<Item = &Step> {
    plan.mirrors().iter().chain([plan.registry()])
}

/// The way: who is asked, under which name, whom that trusts and what weakens it.
fn way(plan: &Result<Plan, pull_route::Error>) -> Vec<String> {
    let plan = match plan {
        Ok(plan) => plan,
        Err(error) => return vec![error.to_string()],
    };
    let step = |step: &Step| {
        let (entry, registry) = (step.authority(), &step.authority().registry);
        format!(
            "{} {:?} {entry} {} {} {} {}",
            step.url(),
            step.repository(),
            entry.roots(),
            registry.insecure_skip_verify,
            registry.plain_http,
            step.is_own_entry()
        )
    };
    let asked = format!("{} {:?}", plan.is_registry_asked(), plan.credentials_uri());
    steps(plan).map(step).chain([asked]).collect()
}

/// Who the puller is, with all secrets.
fn who(plan: &Result<Plan, pull_route::Error>) -> Vec<String> {
    let step = |step: &Step| {
        let why = match step.account() {
            Account::Anonymous(reason) => reason.to_string(),
            Account::Given(_) => String::new(),
            Account::Fetched { host, is_required } => format!("{host} {is_required}"),
        };
        let client = step.authority().registry.client.is_some();
        format!("{:?} {why} {client}", secrets(step))
    };
    plan.iter().flat_map(steps).map(step).collect()
}

fn keys(settings: &Settings, host: &RegistryHost, repository: &str) -> Vec<String> {
    let keys = settings.decryption_keys(host, repository);
    keys.map(|placed| match placed.key {
        DecryptionKey::Given { key, .. } => format!("{key:?}"),
        DecryptionKey::Reference(reference) => reference.to_string(),
    })
    .collect()
}

fn entry() -> impl Strategy<Value = Entry> {
    let flag = || prop::bool::weighted(0.2);
    let flags = [flag(), flag(), flag(), flag(), flag()];
    (0..NAMES.len(), 0..6_u8, 0..MIRRORS.len(), flags)
}

/// What the allowed pulls get of secrets.
#[derive(Debug, Default)]
struct Allowed {
    secrets: BTreeSet<String>,
    keys: BTreeSet<String>,
    /// Whether one of them fails before a secret is looked at, which is there all the same.
    fails: bool,
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]

    #[test]
    fn pulls_of_the_list_stay_and_nobody_else_keeps_a_secret(
        entries in prop::collection::vec(entry(), 0..10),
        tables in prop::collection::vec(0..NAMES.len(), 0..5),
        listed in prop::collection::vec(0..LISTED.len(), 0..4),
    ) {
        let text = document(&entries, &tables);
        // Mirrors whose own entry has a reference are refused.
        let Ok(before) = Document::parse(text.as_bytes()) else { return Ok(()) };
        let listed = listed.iter().map(|at| OnlyRegistries::item(LISTED[*at]).unwrap());
        let only: OnlyRegistries = listed.collect();
        let narrowed = narrow(text.as_bytes(), &only).unwrap();
        let after = &narrowed.document;

        let names = |document: &Document| -> Vec<_> {
            document.registries.iter().map(|(name, _)| name.clone()).collect()
        };
        prop_assert_eq!(names(&before.document), names(after));
        let (before, after) = (settings(&before.document), settings(after));
        let mut allowed = Allowed::default();
        let mut others = Vec::new();
        for host in HOSTS {
            let host = RegistryHost::parse(host).unwrap();
            for repository in REPOSITORIES {
                let (old, new) = (before.plan(&host, repository), after.plan(&host, repository));
                // For everybody: nobody is trusted more, and nobody else is asked.
                prop_assert_eq!(way(&old), way(&new), "{}/{}\n{}", host, repository, text);
                if !only.has(&host, repository) {
                    others.push((host.clone(), repository, old, new));
                    continue;
                }
                prop_assert_eq!(who(&old), who(&new), "{}/{}\n{}", host, repository, text);
                let opened = keys(&before, &host, repository);
                prop_assert_eq!(&opened, &keys(&after, &host, repository));
                allowed.fails |= old.is_err();
                allowed.keys.extend(opened);
                allowed.secrets.extend(old.iter().flat_map(steps).flat_map(secrets));
            }
        }
        for (host, repository, old, new) in others {
            let had: BTreeSet<_> = old.iter().flat_map(steps).flat_map(secrets).collect();
            for secret in new.iter().flat_map(steps).flat_map(secrets) {
                prop_assert!(
                    had.contains(&secret) && (allowed.fails || allowed.secrets.contains(&secret)),
                    "{}/{}: {}\n{}", host, repository, secret, text
                );
            }
            for key in keys(&after, &host, repository) {
                let is_reference = key.starts_with("kbs:");
                prop_assert!(is_reference || allowed.keys.contains(&key), "{}\n{}", key, text);
            }
        }
        // Nor is anything left where no pull would find it.
        let left = std::str::from_utf8(&narrowed.text).unwrap();
        for number in 0..NAMES.len() {
            for which in ["own", "also", "token"] {
                let secret = format!("secret-{number}-{which}");
                let is_left = left.contains(&format!("\"{secret}\""));
                prop_assert!(!is_left || allowed.fails || allowed.secrets.contains(&secret), "{}\n{}", secret, text);
            }
        }
        if only.is_empty() {
            prop_assert!(!left.contains("PRIVATE KEY") && !left.contains("YWxs"), "{}", left);
        }
    }
}
