//! The data hub's REST gateway on the guest's loopback interface: `GET
//! /cdh/resource/REPOSITORY/TYPE/TAG`.
//!
//! It takes no queries and no plugins, and answers 200 with the bytes, 403 to others than loopback,
//! 404 where the feature is off, and 500 for every failure of the hub, a resource that is not there
//! included.

use puller_config::ResourceUri;
use reqwest::StatusCode;
use reqwest::header::CONTENT_TYPE;
use url::Url;
use zeroize::Zeroizing;

use crate::MAX_RESOURCE_BYTES;
use crate::error::Fault;
use crate::http::{self, Http};

/// What the gateway's answers are.
const BYTES: &str = "application/octet-stream";

/// One gateway.
#[derive(Debug)]
pub struct Gateway {
    http: Http,
    address: Url,
}

impl Gateway {
    /// The gateway at an address, of which only scheme, host and port matter.
    pub fn new(http: Http, address: Url) -> Self {
        Self { http, address }
    }

    /// Asks for a resource.
    pub async fn fetch(&self, uri: &ResourceUri) -> Result<Zeroizing<Vec<u8>>, Fault> {
        if uri.plugin() != "resource" || uri.query().is_some() {
            return Err(Fault::Plugin);
        }
        let url = http::at(
            &self.address,
            &format!("/cdh/resource/{}", uri.path()),
            None,
        );
        let answer = self
            .http
            .send(self.http.get(url), MAX_RESOURCE_BYTES)
            .await?;
        if answer.status != StatusCode::OK {
            return Err(Fault::Status {
                status: answer.status.as_u16(),
                hint: hint(answer.status),
            });
        }
        // A page that somebody else serves at this port is not a secret.
        let media_type = answer.headers.get(CONTENT_TYPE);
        if media_type.is_some_and(|media_type| media_type != BYTES) {
            return Err(Fault::Answer {
                rule: "is no application/octet-stream, so it does not come from the data hub's \
                gateway",
            });
        }
        Ok(answer.body)
    }
}

fn hint(status: StatusCode) -> &'static str {
    match status {
        StatusCode::FORBIDDEN => "the gateway serves the guest's loopback interface only",
        StatusCode::NOT_FOUND => {
            "the gateway serves no resources, or something else listens at its port"
        }
        StatusCode::INTERNAL_SERVER_ERROR => {
            "the data hub did not get the resource, or there is none of this name; the hub's own \
            log says why"
        }
        _ => "that is none of the gateway's answers; does something else listen at its port?",
    }
}
