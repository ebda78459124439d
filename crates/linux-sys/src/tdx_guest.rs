//! The TDREPORT ioctl of a TDX guest.
//!
//! Source: Linux `include/uapi/linux/tdx-guest.h`. The content of the answer is Intel's ("TDX
//! Module ABI", TDREPORT structure) and is not looked at here.

#![expect(unsafe_code, reason = "an ioctl of a device driver is unsafe to call")]

use std::io;
use std::os::fd::AsFd;

use rustix::io::retry_on_intr;
use rustix::ioctl::{Opcode, Updater, ioctl, opcode};

/// Bytes that the caller has included in the report.
pub const REPORTDATA_BYTES: usize = 64;

/// Bytes of a TDREPORT.
pub const TDREPORT_BYTES: usize = 1024;

/// `struct tdx_report_req`.
#[repr(C)]
struct ReportRequest {
    reportdata: [u8; REPORTDATA_BYTES],
    tdreport: [u8; TDREPORT_BYTES],
}

const _: () = {
    use std::mem::offset_of;
    assert!(size_of::<ReportRequest>() == 1088);
    assert!(offset_of!(ReportRequest, tdreport) == 64);
};

/// `TDX_CMD_GET_REPORT0`.
const GET_REPORT0: Opcode = opcode::read_write::<ReportRequest>(b'T', 1);

/// Asks the TDX module for a report about this guest: a call inside the CPU, in which the host has
/// no part.
///
/// `device` is `/dev/tdx_guest`.
///
/// # Errors
///
/// Those of the ioctl: `EIO` where the module refuses, `ENOTTY` where `device` is something else.
pub fn report(
    device: impl AsFd,
    reportdata: &[u8; REPORTDATA_BYTES],
) -> io::Result<Box<[u8; TDREPORT_BYTES]>> {
    let mut request =
        Box::new(ReportRequest { reportdata: *reportdata, tdreport: [0; TDREPORT_BYTES] });
    retry_on_intr(|| {
        // SAFETY: the opcode is TDX_CMD_GET_REPORT0, whose argument is a `struct tdx_report_req`,
        // the layout asserted above; it holds no pointers. Any byte is a valid `u8`.
        unsafe { ioctl(&device, Updater::<GET_REPORT0, _>::new(&mut *request)) }
    })?;
    Ok(Box::new(request.tdreport))
}

#[cfg(test)]
mod tests {
    use std::fs::File;

    use super::*;

    #[test]
    fn the_opcode_is_the_one_of_the_header() {
        // _IOWR('T', 1, 1088 bytes): direction 3 at bit 30, size at 16, type at 8, number at 0.
        assert_eq!(GET_REPORT0, (3 << 30) | (1088 << 16) | (0x54 << 8) | 1);
    }

    #[test]
    fn another_device_is_refused() {
        let null = File::open("/dev/null").unwrap();
        let error = report(&null, &[0; 64]).unwrap_err();
        assert_eq!(error.raw_os_error(), Some(rustix::io::Errno::NOTTY.raw_os_error()));
    }
}
