//! The settings, from one place each: what the image's author decided stands in
//! `/etc/initdata-processor.toml`, part of the guest image and as measured as this program
//! ([`Settings`]); two words of the kernel's command line, which is measured wherever there is
//! something to measure it, say what differs by pod ([`Words`]).

use std::fs::File;
use std::io::Read;
use std::path::PathBuf;
use std::time::Duration;

use config_image::Magic;
use foreign_text::bounded::{if_there, read_path, read_stream};
use foreign_text::shown;
use serde::Deserialize;

use crate::error::{Error, refused};
use crate::paths::Paths;

/// The kernel parameter that names expected disks, separated by commas.
pub const EXPECT: &str = "configdev.expect=";

/// The kernel parameter that accepts unverified initdata where there is no TEE. Where the kernel
/// knows that it is an SNP or TDX guest it has no effect, be the guest's driver loaded or not.
pub const ALLOW_UNVERIFIED: &str = "configdev.allow_unverified_initdata=1";

/// The longest settings file.
const MAX_SETTINGS_BYTES: usize = 64 << 10;

/// The longest command line read. The kernel's own limit is a few kilobytes; more is not looked at,
/// and what is cut off cannot switch anything on that was not there.
const MAX_CMDLINE_BYTES: usize = 64 << 10;

/// A file below `/run/insecure-cfg`, and the magic of the disk that it comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Target {
    /// The magic.
    pub magic: Magic,
    /// The file's name without its extension: what people call it.
    pub name: &'static str,
    /// The file.
    pub file: &'static str,
    /// Where the reason stands when the disk is refused.
    pub error_file: &'static str,
}

/// The image puller's configuration.
pub const IMAGEPULLER: Target = Target {
    magic: Magic::IMAGEPULLER,
    name: "imagepuller",
    file: "imagepuller.toml",
    error_file: "imagepuller.error",
};

/// What becomes a file; a further one is a row.
pub const TARGETS: [Target; 1] = [IMAGEPULLER];

/// What people call the measured document's disk.
const INITDATA: &str = "initdata";

/// What the image's author decided.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// Whose `/run/insecure-cfg` is, with all that is in it; `None`: root's, whose this process is.
    pub owner: Option<Owner>,
    /// The image's own policy, an absolute path; for a guest whose initdata brings none.
    pub default_policy: PathBuf,
    /// What the agent finds in the place of a disk whose initdata was accepted.
    pub accepted_disk: AcceptedDisk,
    /// How long expected disks are waited for.
    pub wait: Duration,
    /// How long all disks together may take to answer, besides.
    pub patience: Duration,
}

/// What the kernel's command line says.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Words {
    /// The disks without which the search waits.
    pub expected: Vec<Magic>,
    /// Whether an administrator accepts unverified initdata where there is no TEE.
    pub allow_unverified: bool,
}

/// What becomes of a disk whose initdata was accepted; `crate::agent` says what that means.
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

#[derive(Deserialize)]
#[serde(deny_unknown_fields, default, rename_all = "kebab-case")]
struct Text {
    owner: Option<String>,
    default_policy: String,
    accepted_disk: AcceptedDisk,
    /// Seconds.
    wait: u16,
    /// Seconds.
    patience: u16,
}

impl Default for Text {
    fn default() -> Self {
        Self {
            owner: None,
            // Where Kata's images have the policy that holds until another one is set.
            default_policy: "/etc/kata-opa/default-policy.rego".to_owned(),
            accepted_disk: AcceptedDisk::default(),
            wait: 3,
            patience: 30,
        }
    }
}

impl Settings {
    /// Reads the file; without one the defaults hold.
    ///
    /// # Errors
    ///
    /// It cannot be read, or has a mistake: which is not the same as none.
    pub fn load(paths: &Paths) -> Result<Self, Error> {
        let failed = || refused(format!("use the settings in {}", paths.settings.display()));
        let text = if_there(read_path(&paths.settings, MAX_SETTINGS_BYTES))
            .map_err(|error| failed().because(format!("read it: {error}")))?;
        Self::parse(text.as_deref().map_or(&[], Vec::as_slice)).map_err(|why| failed().because(why))
    }

