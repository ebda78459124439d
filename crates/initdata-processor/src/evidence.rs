//! The field that the host announced at launch, as the TEE reports it.
//!
//! - SNP: HOSTDATA, by the report ioctl of `/dev/sev-guest`. Spec: AMD 56860, MSG_REPORT_RSP and
//!   ATTESTATION_REPORT. Every kernel with SNP guests has the ioctl; it needs no mount, and the
//!   host's certificates do not come with the report.
//! - TDX: MRCONFIGID, by the TDREPORT ioctl of `/dev/tdx_guest`. Spec: Intel TDX Module ABI,
//!   TDREPORT_STRUCT: REPORTMACSTRUCT (256 bytes), TEE_TCB_INFO (239), reserved (17), TDINFO (512).
//!   Never a quote: on Linux the quote is handed over by the host.
//!
//! "No TEE" is believed only where the kernel shows no sign of one and has no driver of one: a
//! guest then goes on without initdata, or with unverified initdata by the kernel parameter. A host
//! can pretend the signs, which ends in a refusal, but not take them away.
//!
//! Seen are SNP and TDX guests whose kernel knows that it is in one. SEV and SEV-ES without SNP
//! report nothing and count as no TEE, as does a guest behind a paravisor that hides the TEE from
//! the kernel (SNP with vTOM, partitioned TDX).
//!
//! Numbers in both reports are little endian.

use std::fs::{self, File};
use std::io::{self, BufRead, BufReader, Read};
use std::path::{Path, PathBuf};

use initdata::{Field, place};
use linux_sys::sev_guest::{self, RESPONSE_BYTES};
use linux_sys::tdx_guest::{self, TDREPORT_BYTES};
use rustix::fs::{FileType, Mode, OFlags, fstat, open};

use crate::error::{Error, refused};
use crate::paths::Paths;

/// Sent with each request; the report must carry it.
///
/// Not a nonce: only this process sees the report, and the channel to the firmware is sequenced. It
/// shows that the report is where the layout says it is.
pub const LABEL: &[u8; 64] = b"initdata-processor: the field that the host announced at launch.";

/// The privilege level that the SNP report states: the least privileged one, since the firmware
/// takes every level from the kernel's own on, and that is not the first where an SVSM is below the
/// kernel. HOSTDATA does not depend on it.
const VMPL: u32 = 3;

/// The SNP report's size; the same in all versions so far.
const SNP_REPORT_BYTES: usize = 1184;

/// The oldest version of the SNP report that a production firmware gives.
const MIN_SNP_VERSION: u32 = 2;

// Offsets in the SNP response, and in the report in it.
const STATUS: usize = 0;
const REPORT_SIZE: usize = 4;
const REPORT: usize = 32;
const VERSION: usize = 0;
const REPORT_DATA: usize = 0x50;
const HOST_DATA: usize = 0xc0;

/// REPORTTYPE's first two bytes: type TDX, subtype 0.
const TDX_TYPE: [u8; 2] = [0x81, 0];

// Offsets in TDREPORT; MRCONFIGID is behind ATTRIBUTES (8), XFAM (8) and MRTD (48).
const REPORT_TYPE: usize = 0;
const REPORTDATA: usize = 128;
const TDINFO: usize = 512;
const MRCONFIGID: usize = TDINFO + 8 + 8 + 48;

const _: () = assert!(REPORT + SNP_REPORT_BYTES <= RESPONSE_BYTES);
const _: () = assert!(HOST_DATA + place::SNP.bytes <= SNP_REPORT_BYTES);
const _: () = assert!(MRCONFIGID == 576 && MRCONFIGID + place::TDX.bytes <= TDREPORT_BYTES);

/// The most of the list of processors that is read. The first one's flags end after a few
/// kilobytes, and all have the same.
const MAX_CPUINFO_BYTES: u64 = 64 << 10;

/// How much of it is read at once: less than the first processor, so that the kernel does not list
/// more of them.
const CHUNK_BYTES: usize = 1024;

/// What the kernel shows of one TEE.
#[derive(Debug)]
struct Seen {
    name: &'static str,
    /// Where its sign is looked for, in messages.
    place: String,
    /// Whether the kernel knows that it is in one.
    has_sign: bool,
    /// The node of the driver of the report.
    device: PathBuf,
    has_device: bool,
}

