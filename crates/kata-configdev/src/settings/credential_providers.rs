//! `[credential-providers]`: which plugins of the kubelet are asked when a sandbox starts, and for
//! which registries.

use std::path::{Path, PathBuf};
use std::time::Duration;

use puller_config::RegistryHost;
use serde::Deserialize;
use toml::Spanned;

use super::at_line::{AtLine, Broken, Lines};

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
    /// The registries that they are asked about. Empty: none is ever started.
    pub registries: Vec<RegistryHost>,
    /// How long all of them together may take.
    pub deadline: Duration,
}

impl Default for CredentialProviders {
    fn default() -> Self {
        Self {
            config: None,
            bin_dir: None,
            registries: Vec::new(),
            deadline: DEFAULT_DEADLINE,
        }
    }
}

/// Where plugins come from.
#[derive(Clone, Copy, Debug)]
pub struct Sources<'a> {
    /// Their configuration.
    pub config: &'a Path,
    /// Their programs.
    pub bin_dir: &'a Path,
}

impl CredentialProviders {
    /// Where the plugins to ask come from; `None` where none is to be asked.
    #[must_use]
    pub fn sources(&self) -> Option<Sources<'_>> {
        let (config, bin_dir) = self.config.as_deref().zip(self.bin_dir.as_deref())?;
        (!self.registries.is_empty()).then_some(Sources { config, bin_dir })
    }

    /// The key without which `registries` makes no sense.
    pub(super) fn missing(&self) -> Option<&'static str> {
        match (self.registries.is_empty(), &self.config, &self.bin_dir) {
            (true, ..) => None,
            (false, None, _) => Some("config"),
            (false, Some(_), None) => Some("bin-dir"),
            (false, Some(_), Some(_)) => None,
        }
    }
}

/// What one file says.
#[derive(Debug, Default)]
pub struct ProvidersLayer {
    pub config: Option<AtLine<PathBuf>>,
    pub bin_dir: Option<AtLine<PathBuf>>,
    pub registries: Option<AtLine<Vec<RegistryHost>>>,
    pub deadline: Option<AtLine<Duration>>,
}

/// The table as it stands.
#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(super) struct RawProviders {
    config: Option<Spanned<PathBuf>>,
    bin_dir: Option<Spanned<PathBuf>>,
    registries: Option<Spanned<Vec<Spanned<String>>>>,
    deadline_secs: Option<Spanned<u64>>,
}

impl ProvidersLayer {
    pub(super) fn check(raw: Option<RawProviders>, lines: Lines<'_>) -> Result<Self, Broken> {
        let Some(raw) = raw else {
            return Ok(Self::default());
        };
        let path = |key: &str, path: Option<Spanned<PathBuf>>| {
            path.map(|path| {
                lines
                    .at(path)
                    .absolute(&format!("credential-providers.{key}"))
            })
            .transpose()
        };
        Ok(Self {
            config: path("config", raw.config)?,
            bin_dir: path("bin-dir", raw.bin_dir)?,
            registries: raw
                .registries
                .map(|list| registries(list, lines))
                .transpose()?,
            deadline: raw
                .deadline_secs
                .map(|seconds| deadline(lines.at(seconds)))
                .transpose()?,
        })
    }
}

fn registries(
    list: Spanned<Vec<Spanned<String>>>,
    lines: Lines<'_>,
) -> Result<AtLine<Vec<RegistryHost>>, Broken> {
    const KEY: &str = "credential-providers.registries";
    let AtLine { line, value: list } = lines.at(list);
    if list.len() > MAX_REGISTRIES {
        let rule = format!("{KEY}: more than {MAX_REGISTRIES} registries");
        return Err((line, rule));
    }
    let mut value: Vec<RegistryHost> = Vec::with_capacity(list.len());
    for name in list {
        let AtLine { line, value: name } = lines.at(name);
        let host = RegistryHost::parse(&name).map_err(|rule| (line, format!("{KEY}: {rule}")))?;
        if value.contains(&host) {
            return Err((line, format!("{KEY}: {host} is there twice")));
        }
        value.push(host);
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
                    60\n";
        let layer = Layer::parse(text.as_bytes()).unwrap().credential_providers;
        assert_eq!(layer.config.unwrap().value, Path::new("/etc/k/c.yaml"));
        assert_eq!(layer.bin_dir.unwrap().line, 3);
        let registries = layer.registries.unwrap();
        let names: Vec<_> = registries.value.iter().map(ToString::to_string).collect();
        assert_eq!(names, ["reg.corp:5000", "docker.io", "[::1]"]);
        assert_eq!(layer.deadline.unwrap().value, MAX_DEADLINE);
    }

    #[test]
    fn mistakes_are_refused_with_their_line() {
        let many: Vec<_> = (0..=MAX_REGISTRIES)
            .map(|n| format!("\"r{n}.corp\""))
            .collect();
        let many = format!("registries = [{}]", many.join(","));
        for (line_two, rule) in [
            (
                "config = \"x\"",
                "credential-providers.config: not an absolute path",
            ),
            (
                "bin-dir = \"x\"",
                "credential-providers.bin-dir: not an absolute path",
            ),
            ("bin_dir = \"/x\"", "unknown field `bin_dir`"),
            ("registries = \"reg.corp\"", "invalid type"),
            (
                "registries = [\".corp\"]",
                "credential-providers.registries: ",
            ),
            (
                "registries = [\"*.corp\"]",
                "credential-providers.registries: ",
            ),
            ("registries = [\"reg.corp/team\"]", "write the host alone"),
            (
                "registries = [\"a.b\", \"A.b:443\"]",
                "a.b:443 is there twice",
            ),
            (&many, "more than 32 registries"),
            ("deadline-secs = 0", "not between 1 and 60"),
            ("deadline-secs = 61", "not between 1 and 60"),
            ("deadline-secs = -1", "invalid value"),
            ("deadline-secs = \"5\"", "invalid type"),
        ] {
            let text = format!("[credential-providers]\n{line_two}\n");
            let (line, found) = Layer::parse(text.as_bytes()).unwrap_err();
            assert!(
                line == 2 && found.contains(rule),
                "{line_two}: line {line}: {found}"
            );
        }
    }
}
