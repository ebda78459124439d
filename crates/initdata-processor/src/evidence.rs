//! What the host announced at launch, as the platform reports it.

mod snp;
mod tdx;

use std::fmt;
use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::FileTypeExt;
use std::path::{Path, PathBuf};

use linux_sys::sev_guest::ReportError;

use crate::digest::Field;

pub use snp::{Snp, host_data};
pub use tdx::{Tdx, mr_config_id};

/// A platform that reports, without the host's help, what the host announced at launch.
pub trait Evidence: fmt::Debug {
    /// The announced field.
    ///
    /// # Errors
    ///
    /// [`EvidenceError`]. Nothing is retried: both platforms answer locally.
    fn field(&self) -> Result<Field, EvidenceError>;
}

/// Why there is no evidence.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum EvidenceError {
    /// Two platforms at once: one of them is not what it says.
    #[error("identify the platform: both {snp} and {tdx} exist")]
    TwoPlatforms {
        /// The SNP device.
        snp: PathBuf,
        /// The TDX device.
        tdx: PathBuf,
    },
    /// The device is there but is not usable.
    #[error("open {path}")]
    Open {
        /// The device.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// The node is something else than the driver's character device.
    #[error("open {path}: it is not a character device")]
    NotADevice {
        /// The node.
        path: PathBuf,
    },
    /// The SNP firmware gave no report.
    #[error("read the SNP report")]
    Snp(#[from] ReportError),
    /// The TDX module gave no report.
    #[error("read the TDX report: TDX_CMD_GET_REPORT0")]
    Tdx(#[source] io::Error),
    /// The report is not one.
    #[error("read the {platform} report: expected {expected}, found {found}")]
    Malformed {
        /// "SNP" or "TDX".
        platform: &'static str,
        /// The field and its legal value.
        expected: &'static str,
        /// What stands there.
        found: String,
    },
}

/// Sent with each request; the report must carry it.
///
/// Not a nonce: nobody but this process sees the report, and the channel to the firmware is sequenced. It shows that
/// the report is where the layout says it is.
const LABEL: &[u8; 64] = b"initdata-processor: the field that the host announced at launch.";

/// The platform that this machine is, by the device nodes that the kernel's guest drivers make; `None` without a TEE.
///
/// # Errors
///
/// [`EvidenceError::TwoPlatforms`], or a node whose existence cannot be told.
pub fn platform(dev: &Path) -> Result<Option<Box<dyn Evidence>>, EvidenceError> {
    let snp = dev.join("sev-guest");
    let tdx = dev.join("tdx_guest");
    match (exists(&snp)?, exists(&tdx)?) {
        (true, true) => Err(EvidenceError::TwoPlatforms { snp, tdx }),
        (true, false) => Ok(Some(Box::new(Snp { device: snp }))),
        (false, true) => Ok(Some(Box::new(Tdx { device: tdx }))),
        (false, false) => Ok(None),
    }
}

fn exists(path: &Path) -> Result<bool, EvidenceError> {
    match fs::symlink_metadata(path) {
        Ok(_) => Ok(true),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
        Err(source) => Err(EvidenceError::Open {
            path: path.to_owned(),
            source,
        }),
    }
}

fn open_device(path: &Path) -> Result<File, EvidenceError> {
    let failed = |source| EvidenceError::Open {
        path: path.to_owned(),
        source,
    };
    // Looked at before the open: opening a FIFO would wait for its other end.
    let is_device = |metadata: fs::Metadata| metadata.file_type().is_char_device();
    if !is_device(fs::metadata(path).map_err(failed)?) {
        return Err(EvidenceError::NotADevice {
            path: path.to_owned(),
        });
    }
    OpenOptions::new()
        .read(true)
        .write(true)
        .open(path)
        .map_err(failed)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn the_platform_is_what_the_nodes_say() {
        let dev = tempfile::tempdir().unwrap();
        assert!(platform(dev.path()).unwrap().is_none());

        symlink("/dev/null", dev.path().join("sev-guest")).unwrap();
        let snp = platform(dev.path()).unwrap().unwrap();
        assert!(
            matches!(snp.field(), Err(EvidenceError::Snp(_))),
            "/dev/null has no report"
        );

        symlink("/dev/null", dev.path().join("tdx_guest")).unwrap();
        assert!(matches!(
            platform(dev.path()),
            Err(EvidenceError::TwoPlatforms { .. })
        ));

        fs::remove_file(dev.path().join("sev-guest")).unwrap();
        let tdx = platform(dev.path()).unwrap().unwrap();
        assert!(matches!(tdx.field(), Err(EvidenceError::Tdx(_))));
    }

    #[test]
    fn a_node_that_is_no_device_is_an_error_and_not_an_absent_tee() {
        let dev = tempfile::tempdir().unwrap();
        let node = dev.path().join("sev-guest");
        fs::write(&node, "").unwrap();
        let evidence = platform(dev.path()).unwrap().unwrap();
        assert!(matches!(
            evidence.field(),
            Err(EvidenceError::NotADevice { .. })
        ));

        fs::remove_file(&node).unwrap();
        symlink("nowhere", &node).unwrap();
        let evidence = platform(dev.path()).unwrap().unwrap();
        assert!(matches!(evidence.field(), Err(EvidenceError::Open { .. })));

        let unreadable = dev.path().join("file");
        fs::write(&unreadable, "").unwrap();
        assert!(
            platform(&unreadable).is_err(),
            "not a directory is not an answer"
        );
    }
}
