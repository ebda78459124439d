//! What the administrator wants on the node: the installer's configuration file.

#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, SocketAddr};
use std::path::{Path, PathBuf};

use foreign_text::bounded::{ReadError, read_path};
use foreign_text::corrected;
use foreign_text::position::line_of;
use serde::Deserialize;

use crate::engine::Engine;
use crate::limits::{MAX_HANDLERS, MAX_OPTIONS_BYTES, MAX_SETS};
use crate::plan::View;
use crate::rules::Rules;
use crate::source::{Source, is_name, is_secret_name};
use crate::{Error, HostPath, Owner, plan, wrapper_settings};

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
    /// The directory on the node for documents, in memory (`/run`) so that no
    /// password is on the node's disk; `None`: below the prefix.
    pub document_dir: Option<HostPath>,
    /// The wrapper in the container.
    pub wrapper: PathBuf,
    /// The container engine of the node, where documents are by namespace; `None`: the one that
    /// runs this pod.
    pub engine: Option<Engine>,
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
    /// Whether sandboxes are told that a secret has not come, instead of pulling without it; also
    /// whether the node is not ready until then.
    #[serde(default)]
    pub required: bool,
    /// What messages call the secrets: by the path that each is mounted at, `NAMESPACE/NAME`.
    #[serde(default)]
    pub secret_names: BTreeMap<PathBuf, String>,
    /// The documents of namespaces, by name. Where there are any, or a secret of them, a sandbox
    /// gets that of its pod's namespace.
    #[serde(default)]
    pub namespaces: BTreeMap<String, Source>,
    /// The directory of the container that a secret with more of them is mounted at: each key
    /// `NAMESPACE.toml` is a document, each `NAMESPACE.dockerconfigjson` a docker configuration.
    pub namespaces_secret: Option<PathBuf>,
    /// What pods get whose namespace has no document.
    #[serde(default)]
    pub namespace_fallback: NamespaceFallback,
    /// The documents that the annotation of a pod can name, by name.
    #[serde(default)]
    pub documents: BTreeMap<String, Source>,
    /// The directory of the container that a secret with more of them is mounted at: each key
    /// `NAME.toml` is a document, each `NAME.dockerconfigjson` a docker configuration.
    pub documents_secret: Option<PathBuf>,
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

/// What pods get whose namespace has no document.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum NamespaceFallback {
    /// Nothing: each pull fails, with a sentence that says why.
    #[default]
    Refuse,
    /// No document: their pulls are anonymous.
    None,
    /// The set's own document.
    Document,
}

/// The settings that are not the administrator's, and whose they are.
const NOT_SETTINGS: [(&str, &str); 4] = [
    ("document", "the installer's"),
    ("enabled", "the set's"),
    ("engine", "the installer's"),
    ("namespace-fallback", "the set's"),
];

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
            other => Error::OptionsFile { path: path.into(), source: other.into() },
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
            line: error.span().map_or(0, |span| line_of(text.as_bytes(), span.start)),
            rule: corrected(error.message()).into_owned(),
        })?;
        options.rules = rules;
        options.require_consistent().map_err(|rule| Error::OptionsText { line: 0, rule })?;
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
            set.require_consistent(name).map_err(|rule| Error::OptionsText {
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
            set.require_consistent(name).map_err(|rule| format!("sets.{name:?}.{rule}"))?;
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
            // A switch that turns the wrapper off works whatever the rest says.
            if set.enabled {
                let view = View::default();
                let text = wrapper_settings::settings_text(self, name, set, &view);
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

    /// Whether sandboxes get a document by the namespace of their pod.
    #[must_use]
    pub fn is_by_namespace(&self) -> bool {
        self.namespace_group().is_used()
    }

    /// Whether any sandbox gets the set's own document.
    #[must_use]
    pub fn has_own_document(&self) -> bool {
        !self.is_by_namespace() || self.namespace_fallback == NamespaceFallback::Document
    }

    /// Whether the settings have something by namespace, so that they must name the container
    /// engine.
    pub(crate) fn needs_engine(&self) -> bool {
        let allowed = self.settings.get(wrapper_settings::ANNOTATION_ALLOW);
        let allowed = allowed.and_then(toml::Value::as_array).into_iter().flatten();
        let mut allowed = allowed.filter_map(toml::Value::as_str);
        self.is_by_namespace() || allowed.any(|path| path.contains(wrapper_settings::NAMESPACE))
    }

    /// What the set's own document is made of.
    pub(crate) fn source(&self) -> Source {
        Source {
            secret: Some(self.secret.clone()),
            key: Some(self.key.clone()),
            docker_configs: self.docker_configs.clone(),
            allow_widening: self.allow_widening,
            decryption_keys: self.decryption_keys.clone(),
            required: self.required,
            names: self.secret_names.clone(),
        }
    }

    /// Where every secret of the set is mounted.
    pub(crate) fn secrets(&self) -> impl Iterator<Item = PathBuf> {
        let own: Vec<PathBuf> = self.source().secrets().cloned().collect();
        let groups = self.groups();
        let more = groups.iter().flat_map(|group| group.secrets());
        let more: Vec<PathBuf> = more.map(Path::to_owned).collect();
        own.into_iter().chain(more)
    }

    fn require_consistent(&self, name: &str) -> Result<(), String> {
        if !is_name(name) {
            return Err("the name is not of letters, digits, \"-\", \"_\" and \".\"".into());
        }
        self.source().require_consistent()?;
        for group in self.groups() {
            group.require_consistent()?;
        }
        for (path, name) in &self.secret_names {
            if !self.secrets().any(|secret| secret == *path) {
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
        for (key, place) in NOT_SETTINGS {
            if self.settings.contains_key(key) {
                return Err(format!("settings: {key:?} is {place} to set"));
            }
        }
        Ok(())
    }
}
