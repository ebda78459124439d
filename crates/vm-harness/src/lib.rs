//! Tests only: guests in QEMU, what they boot, and the real processes around them.
//!
//! Everything that runs here is the real program from Debian's packages or from this workspace;
//! this crate starts it on free ports and in a directory of its own, waits for it, and cleans up
//! after it. The demonstration (`hack/demo`) and the end-to-end tests share it.
//!
//! Not here: any product code, and any expectation; those stand in the tests.
//!
//! Entry points: [`Site`] (registry, image, document), then [`Guest::boot`].
//!
//! - [`Scratch`]: a directory and the processes that live no longer than it.
//! - [`layout`], [`Registry`]: an image from real files, a registry that serves it.
//! - [`fixture`], [`initramfs`]: kernel and modules from Debian's package, the guest's first file
//!   system.
//! - [`vector`], [`kata`]: command lines of Kata's runtimes, and one of them made to run without
//!   KVM.
//! - [`node`]: a VM with an emulated KVM, in which those command lines run as they are.
//! - [`archive`]: tar archives, honest and hostile.
//! - [`mod@walk`]: everything about every file of a tree, to be compared.
//! - [`token`], [`TokenServer`]: tokens for a registry, the key that signs them, and a server that
//!   gives them out.
//! - [`Port`], [`proxy`]: ports that nobody else gets, and proxies with a password.
//! - [`ttrpc`]: frames and calls, by hand.
//! - [`decoy`]: disks that are none of ours.
//! - [`Vtpm`]: a TPM, and firmware that measures into it.
//! - [`Scenario`], [`Guest`], [`Report`], [`Qmp`]: what a VM that runs a job is started with, the
//!   VM, what it said on its console, and its control socket.
//! - [`despite_crash`]: VMs that end by a fault of the emulation are started once more.
//! - [`demo`]: the main job, told to a person.

pub mod archive;
mod crash;
pub mod decoy;
pub mod demo;
pub mod fixture;
mod guest;
pub mod initramfs;
pub mod kata;
pub mod layout;
pub mod node;
mod port;
pub mod process;
mod program;
pub mod proxy;
mod qmp;
mod registry;
mod report;
mod rights;
mod scenario;
mod scratch;
pub mod site;
pub mod token;
mod token_server;
pub mod ttrpc;
pub mod vector;
mod vtpm;
pub mod walk;

pub use crash::{Crash, despite_crash};
pub use fixture::Kernel;
pub use guest::{Guest, run};
pub use kata::Network;
pub use port::Port;
pub use process::Background;
pub use program::{Program, program};
pub use proxy::Proxy;
pub use qmp::Qmp;
pub use registry::Registry;
pub use report::{Report, count_marks, has_mark};
pub use rights::is_root;
pub use scenario::{Evidence, Scenario};
pub use scratch::Scratch;
pub use site::Site;
pub use token::TokenSigner;
pub use token_server::{REFRESH_TOKEN, TokenServer};
pub use vtpm::Vtpm;
