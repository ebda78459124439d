//! `cdh.toml`, key by key.

use foreign_text::nearest;
use foreign_text::toml::{Field, Table};
use registry_config::Document;

use crate::finding::{Findings, Place};
use crate::owner::{NO_PROXY, Owner, Policy};
use crate::registries;

/// What is the hub's own. It gets new keys and tables with its releases and ignores what it does not
/// know, so that other names at the top are passed over too, with a note.
const OF_THE_HUB: [&str; 6] =
    ["socket", "services_dir", "credentials", "skip_sealed_secret_verification", "log", "aa"];

/// What `[kbc]` says of the broker. The hub asks it; this guest asks the hub.
const OF_THE_BROKER: [&str; 3] = ["name", "url", "kbs_cert"];

const POLICY: &str = "image_security_policy";
const POLICY_URI: &str = "image_security_policy_uri";

const SIGSTORE: &str = "says where OpenPGP signatures lie, which are not verified here; take it \
    out, and let the policy ask for signatures by a key (sigstoreSigned)";

/// What has no counterpart, and what to do.
const WITHOUT_COUNTERPART: [(&str, &str); 3] = [
    ("sigstore_config", SIGSTORE),
    ("sigstore_config_uri", SIGSTORE),
    (
        "work_dir",
        "the guest's image says where layers lie, by \"--store\" of its imagepuller; take it out",
    ),
];

pub(crate) const UNKNOWN: &str = "not a key that is known here; correct it or take it out";

const PROXIES: [(&str, &str); 3] =
    [("https_proxy", "HTTPS_PROXY"), ("http_proxy", "HTTP_PROXY"), ("no_proxy", NO_PROXY)];

/// The tables that are read, for suggestions.
const TABLES: [&str; 2] = ["image", "kbc"];

const ANONYMOUS_FALLBACK: &str = "anonymous_fallback_on_unauthorized";

/// Reads the whole file.
pub(crate) fn read_file(mut keys: Table<'_, '_>, owner: &mut Owner, findings: &mut Findings) {
    for key in OF_THE_HUB {
        keys.take(key);
    }
    let kbc = keys.take("kbc");
    owner.has_kbc = kbc.is_some();
    if let Some(field) = kbc
        && let Some(mut kbc) = findings.typed(&field, field.table())
    {
        for key in OF_THE_BROKER {
            if let Some(field) = kbc.take(key) {
                findings.typed(&field, field.text());
            }
        }
        refuse_rest(kbc, findings);
    }
    if let Some(field) = keys.take("image") {
        owner.has_image = true;
        if let Some(image) = findings.typed(&field, field.table()) {
            read_image(image, owner, findings);
        }
    }
    for field in keys.rest() {
        // A policy or a proxy below one of these would be lost.
        match nearest(field.key, &TABLES) {
            _ if Document::has_key(field.key) => {
                let rule = "belongs into imagepuller.toml, and nothing reads it here; move it";
                findings.problem(&field, rule);
            }
            Some(table) => {
                findings.problem(&field, format!("{UNKNOWN}; did you mean \"{table}\"?"));
            }
            None => findings.note(&field, "passed over: the hub's own, and nothing about pulls"),
        }
    }
}

fn read_image(mut keys: Table<'_, '_>, owner: &mut Owner, findings: &mut Findings) {
    for (key, rule) in WITHOUT_COUNTERPART {
        if let Some(field) = keys.take(key) {
            findings.problem(&field, rule);
        }
    }
    read_policy(&mut keys, owner, findings);
    if let Some(field) = keys.take("authenticated_registry_credentials_uri") {
        let text = findings.typed(&field, field.text());
        owner.credentials = text.map(|text| (text.to_owned(), Place::from(&field)));
    }
    if let Some(field) = keys.take(ANONYMOUS_FALLBACK)
        && findings.typed(&field, field.flag()) == Some(true)
    {
        let rule = "a pull of this guest never becomes anonymous after a refusal; take it out: \
            registries that the credentials do not name are asked anonymously";
        findings.problem(&field, rule);
    }
    if let Some(field) = keys.take("max_concurrent_layer_downloads_per_image")
        && findings.typed(&field, field.integer()).is_some()
    {
        findings.note(&field, "has no effect, the limits of this puller hold");
    }
    if let Some(field) = keys.take("extra_root_certificates") {
        for item in findings.typed(&field, field.items()).unwrap_or_default() {
            if let Some(text) = findings.typed(&item, item.text()) {
                owner.roots.push((text.to_owned(), Place::from(&item)));
            }
        }
    }
    if let Some(field) = keys.take("image_pull_proxy") {
        read_proxies(&field, owner, findings);
    }
    let by_reference = keys.take("registry_configuration_uri");
    let written = keys.take("registry_config");
    match (&by_reference, &written) {
        (Some(field), None) => {
            let rule = "the document has no rules by reference; write them into \
                \"registry_config\"";
            findings.problem(field, rule);
        }
        (Some(field), Some(_)) => {
            findings.note(field, "has no effect, \"registry_config\" stands beside it");
        }
        (None, _) => {}
    }
    if let Some(field) = written
        && let Some(table) = findings.typed(&field, field.table())
    {
        owner.rules = registries::read(table, findings);
    }
    refuse_rest(keys, findings);
}

/// The hub prefers the reference, whatever it is and whatever the text.
fn read_policy(keys: &mut Table<'_, '_>, owner: &mut Owner, findings: &mut Findings) {
    let text = keys.take(POLICY);
    let by_reference = keys.take(POLICY_URI);
    if let (Some(field), Some(_)) = (&text, &by_reference) {
        let note = format!("has no effect, {POLICY_URI:?} stands beside it");
        findings.note(field, note);
    }
    let (field, is_reference) = match (by_reference, text) {
        (Some(field), _) => (field, true),
        (None, Some(field)) => (field, false),
        (None, None) => return,
    };
    let Some(value) = findings.typed(&field, field.text()) else {
        return;
    };
    let value = (value.to_owned(), Place::from(&field));
    owner.policy = Some(match is_reference {
        true => Policy::Reference(value),
        false => Policy::Text(value),
    });
}

fn read_proxies(field: &Field<'_, '_>, owner: &mut Owner, findings: &mut Findings) {
    let Some(mut keys) = findings.typed(field, field.table()) else {
        return;
    };
    // The table alone says that the host's proxies do not count.
    owner.proxies.get_or_insert_default();
    for (key, variable) in PROXIES {
        if let Some(field) = keys.take(key)
            && let Some(text) = findings.typed(&field, field.text())
        {
            owner.proxy(variable, text, Place::from(&field));
        }
    }
    refuse_rest(keys, findings);
}

/// Every key that is left is a problem.
pub(crate) fn refuse_rest(keys: Table<'_, '_>, findings: &mut Findings) {
    for field in keys.rest() {
        findings.problem(&field, UNKNOWN);
    }
}