/// The field that the host announced; `None` without a TEE.
///
/// # Errors
///
/// A contradiction, a missing driver, a file that cannot be looked at, or no usable report. Nothing
/// is retried: both platforms answer locally.
pub fn field(paths: &Paths) -> Result<Option<Field>, Error> {
    let seen = [snp(paths)?, tdx(paths)?];
    let Some(tee) = agreed(&seen)? else {
        return Ok(None);
    };
    let device = open_device(&tee.device)?;
    let (place, bytes) = if tee.name == "SNP" {
        let response = sev_guest::report(&device, LABEL, VMPL)
            .map_err(|error| refused("read the SNP report").because(error))?;
        (place::SNP, host_data(report_in(&response)?)?.to_vec())
    } else {
        let report = tdx_guest::report(&device, LABEL)
            .map_err(|error| refused("read the TDX report: TDX_CMD_GET_REPORT0").because(error))?;
        (place::TDX, mr_config_id(&report)?.to_vec())
    };
    Ok(Some(Field { name: place.name, bytes }))
}

/// The sign of an SNP guest: the platform device that the kernel itself, not the driver, registers
/// where SEV_STATUS says so.
///
/// Source: Linux `arch/x86/coco/sev/core.c`, since 5.19, the first with SNP guests. Not CPUID: leaf
/// 0x8000001f tells what the processor can do, also to a guest that has none of it, and only the
/// kernel may read SEV_STATUS.
fn snp(paths: &Paths) -> Result<Seen, Error> {
    let sign = paths.platform_devices.join("sev-guest");
    let has_sign = exists(&sign)?;
    see("SNP", sign.display().to_string(), has_sign, paths.dev.join("sev-guest"))
}

/// The sign of a TDX guest: the flag that the kernel sets where CPUID leaf 0x21 holds the TDX
/// module's signature.
///
/// Source: Linux `arch/x86/coco/tdx/tdx.c`, since 5.19, the first with TDX guests. That leaf could
/// be read here as well, and would add nothing: the kernel asked the same instruction before
/// anything else ran, in a real TDX guest the TDX module answers it both times, and in any other
/// guest the host may answer it as it likes, both times.
fn tdx(paths: &Paths) -> Result<Seen, Error> {
    let cpuinfo = &paths.cpuinfo;
    let has_sign = File::open(cpuinfo)
        .and_then(|file| has_tdx_flag(file.take(MAX_CPUINFO_BYTES)))
        .map_err(|source| {
            refused(format!("read the processor's flags from {}", cpuinfo.display()))
                .because(source)
        })?;
    let place = format!("the flag tdx_guest in {}", cpuinfo.display());
    see("TDX", place, has_sign, paths.dev.join("tdx_guest"))
}

fn see(name: &'static str, place: String, has_sign: bool, device: PathBuf) -> Result<Seen, Error> {
    let has_device = exists(&device)?;
    Ok(Seen { name, place, has_sign, device, has_device })
}

/// The TEE that signs and drivers agree on; `None` where there is neither.
fn agreed(seen: &[Seen]) -> Result<Option<&Seen>, Error> {
    let identify = |text: String| refused(format!("identify the platform: {text}"));
    let tells = |tee: &Seen| format!("{} tells of {}", tee.place, tee.name);
    let drives = |tee: &Seen| format!("{} is the driver of {}", tee.device.display(), tee.name);
    let mut signs = seen.iter().filter(|tee| tee.has_sign);
    let mut drivers = seen.iter().filter(|tee| tee.has_device);
    let Some(tee) = signs.next() else {
        let drivers: Vec<_> = drivers.map(drives).collect();
        let places: Vec<_> = seen.iter().map(|tee| tee.place.as_str()).collect();
        return match drivers.is_empty() {
            true => Ok(None),
            false => Err(identify(format!(
                "{}, but the kernel gives no sign of a TEE: neither {}",
                drivers.join(" and "),
                places.join(" nor ")
            ))),
        };
    };
    if let Some(second) = signs.next() {
        return Err(identify(format!("{}, but {}", tells(tee), tells(second))));
    }
    if let Some(other) = drivers.find(|other| other.name != tee.name) {
        return Err(identify(format!("{}, but {}", tells(tee), drives(other))));
    }
    if !tee.has_device {
        return Err(identify(format!(
            "{}, but {} does not exist: load the guest driver before this program runs",
            tells(tee),
            tee.device.display()
        )));
    }
    Ok(Some(tee))
}

