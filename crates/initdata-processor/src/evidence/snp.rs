//! HOSTDATA of an SEV-SNP guest.
//!
//! Spec: AMD 56860, MSG_REPORT_RSP and ATTESTATION_REPORT. Numbers are little endian.

use std::path::PathBuf;

use initdata::{Field, place};
use linux_sys::sev_guest::{self, RESPONSE_BYTES};

use super::{Evidence, EvidenceError, LABEL, bytes_at, open_device};

/// An SEV-SNP guest, by the report ioctl of the kernel's `sev-guest` driver.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Snp {
    /// The device node, `/dev/sev-guest`.
    pub device: PathBuf,
}

/// The privilege level that the report states: the least privileged one, since the firmware takes
/// every level from the kernel's own on, and that is not the first where an SVSM is below the
/// kernel. HOSTDATA does not depend on it.
const VMPL: u32 = 3;

/// The report's size; the same in all versions so far.
const REPORT_BYTES: usize = 1184;

/// The oldest version of the report that a production firmware gives.
const MIN_VERSION: u32 = 2;

// Offsets in the response.
const STATUS: usize = 0;
const REPORT_SIZE: usize = 4;
const REPORT: usize = 32;

// Offsets in the report; the same in all versions so far.
const VERSION: usize = 0;
const REPORT_DATA: usize = 0x50;
const HOST_DATA: usize = 0xc0;

const _: () = assert!(REPORT + REPORT_BYTES <= RESPONSE_BYTES);
const _: () = assert!(HOST_DATA + place::SNP.bytes <= REPORT_BYTES);

impl Evidence for Snp {
    fn field(&self) -> Result<Field, EvidenceError> {
        let device = open_device(&self.device)?;
        let response = sev_guest::report(&device, LABEL, VMPL)?;
        Ok(Field {
            name: place::SNP.name,
            bytes: host_data(report_in(&response)?, LABEL)?.to_vec(),
        })
    }
}

/// The report in a firmware's answer.
///
/// # Errors
///
/// [`EvidenceError::Malformed`]; no input causes a panic.
pub fn report_in(response: &[u8; RESPONSE_BYTES]) -> Result<&[u8], EvidenceError> {
    let status = u32::from_le_bytes(bytes_at(response, STATUS));
    if status != 0 {
        return Err(EvidenceError::malformed("SNP", "status 0", format!("{status:#x}")));
    }
    let size = u32::from_le_bytes(bytes_at(response, REPORT_SIZE));
    if usize::try_from(size) != Ok(REPORT_BYTES) {
        return Err(EvidenceError::malformed("SNP", "1184 bytes", size.to_string()));
    }
    Ok(&response[REPORT..REPORT + REPORT_BYTES])
}

/// HOSTDATA from the report to a request with `user_data`.
///
/// # Errors
///
/// [`EvidenceError::Malformed`]; no input causes a panic.
pub fn host_data(
    report: &[u8],
    user_data: &[u8; 64],
) -> Result<[u8; place::SNP.bytes], EvidenceError> {
    let report: &[u8; REPORT_BYTES] = report
        .try_into()
        .map_err(|_| EvidenceError::malformed("SNP", "1184 bytes", report.len().to_string()))?;
    let version = u32::from_le_bytes(bytes_at(report, VERSION));
    if version < MIN_VERSION {
        return Err(EvidenceError::malformed("SNP", "version 2 or later", version.to_string()));
    }
    if bytes_at::<64, _>(report, REPORT_DATA) != *user_data {
        return Err(EvidenceError::malformed("SNP", "the data of our request", "other data"));
    }
    Ok(bytes_at(report, HOST_DATA))
}

#[cfg(test)]
mod tests {
    use super::super::samples::{self, Sample};
    use super::*;

    #[test]
    fn the_field_is_the_published_one_in_every_version() {
        for version in [2, 3, 5] {
            let sample = samples::snp_report(version);
            let field = host_data(&sample.bytes, LABEL).unwrap();
            assert_eq!(field, sample.field("HOST_DATA"), "version {version}");
            let response = samples::snp_response(&sample);
            assert_eq!(report_in(&response).unwrap(), sample.bytes);
        }
    }

    /// Nothing but these fields matters, and each bit of them does.
    #[test]
    fn every_changed_bit_of_what_is_checked_shows() {
        let good = samples::snp_report(2);
        let field = host_data(&good.bytes, LABEL).unwrap();
        for offset in 0..good.bytes.len() {
            for bit in 0..8 {
                let mut bytes = good.bytes.clone();
                bytes[offset] ^= 1 << bit;
                let found = host_data(&bytes, LABEL).ok();
                let name = good.name_at(offset);
                match name {
                    "REPORT_DATA" => assert_eq!(found, None, "{offset:#x}"),
                    "HOST_DATA" => assert!(found.is_some_and(|f| f != field), "{offset:#x}"),
                    // Version 0, of all the neighbours of 2, is too old.
                    "VERSION" => assert_eq!(found.is_none(), offset == 0 && bit == 1),
                    _ => assert_eq!(found, Some(field), "{name} at {offset:#x}"),
                }
            }
        }
    }

    #[test]
    fn old_versions_are_refused() {
        for (version, good) in [(0, false), (1, false), (2, true), (4, true), (u32::MAX, true)] {
            let mut sample = samples::snp_report(2);
            sample.set("VERSION", &version.to_le_bytes());
            assert_eq!(host_data(&sample.bytes, LABEL).is_ok(), good, "{version}");
        }
    }

    #[test]
    fn only_the_exact_length_is_a_report() {
        let Sample { mut bytes, .. } = samples::snp_report(2);
        for length in [0, 4, 0x90, 0xe0, 1183] {
            let error = host_data(&bytes[..length], LABEL).unwrap_err().to_string();
            let expected = format!("expected 1184 bytes, found {length}");
            assert!(error.ends_with(&expected), "{error}");
        }
        bytes.push(0);
        assert!(host_data(&bytes, LABEL).is_err());
    }

    #[test]
    fn the_answer_must_be_good_and_of_the_right_size() {
        let good = samples::snp_response(&samples::snp_report(2));
        for (name, offset, value) in [
            ("status", 0, 0x16),
            ("status, high byte", 3, 1),
            ("size 0", 4, 0),
            ("size 1183", 4, 0x9f),
            ("size 1185", 4, 0xa1),
            ("size with a high bit", 7, 0x80),
        ] {
            let mut bytes = good.clone();
            bytes[offset] = value;
            if name == "size 0" {
                bytes[5] = 0;
            }
            assert!(matches!(report_in(&bytes), Err(EvidenceError::Malformed { .. })), "{name}");
        }
    }
}
