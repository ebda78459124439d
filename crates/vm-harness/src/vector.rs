//! What Kata's runtimes started their hypervisor with, as `qemu-fixtures/arguments` holds it.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

use crate::fixture::source;

/// One recorded start.
#[derive(Debug)]
pub struct Vector {
    /// The recording's name.
    pub name: String,
    /// Everything after the program's name.
    pub arguments: Vec<String>,
    /// The descriptors that were open; runtime-rs' lists leave out the standard ones.
    pub descriptors: Vec<Descriptor>,
    folder: PathBuf,
}

/// A descriptor that a hypervisor was started with.
#[derive(Debug, PartialEq, Eq)]
pub struct Descriptor {
    /// Its number.
    pub number: i32,
    /// A path, or what begins with `socket` or `pipe`.
    pub target: String,
    /// The flags of `open(2)`; only the Go runtime's lists have them.
    pub flags: Option<u32>,
    /// The interface of a tap; the same.
    pub interface: Option<String>,
}

impl Vector {
    /// Reads the recording `name` of this checkout.
    ///
    /// # Errors
    ///
    /// Where it is not there, or has another form.
    pub fn read(name: &str) -> Result<Self> {
        Self::read_in(&folder(), name)
    }

    /// A recording whose text a program has with it: one argument in each line. It has no list of
    /// descriptors.
    #[must_use]
    pub fn of_text(name: &str, arguments: &str) -> Self {
        Self {
            name: name.to_owned(),
            arguments: arguments.lines().map(ToOwned::to_owned).collect(),
            descriptors: Vec::new(),
            folder: PathBuf::new(),
        }
    }

    /// Reads all recordings in `folder`, by name.
    ///
    /// # Errors
    ///
    /// As [`Vector::read`].
    pub fn all(folder: &Path) -> Result<Vec<Self>> {
        let mut vectors = Vec::new();
        for entry in
            fs::read_dir(folder).with_context(|| format!("failed to read {}", folder.display()))?
        {
            let name = entry?.file_name().to_string_lossy().into_owned();
            // What a wrapper appended has a list of descriptors too, and is no start.
            if let Some(name) = name.strip_suffix(".fds")
                && !name.contains("appended")
            {
                vectors.push(Self::read_in(folder, name)?);
            }
        }
        vectors.sort_by(|one, other| one.name.cmp(&other.name));
        Ok(vectors)
    }

    fn read_in(folder: &Path, name: &str) -> Result<Self> {
        let arguments = lines(&folder.join(name))?;
        let descriptors = lines(&folder.join(format!("{name}.fds")))?;
        let descriptors = descriptors
            .iter()
            .filter(|line| !line.starts_with('#'))
            .map(|line| descriptor(line).with_context(|| format!("{name}.fds: {line}")))
            .collect::<Result<_>>()?;
        Ok(Self { name: name.to_owned(), arguments, descriptors, folder: folder.to_owned() })
    }

    /// Whether the Go runtime made it; otherwise runtime-rs did.
    #[must_use]
    pub fn is_go(&self) -> bool {
        self.name.starts_with("go-")
    }

    /// The sandbox's id, or what a template or a cache has in its place.
    ///
    /// # Errors
    ///
    /// Where the vector does not begin with `-name sandbox-ID`.
    pub fn sandbox(&self) -> Result<&str> {
        let name = self.values("-name").next();
        name.and_then(|name| name.strip_prefix("sandbox-")?.split(',').next())
            .with_context(|| format!("{} has no -name sandbox-ID", self.name))
    }

    /// The environment that the runtime gave to its hypervisor.
    ///
    /// # Errors
    ///
    /// Where its file is not there, or has another form.
    pub fn environment(&self) -> Result<Vec<(String, String)>> {
        let pair = |line: String| {
            let (key, value) = line.split_once('=').context("no variable")?;
            Ok((key.to_owned(), value.to_owned()))
        };
        self.beside("environment")?.into_iter().map(pair).collect()
    }

    /// What `kata-configdev-qemu` appended to a vector of this runtime.
    ///
    /// # Errors
    ///
    /// Where its file is not there.
    pub fn appended(&self) -> Result<Vec<String>> {
        self.beside("appended-by-kata-configdev-qemu")
    }

    /// The values of `option`, in order.
    pub fn values<'a>(&'a self, option: &'a str) -> impl Iterator<Item = &'a str> {
        let pairs = self.arguments.windows(2);
        pairs.filter(move |pair| pair[0] == option).map(|pair| pair[1].as_str())
    }

    fn beside(&self, name: &str) -> Result<Vec<String>> {
        let runtime = if self.is_go() { "go-" } else { "" };
        lines(&self.folder.join(format!("{runtime}{name}")))
    }
}

/// Where the recordings of this checkout are.
#[must_use]
pub fn folder() -> PathBuf {
    source("arguments")
}

fn lines(path: &Path) -> Result<Vec<String>> {
    let text =
        fs::read_to_string(path).with_context(|| format!("failed to read {}", path.display()))?;
    Ok(text.lines().map(ToOwned::to_owned).collect())
}

/// `NUMBER TARGET flags=OCTAL [iff: INTERFACE]` (Go) or `NUMBER -> TARGET` (runtime-rs).
fn descriptor(line: &str) -> Result<Descriptor> {
    let (number, rest) = line.split_once(' ').context("no number")?;
    let rest = rest.strip_prefix("-> ").unwrap_or(rest);
    let mut words = rest.split_whitespace();
    let target = words.next().context("no target")?.to_owned();
    let flags = words.next().and_then(|word| word.strip_prefix("flags="));
    let interface = words.skip_while(|word| *word != "iff:").nth(1);
    Ok(Descriptor {
        number: number.parse()?,
        target,
        flags: flags.map(|flags| u32::from_str_radix(flags, 8)).transpose()?,
        interface: interface.map(ToOwned::to_owned),
    })
}
