//! The shim extension: choose the document for a sandbox, pack it, attach it to the VM.
//!
//! Kata's runtimes start QEMU with a command line of their own. `kata-configdev-qemu` stands in
//! QEMU's place, as the runtime's configuration allows (`[hypervisor.qemu] path`), adds one
//! read-only disk with the registry configuration of the sandbox, and becomes QEMU. Kata itself is
//! not changed. `kata-configdev` is the tool for people: it checks and explains documents, packs
//! them into images and shows what an image holds. A runtime that builds the hypervisor's
//! configuration itself calls [`attach::attach`], or the command of that name.
//!
//! Not here: the format of the image (`config-image`), the meaning of the document
//! (`registry-config`), and everything that happens in the guest.
//!
//! Entry points: [`wrapper::run`] and [`cli::run`], one per program, and [`attach::attach`] for
//! runtimes.
//!
//! In the wrapper's order:
//! - [`settings`]: the administrator's files, with [`document_pattern`]. [`invocation`] (with
//!   [`option_list`]): what Kata's command line says. [`purpose`]: what the VM is for.
//! - [`sandbox_spec`]: what a spec says about its pod. [`namespace`]: whose word that is.
//!   [`namespace_path`]: what the settings have by namespace. [`choice`]: which document a pod
//!   gets. [`host_file`]: how a file is opened.
//! - [`providers`]: what the kubelet's credential providers add to it. [`sandbox_document`]: the
//!   result, packed. [`disk`]: QEMU's arguments for it. [`wrapper`]: all of it in sequence.
//! - [`refusal`]: what becomes of a sandbox that must not start. [`obstacle`]: whether any could.
//!
//! For runtimes:
//! - [`attach`]: the disk by any [`transport`]. [`sandbox_id`]: its name in paths.
//!   [`shared_image`]: the transport `file`.
//! - [`capacity`]: how much room it has. [`update`]: new content while the VM runs.
//! - [`sweep`], with [`living`]: what is left of sandboxes that are gone. [`node_agent`]: these two
//!   and the installer, for as long as the node runs.
//!
//! For people:
//! - [`doctor`]: what is wrong on a node. [`node_root`]: the files of a node. `run_directory`:
//!   directories of root alone.
//! - [`cli`] with one module per command. [`image_file`]: an image on disk, opened without hanging
//!   and replaced as a whole.
//!
//! For both: [`SandboxError`] (`error`), the [`exit`] codes, [`panic_message`], `digest`. Each
//! command adds what can go wrong in it: [`update::UpdateError`], [`cli::CommandError`].

pub mod attach;
pub mod capacity;
pub mod choice;
pub mod cli;
mod digest;
pub mod disk;
pub mod doctor;
pub mod document_pattern;
mod error;
pub mod exit;
pub mod host_file;
pub mod image_file;
pub mod invocation;
pub mod living;
pub mod namespace;
pub mod namespace_path;
pub mod node_agent;
pub mod node_root;
pub mod obstacle;
pub mod option_list;
pub mod panic_message;
pub mod providers;
pub mod purpose;
pub mod refusal;
mod run_directory;
pub mod sandbox_document;
pub mod sandbox_id;
pub mod sandbox_spec;
pub mod settings;
pub mod shared_image;
pub mod sweep;
pub mod transport;
pub mod update;
pub mod wrapper;

pub use error::SandboxError;
