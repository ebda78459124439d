//! `[credential-providers]`: which plugins of the kubelet are asked when a sandbox starts, and for
//! which registries.

use std::fmt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use registry_config::{InvalidName, RegistryHost, RegistryName};
use serde::de::{self, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::value::{broken, program};
use super::{kubelet_files, node_path};

/// What stands in the place of names for those of the kubelet's own configuration. As a registry it
/// would be the host `matchimages`, which nobody has.
const MATCH_IMAGES: &str = "matchImages";

/// The longest time that a sandbox may wait for plugins: the kubelet itself waits no longer.
pub const MAX_DEADLINE: Duration = Duration::from_secs(60);

/// The most registries. Each may start a process for every plugin, all at once. Free to change.
pub const MAX_REGISTRIES: usize = 32;

/// How long a sandbox waits unless the settings say otherwise: long enough for a plugin that asks a
/// cloud's service, short beside the time that a VM takes to start.
const DEFAULT_DEADLINE: Duration = Duration::from_secs(5);

/// Which plugins are asked, and for what.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
pub struct CredentialProviders {
    /// The kubelet's configuration of its plugins: a file or a directory of them.
    #[serde(deserialize_with = "program")]
    pub config: Option<PathBuf>,
    /// The directory of their programs.
    #[serde(deserialize_with = "program")]
    pub bin_dir: Option<PathBuf>,
    /// The registries that they are asked about. None: none is ever started.
    pub registries: AskedRegistries,
    /// How long all of them together may take.
    #[serde(rename = "deadline-secs", deserialize_with = "deadline", serialize_with = "seconds")]
    pub deadline: Duration,
    /// Whether the wrapper leaves them to the node agent where that runs, and the sandbox's disk
    /// can be updated.
    pub leave_to_agent: bool,
    /// Whether a [child](crate::providers::child) runs them: for the programs of ours whose process
    /// must have nothing of theirs.
    #[serde(skip)]
    pub by_child: bool,
}

impl Default for CredentialProviders {
    fn default() -> Self {
        Self {
            config: None,
            bin_dir: None,
            registries: AskedRegistries::default(),
            deadline: DEFAULT_DEADLINE,
            leave_to_agent: true,
            by_child: false,
        }
    }
}

/// A registry that plugins are asked about, or some of its repositories.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AskedRegistry {
    /// The registry.
    pub host: RegistryHost,
    /// The first segments of the repositories, if not all are meant.
    pub repositories: Option<String>,
}

impl AskedRegistry {
    fn parse(text: &str) -> Result<Self, InvalidName> {
        let name = RegistryName::parse(text)?;
        let host = RegistryHost::parse(text.split('/').next().unwrap_or_default())?;
        Ok(Self { host, repositories: name.repositories().map(str::to_owned) })
    }

    /// The name of an entry for it.
    #[must_use]
    pub fn name(&self) -> Option<RegistryName> {
        RegistryName::parse(&self.to_string()).ok()
    }
}

impl From<RegistryHost> for AskedRegistry {
    fn from(host: RegistryHost) -> Self {
        Self { host, repositories: None }
    }
}

impl fmt::Display for AskedRegistry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let slash = if self.repositories.is_some() { "/" } else { "" };
        write!(f, "{}{slash}{}", self.host, self.repositories.as_deref().unwrap_or_default())
    }
}

/// Which registries plugins are asked about.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AskedRegistries {
    /// Those that the settings name.
    pub named: Vec<AskedRegistry>,
    /// Whether those count too that the kubelet's own configuration names: the patterns of
    /// `matchImages` without globs.
    pub match_images: bool,
}

impl AskedRegistries {
    /// Whether there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.named.is_empty() && !self.match_images
    }
}

/// As the settings have it.
impl Serialize for AskedRegistries {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let keyword = self.match_images.then(|| MATCH_IMAGES.to_owned());
        let named = self.named.iter().map(ToString::to_string);
        serializer.collect_seq(keyword.into_iter().chain(named))
    }
}

/// Where plugins come from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sources {
    /// Their configuration.
    pub config: PathBuf,
    /// Their programs.
    pub bin_dir: PathBuf,
}

impl CredentialProviders {
    /// Whether plugins are to be asked.
    #[must_use]
    pub fn is_wanted(&self) -> bool {
        !self.registries.is_empty()
    }

    /// Where the plugins to ask come from; `None` where none is to be asked, or the kubelet's files
    /// are at none of the usual places below `root`.
    #[must_use]
    pub fn sources(&self, root: &Path) -> Option<Sources> {
        if !self.is_wanted() {
            return None;
        }
        match (&self.config, &self.bin_dir) {
            (Some(config), Some(bin_dir)) => Some(Sources {
                config: node_path::seen(root, config)?,
                bin_dir: node_path::seen(root, bin_dir)?,
            }),
            _ => kubelet_files::find(root),
        }
    }

    /// The key without which the other one makes no sense.
    pub(super) fn missing(&self) -> Option<&'static str> {
        match (&self.config, &self.bin_dir) {
            _ if !self.is_wanted() => None,
            (None, Some(_)) => Some("config"),
            (Some(_), None) => Some("bin-dir"),
            _ => None,
        }
    }
}

/// The keyword, or a list.
impl<'de> Deserialize<'de> for AskedRegistries {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Reading;

        /// A registry of the list; `None` is the keyword.
        #[derive(Deserialize)]
        struct Asked(#[serde(deserialize_with = "asked")] Option<AskedRegistry>);

        impl<'de> Visitor<'de> for Reading {
            type Value = AskedRegistries;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "\"{MATCH_IMAGES}\" or a list of registries")
            }

