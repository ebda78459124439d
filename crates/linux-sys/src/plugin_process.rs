//! A child process that gets no descriptor but its own three.

#![expect(
    unsafe_code,
    reason = "code that runs between fork and exec is unsafe to write"
)]

use std::io;
use std::os::unix::process::CommandExt;
use std::process::Command;

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
        if result == 0 {
            Ok(())
        } else {
            Err(io::Error::last_os_error())
        }
    };
    // SAFETY: the closure runs between fork and exec and does one system call: no allocation, no
    // lock. It marks the standard library's own pipe for errors of exec, which is marked already,
    // and closes nothing that is in use.
    unsafe {
        command.pre_exec(mark);
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
}
