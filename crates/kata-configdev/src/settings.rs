//! The administrator's settings: one file, and the drop-ins beside it.

mod credential_providers;
mod effective;
mod error;
mod fallback;
pub mod files;
mod kubelet_files;
mod node_path;
mod qemu;
mod rules;
mod salvage;
mod text;
mod value;

use std::ffi::OsString;
use std::path::{Path, PathBuf};

pub use credential_providers::{
    AskedRegistries, AskedRegistry, CredentialProviders, MAX_DEADLINE, MAX_REGISTRIES, Sources,
};
pub use effective::{Effective, Origin, Origins};
pub use error::SettingsError;
pub use fallback::NamespaceFallback;
pub(crate) use kubelet_files::{FLAG_FILES as KUBELET_FLAG_FILES, find as kubelet_sources};
pub use qemu::Qemu;
pub use rules::RULES;

use registry_config::NodeError;
use serde::{Deserialize, Serialize};

use crate::capacity::Capacity;
use crate::namespace::Engine;
use crate::namespace_path::NamespacePaths;
use crate::refusal::Refuse;
use crate::sandbox_spec::WithoutSpec;
use crate::transport::Transport;

/// Where the settings are unless [`SETTINGS_VARIABLE`] names another file.
pub const DEFAULT_PATH: &str = "/etc/kata-configdev/config.toml";

/// The environment variable that names another settings file, for tests and unusual installations.
///
/// A user who sets the environment of Kata's shim can start programs as root anyway.
pub const SETTINGS_VARIABLE: &str = "KATA_CONFIGDEV_CONFIG";

/// Where Kata keeps what lives as long as a sandbox, unless the settings say otherwise.
pub const DEFAULT_RUN_ROOT: &str = "/run";

/// What holds for every sandbox of the node. `docs/configuration.md` describes the keys.
///
/// All paths are absolute, and those of [`Settings::annotation_allow`] and [`Settings::run_root`]
/// have no `..` in them.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
pub struct Settings {
    /// Whether the wrapper adds anything; where not, it becomes QEMU with the arguments that it
    /// got.
    pub enabled: bool,
    /// The real QEMU, per machine type.
    pub qemu: Qemu,
    /// The document of sandboxes that name none, as a path, as a pattern that exactly one file
    /// matches, or as a [path for each namespace](crate::namespace_path); `None` gives them no
    /// disk.
    #[serde(deserialize_with = "value::document")]
    pub document: Option<PathBuf>,
    /// What the guest of a sandbox is told where the file of [`Settings::document`] is not there;
    /// `None` keeps such a sandbox from starting.
    #[serde(deserialize_with = "value::reason")]
    pub missing_document: Option<NodeError>,
    /// What writes the specs of sandboxes. Needed where something is by namespace.
    pub engine: Option<Engine>,
    /// What a namespace without a document gets.
    pub namespace_fallback: NamespaceFallback,
    /// The document that completes those of the namespaces.
    #[serde(deserialize_with = "fallback::base")]
    pub namespace_base: Option<PathBuf>,
    /// Directories whose documents a pod may name, or [one for each
    /// namespace](crate::namespace_path). Empty: pods may name none.
    #[serde(deserialize_with = "value::allowed")]
    pub annotation_allow: Vec<PathBuf>,
    /// What the wrapper makes of a sandbox without a spec; `None` leaves it to
    /// [`Settings::without_spec`].
    pub without_spec: Option<WithoutSpec>,
    /// How the image gets to the hypervisor.
    pub transport: Transport,
    /// How large images are at least; `None` leaves it to the transport, see
    /// [`crate::capacity::size`].
    pub capacity: Option<Capacity>,
    /// What `/run` is; images of the transport `file` are below it.
    #[serde(deserialize_with = "value::directory")]
    pub run_root: PathBuf,
    /// Which of the kubelet's credential providers are asked, and for what.
    pub credential_providers: CredentialProviders,
    /// How a sandbox that must not start is refused.
    pub refuse: Refuse,
    /// The guests of this node pull their images themselves, so that somebody reads a refusal that
    /// stands on a disk.
    pub guest_pull: bool,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            enabled: true,
            qemu: Qemu::default(),
            document: None,
            missing_document: None,
            engine: None,
            namespace_fallback: NamespaceFallback::default(),
            namespace_base: None,
            annotation_allow: Vec::new(),
            without_spec: None,
            transport: Transport::default(),
            capacity: None,
            run_root: DEFAULT_RUN_ROOT.into(),
            credential_providers: CredentialProviders::default(),
            refuse: Refuse::default(),
            guest_pull: false,
        }
    }
}

