//! The ttrpc service definitions between Kata's agent and the image puller.
//!
//! The wire is Kata's and must not change: package `api`, service `ImagePullService`, method `PullImage`. Both sides of
//! it are here, [`client::ImagePullServiceClient`] and [`server::ImagePullService`], generated at build time from
//! `proto/image_pull.proto`. What happens on a call is not here but in the `imagepuller` crate.
//!
//! - [`message`]: what is sent.
//! - [`server`]: the trait to implement, and [`server::create_image_pull_service`] to register it.
//! - [`client`]: the calling side.

#[allow(
    missing_docs,
    missing_debug_implementations,
    clippy::allow_attributes_without_reason,
    clippy::unwrap_used,
    reason = "generated code; its documentation is the proto file"
)]
mod generated {
    include!(concat!(env!("OUT_DIR"), "/generated.rs"));
}

/// The messages of the service.
pub mod message {
    pub use crate::generated::image_pull::{ImagePullRequest, ImagePullResponse};
}

/// The side that pulls.
pub mod server {
    pub use crate::generated::image_pull_ttrpc::{ImagePullService, create_image_pull_service};
}

/// The side that asks.
pub mod client {
    pub use crate::generated::image_pull_ttrpc::ImagePullServiceClient;
}
