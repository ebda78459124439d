//! A registry config put below another one, which wins.
//!
//! Where both have an entry for a registry, it is completed by groups of keys that only mean
//! something together: the credentials; the certificates and the transport; the mirrors. A group
//! that the base does not have is taken, an equal one is no news, and of any other the base's
//! counts, which is told. So it does not matter which of two files is imported first where they do
//! not contradict each other.
//!
//! An entry that would take the place of another one of the base (a literal beside a suffix, the
//! host that an entry lends its settings to as its mirror) is left out. Nothing is lent to a mirror
//! that was not lent to it before: it would be sent the password of another host. What the import
//! forbids, or has asked at mirrors that cannot be taken, is forbidden.

#[cfg(test)]
mod tests;

use std::fmt;

use registry_config::{Checked, Document, Registries, Registry, RegistryName, Roots, Warning};
use zeroize::Zeroizing;

use crate::merge::{self, MergeError, entry_name, holds_for, lends};
use crate::{Finding, Loss};

/// A document with something added.
#[derive(Clone)]
#[non_exhaustive]
pub struct Combined {
    /// Its text, the same bytes as before where nothing was added.
    pub text: Zeroizing<Vec<u8>>,
    /// The text, parsed.
    pub document: Document,
    /// What its author may not have meant, as of any document.
    pub warnings: Vec<Warning>,
    /// What was not added.
    pub findings: Vec<Finding>,
}

/// Keys that only mean something together, by how they are copied.
struct Group<T> {
    name: &'static str,
    copy: fn(&mut T, &T),
}

const SECTIONS: [Group<Document>; 2] = [
    Group {
        name: "extra-env",
        copy: |to, from| {
            to.has_extra_env = from.has_extra_env;
            to.extra_env = from.extra_env.clone();
        },
    },
    Group {
        name: "decryption-keys",
        copy: |to, from| to.decryption_keys = from.decryption_keys.clone(),
    },
];

const CREDENTIALS: Group<Registry> = Group {
    name: "credentials",
    copy: |to, from| {
        let client = to.client.take();
        *to = to.with_credentials_of(from);
        to.client = client;
    },
};

const TRUST: Group<Registry> = Group {
    name: "certificates and transport",
    copy: |to, from| {
        to.ca_certs = from.ca_certs.clone();
        to.ca_certs_uri = from.ca_certs_uri.clone();
        to.client = from.client.clone();
        to.insecure_skip_verify = from.insecure_skip_verify;
        to.plain_http = from.plain_http;
    },
};

const ADDRESSES: Group<Registry> =
    Group { name: "addresses", copy: |to, from| to.addresses = from.addresses.clone() };

const MIRRORS: Group<Registry> = Group {
    name: "mirrors",
    copy: |to, from| {
        to.mirrors = from.mirrors.clone();
        to.blocked = from.blocked.clone();
        to.mirror_fallback = from.mirror_fallback;
    },
};

/// Puts an imported config below a document of the host. `source` says where an imported entry
/// comes from, or with `None` all else.
///
/// # Errors
///
/// As those of [`merge`](crate::merge()).
pub fn combine(
    document: &[u8],
    imported: &Document,
    source: &dyn Fn(Option<&RegistryName>) -> String,
) -> Result<Combined, MergeError> {
    let checked = merge::read(document, false)?;
    let (config, findings) = completed(&checked.document, imported, source);
    match config.to_toml() == checked.document.to_toml() {
        true => Ok(Combined::unchanged(document, checked, findings)),
        false => Combined::written(&config, findings),
    }
}

/// [`combine`], of which the outcome may be too large.
fn completed(
    base: &Document,
    imported: &Document,
    source: &dyn Fn(Option<&RegistryName>) -> String,
) -> (Document, Vec<Finding>) {
    let mut document = base.clone();
    let mut findings = Vec::new();
    for Group { name, copy } in &SECTIONS {
        match is_taken(*copy, base, imported, |one| one.to_toml().ok()) {
            Some(true) => copy(&mut document, imported),
            Some(false) => {
                let why = "left out: the document has its own";
                findings.push(Finding::new(&source(None), name, Loss::Lost, why));
            }
            None => {}
        }
    }
    let lost = |name: &RegistryName, text: String| {
        Finding::new(&source(Some(name)), &name.written(), Loss::Lost, text)
    };
    let own = &base.registries;
    let (mut taken, mut forbidden) = (Vec::new(), Vec::new());
    for (name, entry) in imported.registries.iter() {
        let known = entry_name(own, name.clone());
        let before = own.get(&known);
        if let (None, Some(holder)) = (before, holds_for(own, name)) {
            let why = format!("the document's own entry \"{}\" holds for it", holder.written());
            if is_forbidden(entry) || !entry.blocked.is_empty() {
                forbidden.push((name, known, why));
            } else if !is_keeper(&imported.registries, name, entry) {
                findings.push(lost(name, format!("left out: {why}")));
            }
            continue;
        }
        let before = before.cloned().unwrap_or_default();
        let mut now = before.clone();
        for group in [CREDENTIALS, TRUST, ADDRESSES] {
            let completed = complete(&mut now, (own, &known, &before), entry, &group);
            findings.extend(completed.err().map(|why| lost(name, why)));
        }
        document.registries.set(known.clone(), now);
        taken.push((name, known, before, entry));
    }
    // Now that all entries are there that keep credentials from a mirror.
    for (name, known, before, entry) in taken {
        let mut now = document.registries.get(&known).cloned().unwrap_or_default();
        match complete(&mut now, (&document.registries, &known, &before), entry, &MIRRORS) {
            Ok(()) => document.registries.set(known, now),
            Err(why) if own.get(&known).is_some() => findings.push(lost(name, why)),
            // Without its mirrors the registry itself would be asked.
            Err(why) => forbidden.push((name, known, why)),
        }
    }
    for (name, known, why) in forbidden {
        let ca_certs = Some(Roots::nobody("forbidden by the imported file"));
        document.registries.set(known, Registry { ca_certs, ..Registry::default() });
        findings.push(lost(name, format!("is forbidden: {why}")));
    }
    (document, findings)
}

