//! Says whether a guest image works, with a boot that needs neither KVM nor a TEE, and without one.
//!
//! For whoever builds a guest image or packages this project: their kernel and initrd in QEMU's
//! emulation, with disks as Kata attaches them, through the real wrapper and a recorded command
//! line of one of Kata's runtimes, and a stand-in for Kata's agent laid over the image in a second
//! cpio archive. The image itself is not changed.
//!
//! Deliberately not here: QEMU's command line and processes (`vm-harness`), the registry
//! (`fault-registry`), the settings of the boot program (`initdata-processor`).
//!
//! Entry: [`command::main`].
//!
//! - [`options`]: the command line. [`verdict`]: what was found, as text, JUnit and an exit code.
//! - [`no_boot`]: the image's files alone.
//! - [`image`]: the initrd with the second archive.
//! - [`surroundings`]: registry, documents, and the disks made of them; the way to the registry.
//! - [`machine`]: QEMU, and the limits on what it takes.
//! - [`agent`]: the stand-in, which runs in the guest. [`seen`]: what it tells.
//! - [`judge`]: from what was seen to one line for each part.

pub mod agent;
pub mod command;
pub mod image;
pub mod judge;
pub mod machine;
pub mod no_boot;
pub mod options;
pub mod seen;
pub mod surroundings;
pub mod verdict;
