//! Boots a guest image without KVM or a TEE, and says in a minute whether it works.
//!
//! For whoever builds a guest image or packages this project: their kernel and initrd in QEMU's
//! emulation, with disks as Kata attaches them, through the real wrapper and a recorded command
//! line of one of Kata's runtimes, and a stand-in for Kata's agent laid over the image in a second
//! cpio archive. The image itself is not changed.
//!
//! Deliberately not here: QEMU's command line and processes (`vm-harness`), the registry
//! (`fault-registry`), what is wrong with an image that is not booted (`initdata-processor
//! check-image`, which is called).
//!
//! Entry: [`command::main`].
//!
//! - [`options`]: the command line. [`exit`]: what the exit codes mean.
//! - [`image`]: the initrd with the second archive; [`unpack`]: an initrd as a directory, for
//!   [`check_image`].
//! - [`surroundings`]: registry, documents, and the disks made of them.
//! - [`machine`]: QEMU, and the limits on what it takes.
//! - [`agent`]: the stand-in, which runs in the guest. [`seen`]: what it tells.
//! - [`judge`]: from what was seen to one line for each part. [`output`]: text, JSON, JUnit.
//! - [`relay`]: from QEMU's network to the registry.

pub mod agent;
pub mod check_image;
pub mod command;
pub mod exit;
pub mod image;
pub mod judge;
pub mod machine;
pub mod options;
pub mod output;
pub mod relay;
pub mod seen;
pub mod surroundings;
pub mod unpack;
