//! Reading a list: entirely, or only whose it is, which every version understands.

use serde::Deserialize;

use super::{FORMAT, Listed, MAX_MANIFEST_BYTES, NAME};
use crate::node::Directory;
use crate::owner::Owner;
use crate::{Error, HostPath};

/// As much of a list as every version understands.
#[derive(Deserialize)]
struct Form {
    #[serde(default)]
    format: u32,
    /// Whatever form it has.
    #[serde(default)]
    owner: Option<serde_json::Value>,
}

/// Whose a list is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Claim {
    /// There is none.
    Absent,
    Own,
    Others,
    Nobodys,
}

/// Whether the list in `prefix`, which is open as `directory`, is that of `owner`. Asks no more of
/// it than what every version understands, and changes nothing.
pub(crate) fn claim(
    prefix: &HostPath,
    directory: &Directory,
    owner: &Owner,
) -> Result<Claim, Error> {
    let unusable = |reason: String| Error::Manifest {
        path: prefix.join(NAME),
        reason,
    };
    let text = directory.read(NAME, MAX_MANIFEST_BYTES);
    let Some(text) = text.map_err(|error| unusable(error.to_string()))? else {
        return Ok(Claim::Absent);
    };
    let form: Form = serde_json::from_slice(&text).map_err(|error| unusable(damaged(&error)))?;
    let own = String::from(owner.clone());
    Ok(match form.owner {
        None => Claim::Nobodys,
        Some(found) if found == own => Claim::Own,
        Some(_) => Claim::Others,
    })
}

pub(super) fn parse(text: &[u8]) -> Result<Listed, String> {
    let form: Form = serde_json::from_slice(text).map_err(|error| damaged(&error))?;
    if form.format > FORMAT {
        return Err(format!(
            "a newer version wrote it, in format {}; this one knows {FORMAT} at most",
            form.format
        ));
    }
    serde_json::from_slice(text).map_err(|error| damaged(&error))
}

fn damaged(error: &serde_json::Error) -> String {
    let (line, column) = (error.line(), error.column());
    format!("it is damaged at line {line}, column {column}")
}
