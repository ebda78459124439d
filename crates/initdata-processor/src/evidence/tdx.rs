//! MRCONFIGID of a TDX guest.
//!
//! Spec: Intel TDX Module ABI, TDREPORT_STRUCT: REPORTMACSTRUCT (256 bytes), TEE_TCB_INFO (239),
//! reserved (17), TDINFO (512). Never a quote: on Linux the quote is handed over by the host.

use std::path::PathBuf;

use initdata::{Field, place};
use linux_sys::tdx_guest::{self, TDREPORT_BYTES};

use super::{Evidence, EvidenceError, LABEL, bytes_at, open_device};

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

const _: () = assert!(MRCONFIGID == 576 && MRCONFIGID + place::TDX.bytes <= TDREPORT_BYTES);

impl Evidence for Tdx {
    fn field(&self) -> Result<Field, EvidenceError> {
        let device = open_device(&self.device)?;
        let report = tdx_guest::report(&device, LABEL).map_err(EvidenceError::Tdx)?;
        Ok(Field { name: place::TDX.name, bytes: mr_config_id(&report, LABEL)?.to_vec() })
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
) -> Result<[u8; place::TDX.bytes], EvidenceError> {
    let found: [u8; 2] = bytes_at(report, REPORT_TYPE);
    if found != TYPE {
        return Err(EvidenceError::malformed(
            "TDX",
            "type 0x81, subtype 0",
            format!("{:#x}, {}", found[0], found[1]),
        ));
    }
    if bytes_at::<64, _>(report, REPORTDATA) != *reportdata {
        return Err(EvidenceError::malformed("TDX", "the data of our request", "other data"));
    }
    Ok(bytes_at(report, MRCONFIGID))
}

#[cfg(test)]
mod tests {
    use super::super::samples;
    use super::*;

    fn bytes(report: &[u8]) -> &[u8; TDREPORT_BYTES] {
        report.try_into().unwrap()
    }

    #[test]
    fn the_field_is_the_published_one() {
        for version in [0, 1] {
            let sample = samples::tdx_report(version);
            let field = mr_config_id(bytes(&sample.bytes), LABEL).unwrap();
            assert_eq!(field, sample.field("MRCONFIGID"));
        }
    }

    /// Nothing but these fields matters, and each bit of them does.
    #[test]
    fn every_changed_bit_of_what_is_checked_shows() {
        let good = samples::tdx_report(0);
        let field = mr_config_id(bytes(&good.bytes), LABEL).unwrap();
        for offset in 0..good.bytes.len() {
            for bit in 0..8 {
                let mut changed = good.bytes.clone();
                changed[offset] ^= 1 << bit;
                let found = mr_config_id(bytes(&changed), LABEL).ok();
                match (good.name_at(offset), offset) {
                    // Type and subtype; 0 would be SGX.
                    ("REPORTTYPE", 0 | 1) | ("REPORTDATA", _) => assert_eq!(found, None),
                    ("MRCONFIGID", _) => assert!(found.is_some_and(|found| found != field)),
                    (name, _) => assert_eq!(found, Some(field), "{name} at {offset}"),
                }
            }
        }
    }
}
