//! MRCONFIGID of a TDX guest.
//!
//! Spec: Intel TDX Module ABI, TDREPORT_STRUCT: REPORTMACSTRUCT (256 bytes), TEE_TCB_INFO (239), reserved (17), TDINFO (512).
//! Never a quote: on Linux the quote is handed over by the host.

use std::path::PathBuf;

use linux_sys::tdx_guest::{self, TDREPORT_BYTES};

use super::{Evidence, EvidenceError, LABEL, open_device};
use crate::digest::Field;

/// A TDX guest, by the kernel's `tdx_guest` driver.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tdx {
    /// The device node, `/dev/tdx_guest`.
    pub device: PathBuf,
}

/// REPORTTYPE's first two bytes: type TDX, subtype 0.
const TYPE: [u8; 2] = [0x81, 0];

// Offsets in TDREPORT.
const REPORT_TYPE: usize = 0;
const REPORTDATA: usize = 128;
const TDINFO: usize = 512;
/// Behind ATTRIBUTES (8), XFAM (8) and MRTD (48).
const MRCONFIGID: usize = TDINFO + 8 + 8 + 48;

const _: () = assert!(MRCONFIGID == 576 && MRCONFIGID + 48 <= TDREPORT_BYTES);

impl Evidence for Tdx {
    fn field(&self) -> Result<Field, EvidenceError> {
        let device = open_device(&self.device)?;
        let report = tdx_guest::report(&device, LABEL).map_err(EvidenceError::Tdx)?;
        Ok(Field {
            name: "TDX MRCONFIGID",
            bytes: mr_config_id(&report, LABEL)?.to_vec(),
        })
    }
}

/// MRCONFIGID from the module's answer to a request with `reportdata`.
///
/// # Errors
///
/// [`EvidenceError::Malformed`]; no input causes a panic.
pub fn mr_config_id(
    report: &[u8; TDREPORT_BYTES],
    reportdata: &[u8; 64],
) -> Result<[u8; 48], EvidenceError> {
    let malformed = |expected, found| EvidenceError::Malformed {
        platform: "TDX",
        expected,
        found,
    };
    let found: [u8; 2] = bytes_at(report, REPORT_TYPE);
    if found != TYPE {
        return Err(malformed(
            "type 0x81, subtype 0",
            format!("{:#x}, {}", found[0], found[1]),
        ));
    }
    if bytes_at::<64>(report, REPORTDATA) != *reportdata {
        return Err(malformed("the data of our request", "other data".into()));
    }
    Ok(bytes_at(report, MRCONFIGID))
}

fn bytes_at<const N: usize>(report: &[u8; TDREPORT_BYTES], offset: usize) -> [u8; N] {
    std::array::from_fn(|index| report[offset + index])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report() -> [u8; TDREPORT_BYTES] {
        let mut bytes = [0; TDREPORT_BYTES];
        bytes[0] = 0x81;
        bytes[128..192].copy_from_slice(LABEL);
        bytes[576..624].copy_from_slice(&std::array::from_fn::<u8, 48, _>(|i| i as u8));
        bytes
    }

    #[test]
    fn the_field_is_at_576() {
        let field = mr_config_id(&report(), LABEL).unwrap();
        assert_eq!(field, std::array::from_fn(|i| i as u8));
    }

    #[test]
    fn anything_else_is_no_report() {
        for (name, offset, value) in [
            ("no type", 0, 0),
            ("an SGX report", 0, 0x01),
            ("a subtype", 1, 1),
            ("first byte of the report data", 128, 0),
            ("last byte of the report data", 191, 0),
        ] {
            let mut bytes = report();
            bytes[offset] = value;
            assert!(
                matches!(
                    mr_config_id(&bytes, LABEL),
                    Err(EvidenceError::Malformed { .. })
                ),
                "{name}"
            );
        }
    }
}
