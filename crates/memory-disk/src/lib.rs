//! A read-only virtio-blk device served from memory over vhost-user.
//!
//! The configuration image never reaches a file system: it lies in locked memory of one process,
//! which hands it to one VM's guest, counts what is read, and can go dark after that. The guest's
//! RAM has to be shared with this process; where it is not, the guest cannot read the disk.
//!
//! Not here: what is in the image and how it is packed, the VMM's command line, sockets on a path,
//! and starting a process to call this in.
//!
//! Entry point: [`serve`].
//!
//! - [`device`]: the disk and its requests, without any transport.
//! - `vhost_user`: the wire.
//! - `watch`: when to log an event and when to go dark.
//! - `sandbox`: no files, no network, no programs.
//! - [`Event`]: what is logged meanwhile.

pub mod device;
mod error;
mod event;
mod sandbox;
mod serve;
mod vhost_user;
mod watch;

pub use error::Error;
pub use event::Event;
pub use serve::{Options, Totals, serve};
