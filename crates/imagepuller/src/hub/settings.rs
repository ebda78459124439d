//! `/etc/imagepuller-hub.toml`: what is started in the data hub's place. Part of the guest image,
//! and as measured as this program; without the file nothing is started.

use std::path::{Path, PathBuf};

use foreign_text::bounded::{if_there, read_path};
use foreign_text::shown;
use serde::Deserialize;

use crate::cli::DEFAULT_SOCKET;
use crate::socket::Address;

/// The longest settings file; it has three lines.
const MAX_BYTES: usize = 64 << 10;

/// What the image's builder decided.
#[derive(Debug, PartialEq, Eq)]
pub struct Settings {
    /// The real hub, if it is started here and not by a unit.
    pub hub: Option<PathBuf>,
    /// Where the service listens.
    pub puller: PathBuf,
    /// The arguments of `imagepuller serve` besides `--listen`, if it is started here and not by a
    /// unit.
    pub serve: Option<Vec<String>>,
}

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct Text {
    hub: Option<PathBuf>,
    puller: Option<String>,
    serve: Option<Vec<String>>,
}

impl Settings {
    /// Reads the file at `path`; without one nothing is started.
    ///
    /// # Errors
    ///
    /// What is wrong with the file.
    pub fn load(path: &Path) -> Result<Self, String> {
        let about = |error: String| format!("{}: {error}", path.display());
        let text =
            if_there(read_path(path, MAX_BYTES)).map_err(|error| about(error.to_string()))?;
        Self::parse(&text.unwrap_or_default()).map_err(about)
    }

    fn parse(text: &[u8]) -> Result<Self, String> {
        let text: Text =
            toml::from_slice(text).map_err(|error| shown(error.message()).to_string())?;
        if let Some(hub) = &text.hub {
            check_hub(hub)?;
        }
        let puller = match text.puller {
            Some(text) => text.parse().map_err(|error| format!("puller: {error}"))?,
            None => Address::fixed(DEFAULT_SOCKET),
        };
        Ok(Self { hub: text.hub, puller: puller.path().to_owned(), serve: text.serve })
    }
}

/// A hub that is this program would start itself without an end.
fn check_hub(hub: &Path) -> Result<(), String> {
    let about = |error: std::io::Error| format!("hub: {}: {error}", hub.display());
    if !hub.is_absolute() {
        return Err("hub: expected an absolute path".to_owned());
    }
    let own = std::env::current_exe().and_then(std::fs::canonicalize);
    if std::fs::canonicalize(hub).map_err(about)? == own.map_err(about)? {
        let shown = hub.display();
        return Err(format!("hub: {shown} is this program; move the real hub and name it"));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_are_read_or_refused() {
        let empty = Settings::parse(b"").unwrap();
        assert_eq!(empty.puller, Path::new(DEFAULT_SOCKET));
        assert_eq!((empty.hub, empty.serve), (None, None));
        let own = std::env::current_exe().unwrap();
        for (text, words) in [
            ("hub = \"/nonexistent/hub\"".to_owned(), "No such file"),
            ("hub = \"bin/hub\"".to_owned(), "absolute"),
            (format!("hub = {own:?}"), "is this program"),
            ("puller = \"/run/socket\"".to_owned(), "begins with \"unix:\""),
            ("serve = \"--store /s\"".to_owned(), "sequence"),
            ("listen = \"unix:/run/a\"".to_owned(), "unknown field"),
        ] {
            let error = Settings::parse(text.as_bytes()).unwrap_err();
            assert!(error.contains(words), "{text}: {error}");
        }
    }
}
