//! A file or directory that is being read: where it is, and what is told about it.

use std::collections::BTreeSet;
use std::fmt::Display;
use std::path::{Path, PathBuf};

use foreign_text::toml::{Field, Table, Tree};
use registry_config::{ClientIdentity, MAX_DOCUMENT_BYTES, Mirror, Registry, Roots};
use zeroize::Zeroizing;

use super::endpoint::Endpoint;
use super::plan::{Link, Names, Plan, Target};
use super::{ReadFile, Report, certificates, client};
use crate::printable;

/// The most files of one import that its files name: as many as a document has registries.
const MAX_CA_FILES: usize = 1024;

/// A client certificate that a file names.
pub(crate) struct ClientFiles {
    /// The file with the certificate.
    pub(crate) certificate: PathBuf,
    /// The file with its private key, perhaps the same one.
    pub(crate) private_key: PathBuf,
    /// The key that names them, printable.
    pub(crate) key: String,
}

/// Reads files, one after the other.
pub(crate) struct Reader<'r, 'f> {
    /// The file or directory that is being read, printable.
    pub(crate) source: String,
    /// What was told so far.
    pub(crate) report: Report,
    /// Whether something in this file has a wrong type, where it is one entry of many.
    pub(crate) is_wrong: Option<bool>,
    /// Whether some of a host's settings cannot be used.
    pub(crate) is_broken: bool,
    read_file: &'r mut ReadFile<'f>,
    ca_files: usize,
    /// Those of [`MAX_CA_FILES`] that were read, or tried.
    paths: BTreeSet<PathBuf>,
    certificate_bytes: usize,
}

impl<'r, 'f> Reader<'r, 'f> {
    pub(crate) fn new(source: &str, read_file: &'r mut ReadFile<'f>) -> Self {
        Self {
            source: printable(source),
            report: Report::default(),
            is_wrong: None,
            is_broken: false,
            read_file,
            ca_files: 0,
            paths: BTreeSet::new(),
            certificate_bytes: 0,
        }
    }

    /// Something worth knowing.
    pub(crate) fn note(&mut self, key: &str, text: impl Into<String>) {
        self.report.note(&self.source, key, text);
    }

    /// Something that has another meaning now.
    pub(crate) fn lost(&mut self, key: &str, text: impl Into<String>) {
        self.report.lost(&self.source, key, text);
    }

    /// Something that was left out, and why.
    pub(crate) fn left_out(&mut self, key: &str, why: impl Display) {
        self.lost(key, format!("left out: {why}"));
    }

    /// Something without which its host is not asked.
    pub(crate) fn broken(&mut self, key: &str, why: impl Display) {
        self.is_broken = true;
        self.left_out(key, why);
    }

    /// A host's settings. Nobody is trusted where some of them cannot be used, which forbids to ask.
    pub(crate) fn usable(&mut self, mut settings: Registry) -> Registry {
        if std::mem::take(&mut self.is_broken) {
            settings = forbidden();
        }
        settings
    }

    /// Something that makes the file unusable.
    pub(crate) fn fault(&mut self, key: &str, text: impl Into<String>) {
        self.report.fault(&self.source, key, text);
    }

    /// What the file says about the registry `name`.
    pub(crate) fn plan(&self, name: String, key: String, links: Vec<Link>) -> Plan {
        Plan {
            name,
            source: self.source.clone(),
            key,
            links,
            falls_back: true,
            blocked: Vec::new(),
            is_blocked: false,
        }
    }