    /// Reads the text of the file.
    ///
    /// # Errors
    ///
    /// The end of a sentence about the file.
    pub fn parse(text: &[u8]) -> Result<Self, String> {
        let text: Text =
            toml::from_slice(text).map_err(|error| shown(error.message()).to_string())?;
        if !text.default_policy.starts_with('/') {
            let found = shown(&text.default_policy);
            return Err(format!("default-policy: expected an absolute path, found \"{found}\""));
        }
        let owner = text.owner.as_deref().map(owner).transpose()?;
        Ok(Self::of(text, owner))
    }

    fn of(text: Text, owner: Option<Owner>) -> Self {
        Self {
            owner,
            default_policy: text.default_policy.into(),
            accepted_disk: text.accepted_disk,
            wait: Duration::from_secs(text.wait.into()),
            patience: Duration::from_secs(text.patience.into()),
        }
    }
}

impl Words {
    /// Reads the command line.
    ///
    /// # Errors
    ///
    /// It cannot be read, or expects a disk by a name that nothing has.
    pub fn load(paths: &Paths) -> Result<Self, Error> {
        let cmdline = File::open(&paths.cmdline)
            .map_err(Into::into)
            .and_then(|file| read_stream(file.take(MAX_CMDLINE_BYTES as u64), MAX_CMDLINE_BYTES))
            .map_err(|source| {
                // Nobody knows which disks it expects.
                refused(format!(
                    "read the kernel's command line, {}, which may name expected disks",
                    paths.cmdline.display()
                ))
                .because(source)
            })?;
        let mut found =
            Self { expected: Vec::new(), allow_unverified: allows_unverified(&cmdline) };
        let values = words(&cmdline).filter_map(|word| word.strip_prefix(EXPECT.as_bytes()));
        for name in values.flat_map(|value| value.split(|byte| *byte == b',')) {
            if !name.is_empty() {
                found.expected.push(magic(name)?);
            }
        }
        Ok(found)
    }
}

impl Default for Settings {
    /// What holds without the file.
    fn default() -> Self {
        Self::of(Text::default(), None)
    }
}

fn owner(text: &str) -> Result<Owner, String> {
    // The highest number means "no change" to the kernel.
    let number = |text: &str| text.parse().ok().filter(|number| *number != u32::MAX);
    text.split_once(':')
        .and_then(|(user, group)| Some(Owner { user: number(user)?, group: number(group)? }))
        .ok_or_else(|| "owner: expected two numbers, \"USER:GROUP\"".to_owned())
}

fn magic(name: &[u8]) -> Result<Magic, Error> {
    let target = TARGETS.iter().find(|target| target.name.as_bytes() == name);
    match target {
        Some(target) => Ok(target.magic),
        None if name == INITDATA.as_bytes() => Ok(Magic::INITDATA),
        None => {
            let names = TARGETS.map(|target| target.name).join(", ");
            Err(refused(format!(
                "look for a disk called \"{}\": the known ones are {INITDATA}, {names}",
                shown(name).up_to(64)
            )))
        }
    }
}

/// Only the exact word counts, and only if no second one contradicts it.
fn allows_unverified(cmdline: &[u8]) -> bool {
    let key = ALLOW_UNVERIFIED.trim_end_matches('1').as_bytes();
    let mut words = words(cmdline).filter(|word| word.starts_with(key)).peekable();
    words.peek().is_some() && words.all(|word| word == ALLOW_UNVERIFIED.as_bytes())
}

