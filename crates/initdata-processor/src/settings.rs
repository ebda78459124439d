//! `/etc/initdata-processor.toml`: whose the files of disks are, where the image's default policy
//! is, and what an agent finds of initdata. Which magic becomes which file is fixed.
//!
//! Part of the guest image and as measured as this program; the file is optional.

use std::path::{Path, PathBuf};

use config_image::Magic;
use foreign_text::bounded::{ReadError, if_there, read_path};
use foreign_text::shown;
use initdata::FileName;
use serde::Deserialize;

/// The longest settings file.
const MAX_SETTINGS_BYTES: usize = 64 << 10;

/// What becomes a file: by magic, its name without the extension, and the extension. A further one
/// is a row; no name is `initdata`, and no extension `error` or `refused`.
const FILES: [(Magic, &str, &str); 1] = [(Magic::IMAGEPULLER, "imagepuller", "toml")];

/// Where Kata's images have the policy that holds until another one is set.
const DEFAULT_POLICY: &str = "/etc/kata-opa/default-policy.rego";

/// What the image's author decided.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// Whose `/run/insecure-cfg` is, with all that is in it; `None`: root's, whose this process is.
    pub owner: Option<Owner>,
    /// What becomes a file, by magic.
    pub files: Vec<Target>,
    /// The image's own policy, an absolute path; for a guest whose initdata brings none.
    pub default_policy: PathBuf,
    /// What the agent finds in the place of a disk whose initdata was accepted.
    pub accepted_disk: AcceptedDisk,
}

/// What becomes of a disk whose initdata was accepted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum AcceptedDisk {
    /// The agent finds no initdata at all.
    #[default]
    Remove,
    /// It finds a copy of the accepted document in the guest's memory.
    Copy,
    /// It finds the disk, which the host can still change.
    Keep,
}

/// A user and a group, by number: a guest's programs are static and know no names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Owner {
    /// The user.
    pub user: u32,
    /// The group.
    pub group: u32,
}

/// A file below `/run/insecure-cfg`, and the magic of the disk that it comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Target {
    /// The magic.
    pub magic: Magic,
    /// The file's name without its extension: what people call it.
    pub name: String,
    /// The file.
    pub file: FileName,
    /// Where the reason stands when the disk is refused: the same name, with the extension `error`.
    pub error_file: FileName,
}

