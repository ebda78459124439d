//! One settings file, read and parsed.

use std::path::Path;

use super::SettingsError;
use super::text::Layer;
use crate::host_file::HostFile;

/// The longest settings file; far more than the keys need. Free to change.
const MAX_SETTINGS_BYTES: usize = 64 << 10;

/// Reads and parses the settings file `path`, which is open.
pub fn read(path: &Path, file: HostFile) -> Result<Layer, SettingsError> {
    let text = file
        .require_administered()
        .and_then(|file| file.read(MAX_SETTINGS_BYTES))
        .map_err(|fault| fault.at(path))?;
    Layer::parse(&text).map_err(|(line, rule)| SettingsError::Text {
        path: path.into(),
        line,
        rule,
    })
}