/// The kernel's own words: what stands behind `--` is for the init.
fn words(cmdline: &[u8]) -> impl Iterator<Item = &[u8]> {
    let words = cmdline.split(u8::is_ascii_whitespace);
    words.take_while(|word| *word != b"--")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_setting_is_read() {
        assert_eq!(Settings::parse(b"").unwrap(), Settings::default());
        let text =
            b"owner = \"7:8\"\ndefault-policy = \"/p\"\naccepted-disk = \"copy\"\nwait = 1\n\
                     patience = 2\n";
        let expected = Settings {
            owner: Some(Owner { user: 7, group: 8 }),
            default_policy: "/p".into(),
            accepted_disk: AcceptedDisk::Copy,
            wait: Duration::from_secs(1),
            patience: Duration::from_secs(2),
        };
        assert_eq!(Settings::parse(text).unwrap(), expected);
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
            ("wait = -1", "invalid value"),
            ("patience = 65536", "invalid value"),
            ("[file]\n", "unknown field"),
            ("[files]\ntimesync = \"x\"", "unknown field `files`"),
        ] {
            let error = Settings::parse(text.as_bytes()).unwrap_err();
            assert!(error.contains(words), "{text}: {error}");
        }
    }

    fn machine(cmdline: &str) -> (tempfile::TempDir, Paths) {
        let root = tempfile::tempdir().unwrap();
        let paths = Paths::below(root.path());
        for directory in ["etc", "proc"] {
            std::fs::create_dir(root.path().join(directory)).unwrap();
        }
        std::fs::write(&paths.cmdline, cmdline).unwrap();
        (root, paths)
    }

    #[test]
    fn without_the_file_the_defaults_hold_and_nothing_else_counts_as_that() {
        let (_root, paths) = machine("");
        assert_eq!(Settings::load(&paths).unwrap(), Settings::default());
        std::fs::write(&paths.settings, "# x\n".repeat(20_000)).unwrap();
        let error = Settings::load(&paths).unwrap_err().chain();
        assert!(error.contains("read it: it has more than 65536 bytes"), "{error}");
        std::fs::remove_file(&paths.settings).unwrap();
        std::fs::create_dir(&paths.settings).unwrap();
        assert!(Settings::load(&paths).unwrap_err().chain().contains("read it: "));
    }

    #[test]
    fn expected_disks_are_those_of_whole_words() {
        let (initdata, puller) = (Magic::INITDATA, Magic::IMAGEPULLER);
        for (cmdline, expected) in [
            ("quiet xconfigdev.expect=initdata configdev.expect=\n", Some(vec![])),
            ("configdev.expect=imagepuller,,initdata", Some(vec![puller, initdata])),
            (
                "configdev.expect=initdata configdev.expect=imagepuller -- configdev.expect=x",
                Some(vec![initdata, puller]),
            ),
            ("configdev.expect=imagepuller.toml", None),
        ] {
            let (_root, paths) = machine(cmdline);
            let words = Words::load(&paths);
            assert_eq!(words.ok().map(|words| words.expected), expected, "{cmdline}");
        }
        let (_root, paths) = machine("configdev.expect=a\u{1b}b");
        let error = Words::load(&paths).unwrap_err().chain();
        let known =
            "look for a disk called \"a\\u{1b}b\": the known ones are initdata, imagepuller";
        assert_eq!(error, known);
        std::fs::remove_file(&paths.cmdline).unwrap();
        assert!(Words::load(&paths).is_err());
    }

    #[test]
    fn only_the_exact_word_allows() {
        for (cmdline, allowed) in [
            ("", false),
            ("configdev.allow_unverified_initdata=1", true),
            ("quiet configdev.allow_unverified_initdata=1\n", true),
            ("quiet configdev.allow_unverified_initdata", false),
            ("configdev.allow_unverified_initdata=1 -- x", true),
            ("quiet -- configdev.allow_unverified_initdata=1", false),
            ("configdev.allow_unverified_initdata=0", false),
            ("configdev.allow_unverified_initdata=10", false),
            ("configdev.allow_unverified_initdata=1,x", false),
            ("xconfigdev.allow_unverified_initdata=1", false),
            ("\"configdev.allow_unverified_initdata=1\"", false),
            ("Configdev.allow_unverified_initdata=1", false),
            ("configdev.allow_unverified_initdata=1 configdev.allow_unverified_initdata=0", false),
            ("configdev.allow_unverified_initdata=0 configdev.allow_unverified_initdata=1", false),
        ] {
            assert_eq!(allows_unverified(cmdline.as_bytes()), allowed, "{cmdline}");
        }
    }
}
