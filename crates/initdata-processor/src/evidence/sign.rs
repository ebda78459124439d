//! What the kernel knows about its TEE, whether or not the driver of the report is loaded.
//!
//! Every kernel that runs in such a guest shows its sign from boot on. A host can
//! pretend them, which ends in a refusal, but not take them away.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Read};
use std::path::PathBuf;

use super::{EvidenceError, Platform, Sign, exists};
use crate::paths::Paths;

/// The most of the list of processors that is read. The first one's flags end after a few
/// kilobytes, and all have the same.
const MAX_CPUINFO_BYTES: u64 = 64 << 10;

/// How much is read at once: less than the first processor, so that the kernel does not list more
/// of them.
const CHUNK_BYTES: usize = 1024;

/// What was found, and where it was looked for.
#[derive(Debug)]
pub struct Signs {
    pub snp: Option<Sign>,
    pub tdx: Option<Sign>,
    pub snp_place: PathBuf,
    pub tdx_place: PathBuf,
}

/// Looks for the signs of all platforms.
pub fn all(paths: &Paths) -> Result<Signs, EvidenceError> {
    let snp_place = snp_device(paths);
    let tdx_place = paths.cpuinfo.clone();
    let snp = exists(&snp_place)?
        .then(|| Sign { platform: Platform::Snp, source: snp_place.display().to_string() });
    let tdx = tdx_flag(paths)?.then(|| Sign {
        platform: Platform::Tdx,
        source: format!("the flag tdx_guest in {}", tdx_place.display()),
    });
    Ok(Signs { snp, tdx, snp_place, tdx_place })
}

/// The sign of an SNP guest: the platform device that the kernel itself, not the driver, registers
/// where SEV_STATUS says so.
///
/// Source: Linux `arch/x86/coco/sev/core.c`, since 5.19, the first with SNP guests. Not CPUID: leaf
/// 0x8000001f tells what the processor can do, also to a guest that has none of it, and only the
/// kernel may read SEV_STATUS.
fn snp_device(paths: &Paths) -> PathBuf {
    paths.platform_devices.join("sev-guest")
}

/// The sign of a TDX guest: the flag that the kernel sets where CPUID leaf 0x21 holds the TDX
/// module's signature.
///
/// Source: Linux `arch/x86/coco/tdx/tdx.c`, since 5.19, the first with TDX guests. That leaf could
/// be read here as well, and would add nothing: the kernel asked the same instruction before
/// anything else ran, in a real TDX guest the TDX module answers it both times, and in any other
/// guest the host may answer it as it likes, both times. The flag is what the kernel acts upon, and
/// comes from below the same root as everything else.
fn tdx_flag(paths: &Paths) -> Result<bool, EvidenceError> {
    File::open(&paths.cpuinfo)
        .and_then(|file| has_tdx_flag(file.take(MAX_CPUINFO_BYTES)))
        .map_err(|source| EvidenceError::Flags(paths.cpuinfo.clone(), source))
}

/// Whether the first processor in `cpuinfo` has the flag; without any flag this is not an answer.
fn has_tdx_flag(cpuinfo: impl Read) -> io::Result<bool> {
    let mut lines = BufReader::with_capacity(CHUNK_BYTES, cpuinfo);
    let mut line = Vec::new();
    while lines.read_until(b'\n', &mut line)? > 0 {
        if !line.starts_with(b"flags") {
            line.clear();
            continue;
        }
        let text = String::from_utf8_lossy(&line);
        let value = text["flags".len()..].trim_start();
        if let Some(flags) = value.strip_prefix(':')
            && !flags.trim().is_empty()
        {
            let is_end = |byte: Option<&u8>| byte.is_none_or(u8::is_ascii_whitespace);
            let is_flag = |(start, word): (usize, &str)| {
                let (before, behind) = (&flags.as_bytes()[..start], start + word.len());
                is_end(before.last()) && is_end(flags.as_bytes().get(behind))
            };
            return Ok(flags.match_indices("tdx_guest").any(is_flag));
        }
        line.clear();
    }
    Err(io::Error::new(io::ErrorKind::InvalidData, "expected a line of flags, found none"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_exact_flag_of_the_first_processor_counts() {
        for (cpuinfo, expected) in [
            ("processor\t: 0\nflags\t\t: fpu vme tdx_guest\n", Some(true)),
            ("flags\t\t: tdx_guest fpu\nbugs\t\t:\n", Some(true)),
            ("flags\t\t: fpu sev sev_es sev_snp hypervisor\n", Some(false)),
            ("flags\t\t: fpu xtdx_guest tdx_guestx tdx_host_platform\n", Some(false)),
            ("model name\t: flags: tdx_guest\nflags\t\t: fpu\n", Some(false)),
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
