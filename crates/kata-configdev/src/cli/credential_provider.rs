//! `kata-configdev credential-provider`.

use std::collections::BTreeMap;
use std::io::{self, Write};
use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use credential_sources::kubelet::protocol::{
    CacheKeyType, MAX_MESSAGE_BYTES, Pair, Request, Response,
};
use foreign_text::bounded::read_stream;
use registry_config::{Credentials, Document, Match, Registries, Registry, RegistryHost};

use super::config::SettingsFile;
use crate::SandboxError;
use crate::choice::{self, DocumentFile};
use crate::cli::{CommandError, UsageError};
use crate::node_root::NodeRoot;
use crate::sandbox_spec::Pod;
use crate::settings::Settings;

/// Answers the kubelet as one of its credential-provider plugins, from the document of this node.
///
/// So the host's kubelet pulls with the same credentials as the guests. The question comes on
/// standard input, the answer goes to standard output; both are JSON of
/// credentialprovider.kubelet.k8s.io, in the version that the kubelet uses. An image whose registry
/// the document gives no password gets an answer without credentials.
///
/// The answer is the user name and password of the entry that holds for the image's registry.
/// Identity and registry tokens have no place in the protocol, and the credentials of an entry
/// whose mirror has none of its own are the mirror's: of such entries nothing is answered.
///
/// To install it, link it into the kubelet's plugin directory under this command's name, so that
/// the kubelet's configuration can say:
///
///   apiVersion: kubelet.config.k8s.io/v1
///   kind: CredentialProviderConfig
///   providers:
///   - name: kata-configdev
///     apiVersion: credentialprovider.kubelet.k8s.io/v1
///     matchImages: ["registry.corp", "*.registry.corp"]
///     defaultCacheDuration: 0s
///     args: [credential-provider]
#[derive(Args, Debug)]
#[command(
    verbatim_doc_comment,
    after_help = "\
Example:
  echo '{\"kind\":\"CredentialProviderRequest\",\"apiVersion\":\"credentialprovider.kubelet.k8s.io/v1\",\"image\":\"registry.corp/app\"}' |
    kata-configdev credential-provider --config imagepuller.toml
This prints a password."
)]
pub struct Arguments {
    /// The document, a path or a pattern [default: document of the settings].
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    #[command(flatten)]
    settings: SettingsFile,
}

/// Reads the question and prints the answer.
pub fn run(arguments: &Arguments, out: &mut impl Write) -> Result<u8, CommandError> {
    let refused = |rule: &dyn std::fmt::Display| CommandError::ProviderRequest(rule.to_string());
    let text =
        read_stream(io::stdin().lock(), MAX_MESSAGE_BYTES).map_err(|fault| refused(&fault))?;
    let request = Request::parse(&text).map_err(|error| refused(&error))?;
    let registries = registries(arguments)?;
    let response = answer(&request.image, &registries);
    out.write_all(&response.to_bytes(request.version))?;
    Ok(out.flush().map(|()| 0)?)
}

fn registries(arguments: &Arguments) -> Result<Registries, CommandError> {
    let settings = match &arguments.config {
        Some(config) => Settings { document: Some(config.clone()), ..Settings::default() },
        None => Settings::load(&arguments.settings.path())?,
    };
    // The kubelet does not say whose pod it pulls for.
    if let Some(path) = settings.document.as_ref().filter(|_| settings.is_by_namespace()) {
        return Err(UsageError::WhoseDocument(path.clone()).into());
    }
    let chosen = choice::choose(&NodeRoot::open(None)?, &settings, &Pod::default())?;
    let Some(DocumentFile { path, text, .. }) = chosen else {
        return Ok(Registries::default());
    };
    let document = match Document::parse(&text) {
        Ok(checked) => checked.document,
        Err(problems) => return Err(SandboxError::Document { path, problems }.into()),
    };
    // An empty answer would make the kubelet pull anonymously.
    match document.node_error {
        Some(reason) => Err(CommandError::NodeError { path, reason }),
        None => Ok(document.registries),
    }
}

/// What the document says about the registry of `image`, for every image of that registry. Not to
/// be kept: the document is at hand, and may have changed the next time.
fn answer(image: &str, registries: &Registries) -> Response {
    let name = image.split('/').next().unwrap_or_default();
    let pair = RegistryHost::parse(name).ok().and_then(|host| match registries.entry_for(&host) {
        Match::Entry { entry, .. } => pair(entry, registries),
        Match::Defaults => None,
    });
    Response {
        cache_key_type: CacheKeyType::Registry,
        cache_duration: Some(Duration::ZERO),
        // As the kubelet wrote it, because it compares it as text.
        auth: pair.map_or_else(BTreeMap::new, |pair| [(name.to_owned(), pair)].into()),
    }
}

/// The user name and password that an entry has for its registry.
fn pair(entry: &Registry, registries: &Registries) -> Option<Pair> {
    let lent =
        entry.mirrors.iter().any(|mirror| registries.literal_entry_for(mirror.host()).is_none());
    match &entry.credentials {
        Credentials::Basic { username, password } if !lent => Some(Pair {
            username: username.clone().into(),
            password: password.expose().to_owned().into(),
        }),
        _ => None,
    }
}
