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
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
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
    let mut leaves = Vec::with_capacity(2 * rules.len() + 1);
    leaves.push((0, Answer::Otherwise));
    for (call, conditions) in rules {
        let Ok(number) = u32::try_from(*call) else {
            continue;
        };
        // Right behind the one before.
        leaves.pop_if(|(first, _)| *first == number);
        let answer = match conditions.as_slice() {
            [] => Answer::Listed,
            conditions => Answer::Checks(conditions),
        };
        if leaves.last().is_none_or(|(_, before)| *before != answer) {
            leaves.push((number, answer));
        }
        leaves.push((number + 1, Answer::Otherwise));
    }
    let mut program =
        Backwards { steps: Vec::new(), answers: [otherwise, listed].map(|answer| (answer, None)) };
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
#[derive(Clone, Copy, PartialEq, Eq)]
enum Answer<'a> {
    Otherwise,
    Listed,
    /// That depends.
    Checks(&'a [Condition]),
}

/// Whether `leaves` are one or two single numbers that are listed, and what is behind each.
fn are_few_numbers(leaves: &[(u32, Answer<'_>)]) -> bool {
    let is_number = |pair: &[(u32, Answer<'_>)]| match pair {
        [(number, Answer::Listed), (next, Answer::Otherwise)] => number + 1 == *next,
        _ => false,
    };
    matches!(leaves.len(), 2 | 4) && leaves.chunks(2).all(is_number)
}

/// Where to divide several leaves, so that single numbers stay in one piece.
fn middle(leaves: &[(u32, Answer<'_>)]) -> usize {
    if leaves.len() <= 6 && leaves[1].1 == Answer::Otherwise && are_few_numbers(&leaves[2..]) {
        return 1;
    }
    let middle = leaves.len() / 2;
    match leaves[middle].1 {
        Answer::Otherwise if middle + 1 < leaves.len() => middle + 1,
        _ => middle,
    }
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
    fn tree(&mut self, leaves: &[(u32, Answer<'_>)]) -> usize {
        match leaves {
            [] | [(_, Answer::Otherwise)] => self.answer(0),
            [(_, Answer::Listed)] => self.answer(1),
            [(_, Answer::Checks(conditions))] => self.checks(conditions),
            // One number is told from all others by one comparison, a range takes two.
            [(_, Answer::Otherwise), pairs @ ..] if are_few_numbers(pairs) => {
                let [listed, mut otherwise] = [1, 0].map(|which| self.answer(which));
                for pair in pairs.chunks(2) {
                    otherwise = self.choose(IF_EQUAL, pair[0].0, listed, otherwise);
                }
                otherwise
            }
            leaves => {
                let (below, above) = leaves.split_at(middle(leaves));
                let first = above[0].0;
                let above = self.tree(above);
                let below = self.tree(below);
                self.choose(IF_AT_LEAST, first, above, below)
            }
        }
    }

    /// Writes a branch: to `yes` where the number that was loaded holds against `value`, to `no`
    /// where it does not.
    fn choose(&mut self, code: u16, value: u32, yes: usize, no: usize) -> usize {
        // What is written last is next to the branch, but for a jump.
        let yes = self.within_reach(yes);
        let no = self.within_reach(no);
        let [yes, no] = [yes, no].map(|place| self.distance(place) as u8);
        self.steps.push(branch(code, value, yes, no));
        self.steps.len() - 1
    }

    /// Writes what decides by the arguments. Values of the lower half of one argument, which is
    /// what almost all conditions are about, are compared one after the other.
    fn checks(&mut self, conditions: &[Condition]) -> usize {
        let first = conditions[0];
        let is_alike = |other: &Condition| {
            (other.position, other.mask) == (first.position, first.mask) && other.mask >> 32 == 0
        };
        if !conditions.iter().all(is_alike) {
            self.steps
                .extend(checks(conditions, self.answers[0].0, self.answers[1].0).into_iter().rev());
            return self.steps.len() - 1;
        }
        let [listed, mut otherwise] = [1, 0].map(|which| self.answer(which));
        for condition in conditions {
            otherwise = self.choose(IF_EQUAL, condition.value as u32, listed, otherwise);
        }
        if first.mask as u32 != u32::MAX {
            self.steps.push(step(AND, first.mask as u32));
        }
        self.steps.push(step(LOAD, halves(first.position).0));
        self.steps.len() - 1
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
        let (low, high) = halves(condition.position);
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

/// Where the lower and the upper half of an argument are.
const fn halves(position: u8) -> (u32, u32) {
    let offset = ARGUMENTS + 8 * position as u32;
    match cfg!(target_endian = "little") {
        true => (offset, offset + 4),
        false => (offset + 4, offset),
    }
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
