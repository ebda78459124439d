//! Tests only: QEMU, its console, and real registry and proxy processes.
//!
//! Everything that runs here is the real program from Debian's packages or from this workspace; this crate starts it on free
//! ports and in a directory of its own, waits for it, and cleans up after it. The demonstration (`hack/demo`) and the
//! end-to-end tests share it.
//!
//! Not here: any product code, and any expectation; those stand in the tests.
//!
//! Entry points: [`Site`] (registry, image, document), then [`Guest::boot`].
//!
//! - [`Scratch`]: a directory and the processes that live no longer than it.
//! - [`pki`], [`layout`], [`Registry`]: certificates, an image from real files, a registry that serves it.
//! - [`fixture`], [`initramfs`]: kernel and modules from Debian's package, the guest's first file system.
//! - [`kata`]: the command line that Kata's Go runtime generates.
//! - [`Guest`], [`Report`]: a VM that runs a job, and what it said on its console.
//! - [`demo`]: the main job, told to a person.

pub mod demo;
pub mod fixture;
mod guest;
pub mod initramfs;
pub mod kata;
pub mod layout;
pub mod pki;
mod process;
mod program;
mod registry;
mod report;
mod scratch;
pub mod site;

pub use guest::{Evidence, Guest, Scenario};
pub use process::Background;
pub use program::Program;
pub use registry::Registry;
pub use report::Report;
pub use scratch::Scratch;
pub use site::Site;
