//! The ttrpc service definitions between Kata's agent, the image puller, the confidential data hub
//! and the attestation agent.
//!
//! The wire is Kata's and must not change: package `api`, service `ImagePullService`, method
//! `PullImage`. Both sides of it are here, [`client::ImagePullServiceClient`] and
//! [`server::ImagePullService`], generated from `proto/image_pull.proto` (`tests/generated.rs`).
//! What happens on a call is not here but in the `imagepuller` crate. A second service, package
//! `configdev`, is this project's own: the command line asks a running service about its pulls with
//! it. The others are those of programs that the puller asks: two of the hub, for what only the
//! guest may see and for layers' keys, and that of the attestation agent, which keeps the event
//! log.
//!
//! - [`message`]: what is sent.
//! - [`server`]: the traits to implement, and how to register them, such as
//!   [`server::create_image_pull_service`].
//! - [`client`]: the calling side.

#[allow(
    missing_docs,
    missing_debug_implementations,
    clippy::allow_attributes_without_reason,
    clippy::unwrap_used,
    reason = "generated code; its documentation is the proto file"
)]
mod generated;

/// The messages of the services.
pub mod message {
    pub use crate::generated::attestation_agent::{
        ExtendRuntimeMeasurementRequest, ExtendRuntimeMeasurementResponse, RuntimeMeasurementResult,
    };
    pub use crate::generated::get_resource::{GetResourceRequest, GetResourceResponse};
    pub use crate::generated::image_pull::{ImagePullRequest, ImagePullResponse};
    pub use crate::generated::image_store::{StatusRequest, StatusResponse};
    pub use crate::generated::key_provider::{
        KeyProviderKeyWrapProtocolInput, KeyProviderKeyWrapProtocolOutput,
    };
}

/// The side that pulls and keeps, and the hub's.
pub mod server {
    pub use crate::generated::get_resource_ttrpc::{
        GetResourceService, create_get_resource_service,
    };
    pub use crate::generated::image_pull_ttrpc::{ImagePullService, create_image_pull_service};
    pub use crate::generated::image_store_ttrpc::{ImageStoreService, create_image_store_service};
}

/// The side that asks.
pub mod client {
    pub use crate::generated::get_resource_ttrpc::GetResourceServiceClient;
    pub use crate::generated::image_pull_ttrpc::ImagePullServiceClient;
    pub use crate::generated::image_store_ttrpc::ImageStoreServiceClient;
}
