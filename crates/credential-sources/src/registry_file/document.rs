//! Entries written as a document.

use registry_config::{
    Credentials, Document, MAX_CERTIFICATES, MAX_DOCUMENT_BYTES, Registry, RegistryName, Rewrite,
    Secret,
};
use zeroize::Zeroizing;

use super::{Certificates, Client, Entry, Import, MirrorAddress, Report, Roots};

/// The document that entries make, and everything there is to say about it.
#[derive(Clone, Debug)]
pub struct Written {
    /// The document, which [`Document::parse`] accepts; `None` where there are faults.
    pub document: Option<Secret>,
    /// What there is to say about the files and about the document.
    pub report: Report,
}

impl Written {
    /// The text of a document, unless there are faults.
    pub(crate) fn of(config: &Document, mut report: Report) -> Self {
        let text = config.to_toml().map_err(|rule| report.fault(DOCUMENT, "", rule.to_string()));
        let document = text.ok().filter(|_| report.faults.is_empty()).map(Secret::from);
        Self { document, report }
    }
}

/// The source of findings about the result itself.
pub(super) const DOCUMENT: &str = "the document";

/// More than the keys and signs of an entry take, its name and mirrors aside.
const ENTRY_BYTES: usize = 1024;

/// More than the keys and signs of a mirror, or of a rule for names, take.
const MIRROR_BYTES: usize = 64;

impl Import {
    /// Writes the entries, their certificates followed by `system_roots` where those are given.
    #[must_use]
    pub fn write(self, system_roots: Option<&Certificates>) -> Written {
        let Self { entries, mut report } = self;
        let mut document = None;
        if report.faults.is_empty() {
            tell_roots(&entries, system_roots, &mut report);
            let bytes = length(&entries, system_roots);
            if bytes > MAX_DOCUMENT_BYTES {
                report.fault(DOCUMENT, "", too_long(bytes, &entries, system_roots));
            } else {
                document = Some(text(&entries, system_roots));
            }
        }
        match document.as_ref().map(|text| Document::parse(text.as_bytes())) {
            Some(Ok(checked)) => {
                for warning in checked.warnings {
                    report.note(DOCUMENT, &warning.key, warning.effect.to_string());
                }
            }
            Some(Err(problems)) => {
                for problem in problems.iter() {
                    report.fault(DOCUMENT, &problem.key, problem.rule.to_string());
                }
            }
            None => {}
        }
        let document = document.filter(|_| report.faults.is_empty());
        Written { document: document.map(Secret::from), report }
    }
}

/// The most bytes that a character of a string becomes: `\u0000`.
const MAX_ESCAPE_BYTES: usize = 6;

/// Writes a TOML basic string.
fn push_literal(text: &str, out: &mut String) {
    out.push('"');
    for character in text.chars() {
        match character {
            '"' | '\\' => out.extend(['\\', character]),
            control if control.is_control() => {
                out.push_str(&format!("\\u{:04x}", u32::from(control)));
            }
            other => out.push(other),
        }
    }
    out.push('"');
}

/// Writes a line with a key and a string.
pub(super) fn push_key(key: &str, value: &str, out: &mut String) {
    out.push_str(key);
    out.push_str(" = ");
    push_literal(value, out);
    out.push('\n');
}

/// Writes the keys as a document of this entry alone has them.
fn push_credentials(credentials: &Credentials, out: &mut String) {
    let mut alone = Document::default();
    let entry = Registry { credentials: credentials.clone(), ..Registry::default() };
    if let Ok(name) = RegistryName::parse("probe") {
        alone.registries.set(name, entry);
    }
    let text = alone.to_toml().unwrap_or_default();
    out.push_str(text.split_once('\n').map_or("", |(_, keys)| keys));
}

/// Says of every entry with certificates that they are the only ones now.
fn tell_roots(entries: &[Entry], system_roots: Option<&Certificates>, report: &mut Report) {
    for entry in entries {
        let Some(Roots::These(own)) = &entry.settings.roots else {
            continue;
        };
        match system_roots {
            None => report.lost(
                &entry.source,
                &entry.name,
                "its certificate authorities were trusted beside the system's and are the only \
                ones now, also for the hosts that it redirects to; --keep-system-roots adds the \
                system's",
            ),
            Some(system) if own.len() + system.len() > MAX_CERTIFICATES => report.fault(
                &entry.source,
                &entry.name,
                format!(
                    "{} certificates, {} of them the system's, are more than the \
                    {MAX_CERTIFICATES} that an entry may have",
                    own.len() + system.len(),
                    system.len()
                ),
            ),
            Some(_) => {}
        }
    }
}