            fn visit_str<E: de::Error>(self, text: &str) -> Result<AskedRegistries, E> {
                match text {
                    MATCH_IMAGES => Ok(AskedRegistries { named: Vec::new(), match_images: true }),
                    _ => Err(E::invalid_value(de::Unexpected::Str(text), &self)),
                }
            }

            fn visit_seq<A: SeqAccess<'de>>(
                self,
                mut list: A,
            ) -> Result<AskedRegistries, A::Error> {
                let mut found = AskedRegistries::default();
                while let Some(Asked(registry)) = list.next_element()? {
                    match registry {
                        None => found.match_images = true,
                        Some(one) if found.named.contains(&one) => {
                            return Err(broken(format_args!("{one} is there twice")));
                        }
                        Some(one) => found.named.push(one),
                    }
                }
                if found.named.len() > MAX_REGISTRIES {
                    return Err(broken(format_args!("more than {MAX_REGISTRIES} registries")));
                }
                Ok(found)
            }
        }

        deserializer.deserialize_any(Reading)
    }
}

fn asked<'de, D: Deserializer<'de>>(from: D) -> Result<Option<AskedRegistry>, D::Error> {
    let name = String::deserialize(from)?;
    let asked = (name != MATCH_IMAGES).then(|| AskedRegistry::parse(&name));
    asked.transpose().map_err(broken)
}

fn deadline<'de, D: Deserializer<'de>>(from: D) -> Result<Duration, D::Error> {
    let (seconds, most) = (u64::deserialize(from)?, MAX_DEADLINE.as_secs());
    match (1..=most).contains(&seconds) {
        true => Ok(Duration::from_secs(seconds)),
        false => Err(broken(format_args!("not between 1 and {most}"))),
    }
}

fn seconds<S: Serializer>(time: &Duration, serializer: S) -> Result<S::Ok, S::Error> {
    time.as_secs().serialize(serializer)
}

#[cfg(test)]
mod tests {
    use super::super::{Settings, text};
    use super::*;

    fn parse(text: &str) -> CredentialProviders {
        toml::from_str::<Settings>(text).unwrap().credential_providers
    }

    #[test]
    fn all_keys() {
        let text = "[credential-providers]\nconfig = \"/etc/k/c.yaml\"\nbin-dir = \"/etc/k/bin\"\n\
                    registries = [\"Reg.corp:5000\", \"docker.io\", \"[::1]\", \
                    \"docker.io/team\"]\ndeadline-secs = \
                    60\nleave-to-agent = false\n";
        let found = parse(text);
        assert_eq!(found.config.unwrap(), Path::new("/etc/k/c.yaml"));
        assert_eq!(found.bin_dir.unwrap(), Path::new("/etc/k/bin"));
        let named = found.registries.named.iter();
        let names: Vec<_> = named.map(ToString::to_string).collect();
        assert_eq!(names, ["reg.corp:5000", "docker.io", "[::1]", "docker.io/team"]);
        assert!(!found.registries.match_images);
        assert_eq!(found.deadline, MAX_DEADLINE);
        assert!(!found.leave_to_agent);
    }

    /// Whoever asks the kubelet's plugins had to write the registries of its configuration twice.
    #[test]
    fn the_kubelets_own_registries_may_count() {
        for (text, names) in [
            ("registries = \"matchImages\"", &[][..]),
            ("registries = [\"matchImages\"]", &[]),
            ("registries = [\"reg.corp\", \"matchImages\"]", &["reg.corp"]),
        ] {
            let text = format!("[credential-providers]\n{text}\n");
            let registries = parse(&text).registries;
            assert!(registries.match_images && !registries.is_empty(), "{text}");
            let named: Vec<_> = registries.named.iter().map(ToString::to_string).collect();
            assert_eq!(named, names, "{text}");
        }
    }

    #[test]
    fn mistakes_are_refused_with_their_line() {
        let many: Vec<_> = (0..=MAX_REGISTRIES).map(|n| format!("\"r{n}.corp\"")).collect();
        let many = format!("registries = [{}]", many.join(","));
        for (line_two, rule) in [
            ("config = \"x\"", "credential-providers.config: not an absolute path"),
            ("bin-dir = \"x\"", "credential-providers.bin-dir: not an absolute path"),
            ("bin_dir = \"/x\"", "unknown field `bin_dir`"),
            ("registries = \"reg.corp\"", "expected \"matchImages\" or a list of registries"),
            ("registries = [1]", "invalid type"),
            ("registries = [\".corp\"]", "credential-providers.registries: "),
            ("registries = [\"*.corp\"]", "credential-providers.registries: "),
            ("registries = [\"reg.corp/Team\"]", "credential-providers.registries: "),
            ("registries = [\"https://reg.corp/a\"]", "no scheme: write the host alone"),
            ("registries = [\".corp/team\"]", "credential-providers.registries: "),
            ("registries = [\"a.b/c\", \"A.b/c\"]", "a.b/c is there twice"),
            ("registries = [\"a.b\", \"A.b:443\"]", "a.b:443 is there twice"),
            (&many, "more than 32 registries"),
            ("deadline-secs = 0", "not between 1 and 60"),
            ("deadline-secs = 61", "not between 1 and 60"),
            ("deadline-secs = -1", "invalid value"),
            ("deadline-secs = \"5\"", "invalid type"),
            ("leave-to-agent = 1", "invalid type"),
        ] {
            let text = format!("[credential-providers]\n{line_two}\n");
            let (line, found) = text::parse(text.as_bytes()).unwrap_err();
            assert!(line == 2 && found.contains(rule), "{line_two}: line {line}: {found}");
        }
    }
}
