//! What the administrator wants on the node: the installer's configuration file.

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use foreign_text::bounded::{ReadError, read_path};
use foreign_text::position::line_of;
use serde::Deserialize;

use crate::limits::{
    MAX_DECRYPTION_SECRETS, MAX_DISKS, MAX_DOCKER_CONFIGS, MAX_HANDLERS, MAX_OPTIONS_BYTES,
    MAX_SETS,
};
use crate::{Error, HostPath, plan};

/// The longest name of a set and of a secret's key: Kubernetes' own limit for keys.
const MAX_NAME_BYTES: usize = 253;

/// Where a wrapper looks whose set has no settings directory of its own.
const DEFAULT_SETTINGS_FILE: &str = "/etc/kata-configdev/config.toml";

/// The installer's configuration, parsed and free of contradictions.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
#[non_exhaustive]
pub struct Options {
    /// The directory of the container below which the node's directories are mounted, each at its
    /// own path.
    pub host: PathBuf,
    /// The directory on the node for everything that has no fixed place; belongs to one installer.
    pub prefix: HostPath,
    /// The wrapper in the container.
    pub wrapper: PathBuf,
    /// Where [`health`](crate::health) answers; `None`: nowhere.
    pub listen: Option<SocketAddr>,
    /// What is installed, by name. None at all: everything that was installed is removed.
    pub sets: BTreeMap<String, Set>,
}

/// A document, from one secret and from docker configurations, and the handlers whose sandboxes get
/// it.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
#[non_exhaustive]
pub struct Set {
    /// The directory of the container that the document's secret is mounted at. It need not be
    /// there.
    pub secret: PathBuf,
    /// The key of the secret that holds the document.
    #[serde(default = "default_key")]
    pub key: String,
    /// Docker configurations of the container whose credentials are put below what the document
    /// says; of several, the last that has a key counts. Each is a directory that a secret is
    /// mounted at, or a file, and need not be there.
    #[serde(default)]
    pub docker_configs: Vec<PathBuf>,
    /// Whether the docker configurations' entries for some repositories, or with a wildcard, are
    /// taken although a document can only have them for more hosts or repositories.
    #[serde(default)]
    pub allow_widening: bool,
    /// Secrets of the container with keys of encrypted images, which are added to those of the
    /// document. Each is a directory that a secret is mounted at, or a file, and need not be there.
    #[serde(default)]
    pub decryption_keys: Vec<PathBuf>,
    /// Further disks of the sandboxes: by magic, the key of the secret that holds the file. Where the
    /// secret has no such key, there is no such disk.
    #[serde(default)]
    pub disks: BTreeMap<String, String>,
    /// Kata's configuration directories on the node, those that hold a `configuration-*.toml`, one
    /// per handler.
    pub handlers: Vec<HostPath>,
    /// The wrapper's settings file on the node: `PREFIX/NAME/etc/kata-configdev/config.toml`, or
    /// for one set the default. A wrapper looks nowhere else.
    #[serde(default = "default_settings_file")]
    pub settings_file: HostPath,
    /// What the settings file says besides `document`, which is added where there is one.
    #[serde(default)]
    pub settings: toml::Table,
}

fn default_key() -> String {
    "imagepuller.toml".into()
}

fn default_settings_file() -> HostPath {
    match HostPath::parse(DEFAULT_SETTINGS_FILE) {
        Ok(path) => path,
        Err(rule) => unreachable!("a constant path {rule}"),
    }
}

impl Options {
    /// Reads the configuration file `path`. See [`Options::parse`].
    ///
    /// # Errors
    ///
    /// [`Error::OptionsFile`], [`Error::OptionsLength`], [`Error::OptionsText`].
    pub fn load(
        path: &Path,
        check_settings: impl Fn(&str) -> Result<(), String>,
    ) -> Result<Self, Error> {
        let text = read_path(path, MAX_OPTIONS_BYTES).map_err(|error| match error {
            ReadError::TooLong { .. } => Error::OptionsLength { path: path.into() },
            other => Error::OptionsFile {
                path: path.into(),
                source: other.into(),
            },
        })?;
        Self::parse(&text, check_settings)
    }

    /// Parses the text of a configuration file.
    ///
    /// `check_settings` is asked about the text of each settings file that would be written, and
    /// answers with the broken rule: a wrapper with settings that it does not understand would fail
    /// every sandbox.
    ///
    /// # Errors
    ///
    /// [`Error::OptionsText`].
    pub fn parse(
        text: &[u8],
        check_settings: impl Fn(&str) -> Result<(), String>,
    ) -> Result<Self, Error> {
        let text = str::from_utf8(text).map_err(|error| Error::OptionsText {
            line: line_of(text, error.valid_up_to()),
            rule: "not UTF-8".into(),
        })?;
        let options: Self = toml::from_str(text).map_err(|error| Error::OptionsText {
            line: error
                .span()
                .map_or(0, |span| line_of(text.as_bytes(), span.start)),
            rule: error.message().to_owned(),
        })?;
        options
            .require_consistent(check_settings)
            .map_err(|rule| Error::OptionsText { line: 0, rule })?;
        Ok(options)
    }