/// An upper bound of the document's length where no certificates are, exact for certificates.
fn length(entries: &[Entry], system_roots: Option<&Certificates>) -> usize {
    entries.iter().map(|entry| certificates_length(entry, system_roots)).sum::<usize>()
}

fn certificates_length(entry: &Entry, system_roots: Option<&Certificates>) -> usize {
    let roots = match &entry.settings.roots {
        Some(Roots::These(own)) => own.bytes() + system_roots.map_or(0, Certificates::bytes),
        _ => 0,
    };
    let client = entry.settings.client.as_deref();
    roots + client.map_or(0, Client::bytes)
}

fn too_long(bytes: usize, entries: &[Entry], system_roots: Option<&Certificates>) -> String {
    let have = entries.iter().filter(|entry| certificates_length(entry, None) > 0).count();
    let advice = match system_roots {
        Some(system) => format!(
            "the system's {} roots stand in each of {have} entries; name a shorter file with \
            --system-roots, or leave --keep-system-roots out",
            system.len()
        ),
        None => format!("{have} entries have certificates; import fewer registries"),
    };
    format!(
        "the document's certificates alone have {bytes} bytes, and a document has at most \
        {MAX_DOCUMENT_BYTES}: {advice}"
    )
}

fn text(entries: &[Entry], system_roots: Option<&Certificates>) -> Zeroizing<String> {
    let secrets: usize = entries.iter().map(secret_length).sum();
    let capacity =
        length(entries, system_roots) + secrets * MAX_ESCAPE_BYTES + entries.len() * ENTRY_BYTES;
    // Large enough from the start: a string that grows leaves copies of its secrets behind.
    let mut out = Zeroizing::new(String::with_capacity(capacity));
    for entry in entries {
        push_entry(entry, system_roots, &mut out);
    }
    out
}

/// The length of what an entry has of unbounded length, certificates aside.
fn secret_length(entry: &Entry) -> usize {
    let credentials = match entry.settings.credentials.as_deref() {
        Some(Credentials::Basic { username, password }) => {
            username.len() + password.expose().len() * 2
        }
        Some(Credentials::IdentityToken { token, .. } | Credentials::RegistryToken(token)) => {
            token.expose().len()
        }
        Some(Credentials::Anonymous) | None => 0,
    };
    let mirrors = entry.mirrors.iter().map(|mirror| {
        let rules = mirror.rewrites.iter();
        let rules = rules.map(|rule| rule.from().len() + rule.to().len() + MIRROR_BYTES);
        let prefix = mirror.prefix.as_ref().map_or(0, String::len);
        mirror.url.len() + prefix + MIRROR_BYTES + rules.sum::<usize>()
    });
    credentials + entry.name.len() + mirrors.sum::<usize>()
}

fn push_entry(entry: &Entry, system_roots: Option<&Certificates>, out: &mut String) {
    if !out.is_empty() {
        out.push('\n');
    }
    out.push_str("[registries.");
    push_literal(&entry.name, out);
    out.push_str("]\n");
    let settings = &entry.settings;
    if let Some(credentials) = settings.credentials.as_deref() {
        push_credentials(credentials, out);
    }
    match &settings.roots {
        Some(Roots::Nobody(reason)) => push_key("ca-certs", reason, out),
        Some(Roots::These(own)) => push_certificates(own, system_roots, out),
        None => {}
    }
    if let Some(client) = &settings.client {
        client.push(out);
    }
    let flags =
        [("insecure-skip-verify", settings.skip_verify), ("plain-http", settings.plain_http)];
    push_flags(&flags, out);
    if !entry.mirrors.is_empty() {
        push_mirrors(&entry.mirrors, out);
        push_flags(&[("mirror-fallback", entry.mirror_fallback)], out);
    }
}

impl MirrorAddress {
    /// Whether its address says all.
    fn is_plain(&self) -> bool {
        self.rewrites.is_empty() && self.prefix.is_none()
    }
}