/// Whether the first processor in `cpuinfo` has the flag; without any flag this is not an answer.
fn has_tdx_flag(cpuinfo: impl Read) -> io::Result<bool> {
    for line in BufReader::with_capacity(CHUNK_BYTES, cpuinfo).split(b'\n') {
        let line = line?;
        let text = String::from_utf8_lossy(&line);
        let value = text.strip_prefix("flags").map(str::trim_start);
        let Some(flags) = value.and_then(|value| value.strip_prefix(':')) else {
            continue;
        };
        let mut flags = flags.split_ascii_whitespace().peekable();
        if flags.peek().is_some() {
            return Ok(flags.any(|flag| flag == "tdx_guest"));
        }
    }
    Err(io::Error::new(io::ErrorKind::InvalidData, "expected a line of flags, found none"))
}

fn exists(path: &Path) -> Result<bool, Error> {
    match fs::symlink_metadata(path) {
        Ok(_) => Ok(true),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
        Err(source) => Err(unopened(path, source)),
    }
}

fn unopened(path: &Path, source: impl Into<io::Error>) -> Error {
    refused(format!("open {}", path.display())).because(source.into())
}

fn open_device(path: &Path) -> Result<File, Error> {
    // For reading and writing: then not even a FIFO waits for its other end.
    let flags = OFlags::RDWR | OFlags::NOCTTY | OFlags::CLOEXEC;
    let opened = open(path, flags, Mode::empty()).and_then(|fd| fstat(&fd).map(|stat| (fd, stat)));
    let (device, stat) = opened.map_err(|errno| unopened(path, errno))?;
    match FileType::from_raw_mode(stat.st_mode) {
        FileType::CharacterDevice => Ok(File::from(device)),
        _ => Err(unopened(path, io::Error::other("it is not a character device"))),
    }
}

/// The report in the SNP firmware's answer.
///
/// # Errors
///
/// It is no good answer; no input causes a panic.
pub fn report_in(response: &[u8; RESPONSE_BYTES]) -> Result<&[u8], Error> {
    let status = number_at(response, STATUS);
    if status != 0 {
        return Err(malformed("SNP", "status 0", &format!("{status:#x}")));
    }
    let size = number_at(response, REPORT_SIZE);
    if usize::try_from(size) != Ok(SNP_REPORT_BYTES) {
        return Err(malformed("SNP", "1184 bytes", &size.to_string()));
    }
    Ok(&response[REPORT..REPORT + SNP_REPORT_BYTES])
}

/// HOSTDATA from the report to a request with [`LABEL`].
///
/// # Errors
///
/// It is no such report; no input causes a panic.
pub fn host_data(report: &[u8]) -> Result<[u8; place::SNP.bytes], Error> {
    let report: &[u8; SNP_REPORT_BYTES] =
        report.try_into().map_err(|_| malformed("SNP", "1184 bytes", &report.len().to_string()))?;
    let version = number_at(report, VERSION);
    if version < MIN_SNP_VERSION {
        return Err(malformed("SNP", "version 2 or later", &version.to_string()));
    }
    if bytes_at(report, REPORT_DATA) != *LABEL {
        return Err(malformed("SNP", "the data of our request", "other data"));
    }
    Ok(bytes_at(report, HOST_DATA))
}

/// MRCONFIGID from the TDX module's answer to a request with [`LABEL`].
///
/// # Errors
///
/// It is no such report; no input causes a panic.
pub fn mr_config_id(report: &[u8; TDREPORT_BYTES]) -> Result<[u8; place::TDX.bytes], Error> {
    let found: [u8; 2] = bytes_at(report, REPORT_TYPE);
    if found != TDX_TYPE {
        let found = format!("{:#x}, {}", found[0], found[1]);
        return Err(malformed("TDX", "type 0x81, subtype 0", &found));
    }
    if bytes_at(report, REPORTDATA) != *LABEL {
        return Err(malformed("TDX", "the data of our request", "other data"));
    }
    Ok(bytes_at(report, MRCONFIGID))
}

fn malformed(platform: &str, expected: &str, found: &str) -> Error {
    refused(format!("read the {platform} report: expected {expected}, found {found}"))
}

/// The field at `offset` of a report.
fn bytes_at<const N: usize, const M: usize>(report: &[u8; M], offset: usize) -> [u8; N] {
    std::array::from_fn(|index| report[offset + index])
}

fn number_at<const M: usize>(report: &[u8; M], offset: usize) -> u32 {
    u32::from_le_bytes(bytes_at(report, offset))
}

#[cfg(test)]
mod samples;
#[cfg(test)]
mod tests;
