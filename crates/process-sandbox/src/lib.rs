//! Takes from the calling thread, and from all that it starts, the rights that its work does not
//! need.
//!
//! For a program that is about to read bytes from somebody it distrusts: should that somebody find
//! a way to make it do something else, little is left to do. Three walls that do not depend on each
//! other, each for good:
//!
//! 1. [`capabilities::keep_only`]: being root means no more than owning root's files.
//! 2. [`files::confine`]: Landlock, a list of directories and of what may be done below each.
//! 3. [`calls::Calls`]: seccomp, a list of system calls; every other one fails.
//!
//! Not here: which rights a program needs. The program says that, in one file of its own.
//!
//! Threads that exist already keep their rights: call this before the first one is started.

pub mod calls;
pub mod capabilities;
mod error;
pub mod files;

pub use error::Error;
