//! Guest service: pull images by digest, check every byte, unpack and mount them for the agent.
//!
//! Nothing here may be talked into using content that the reference does not name: the configuration and the network are
//! the host's. Not here: how the configuration got into the guest (`initdata-processor`), what it may say
//! (`puller-config`), and the wire of the service (`imagepuller-api`). Retries, resumed transfers, decryption and the removal
//! of unused layers are not here yet.
//!
//! The entry is [`pull::Puller::pull`]; the program around it is [`cli`].
//!
//! From the outside inwards:
//! - [`cli`], [`service`], [`socket`], [`request`]: commands, the ttrpc service, its sockets, its client.
//! - [`pull`]: one pull from beginning to end; [`settings`]: the document as it is at that moment.
//! - [`mod@reference`], [`mod@bundle`]: what is asked for and where to.
//! - [`source`]: mirror and registry in order; [`registry`]: manifests and blobs of one of them, authenticated with
//!   [`challenge`] and [`token`].
//! - [`transport`]: requests, redirects and whom to trust, over [`tls`], [`proxy`] and [`no_proxy`]; [`body`]: small answers.
//! - [`digest`]: content and its hash; [`manifest`], [`platform`]: verified documents and the choice between images.
//! - [`mod@layer`]: a blob unpacked; [`store`]: layers kept; [`mount`]: layers joined, with `implied` directories as lower
//!   layers have them; `removal`: trees removed.
//! - [`error`]: everything that can go wrong, in the user's words.

pub mod body;
pub mod bundle;
pub mod challenge;
pub mod cli;
pub mod digest;
pub mod error;
mod implied;
pub mod layer;
pub mod manifest;
pub mod mount;
pub mod no_proxy;
pub mod platform;
pub mod proxy;
pub mod pull;
pub mod reference;
pub mod registry;
mod removal;
pub mod request;
pub mod service;
pub mod settings;
pub mod socket;
pub mod source;
pub mod store;
pub mod tls;
pub mod token;
pub mod transport;
