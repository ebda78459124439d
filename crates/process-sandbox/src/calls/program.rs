//! The filter's program: a tree, because the kernel runs it once for each number that a call can
//! have when it is installed, and again at each call.
//!
//! Spec: `Documentation/userspace-api/seccomp_filter.rst` and `networking/filter.rst` of Linux.

use libc::c_long;
use seccompiler::{BpfProgram, SeccompAction, TargetArch, sock_filter};

use super::{Argument, Calls, Condition};
use crate::Error;
use crate::error::failed;

/// Where `struct seccomp_data` has the call's number, its architecture, and the first argument.
const NUMBER: u32 = 0;
const ARCHITECTURE: u32 = 4;
const ARGUMENTS: u32 = 16;

/// Loads 32 bits of it.
const LOAD: u16 = 0x20;
const AND: u16 = 0x54;
const IF_EQUAL: u16 = 0x15;
const IF_AT_LEAST: u16 = 0x35;
const RETURN: u16 = 0x06;

/// How many numbers are compared one after the other, where the tree ends.
const NUMBERS_IN_A_ROW: usize = 4;

// An argument's lower half comes first; seccompiler knows no other processors either.
const _: () = assert!(cfg!(target_endian = "little"));

/// The program that answers `listed` to the calls of `list`, and `otherwise` to all others.
///
/// # Errors
///
/// The architecture has no number here, or a jump would be longer than 255 steps.
pub(super) fn compile(
    Calls(list): &Calls,
    otherwise: SeccompAction,
    listed: SeccompAction,
) -> Result<BpfProgram, Error> {
    let architecture = std::env::consts::ARCH;
    let architecture =
        match architecture.try_into().map_err(failed("seccomp on this architecture"))? {
            TargetArch::x86_64 => 0xc000_003e,
            TargetArch::aarch64 => 0xc000_00b7,
            TargetArch::riscv64 => 0xc000_00f3,
        };
    let mut program = Backwards(vec![step(RETURN, listed.into()), step(RETURN, otherwise.into())]);
    program.tree(&list.iter().collect::<Vec<_>>())?;
    program.0.extend([
        step(LOAD, NUMBER),
        step(RETURN, SeccompAction::KillProcess.into()),
        sock_filter { jt: 1, ..step(IF_EQUAL, architecture) },
        step(LOAD, ARCHITECTURE),
    ]);
    program.0.reverse();
    Ok(program.0)
}

/// A program that is written from its end: jumps go forward only, so that their lengths are known,
/// and two returns serve all that can reach them.
struct Backwards(Vec<sock_filter>);

/// Where the returns are.
const LISTED: usize = 0;
const OTHERWISE: usize = 1;

impl Backwards {
    /// Writes what decides between calls; where it begins.
    fn tree(&mut self, calls: &[(&c_long, &Condition)]) -> Result<usize, Error> {
        if calls.len() > NUMBERS_IN_A_ROW {
            let (below, above) = calls.split_at(calls.len() / 2);
            let first = *above[0].0;
            let above = self.tree(above)?;
            let below = self.tree(below)?;
            return self.branch(IF_AT_LEAST, first as u32, above, below);
        }
        calls.iter().rev().try_fold(OTHERWISE, |next, (number, condition)| {
            let listed = match condition {
                None => LISTED,
                Some((position, values)) => self.checks(*position, values)?,
            };
            self.branch(IF_EQUAL, **number as u32, listed, next)
        })
    }

    /// Writes what decides by an argument, which must be one of `values`.
    fn checks(&mut self, position: u8, values: &[Argument]) -> Result<usize, Error> {
        let argument = ARGUMENTS + 8 * u32::from(position);
        values.iter().rev().try_fold(OTHERWISE, |next, value| {
            let (mask, value) = value.bits();
            let mut listed = LISTED;
            for (at, shift) in [(argument, 0), (argument + 4, 32)] {
                let [mask, value] = [mask, value].map(|bits| (bits >> shift) as u32);
                if mask != 0 {
                    self.branch(IF_EQUAL, value, listed, next)?;
                    self.0.extend((mask != u32::MAX).then_some(step(AND, mask)));
                    self.0.push(step(LOAD, at));
                    listed = self.0.len() - 1;
                }
            }
            Ok(listed)
        })
    }

    /// Writes a branch: to `yes` where what was loaded holds against `value`, to `no` where not.
    fn branch(&mut self, code: u16, value: u32, yes: usize, no: usize) -> Result<usize, Error> {
        let next = self.0.len();
        let jump = |to| u8::try_from(next - 1 - to).map_err(failed("a list that is too long"));
        let (jt, jf) = (jump(yes)?, jump(no)?);
        self.0.push(sock_filter { code, jt, jf, k: value });
        Ok(next)
    }
}

const fn step(code: u16, k: u32) -> sock_filter {
    sock_filter { code, jt: 0, jf: 0, k }
}
