//! Files below a directory that cannot be left by `..` or a symbolic link.

use std::fs::File;
use std::io::{self, ErrorKind};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};

use rustix::fs::{Mode, OFlags, ResolveFlags, open, openat2};
use rustix::io::Errno;
use rustix::path::Arg;

/// How often a lookup is repeated.
const MAX_LOOKUPS: usize = 256;

/// Opens `path` below `directory` by `openat2(2)`. `O_CLOEXEC` is always added.
///
/// The kernel gives up a lookup with `..`, also in a link, while anything on the machine is renamed
/// (`EAGAIN`), and leaves it to the caller to try again; this does, up to 256 times.
///
/// # Errors
///
/// Those of `openat2(2)`; where there is no such call, the error says what is in its way.
pub fn open_scoped(
    directory: impl AsFd,
    path: impl Arg + Copy,
    flags: OFlags,
    resolve: ResolveFlags,
) -> io::Result<OwnedFd> {
    let (directory, flags) = (directory.as_fd(), flags | OFlags::CLOEXEC);
    for _ in 0..MAX_LOOKUPS {
        match openat2(directory, path, flags, Mode::empty(), resolve) {
            Err(Errno::AGAIN | Errno::INTR) => {}
            Err(Errno::NOSYS) => {
                let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
                return Err(io::Error::new(ErrorKind::Unsupported, why_missing(&status)));
            }
            opened => return Ok(opened?),
        }
    }
    Err(ErrorKind::ResourceBusy.into())
}

/// Tells a kernel without `openat2` from a filter that answers so in its place: systemd's
/// `RestrictSUIDSGID=` does, because a filter cannot look into the arguments of this call.
fn why_missing(status: &str) -> &'static str {
    match status.lines().any(|line| line == "Seccomp:\t2") {
        true => {
            "a filter of system calls refuses openat2: in a systemd unit, leave out \
             RestrictSUIDSGID=, and name openat2 in SystemCallFilter="
        }
        false => "the kernel has no openat2: it needs Linux 5.6",
    }
}

/// A directory held open, which paths do not leave.
///
/// The kernel does the resolution (`openat2(2)`), so there is no moment between a check and its
/// use, even while another process renames things underneath. A `/proc`-style magic link is
/// refused.
#[derive(Debug)]
pub struct Root {
    directory: OwnedFd,
}

impl Root {
    /// Opens `path`, which the caller trusts, as the root. The path itself may contain symbolic
    /// links.
    ///
    /// # Errors
    ///
    /// Those of `open(2)`; `ENOTDIR` where it is not a directory.
    pub fn open(path: impl AsRef<Path>) -> io::Result<Self> {
        let directory =
            open(path.as_ref(), OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())?;
        Ok(Self { directory })
    }

    /// Opens the file `path`, relative to the root, through no symbolic link. `O_CLOEXEC` and
    /// `O_NOCTTY` are always added.
    ///
    /// The path is untrusted. What was opened is not necessarily a regular file: pass `O_NONBLOCK`,
    /// so that a FIFO cannot hang the caller, and look at the file's type before reading.
    ///
    /// # Errors
    ///
    /// `EXDEV` where the path is absolute or leads out of the root, `ELOOP` where it meets a
    /// symbolic link, and those of `openat2(2)`.
    pub fn open_file(&self, path: impl AsRef<Path>, flags: OFlags) -> io::Result<File> {
        let resolve =
            ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS;
        let flags = flags | OFlags::NOCTTY;
        open_scoped(&self.directory, path.as_ref(), flags, resolve).map(File::from)
    }

    /// Opens what is at `path` where the root is `/`: a symbolic link is followed, an absolute one
    /// from the root, and `..` ends there.
    ///
    /// What was opened may be anything, as for [`Root::open_file`].
    ///
    /// # Errors
    ///
    /// Those of `openat2(2)`.
    pub fn follow(&self, path: impl AsRef<Path>, flags: OFlags) -> io::Result<File> {
        let resolve = ResolveFlags::IN_ROOT | ResolveFlags::NO_MAGICLINKS;
        // The kernel refuses it beside `O_PATH`.
        let terminal = match flags.contains(OFlags::PATH) {
            true => OFlags::empty(),
            false => OFlags::NOCTTY,
        };
        open_scoped(&self.directory, path.as_ref(), flags | terminal, resolve).map(File::from)
    }

    /// Opens a directory, found by [`Root::follow`], as a root.
    ///
    /// # Errors
    ///
    /// Those of `openat2(2)`.
    pub fn directory(&self, path: impl AsRef<Path>) -> io::Result<Self> {
        let directory = self.follow(path, OFlags::PATH | OFlags::DIRECTORY)?.into();
        Ok(Self { directory })
    }

