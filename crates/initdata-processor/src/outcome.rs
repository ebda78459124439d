//! What a run comes to.

use std::io::ErrorKind;

use crate::Error;
use crate::line::line;

/// What became of initdata.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Initdata {
    /// None was announced, and there is none: `measured-cfg` holds the default policy.
    Absent,
    /// `measured-cfg` holds the entries, and the default policy where none of them is one.
    Placed {
        /// How many.
        entries: usize,
        /// Whether the digest was compared with evidence.
        verified: bool,
    },
}

/// What became of a configuration.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Configuration {
    /// No disk, or an empty document.
    Absent,
    /// The file holds it.
    Placed {
        /// Its size in bytes.
        size: usize,
    },
}

/// What became of one of the files below `insecure-cfg`.
#[derive(Debug)]
pub struct Configured {
    /// What people call it, such as `imagepuller`.
    pub name: String,
    /// An error here stands in NAME.error.
    pub result: Result<Configuration, Error>,
}

/// What became of everything.
#[derive(Debug)]
pub struct Outcome {
    /// Initdata. An error here stands in the deny-all policy.
    pub initdata: Result<Initdata, Error>,
    /// The configurations.
    pub configurations: Vec<Configured>,
    /// Refusals that could not be written, so that the agent and the image puller miss them.
    pub unwritten: Vec<Error>,
}

/// Which refusals make the program's exit code 65.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub enum Strict {
    /// None: the results say it.
    #[default]
    Never,
    /// Those of initdata. A configuration that is refused harms pulls and nothing else.
    Initdata,
    /// Those of initdata and of any configuration.
    All,
}

impl Outcome {
    /// 0; 65 if something was refused about which the caller is `strict`; 70 if a refusal could not
    /// be put in place, or after a panic.
    #[must_use]
    pub fn exit_code(&self, strict: Strict) -> u8 {
        let panicked = matches!(self.initdata, Err(Error::Internal(_)));
        let initdata = self.initdata.is_err();
        let mut configurations = self.configurations.iter();
        let refused = match strict {
            Strict::Never => false,
            Strict::Initdata => initdata,
            Strict::All => initdata || configurations.any(|one| one.result.is_err()),
        };
        if panicked || !self.unwritten.is_empty() {
            70
        } else if refused {
            65
        } else {
            0
        }
    }

    /// In a few words, for systemd.
    #[must_use]
    pub fn summary(&self) -> String {
        let initdata = match &self.initdata {
            Ok(Initdata::Absent) => "no initdata".to_owned(),
            Ok(Initdata::Placed { verified: true, .. }) => "initdata verified".to_owned(),
            Ok(Initdata::Placed { .. }) => "initdata NOT verified".to_owned(),
            Err(_) => return "initdata refused, the guest may run nothing".to_owned(),
        };
        let configurations = self.configurations.iter().map(|configured| {
            let what = match configured.result {
                Ok(Configuration::Absent) => "none",
                Ok(Configuration::Placed { .. }) => "in place",
                Err(_) => "refused",
            };
            format!("{}: {what}", configured.name)
        });
        std::iter::once(initdata).chain(configurations).collect::<Vec<_>>().join("; ")
    }

    /// What remains of it.
    #[must_use]
    pub fn verdict(&self, strict: Strict) -> Verdict {
        Verdict { code: self.exit_code(strict), summary: self.summary() }
    }

    /// Where not even the refusals could be put in place.
    pub(crate) fn failed(error: Error) -> Self {
        Self {
            initdata: Err(Error::NotFinished),
            configurations: Vec::new(),
            unwritten: vec![error],
        }
    }
}

/// What the caller of the program hears.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Verdict {
    /// The exit code.
    pub code: u8,
    /// [`Outcome::summary`].
    pub summary: String,
}

impl Verdict {
    /// As bytes, from one process to another.
    pub(crate) fn to_bytes(&self) -> Vec<u8> {
        [&[self.code], self.summary.as_bytes()].concat()
    }

    /// From a process that is not believed: the summary is one line.
    /// Nothing comes from one that was killed, or crashed.
    pub(crate) fn from_bytes(bytes: &[u8]) -> Result<Self, Error> {
        let missing = || Error::Worker(ErrorKind::UnexpectedEof.into());
        let (code, summary) = bytes.split_first().ok_or_else(missing)?;
        Ok(Self { code: *code, summary: line(&String::from_utf8_lossy(summary), usize::MAX) })
    }
}
