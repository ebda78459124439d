//! What the owner configured for the data hub, as it lies in the guest.

use std::fs::File;
use std::path::PathBuf;
use std::sync::Arc;

use cdh_config::{MAX_CDH_BYTES, MAX_PARAMETERS_BYTES, Meaning};
use foreign_text::bounded::{ReadError, if_there, read_stream};
use pull_route::PlacedDocument;
use registry_config::Origin;

use crate::error::Error;
use crate::piped::Piped;

/// Where it lies.
#[derive(Clone, Debug)]
pub struct HubConfiguration {
    /// `cdh.toml` out of measured initdata; where there is no such file, there is none.
    pub file: PathBuf,
    /// The kernel's parameters, commonly `/proc/cmdline`.
    pub parameters: PathBuf,
}

impl HubConfiguration {
    /// Completes the owner's document by what is meant, and tells which keys of the hub's lost.
    /// Blocks.
    ///
    /// # Errors
    ///
    /// A file that cannot be read, or that says something without a counterpart.
    pub(crate) fn complete(
        &self,
        mut measured: PlacedDocument,
        piped: &Piped,
    ) -> Result<PlacedDocument, Error> {
        let text = if_there(piped.read(&self.file, MAX_CDH_BYTES));
        let text = text.map_err(|error| Error::unreadable(&self.file, error))?;
        let parameters = File::open(&self.parameters).map_err(ReadError::from);
        let parameters = parameters.and_then(|file| read_stream(file, MAX_PARAMETERS_BYTES));
        let parameters = if_there(parameters);
        let parameters = parameters.map_err(|error| Error::unreadable(&self.parameters, error))?;
        let parameters = parameters.unwrap_or_default();
        let path = match text {
            Some(_) => &self.file,
            None => &self.parameters,
        };
        let file = path.display();
        let text = text.as_ref().map(|text| &text[..]);
        let meaning = cdh_config::read(text, &String::from_utf8_lossy(&parameters));
        let Meaning { document, notes, .. } = meaning.map_err(|problems| {
            // Where the file says nothing of images, the parameters do.
            let is_in_file = text.is_some() && cdh_config::read(text, "").is_err();
            let path = if is_in_file { path } else { &self.parameters };
            Error::hub(path, &problems)
        })?;
        for note in notes {
            tracing::warn!(configuration = %file, "{note}");
        }
        if document.written_bytes() == 0 {
            return Ok(measured);
        }
        if !measured.is_present {
            return Ok(PlacedDocument {
                document: Arc::new(document),
                path: path.clone(),
                is_present: true,
            });
        }
        let wins = measured.path.display();
        let lost = Arc::make_mut(&mut measured.document).complete(document, Origin::Measured);
        for key in lost.map_err(|problems| Error::invalid(&measured.path, &problems))? {
            tracing::warn!(configuration = %file, "what it says of {key} does not count: {wins} says it too");
        }
        Ok(measured)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Documents;

    /// The documents and what `cdh.toml` and the parameters say; `None` where there is no file.
    fn load(measured: Option<&str>, cdh: Option<&str>, parameters: &str) -> Result<String, Error> {
        let folder = tempfile::tempdir().unwrap();
        let write = |name: &str, text: Option<&str>| {
            let path = folder.path().join(name);
            if let Some(text) = text {
                std::fs::write(&path, text).unwrap();
            }
            path
        };
        let documents = Documents {
            configuration: write("host.toml", Some("[extra-env]\nHTTPS_PROXY = \"http://host\"")),
            measured: Some(write("imagepuller.toml", measured)),
            hub: Some(HubConfiguration {
                file: write("cdh.toml", cdh),
                parameters: write("cmdline", Some(parameters)),
            }),
            ..Documents::default()
        };
        let settings = documents.load()?;
        let proxy = settings.proxies().https_proxy.as_ref();
        let host = registry_config::RegistryHost::parse("a.corp").unwrap();
        let authority = settings.registry(&host);
        let uri = authority.registry.credentials_uri.clone();
        Ok(format!(
            "{} {}",
            proxy.map_or("direct", |proxy| proxy.url()),
            uri.map_or("anonymous".to_owned(), |uri| uri.to_string())
        ))
    }

    #[test]
    fn the_owners_own_document_comes_first_then_the_hubs() {
        let proxy = "[image.image_pull_proxy]\nhttps_proxy = 'http://cdh'\n";
        let auth = "[image]\nauthenticated_registry_credentials_uri = 'kbs:///a/b/cdh'\n";
        let line = "x agent.https_proxy=http://kernel\n";
        let uri = "[registries.\".\"]\ncredentials-uri = \"kbs:///a/b/own\"\n";
        for (measured, cdh, parameters, expected) in [
            (None, None, "", "http://host anonymous"),
            (None, None, line, "http://kernel anonymous"),
            (None, Some("[kbc]"), line, "http://kernel anonymous"),
            (None, Some(proxy), line, "http://cdh anonymous"),
            (None, Some(auth), line, "http://host kbs:///a/b/cdh"),
            (Some(""), Some(auth), line, "http://host kbs:///a/b/cdh"),
            (Some(uri), Some(proxy), line, "http://cdh kbs:///a/b/own"),
            (Some(uri), Some(auth), line, "http://host kbs:///a/b/own"),
            (Some("[extra-env]\n"), Some(proxy), line, "direct anonymous"),
        ] {
            let found = load(measured, cdh, parameters).unwrap();
            assert_eq!(found, expected, "{measured:?} {cdh:?} {parameters}");
        }
        for (cdh, parameters, expected) in [
            (Some("[image]\nnydus = 1\n"), line, "cdh.toml is read like a measured document, and"),
            (None, "agent.image_registry_auth=/etc/auth", "cmdline is read like a measured"),
            // The file is there, and says nothing of images.
            (
                Some("[kbc]"),
                "agent.image_registry_auth=/etc/auth",
                "cmdline is read like a measured",
            ),
            (None, &"x".repeat(MAX_PARAMETERS_BYTES + 1), "cmdline cannot be read"),
            (Some(&"#".repeat(MAX_CDH_BYTES + 1)), "", "cdh.toml cannot be read"),
        ] {
            for measured in [None, Some("[extra-env]\n")] {
                let error = load(measured, cdh, parameters).unwrap_err().to_string();
                assert!(error.contains(expected), "{error}");
            }
        }
    }
}