impl Combined {
    pub(crate) fn unchanged(document: &[u8], checked: Checked, findings: Vec<Finding>) -> Self {
        let Checked { document: parsed, warnings, .. } = checked;
        Self { text: document.to_vec().into(), document: parsed, warnings, findings }
    }

    /// # Errors
    ///
    /// [`MergeError::Unwritten`], [`MergeError::Result`].
    pub(crate) fn written(config: &Document, findings: Vec<Finding>) -> Result<Self, MergeError> {
        let mut text = config.to_toml().map_err(MergeError::Unwritten)?;
        let text = Zeroizing::new(std::mem::take(&mut *text).into_bytes());
        let Checked { document, warnings, .. } =
            Document::parse(&text).map_err(MergeError::Result)?;
        Ok(Self { text, document, warnings, findings })
    }
}

impl fmt::Debug for Combined {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Combined")
            .field("document", &self.document)
            .field("findings", &self.findings)
            .finish_non_exhaustive()
    }
}

/// Whether a group is taken, where the import has news.
fn is_taken<T: Default, W: PartialEq>(
    copy: fn(&mut T, &T),
    base: &T,
    imported: &T,
    written: impl Fn(&T) -> W,
) -> Option<bool> {
    let part = |from: &T| {
        let mut part = T::default();
        copy(&mut part, from);
        written(&part)
    };
    let [none, own, new] = [&T::default(), base, imported].map(part);
    (new != none && new != own).then(|| own == none)
}

/// Takes a group of an imported entry, or says why not. `before` is what the base has under the
/// name, `registries` what keeps settings from mirrors.
fn complete(
    now: &mut Registry,
    (registries, name, before): (&Registries, &RegistryName, &Registry),
    imported: &Registry,
    Group { name: what, copy }: &Group<Registry>,
) -> Result<(), String> {
    let written = |entry: &Registry| {
        let mut alone = Document::default();
        alone.registries.set(name.normal(), entry.clone());
        alone.to_toml().ok()
    };
    let Some(is_taken) = is_taken(*copy, before, imported, written) else {
        return Ok(());
    };
    let mut more = now.clone();
    copy(&mut more, imported);
    let own = format!("the document's own entry \"{}\"", name.written());
    let why = if !is_taken {
        "has others".to_owned()
    } else if is_forbidden(&more) && !more.mirrors.is_empty() {
        // Neither may open what the other one closes.
        "would have mirrors of a registry that is forbidden".to_owned()
    } else if is_lending(&more) && lends(registries, &more) {
        "would lend what it has to a mirror; give the mirror an entry of its own".to_owned()
    } else if more.mirrors.iter().any(|mirror| !registries.allows_mirror(mirror, &more)) {
        "has a mirror that must not be asked over plain HTTP".to_owned()
    } else {
        *now = more;
        return Ok(());
    };
    Err(format!("its {what} are left out: {own} {why}"))
}

/// Whether an entry only keeps what other entries have from a mirror. No file has a word about it.
fn is_keeper(registries: &Registries, name: &RegistryName, entry: &Registry) -> bool {
    let mut mirrors = registries.iter().flat_map(|(_, other)| &other.mirrors);
    let is_mirror = mirrors.any(|mirror| name.host().as_ref() == Some(mirror.host()));
    let has_mirrors = !entry.mirrors.is_empty() || !entry.blocked.is_empty();
    let says_how = entry.insecure_skip_verify || has_mirrors || !entry.addresses.is_empty();
    is_mirror && !entry.says_who() && !is_lending(entry) && !says_how
}

/// Whether an entry has something that a mirror of it is lent.
fn is_lending(entry: &Registry) -> bool {
    let has_credentials = !entry.credentials.is_anonymous() || entry.credentials_uri.is_some();
    let has_roots = entry.ca_certs.is_some() || entry.ca_certs_uri.is_some();
    has_credentials || has_roots || entry.plain_http
}

fn is_forbidden(entry: &Registry) -> bool {
    entry.ca_certs.as_ref().is_some_and(Roots::trusts_nobody)
}
