//! What the host announced at launch, as the platform reports it.
//!
//! Seen are SNP and TDX guests whose kernel knows that it is in one. SEV and SEV-ES without SNP report nothing and count
//! as no TEE, as does a guest behind a paravisor that hides the TEE from the kernel (SNP with vTOM, partitioned TDX).

mod sign;
mod snp;
mod tdx;

use std::fmt;
use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::FileTypeExt;
use std::path::{Path, PathBuf};

use linux_sys::sev_guest::ReportError;

use crate::digest::Field;
use crate::paths::Paths;

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
    /// The kernel is in a TEE, but the driver of the report is not there (yet).
    #[error(
        "identify the platform: {sign} tells of {platform}, but {device} does not exist: load the guest driver before this program runs"
    )]
    NoDriver {
        /// "SNP" or "TDX".
        platform: &'static str,
        /// What told.
        sign: PathBuf,
        /// The driver's device.
        device: PathBuf,
    },
    /// It cannot be told whether this is TDX.
    #[error("read the processor's flags from {path}")]
    Flags {
        /// The kernel's list.
        path: PathBuf,
        /// Why.
        source: io::Error,
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
/// [`EvidenceError::TwoPlatforms`], [`EvidenceError::NoDriver`], or something whose existence cannot be told: "no TEE" is
/// an answer only where it is certain, since the kernel parameter then lets unverified initdata pass.
pub fn platform(paths: &Paths) -> Result<Option<Box<dyn Evidence>>, EvidenceError> {
    let snp = paths.dev.join("sev-guest");
    let tdx = paths.dev.join("tdx_guest");
    let missing = |platform, sign, device| EvidenceError::NoDriver {
        platform,
        sign,
        device,
    };
    match (exists(&snp)?, exists(&tdx)?) {
        (true, true) => Err(EvidenceError::TwoPlatforms { snp, tdx }),
        (true, false) => Ok(Some(Box::new(Snp { device: snp }))),
        (false, true) => Ok(Some(Box::new(Tdx { device: tdx }))),
        (false, false) => {
            if let Some(sign) = sign::snp(paths)? {
                return Err(missing("SNP", sign, snp));
            }
            match sign::tdx(paths)? {
                Some(sign) => Err(missing("TDX", sign, tdx)),
                None => Ok(None),
            }
        }
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

    use tempfile::TempDir;

    use super::*;

    /// A machine without a TEE.
    fn machine() -> (TempDir, Paths) {
        let root = tempfile::tempdir().unwrap();
        let paths = Paths::below(root.path());
        fs::create_dir(&paths.dev).unwrap();
        fs::create_dir(root.path().join("proc")).unwrap();
        fs::write(&paths.cpuinfo, "flags\t\t: fpu vme\n").unwrap();
        (root, paths)
    }

    #[test]
    fn the_platform_is_what_the_nodes_say() {
        let (_root, paths) = machine();
        assert!(platform(&paths).unwrap().is_none());

        symlink("/dev/null", paths.dev.join("sev-guest")).unwrap();
        let snp = platform(&paths).unwrap().unwrap();
        assert!(
            matches!(snp.field(), Err(EvidenceError::Snp(_))),
            "/dev/null has no report"
        );

        symlink("/dev/null", paths.dev.join("tdx_guest")).unwrap();
        assert!(matches!(
            platform(&paths),
            Err(EvidenceError::TwoPlatforms { .. })
        ));

        fs::remove_file(paths.dev.join("sev-guest")).unwrap();
        let tdx = platform(&paths).unwrap().unwrap();
        assert!(matches!(tdx.field(), Err(EvidenceError::Tdx(_))));
    }

    #[test]
    fn a_node_that_is_no_device_is_an_error_and_not_an_absent_tee() {
        let (_root, mut paths) = machine();
        let node = paths.dev.join("sev-guest");
        fs::write(&node, "").unwrap();
        let evidence = platform(&paths).unwrap().unwrap();
        assert!(matches!(
            evidence.field(),
            Err(EvidenceError::NotADevice { .. })
        ));

        fs::remove_file(&node).unwrap();
        symlink("nowhere", &node).unwrap();
        let evidence = platform(&paths).unwrap().unwrap();
        assert!(matches!(evidence.field(), Err(EvidenceError::Open { .. })));

        paths.dev = paths.cpuinfo.clone();
        assert!(
            matches!(platform(&paths), Err(EvidenceError::Open { .. })),
            "not a directory is not an answer"
        );
    }

    #[test]
    fn a_tee_whose_driver_is_not_loaded_is_an_error_and_not_an_absent_tee() {
        let (_root, paths) = machine();
        fs::write(&paths.cpuinfo, "flags\t\t: fpu tdx_guest\n").unwrap();
        let error = platform(&paths).unwrap_err();
        assert!(matches!(
            error,
            EvidenceError::NoDriver {
                platform: "TDX",
                ..
            }
        ));
        symlink("/dev/null", paths.dev.join("tdx_guest")).unwrap();
        assert!(platform(&paths).unwrap().is_some());

        let (_root, paths) = machine();
        fs::create_dir_all(paths.platform_devices.join("sev-guest")).unwrap();
        let error = platform(&paths).unwrap_err();
        assert!(matches!(
            error,
            EvidenceError::NoDriver {
                platform: "SNP",
                ..
            }
        ));
        symlink("/dev/null", paths.dev.join("sev-guest")).unwrap();
        assert!(platform(&paths).unwrap().is_some());
    }
}
