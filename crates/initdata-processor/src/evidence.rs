//! What the host announced at launch, as the platform reports it.
//!
//! The platform is what the kernel's signs say, and every driver must agree with them: a machine
//! that is two things at once, or answers like something that it gives no sign of being, is
//! refused, with both sides named. Only then is a driver asked, and only one:
//!
//! - SNP: the report ioctl of `/dev/sev-guest` ([`Snp`]), else the kernel's TSM reports in configfs
//!   ([`TsmSnp`]). The ioctl comes first because every kernel with SNP guests has it, it needs no
//!   mount, leaves nothing behind, and does not fetch the host's certificates along with the
//!   report, as TSM does. Asking both would prove nothing: it is one driver with one channel to one
//!   firmware, which answers only so many requests in a time.
//! - TDX: the TDREPORT ioctl of `/dev/tdx_guest` ([`Tdx`]), and nothing else: TSM gives a quote
//!   there, and quotes are handed over by the host.
//!
//! Seen are SNP and TDX guests whose kernel knows that it is in one. SEV and SEV-ES without SNP
//! report nothing and count as no TEE, as does a guest behind a paravisor that hides the TEE from
//! the kernel (SNP with vTOM, partitioned TDX).

mod error;
mod platform;
#[cfg(test)]
mod samples;
mod sign;
mod snp;
mod tdx;
mod tsm;

use std::fmt;
use std::fs::{self, File};
use std::io;
use std::path::Path;

use initdata::Field;
use rustix::fs::{FileType, Mode, OFlags, fstat, open};

use crate::paths::Paths;
use platform::agreed;
use tsm::Tsm;

pub use error::EvidenceError;
pub use platform::{Driver, Platform, Sign};
pub use snp::{Snp, host_data, report_in};
pub use tdx::{Tdx, mr_config_id};
pub use tsm::TsmSnp;

/// A platform that reports, without the host's help, what the host announced at launch.
pub trait Evidence: fmt::Debug {
    /// The announced field.
    ///
    /// # Errors
    ///
    /// [`EvidenceError`]. Nothing is retried: both platforms answer locally.
    fn field(&self) -> Result<Field, EvidenceError>;
}

/// Sent with each request; the report must carry it.
///
/// Not a nonce: only this process sees the report, and the channel to the firmware is
/// sequenced. It shows that the report is where the layout says it is.
pub const LABEL: &[u8; 64] = b"initdata-processor: the field that the host announced at launch.";

/// The platform that this machine is, ready to be asked; `None` without a TEE.
///
/// Looks at sysfs, `/proc/cpuinfo`, the device nodes and, where TSM reports are there, the TSM's
/// provider, for which an entry is made and removed.
///
/// # Errors
///
/// [`EvidenceError`]: a contradiction, a missing driver, or a file that cannot be looked at. "No
/// TEE" is answered only where it is certain, because a guest then goes on without initdata, or
/// with unverified initdata by the kernel parameter.
pub fn platform(paths: &Paths) -> Result<Option<Box<dyn Evidence>>, EvidenceError> {
    let signs = sign::all(paths)?;
    let mut drivers = Vec::new();
    for platform in Platform::ALL {
        let device = paths.dev.join(platform.device());
        if exists(&device)? {
            drivers.push(Driver::device(platform, &device));
        }
    }
    let tsm = tsm::look(&paths.tsm_reports)?;
    if let Tsm::Provider(name) = &tsm {
        drivers.push(Driver::provider(name));
    }
    let Some(sign) = agreed(signs, &drivers)? else {
        return Ok(None);
    };
    let device = paths.dev.join(sign.platform.device());
    let has_device = drivers.iter().any(|driver| driver.is_device);
    match (sign.platform, tsm) {
        (Platform::Snp, _) if has_device => Ok(Some(Box::new(Snp { device }))),
        (Platform::Tdx, _) if has_device => Ok(Some(Box::new(Tdx { device }))),
        (Platform::Snp, Tsm::Provider(_)) => {
            Ok(Some(Box::new(TsmSnp { reports: paths.tsm_reports.clone() })))
        }
        (Platform::Snp, Tsm::Without(why)) => Err(EvidenceError::NoDriver {
            missing: format!("{} does not exist, {why}", device.display()),
            sign,
        }),
        (Platform::Tdx, _) => Err(EvidenceError::NoDriver {
            missing: format!("{} does not exist", device.display()),
            sign,
        }),
    }
}

fn exists(path: &Path) -> Result<bool, EvidenceError> {
    match fs::symlink_metadata(path) {
        Ok(_) => Ok(true),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
        Err(source) => Err(EvidenceError::Open(path.to_owned(), source)),
    }
}

fn open_device(path: &Path) -> Result<File, EvidenceError> {
    let failed = |source| EvidenceError::Open(path.to_owned(), source);
    // For reading and writing: then not even a FIFO waits for its other end.
    let flags = OFlags::RDWR | OFlags::NOCTTY | OFlags::CLOEXEC;
    let device = open(path, flags, Mode::empty()).map_err(|errno| failed(errno.into()))?;
    let stat = fstat(&device).map_err(|errno| failed(errno.into()))?;
    match FileType::from_raw_mode(stat.st_mode) {
        FileType::CharacterDevice => Ok(File::from(device)),
        _ => Err(failed(io::Error::other("it is not a character device"))),
    }
}

/// The field at `offset` of a report.
fn bytes_at<const N: usize, const M: usize>(report: &[u8; M], offset: usize) -> [u8; N] {
    std::array::from_fn(|index| report[offset + index])
}

#[cfg(test)]
mod tests;
