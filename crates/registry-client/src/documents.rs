//! The documents as they lie in the guest, and the refusal that may lie beside the host's.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use foreign_text::bounded::{if_there, read_path};
use foreign_text::shown;
use oci_image::pins::Pins;
use pull_route::{PlacedDocument, Settings};
use registry_config::{Document, MAX_DOCUMENT_BYTES, Origin};

use crate::error::Error;
use crate::hub_configuration::HubConfiguration;
use crate::piped::Piped;

/// The file beside the document in which `initdata-processor` says why it handed none out.
///
/// Two configuration disks, a disk that does not decode, refused initdata: in all of them no
/// document may mean "no configuration", because that would be a silent anonymous pull.
const REFUSAL_EXTENSION: &str = "error";

/// The longest refusal that is passed on; the processor writes one line of a sentence or two.
const MAX_REFUSAL_BYTES: usize = 4096;

/// Where the documents lie.
#[derive(Clone, Debug, Default)]
pub struct Documents {
    /// The host's document.
    pub configuration: PathBuf,
    /// The owner's document, out of measured initdata; where there is no such file, there is no
    /// such document.
    pub measured: Option<PathBuf>,
    /// What the owner configured for the data hub, which completes the owner's document.
    pub hub: Option<HubConfiguration>,
    /// Those of them that are pipes.
    pub piped: Piped,
    /// Whether connections may be opened to any address, as who runs a pull on a machine of their
    /// own wants it. Otherwise a host whose address only this machine or its cloud uses is asked
    /// only where the owner's document names it.
    pub any_address: bool,
}

impl Documents {
    /// The host's document alone.
    pub fn of(configuration: impl Into<PathBuf>) -> Self {
        Self { configuration: configuration.into(), ..Self::default() }
    }

    /// The host's files: its document, and the refusal that may stand in its place.
    #[must_use]
    pub fn of_host(&self) -> [PathBuf; 2] {
        let refusal = self.configuration.with_extension(REFUSAL_EXTENSION);
        [self.configuration.clone(), refusal]
    }

    /// Reads the documents; no file means the defaults. Blocks.
    ///
    /// # Errors
    ///
    /// A file that cannot be read or breaks a rule is an error and never the defaults: that would
    /// be a silent anonymous pull. So is a refusal beside the host's document.
    pub fn load(&self) -> Result<Settings, Error> {
        // Before the document: whoever writes the two passes through a state with both, never
        // through one with neither.
        if let Some(reason) = refusal(&self.configuration)? {
            return Err(Error::config_refused(&reason));
        }
        let measured = self.measured.as_deref();
        let measured = measured.map(|path| self.read(path, Origin::Measured));
        let measured = measured.transpose()?.unwrap_or_default();
        let measured = match &self.hub {
            Some(hub) => hub.complete(measured, &self.piped)?,
            None => measured,
        };
        let settings = Settings::new(measured, self.read(&self.configuration, Origin::Host)?);
        let settings = settings.with_any_address(self.any_address);
        // A document whose pins mean nothing is not used for anything else either.
        pins(&settings)?;
        Ok(settings)
    }

    /// Reads a document; no file means the defaults. Blocks.
    ///
    /// # Errors
    ///
    /// A file that cannot be read or breaks a rule is an error and never the defaults: that would
    /// be a silent anonymous pull.
    fn read(&self, path: &Path, origin: Origin) -> Result<PlacedDocument, Error> {
        let text = if_there(self.piped.read(path, MAX_DOCUMENT_BYTES));
        let text = text.map_err(|error| Error::unreadable(path, error))?;
        let Some(text) = text else {
            return Ok(PlacedDocument { path: path.to_owned(), ..PlacedDocument::default() });
        };
        let checked = match origin {
            Origin::Measured => Document::parse_measured(&text),
            Origin::Host => Document::parse(&text),
        };
        let checked = checked.map_err(|problems| Error::invalid(path, &problems))?;
        for warning in &checked.warnings {
            tracing::warn!(configuration = %path.display(), "{warning}");
        }
        Ok(PlacedDocument {
            document: Arc::new(checked.document),
            path: path.to_owned(),
            is_present: true,
        })
    }
}

