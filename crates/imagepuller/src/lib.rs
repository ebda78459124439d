//! Guest service: pull images by digest, check every byte, unpack and mount them for the agent.
//!
//! The host controls the network and the configuration. Neither can make the puller use content
//! that the reference does not name. Not here: how the configuration got into the guest
//! (`initdata-processor`), what it may say (`registry-config`), the wire of the service
//! (`imagepuller-api`), and the work itself: what images are (`oci-image`), where they come from
//! (`registry-client`), how a layer is unpacked (`layer-unpack`) and kept (`layer-store`).
//!
//! Entries: [`cli::main`] is the program, [`service::serve`] the service, [`pull::Puller::pull`]
//! one pull into a bundle and [`pull::output::pull_to`] one pull into a directory.
//!
//! From the outside inwards:
//! - [`cli`]: the commands. [`service`], [`socket`], [`request`]: the ttrpc service, its sockets,
//!   its client. [`forward`]: calls for the confidential data hub; [`hub`]: in that hub's place.
//!   `notify`: the service manager. `refresher`: what came to the node a moment ago.
//! - [`pull`]: one pull. `received`: bytes on their way to the disk. [`mod@bundle`]: where the
//!   image goes. [`watch`]: what it is doing. `event_log`: what verifiers learn of it.
//! - `store_mount`: waits for the store's file system. `blocking`: file system work. `background`:
//!   work that goes on without its caller. [`reasons`]: why references gave nothing.
//! - [`error`]: everything that can go wrong, in the user's words.

mod background;
mod blocking;
pub mod bundle;
pub mod cli;
pub mod error;
mod event_log;
pub mod forward;
pub mod hub;
mod notify;
pub mod pull;
pub mod reasons;
mod received;
mod refresher;
pub mod request;
pub mod service;
pub mod socket;
mod store_mount;
pub mod watch;
