//! Puts the wrapper, its settings and the document of mounted secrets on a node, keeps them so, and
//! removes them.
//!
//! A DaemonSet runs this as root, with a few directories of the node mounted below one directory
//! ([`Options::host`]). The installer turns its configuration ([`Options`]) and the mounted secrets
//! into files. It changes only files that it wrote itself, and does nothing where nothing changed.
//!
//! Not here: the meaning of the wrapper's settings, the command line and the disks of living
//! sandboxes (`kata-configdev` has all three), answers about the node's health (`node-health`), and
//! the Kubernetes API: the kubelet mounts the secrets, and the installer needs nothing else.
//!
//! Entry points: [`install`] makes one pass, [`check`] makes it without writing, [`watch()`] makes
//! one after each change, [`uninstall`] removes everything.
//!
//! - [`options`]: the installer's configuration. `host_path`: a path on the node. `owner`: whose an
//!   installation is. `kind`: what a file is for. [`limits`]: how much of anything is read.
//!   [`administered`]: what root believes.
//! - `secret`: a secret as the kubelet mounts it. `docker_config`: one with docker's credentials.
//!   `decryption_keys`: one with keys of encrypted images. `source`: what one document is made of.
//!   `group`: the documents of namespaces, and those for the annotation. `document`: the document
//!   that secrets make together. `arrival`: what takes its place until they come.
//! - [`engine`]: which container engine runs the node's pods.
//! - [`kata`]: what Kata's own configuration of a handler says, and what is wrong with it.
//! - [`rules`]: what the wrapper makes of its settings. `fitness`: whether a sandbox of a set would
//!   start. `plan`: the files that should be on the node. `wrapper_settings`: the text of one.
//! - [`installation`]: what an installer left, as it stands.
//! - `node`: directories and files of the node, none reached through a link. `manifest`: the list
//!   of those that the installer made.
//! - `pass`: writes and removes what the plan asks for. `edit`: what is taken out of files that
//!   stay. [`mod@watch`]: a pass after each change.
//! - [`log`]: how events are printed.

pub mod administered;
mod arrival;
mod decryption_keys;
mod docker_config;
mod document;
mod edit;
pub mod engine;
mod error;
mod fitness;
mod group;
mod host_path;
pub mod kata;
mod kind;
pub mod limits;
pub mod log;
mod manifest;
mod node;
pub mod options;
mod owner;
mod pass;
mod plan;
pub mod rules;
mod secret;
mod source;
pub mod watch;
mod wrapper_settings;

pub use error::{Error, exit};
pub use host_path::HostPath;
pub use manifest::standing as installation;
pub use node::{Program, program};
pub use options::{NamespaceFallback, Options, Set};
pub use owner::Owner;
pub use pass::{Outcome, check, install, uninstall};
pub use source::Source;
pub use watch::watch;
