//! `api.GetResourceService` over ttrpc: `ResourcePath` = 1 and `Resource` = 1.

use std::os::unix::net::UnixStream;
use std::path::Path;

use anyhow::Result;
use vm_harness::ttrpc::{call, field, fields, put};

/// The service and its method.
pub(super) const SERVICE: &str = "api.GetResourceService";
pub(super) const METHOD: &str = "GetResource";

/// Asks a data hub at this socket for a resource.
///
/// # Errors
///
/// What the data hub says, or that it is none.
pub fn ask(socket: &Path, uri: &str) -> Result<Vec<u8>> {
    let mut stream = UnixStream::connect(socket)?;
    let mut payload = Vec::new();
    put(&mut payload, 1, uri.as_bytes());
    let answer = call(&mut stream, SERVICE, METHOD, &payload)?;
    Ok(field(&fields(&answer)?, 1))
}