    /// The place that an address names, once for each of the names of repositories there. `engine`
    /// is the program that the file is written for.
    pub(crate) fn links(
        &mut self,
        key: &str,
        engine: &str,
        endpoint: Result<(Endpoint, Vec<Names>), &'static str>,
        settings: &Registry,
    ) -> Vec<Link> {
        let link = |target: &Target, names| Link {
            key: key.to_owned(),
            target: target.clone(),
            settings: settings.clone(),
            names,
            fallback: None,
        };
        let (endpoint, names) = match endpoint {
            Ok(found) => found,
            Err(why) => {
                self.left_out(key, why);
                return vec![link(&Target::Inexpressible, Names::default())];
            }
        };
        if endpoint.had_user {
            let text = format!(
                "the user name and password of the address are left out; {engine} does not use them"
            );
            self.lost(key, text);
        }
        let broken = names.iter().find_map(|Names { prefix, name }| {
            Mirror::new(&endpoint.url(), prefix.as_deref(), name.as_deref(), None).err()
        });
        let target = match broken {
            Some(rule) => {
                self.left_out(key, rule);
                Target::Inexpressible
            }
            None => Target::Address(endpoint),
        };
        names.into_iter().map(|names| link(&target, names)).collect()
    }

    /// A place that is asked by rules which cannot be said: without them it would be asked for other
    /// names.
    pub(crate) fn passed_over(&mut self, key: &str, settings: &Registry) -> Vec<Link> {
        self.left_out(key, "a rule of \"rewrite\" cannot be said");
        let registry = Link::registry(key.to_owned(), settings.clone());
        vec![Link { target: Target::PassedOver, ..registry }]
    }

    /// The certificates of CA files, each named by a path and a key; `None` where no file is named.
    /// Nobody is trusted where none of them can be used, which forbids to ask.
    pub(crate) fn roots(
        &mut self,
        files: impl IntoIterator<Item = (PathBuf, String)>,
    ) -> Option<Roots> {
        let mut roots = None;
        for (path, key) in files {
            let roots = roots.get_or_insert_default();
            if let Err(why) = self.add_file(roots, &path, &key) {
                self.left_out(&key, why);
            }
        }
        roots
    }

    /// The first of the client certificates, which is the document's; the others are told. It is
    /// not shown where `skip_verify` lets anyone stand in the host's place.
    pub(crate) fn client(
        &mut self,
        files: impl IntoIterator<Item = ClientFiles>,
        skip_verify: bool,
    ) -> Option<ClientIdentity> {
        let mut files = files.into_iter();
        let first = files.next()?;
        for ClientFiles { key, .. } in files {
            let why = "a registry has one client certificate, the first that the files have";
            self.left_out(&key, why);
        }
        if skip_verify {
            let why = "the puller shows no client certificate to a host that it does not verify";
            self.left_out(&first.key, why);
            return None;
        }
        let client = self.client_of(&first);
        let client = client.map_err(|why| self.broken(&first.key, why));
        client.ok()
    }

    /// Whether a file that was read has named this one.
    pub(crate) fn has_read(&self, path: &Path) -> bool {
        self.paths.contains(path)
    }

    fn client_of(&mut self, files: &ClientFiles) -> Result<ClientIdentity, String> {
        let certificate = self.named_file(&files.certificate)?;
        let client = if files.private_key == files.certificate {
            client(&certificate, &certificate)
        } else {
            let private_key = self.named_file(&files.private_key)?;
            client(&certificate, &private_key)
        }?;
        self.certificate_bytes += client.written_bytes();
        Ok(client)
    }

    /// Reads a file with certificates or a key, unless there are too many, which is a fault.
    fn named_file(&mut self, path: &Path) -> Result<Zeroizing<Vec<u8>>, String> {
        self.ca_files += 1;
        if self.ca_files > MAX_CA_FILES || self.certificate_bytes > MAX_DOCUMENT_BYTES {
            let why = format!(
                "more than {MAX_CA_FILES} files with certificates, or more than a document can hold"
            );
            self.fault("", why.as_str());
            return Err(why);
        }
        let name = printable(&path.to_string_lossy());
        self.paths.insert(path.to_owned());
        (self.read_file)(path).map_err(|why| format!("{name}: {why}"))
    }

    fn add_file(&mut self, roots: &mut Roots, path: &Path, key: &str) -> Result<(), String> {
        let (added, skipped) = certificates(&self.named_file(path)?)?;
        let before = roots.written_bytes();
        roots.extend(&added);
        self.certificate_bytes += roots.written_bytes() - before;
        if skipped > 0 {
            let text = format!("what is no certificate is left out: {skipped} of its blocks");
            self.lost(key, text);
        }
        Ok(())
    }
}