    /// Adds docker configurations to every set, behind its own, so that these count more.
    ///
    /// # Errors
    ///
    /// [`Error::OptionsText`].
    pub fn add_docker_configs(&mut self, paths: &[PathBuf]) -> Result<(), Error> {
        for (name, set) in &mut self.sets {
            set.docker_configs.extend_from_slice(paths);
            set.require_consistent(name)
                .map_err(|rule| Error::OptionsText {
                    line: 0,
                    rule: format!("sets.{name:?}.{rule}"),
                })?;
        }
        Ok(())
    }

    fn require_consistent(
        &self,
        check_settings: impl Fn(&str) -> Result<(), String>,
    ) -> Result<(), String> {
        for (key, path) in [("host", &self.host), ("wrapper", &self.wrapper)] {
            if !path.is_absolute() {
                return Err(format!("{key}: not an absolute path"));
            }
        }
        if self.sets.len() > MAX_SETS {
            return Err(format!("sets: more than {MAX_SETS}"));
        }
        let mut paths = BTreeSet::new();
        for (name, set) in &self.sets {
            set.require_consistent(name)
                .map_err(|rule| format!("sets.{name:?}.{rule}"))?;
            // In any other place the wrapper would not find it, and take the settings of another
            // set.
            let own = plan::own_settings_path(self, name);
            let places = [own.as_str(), DEFAULT_SETTINGS_FILE];
            if !places.contains(&set.settings_file.as_str()) {
                return Err(format!(
                    "sets.{name:?}.settings-file: the wrapper would not look there; it must be \
                    {own}, or for one set {DEFAULT_SETTINGS_FILE}"
                ));
            }
            for path in plan::paths(self, name, set) {
                if !paths.insert(path.clone()) {
                    return Err(format!(
                        "sets.{name:?}: {path} would be written twice; give every handler to one \
                        set and every set its own settings-file"
                    ));
                }
            }
            let disks: Vec<&str> = set.disks.keys().map(String::as_str).collect();
            check_settings(&plan::settings_text(self, name, set, true, &disks, false))
                .map_err(|rule| format!("sets.{name:?}.settings: {rule}"))?;
        }
        Ok(())
    }
}

impl Set {
    fn require_consistent(&self, name: &str) -> Result<(), String> {
        if !is_name(name) {
            return Err("the name is not of letters, digits, \"-\", \"_\" and \".\"".into());
        }
        if !is_name(&self.key) {
            return Err("key: not the key of a secret".into());
        }
        if self.disks.len() > MAX_DISKS {
            return Err(format!("disks: more than {MAX_DISKS}"));
        }
        if !self.disks.values().all(|key| is_name(key)) {
            return Err("disks: not the key of a secret".into());
        }
        if !self.secret.is_absolute() {
            return Err("secret: not an absolute path".into());
        }
        if self.docker_configs.len() > MAX_DOCKER_CONFIGS {
            return Err(format!("docker-configs: more than {MAX_DOCKER_CONFIGS}"));
        }
        if !self.docker_configs.iter().all(|path| path.is_absolute()) {
            return Err("docker-configs: not an absolute path".into());
        }
        if self.decryption_keys.len() > MAX_DECRYPTION_SECRETS {
            return Err(format!(
                "decryption-keys: more than {MAX_DECRYPTION_SECRETS}"
            ));
        }
        if !self.decryption_keys.iter().all(|path| path.is_absolute()) {
            return Err("decryption-keys: not an absolute path".into());
        }
        if self.handlers.len() > MAX_HANDLERS {
            return Err(format!("handlers: more than {MAX_HANDLERS}"));
        }
        if self.settings.contains_key("document") {
            return Err("settings: \"document\" is the installer's to set".into());
        }
        Ok(())
    }
}

/// Whether `text` is a single component of a path, of the characters that Kubernetes allows in a
/// secret's key.
fn is_name(text: &str) -> bool {
    let known = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
    !text.is_empty()
        && text.len() <= MAX_NAME_BYTES
        && !text.starts_with('.')
        && text.bytes().all(known)
}

#[cfg(test)]
mod tests {
    use super::*;

