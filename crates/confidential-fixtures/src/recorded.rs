//! What real programs wrote and answered; `recorded/README.md` says which.

use std::path::Path;

use anyhow::{Context, Result};

/// The text of a recorded file: `sealed/vault-1.txt`.
///
/// # Errors
///
/// Where there is no such file.
pub fn recorded(name: &str) -> Result<String> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("recorded");
    std::fs::read_to_string(folder.join(name)).with_context(|| format!("failed to read {name}"))
}
