//! `kata-configdev pack`.

use std::io::Write;
use std::path::Path;

use config_image::Magic;
use serde_json::json;

use super::finding::{self, Input};
use crate::cli::{CommandError, UsageError};
use crate::digest;
use crate::{SandboxError, exit, image_file};

/// Packs the document `config` into the image `output`. A document that is not valid is refused as
/// by `check`, and nothing is written. The document itself is refused as output: it may be the only
/// copy.
pub fn run(
    config: &Path,
    output: &Path,
    json: bool,
    out: &mut impl Write,
) -> Result<u8, CommandError> {
    let input = Input::read(config)?;
    if std::fs::symlink_metadata(output).is_ok_and(|found| input.is(&found)) {
        return Err(UsageError::OutputIsDocument(output.into()).into());
    }
    if !finding::is_valid(&input, config, "nothing was written")? {
        return Ok(exit::DATA);
    }
    let image =
        config_image::encode(Magic::IMAGEPULLER, &input.text).map_err(SandboxError::from)?;
    image_file::write(output, &image).map_err(CommandError::output)?;
    let (path, bytes, sha256) = (output.to_string_lossy(), image.len(), digest::sha256(&image));
    if json {
        let text = &input.text;
        let document = json!({"bytes": text.len(), "sha256": digest::sha256(text)});
        let members = [
            ("path", json!(path)),
            ("bytes", json!(bytes)),
            ("sha256", json!(sha256)),
            ("document", document),
        ];
        super::print_object(out, members)?;
    } else {
        writeln!(out, "{path}: {bytes} bytes, sha256 {sha256}")?;
    }
    Ok(0)
}
