//! The filter's program: a tree, because the kernel runs it once for each number that a call can
//! have when it is installed, and again at each call.
//!
//! Spec: `Documentation/userspace-api/seccomp_filter.rst` and `networking/filter.rst` of Linux.

use std::collections::BTreeMap;

use seccompiler::{BpfProgram, SeccompAction, TargetArch, sock_filter};

/// Where `struct seccomp_data` has the call's number, its architecture, and the first argument.
const NUMBER: u32 = 0;
const ARCHITECTURE: u32 = 4;
const ARGUMENTS: u32 = 16;

/// Loads 32 bits of it.
const LOAD: u16 = 0x20;
const AND: u16 = 0x54;
const JUMP: u16 = 0x05;
const IF_EQUAL: u16 = 0x15;
const IF_AT_LEAST: u16 = 0x35;
const RETURN: u16 = 0x06;

/// An argument that, with `mask`, must be `value`.
#[derive(Clone, Copy, Debug)]
pub(super) struct Condition {
    /// Which argument, from 0.
    pub(super) position: u8,
    pub(super) mask: u64,
    pub(super) value: u64,
}

/// The program that answers `listed` to the calls of `rules`, and `otherwise` to all others. Of
/// several conditions of a call, one must hold; without any, every argument will do.
pub(super) fn compile(
    rules: &BTreeMap<i64, Vec<Condition>>,
    otherwise: SeccompAction,
    listed: SeccompAction,
    architecture: TargetArch,
) -> BpfProgram {
    let (otherwise, listed) = (u32::from(otherwise), u32::from(listed));
    // What holds from a number on, up to the next one.
    let mut leaves = vec![(0, vec![step(RETURN, otherwise)])];
    for (call, conditions) in rules {
        let Ok(number) = u32::try_from(*call) else {
            continue;
        };
        let answer = match conditions.as_slice() {
            [] => vec![step(RETURN, listed)],
            conditions => checks(conditions, otherwise, listed),
        };
        leaves.retain(|(first, _)| *first != number);
        leaves.push((number, answer));
        leaves.push((number + 1, vec![step(RETURN, otherwise)]));
    }
    leaves.dedup_by(|next, before| next.1 == before.1);
    let mut program = vec![
        step(LOAD, ARCHITECTURE),
        branch(IF_EQUAL, audit_number(architecture), 1, 0),
        step(RETURN, SeccompAction::KillProcess.into()),
        step(LOAD, NUMBER),
    ];
    program.extend(tree(&leaves));
    program
}

fn tree(leaves: &[(u32, Vec<sock_filter>)]) -> Vec<sock_filter> {
    match leaves {
        [] => Vec::new(),
        [(_, answer)] => answer.clone(),
        leaves => {
            let (below, above) = leaves.split_at(leaves.len() / 2);
            let first = above[0].0;
            let (below, above) = (tree(below), tree(above));
            let mut program = match u8::try_from(below.len()) {
                Ok(skipped) => vec![branch(IF_AT_LEAST, first, skipped, 0)],
                Err(_) => vec![
                    branch(IF_AT_LEAST, first, 0, 1),
                    step(JUMP, below.len() as u32),
                ],
            };
            program.extend(below);
            program.extend(above);
            program
        }
    }
}

fn checks(conditions: &[Condition], otherwise: u32, listed: u32) -> Vec<sock_filter> {
    let mut program = Vec::new();
    for condition in conditions {
        let offset = ARGUMENTS + 8 * u32::from(condition.position);
        let (low, high) = match cfg!(target_endian = "little") {
            true => (offset, offset + 4),
            false => (offset + 4, offset),
        };
        let halves = [(low, 0), (high, 32)]
            .map(|(at, shift)| {
                let half = |bits: u64| (bits >> shift) as u32;
                (at, half(condition.mask), half(condition.value))
            })
            .into_iter()
            .filter(|(_, mask, _)| *mask != 0);
        // From the end, where it is known how far a failure has to jump.
        let mut check = vec![step(RETURN, listed)];
        for (at, mask, value) in halves.rev() {
            let mut half = vec![step(LOAD, at)];
            if mask != u32::MAX {
                half.push(step(AND, mask));
            }
            // At most nine instructions.
            half.push(branch(IF_EQUAL, value, 0, check.len() as u8));
            half.append(&mut check);
            check = half;
        }
        program.append(&mut check);
    }
    program.push(step(RETURN, otherwise));
    program
}

const fn audit_number(architecture: TargetArch) -> u32 {
    match architecture {
        TargetArch::x86_64 => 0xc000_003e,
        TargetArch::aarch64 => 0xc000_00b7,
        TargetArch::riscv64 => 0xc000_00f3,
    }
}

const fn step(code: u16, k: u32) -> sock_filter {
    branch(code, k, 0, 0)
}

const fn branch(code: u16, k: u32, jt: u8, jf: u8) -> sock_filter {
    sock_filter { code, jt, jf, k }
}