    /// Returns the path here, without a link in it, of what [`Root::follow`] finds.
    ///
    /// # Errors
    ///
    /// Those of `openat2(2)` and `readlink(2)`.
    pub fn seen(&self, path: impl AsRef<Path>) -> io::Result<PathBuf> {
        name(&self.follow(path, OFlags::PATH)?)
    }

    /// Returns the path in the root, without a link in it, of what [`Root::follow`] finds.
    ///
    /// # Errors
    ///
    /// Those of [`Root::seen`].
    pub fn real(&self, path: impl AsRef<Path>) -> io::Result<PathBuf> {
        let found = self.seen(path)?;
        let below = found.strip_prefix(self.location()?).map_err(io::Error::other)?;
        Ok(Path::new("/").join(below))
    }

    /// Returns the path of the root itself, without a link in it.
    ///
    /// # Errors
    ///
    /// Those of `readlink(2)`.
    pub fn location(&self) -> io::Result<PathBuf> {
        name(&self.directory)
    }
}

fn name(file: &impl AsRawFd) -> io::Result<PathBuf> {
    std::fs::read_link(format!("/proc/self/fd/{}", file.as_raw_fd()))
}

impl AsFd for Root {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.directory.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use std::io::Read;
    use std::os::unix::fs::symlink;
    use std::sync::atomic::{AtomicBool, Ordering};

    use super::*;

    #[test]
    fn opens_only_what_is_really_below() {
        let outside = tempfile::tempdir().unwrap();
        std::fs::write(outside.path().join("secret"), "outside").unwrap();
        let dir = tempfile::tempdir().unwrap();
        std::fs::create_dir(dir.path().join("sub")).unwrap();
        std::fs::write(dir.path().join("sub/file"), "inside").unwrap();
        symlink(outside.path().join("secret"), dir.path().join("link")).unwrap();
        symlink(outside.path(), dir.path().join("dir-link")).unwrap();
        symlink("sub/file", dir.path().join("inner-link")).unwrap();
        let root = Root::open(dir.path()).unwrap();

        let mut text = String::new();
        root.open_file("sub/file", OFlags::RDONLY).unwrap().read_to_string(&mut text).unwrap();
        assert_eq!(text, "inside");
        root.open_file("sub/../sub/file", OFlags::RDONLY).unwrap();

        let refused = [
            ("../secret", Errno::XDEV),
            ("sub/../../secret", Errno::XDEV),
            ("/etc/passwd", Errno::XDEV),
            ("link", Errno::LOOP),
            ("inner-link", Errno::LOOP),
            ("dir-link/secret", Errno::LOOP),
            ("absent", Errno::NOENT),
        ];
        for (path, errno) in refused {
            let error = root.open_file(path, OFlags::RDONLY).unwrap_err();
            assert_eq!(error.raw_os_error(), Some(errno.raw_os_error()), "{path}");
        }
    }

    /// The kernel does not care where the renames are.
    #[test]
    fn renames_elsewhere_do_not_fail_a_lookup() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::create_dir(dir.path().join("sub")).unwrap();
        std::fs::write(dir.path().join("sub/file"), "").unwrap();
        let root = Root::open(dir.path()).unwrap();
        let elsewhere = tempfile::tempdir().unwrap();
        let names = ["one", "other"].map(|name| elsewhere.path().join(name));
        std::fs::write(&names[0], "").unwrap();
        let done = AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                while !done.load(Ordering::Relaxed) {
                    std::fs::rename(&names[0], &names[1]).unwrap();
                    std::fs::rename(&names[1], &names[0]).unwrap();
                }
            });
            let path = "sub/../".repeat(3) + "sub/file";
            let failed: Vec<_> =
                (0..5000).filter_map(|_| root.open_file(&path, OFlags::RDONLY).err()).collect();
            done.store(true, Ordering::Relaxed);
            assert!(failed.is_empty(), "{} times: {:?}", failed.len(), failed[0]);
        });
    }

    /// The filter is tried with systemd, in `tests/systemd/node_agent.rs`.
    #[test]
    fn a_missing_call_is_the_kernels_unless_there_is_a_filter() {
        assert!(why_missing("Seccomp:\t2\n").contains("RestrictSUIDSGID="));
        for status in ["", "Seccomp:\t0\nSeccomp_filters:\t0\n"] {
            assert!(why_missing(status).contains("Linux 5.6"), "{status}");
        }
    }

    #[test]
    fn a_file_is_no_root() {
        let file = tempfile::NamedTempFile::new().unwrap();
        assert_eq!(
            Root::open(file.path()).unwrap_err().raw_os_error(),
            Some(Errno::NOTDIR.raw_os_error())
        );
    }
}
