//! Guest: verify initdata against the TEE, then copy the unverified configuration disk into place.
//!
//! Runs once, as root, before the agent, on disks that the host wrote. The host may deny service,
//! never more:
//!
//! - *initdata* (magic `initdata`) is measured. Its digest is compared with the field of the
//!   platform's report that the host announced at launch; only then is the document parsed and
//!   `[data]` put at `/run/measured-cfg`, in one directory swap. Whatever goes wrong ends in a
//!   deny-all policy at `/run/measured-cfg/policy.rego` that carries the reason.
//! - the *configuration* (magic `imgpullr`) is measured by nothing. It is inflated within limits
//!   and put, not interpreted, at `/run/insecure-cfg/imagepuller.toml`. A bad one never harms
//!   initdata: `/run/insecure-cfg/imagepuller.error` then holds the reason, and the image puller
//!   answers every pull with it.
//!
//! Deliberately not here: the image format (`config-image`), the initdata document and its digest
//! (`initdata`), the content of the configuration (`registry-config`, in the image puller), the
//! ioctls themselves (`linux-sys`), and any check of the report's signature: the report comes from
//! the local kernel, over a channel that the host cannot write to, and only this program reads it.
//!
//! Read [`boot`] first, where the order is; `main.rs` only parses arguments ([`cli`]). Then what it
//! asks: [`evidence`] for the announced field, [`disks`] for what is attached. Then where it
//! writes: [`swap`] with the [`policy`], [`insecure`], and [`agent`] for what a stock agent finds.
//! [`watch`] and [`sandbox`] are around the work, [`refresh`] is the other command. [`settings`],
//! [`error`], [`journal`], [`paths`], `names` and [`bug`] serve all of them.

pub mod agent;
pub mod boot;
pub mod bug;
pub mod cli;
pub mod disks;
pub mod error;
pub mod evidence;
pub mod insecure;
pub mod journal;
mod names;
pub mod paths;
pub mod policy;
pub mod refresh;
pub mod sandbox;
pub mod settings;
pub mod swap;
pub mod watch;
