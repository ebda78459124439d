//! Verified image configurations: for which platform an image is, and what its layers are when they
//! are plain.

use foreign_text::shown;
use serde::Deserialize;

use crate::digest::Digest;
use crate::invalid::InvalidDocument;
use crate::json::{self, Names};
use crate::manifest::{MAX_CONFIG_BYTES, check_length};
use crate::platform::Platform;

const NAMES: Names = Names {
    known: &[
        "os",
        "architecture",
        "variant",
        "os.features",
        "config",
        "rootfs",
        "type",
        "diff_ids",
    ],
    nested: &["rootfs"],
};

/// What a pull needs of an image's configuration. The rest (entry point, environment, user) is for
/// who runs the image.
#[derive(Debug)]
pub struct ImageConfig {
    /// The platform that the image is for; the fields that it leaves out are empty.
    pub platform: Platform,
    /// The digests of the plain layers, lowest first.
    pub diff_ids: Vec<Digest>,
}

#[derive(Deserialize)]
struct RawConfig {
    rootfs: RawRootfs,
}

#[derive(Deserialize)]
struct RawRootfs {
    #[serde(rename = "type")]
    kind: String,
    diff_ids: Vec<Digest>,
}

impl ImageConfig {
    /// Reads the configuration of an image of so many layers.
    ///
    /// # Errors
    ///
    /// [`InvalidDocument`].
    pub fn parse(text: &[u8], layers: usize) -> Result<Self, InvalidDocument> {
        check_length(text, MAX_CONFIG_BYTES)?;
        let unreadable = InvalidDocument::Unreadable;
        let raw: RawConfig = json::read(text, &NAMES).map_err(unreadable)?;
        // The platform's fields stand beside the others.
        let platform: Platform = json::read(text, &NAMES).map_err(unreadable)?;
        if raw.rootfs.kind != "layers" {
            return Err(InvalidDocument::Content(format!(
                "has a root file system of type {} instead of layers",
                shown(&raw.rootfs.kind).quoted()
            )));
        }
        let count = raw.rootfs.diff_ids.len();
        if count != layers {
            return Err(InvalidDocument::Content(format!(
                "names {count} layers, and the manifest {layers}"
            )));
        }
        Ok(Self { platform, diff_ids: raw.rootfs.diff_ids })
    }
}
