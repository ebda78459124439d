//! Puts the wrapper, its settings and the document of mounted secrets on a node, keeps them so, and
//! removes them.
//!
//! A DaemonSet runs this as root, with a few directories of the node mounted below one directory
//! ([`Options::host`]). It turns the wish ([`Options`] and the secrets) into files, touches only
//! files that it wrote itself, and does nothing where nothing changed.
//!
//! Not here: the meaning of the wrapper's settings and the command line (`kata-configdev`, which
//! calls this), the Kubernetes API (the kubelet mounts the secret, and that is all this needs), and
//! the restart of pods: a document holds for sandboxes created later.
//!
//! Entry points: [`install`] for one pass, [`watch()`] to keep at it, [`uninstall`].
//!
//! - [`options`]: what the administrator wants. `host_path`: a path on the node.
//! - `secret`: what the kubelet mounted. `docker_config`: that in docker's form. `decryption_keys`:
//!   that with keys of images. `document`: what a set's secrets make together.
//! - [`limits`]: how much of anything is taken in.
//! - `plan`: the files that follow from all that.
//! - `node`: directories and files of the node, none reached through a link. `manifest`: which of
//!   them are ours.
//! - `pass`: from the plan to the node. [`mod@watch`]: passes whenever something changed.
//! - [`health`]: the two questions that the kubelet asks. [`log`]: how events are printed.

mod decryption_keys;
mod docker_config;
mod document;
mod error;
pub mod health;
mod host_path;
pub mod limits;
pub mod log;
mod manifest;
mod node;
pub mod options;
mod pass;
mod plan;
mod secret;
pub mod watch;

pub use error::{Error, exit};
pub use host_path::HostPath;
pub use options::{Options, Set};
pub use pass::{Outcome, install, uninstall};
pub use watch::watch;