/// Settings with which nobody is asked.
pub(crate) fn forbidden() -> Registry {
    Registry { ca_certs: Some(Roots::default()), ..Registry::default() }
}

/// TOML, taken key by key. What has a wrong type is a fault, unless the file is one entry of many.
impl Reader<'_, '_> {
    /// Parses a file of at most `limit` bytes, which bounds the parser's memory.
    pub(crate) fn toml<'i>(&mut self, bytes: &'i [u8], limit: usize) -> Option<Tree<'i>> {
        if bytes.len() > limit {
            return self.typed("", Err(format!("the file has more than {limit} bytes")));
        }
        let tree = Tree::parse(bytes)
            .map_err(|error| format!("not TOML at line {}: {}", error.line, error.message));
        self.typed("", tree)
    }

    fn typed<T>(&mut self, path: &str, value: Result<T, impl Display>) -> Option<T> {
        let value = value.map_err(|wrong| match &mut self.is_wrong {
            None => self.fault(path, wrong.to_string()),
            Some(is_wrong) => {
                *is_wrong = true;
                self.left_out(path, wrong);
            }
        });
        value.ok()
    }

    /// A string; empty where it is absent.
    pub(crate) fn text<'t>(&mut self, table: &mut Table<'t, '_>, key: &str) -> &'t str {
        self.text_if_there(table, key).unwrap_or_default()
    }

    /// A string, if it is there.
    pub(crate) fn text_if_there<'t>(
        &mut self,
        table: &mut Table<'t, '_>,
        key: &str,
    ) -> Option<&'t str> {
        let field = table.take(key)?;
        self.typed(&field.path, field.text())
    }

    /// A boolean; `false` where it is absent.
    pub(crate) fn flag(&mut self, table: &mut Table<'_, '_>, key: &str) -> bool {
        self.flag_if_there(table, key).unwrap_or_default()
    }

    /// A boolean, if it is there.
    pub(crate) fn flag_if_there(&mut self, table: &mut Table<'_, '_>, key: &str) -> Option<bool> {
        let field = table.take(key)?;
        self.typed(&field.path, field.flag())
    }

    /// A string or an array of strings; empty where it is absent.
    pub(crate) fn texts<'t>(&mut self, table: &mut Table<'t, '_>, key: &str) -> Vec<&'t str> {
        self.texts_if_there(table, key).unwrap_or_default()
    }

    /// A string or an array of strings, if it is there.
    pub(crate) fn texts_if_there<'t>(
        &mut self,
        table: &mut Table<'t, '_>,
        key: &str,
    ) -> Option<Vec<&'t str>> {
        let field = table.take(key)?;
        let items = || field.items()?.iter().map(Field::text).collect();
        let texts = field.text().map(|text| vec![text]).or_else(|_| items());
        let texts = texts.map_err(|_| field.wrong_type("string or array of strings"));
        self.typed(&field.path, texts)
    }

    /// A table.
    pub(crate) fn table<'t, 'i>(
        &mut self,
        table: &mut Table<'t, 'i>,
        key: &str,
    ) -> Option<Table<'t, 'i>> {
        let field = table.take(key)?;
        self.as_table(&field)
    }

    /// A field that has to be a table.
    pub(crate) fn as_table<'t, 'i>(&mut self, field: &Field<'t, 'i>) -> Option<Table<'t, 'i>> {
        self.typed(&field.path, field.table())
    }

    /// Reports every key that is left.
    pub(crate) fn tell_rest(&mut self, table: Table<'_, '_>) {
        for field in table.rest() {
            self.unknown(&field.path);
        }
    }

    /// A key that no reader of this format is known to have.
    pub(crate) fn unknown(&mut self, key: &str) {
        self.left_out(key, "not a key that is known here");
    }
}
