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
    let mut leaves = vec![(0, Answer::Otherwise)];
    for (call, conditions) in rules {
        let Ok(number) = u32::try_from(*call) else {
            continue;
        };
        let answer = match conditions.as_slice() {
            [] => Answer::Listed,
            conditions => Answer::Checks(checks(conditions, otherwise, listed)),
        };
        leaves.retain(|(first, _)| *first != number);
        leaves.push((number, answer));
        leaves.push((number + 1, Answer::Otherwise));
    }
    leaves.dedup_by(|next, before| next.1 == before.1);
    let mut program = Backwards {
        steps: Vec::new(),
        answers: [otherwise, listed].map(|answer| (answer, None)),
    };
    program.tree(&leaves);
    program.steps.extend([
        step(LOAD, NUMBER),
        step(RETURN, SeccompAction::KillProcess.into()),
        branch(IF_EQUAL, audit_number(architecture), 1, 0),
        step(LOAD, ARCHITECTURE),
    ]);
    program.steps.reverse();
    program.steps
}

/// What becomes of some numbers.
#[derive(PartialEq, Eq)]
enum Answer {
    Otherwise,
    Listed,
    /// That depends.
    Checks(Vec<sock_filter>),
}

/// A program that is written from its end: jumps go forward only, so that their lengths are known,
/// and one return serves all that can reach it.
struct Backwards {
    steps: Vec<sock_filter>,
    /// The two values that a number without conditions gets, and where the nearest return of each
    /// is: otherwise, listed.
    answers: [(u32, Option<usize>); 2],
}

impl Backwards {
    /// Writes what decides between `leaves`; where it begins.
    fn tree(&mut self, leaves: &[(u32, Answer)]) -> usize {
        match leaves {
            [] | [(_, Answer::Otherwise)] => self.answer(0),
            [(_, Answer::Listed)] => self.answer(1),
            [(_, Answer::Checks(checks))] => {
                self.steps.extend(checks.iter().rev().cloned());
                self.steps.len() - 1
            }
            leaves => {
                let (below, above) = leaves.split_at(leaves.len() / 2);
                let first = above[0].0;
                let above = self.tree(above);
                let below = self.tree(below);
                // What is written last is next to the branch, but for a jump.
                let above = self.within_reach(above);
                let below = self.within_reach(below);
                let [above, below] = [above, below].map(|place| self.distance(place) as u8);
                self.steps.push(branch(IF_AT_LEAST, first, above, below));
                self.steps.len() - 1
            }
        }
    }

    /// A return of one of the two answers.
    fn answer(&mut self, which: usize) -> usize {
        let (value, nearest) = self.answers[which];
        let place = match nearest {
            // A branch may need to jump over two jumps of its own besides.
            Some(place) if self.distance(place) < usize::from(u8::MAX) - 2 => place,
            _ => {
                self.steps.push(step(RETURN, value));
                self.steps.len() - 1
            }
        };
        self.answers[which].1 = Some(place);
        place
    }

    /// `place`, or a jump to it that a branch can reach, where the branch is at most two steps
    /// further on.
    fn within_reach(&mut self, place: usize) -> usize {
        if self.distance(place) + 2 <= usize::from(u8::MAX) {
            return place;
        }
        let distance = self.distance(place);
        self.steps.push(step(JUMP, distance as u32));
        self.steps.len() - 1
    }

    /// How many steps lie between the next one to be written and `place`.
    fn distance(&self, place: usize) -> usize {
        self.steps.len() - 1 - place
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
