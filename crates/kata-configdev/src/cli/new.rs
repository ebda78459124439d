//! `kata-configdev new`.

mod entry;

use std::io::{self, Write};
use std::path::{Path, PathBuf};

use clap::{ArgGroup, Args};
use credential_sources::Offer;
use credential_sources::registry_file::{self, MAX_CA_FILE_BYTES};
use foreign_text::bounded::read_stream;
use foreign_text::one_line;
use registry_config::credential_rule::without_line_end;
use registry_config::{Credentials, Document, MAX_CREDENTIAL_BYTES, RegistryName, Roots, Secret};
use zeroize::Zeroizing;

use super::finding::{self, Input};
use super::import::outcome::{self, label};
use crate::choice::DocumentText;
use crate::cli::{CommandError, UsageError};
use crate::host_file::{FileFault, read_named};
use crate::{exit, image_file};

/// Writes the first document, or adds a registry to one: an account, its certificate authorities.
///
/// The password is read from standard input; no argument takes one. CA certificates stand in the
/// document itself, because guests have no files of the node. What `check` would warn about goes to
/// standard error.
///
/// Without --output the document goes to standard output, with the password: umask 077 keeps the
/// file that it is written to from other users.
#[derive(Args, Debug)]
#[command(
    verbatim_doc_comment,
    group(ArgGroup::new("content").required(true).multiple(true).args(["user", "ca"])),
    after_help = "\
Examples:
  pass show registry.corp | kata-configdev new --registry registry.corp --user puller \\
    --password-stdin --ca /etc/ssl/corp.pem --output imagepuller.toml
  pass show quay.io | kata-configdev new --into imagepuller.toml --registry quay.io/team \\
    --user team+robot --password-stdin --output imagepuller.toml
  kata-configdev new --registry . --ca /etc/ssl/corp-proxy.pem > imagepuller.toml"
)]
pub struct Arguments {
    /// The registry, as in registry.corp, registry.corp:5000 or quay.io/team; .corp is every host
    /// below corp, and "." every host.
    #[arg(long, value_name = "NAME")]
    registry: String,
    /// The account's user name.
    #[arg(long, value_name = "USER", requires = "password_stdin")]
    user: Option<String>,
    /// Read the account's password from standard input, up to its end; a line end there is not part
    /// of it, unless there are more: then the password is a file, such as Google's key.json.
    #[arg(long, requires = "user")]
    password_stdin: bool,
    /// The PEM certificates in this file are all that is trusted at the registry, instead of the
    /// web's; "-" for standard input.
    #[arg(long, value_name = "FILE")]
    ca: Option<PathBuf>,
    /// Add the registry to this document and write it anew, without comments, instead of beginning
    /// a new one.
    #[arg(long, value_name = "DOCUMENT")]
    into: Option<PathBuf>,
    /// Write the document to this file, mode 0600. A file that is there is replaced only if it is
    /// that of --into.
    #[arg(long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Replace the file of --output, whatever it is.
    #[arg(long, requires = "output")]
    force: bool,
}

/// Writes the document that `arguments` describe.
pub fn run(arguments: &Arguments, out: &mut impl Write) -> Result<u8, CommandError> {
    let name = RegistryName::parse(&arguments.registry);
    let name = name.map_err(|rule| {
        let rule = rule.to_string();
        // Some say what to write instead, which is said of all.
        let fault = rule.split(": write").next().unwrap_or_default();
        UsageError::RegistryName(fault.to_owned())
    })?;
    arguments.require_output()?;
    let password = arguments.password_stdin.then(|| PathBuf::from("-"));
    let inputs: Vec<PathBuf> = arguments.ca.iter().cloned().chain(password).collect();
    outcome::require_one_stdin(&inputs, arguments.into.as_ref())?;

    let Some(before) = before(arguments.into.as_deref())? else {
        return Ok(exit::DATA);
    };
    let mut text = before;
    if let Some(path) = &arguments.ca {
        text = entry::with_roots(&text, &name, certificates(path)?)?;
    }
    if let Some(user) = &arguments.user {
        let offer = Offer {
            name: name.written(),
            offered: Credentials::Basic { username: user.clone(), password: password_of_stdin()? },
            source: "the account".into(),
        };
        text = entry::with_account(&text, &offer)?;
    }
    let input = Input::of(text, None);
    let target = arguments.output.as_deref();
    let told = target.unwrap_or(Path::new("the new document"));
    if !finding::is_valid(&input, told, "nothing was written")? {
        return Ok(exit::DATA);
    }
    match target {
        Some(path) => image_file::write(path, &input.text).map_err(CommandError::output)?,
        None => out.write_all(&input.text)?,
    }
    Ok(0)
}

impl Arguments {
    /// Requires that nothing is lost by the output.
    fn require_output(&self) -> Result<(), UsageError> {
        match &self.output {
            Some(path) if !self.force && self.into.as_ref() != Some(path) => {
                let is_there = path.symlink_metadata().is_ok();
                let lost = is_there.then(|| UsageError::OutputExists(path.clone()));
                lost.map_or(Ok(()), Err)
            }
            _ => Ok(()),
        }
    }
}

/// The document that is added to; `None` where it is not valid, which is told.
fn before(path: Option<&Path>) -> Result<Option<DocumentText>, CommandError> {
    let Some(path) = path else {
        return Ok(Some(Zeroizing::new(Vec::new()).into()));
    };
    let input = Input::read(path)?;
    match Document::parse(&input.text) {
        Ok(_) => Ok(Some(input.text)),
        Err(problems) => {
            let mut err = io::stderr();
            let path = label(path);
            finding::print(&mut err, Path::new(&path), "", &input.findings(&problems))?;
            writeln!(err, "{path}: not valid, nothing was written")?;
            Ok(None)
        }
    }
}

/// The certificates of a file; what else is in it is told.
fn certificates(path: &Path) -> Result<Roots, CommandError> {
    let bytes = read_named(path, MAX_CA_FILE_BYTES)?;
    let unread =
        |reason: &str| CommandError::Certificates { path: path.into(), reason: reason.to_owned() };
    let (roots, count) = registry_file::certificates(&bytes).map_err(unread)?;
    if count > 0 {
        let note = format!(
            "{}: note: what is no certificate is left out: {count} of its blocks",
            label(path)
        );
        writeln!(io::stderr(), "{}", one_line(&note))?;
    }
    Ok(roots)
}

/// The password, without the line end of an editor or of `echo` behind a single line.
fn password_of_stdin() -> Result<Secret, CommandError> {
    let unread = |fault: FileFault| fault.at("standard input");
    let bytes = read_stream(io::stdin().lock(), MAX_CREDENTIAL_BYTES + "\r\n".len())
        .map_err(|error| unread(error.into()))?;
    let text = str::from_utf8(without_line_end(&bytes))
        .map_err(|_| CommandError::Password("is not UTF-8 text"))?;
    if text.is_empty() {
        return Err(CommandError::Password("is empty"));
    }
    Ok(Zeroizing::new(text.to_owned()).into())
}
