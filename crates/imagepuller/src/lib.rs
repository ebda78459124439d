//! Guest service: pull images by digest, check every byte, unpack and mount them for the agent.
//!
//! Nothing here may be talked into using content that the reference does not name: the
//! configuration and the network are the host's. Not here: how the configuration got into the guest
//! (`initdata-processor`), what it may say (`puller-config`), the wire of the service
//! (`imagepuller-api`), and the work itself: what images are (`oci-image`), where they come from
//! (`registry-client`), how a layer is unpacked (`layer-unpack`) and kept (`layer-store`).
//!
//! The entry is [`pull::Puller::pull`]; the program around it is [`cli`].
//!
//! From the outside inwards:
//! - [`cli`], [`service`], [`socket`], [`request`]: commands, the ttrpc service, its sockets, its
//!   client; `notify`: what the service manager is told.
//! - [`pull`]: one pull from beginning to end, with `received` bytes on their way from the network
//!   to the disk; [`mod@bundle`]: where to; [`progress`]: how it goes.
//! - [`error`]: everything that can go wrong, in the user's words.

mod blocking;
pub mod bundle;
pub mod cli;
pub mod collection;
pub mod error;
pub mod forward;
mod notify;
pub mod progress;
pub mod pull;
mod received;
pub mod request;
pub mod service;
pub mod socket;
