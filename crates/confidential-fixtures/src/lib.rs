//! Tests only: encrypted images, and the services that give a guest their keys.
//!
//! The servers speak the documented protocols as well-behaved ones do, by code of their own, whose
//! framing is written by hand. They remember what they were asked.
//!
//! Not here: hostile answers; the client's own tests have those.
//!
//! - [`Vault`]: secrets by their path, and the file that has them all.
//! - [`DataHub`]: `api.GetResourceService` over ttrpc.
//! - [`AttestationAgent`]: the event log, over ttrpc.
//! - [`recorded`]: what the real programs wrote and answered.
//! - [`encrypted`]: images encrypted by `skopeo`, and what an attacker makes of them.
//! - [`signed`]: signatures of images.

mod attestation_agent;
mod data_hub;
pub mod encrypted;
mod key_provider;
mod peer;
mod recorded;
pub mod signed;
mod vault;

#[cfg(test)]
mod tests;

pub use attestation_agent::{AttestationAgent, EventLog};
pub use data_hub::DataHub;
pub use recorded::{recorded, recorded_bytes, recorded_call, recorded_path};
pub use vault::Vault;

use std::fs::File;
use std::io::Read as _;

use anyhow::{Context, Result};

/// Random bytes of the kernel's.
pub(crate) fn random<const N: usize>() -> Result<[u8; N]> {
    let mut bytes = [0; N];
    File::open("/dev/urandom")
        .and_then(|mut file| file.read_exact(&mut bytes))
        .context("failed to read random bytes")?;
    Ok(bytes)
}
