//! Asks the Kubernetes API to remove from all nodes what a DaemonSet installed there, and waits
//! until each of its pods says that it is done.
//!
//! A job of the chart runs this before `helm uninstall` deletes the DaemonSet. It needs the rights
//! to get and to patch this one DaemonSet, and has them only meanwhile: who may change the pods of
//! the DaemonSet is root on its nodes. So it may also delete the binding that gives it these
//! rights, and does so at its end: Helm 3.17 leaves the binding where the job failed.
//!
//! Not here: the removal itself, which the installer in the pods does when its arguments have
//! [`REMOVE`].
//!
//! Entry point: [`remove`].
//!
//! - [`account`]: where the API server is, and as whom a pod asks it.
//! - [`api`]: requests about one DaemonSet, and the end of the right to them.
//! - [`daemon_set`]: what a DaemonSet says of itself, and the change to it.
//! - [`removal`]: the change, and the wait for what it does.

pub mod account;
pub mod api;
pub mod daemon_set;
mod error;
pub mod removal;

pub use daemon_set::REMOVE;
pub use error::{Error, exit};
pub use removal::{Limits, remove};
