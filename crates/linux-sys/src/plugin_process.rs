//! A child process that gets no descriptor but its own three, and is nothing but the file that was
//! named.

#![expect(unsafe_code, reason = "code that runs between fork and exec is unsafe to write")]

use std::collections::BTreeMap;
use std::ffi::{CString, OsString};
use std::io;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::process::CommandExt;
use std::process::Command;

use rustix::process::{Signal, set_parent_process_death_signal};

/// Lets the program that `command` starts inherit descriptors 0, 1 and 2 only, also where this
/// process holds others that are not close-on-exec because somebody handed them down through it.
/// They stay as they are in this process.
///
/// The program does not start on kernels older than 5.11, which cannot do that.
pub fn keep_standard_descriptors_only(command: &mut Command) {
    let mark = || {
        // SAFETY: a system call on numbers, without memory of ours. Descriptors that do not exist
        // are no error.
        let result = unsafe {
            libc::syscall(
                libc::SYS_close_range,
                3 as libc::c_uint,
                libc::c_uint::MAX,
                libc::CLOSE_RANGE_CLOEXEC,
            )
        };
        if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
    };
    // SAFETY: the closure runs between fork and exec and does one system call: no allocation, no
    // lock. It marks the standard library's own pipe for errors of exec, which is marked already,
    // and closes nothing that is in use.
    unsafe {
        command.pre_exec(mark);
    }
}

/// Lets the program that `command` starts be killed when the thread ends that starts it, so that it
/// outlives nobody who watches its time.
pub fn end_with_parent(command: &mut Command) {
    // SAFETY: the closure runs between fork and exec and does one system call on numbers, without
    // memory of ours.
    unsafe {
        command.pre_exec(|| {
            set_parent_process_death_signal(Some(Signal::KILL)).map_err(io::Error::from)
        });
    }
}

/// Lets `command` execute its program as the kernel takes it. The C library's own way hands a file
/// that is neither a program nor a script with `#!` to a shell, so that a download that was cut off
/// would run as commands; here it fails with "exec format error". The program is named by its path.
///
/// Arguments and environment are those that the command has now. It is to be called last.
///
/// # Errors
///
/// `InvalidInput` where one of them has a zero byte.
pub fn execute_only_programs(command: &mut Command) -> io::Result<()> {
    let mut environment: BTreeMap<OsString, OsString> = std::env::vars_os().collect();
    for (name, value) in command.get_envs() {
        match value {
            Some(value) => environment.insert(name.to_owned(), value.to_owned()),
            None => environment.remove(name),
        };
    }
    let variables = environment.into_iter().map(|(mut variable, value)| {
        variable.push("=");
        variable.push(value);
        variable
    });
    let program = command.get_program();
    let arguments = [program].into_iter().chain(command.get_args()).map(OsString::from);
    let program = CString::new(program.as_bytes())?;
    let (arguments, variables) = (Texts::of(arguments)?, Texts::of(variables)?);
    let execute = move || {
        // All of both moves here, not only the lists: the addresses in them are of the texts.
        let (arguments, variables) = (&arguments, &variables);
        // SAFETY: the path ends with a zero byte, and both lists are addresses of texts that do,
        // which live as long as the closure, with a null behind the last one. Where the call
        // succeeds it does not return.
        unsafe {
            libc::execve(
                program.as_ptr(),
                arguments.list.as_ptr().cast(),
                variables.list.as_ptr().cast(),
            );
        }
        Err(io::Error::last_os_error())
    };
    // SAFETY: the closure runs between fork and exec and does one system call on memory that was
    // laid out before: no allocation, no lock.
    unsafe {
        command.pre_exec(execute);
    }
    Ok(())
}

/// Texts of C, and the list of their addresses with a null behind the last one. As numbers, since
/// the list moves to the child.
struct Texts {
    _kept: Vec<CString>,
    list: Vec<usize>,
}

impl Texts {
    fn of(texts: impl Iterator<Item = OsString>) -> io::Result<Self> {
        let kept: Vec<_> =
            texts.map(|text| CString::new(text.into_vec())).collect::<Result<_, _>>()?;
        let addresses = kept.iter().map(|text| text.as_ptr().expose_provenance());
        Ok(Self { list: addresses.chain([0]).collect(), _kept: kept })
    }
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::os::fd::AsRawFd;

    use rustix::io::{FdFlags, fcntl_dupfd_cloexec, fcntl_getfd, fcntl_setfd};

    use super::*;

    #[test]
    fn the_child_has_three_descriptors() {
        // At a number that no program takes by itself: the shell opens the directory that it lists
        // at the lowest free one.
        let file = fcntl_dupfd_cloexec(File::open("/dev/null").unwrap(), 100).unwrap();
        fcntl_setfd(&file, FdFlags::empty()).unwrap();
        let number = file.as_raw_fd().to_string();
        // The shell itself lists its descriptors, by name patterns, without a program that would
        // have some of its own.
        let list = |only: bool| {
            let mut command = Command::new("/bin/sh");
            command.args(["-c", "for n in /proc/$$/fd/*; do echo ${n##*/}; done"]);
            if only {
                keep_standard_descriptors_only(&mut command);
            }
            let output = command.output().unwrap();
            let text = String::from_utf8(output.stdout).unwrap();
            text.lines().map(String::from).collect::<Vec<_>>()
        };
        assert!(list(false).contains(&number), "inherited without the rule");
        let kept = list(true);
        assert!(!kept.contains(&number), "{kept:?}");
        // The shell opens one for the listing itself in some versions; nothing of this process is
        // among them.
        assert!(kept.len() <= 4, "{kept:?}");
        assert!(fcntl_getfd(&file).unwrap().is_empty(), "unchanged here");
    }

    #[test]
    fn a_program_that_is_not_there_is_still_told() {
        let mut command = Command::new("/nonexistent/program");
        keep_standard_descriptors_only(&mut command);
        let error = command.spawn().unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::NotFound);
    }

    #[test]
    fn only_what_the_kernel_takes_is_executed() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("program");
        let run = |text: &[u8]| {
            // Another process writes it: a neighbour that has just forked would have it open.
            let mut writer = Command::new("/bin/sh");
            writer.args(["-c", "printf %b \"$1\" >\"$0\" && chmod 755 \"$0\""]);
            let escaped: String = text.iter().map(|byte| format!("\\0{byte:03o}")).collect();
            assert!(writer.arg(&path).arg(escaped).status().unwrap().success());
            let mut command = Command::new(&path);
            command.args(["a b", ""]).env("COLOUR", "blue").env_remove("PATH");
            keep_standard_descriptors_only(&mut command);
            execute_only_programs(&mut command).unwrap();
            command.output()
        };
        let script = b"#!/bin/sh\necho \"$# $1 $COLOUR ${HOME-none}\"\n";
        let output = run(script).unwrap();
        let home = std::env::var("HOME").unwrap_or("none".into());
        let expected = format!("2 a b blue {home}\n");
        assert_eq!(String::from_utf8(output.stdout).unwrap(), expected);
        // The C library would have a shell run these.
        for text in [&b"echo x\n"[..], b"", b"\x7fELF\x02\x01\x01"] {
            let error = run(text).unwrap_err();
            assert_eq!(error.raw_os_error(), Some(libc::ENOEXEC), "{text:?}");
        }
        let mut command = Command::new(&path);
        command.env("A", "x\0y");
        let error = execute_only_programs(&mut command).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::InvalidInput);
    }
}
