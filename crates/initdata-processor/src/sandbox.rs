//! What this process may still do once it reads from a disk.
//!
//! A disk that takes this program over, in spite of everything, gets: `/dev` and `/sys` to read,
//! device nodes to take away, and this program's own result directories to write. No other file, no
//! program to start, no socket, no process, no capability.

use std::fs::File;
use std::os::fd::{AsFd, BorrowedFd};

use process_sandbox::calls::{Argument, Calls};
use process_sandbox::files::{Enforced, Grant};
use process_sandbox::{capabilities, files};
use rustix::thread::CapabilitySet;

use crate::error::{Error, refused};
use crate::insecure::Insecure;
use crate::journal::Journal;
use crate::paths::Paths;
use crate::settings::Owner;

/// The system calls that looking at disks and placing results take, beyond those of any program.
const CALLS: &[libc::c_long] = &[
    // Finding and reading disks.
    libc::SYS_openat,
    libc::SYS_statx,
    libc::SYS_fstat,
    libc::SYS_newfstatat,
    libc::SYS_getdents64,
    libc::SYS_readlinkat,
    libc::SYS_pread64,
    // Noting which disk is asked.
    libc::SYS_pwrite64,
    libc::SYS_lseek,
    libc::SYS_fadvise64,
    // Placing results; each only where the files' wall lets it.
    libc::SYS_unlinkat,
    libc::SYS_renameat2,
];

/// The modes of results and of their directories. Landlock does not restrict modes, so the list of
/// calls does; the kernel takes them from the lower half of their argument.
const MODES: [u32; 4] = [0o600, 0o644, 0o700, 0o755];

/// The calls, with what their arguments must be.
fn allowed(owner: Option<Owner>) -> Result<Calls, process_sandbox::Error> {
    // Nothing that makes the kernel send signals.
    let duplicates = [libc::F_GETFD, libc::F_GETFL, libc::F_DUPFD_CLOEXEC];
    let calls = Calls::base()?
        .and(CALLS)
        .only_with(libc::SYS_fchmod, 1, &MODES.map(Argument::EqualLow))?
        .only_with(
            libc::SYS_fcntl,
            1,
            &duplicates.map(|command| Argument::EqualLow(command.cast_unsigned())),
        )?;
    Ok(match owner {
        Some(_) => calls.and(&[libc::SYS_fchown]),
        None => calls,
    })
}

/// Gives up everything but `results`, reading disks and `further` system calls, for good. `dev` is
/// the directory of the device nodes where it is open already: it is granted for reading too.
///
/// # Errors
///
/// The kernel refused a step. A kernel without Landlock is not an error, but a
/// warning.
pub fn enter(
    paths: &Paths,
    owner: Option<Owner>,
    results: Vec<(BorrowedFd<'_>, Grant)>,
    dev: Option<BorrowedFd<'_>>,
    further: &[libc::c_long],
    journal: &mut Journal<'_>,
) -> Result<(), Error> {
    // One that is missing has no disks either.
    let opened = |path| File::open(path).ok();
    let sysfs = opened(&paths.sysfs);
    let own_dev = if dev.is_none() { opened(&paths.dev) } else { None };
    let readable = [&sysfs, &own_dev].into_iter().flatten().map(AsFd::as_fd);
    let mut grants = results;
    grants.extend(readable.chain(dev).map(|directory| (directory, Grant::Read)));

    let enforced = confine(owner, &grants, further).map_err(|error| refused(error.to_string()))?;
    if enforced == Enforced::Absent {
        journal.warn(
            "sandbox: the kernel has no Landlock, so files are protected by seccomp and \
        capabilities only",
        );
    }
    journal.detail(format_args!("sandbox: Landlock {enforced}, seccomp on"));
    Ok(())
}

fn confine(
    owner: Option<Owner>,
    grants: &[(BorrowedFd<'_>, Grant)],
    further: &[libc::c_long],
) -> Result<Enforced, process_sandbox::Error> {
    capabilities::keep_only(capabilities_for(owner))?;
    let enforced = files::confine(grants)?;
    allowed(owner)?.and(further).enforce()?;
    Ok(enforced)
}

/// What placing results in `measured`, a directory of two that take turns, and in `insecure` takes.
pub fn results<'a>(
    measured: BorrowedFd<'a>,
    insecure: &'a Insecure,
) -> [(BorrowedFd<'a>, Grant); 4] {
    [
        (measured, Grant::Directories),
        (measured, Grant::Files),
        (insecure.directory(), Grant::Files),
        (insecure.notes(), Grant::Files),
    ]
}

/// Files of another owner need two capabilities: to change the owner, and to write into the owner's
/// directory.
fn capabilities_for(owner: Option<Owner>) -> CapabilitySet {
    match owner {
        Some(Owner { user, group }) if (user, group) != (0, 0) => {
            CapabilitySet::CHOWN | CapabilitySet::DAC_OVERRIDE
        }
        _ => CapabilitySet::empty(),
    }
}
