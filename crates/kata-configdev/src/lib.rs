//! The shim extension: choose the document for a sandbox, pack it, attach it to the VM.
//!
//! Kata's runtimes start QEMU with a command line of their own. `kata-configdev-qemu` stands in QEMU's place, as the
//! runtime's configuration allows (`[hypervisor.qemu] path`), adds one read-only disk with the registry configuration of
//! the sandbox, and becomes QEMU. Kata itself is not changed. `kata-configdev` is the tool for people: it checks documents, packs
//! them into images and shows what an image holds.
//!
//! Not here: the format of the image (`config-image`), the meaning of the document (`puller-config`), and everything
//! that happens in the guest.
//!
//! Entry points: [`wrapper::run`] and [`cli::run`], one per program.
//!
//! In the wrapper's order:
//! - [`settings`]: the administrator's file. [`invocation`] (with [`option_list`]): what Kata's command line says.
//! - [`sandbox_spec`]: the pod's annotation. [`choice`]: which document it gets. [`host_file`]: how a file is opened.
//! - [`disk`]: the image in memory and QEMU's arguments for it. [`wrapper`]: all of it in sequence.
//!
//! For people:
//! - [`cli`] with one module per command. [`image_file`]: an image on disk, opened without hanging and replaced as
//!   a whole.
//!
//! For both: [`Error`] with its [`exit`] codes, [`lines`], [`panic_message`].

pub mod choice;
pub mod cli;
pub mod disk;
mod error;
pub mod host_file;
pub mod image_file;
pub mod invocation;
pub mod lines;
pub mod option_list;
pub mod panic_message;
pub mod sandbox_spec;
pub mod settings;
#[cfg(test)]
mod skip;
pub mod wrapper;

pub use error::{Error, exit};
