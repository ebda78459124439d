//! The kernel's two ways to mount an overlay.
//!
//! Since Linux 6.8 overlayfs takes its layers one by one, and a finished mount is moved to its
//! place in one step. Before, all options together must fit into one page. 500 layers fit even
//! there: they are named by the numbers of their descriptors, relative to `/proc/self/fd` as the
//! working directory of a thread that ends afterwards.

use std::fmt::Write as _;
use std::fs::File;
use std::os::fd::{AsFd as _, AsRawFd as _, OwnedFd};
use std::sync::atomic::{AtomicBool, Ordering};

use rustix::io::Errno;
use rustix::mount::{
    FsMountFlags, FsOpenFlags, MountAttrFlags, MountFlags, MoveMountFlags, fsconfig_create,
    fsconfig_set_string, fsmount, fsopen, mount, move_mount,
};

/// The directory in which numbers are descriptors.
const DESCRIPTORS: &str = "/proc/self/fd";

/// The longest explanation that is read.
const MAX_MESSAGE_BYTES: usize = 512;

/// What is joined.
#[derive(Debug)]
pub(crate) struct Stack {
    /// What `mountinfo` shows as the source.
    pub(crate) source: String,
    /// Uppermost first.
    pub(crate) lower: Vec<OwnedFd>,
    pub(crate) upper: OwnedFd,
    pub(crate) work: OwnedFd,
}

/// The kernel said no.
#[derive(Debug)]
pub(crate) struct Refused {
    pub(crate) errno: Errno,
    /// In its own words.
    pub(crate) says: Option<String>,
}

impl From<Errno> for Refused {
    fn from(errno: Errno) -> Self {
        Self { errno, says: None }
    }
}

/// Mounts an overlay at a directory, which ever way the kernel knows. Blocks.
pub(crate) fn attach(stack: &Stack, target: &OwnedFd) -> Result<(), Refused> {
    /// Whether the newer way failed and the older did not: then it need not be tried again, and the
    /// kernel's log stays free of complaints.
    static IS_OLD: AtomicBool = AtomicBool::new(false);
    if IS_OLD.load(Ordering::Relaxed) {
        return attach_old(stack, target);
    }
    let refused = match attach_new(stack, target) {
        // An unknown option is no more than an invalid argument.
        Err(refused) if matches!(refused.errno, Errno::INVAL | Errno::NOSYS) => refused,
        other => return other,
    };
    attach_old(stack, target).map_err(|older| {
        // What both refuse, the newer one explains.
        if older.errno == refused.errno { refused } else { older }
    })?;
    IS_OLD.store(true, Ordering::Relaxed);
    Ok(())
}

/// With a context of its own for each file system; since 5.2, for overlays since 6.5, and layer by
/// layer since 6.8.
fn attach_new(stack: &Stack, target: &OwnedFd) -> Result<(), Refused> {
    let context = fsopen("overlay", FsOpenFlags::FSOPEN_CLOEXEC)?;
    let explained = |errno| Refused { errno, says: explanation(&context) };
    let set = |key: &str, value: &str| fsconfig_set_string(&context, key, value).map_err(explained);
    set("source", &stack.source)?;
    for layer in &stack.lower {
        set("lowerdir+", &by_descriptor(layer))?;
    }
    set("upperdir", &by_descriptor(&stack.upper))?;
    set("workdir", &by_descriptor(&stack.work))?;
    fsconfig_create(&context).map_err(explained)?;
    let flags = FsMountFlags::FSMOUNT_CLOEXEC;
    let mounted = fsmount(&context, flags, MountAttrFlags::empty())?;
    let both = MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH | MoveMountFlags::MOVE_MOUNT_T_EMPTY_PATH;
    Ok(move_mount(mounted.as_fd(), "", target.as_fd(), "", both)?)
}

