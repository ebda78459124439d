//! How a guest proves to a key broker what it is.

use std::fmt;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};
use thiserror::Error;

/// A trusted execution environment that vouches for bytes of the guest's choice.
pub trait Attester: Send + Sync + fmt::Debug {
    /// What `kbs-attester` of `[resources]` calls it.
    fn name(&self) -> &'static str;

    /// What the protocol calls the environment, such as `tdx`.
    fn tee(&self) -> &'static str;

    /// Evidence in the broker's format that holds `report_data`, a hash of 32 to 64 bytes. It is
    /// called on a thread where it may wait.
    ///
    /// # Errors
    ///
    /// Why there is none.
    fn evidence(&self, report_data: &[u8]) -> Result<Value, AttesterError>;
}

/// Why there is no evidence.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{0}")]
pub struct AttesterError(pub String);

/// The `sample` environment, which proves nothing: for tests, and for brokers that are told to
/// believe it. A broker's own policy does not.
#[derive(Clone, Copy, Debug, Default)]
pub struct Sample;

impl Attester for Sample {
    fn name(&self) -> &'static str {
        "sample"
    }

    fn tee(&self) -> &'static str {
        "sample"
    }

    fn evidence(&self, report_data: &[u8]) -> Result<Value, AttesterError> {
        Ok(json!({ "svn": "1", "report_data": STANDARD.encode(report_data) }))
    }
}