/// One mirror as people write it, several or other names as a list.
fn push_mirrors(mirrors: &[MirrorAddress], out: &mut String) {
    if let [mirror @ MirrorAddress { url, .. }] = mirrors
        && mirror.is_plain()
    {
        return push_key("mirror", url, out);
    }
    out.push_str("mirrors = [");
    for mirror in mirrors {
        let MirrorAddress { url, rewrites, prefix } = mirror;
        out.push_str("\n  ");
        if mirror.is_plain() {
            push_literal(url, out);
        } else {
            out.push_str("{url = ");
            push_literal(url, out);
            if let Some(prefix) = prefix {
                out.push_str(", prefix = ");
                push_literal(prefix, out);
            }
            push_rewrites(rewrites, out);
            out.push('}');
        }
        out.push(',');
    }
    out.push_str("\n]\n");
}

fn push_rewrites(rewrites: &[Rewrite], out: &mut String) {
    if rewrites.is_empty() {
        return;
    }
    out.push_str(", rewrite = [");
    for rule in rewrites {
        out.push_str("{from = ");
        push_literal(rule.from(), out);
        out.push_str(", to = ");
        push_literal(rule.to(), out);
        out.push_str("},");
    }
    out.push(']');
}

fn push_certificates(own: &Certificates, system_roots: Option<&Certificates>, out: &mut String) {
    out.push_str("ca-certs = \"\"\"\n");
    let system = system_roots.into_iter().flat_map(Certificates::blocks);
    let system = system.filter(|block| !own.blocks().any(|known| known == *block));
    for block in own.blocks().chain(system) {
        out.push_str(block);
    }
    out.push_str("\"\"\"\n");
}

fn push_flags(flags: &[(&str, bool)], out: &mut String) {
    for (key, _) in flags.iter().filter(|(_, is_set)| *is_set) {
        out.push_str(key);
        out.push_str(" = true\n");
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use proptest::prelude::*;
    use registry_config::{Match, RegistryHost};

    use super::*;
    use crate::registry_file::Settings;

    fn written(entries: Vec<Entry>) -> Written {
        let import = Import { entries, report: Report::default() };
        import.write(None)
    }

    fn entry(name: &str, credentials: Credentials) -> Entry {
        Entry {
            name: name.into(),
            source: "file".into(),
            settings: Settings { credentials: Some(Arc::new(credentials)), ..Settings::default() },
            mirrors: Vec::new(),
            mirror_fallback: false,
            is_empty: false,
        }
    }

    proptest! {
        #[test]
        fn any_legal_password_survives(username in "[^:\\p{C}]{0,20}", password in "\\P{C}{1,40}") {
            let secret = Secret::from(password.clone());
            let offered = Credentials::Basic { username: username.clone(), password: secret };
            let written = written(vec![entry("reg.corp", offered)]);
            let text = written.document.unwrap();
            let document = Document::parse(text.expose().as_bytes()).unwrap().document;
            let host = RegistryHost::parse("reg.corp").unwrap();
            let Match::Entry { entry, .. } = document.registries.entry_for(&host) else { panic!() };
            let Credentials::Basic { username: found, password: secret } = &entry.credentials
            else { panic!() };
            prop_assert_eq!((found, secret.expose()), (&username, password.as_str()));
        }

        #[test]
        fn no_value_breaks_out(token in "(?s).{1,60}", mirror in "(?s).{0,60}") {
            let mut entry = entry("reg.corp", Credentials::RegistryToken(Secret::from(token)));
            let rewrites = vec![Rewrite::parse("^", "a/").unwrap()];
            entry.mirrors = vec![
                MirrorAddress { url: mirror.clone(), rewrites: Vec::new(), prefix: None },
                MirrorAddress { url: mirror.clone(), rewrites, prefix: Some(mirror) },
            ];
            let text = text(&[entry], None);
            let capacity = text.capacity();
            prop_assert!(text.len() <= capacity);
            let parsed: toml::Table = text.parse().unwrap();
            prop_assert_eq!(parsed.len(), 1);
            prop_assert_eq!(parsed["registries"]["reg.corp"].as_table().unwrap().len(), 2);
        }
    }

    #[test]
    fn what_breaks_the_documents_rules_is_a_fault_without_its_value() {
        let offered = Credentials::RegistryToken(Secret::from("hunter2 \n".to_owned()));
        let written = written(vec![entry("reg.corp", offered)]);
        assert!(written.document.is_none());
        assert_eq!(written.report.faults[0].key, "registries.\"reg.corp\".registrytoken");
        assert!(!format!("{written:?}").contains("hunter2"));
    }
}
