//! Verified layers on disk, shared by all images, and the overlay mounts made of them.
//!
//! What has a name in the store was verified whole before it got it. Not here: how a layer is
//! verified and unpacked (`layer-unpack`), and where it comes from.
//!
//! The entry is [`store::Store`].
//! - [`store`]: the directory, how it is laid out, and what an earlier service left in it.
//! - [`mod@name`]: what a layer is called. [`layer`]: one layer and the handle that keeps it;
//!   [`staging`]: before it is one.
//! - `documents`: what leads from a digest to the layers, so that an image needs no registry.
//! - [`container`]: the writable part of one mount, and which layers lie below it.
//! - [`mount`]: layers joined, `overlay` by the kernel, with `implied` directories as lower layers
//!   have them.
//! - `users`, `mountinfo`: which layers are in use. [`collect`]: layers without users removed.
//!   [`caretaker`]: the thread that does it when a mount goes. `waste`: how something is removed.
//! - [`room`]: how much the file system has left.
//! - [`flatten`]: layers made into one directory instead of a mount.
//! - [`error`]: why the store could not do something; [`limits`]: what it does not take.

pub mod caretaker;
pub mod collect;
pub mod container;
mod directory;
mod documents;
pub mod error;
pub mod flatten;
mod implied;
pub mod layer;
pub mod limits;
pub mod mount;
mod mountinfo;
pub mod name;
mod overlay;
pub mod room;
pub mod staging;
pub mod store;
mod users;
mod waste;

pub use error::Error;