/// What the owner pinned.
///
/// # Errors
///
/// A pin without a meaning; never of settings that [`Documents::load`] gave.
pub fn pins(settings: &Settings) -> Result<Pins, Error> {
    let (pins, path) = settings.pins();
    Pins::read(pins).map_err(|problems| Error::invalid(path, &problems))
}

/// Reads why there is no document, on one printable line.
fn refusal(document: &Path) -> Result<Option<String>, Error> {
    let path = document.with_extension(REFUSAL_EXTENSION);
    let reason = if_there(read_path(&path, MAX_REFUSAL_BYTES));
    let reason = reason.map_err(|error| Error::unreadable(&path, error))?;
    Ok(reason.map(|reason| shown(reason.trim_ascii()).up_to(MAX_REFUSAL_BYTES).to_string()))
}

#[cfg(test)]
mod tests {
    use registry_config::RegistryHost;
    use tempfile::TempDir;

    use super::*;

    /// Both documents, in a directory of their own.
    struct Guest {
        folder: TempDir,
        documents: Documents,
    }

    impl Guest {
        fn new(measured: &str, configuration: &str) -> Self {
            let folder = tempfile::tempdir().unwrap();
            let path = |name: &str| folder.path().join(name);
            let (own, hosts) = (path("measured.toml"), path("imagepuller.toml"));
            std::fs::write(&own, measured).unwrap();
            std::fs::write(&hosts, configuration).unwrap();
            let documents =
                Documents { configuration: hosts, measured: Some(own), ..Documents::default() };
            Self { folder, documents }
        }
    }

    #[test]
    fn a_refusal_beside_the_document_comes_first() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("imagepuller.toml");
        let documents = Documents::of(&path);
        let authority = || {
            let settings = documents.load().unwrap();
            let authority = settings.registry(&RegistryHost::parse("a.corp").unwrap());
            authority.to_string()
        };
        assert!(authority().starts_with("no configuration disk was found"));
        std::fs::write(&path, "").unwrap();
        assert!(authority().starts_with("no entry of "));

        let refusal = folder.path().join("imagepuller.error");
        std::fs::write(&refusal, "two disks\x1b[2J\n").unwrap();
        let error = documents.load().unwrap_err();
        assert!(error.to_string().contains("configuration was refused"), "{error}");
        let message = error.to_string();
        assert!(message.contains("two disks\\u{1b}[2J"), "{message}");
        // The owner's document does not help a host that has refused its own.
        let login = "[registries.\".\"]\nusername = \"owner\"\npassword = \"hunter2\"\n";
        let measured = Guest::new(login, "");
        let both = Documents { measured: measured.documents.measured.clone(), ..documents.clone() };
        let error = both.load().unwrap_err();
        assert!(error.to_string().contains("configuration was refused"), "{error}");

        std::fs::remove_file(&refusal).unwrap();
        std::fs::write(&path, "nonsense").unwrap();
        assert!(documents.load().is_err());
    }

    #[test]
    fn a_measured_document_that_cannot_be_used_stops_everything() {
        let guest = Guest::new("nonsense", "");
        let error = guest.documents.load().unwrap_err();
        assert!(error.to_string().contains("is not valid"), "{error}");
        assert!(error.to_string().contains("measured.toml"), "{error}");
        let measured = guest.documents.measured.as_deref().unwrap();
        std::fs::remove_file(measured).unwrap();
        std::fs::create_dir(measured).unwrap();
        let error = guest.documents.load().unwrap_err();
        assert!(error.to_string().contains("cannot be read"), "{error}");
        std::fs::remove_dir(measured).unwrap();
        // One that nobody writes to once held up every pull.
        let made = std::process::Command::new("mkfifo").arg(measured).status();
        assert!(made.unwrap().success());
        let error = guest.documents.load().unwrap_err();
        assert!(error.to_string().contains("cannot be read"), "{error}");
        std::fs::remove_file(measured).unwrap();
        let settings = guest.documents.load().unwrap();
        assert!(settings.resources().is_none());
        assert!(guest.folder.path().exists());
    }
}
