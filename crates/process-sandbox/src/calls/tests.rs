use super::*;

/// What the kernel would make of a call: the filter's answer. Knows the instructions that the
/// compiler of filters emits.
fn answer(program: &BpfProgram, call: libc::c_long, arguments: [u64; 6]) -> u32 {
    answer_and_steps(program, call, arguments).0
}

/// Also how many instructions that took.
fn answer_and_steps(program: &BpfProgram, call: libc::c_long, arguments: [u64; 6]) -> (u32, usize) {
    let architecture = program[1..].iter().find(|step| step.code == 0x15).map_or(0, |step| step.k);
    let mut data = Vec::new();
    data.extend(i32::try_from(call).unwrap().to_ne_bytes());
    data.extend(architecture.to_ne_bytes());
    data.extend(0u64.to_ne_bytes());
    data.extend(arguments.iter().flat_map(|argument| argument.to_ne_bytes()));
    let (mut at, mut value, mut steps) = (0, 0, 0);
    loop {
        steps += 1;
        let step = &program[at];
        at += 1;
        let holds = match step.code {
            0x20 => {
                let start = usize::try_from(step.k).unwrap();
                value = u32::from_ne_bytes(data[start..start + 4].try_into().unwrap());
                continue;
            }
            0x54 => {
                value &= step.k;
                continue;
            }
            0x06 => return (step.k, steps),
            0x15 => value == step.k,
            0x35 => value >= step.k,
            code => panic!("unknown instruction {code:#x}"),
        };
        at += usize::from(if holds { step.jt } else { step.jf });
    }
}

#[test]
fn arguments_are_what_the_list_says() {
    let program = Calls::base().unwrap().compile().unwrap();
    let own = u64::from(std::process::id());
    let abort = libc::SIGABRT as u64;
    let (read, write, execute) = (1, 2, 4);
    let allowed = u32::from(SeccompAction::Allow);
    let refused = u32::from(SeccompAction::Errno(libc::EPERM as u32));
    for (call, arguments, expected) in [
        (libc::SYS_tgkill, [own, own, abort, 0, 0, 0], allowed),
        (libc::SYS_tgkill, [0, own, abort, 0, 0, 0], refused),
        (libc::SYS_tgkill, [1, own, abort, 0, 0, 0], refused),
        (libc::SYS_tgkill, [own + 1, own, abort, 0, 0, 0], refused),
        (libc::SYS_kill, [own, abort, 0, 0, 0, 0], refused),
        (libc::SYS_mmap, [0, 4096, read | write, 0, 0, 0], allowed),
        (libc::SYS_mmap, [0, 4096, read | execute, 0, 0, 0], refused),
        (libc::SYS_mprotect, [0, 4096, read, 0, 0, 0], allowed),
        (libc::SYS_mprotect, [0, 4096, execute, 0, 0, 0], refused),
        (libc::SYS_read, [0; 6], allowed),
        (libc::SYS_execve, [0; 6], refused),
        (libc::SYS_socket, [0; 6], refused),
        (libc::SYS_ptrace, [0; 6], refused),
        (libc::SYS_clone, [0; 6], refused),
    ] {
        assert_eq!(answer(&program, call, arguments), expected, "{call} {arguments:?}");
    }
}

#[test]
fn several_values_are_alternatives() {
    let values = [Argument::Equal(7), Argument::With(0x30)];
    let calls = Calls::base().unwrap().only_with(libc::SYS_fcntl, 1, &values);
    let program = calls.unwrap().compile().unwrap();
    let allowed = u32::from(SeccompAction::Allow);
    let is_allowed = |value| answer(&program, libc::SYS_fcntl, [0, value, 0, 0, 0, 0]) == allowed;
    assert!(is_allowed(7) && is_allowed(0x30) && is_allowed(0x35));
    assert!(!is_allowed(6) && !is_allowed(0x10) && !is_allowed(1 << 32 | 7));
}

#[test]
fn values_of_the_lower_half_take_two_steps_each() {
    let values = [7, 9, 11].map(Argument::EqualLow);
    let all = Calls::base().unwrap().compile().unwrap().len();
    let calls = Calls::base().unwrap().only_with(libc::SYS_fcntl, 1, &values);
    let program = calls.unwrap().compile().unwrap();
    assert!(program.len() <= all + 8, "{} and {all}", program.len());
    let allowed = u32::from(SeccompAction::Allow);
    let is_allowed = |value| answer(&program, libc::SYS_fcntl, [0, value, 0, 0, 0, 0]) == allowed;
    assert!(is_allowed(7) && is_allowed(9) && is_allowed(1 << 32 | 11));
    assert!(!is_allowed(0) && !is_allowed(8) && !is_allowed(12));
}

/// The program was once a chain of 276 instructions, which the kernel walked for every number: a
/// fifth of what the whole boot program costs.
#[test]
fn every_number_has_its_answer_in_a_few_steps() {
    let further: Vec<libc::c_long> = (200..330).step_by(3).collect();
    for calls in [Calls::base().unwrap(), Calls::base().unwrap().and(&further)] {
        let listed = calls.0.clone();
        let program = calls.compile().unwrap();
        let numbers = (0..1024).chain([0x4000_0000, 0x4000_0001, 0x7fff_ffff]);
        for number in numbers {
            // Arguments that every condition takes, but for the process's own number.
            let own = u64::from(std::process::id());
            let arguments = match number {
                libc::SYS_tgkill => [own, 0, 0, 0, 0, 0],
                _ => [0; 6],
            };
            let (found, steps) = answer_and_steps(&program, number, arguments);
            let expected = match listed.contains_key(&number) {
                true => SeccompAction::Allow,
                false => SeccompAction::Errno(libc::EPERM as u32),
            };
            assert_eq!(found, u32::from(expected), "{number}");
            assert!(steps <= 18, "{number}: {steps}");
        }
        assert!(program.len() < 4096);
    }
    assert!(Calls::base().unwrap().only_with(0, 6, &[]).is_err());
}

/// A conditional jump reaches 255 steps; a list that needs longer ones is refused, not cut.
#[test]
fn many_conditions_hold_or_are_refused() {
    let calls = |count| {
        let values: Vec<_> = (0..count).map(Argument::Equal).collect();
        Calls::base().unwrap().only_with(libc::SYS_read, 0, &values).unwrap().compile()
    };
    let program = calls(40).unwrap();
    let allowed = u32::from(SeccompAction::Allow);
    let is_allowed = |call, value| answer(&program, call, [value, 0, 0, 0, 0, 0]) == allowed;
    assert!(is_allowed(libc::SYS_read, 39) && !is_allowed(libc::SYS_read, 40));
    assert!(is_allowed(libc::SYS_getrandom, 0) && !is_allowed(libc::SYS_execve, 0));
    assert!(calls(100).is_err());
}
