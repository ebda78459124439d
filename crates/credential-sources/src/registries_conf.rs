//! `registries.conf` (version 2) of podman, CRI-O, skopeo and buildah: the part that the document
//! can say.
//!
//! A `[[registry]]` is taken over where its prefix is a whole host (or `*.` and a domain), because
//! the document does not match repositories, and where its mirrors and its location are hosts
//! without a path, because the engines put such a path behind `v2/` and the document before it. A
//! registry that is asked only at places that cannot be said is forbidden.
//!
//! `insecure` becomes `insecure-skip-verify`, which includes plain HTTP, though without
//! credentials.

use crate::printable;
use crate::registry_file::assemble::assemble;
use crate::registry_file::endpoint::{ApiPath, Endpoint};
use crate::registry_file::plan::{Link, Plan, Target};
use crate::registry_file::toml_keys::{Keys, Tree};
use crate::registry_file::{Import, Report, Settings};

/// The longest file; a thousand registries have less.
pub const MAX_REGISTRIES_CONF_BYTES: usize = 128 << 10;

/// Keys of the file that concern names without a registry, of which the guest gets none.
const SHORT_NAMES: [&str; 4] = [
    "unqualified-search-registries",
    "short-name-mode",
    "aliases",
    "additional-layer-store-auth-helper",
];

/// Reads a file.
pub fn read(bytes: &[u8], source: &str) -> Import {
    let mut report = Report::default();
    let source = printable(source);
    let tree = Tree::parse(bytes, MAX_REGISTRIES_CONF_BYTES, &source, &mut report);
    let plans = tree.map_or_else(Vec::new, |tree| {
        plans(tree.keys(&source), &source, &mut report)
    });
    assemble(plans, report)
}

fn plans(mut keys: Keys<'_, '_>, source: &str, report: &mut Report) -> Vec<Plan> {
    for key in SHORT_NAMES {
        if keys.take(key).is_some() {
            report.note(source, key, "has no part: guests get complete names");
        }
    }
    if keys.take("credential-helpers").is_some() {
        report.lost(
            source,
            "credential-helpers",
            "left out: no helper runs in a guest; import what they hold as docker-config",
        );
    }
    if keys.take("registries").is_some() {
        report.lost(
            source,
            "registries",
            "left out: only version 2 of the format is read, with [[registry]]",
        );
    }
    let tables = keys.tables("registry", report);
    keys.tell_rest(report);
    tables
        .into_iter()
        .filter_map(|keys| plan(keys, source, report))
        .collect()
}

fn plan(mut keys: Keys<'_, '_>, source: &str, report: &mut Report) -> Option<Plan> {
    let path = keys.path.clone();
    let location = keys.text("location", report).unwrap_or_default();
    let prefix = keys.text("prefix", report).unwrap_or_default();
    let prefix = if prefix.is_empty() { location } else { prefix };
    let is_blocked = keys.flag("blocked", report).unwrap_or_default();
    let is_insecure = keys.flag("insecure", report).unwrap_or_default();
    let by_digest = keys
        .flag("mirror-by-digest-only", report)
        .unwrap_or_default();
    let mirrors = keys.tables("mirror", report);
    keys.tell_rest(report);
    let key = format!("{path} {}", printable(prefix));
    let Some(name) = name(prefix) else {
        report.lost(
            source,
            &key,
            "left out: the document matches whole hosts, not repositories",
        );
        return None;
    };
    let mut links = Vec::new();
    for mirror in mirrors {
        links.extend(mirror_link(mirror, by_digest, source, report));
    }
    links.push(own_link(
        prefix,
        location,
        &key,
        is_insecure,
        source,
        report,
    ));
    Some(Plan {
        name,
        source: source.to_owned(),
        key,
        links,
        is_blocked,
    })
}

/// The document's name for a prefix; `None` where it is not of whole hosts.
fn name(prefix: &str) -> Option<String> {
    match prefix.strip_prefix("*.") {
        Some(domain) if domain.contains(['/', '*', ':', '@']) => None,
        Some(domain) => Some(format!(".{domain}")),
        // A leading dot would be a suffix in the document.
        None if prefix.contains(['/', '*', '@']) || prefix.starts_with('.') => None,
        None => Some(prefix.to_owned()),
    }
}

/// Where the registry's images are, if no mirror has them.
fn own_link(
    prefix: &str,
    location: &str,
    key: &str,
    is_insecure: bool,
    source: &str,
    report: &mut Report,
) -> Link {
    let is_elsewhere = !location.is_empty() && location != prefix;
    let target = if !is_elsewhere {
        Target::Registry
    } else if prefix.starts_with("*.") {
        report.lost(
            source,
            key,
            "location is left out: the document asks each of many registries under its own name",
        );
        Target::Inexpressible
    } else {
        host(
            location,
            &format!("{key}.location"),
            is_insecure,
            source,
            report,
        )
    };
    Link {
        key: key.to_owned(),
        target,
        settings: insecure(is_insecure),
    }
}

/// A mirror; `None` where it has no part in pulls by digest.
fn mirror_link(
    mut keys: Keys<'_, '_>,
    by_digest: bool,
    source: &str,
    report: &mut Report,
) -> Option<Link> {
    let path = keys.path.clone();
    let location = keys.text("location", report).unwrap_or_default();
    let is_insecure = keys.flag("insecure", report).unwrap_or_default();
    let when = keys.text("pull-from-mirror", report).unwrap_or_default();
    keys.tell_rest(report);
    let key = format!("{path} {}", printable(location));
    if when == "tag-only" && !by_digest {
        report.note(source, &key, "has no part: guests pull by digest");
        return None;
    }
    let target = host(location, &key, is_insecure, source, report);
    Some(Link {
        key,
        target,
        settings: insecure(is_insecure),
    })
}

/// A location, which is a host without a scheme and here must have no path.
fn host(location: &str, key: &str, is_insecure: bool, source: &str, report: &mut Report) -> Target {
    let endpoint = if location.contains("://") || location.contains('@') {
        Err("not a host such as \"mirror.corp:5000\"")
    } else if location.contains('/') {
        Err("the document puts a path before \"v2/\", this file behind it")
    } else {
        Endpoint::parse(location, ApiPath::Below)
    };
    match endpoint {
        Ok(endpoint) => {
            if is_insecure {
                report.lost(
                    source,
                    key,
                    "is not asked over plain HTTP; if it does not speak TLS, \
                write its address with \"http://\" into the document",
                );
            }
            Target::Address(endpoint)
        }
        Err(reason) => {
            report.lost(source, key, format!("left out: {reason}"));
            Target::Inexpressible
        }
    }
}

fn insecure(is_insecure: bool) -> Settings {
    Settings {
        skip_verify: is_insecure,
        ..Settings::default()
    }
}
