//! What can go wrong, each with a text that a person in front of `kubectl describe pod`
//! understands.

use std::error::Error as _;
use std::io;
use std::path::PathBuf;

use config_image::{DecodeError, Magic};
use foreign_text::shown;
use initdata::Refusal;

use crate::evidence::EvidenceError;
use crate::kernel_parameter::ALLOW_UNVERIFIED;
use crate::line::line;
use crate::settings::SettingsError;

/// Why initdata or the configuration was refused, or the outcome not written.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The list of block devices cannot be read.
    #[error("list the disks in {path}")]
    List {
        /// The sysfs directory.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// There are more block devices than anybody attaches.
    #[error("list the disks: more than {limit} block devices")]
    TooManyDisks {
        /// [`crate::disk::MAX_BLOCK_DEVICES`].
        limit: usize,
    },
    /// Several disks carry one magic: the host would choose between them.
    #[error(
        "choose the \"{magic}\" disk: {names} carry the same magic, and the host must attach one \
        only"
    )]
    SeveralDisks {
        /// The magic.
        magic: Magic,
        /// The disks' names.
        names: String,
    },
    /// A disk with the right magic holds no usable image.
    #[error("use disk {disk} (\"{magic}\")")]
    Image {
        /// The disk's name.
        disk: String,
        /// Its magic.
        magic: Magic,
        /// What is wrong with it.
        source: DecodeError,
    },
    /// The evidence announces initdata, but no disk carries it.
    #[error(
        "find the initdata disk: {field} announces initdata, but none of the disks carries the \
        magic \"initdata\" ({skipped} disks could not be read)"
    )]
    DiskMissing {
        /// The field that is not zero.
        field: &'static str,
        /// How many disks were passed over for a fault.
        skipped: usize,
    },
    /// The evidence cannot be had.
    #[error(transparent)]
    Evidence(#[from] EvidenceError),
    /// There is no TEE, and nobody allowed going without.
    #[error(
        "verify initdata: found no sign of SNP or TDX; on a machine without a TEE the kernel \
        parameter {ALLOW_UNVERIFIED} accepts unverified initdata"
    )]
    NoPlatform,
    /// The document is not the announced one.
    #[error(
        "verify initdata from disk {disk}: expected the digest in {field}, {expected}, found a \
        document with {found}"
    )]
    Mismatch {
        /// The disk's name.
        disk: String,
        /// The evidence's field.
        field: &'static str,
        /// Its value, hexadecimal.
        expected: String,
        /// How the document's digests begin, hexadecimal.
        found: String,
    },
    /// The digest fits, but not by the algorithm that the document names.
    #[error(
        "verify initdata from disk {disk}: the document names {named}, but {field} holds its \
        {matched} digest"
    )]
    OtherAlgorithm {
        /// The disk's name.
        disk: String,
        /// The evidence's field.
        field: &'static str,
        /// What the document says.
        named: initdata::Algorithm,
        /// What fits.
        matched: initdata::Algorithm,
    },
    /// The verified document is not initdata.
    #[error("parse initdata from disk {disk}")]
    Document {
        /// The disk's name.
        disk: String,
        /// What is wrong with it.
        source: Refusal,
    },
    /// Initdata was refused, so the configuration is not handed out either.
    #[error("start the guest: initdata was refused: {reason}")]
    InitdataRefused {
        /// Why, as one line.
        reason: String,
    },
    /// The settings in the guest image have a mistake.
    #[error("use the settings in {path}")]
    Settings {
        /// The file.
        path: PathBuf,
        /// The mistake.
        source: SettingsError,
    },
    /// An expected disk has a name that means nothing.
    #[error("look for a disk called \"{name}\": the known ones are {known}")]
    UnknownName {
        /// The name.
        name: String,
        /// What would have been one.
        known: String,
    },
    /// The rights that reading a hostile disk does not need cannot be given up.
    #[error(transparent)]
    Sandbox(#[from] process_sandbox::Error),
    /// What stands in place from the start, and stays if this process is killed.
    #[error("finish: initdata-processor was stopped before its end, or is still at work")]
    NotFinished,
    /// A refresh before the first run.
    #[error("refresh: {path} does not exist: initdata-processor has not run in this guest")]
    NotRun {
        /// The directory.
        path: PathBuf,
    },
    /// A refresh where initdata was refused: nothing may be handed out.
    #[error("refresh: initdata was refused, so no configuration is accepted in this guest")]
    RefreshRefused,
    /// A refresh without the disk.
    #[error(
        "refresh: no disk carries the magic \"{magic}\" any more ({skipped} disks could not be \
        read)"
    )]
    NoDisk {
        /// The magic.
        magic: Magic,
        /// How many disks were passed over for a fault.
        skipped: usize,
    },
    /// This program has a bug.
    #[error("finish: internal error at {place}: please report it")]
    Internal {
        /// FILE:LINE of the panic; its message may quote content.
        place: String,
    },
    /// A result cannot be written.
    #[error("write {path}")]
    Write {
        /// The file or directory.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
}

impl Error {
    pub(crate) fn unknown_name(name: &str, known: &[&str]) -> Self {
        Self::UnknownName {
            name: shown(name).up_to(64).to_string(),
            known: known.join(", "),
        }
    }

    /// The error and all its causes as one line that is safe to show.
    #[must_use]
    pub fn line(&self) -> String {
        let mut text = format!("failed to {self}");
        let mut cause = self.source();
        while let Some(error) = cause {
            text.push_str(": ");
            text.push_str(&error.to_string());
            cause = error.source();
        }
        line(&text, usize::MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn causes_are_joined_into_one_line() {
        let error = Error::Write {
            path: "/run/x\ny".into(),
            source: io::Error::from_raw_os_error(28),
        };
        assert_eq!(
            error.line(),
            "failed to write /run/x y: No space left on device (os error 28)"
        );
    }
}
