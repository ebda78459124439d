//! Why there is no evidence.

use std::io;
use std::path::PathBuf;

use linux_sys::sev_guest::ReportError;

use super::{Driver, Sign};

/// Why there is no evidence.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum EvidenceError {
    /// There are signs of two platforms, and one of them must be false.
    #[error("identify the platform: {first}, but {second}")]
    TwoPlatforms {
        /// One sign.
        first: Sign,
        /// Another.
        second: Sign,
    },
    /// A driver of something else than what the machine is.
    #[error("identify the platform: {sign}, but {driver}")]
    OtherDriver {
        /// What the machine is.
        sign: Sign,
        /// The driver.
        driver: Driver,
    },
    /// A driver answers, but the machine is no TEE.
    #[error(
        "identify the platform: {drivers}, but the kernel gives no sign of a TEE: neither {snp} \
        nor the flag tdx_guest in {tdx}"
    )]
    NoSign {
        /// All drivers.
        drivers: String,
        /// Where the sign of SNP would be.
        snp: PathBuf,
        /// Where the sign of TDX would be.
        tdx: PathBuf,
    },
    /// The kernel is in a TEE, but the driver of the report is not there (yet).
    #[error(
        "identify the platform: {sign}, but {missing}: load the guest driver before this program \
        runs"
    )]
    NoDriver {
        /// What the machine is.
        sign: Sign,
        /// What was looked for.
        missing: String,
    },
    /// The list of processors at this path cannot be read, so TDX can be neither seen nor ruled
    /// out.
    #[error("read the processor's flags from {0}")]
    Flags(PathBuf, #[source] io::Error),
    /// The device is there but is not usable, or is not a character device.
    #[error("open {0}")]
    Open(PathBuf, #[source] io::Error),
    /// The SNP firmware gave no report.
    #[error("read the SNP report")]
    Snp(#[from] ReportError),
    /// The TDX module gave no report.
    #[error("read the TDX report: TDX_CMD_GET_REPORT0")]
    Tdx(#[source] io::Error),
    /// The kernel's TSM reports cannot be used.
    #[error("read the TSM report: {action} {path}")]
    Tsm {
        /// "create", "read" or "write".
        action: &'static str,
        /// The entry or its attribute.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// The report is not one.
    #[error("read the {platform} report: expected {expected}, found {found}")]
    Malformed {
        /// "SNP", "TDX" or "TSM".
        platform: &'static str,
        /// The field and its legal value.
        expected: String,
        /// What stands there.
        found: String,
    },
}

impl EvidenceError {
    pub(super) fn malformed(
        platform: &'static str,
        expected: impl Into<String>,
        found: impl Into<String>,
    ) -> Self {
        Self::Malformed { platform, expected: expected.into(), found: found.into() }
    }
}