/// Why the settings are not usable.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SettingsError {
    /// The file cannot be read.
    #[error("read it")]
    Read(#[from] ReadError),
    /// Not TOML, an unknown key or a wrong type.
    #[error("{0}")]
    Toml(String),
    /// Not `USER:GROUP`.
    #[error("owner: expected two numbers, \"USER:GROUP\"")]
    Owner,
    /// A relative path, or none.
    #[error("default-policy: expected an absolute path, found \"{0}\"")]
    DefaultPolicy(String),
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
struct Text {
    owner: Option<String>,
    default_policy: Option<String>,
    #[serde(default)]
    accepted_disk: AcceptedDisk,
}

impl Default for Settings {
    /// What holds without the file: `imgpullr` becomes `imagepuller.toml`, root's, and the default
    /// policy is where Kata has it.
    fn default() -> Self {
        Self {
            owner: None,
            files: FILES.into_iter().filter_map(Target::of).collect(),
            default_policy: DEFAULT_POLICY.into(),
            accepted_disk: AcceptedDisk::default(),
        }
    }
}

impl Settings {
    /// Reads the file at `path`; without one the defaults hold.
    ///
    /// # Errors
    ///
    /// [`SettingsError`]. A file with a mistake is not the same as none.
    pub fn load(path: &Path) -> Result<Self, SettingsError> {
        match if_there(read_path(path, MAX_SETTINGS_BYTES))? {
            Some(text) => Self::parse(&text),
            None => Ok(Self::default()),
        }
    }

    /// Reads the file's text.
    ///
    /// # Errors
    ///
    /// [`SettingsError`].
    pub fn parse(text: &[u8]) -> Result<Self, SettingsError> {
        let text: Text = toml::from_slice(text)
            .map_err(|error| SettingsError::Toml(shown(error.message()).to_string()))?;
        let mut settings = Self {
            owner: text.owner.as_deref().map(Owner::parse).transpose()?,
            accepted_disk: text.accepted_disk,
            ..Self::default()
        };
        if let Some(path) = text.default_policy {
            if !path.starts_with('/') {
                return Err(SettingsError::DefaultPolicy(shown(&path).to_string()));
            }
            settings.default_policy = path.into();
        }
        Ok(settings)
    }

    /// What people call the files.
    #[must_use]
    pub fn names(&self) -> Vec<&str> {
        let names = self.files.iter().map(|target| target.name.as_str());
        names.collect()
    }

    /// The file that people call `name`.
    #[must_use]
    pub fn target(&self, name: &str) -> Option<&Target> {
        self.files.iter().find(|target| target.name == name)
    }
}

impl Owner {
    fn parse(text: &str) -> Result<Self, SettingsError> {
        let number = |text: &str| {
            // The highest number means "no change" to the kernel.
            let number = text.parse().ok().filter(|number| *number != u32::MAX);
            number.ok_or(SettingsError::Owner)
        };
        let (user, group) = text.split_once(':').ok_or(SettingsError::Owner)?;
        Ok(Self { user: number(user)?, group: number(group)? })
    }
}

impl Target {
    fn of((magic, name, extension): (Magic, &str, &str)) -> Option<Self> {
        Some(Self {
            magic,
            name: name.to_owned(),
            file: FileName::new(&format!("{name}.{extension}")).ok()?,
            error_file: FileName::new(&format!("{name}.error")).ok()?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_has_one_row() {
        let settings = Settings::default();
        let [target] = &settings.files[..] else { panic!("{settings:?}") };
        assert_eq!(target.magic, Magic::IMAGEPULLER);
        assert_eq!(target.file.as_str(), "imagepuller.toml");
        assert_eq!(Settings::parse(b"").unwrap(), Settings::default());
        let owner = Settings::parse(b"owner = \"7:8\"").unwrap().owner;
        assert_eq!(owner, Some(Owner { user: 7, group: 8 }));
        let target = settings.target("imagepuller").unwrap();
        assert_eq!(target.error_file.as_str(), "imagepuller.error");
        assert!(settings.target("imagepuller.toml").is_none());
    }

    #[test]
    fn a_mistake_is_told() {
        for (text, words) in [
            ("owner = 7", "invalid type"),
            ("owner = \"root:root\"", "two numbers"),
            ("owner = \"7\"", "two numbers"),
            ("owner = \"-1:0\"", "two numbers"),
            ("owner = \"4294967295:0\"", "two numbers"),
            ("default-policy = \"\"", "absolute path"),
            ("default-policy = \"etc/x\"", "absolute path"),
            ("default_policy = \"/x\"", "unknown field"),
            ("accepted-disk = \"move\"", "unknown variant"),
            ("[file]\n", "unknown field"),
            ("[files]\ntimesync = \"x\"", "unknown field `files`"),
        ] {
            let error = Settings::parse(text.as_bytes()).unwrap_err().to_string();
            assert!(error.contains(words), "{text}: {error}");
        }
    }

    #[test]
    fn without_the_file_the_defaults_hold_and_nothing_else_counts_as_that() {
        let root = tempfile::tempdir().unwrap();
        let path = root.path().join("settings.toml");
        assert_eq!(Settings::load(&path).unwrap(), Settings::default());
        std::fs::create_dir(&path).unwrap();
        assert!(matches!(Settings::load(&path), Err(SettingsError::Read(_))));
        let path = root.path().join("long.toml");
        std::fs::write(&path, "# x\n".repeat(20_000)).unwrap();
        assert!(matches!(
            Settings::load(&path),
            Err(SettingsError::Read(ReadError::TooLong { .. }))
        ));
    }
}
