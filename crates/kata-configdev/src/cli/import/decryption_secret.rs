//! `kata-configdev import decryption-secret`.

use std::fs::{File, read_dir};
use std::path::{Path, PathBuf};

use clap::Args;
use credential_sources::decryption_secret::{
    Imported, MAX_VALUE_BYTES, MAX_VALUES, Source, Values, import, prefix,
};
use credential_sources::secret_manifest::MAX_MANIFEST_BYTES;
use foreign_text::bounded::read_file;
use registry_config::RegistryName;
use serde_json::json;
use zeroize::Zeroizing;

use super::outcome::{self, Options, label};
use crate::cli::CommandError;
use crate::host_file::{FileFault, read_named};

/// Makes a document of the keys that encrypted images are opened with.
///
/// A file may be a private key (PEM, DER, JWK), the list base64(key)[:password] with commas
/// between, or manifests of secrets in YAML or JSON whose values are such keys or lists; a
/// directory is read as a secret that is mounted there. Where a secret has a value NAME.password
/// beside NAME, it is the password of that key. A password in a list is read as base64, and as it
/// stands where that does not open the key. Each key is tried, and what it is goes to standard
/// error, or why it is left out.
///
/// Keys are for every image, unless --for or the annotation "images" of their secret says
/// otherwise.
///
/// The document holds the keys: --output keeps it from other users. A node has it, so that they
/// protect images against the registry and its readers, not against the node.
#[derive(Args, Debug)]
#[command(
    verbatim_doc_comment,
    after_help = "\
Examples:
  kata-configdev import decryption-secret --output imagepuller.toml image-key.pem
  kubectl get secret image-keys -o yaml |
    kata-configdev import decryption-secret --into imagepuller.toml -
  kata-configdev import decryption-secret --into imagepuller.toml --strict \\
    --for registry.corp/team-a /run/secrets/image-keys"
)]
pub struct Arguments {
    /// The files and directories, or "-" for standard input.
    #[arg(required = true, value_name = "FILE")]
    pub files: Vec<PathBuf>,
    /// The keys are for the images of this host, or of its repositories below a prefix
    /// (registry.corp/team-a), whatever their secrets say; may be given several times.
    #[arg(long = "for", value_name = "PREFIX", value_parser = prefix)]
    images: Vec<RegistryName>,
    #[command(flatten)]
    pub options: Options,
}

/// What was read from one place.
enum Content {
    File(Zeroizing<Vec<u8>>),
    Directory(Values),
}

impl Arguments {
    pub fn read(&self) -> Result<outcome::Imported, CommandError> {
        self.options.target.require(&self.files)?;
        let contents = self.files.iter().map(|path| Ok((label(path), content(path)?)));
        let contents: Vec<_> = contents.collect::<Result<_, CommandError>>()?;
        let sources = contents.iter().map(|(name, content)| match content {
            Content::File(text) => Source::File { name, text },
            Content::Directory(values) => Source::Mounted { name, values },
        });
        let Imported { keys, findings, faults, .. } =
            import(&sources.collect::<Vec<_>>(), &self.images);
        let sources = keys.iter().map(|key| key.source.as_str());
        let more = json!({"keys": sources.collect::<Vec<_>>()});
        // A document to which nothing is added is one all the same; a warning says so.
        let is_empty = keys.is_empty() && self.options.target.into.is_none();
        let content = outcome::Content::Keys(keys);
        Ok(outcome::Imported { content, is_empty, findings, faults, more })
    }
}

fn content(path: &Path) -> Result<Content, CommandError> {
    if !path.is_dir() {
        return Ok(Content::File(read_named(path, MAX_MANIFEST_BYTES)?));
    }
    let values = directory(path).map_err(|fault| fault.at(path))?;
    Ok(Content::Directory(values))
}

/// Reads a secret as the kubelet mounts it: the values are links, and what begins with two dots is
/// the kubelet's own.
fn directory(path: &Path) -> Result<Values, FileFault> {
    let mut values = Values::new();
    for entry in read_dir(path)? {
        let name = entry?.file_name();
        let name = name.to_string_lossy();
        if name.starts_with("..") {
            continue;
        }
        let file = path.join(&*name);
        if !file.is_file() {
            continue;
        }
        if values.len() == 2 * MAX_VALUES {
            return Err(FileFault::TooManyEntries(2 * MAX_VALUES));
        }
        let value = read_file(File::open(file)?, MAX_VALUE_BYTES)?;
        values.insert(name.into_owned(), value);
    }
    Ok(values)
}