    const ONE: &str = "host = \"/host\"\nprefix = \"/opt/kata-configdev\"\nwrapper = \"/w\"\n\
        [sets.default]\nsecret = \"/secrets/default\"\nhandlers = \
        [\"/opt/kata/a\", \"/opt/kata/b\"]\n";

    fn refusal(text: &str) -> String {
        Options::parse(text.as_bytes(), |_| Ok(()))
            .unwrap_err()
            .to_string()
    }

    #[test]
    fn defaults_are_those_of_the_wrapper() {
        let options = Options::parse(ONE.as_bytes(), |_| Ok(())).unwrap();
        let set = &options.sets["default"];
        assert_eq!(set.key, "imagepuller.toml");
        assert_eq!(
            set.settings_file.as_str(),
            "/etc/kata-configdev/config.toml"
        );
        assert_eq!(options.listen, None);
    }

    #[test]
    fn contradictions_and_mistakes_are_refused() {
        let second = |rest: &str| format!("{ONE}[sets.second]\nsecret = \"/s\"\n{rest}");
        let set_key =
            |line: &str| ONE.replace("[sets.default]", &format!("[sets.default]\n{line}"));
        let cases = [
            (
                ONE.replace("[sets.default]", "[set.default]"),
                "at line 4: unknown field `set`",
            ),
            (
                "host = \"/h\"\nprefix = \"/p\"\nwrapper = \"/w\"\n".into(),
                "missing field `sets`",
            ),
            (
                ONE.replace("\"/host\"", "\"host\""),
                "host: not an absolute",
            ),
            (
                ONE.replace("/opt/kata-configdev", "/opt/../x"),
                "at line 2: has \".\"",
            ),
            (
                ONE.replace("/opt/kata/b", "/opt/kata/a/"),
                "/opt/kata/a/config.d/50-configdev.toml would be written twice",
            ),
            (
                second("handlers = []\n"),
                "/etc/kata-configdev/config.toml would be written twice",
            ),
            (
                second(
                    "handlers = [\"/opt/kata/b\"]\nsettings-file \
                    = \"/opt/kata-configdev/second/etc/kata-configdev/config.toml\"\n",
                ),
                "/opt/kata/b/config.d/50-configdev.toml would be",
            ),
            (
                second("handlers = []\nsettings-file = \"/etc/kata-configdev-b/config.toml\"\n"),
                "sets.\"second\".settings-file: the wrapper would not look there; it must be \
                 /opt/kata-configdev/second/etc/kata-configdev/config.toml, or for one set \
                 /etc/kata-configdev/config.toml",
            ),
            (
                second(
                    "handlers = []\nsettings-file \
                    = \"/opt/kata-configdev/default/etc/kata-configdev/config.toml\"\n",
                ),
                "must be /opt/kata-configdev/second/etc/",
            ),
            (set_key("key = \"../x\""), "key: not the key"),
            (
                set_key("docker-configs = [\"/a\", \"b\"]"),
                "docker-configs: not an absolute path",
            ),
            (
                set_key(&format!("docker-configs = {:?}", ["/a"; 17])),
                "docker-configs: more than 16",
            ),
            (
                set_key("decryption-keys = [\"/a\", \"b\"]"),
                "decryption-keys: not an absolute path",
            ),
            (
                set_key(&format!("decryption-keys = {:?}", ["/a"; 17])),
                "decryption-keys: more than 16",
            ),
            (set_key("allow-widening = 1"), "at line 5: invalid type"),
            (set_key("key = \"..data\""), "key: not the key"),
            (
                ONE.replace("sets.default", "sets.\"a/b\""),
                "the name is not of letters",
            ),
            (
                format!("{ONE}[sets.default.settings]\ndocument = \"/x\"\n"),
                "\"document\" is the installer's",
            ),
            (
                ONE.replace("\"/secrets", "\"secrets"),
                "secret: not an absolute path",
            ),
        ];
        for (text, rule) in cases {
            assert!(refusal(&text).contains(rule), "{}", refusal(&text));
        }
    }

    #[test]
    fn settings_are_shown_to_whoever_understands_them() {
        let text = format!("{ONE}[sets.default.settings]\nqemu = \"/opt/kata/bin/qemu\"\n");
        Options::parse(text.as_bytes(), |settings| {
            assert!(
                settings.contains("qemu = \"/opt/kata/bin/qemu\"\n"),
                "{settings}"
            );
            assert!(settings.contains(
                "document = \"/opt/kata-configdev/default/etc/host-config/imagepuller.toml\"\n"
            ));
            Ok(())
        })
        .unwrap();
        let error = Options::parse(text.as_bytes(), |_| Err("unknown key".into())).unwrap_err();
        assert!(
            error
                .to_string()
                .ends_with("sets.\"default\".settings: unknown key"),
            "{error}"
        );
    }
}
