//! Safe functions over the Linux calls this project needs; the only room with unsafe code.
//!
//! What the standard library and `rustix` offer safely is used directly where it is needed; a call
//! comes here when it takes unsafe code or when getting its flags wrong would be a security bug.
//!
//! Not here: any policy (which file, which device, what to do with the answer) and any parsing of
//! what was read.
//!
//! - [`heap`]: the C library's memory, given back or kept.
//! - `inherited` (feature `inherited-sockets`): sockets that the parent process listens on.
//! - [`locked`]: memory for a secret, never swapped and zeroed before it is given back.
//! - [`lock`]: a file that one process has at a time.
//! - `loop_device` (feature `loop-device`): a read-only block device that removes itself.
//! - [`memfd`]: a sealed, read-only anonymous file, the carrier of the configuration image.
//! - [`plugin_process`]: a child that inherits no descriptor by accident.
//! - [`mod@replace`]: a file that is replaced at once.
//! - [`rooted`]: files below a directory that cannot be left by `..` or a symbolic link.
//! - [`sev_guest`], [`tdx_guest`]: the report ioctls of the two confidential platforms.
//! - `tap` (feature `tap`): tap and TUN interfaces; only tests have them.
//! - [`worker`]: a process for work that may never come back from the kernel.
//! - [`working_directory`]: a thread that has one of its own.

pub mod heap;
#[cfg(feature = "inherited-sockets")]
pub mod inherited;
pub mod lock;
pub mod locked;
#[cfg(feature = "loop-device")]
pub mod loop_device;
pub mod memfd;
pub mod plugin_process;
pub mod replace;
pub mod rooted;
pub mod sev_guest;
#[cfg(feature = "tap")]
pub mod tap;
pub mod tdx_guest;
pub mod worker;
pub mod working_directory;