impl Settings {
    /// The path of the settings file of the running program, see [`Settings::path`].
    #[must_use]
    pub fn own_path() -> PathBuf {
        Self::path(std::env::var_os(SETTINGS_VARIABLE), std::env::current_exe().ok().as_deref())
    }

    /// The path of the settings file: `variable`, the value of [`SETTINGS_VARIABLE`]; else, for a
    /// `program` at `DIR/bin/NAME`, the file in `DIR/etc/kata-configdev` where that directory
    /// exists; else [`DEFAULT_PATH`].
    ///
    /// The second lets one node have several sets of wrapper, settings and document, one for each
    /// runtime class: Kata resolves links before it starts its hypervisor, so a program's place is
    /// all that tells it which set it is of. The directory decides, not the file: a set that lost
    /// its settings must fail and not take another's.
    #[must_use]
    pub fn path(variable: Option<OsString>, program: Option<&Path>) -> PathBuf {
        if let Some(path) = variable.filter(|value| !value.is_empty()) {
            return path.into();
        }
        Self::path_of(program, |directory| directory.is_dir())
    }

    /// The path of the settings file of a `program`, where nothing but its place says so;
    /// `is_directory` looks at the node.
    pub(crate) fn path_of(program: Option<&Path>, is_directory: impl Fn(&Path) -> bool) -> PathBuf {
        program
            .and_then(|program| program.parent()?.parent())
            .map(|set| set.join("etc/kata-configdev"))
            .filter(|directory| is_directory(directory))
            .map_or_else(|| DEFAULT_PATH.into(), |directory| directory.join("config.toml"))
    }

    /// Whether [`Settings::document`] is one for each namespace.
    #[must_use]
    pub fn is_by_namespace(&self) -> bool {
        NamespacePaths::of(self).document.is_some()
    }

    /// What the wrapper makes of a sandbox without a spec. By itself it fails one whose pod might
    /// have chosen for itself, or whose namespace decides.
    #[must_use]
    pub fn without_spec(&self) -> WithoutSpec {
        let is_for_all = self.annotation_allow.is_empty() && !self.is_by_namespace();
        self.without_spec.unwrap_or(match is_for_all {
            true => WithoutSpec::Node,
            false => WithoutSpec::Fail,
        })
    }

    /// Reads the settings file and its drop-ins. An empty file is valid; a missing one is not,
    /// because a node whose settings got lost would otherwise pull anonymously without a message.
    ///
    /// # Errors
    ///
    /// [`SettingsError`].
    pub fn load(path: &Path) -> Result<Self, SettingsError> {
        Effective::load(path).map(|effective| effective.settings)
    }

    /// Says whether `text` could stand in a settings file; the error is the broken rule with its
    /// line.
    ///
    /// # Errors
    ///
    /// The rule, as a fragment.
    pub fn check_text(text: &str) -> Result<(), String> {
        text::parse(text.as_bytes())
            .map(|_| ())
            .map_err(|(line, rule)| format!("line {line}: {rule}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_variable_names_another_file() {
        let set = tempfile::tempdir().unwrap();
        let program = set.path().join("bin/kata-configdev-qemu");
        let program = Some(program.as_path());
        let default = Path::new(DEFAULT_PATH);
        assert_eq!(Settings::path(None, None), default);
        assert_eq!(Settings::path(None, program), default);
        assert_eq!(Settings::path(Some("".into()), program), default);
        assert_eq!(Settings::path(Some("/x".into()), program), Path::new("/x"));

        let directory = set.path().join("etc/kata-configdev");
        std::fs::create_dir_all(&directory).unwrap();
        let own = directory.join("config.toml");
        assert_eq!(Settings::path(None, program), own, "though it is missing");
        assert_eq!(Settings::path(Some("/x".into()), program), Path::new("/x"));
    }

    #[test]
    fn a_text_can_be_checked_without_a_file() {
        Settings::check_text("document = \"/x\"\n").unwrap();
        let rule = Settings::check_text("\ndocument = \"x\"\n").unwrap_err();
        assert_eq!(rule, "line 2: document: not an absolute path");
    }
}
