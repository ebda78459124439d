//! `kata-configdev update`.

use std::io::Write;
use std::path::{Path, PathBuf};

use clap::Args;
use config_image::Magic;
use serde_json::json;
use zeroize::Zeroizing;

use super::detach::RunRoot;
use super::finding::{self, Input};
use crate::cli::CommandError;
use crate::sandbox_id::SandboxId;
use crate::update::{UpdateError, Updated, update};
use crate::{SandboxError, exit};

/// Replaces the configuration of a running sandbox, for credentials that changed.
///
/// The image is rewritten where the hypervisor has it: a file (transport "file"). Images of the
/// other transports are sealed and cannot change. The disk keeps its size, so a document that needs
/// more is refused; attach --capacity and the settings reserve room. A document that is not valid
/// changes nothing.
///
/// The guest is not told. It reads the disk again when a pull fails for what a configuration
/// decides (initdata-processor refresh --listen).
#[derive(Args, Debug)]
#[command(
    verbatim_doc_comment,
    after_help = "\
Examples:
  kata-configdev update --sandbox-id 9d2c7e --config /etc/kata-configdev/imagepuller.toml
  decrypt-my-secret | kata-configdev update --sandbox-id 9d2c7e --config /dev/stdin
  kata-configdev update --sandbox-id 9d2c7e --empty"
)]
pub struct Arguments {
    /// The sandbox's id.
    #[arg(long, value_name = "ID")]
    sandbox_id: SandboxId,
    #[command(flatten)]
    content: Content,
    #[command(flatten)]
    run_root: RunRoot,
    /// Print one JSON object: sandbox_id, path, size, used, sha256, changed.
    #[arg(long)]
    json: bool,
}

/// What the disk holds afterwards.
#[derive(Args, Debug)]
#[group(required = true, multiple = false)]
struct Content {
    /// The new document.
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Take the configuration away: the guest then has none.
    #[arg(long)]
    empty: bool,
}

/// Updates, and prints what became of it.
pub fn run(arguments: &Arguments, out: &mut impl Write) -> Result<u8, CommandError> {
    let sandbox = &arguments.sandbox_id;
    let (run_root, transport) = arguments.run_root.resolve_with_transport()?;
    // Before anything is touched.
    let config = arguments.content.config.as_deref();
    let Some(image) = image(config)? else {
        return Ok(exit::DATA);
    };
    let updated = update(&run_root, sandbox, image).map_err(|error| match error {
        UpdateError::Nothing { path, .. } => UpdateError::Nothing { path, transport },
        other => other,
    })?;
    let Updated { path, size, used, sha256, changed } = updated;
    if arguments.json {
        let members = [
            ("sandbox_id", json!(sandbox.as_str())),
            ("path", json!(path)),
            ("size", json!(size)),
            ("used", json!(used)),
            ("sha256", json!(sha256)),
            ("changed", json!(changed)),
        ];
        super::print_object(out, members)?;
        return Ok(0);
    }
    let outcome = if changed { "updated" } else { "unchanged" };
    writeln!(out, "{}: {outcome}, {used} of {size} bytes used, sha256 {sha256}", path.display())?;
    Ok(0)
}

/// The image of the document `config`, or of none; nothing where the document is not valid, which
/// is told on standard error.
fn image(config: Option<&Path>) -> Result<Option<Zeroizing<Vec<u8>>>, CommandError> {
    let Some(config) = config else {
        return pack(&[]).map(Some);
    };
    let input = Input::read(config)?;
    // A file that somebody is just about to write must not take all credentials away.
    if input.text.is_empty() {
        return Err(CommandError::UpdateEmpty(config.into()));
    }
    match finding::is_valid(&input, config, "nothing was changed")? {
        true => pack(&input.text).map(Some),
        false => Ok(None),
    }
}

fn pack(document: &[u8]) -> Result<Zeroizing<Vec<u8>>, CommandError> {
    Ok(config_image::encode(Magic::IMAGEPULLER, document).map_err(SandboxError::from)?)
}
