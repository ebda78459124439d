//! Where the kubelet was told to find its plugins: its flags, as files for its environment have
//! them (`/var/lib/kubelet/kubeadm-flags.env`, `/etc/default/kubelet`).
//!
//! Such a file is read for these two flags and nothing else, neither by a shell nor as one would:
//! `NAME="--flag=value --other value"`, one assignment in a line, with or without quotes.

/// The flag with the plugins' configuration.
const CONFIG: &str = "--image-credential-provider-config";

/// The flag with the directory of their programs.
const BIN_DIR: &str = "--image-credential-provider-bin-dir";

/// The longest path that is taken. Free to change.
const MAX_PATH_BYTES: usize = 4096;

/// The two paths, each where a text has it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PluginFlags {
    /// The plugins' configuration.
    pub config: Option<String>,
    /// The directory of their programs.
    pub bin_dir: Option<String>,
}

impl PluginFlags {
    /// Takes what `text` says; of two the later one counts, as for the kubelet. A value that is no
    /// absolute path without `..` says nothing.
    pub fn read(&mut self, text: &str) {
        each(text, &[CONFIG, BIN_DIR], |flag, value| {
            let path = match flag {
                CONFIG => &mut self.config,
                _ => &mut self.bin_dir,
            };
            if is_path(value) {
                *path = Some(value.to_owned());
            }
        });
    }
}

/// The value of any `flag` in `text`; of two the later one.
#[must_use]
pub fn value(text: &str, flag: &str) -> Option<String> {
    let mut found = None;
    each(text, &[flag], |_, value| found = Some(value.to_owned()));
    found
}

/// Tells each of `flags` in `text` with its value.
fn each<'f>(text: &str, flags: &[&'f str], mut tell: impl FnMut(&'f str, &str)) {
    let lines = text.lines().map(str::trim_start);
    for line in lines.filter(|line| !line.starts_with('#')) {
        let is_between = |letter: char| letter.is_whitespace() || "\"'\\".contains(letter);
        let mut words = line.split(is_between).filter(|word| !word.is_empty());
        while let Some(word) = words.next() {
            for flag in flags {
                // `NAME=--flag=value` is one word.
                let Some((_, rest)) = word.split_once(flag) else {
                    continue;
                };
                let value = match rest.strip_prefix('=') {
                    Some(value) => value,
                    None if rest.is_empty() => words.next().unwrap_or_default(),
                    None => continue,
                };
                tell(flag, value);
                break;
            }
        }
    }
}

fn is_path(text: &str) -> bool {
    text.len() <= MAX_PATH_BYTES
        && text.starts_with('/')
        && !text.contains(char::is_control)
        && text.split('/').all(|step| step != "..")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flags_are_found_in_every_spelling() {
        for (text, config, bin_dir) in [
            ("", None, None),
            (
                "KUBELET_KUBEADM_ARGS=\"--a=b --image-credential-provider-config=/c.yaml \
                 --image-credential-provider-bin-dir=/bin\"\n",
                Some("/c.yaml"),
                Some("/bin"),
            ),
            (
                "KUBELET_EXTRA_ARGS=--image-credential-provider-config=/c \\\n\
                 --image-credential-provider-bin-dir /b\n",
                Some("/c"),
                Some("/b"),
            ),
            (
                "# X=--image-credential-provider-config=/old\n\
                 A='--image-credential-provider-config=/1'\n\
                 B='--image-credential-provider-config=/2'",
                Some("/2"),
                None,
            ),
            ("--image-credential-provider-config=relative", None, None),
            ("--image-credential-provider-config=/a/../b", None, None),
            ("--image-credential-provider-config-x=/a", None, None),
            ("--image-credential-provider-config", None, None),
        ] {
            let mut flags = PluginFlags::default();
            flags.read(text);
            let found = (flags.config.as_deref(), flags.bin_dir.as_deref());
            assert_eq!(found, (config, bin_dir), "{text}");
        }
    }
}
