//! What can go wrong, each with a text that a person in front of `kubectl describe pod`
//! understands.

use std::error::Error as _;
use std::io;
use std::path::PathBuf;
use std::time::Duration;

use config_image::{DecodeError, Magic};
use foreign_text::shown;
use initdata::{Algorithm, Refusal};

use crate::default_policy::DefaultPolicyError;
use crate::disk::MAX_BLOCK_DEVICES;
use crate::evidence::EvidenceError;
use crate::find::EXPECT;
use crate::kernel_parameter::ALLOW_UNVERIFIED;
use crate::line::line;
use crate::settings::SettingsError;

/// Why initdata or the configuration was refused, or the outcome not written.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The block devices in this sysfs directory cannot be listed.
    #[error("list the disks in {0}")]
    List(PathBuf, #[source] io::Error),
    /// There are more block devices than [`MAX_BLOCK_DEVICES`].
    #[error("list the disks: more than {MAX_BLOCK_DEVICES} block devices")]
    TooManyDisks,
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
    /// The disk of this name has the right magic and holds no usable image.
    #[error("use disk {0} (\"{1}\")")]
    Image(String, Magic, #[source] DecodeError),
    /// The evidence announces initdata, or somebody expects it by name, but no disk carries it.
    #[error(
        "find the initdata disk: {}, but none of the disks carries the magic \"initdata\" \
        ({unreadable} disks could not be read)",
        expected(*.field)
    )]
    DiskMissing {
        /// The field that is not zero; `None` where only the name is expected.
        field: Option<&'static str>,
        /// How many disks could not be read.
        unreadable: usize,
    },
    /// An expected configuration did not come.
    #[error(
        "find the expected configuration: no disk with the magic \"{magic}\" came within {seconds} \
        s ({unreadable} disks could not be read); the host must attach it"
    )]
    ConfigurationMissing {
        /// Its magic.
        magic: Magic,
        /// How long it was waited for.
        seconds: u64,
        /// How many disks could not be read.
        unreadable: usize,
    },
    /// A disk that is the configuration's or initdata's by its serial is not by its content.
    #[error("use disk {disk}, whose serial is \"{serial}\": {reason}")]
    PassedOver {
        /// The disk's name.
        disk: String,
        /// Its serial.
        serial: String,
        /// What is wrong with it.
        reason: String,
    },
    /// The TEE gives no evidence.
    #[error(transparent)]
    Evidence(#[from] EvidenceError),
    /// There is initdata and no TEE, and the kernel parameter does not allow that.
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
        /// The algorithm that the document names.
        named: Algorithm,
        /// The algorithm by which the digest fits.
        matched: Algorithm,
    },
    /// The document on the disk of this name is not initdata.
    #[error("parse initdata from disk {0}")]
    Document(String, #[source] Refusal),
    /// Initdata was refused for this reason, so the configuration is not handed out either.
    #[error("start the guest: initdata was refused: {0}")]
    InitdataRefused(String),
    /// The settings in the guest image have a mistake.
    #[error("use the settings in {0}")]
    Settings(PathBuf, #[source] SettingsError),
    /// Initdata brings no policy, and the image's own, of this path, cannot be used.
    #[error(
        "find a policy: initdata brings no policy.rego, and the image's default policy {0} cannot \
        be used (there must be one of the two)"
    )]
    DefaultPolicy(PathBuf, #[source] DefaultPolicyError),
    /// The copy for the agent cannot be made.
    #[error(
        "give the agent a copy of initdata (accepted-disk = \"copy\" needs loop devices, \
        BLK_DEV_LOOP, in the kernel)"
    )]
    Copy(#[source] io::Error),
    /// Kata's layout, where the agent leaves the same files itself.
    #[error(
        "use --layout kata-agent: the agent leaves these files itself unless accepted-disk is \
        \"remove\""
    )]
    Layout,
    /// The kernel's command line, which may expect disks, cannot be read from this file.
    #[error("read the kernel's command line, {0}, which may name expected disks")]
    CommandLine(PathBuf, #[source] io::Error),
    /// An expected disk has an unknown name.
    #[error("look for a disk called \"{name}\": the known ones are {known}")]
    UnknownName {
        /// The name, safe to show.
        name: String,
        /// The known names.
        known: String,
    },
    /// The kernel refuses to take away the rights that reading a hostile disk does not need.
    #[error(transparent)]
    Sandbox(#[from] process_sandbox::Error),
    /// The reason that is in place from the start, and stays if this process is killed.
    #[error("finish: initdata-processor was stopped before its end, or is still at work")]
    NotFinished,
    /// A refresh before the first run, which makes this directory.
    #[error("refresh: {0} does not exist: initdata-processor has not run in this guest")]
    NotRun(PathBuf),
    /// A refresh where initdata was refused: nothing may be handed out.
    #[error("refresh: initdata was refused, so no configuration is accepted in this guest")]
    RefreshRefused,
    /// A refresh where the boot found no disk that may be read again.
    #[error(
        "refresh: at boot there was no read-only disk with the magic \"{0}\", and others are not \
        believed in a running guest"
    )]
    NoDisk(Magic),
    /// The disk of this name is not what the boot found any more, for this reason.
    #[error("refresh: {0}, which the boot found, cannot be used any more: {1}")]
    DiskGone(String, String),
    /// The disk of this name has become writable.
    #[error(
        "refresh: {0} is writable now, so what it says may be a container's: the host must attach \
        it read-only"
    )]
    Writable(String),
    /// What the boot found for a file is noted here, and cannot be read.
    #[error("refresh: read {0}")]
    Origin(PathBuf, #[source] io::Error),
    /// The kernel does not let a refresh wait for questions.
    #[error("wait for what becomes of the disk")]
    Watch(#[source] io::Error),
    /// The disk of this name, or something else where it is empty, took longer than all disks
    /// together may.
    #[error("{}, {} s", doing(.disk), .limit.as_secs())]
    Disk {
        /// The disk's name.
        disk: String,
        /// The time that was over.
        limit: Duration,
    },
    /// Another run or refresh has been at work for this long.
    #[error(
        "wait for another run or refresh of initdata-processor: it has not ended after {} s",
        .0.as_secs()
    )]
    Busy(Duration),
    /// The process that looks at the disks cannot be made, or ended without a word.
    #[error("look at the disks, in a process of its own")]
    Worker(#[source] io::Error),
    /// A bug: the FILE:LINE of a panic, whose message may quote content.
    #[error("finish: internal error at {0}: please report it")]
    Internal(String),
    /// This file or directory cannot be written.
    #[error("write {0}")]
    Write(PathBuf, #[source] io::Error),
}

fn expected(field: Option<&str>) -> String {
    match field {
        Some(field) => format!("{field} announces initdata"),
        None => format!("--expect or {EXPECT} names initdata"),
    }
}

fn doing(disk: &str) -> String {
    match disk {
        "" => "finish in time".to_owned(),
        disk => format!("read disk {disk}: it does not answer in time"),
    }
}

impl Error {
    pub(crate) fn unknown_name(name: &str, known: &[&str]) -> Self {
        Self::UnknownName { name: shown(name).up_to(64).to_string(), known: known.join(", ") }
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
        let error = Error::Write("/run/x\ny".into(), io::Error::from_raw_os_error(28));
        assert_eq!(error.line(), "failed to write /run/x y: No space left on device (os error 28)");
    }
}
