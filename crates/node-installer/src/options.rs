//! What the administrator wants on the node: the installer's configuration file.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, SocketAddr};
use std::path::{Path, PathBuf};

use foreign_text::bounded::{ReadError, read_path};
use foreign_text::position::line_of;
use serde::Deserialize;

use crate::limits::{
    MAX_DECRYPTION_SECRETS, MAX_DISKS, MAX_DOCKER_CONFIGS, MAX_HANDLERS, MAX_OPTIONS_BYTES,
    MAX_SETS,
};
use crate::plan::View;
use crate::rules::Rules;
use crate::{Error, HostPath, Owner, plan};

/// The longest name of a set and of a secret's key: Kubernetes' own limit for keys.
const MAX_NAME_BYTES: usize = 253;

/// The value of the setting `qemu` that stands for the path in Kata's configuration.
pub(crate) const QEMU_OF_KATA: &str = "kata";

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
    /// The directory on the node for everything that has no fixed place.
    pub prefix: HostPath,
    /// Whose the installation is; another owner's is left alone. `None` where only one ever is on
    /// the node.
    pub owner: Option<Owner>,
    /// The directory on the node for documents and further disks, in memory (`/run`) so that no
    /// password is on the node's disk; `None`: below the prefix.
    pub document_dir: Option<HostPath>,
    /// The wrapper in the container.
    pub wrapper: PathBuf,
    /// Directories of the node in which QEMU is looked for, each mounted at its own path. Elsewhere
    /// it is not seen.
    #[serde(default)]
    pub binaries: Vec<HostPath>,
    /// What the wrapper makes of its settings.
    #[serde(skip)]
    pub rules: Rules,
    /// The command `kata-configdev` in the container, which is installed beside each wrapper;
    /// `None`: not at all.
    pub program: Option<PathBuf>,
    /// Where the kubelet asks how the node is; `None`: nowhere.
    pub listen: Option<SocketAddr>,
    /// The port for metrics; `None`: there are none.
    pub metrics_port: Option<u16>,
    /// The address for metrics; `None`: loopback on the node's network, else that of
    /// [`Options::listen`].
    pub metrics_address: Option<IpAddr>,
    /// Whether the container has the node's network, where everybody who reaches the node can ask.
    #[serde(default)]
    pub host_network: bool,
    /// Whether living sandboxes are updated, and what others left is removed. Takes the directories
    /// of sandboxes below `/run`.
    #[serde(default)]
    pub sandboxes: bool,
    /// Whether the kubelet's credential providers are asked here, so that no sandbox waits for
    /// them, and again before their answers expire. Takes their programs, their configuration, and
    /// the network.
    #[serde(default)]
    pub providers: bool,
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
    /// Further disks of the sandboxes: by magic, the key of the secret that holds the file. Where
    /// the secret has no such key, there is no such disk.
    #[serde(default)]
    pub disks: BTreeMap<String, String>,
    /// Whether sandboxes are told that a secret has not come, instead of pulling without it; also
    /// whether the node is not ready until then.
    #[serde(default)]
    pub required: bool,
    /// What messages call the secrets: by the path that each is mounted at, `NAMESPACE/NAME`.
    #[serde(default)]
    pub secret_names: BTreeMap<PathBuf, String>,
    /// Kata's configuration directories on the node, those that hold a `configuration-*.toml`, one
    /// per handler.
    pub handlers: Vec<HostPath>,
    /// Whether the wrapper does anything. Off, it becomes QEMU at once.
    #[serde(default = "default_enabled")]
    pub enabled: bool,
    /// The wrapper's settings file on the node: `PREFIX/NAME/etc/kata-configdev/config.toml`, or
    /// for one set the default. A wrapper looks nowhere else.
    #[serde(default = "default_settings_file")]
    pub settings_file: HostPath,
    /// What the settings file says besides `document`, which is added where there is one.
    #[serde(default)]
    pub settings: toml::Table,
}

