//! The report ioctl of an SEV-SNP guest.
//!
//! Source: Linux `include/uapi/linux/sev-guest.h`. The content of the answer is AMD's (document
//! 56860, "SEV Secure Nested Paging Firmware ABI Specification", MSG_REPORT_RSP) and is not looked
//! at here.

#![expect(unsafe_code, reason = "an ioctl of a device driver is unsafe to call")]

use std::io;
use std::os::fd::AsFd;

use rustix::io::retry_on_intr;
use rustix::ioctl::{Opcode, Updater, ioctl, opcode};

/// Bytes that the caller may have included in the report.
pub const USER_DATA_BYTES: usize = 64;

/// Bytes of the buffer that the kernel fills.
pub const RESPONSE_BYTES: usize = 4000;

/// `struct snp_report_req`.
#[repr(C)]
struct ReportRequest {
    user_data: [u8; USER_DATA_BYTES],
    vmpl: u32,
    reserved: [u8; 28],
}

/// `struct snp_guest_request_ioctl`. The response is a `struct snp_report_resp`: bytes.
#[repr(C)]
struct GuestRequest {
    msg_version: u8,
    request: *const ReportRequest,
    response: *mut [u8; RESPONSE_BYTES],
    exitinfo2: u64,
}

const _: () = {
    use std::mem::offset_of;
    assert!(size_of::<ReportRequest>() == 96);
    assert!(offset_of!(ReportRequest, vmpl) == 64);
    assert!(offset_of!(ReportRequest, reserved) == 68);
    assert!(size_of::<GuestRequest>() == 32);
    assert!(offset_of!(GuestRequest, request) == 8);
    assert!(offset_of!(GuestRequest, response) == 16);
    assert!(offset_of!(GuestRequest, exitinfo2) == 24);
};

/// `SNP_GET_REPORT`.
const GET_REPORT: Opcode = opcode::read_write::<GuestRequest>(b'S', 0);

/// The message version the kernel's documentation asks for; only zero is refused.
const MSG_VERSION: u8 = 1;

/// Why there is no report.
#[derive(Debug, thiserror::Error)]
#[error("SNP_GET_REPORT{}", platform_code(*exitinfo2))]
pub struct ReportError {
    /// What the kernel answered.
    pub source: io::Error,
    /// The platform's own code: VMM error in the upper half, firmware error in the lower; zero
    /// where it set none.
    pub exitinfo2: u64,
}

fn platform_code(exitinfo2: u64) -> String {
    if exitinfo2 == 0 {
        return String::new();
    }
    let (vmm, firmware) = (exitinfo2 >> 32, exitinfo2 & 0xffff_ffff);
    format!(" (VMM error {vmm:#x}, firmware error {firmware:#x})")
}

/// Asks the firmware, over the encrypted channel that the kernel keeps with it, for a report about
/// this guest.
///
/// `device` is `/dev/sev-guest`. The report states privilege level `vmpl`, which must not be more
/// privileged than the level the kernel runs at. The answer is the whole buffer, as the firmware's
/// message says it: status, size, report.
///
/// # Errors
///
/// [`ReportError`]; `ENOTTY` where `device` is something else.
pub fn report(
    device: impl AsFd,
    user_data: &[u8; USER_DATA_BYTES],
    vmpl: u32,
) -> Result<Box<[u8; RESPONSE_BYTES]>, ReportError> {
    let request = ReportRequest { user_data: *user_data, vmpl, reserved: [0; 28] };
    let mut response = Box::new([0; RESPONSE_BYTES]);
    let mut call = GuestRequest {
        msg_version: MSG_VERSION,
        request: &raw const request,
        response: &raw mut *response,
        exitinfo2: 0,
    };
    let result = retry_on_intr(|| {
        // SAFETY: the opcode is SNP_GET_REPORT, whose argument is a `struct
        // snp_guest_request_ioctl`, the layout asserted above. The kernel reads 96 bytes at
        // `request` and writes at most 4000 bytes at `response`; both are live, exclusively ours
        // until the call returns, and of exactly these sizes. Any byte is a valid `u8`.
        unsafe { ioctl(&device, Updater::<GET_REPORT, _>::new(&mut call)) }
    });
    match result {
        Ok(()) => Ok(response),
        Err(errno) => Err(ReportError { source: errno.into(), exitinfo2: call.exitinfo2 }),
    }
}

#[cfg(test)]
mod tests {
    use std::fs::File;

    use super::*;

    #[test]
    fn the_opcode_is_the_one_of_the_header() {
        // _IOWR('S', 0, 32 bytes): direction 3 at bit 30, size at 16, type at 8.
        assert_eq!(GET_REPORT, (3 << 30) | (32 << 16) | (0x53 << 8));
    }

    #[test]
    fn another_device_is_refused() {
        let null = File::open("/dev/null").unwrap();
        let error = report(&null, &[0; 64], 0).unwrap_err();
        assert_eq!(error.source.raw_os_error(), Some(rustix::io::Errno::NOTTY.raw_os_error()));
    }

    #[test]
    fn both_halves_of_the_platform_code_are_told() {
        let error =
            ReportError { source: io::ErrorKind::Other.into(), exitinfo2: 0x0000_0002_0000_0016 };
        assert!(error.to_string().ends_with("(VMM error 0x2, firmware error 0x16)"), "{error}");
    }
}
