//! The configuration of one pull: the document as it is now, and who is in charge of a registry by it.

use std::fmt;
use std::io::{ErrorKind, Read};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use puller_config::{Document, MAX_DOCUMENT_BYTES, Match, Mirror, Registry, RegistryHost};
use zeroize::Zeroizing;

use crate::error::Error;

/// The file beside the document in which `initdata-processor` says why it handed none out.
///
/// Two configuration disks, a disk that does not decode, refused initdata: in all of them no document may mean "no
/// configuration", because that would be a silent anonymous pull.
const REFUSAL_EXTENSION: &str = "error";

/// The longest refusal that is passed on; the processor writes one line of a sentence or two.
const MAX_REFUSAL_BYTES: u64 = 4096;

/// The document and where it came from.
#[derive(Clone, Debug)]
pub struct Settings {
    document: Arc<Document>,
    path: PathBuf,
    is_present: bool,
}

/// An entry of the document, or the defaults, with the words that tell a reader which.
#[derive(Clone, Debug)]
pub struct Authority {
    /// What holds.
    pub registry: Registry,
    name: AuthorityName,
}

#[derive(Clone, Debug)]
enum AuthorityName {
    Entry(String),
    NoEntry(PathBuf),
    NoDocument(PathBuf),
}

impl Settings {
    /// Reads the document; no file means the defaults. Blocks.
    ///
    /// # Errors
    ///
    /// A file that cannot be read or breaks a rule is an error and never the defaults: that would be a silent anonymous
    /// pull.
    pub fn load(path: &Path) -> Result<Self, Error> {
        let unreadable = |source| Error::ConfigurationUnreadable {
            path: path.to_owned(),
            source,
        };
        // Before the document: whoever writes the two passes through a state with both, never through one with neither.
        if let Some(reason) = refusal(path)? {
            return Err(Error::ConfigurationRefused { reason });
        }
        let file = match std::fs::File::open(path) {
            Ok(file) => file,
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Self::absent(path)),
            Err(error) => return Err(unreadable(error)),
        };
        if !file.metadata().map_err(unreadable)?.is_file() {
            return Err(unreadable(std::io::Error::other("not a regular file")));
        }
        // Reserved once: a buffer that grows leaves copies of what it held behind.
        let mut text = Zeroizing::new(Vec::with_capacity(MAX_DOCUMENT_BYTES + 1));
        file.take(MAX_DOCUMENT_BYTES as u64 + 1)
            .read_to_end(&mut text)
            .map_err(unreadable)?;
        let checked = Document::parse(&text).map_err(|problems| Error::ConfigurationInvalid {
            path: path.to_owned(),
            problems,
        })?;
        for warning in &checked.warnings {
            tracing::warn!(configuration = %path.display(), "{warning}");
        }
        Ok(Self {
            document: Arc::new(checked.document),
            path: path.to_owned(),
            is_present: true,
        })
    }

    fn absent(path: &Path) -> Self {
        Self {
            document: Arc::new(Document::default()),
            path: path.to_owned(),
            is_present: false,
        }
    }

    /// The document.
    pub fn document(&self) -> &Document {
        &self.document
    }

    /// What holds for the registry that an image names.
    pub fn registry(&self, host: &RegistryHost) -> Authority {
        match self.document.registries.entry_for(host) {
            Match::Entry { key, entry, .. } => Authority::entry(key.to_string(), entry.clone()),
            Match::Defaults if self.is_present => {
                Authority::defaults(AuthorityName::NoEntry(self.path.clone()))
            }
            Match::Defaults => Authority::defaults(AuthorityName::NoDocument(self.path.clone())),
        }
    }

    /// What holds for a mirror by its own name, if an entry has it.
    pub fn mirror(&self, mirror: &Mirror) -> Option<Authority> {
        self.named(mirror.host())
    }

    /// What holds for a host that an entry names itself.
    pub fn named(&self, host: &RegistryHost) -> Option<Authority> {
        let (key, entry) = self.document.registries.literal_entry_for(host)?;
        Some(Authority::entry(key.to_string(), entry.clone()))
    }
}

impl Authority {
    fn entry(key: String, registry: Registry) -> Self {
        Self {
            registry,
            name: AuthorityName::Entry(key),
        }
    }

    fn defaults(name: AuthorityName) -> Self {
        Self {
            registry: Registry::default(),
            name,
        }
    }

    /// Why the web's roots hold: the entry has none of its own, or there is no entry.
    pub fn no_roots(&self) -> String {
        match &self.name {
            AuthorityName::Entry(_) => format!("{self} has no \"ca-certs\""),
            _ => self.to_string(),
        }
    }
}

impl fmt::Display for Authority {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.name {
            AuthorityName::Entry(key) => write!(f, "entry {key:?}"),
            AuthorityName::NoEntry(path) => {
                write!(f, "no entry of {} matches this host", path.display())
            }
            // A person's own pull, without `--config`.
            AuthorityName::NoDocument(path) if path.as_os_str().is_empty() => {
                f.write_str("no configuration was given")
            }
            AuthorityName::NoDocument(path) => {
                write!(
                    f,
                    "no configuration disk was found, {} does not exist",
                    path.display()
                )
            }
        }
    }
}

/// Reads why there is no document, on one printable line.
fn refusal(document: &Path) -> Result<Option<String>, Error> {
    let path = document.with_extension(REFUSAL_EXTENSION);
    let unreadable = |source| Error::ConfigurationUnreadable {
        path: path.clone(),
        source,
    };
    let file = match std::fs::File::open(&path) {
        Ok(file) => file,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(unreadable(error)),
    };
    let mut reason = Vec::new();
    file.take(MAX_REFUSAL_BYTES)
        .read_to_end(&mut reason)
        .map_err(unreadable)?;
    let reason = String::from_utf8_lossy(&reason);
    let printable = reason
        .trim()
        .chars()
        .map(|c| if c.is_control() { ' ' } else { c });
    Ok(Some(printable.collect()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_beside_the_document_comes_first() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("imagepuller.toml");
        assert!(!Settings::load(&path).unwrap().is_present);
        std::fs::write(&path, "").unwrap();
        assert!(Settings::load(&path).unwrap().is_present);

        std::fs::write(
            folder.path().join("imagepuller.error"),
            "two disks\x1b[2J\n",
        )
        .unwrap();
        let error = Settings::load(&path).unwrap_err();
        assert!(matches!(error, Error::ConfigurationRefused { .. }));
        let message = error.to_string();
        assert!(message.contains("two disks [2J"), "{message}");

        std::fs::remove_file(folder.path().join("imagepuller.error")).unwrap();
        std::fs::write(&path, "nonsense").unwrap();
        assert!(Settings::load(&path).is_err());
    }
}