const fn default_enabled() -> bool {
    true
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
    pub fn load(path: &Path, rules: Rules) -> Result<Self, Error> {
        let text = read_path(path, MAX_OPTIONS_BYTES).map_err(|error| match error {
            ReadError::TooLong { .. } => Error::OptionsLength { path: path.into() },
            other => Error::OptionsFile {
                path: path.into(),
                source: other.into(),
            },
        })?;
        Self::parse(&text, rules)
    }

    /// Parses the text of a configuration file.
    ///
    /// `rules` are asked about the text of each settings file that would be written: a wrapper with
    /// settings that it does not understand would fail every sandbox.
    ///
    /// # Errors
    ///
    /// [`Error::OptionsText`].
    pub fn parse(text: &[u8], rules: Rules) -> Result<Self, Error> {
        let text = str::from_utf8(text).map_err(|error| Error::OptionsText {
            line: line_of(text, error.valid_up_to()),
            rule: "not UTF-8".into(),
        })?;
        let mut options: Self = toml::from_str(text).map_err(|error| Error::OptionsText {
            line: error
                .span()
                .map_or(0, |span| line_of(text.as_bytes(), span.start)),
            rule: error.message().to_owned(),
        })?;
        options.rules = rules;
        options
            .require_consistent()
            .map_err(|rule| Error::OptionsText { line: 0, rule })?;
        Ok(options)
    }

    /// Where the document of the set `name` is on the node.
    #[must_use]
    pub fn document(&self, name: &str) -> HostPath {
        plan::document_path(self, name)
    }

    /// Whether everybody who reaches the node reaches this program: said, or where it runs on the
    /// node itself.
    #[must_use]
    pub fn is_on_host_network(&self) -> bool {
        self.host_network || self.host == Path::new("/")
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

    fn require_consistent(&self) -> Result<(), String> {
        let paths = [("host", &self.host), ("wrapper", &self.wrapper)];
        let program = self.program.iter().map(|path| ("program", path));
        for (key, path) in paths.into_iter().chain(program) {
            if !path.is_absolute() {
                return Err(format!("{key}: not an absolute path"));
            }
        }
        if self.metrics_address.is_some() && self.metrics_port.is_none() {
            return Err("metrics-address: without metrics-port nobody answers there".into());
        }
        if self.providers && !self.sandboxes {
            return Err("providers: without sandboxes their answers reach nobody".into());
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
            // A switch that turns the wrapper off works whatever the rest says.
            if set.enabled {
                let view = View::default();
                let text = plan::settings_text(self, name, set, true, &disks, &view);
                (self.rules.check_text)(&text)
                    .map_err(|rule| format!("sets.{name:?}.settings: {rule}"))?;
            }
        }
        Ok(())
    }
}

impl Set {
    /// Whether the settings take QEMU's path from Kata's configuration, which is the default.
    pub(crate) fn needs_qemu_of_kata(&self) -> bool {
        let is_of_kata = |path: &toml::Value| path.as_str() == Some(QEMU_OF_KATA);
        match self.settings.get("qemu") {
            None => !self.handlers.is_empty(),
            Some(toml::Value::Table(machines)) => machines.values().any(is_of_kata),
            Some(path) => is_of_kata(path),
        }
    }

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
        let secrets = || {
            let more = self.docker_configs.iter().chain(&self.decryption_keys);
            [&self.secret].into_iter().chain(more)
        };
        for (path, name) in &self.secret_names {
            if !secrets().any(|secret| secret == path) {
                return Err("secret-names: a path that no secret of the set has".into());
            }
            if !is_secret_name(name) {
                return Err("secret-names: not of the form NAMESPACE/NAME".into());
            }
        }
        if self.handlers.len() > MAX_HANDLERS {
            return Err(format!("handlers: more than {MAX_HANDLERS}"));
        }
        if self.handlers.is_empty() && self.needs_qemu_of_kata() {
            let rule = "settings: qemu is \"kata\", but there are no handlers to take it from";
            return Err(rule.into());
        }
        for (key, place) in [("document", "the installer's"), ("enabled", "the set's")] {
            if self.settings.contains_key(key) {
                return Err(format!("settings: {key:?} is {place} to set"));
            }
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

/// Whether `text` is a namespace and a name, of the characters that Kubernetes allows in them.
fn is_secret_name(text: &str) -> bool {
    let is_part = |part: &str| {
        let known =
            |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || b"-.".contains(&byte);
        (1..=MAX_NAME_BYTES).contains(&part.len()) && part.bytes().all(known)
    };
    text.split_once('/')
        .is_some_and(|(namespace, name)| is_part(namespace) && is_part(name))
}

#[cfg(test)]
mod tests {
    use super::*;

    const ONE: &str = "host = \"/host\"\nprefix = \"/opt/kata-configdev\"\nwrapper = \"/w\"\n\
        [sets.default]\nsecret = \"/secrets/default\"\nhandlers = \
        [\"/opt/kata/a\", \"/opt/kata/b\"]\n";

    fn refusal(text: &str) -> String {
        Options::parse(text.as_bytes(), Rules::NONE)
            .unwrap_err()
            .to_string()
    }

    #[test]
    fn defaults_are_those_of_the_wrapper() {
        let options = Options::parse(ONE.as_bytes(), Rules::NONE).unwrap();
        let set = &options.sets["default"];
        assert_eq!(set.key, "imagepuller.toml");
        assert_eq!(
            set.settings_file.as_str(),
            "/etc/kata-configdev/config.toml"
        );
        assert_eq!(options.listen, None);
        assert!(!options.sandboxes && !options.providers && !options.is_on_host_network());
    }

    #[test]
    fn contradictions_and_mistakes_are_refused() {
        let second = |rest: &str| format!("{ONE}[sets.second]\nsecret = \"/s\"\n{rest}");
        let set_key =
            |line: &str| ONE.replace("[sets.default]", &format!("[sets.default]\n{line}"));
        let cases = [
            (
                format!("metrics-address = \"::1\"\n{ONE}"),
                "metrics-address: without metrics-port",
            ),
            (
                format!("providers = true\n{ONE}"),
                "providers: without sandboxes",
            ),
            (
                format!("program = \"x\"\n{ONE}"),
                "program: not an absolute path",
            ),
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
                "/opt/kata/a/config.d/zz-kata-configdev.toml would be written twice",
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
                "/opt/kata/b/config.d/zz-kata-configdev.toml would be",
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
                set_key("secret-names = { \"/secrets/other\" = \"kata/registries\" }"),
                "secret-names: a path that no secret of the set has",
            ),
            (
                set_key("secret-names = { \"/secrets/default\" = \"registries\" }"),
                "secret-names: not of the form NAMESPACE/NAME",
            ),
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
        let said = |check_text| {
            let rules = Rules {
                check_text,
                ..Rules::NONE
            };
            Options::parse(text.as_bytes(), rules)
        };
        said(|settings| {
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
        let error = said(|_| Err("unknown key".into())).unwrap_err();
        assert!(
            error
                .to_string()
                .ends_with("sets.\"default\".settings: unknown key"),
            "{error}"
        );
    }
}
