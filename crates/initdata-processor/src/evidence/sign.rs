//! What the kernel knows about its TEE before the driver of the report is loaded.
//!
//! Both signs stand there from boot on, in every kernel that runs in such a guest. A host can pretend them, which ends in
//! a refusal, but not take them away.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Read};
use std::path::PathBuf;

use super::{EvidenceError, exists};
use crate::paths::Paths;

/// The most of the list of processors that is read. The first one's flags end after a few kilobytes, and all have the same.
const MAX_CPUINFO_BYTES: u64 = 64 << 10;

/// The sign of an SNP guest: the platform device that the kernel itself, not the driver, registers where SEV_STATUS says so.
///
/// Source: Linux `arch/x86/coco/sev/core.c`, since 5.19, the first with SNP guests. Not CPUID: leaf 0x8000001f tells what
/// the processor can do, also to a guest that has none of it, and only the kernel may read SEV_STATUS.
pub fn snp(paths: &Paths) -> Result<Option<PathBuf>, EvidenceError> {
    let sign = paths.platform_devices.join("sev-guest");
    Ok(exists(&sign)?.then_some(sign))
}

/// The sign of a TDX guest: the flag that the kernel sets where CPUID leaf 0x21 holds the TDX module's signature.
///
/// Source: Linux `arch/x86/coco/tdx/tdx.c`, since 5.19, the first with TDX guests. Read from the kernel rather than by
/// CPUID, so that it comes from below the same root as everything else.
pub fn tdx(paths: &Paths) -> Result<Option<PathBuf>, EvidenceError> {
    let sign = paths.cpuinfo.clone();
    let has_flag = File::open(&sign).and_then(|file| has_tdx_flag(file.take(MAX_CPUINFO_BYTES)));
    match has_flag {
        Ok(has_flag) => Ok(has_flag.then_some(sign)),
        Err(source) => Err(EvidenceError::Flags { path: sign, source }),
    }
}

/// Whether the first processor in `cpuinfo` has the flag; without any flag this is not an answer.
fn has_tdx_flag(cpuinfo: impl Read) -> io::Result<bool> {
    for line in BufReader::new(cpuinfo).lines() {
        let line = line?;
        if let Some((key, flags)) = line.split_once(':')
            && key.trim_end() == "flags"
            && !flags.trim().is_empty()
        {
            return Ok(flags
                .split_ascii_whitespace()
                .any(|flag| flag == "tdx_guest"));
        }
    }
    Err(io::Error::new(
        io::ErrorKind::InvalidData,
        "expected a line of flags, found none",
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_exact_flag_of_the_first_processor_counts() {
        for (cpuinfo, expected) in [
            ("processor\t: 0\nflags\t\t: fpu vme tdx_guest\n", Some(true)),
            ("flags\t\t: tdx_guest fpu\nbugs\t\t:\n", Some(true)),
            (
                "flags\t\t: fpu sev sev_es sev_snp hypervisor\n",
                Some(false),
            ),
            (
                "flags\t\t: fpu xtdx_guest tdx_guestx tdx_host_platform\n",
                Some(false),
            ),
            (
                "model name\t: flags: tdx_guest\nflags\t\t: fpu\n",
                Some(false),
            ),
            ("vmx flags\t: tdx_guest\nflags\t\t: fpu\n", Some(false)),
            // Nothing that could be an answer.
            ("", None),
            ("flags\t\t: \n", None),
            ("Features\t: fp asimd\n", None),
        ] {
            let found = has_tdx_flag(cpuinfo.as_bytes()).ok();
            assert_eq!(found, expected, "{cpuinfo}");
        }
    }

    #[test]
    fn the_list_of_a_real_kernel_is_understood() {
        let bytes = std::fs::read("/proc/cpuinfo").unwrap();
        let text = String::from_utf8_lossy(&bytes);
        let first = text.split("\n\n").next().unwrap();
        assert_eq!(has_tdx_flag(&*bytes).unwrap(), first.contains(" tdx_guest"));
    }
}
