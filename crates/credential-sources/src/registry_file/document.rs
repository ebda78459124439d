//! Entries written as a document.

use registry_config::{
    ClientIdentity, Document, MAX_CERTIFICATES, MAX_DOCUMENT_BYTES, Roots, Secret,
};

use super::{Entry, Import, Report};

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

impl Import {
    /// Writes the entries, their certificates followed by `system_roots` where those are given.
    #[must_use]
    pub fn write(self, system_roots: Option<&Roots>) -> Written {
        let Self { entries, mut report } = self;
        if !report.faults.is_empty() {
            return Written { document: None, report };
        }
        tell_roots(&entries, system_roots, &mut report);
        let bytes: usize =
            entries.iter().map(|entry| certificates_length(entry, system_roots)).sum();
        if bytes > MAX_DOCUMENT_BYTES {
            report.fault(DOCUMENT, "", too_long(bytes, &entries, system_roots));
            return Written { document: None, report };
        }
        let Written { document, mut report } =
            Written::of(&document(entries, system_roots), report);
        let parsed = document.as_ref().map(|text| Document::parse(text.expose().as_bytes()));
        if let Some(Err(problems)) = parsed {
            for problem in problems.iter() {
                report.fault(DOCUMENT, &problem.key, problem.rule.to_string());
            }
        }
        let document = document.filter(|_| report.faults.is_empty());
        Written { document, report }
    }
}

fn document(entries: Vec<Entry>, system_roots: Option<&Roots>) -> Document {
    let mut config = Document::default();
    for Entry { name, mut registry, .. } in entries {
        if let (Some(own), Some(system)) = (&mut registry.ca_certs, system_roots)
            && !own.trusts_nobody()
        {
            own.extend(system);
        }
        config.registries.set(name, registry);
    }
    config
}

impl Entry {
    /// The certificate authorities, where there are some.
    #[must_use]
    pub fn roots(&self) -> Option<&Roots> {
        self.registry.ca_certs.as_ref().filter(|roots| !roots.trusts_nobody())
    }
}

/// Says of every entry with certificates that they are the only ones now.
fn tell_roots(entries: &[Entry], system_roots: Option<&Roots>, report: &mut Report) {
    for entry in entries {
        let Some(own) = entry.roots() else {
            continue;
        };
        let own = own.certificates().len();
        let system = system_roots.map(|roots| roots.certificates().len());
        match system {
            None => report.lost(
                &entry.source,
                &entry.name.written(),
                "its certificate authorities were trusted beside the system's and are the only \
                ones now, also for the hosts that it redirects to; --keep-system-roots adds the \
                system's",
            ),
            Some(system) if own + system > MAX_CERTIFICATES => report.fault(
                &entry.source,
                &entry.name.written(),
                format!(
                    "{} certificates, {system} of them the system's, are more than the \
                    {MAX_CERTIFICATES} that an entry may have",
                    own + system
                ),
            ),
            Some(_) => {}
        }
    }
}

/// The length of an entry's certificates in the document, at most.
fn certificates_length(entry: &Entry, system_roots: Option<&Roots>) -> usize {
    let roots = entry
        .roots()
        .map_or(0, |own| own.written_bytes() + system_roots.map_or(0, Roots::written_bytes));
    roots + entry.registry.client.as_ref().map_or(0, ClientIdentity::written_bytes)
}

fn too_long(bytes: usize, entries: &[Entry], system_roots: Option<&Roots>) -> String {
    let have = entries.iter().filter(|entry| certificates_length(entry, None) > 0).count();
    let advice = match system_roots {
        Some(system) => format!(
            "the system's {} roots stand in each of {have} entries; name a shorter file with \
            --system-roots, or leave --keep-system-roots out",
            system.certificates().len()
        ),
        None => format!("{have} entries have certificates; import fewer registries"),
    };
    format!(
        "the document's certificates alone have {bytes} bytes, and a document has at most \
        {MAX_DOCUMENT_BYTES}: {advice}"
    )
}

#[cfg(test)]
mod tests {
    use registry_config::{Credentials, Registry, RegistryName};

    use super::*;

    #[test]
    fn what_breaks_the_documents_rules_is_a_fault_without_its_value() {
        let credentials = Credentials::RegistryToken(Secret::from("hunter2 \n".to_owned()));
        let entry = Entry {
            name: RegistryName::parse("reg.corp").unwrap(),
            source: "file".into(),
            registry: Registry { credentials, ..Registry::default() },
            is_empty: false,
        };
        let written = Import { entries: vec![entry], report: Report::default() }.write(None);
        assert!(written.document.is_none());
        assert_eq!(written.report.faults[0].key, "registries.\"reg.corp\".registrytoken");
        assert!(!format!("{written:?}").contains("hunter2"));
    }
}