/// With one text for everything.
fn attach_old(stack: &Stack, target: &OwnedFd) -> Result<(), Refused> {
    let mut options = String::from("lowerdir=");
    for (at, layer) in stack.lower.iter().enumerate() {
        let separator = if at == 0 { "" } else { ":" };
        let _ = write!(options, "{separator}{}", layer.as_raw_fd());
    }
    let (upper, work) = (stack.upper.as_raw_fd(), stack.work.as_raw_fd());
    let _ = write!(options, ",upperdir={upper},workdir={work}");
    let options = std::ffi::CString::new(options).map_err(|_| Errno::INVAL)?;
    let place = target.as_raw_fd().to_string();
    let errno = |error| Errno::from_io_error(&error).unwrap_or(Errno::IO);
    let descriptors = File::open(DESCRIPTORS).map_err(errno)?;
    let mounted = linux_sys::working_directory::work_in(descriptors.as_fd(), || {
        mount(&stack.source, place, "overlay", MountFlags::empty(), options.as_c_str())
    });
    Ok(mounted.map_err(errno)??)
}

fn by_descriptor(file: &OwnedFd) -> String {
    format!("{DESCRIPTORS}/{}", file.as_raw_fd())
}

/// The first message of a context, without the letter that tells errors from warnings.
fn explanation(context: &OwnedFd) -> Option<String> {
    let mut bytes = [0; MAX_MESSAGE_BYTES];
    let length = rustix::io::read(context, &mut bytes).ok()?;
    let text = String::from_utf8_lossy(&bytes[..length]);
    let text = text.trim().get(2..)?.to_owned();
    (!text.is_empty()).then_some(text)
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::mount::{UnmountFlags, unmount};
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    use std::fs;
    use std::path::Path;

    fn takes_layers_one_by_one() -> bool {
        let release = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap();
        let mut numbers = release.split('.').map_while(|part| part.parse::<u32>().ok());
        (numbers.next(), numbers.next()) >= (Some(6), Some(8))
    }

    /// Both ways join as many layers as there may be, in the right order.
    #[test]
    fn privileged_both_ways_take_500_layers() {
        vm_harness::needs_root!();
        let maximum = getrlimit(Resource::Nofile).maximum;
        let current = maximum;
        setrlimit(Resource::Nofile, Rlimit { current, maximum }).unwrap();
        let directory = tempfile::tempdir_in("/dev/shm").unwrap();
        let open = |path: &Path| OwnedFd::from(File::open(path).unwrap());
        let target = directory.path().join("target");
        fs::create_dir(&target).unwrap();
        type Attach = fn(&Stack, &OwnedFd) -> Result<(), Refused>;
        let ways: [(&str, Attach); 3] =
            [("either", attach), ("old", attach_old), ("new", attach_new)];
        let known = if takes_layers_one_by_one() { 3 } else { 2 };
        for (way, attach) in &ways[..known] {
            for count in [1, 127, 128, 200, 500, 501] {
                let base = directory.path().join(format!("{way}-{count}"));
                let make = |name: &str| {
                    fs::create_dir_all(base.join(name)).unwrap();
                    open(&base.join(name))
                };
                let lower = (0..count).map(|number| {
                    let layer = make(&format!("l{number}"));
                    let path = base.join(format!("l{number}"));
                    fs::write(path.join("same"), number.to_string()).unwrap();
                    fs::write(path.join(format!("f{number}")), number.to_string()).unwrap();
                    layer
                });
                let stack = Stack {
                    source: format!("imagepuller-{count}"),
                    lower: lower.collect(),
                    upper: make("upper"),
                    work: make("work"),
                };
                let attached = attach(&stack, &open(&target));
                if count > crate::limits::MAX_LAYERS {
                    let refused = attached.unwrap_err();
                    assert_eq!(refused.errno, Errno::INVAL);
                    if *way == "new" {
                        let says = refused.says.unwrap();
                        assert!(says.contains("too many"), "{says}");
                    }
                    continue;
                }
                attached.unwrap();
                assert_eq!(fs::read(target.join("same")).unwrap(), b"0");
                for number in 0..count {
                    let content = fs::read_to_string(target.join(format!("f{number}"))).unwrap();
                    assert_eq!(content, number.to_string());
                }
                let names = fs::read_dir(&target).unwrap().count();
                unmount(&target, UnmountFlags::empty()).unwrap();
                assert_eq!(names, count + 1, "{way}");
            }
        }
    }
}
