//! HOSTDATA of an SEV-SNP guest.
//!
//! Spec: AMD 56860, MSG_REPORT_RSP and ATTESTATION_REPORT. Numbers are little endian.

use std::path::PathBuf;

use linux_sys::sev_guest::{self, RESPONSE_BYTES};

use super::{Evidence, EvidenceError, LABEL, open_device};
use crate::digest::Field;

/// An SEV-SNP guest, by the kernel's `sev-guest` driver.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Snp {
    /// The device node, `/dev/sev-guest`.
    pub device: PathBuf,
}

/// The privilege level that the report states: the most privileged one, at which a guest's kernel runs unless an SVSM is
/// below it. HOSTDATA does not depend on it.
const VMPL: u32 = 0;

/// The report's size; the same in all versions so far.
const REPORT_BYTES: usize = 1184;

/// The oldest version of the report that a production firmware gives.
const MIN_VERSION: u32 = 2;

// Offsets in the response, then in the report.
const STATUS: usize = 0;
const REPORT_SIZE: usize = 4;
const REPORT: usize = 32;
const VERSION: usize = REPORT;
const REPORT_DATA: usize = REPORT + 0x50;
const HOST_DATA: usize = REPORT + 0xc0;

const _: () = assert!(REPORT + REPORT_BYTES <= RESPONSE_BYTES);
const _: () = assert!(HOST_DATA + 32 <= REPORT + REPORT_BYTES);

impl Evidence for Snp {
    fn field(&self) -> Result<Field, EvidenceError> {
        let device = open_device(&self.device)?;
        let response = sev_guest::report(&device, LABEL, VMPL)?;
        Ok(Field {
            name: "SNP HOSTDATA",
            bytes: host_data(&response, LABEL)?.to_vec(),
        })
    }
}

/// HOSTDATA from a firmware's answer to a request with `user_data`.
///
/// # Errors
///
/// [`EvidenceError::Malformed`]; no input causes a panic.
pub fn host_data(
    response: &[u8; RESPONSE_BYTES],
    user_data: &[u8; 64],
) -> Result<[u8; 32], EvidenceError> {
    let malformed = |expected, found| EvidenceError::Malformed {
        platform: "SNP",
        expected,
        found,
    };
    let status = u32::from_le_bytes(bytes_at(response, STATUS));
    if status != 0 {
        return Err(malformed("status 0", format!("{status:#x}")));
    }
    let size = u32::from_le_bytes(bytes_at(response, REPORT_SIZE));
    if usize::try_from(size) != Ok(REPORT_BYTES) {
        return Err(malformed("1184 bytes", size.to_string()));
    }
    let version = u32::from_le_bytes(bytes_at(response, VERSION));
    if version < MIN_VERSION {
        return Err(malformed("version 2 or later", version.to_string()));
    }
    if bytes_at::<64>(response, REPORT_DATA) != *user_data {
        return Err(malformed("the data of our request", "other data".into()));
    }
    Ok(bytes_at(response, HOST_DATA))
}

fn bytes_at<const N: usize>(response: &[u8; RESPONSE_BYTES], offset: usize) -> [u8; N] {
    std::array::from_fn(|index| response[offset + index])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn response() -> Box<[u8; RESPONSE_BYTES]> {
        let mut bytes = Box::new([0; RESPONSE_BYTES]);
        bytes[4..8].copy_from_slice(&1184_u32.to_le_bytes());
        bytes[32] = 2;
        bytes[32 + 0x50..32 + 0x90].copy_from_slice(LABEL);
        bytes[32 + 0xc0..32 + 0xe0].copy_from_slice(&std::array::from_fn::<u8, 32, _>(|i| i as u8));
        bytes
    }

    #[test]
    fn the_field_is_at_0xc0_of_the_report() {
        let field = host_data(&response(), LABEL).unwrap();
        assert_eq!(field, std::array::from_fn(|i| i as u8));
    }

    #[test]
    fn anything_else_is_no_report() {
        for (name, offset, value) in [
            ("status", 0, 0x16),
            ("status, high byte", 3, 1),
            ("size too small", 4, 0),
            ("size with a high bit", 7, 0x80),
            ("version 0", 32, 0),
            ("version 1", 32, 1),
            ("first byte of the report data", 32 + 0x50, 0),
            ("last byte of the report data", 32 + 0x8f, 0),
        ] {
            let mut bytes = response();
            bytes[offset] = value;
            assert!(
                matches!(
                    host_data(&bytes, LABEL),
                    Err(EvidenceError::Malformed { .. })
                ),
                "{name}"
            );
        }
        let mut newer = response();
        newer[32] = 5;
        host_data(&newer, LABEL).unwrap();
    }
}
