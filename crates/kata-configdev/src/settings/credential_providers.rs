//! `[credential-providers]`: which plugins of the kubelet are asked when a sandbox starts, and for
//! which registries.

use std::fmt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use registry_config::RegistryHost;
use serde::de::{self, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use toml::Spanned;

use super::at_line::{AtLine, Broken, Lines};
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
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CredentialProviders {
    /// The kubelet's configuration of its plugins: a file or a directory of them.
    pub config: Option<PathBuf>,
    /// The directory of their programs.
    pub bin_dir: Option<PathBuf>,
    /// The registries that they are asked about. None: none is ever started.
    pub registries: AskedRegistries,
    /// How long all of them together may take.
    pub deadline: Duration,
    /// Whether the wrapper leaves them to the node agent where that runs, and the sandbox's disk
    /// can be updated.
    pub leave_to_agent: bool,
}

impl Default for CredentialProviders {
    fn default() -> Self {
        Self {
            config: None,
            bin_dir: None,
            registries: AskedRegistries::default(),
            deadline: DEFAULT_DEADLINE,
            leave_to_agent: true,
        }
    }
}

/// Which registries plugins are asked about.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AskedRegistries {
    /// Those that the settings name.
    pub named: Vec<RegistryHost>,
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

/// What one file says.
#[derive(Debug, Default)]
pub struct ProvidersLayer {
    pub config: Option<AtLine<PathBuf>>,
    pub bin_dir: Option<AtLine<PathBuf>>,
    pub registries: Option<AtLine<AskedRegistries>>,
    pub deadline: Option<AtLine<Duration>>,
    pub leave_to_agent: Option<AtLine<bool>>,
}

/// The table as it stands.
#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(super) struct RawProviders {
    config: Option<Spanned<PathBuf>>,
    bin_dir: Option<Spanned<PathBuf>>,
    registries: Option<Spanned<RawRegistries>>,
    deadline_secs: Option<Spanned<u64>>,
    leave_to_agent: Option<Spanned<bool>>,
}

/// The value as it stands: the keyword, or a list.
struct RawRegistries(Vec<Spanned<String>>, bool);

impl<'de> Deserialize<'de> for RawRegistries {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Reading;

        impl<'de> Visitor<'de> for Reading {
            type Value = RawRegistries;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "\"{MATCH_IMAGES}\" or a list of registries")
            }

            fn visit_str<E: de::Error>(self, text: &str) -> Result<RawRegistries, E> {
                match text {
                    MATCH_IMAGES => Ok(RawRegistries(Vec::new(), true)),
                    _ => Err(E::invalid_value(de::Unexpected::Str(text), &self)),
                }
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<RawRegistries, A::Error> {
                let mut names = Vec::new();
                while let Some(name) = list.next_element()? {
                    names.push(name);
                }
                Ok(RawRegistries(names, false))
            }
        }

        deserializer.deserialize_any(Reading)
    }
}

impl ProvidersLayer {
    pub(super) fn check(raw: Option<RawProviders>, lines: Lines<'_>) -> Result<Self, Broken> {
        let Some(raw) = raw else {
            return Ok(Self::default());
        };
        let path = |key: &str, path: Option<Spanned<PathBuf>>| {
            path.map(|path| lines.at(path).absolute(&format!("credential-providers.{key}")))
                .transpose()
        };
        Ok(Self {
            config: path("config", raw.config)?,
            bin_dir: path("bin-dir", raw.bin_dir)?,
            registries: raw.registries.map(|list| registries(list, lines)).transpose()?,
            deadline: raw.deadline_secs.map(|seconds| deadline(lines.at(seconds))).transpose()?,
            leave_to_agent: raw.leave_to_agent.map(|leave| lines.at(leave)),
        })
    }
}

fn registries(
    list: Spanned<RawRegistries>,
    lines: Lines<'_>,
) -> Result<AtLine<AskedRegistries>, Broken> {
    const KEY: &str = "credential-providers.registries";
    let AtLine { line, value: RawRegistries(list, match_images) } = lines.at(list);
    if list.len() > MAX_REGISTRIES {
        let rule = format!("{KEY}: more than {MAX_REGISTRIES} registries");
        return Err((line, rule));
    }
    let mut value = AskedRegistries { named: Vec::with_capacity(list.len()), match_images };
    for name in list {
        let AtLine { line, value: name } = lines.at(name);
        if name == MATCH_IMAGES {
            value.match_images = true;
            continue;
        }
        let host = RegistryHost::parse(&name).map_err(|rule| (line, format!("{KEY}: {rule}")))?;
        if value.named.contains(&host) {
            return Err((line, format!("{KEY}: {host} is there twice")));
        }
        value.named.push(host);
    }
    Ok(AtLine { line, value })
}

fn deadline(seconds: AtLine<u64>) -> Result<AtLine<Duration>, Broken> {
    let AtLine { line, value } = seconds;
    let most = MAX_DEADLINE.as_secs();
    if (1..=most).contains(&value) {
        let value = Duration::from_secs(value);
        Ok(AtLine { line, value })
    } else {
        let rule = format!("credential-providers.deadline-secs: not between 1 and {most}");
        Err((line, rule))
    }
}

#[cfg(test)]
mod tests {
    use super::super::text::Layer;
    use super::*;

    #[test]
    fn all_keys() {
        let text = "[credential-providers]\nconfig = \"/etc/k/c.yaml\"\nbin-dir = \"/etc/k/bin\"\n\
                    registries = [\"Reg.corp:5000\", \"docker.io\", \"[::1]\"]\ndeadline-secs = \
                    60\nleave-to-agent = false\n";
        let layer = Layer::parse(text.as_bytes()).unwrap().credential_providers;
        assert_eq!(layer.config.unwrap().value, Path::new("/etc/k/c.yaml"));
        assert_eq!(layer.bin_dir.unwrap().line, 3);
        let registries = layer.registries.unwrap();
        let named = registries.value.named.iter();
        let names: Vec<_> = named.map(ToString::to_string).collect();
        assert_eq!(names, ["reg.corp:5000", "docker.io", "[::1]"]);
        assert!(!registries.value.match_images);
        assert_eq!(layer.deadline.unwrap().value, MAX_DEADLINE);
        assert!(!layer.leave_to_agent.unwrap().value);
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
            let layer = Layer::parse(text.as_bytes()).unwrap().credential_providers;
            let registries = layer.registries.unwrap().value;
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
            ("registries = [\"reg.corp/team\"]", "write the host alone"),
            ("registries = [\"a.b\", \"A.b:443\"]", "a.b:443 is there twice"),
            (&many, "more than 32 registries"),
            ("deadline-secs = 0", "not between 1 and 60"),
            ("deadline-secs = 61", "not between 1 and 60"),
            ("deadline-secs = -1", "invalid value"),
            ("deadline-secs = \"5\"", "invalid type"),
            ("leave-to-agent = 1", "invalid type"),
        ] {
            let text = format!("[credential-providers]\n{line_two}\n");
            let (line, found) = Layer::parse(text.as_bytes()).unwrap_err();
            assert!(line == 2 && found.contains(rule), "{line_two}: line {line}: {found}");
        }
    }
}
