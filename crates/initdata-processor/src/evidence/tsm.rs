//! HOSTDATA of an SEV-SNP guest, by the kernel's portable report interface, configfs-TSM.
//!
//! Spec: Linux `Documentation/ABI/testing/configfs-tsm` (`configfs-tsm-report` in later kernels),
//! since 6.7. A directory below `/sys/kernel/config/tsm/report` is a request: `inblob` takes the
//! report data, `outblob` gives the platform's report, `provider` says whose layout it has, and
//! `generation` counts the writes, so that a second writer shows.
//!
//! Nothing is mounted here: where configfs is not, there is no TSM.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use foreign_text::bounded::{ReadError, read_stream};
use initdata::{Field, place};
use rustix::io::Errno;
use zeroize::Zeroizing;

use super::{Evidence, EvidenceError, LABEL, Platform, exists, host_data};

/// The most of a report that is read: as much as the kernel's interface holds. An SNP report has
/// 1184 bytes.
const MAX_OUTBLOB_BYTES: usize = 32 << 10;

/// The most of an attribute of text that is read. The longest number has 20 digits, the longest
/// provider so far 13 letters.
const MAX_TEXT_BYTES: usize = 64;

/// An SEV-SNP guest, by configfs-TSM.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TsmSnp {
    /// The directory of entries, `/sys/kernel/config/tsm/report`.
    pub reports: PathBuf,
}

impl Evidence for TsmSnp {
    fn field(&self) -> Result<Field, EvidenceError> {
        let entry = Entry::create(&self.reports)?;
        let report = entry.report(Platform::Snp, LABEL)?;
        Ok(Field { name: place::SNP.name, bytes: host_data(&report, LABEL)?.to_vec() })
    }
}

/// What the TSM is to this machine.
#[derive(Debug)]
pub enum Tsm {
    /// There is one, by this name.
    Provider(String),
    /// There is none, and why: the end of a sentence about what does not exist.
    Without(String),
}

/// Asks who provides the reports below `reports`.
pub fn look(reports: &Path) -> Result<Tsm, EvidenceError> {
    let shown = reports.display();
    if !exists(reports)? {
        return Ok(Tsm::Without(format!(
            "nor does {shown} (no TSM driver, or configfs is not mounted)"
        )));
    }
    match Entry::create(reports) {
        Ok(entry) => entry.provider().map(Tsm::Provider),
        Err(EvidenceError::Tsm { source, .. }) if is(&source, Errno::NXIO) => {
            Ok(Tsm::Without(format!("and {shown} has no provider")))
        }
        Err(EvidenceError::Tsm { source, .. }) if is(&source, Errno::ROFS) => {
            Ok(Tsm::Without(format!("and {shown} is mounted read-only")))
        }
        Err(error) => Err(error),
    }
}

fn is(error: &io::Error, errno: Errno) -> bool {
    error.raw_os_error() == Some(errno.raw_os_error())
}

/// A request of ours, removed when dropped.
#[derive(Debug)]
struct Entry {
    path: PathBuf,
}

impl Entry {
    /// Makes an entry of this run alone: only one holds the lock of the results.
    fn create(reports: &Path) -> Result<Self, EvidenceError> {
        let path = reports.join("initdata-processor");
        let mut made = fs::create_dir(&path);
        // Of a run that was killed. The kernel removes an entry with all
        // its attributes.
        if matches!(&made, Err(error) if error.kind() == io::ErrorKind::AlreadyExists) {
            made = fs::remove_dir(&path).and_then(|()| fs::create_dir(&path));
        }
        match made {
            Ok(()) => Ok(Self { path }),
            Err(source) => Err(EvidenceError::Tsm { action: "create", path, source }),
        }
    }

    /// The report of `platform` with `user_data` in it.
    fn report(
        &self,
        platform: Platform,
        user_data: &[u8; 64],
    ) -> Result<Zeroizing<Vec<u8>>, EvidenceError> {
        let provider = self.provider()?;
        if provider != platform.provider() {
            return Err(malformed(
                format!("the provider {}", platform.provider()),
                format!("{provider:?}"),
            ));
        }
        let before = self.generation()?;
        self.write("inblob", user_data)?;
        // The write itself cannot fail visibly: the kernel takes the bytes when the file is closed.
        self.expect_generation(before, "after our write")?;
        let report = self.read("outblob", MAX_OUTBLOB_BYTES)?;
        self.expect_generation(before, "after the report was read")?;
        Ok(report)
    }

    /// The name of who makes the reports.
    fn provider(&self) -> Result<String, EvidenceError> {
        let bytes = self.read("provider", MAX_TEXT_BYTES)?;
        Ok(String::from_utf8_lossy(&bytes).trim_end_matches('\n').to_owned())
    }

    /// How often the entry was written to.
    fn generation(&self) -> Result<u64, EvidenceError> {
        let bytes = self.read("generation", MAX_TEXT_BYTES)?;
        let text = String::from_utf8_lossy(&bytes);
        text.trim_end_matches('\n')
            .parse()
            .map_err(|_| malformed("a number in generation", format!("{text:?}")))
    }

    /// That exactly one write came after `before`: ours.
    fn expect_generation(&self, before: u64, when: &str) -> Result<(), EvidenceError> {
        let found = self.generation()?;
        if before.checked_add(1) == Some(found) {
            return Ok(());
        }
        Err(malformed(
            format!("one write since generation {before} {when}"),
            format!("generation {found}"),
        ))
    }

    fn read(&self, attribute: &str, limit: usize) -> Result<Zeroizing<Vec<u8>>, EvidenceError> {
        let path = self.path.join(attribute);
        // The size of an attribute is not that of its content.
        let read = File::open(&path).map_err(ReadError::from);
        match read.and_then(|file| read_stream(file, limit)) {
            Ok(bytes) => Ok(bytes),
            Err(ReadError::TooLong { .. }) => {
                Err(malformed(format!("at most {limit} bytes in {attribute}"), "more"))
            }
            Err(error) => Err(EvidenceError::Tsm { action: "read", path, source: error.into() }),
        }
    }

    fn write(&self, attribute: &str, bytes: &[u8]) -> Result<(), EvidenceError> {
        let path = self.path.join(attribute);
        OpenOptions::new()
            .write(true)
            .open(&path)
            .and_then(|mut file| file.write_all(bytes))
            .map_err(|source| EvidenceError::Tsm { action: "write", path, source })
    }
}

impl Drop for Entry {
    fn drop(&mut self) {
        // Where this fails a request stays that keeps the driver from being unloaded.
        let _ = fs::remove_dir(&self.path);
    }
}

fn malformed(expected: impl Into<String>, found: impl Into<String>) -> EvidenceError {
    EvidenceError::malformed("TSM", expected, found)
}

#[cfg(test)]
mod tests;
