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
//! (`initdata`), the content of the configuration (`puller-config`, in the image puller), the
//! ioctls themselves (`linux-sys`), and any check of the report's signature: the report comes from
//! the local kernel, over a channel that the host cannot write to, and only this program reads it.
//!
//! Entry: [`run`] with [`Options`], and [`refresh::serve`] later; `main.rs` only parses arguments
//! ([`cli`]).
//!
//! - [`find`]: the search, and the wait for late disks ([`uevent`]). [`disk`]: which block devices
//!   are looked at, and which carry a magic. [`direct`]: reads past the page cache.
//! - [`evidence`]: what the host announced, from the SNP or TDX report. [`verify`]: initdata
//!   against that.
//! - [`watch`]: a process that does the work, and one that waits for it, but not for ever.
//!   [`sandbox`]: what the former may still do once it reads a disk.
//! - [`measured`]: the verified files, in directories that are exchanged whole ([`swap`]).
//!   [`deny`]: the policy that stands there when initdata failed, and until it succeeds.
//!   [`default_policy`]: the one where initdata brings none. [`withdraw`]: disks with
//!   initdata, out of the agent's reach. [`copy`]: an accepted one in memory, in its place.
//! - [`insecure`]: the configurations' files, or the reasons why there are none. [`settings`]:
//!   which there are. [`origin`]: the disk that each came from.
//! - `names`: of the files in a directory. [`kernel_parameter`]: words of the command line.
//!   [`journal`]: log lines. [`paths`]: where all this is. [`notify`]: systemd's word. [`bug`]:
//!   what a panic says, and that it too ends in the deny-all policy.

pub mod bug;
pub mod cli;
pub mod copy;
pub mod default_policy;
pub mod deny;
pub mod direct;
pub mod disk;
mod error;
pub mod evidence;
pub mod find;
pub mod insecure;
pub mod journal;
pub mod kernel_parameter;
pub mod line;
pub mod measured;
mod names;
pub mod notify;
pub mod origin;
mod outcome;
pub mod paths;
mod process;
pub mod refresh;
mod refusal;
mod report;
pub mod sandbox;
pub mod settings;
pub mod swap;
pub mod uevent;
pub mod verify;
pub mod watch;
pub mod withdraw;

pub use error::Error;
pub use outcome::{Configuration, Configured, Initdata, Outcome, Strict, Verdict};
pub use process::{Options, run, run_on};
